/* fuzz_cluster.c - what strangers may write under our prefix, in whatever order a watch shows it.  Who
 * watched all of it sees the same as who reads what is there in the end.
 *
 * The input: lines "+KEY VALUE" (put) and "-KEY" (deleted), KEY without the prefix.  An empty line ends a
 * batch of events.  A batch whose first line is "!" is a reset: what it puts is all there is. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/cluster.h"

#define LINES_MAX 64
#define BOOT_MS 5000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct store {
    struct etcd_kv kvs[LINES_MAX]; /* key and value point into the input */
    size_t n;
};

static void store_put(struct store *store, char *key, char *value, size_t value_len) {
    size_t i = 0;

    while (i < store->n && strcmp(store->kvs[i].key, key) != 0)
        i++;
    if (i == store->n)
        store->n++;
    store->kvs[i] = (struct etcd_kv){.key = key,
                                     .value = value,
                                     .value_len = value_len,
                                     .create_revision = 1,
                                     .mod_revision = 1,
                                     .lease = 7};
}

static void store_delete(struct store *store, const char *key) {
    for (size_t i = 0; i < store->n; i++) {
        if (strcmp(store->kvs[i].key, key) == 0) {
            store->kvs[i] = store->kvs[--store->n];
            return;
        }
    }
}

/* A line as an event, and what it does to the store.  Works in place; false when it is none. */
static bool read_line(char *line, size_t len, const struct keys *keys, struct store *store,
                      char (*room)[KEY_MAX], struct etcd_event *event) {
    char *blank = memchr(line, ' ', len);
    size_t key_len = (blank ? (size_t)(blank - line) : len) - 1;

    if (key_len == 0 || key_len >= KEY_MAX - strlen(keys->prefix) ||
        memchr(line + 1, '\0', key_len))
        return false;
    strcpy(*room, keys->prefix);
    strncat(*room, line + 1, key_len);
    *event = (struct etcd_event){.key = *room, .mod_revision = 1, .lease = 7};
    if (line[0] == '+' && blank) {
        event->kind = ETCD_EVENT_PUT;
        event->value = blank + 1;
        event->value_len = len - key_len - 2;
        store_put(store, *room, blank + 1, event->value_len);
        return true;
    }
    if (line[0] != '-')
        return false;
    event->kind = ETCD_EVENT_DELETE;
    store_delete(store, *room);
    return true;
}

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static const struct member *find(const struct cluster *cluster, const char *instance) {
    for (size_t i = 0; i < cluster->n_members; i++) {
        if (strcmp(cluster->members[i]->instance, instance) == 0)
            return cluster->members[i];
    }
    return NULL;
}

static void same_view(const struct cluster *a, const struct cluster *b) {
    assert(a->has_meta == b->has_meta && same_text(a->meta_value, b->meta_value));
    assert(a->has_ceil == b->has_ceil && (!a->has_ceil || a->ceil_ms == b->ceil_ms));
    assert(a->has_leader == b->has_leader && same_text(a->leader_value, b->leader_value));
    assert(a->n_members == b->n_members);
    for (size_t i = 0; i < a->n_members; i++) {
        const struct member *one = a->members[i], *other = find(b, one->instance);

        assert(other && one->has_node == other->has_node && one->node_read == other->node_read);
        assert(one->node.attempt == other->node.attempt);
        assert(!one->has_node || one->lease == other->lease);
        assert(same_text(one->assign_value, other->assign_value));
        assert(one->assign.attempt == other->assign.attempt);
        assert(one->has_node || one->assign_value);
    }
    for (size_t i = 0; i < MACHINE_IDS; i++) {
        const struct slot *one = &a->registry.slots[i], *other = &b->registry.slots[i];

        assert(one->held == other->held && same_text(one->own_value, other->own_value));
        assert(strcmp(one->own.claim, other->own.claim) == 0);
        assert(one->has_horizon == other->has_horizon);
        assert(!one->has_horizon || horizon_equal(&one->horizon, &other->horizon));
    }
}

/* Every slot is in exactly one state. */
static void count_slots(const struct cluster *cluster) {
    struct registry_counts counts;

    if (!cluster->has_meta)
        return;
    registry_count(&cluster->registry, &cluster->meta, cluster->meta.quiet_time_ms, 1764547200000,
                   &counts);
    assert(counts.held + counts.cooling + counts.free + counts.ahead + counts.reserved +
               counts.absent ==
           MACHINE_IDS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct etcd_event events[LINES_MAX + 1];
    static char names[LINES_MAX][KEY_MAX];
    char *text = malloc(size + 1);
    struct store store = {.n = 0};
    struct etcd_op_result all;
    struct error err;
    struct keys keys;
    static struct cluster *watched, *read; /* large, so they are kept and emptied */
    size_t n = 0, lines = 0;

    assert(text && keys_init(&keys, "default", &err) == STATUS_OK);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    if (!watched) {
        watched = cluster_new(&keys);
        read = cluster_new(&keys);
    }
    for (char *line = text, *next; line < text + size && lines < LINES_MAX; line = next) {
        char *end = memchr(line, '\n', (size_t)(text + size - line));
        size_t len = end ? (size_t)(end - line) : (size_t)(text + size - line);

        next = end ? end + 1 : text + size;
        line[len] = '\0';
        if (len == 0) {
            cluster_events(watched, events, n, BOOT_MS);
            n = 0;
        } else if (n == 0 && strcmp(line, "!") == 0) {
            store.n = 0;
            events[n++] = (struct etcd_event){.kind = ETCD_EVENT_RESET, .mod_revision = 1};
        } else if (read_line(line, len, &keys, &store, &names[lines], &events[n])) {
            lines++;
            n++;
        }
    }
    cluster_events(watched, events, n, BOOT_MS);
    all = (struct etcd_op_result){.kvs = store.kvs, .n_kvs = store.n, .count = (int64_t)store.n};
    cluster_read(read, &all, BOOT_MS);
    same_view(watched, read);
    count_slots(watched);
    all.n_kvs = 0;
    cluster_read(watched, &all, BOOT_MS);
    cluster_read(read, &all, BOOT_MS);
    assert(watched->n_members == 0 && !watched->has_meta);
    free(text);
    return 0;
}
