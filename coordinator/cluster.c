#include "coordinator/cluster.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"

struct cluster *cluster_new(const struct keys *keys) {
    struct cluster *cluster = allocate(1, sizeof *cluster);

    cluster->keys = *keys;
    registry_init(&cluster->registry);
    return cluster;
}

static void member_free(struct member *member) {
    free(member->assign_value);
    free(member);
}

void cluster_free(struct cluster *cluster) {
    if (!cluster)
        return;
    for (size_t i = 0; i < cluster->n_members; i++)
        member_free(cluster->members[i]);
    free(cluster->members);
    registry_done(&cluster->registry);
    free(cluster->meta_value);
    free(cluster->ceil_value);
    free(cluster->leader_value);
    free(cluster);
}

static void replace(char **kept, const char *value, size_t len) {
    free(*kept);
    *kept = value ? allocate_copy(value, len) : NULL;
}

static void apply_meta(struct cluster *cluster, const char *value, size_t len) {
    replace(&cluster->meta_value, value, len);
    cluster->has_meta = false;
    if (!value)
        error_set(&cluster->meta_error, STATUS_NOT_FOUND, "meta is missing");
    else if (meta_parse(value, len, &cluster->meta, &cluster->meta_error) == STATUS_OK)
        cluster->has_meta = true;
}

static void apply_ceil(struct cluster *cluster, const char *value, size_t len) {
    replace(&cluster->ceil_value, value, len);
    cluster->has_ceil = value && ceiling_parse(value, len, &cluster->ceil_ms);
}

static void apply_leader(struct cluster *cluster, const char *value, size_t len) {
    struct error unreadable; /* then nobody can be asked, and the key is in the way all the same */

    replace(&cluster->leader_value, value, len);
    cluster->has_leader = value &&
                          leader_parse(value, len, &cluster->leader, &unreadable) == STATUS_OK;
}

static struct member *find_member(struct cluster *cluster, const char *instance, bool create) {
    struct member *member;

    for (size_t i = 0; i < cluster->n_members; i++) {
        if (strcmp(cluster->members[i]->instance, instance) == 0)
            return cluster->members[i];
    }
    if (!create)
        return NULL;
    member = allocate(1, sizeof *member);
    memcpy(member->instance, instance, HEX128_CHARS);
    cluster->members = reallocate(cluster->members,
                                  (cluster->n_members + 1) * sizeof *cluster->members);
    cluster->members[cluster->n_members++] = member;
    return member;
}

void cluster_release(struct cluster *cluster, struct member *member) {
    if (member->busy > 0 || member->has_node || member->assign_value)
        return;
    for (size_t i = 0; i < cluster->n_members; i++) {
        if (cluster->members[i] == member) {
            cluster->members[i] = cluster->members[--cluster->n_members];
            member_free(member);
            return;
        }
    }
    assert(false); /* a member of another cluster */
}

static void apply_node(struct cluster *cluster, const char *instance, const char *value, size_t len,
                       int64_t lease) {
    struct member *member = find_member(cluster, instance, value != NULL);
    struct error unreadable; /* a worker of a later version: it is there, and asks for nothing */

    if (!member)
        return;
    member->node_applied = true;
    member->has_node = value != NULL;
    member->node_read = value && node_parse(value, len, &member->node, &unreadable) == STATUS_OK;
    member->lease = lease;
    if (!member->node_read)
        member->node = (struct node){.identity = ""};
    cluster_release(cluster, member);
}

static void apply_assign(struct cluster *cluster, const char *instance, const char *value,
                         size_t len) {
    struct member *member = find_member(cluster, instance, value != NULL);
    struct error unreadable;

    if (!member)
        return;
    member->assign_applied = true;
    replace(&member->assign_value, value, len);
    if (!value || assign_parse(value, len, &member->assign, &unreadable) != STATUS_OK)
        member->assign = (struct assign){.attempt = 0};
    cluster_release(cluster, member);
}

void cluster_apply(struct cluster *cluster, const char *key, const char *value, size_t value_len,
                   int64_t lease, uint64_t boot_ms) {
    const struct keys *keys = &cluster->keys;
    const char *instance;

    if (strcmp(key, keys->meta) == 0)
        apply_meta(cluster, value, value_len);
    else if (strcmp(key, keys->ceil) == 0)
        apply_ceil(cluster, value, value_len);
    else if (strcmp(key, keys->leader) == 0)
        apply_leader(cluster, value, value_len);
    else if ((instance = keys_instance(keys->node, key)))
        apply_node(cluster, instance, value, value_len, lease);
    else if ((instance = keys_instance(keys->assign, key)))
        apply_assign(cluster, instance, value, value_len);
    else
        registry_apply(&cluster->registry, keys, key, value, value_len, lease, boot_ms);
}

/* What is not applied between begin and end is gone.  The three single keys start as absent. */
static void reset_begin(struct cluster *cluster) {
    registry_reset_begin(&cluster->registry);
    for (size_t i = 0; i < cluster->n_members; i++)
        cluster->members[i]->node_applied = cluster->members[i]->assign_applied = false;
    apply_meta(cluster, NULL, 0);
    apply_ceil(cluster, NULL, 0);
    apply_leader(cluster, NULL, 0);
}

static void reset_end(struct cluster *cluster, uint64_t boot_ms) {
    registry_reset_end(&cluster->registry, boot_ms);
    for (size_t i = cluster->n_members; i-- > 0;) {
        struct member *member = cluster->members[i];

        /* Each call may free the member and move the last one, seen already, to its place. */
        member->busy++;
        if (!member->node_applied)
            apply_node(cluster, member->instance, NULL, 0, 0);
        if (!member->assign_applied)
            apply_assign(cluster, member->instance, NULL, 0);
        member->busy--;
        cluster_release(cluster, member);
    }
    cluster->complete = true;
}

void cluster_events(struct cluster *cluster, const struct etcd_event *events, size_t n,
                    uint64_t boot_ms) {
    bool resetting = false;

    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == ETCD_EVENT_RESET) {
            reset_begin(cluster);
            resetting = true;
            continue;
        }
        cluster_apply(cluster, events[i].key,
                      events[i].kind == ETCD_EVENT_PUT ? events[i].value : NULL,
                      events[i].value_len, events[i].lease, boot_ms);
    }
    if (resetting)
        reset_end(cluster, boot_ms);
}

void cluster_read(struct cluster *cluster, const struct etcd_op_result *all, uint64_t boot_ms) {
    reset_begin(cluster);
    for (size_t i = 0; i < all->n_kvs; i++) {
        const struct etcd_kv *kv = &all->kvs[i];

        cluster_apply(cluster, kv->key, kv->value, kv->value_len, kv->lease, boot_ms);
    }
    reset_end(cluster, boot_ms);
}
