#include <string.h>

#include "tests/support/fake_etcd_internal.h"

/* ---- changes ---- */

static void record_change(struct fake_etcd *etcd, enum etcd_event_kind kind, const char *key,
                          const char *value, int64_t revision, int64_t lease) {
    size_t i, j;

    FAKE_GROW(etcd->changes, etcd->n_changes, etcd->changes_room);
    etcd->changes[etcd->n_changes++] = (struct fake_change){
        .kind = kind,
        .key = fake_copy_text(key),
        .value = fake_copy_text(value),
        .revision = revision,
        .lease = lease,
    };
    for (i = 0; i < etcd->n_watches; i++)
        for (j = 0; etcd->watches[i]->client && j < etcd->watches[i]->n_ranges; j++)
            if (fake_in_range(key, etcd->watches[i]->ranges[j].key,
                              etcd->watches[i]->ranges[j].range_end))
                fake_watch_notice(etcd->watches[i]);
}

static void put(struct fake_etcd *etcd, const struct etcd_txn *txn, const char *key,
                const char *value, int64_t lease, int64_t revision) {
    struct fake_store *store = &etcd->now;
    struct etcd_kv *kv = fake_store_find(store, key);

    if (etcd->on_change)
        etcd->on_change(etcd->on_change_arg, txn, key, kv ? kv->value : NULL, value);
    if (kv) {
        free(kv->value);
    } else {
        size_t at = fake_store_seek(store, key);

        FAKE_GROW(store->kvs, store->n, store->room);
        memmove(&store->kvs[at + 1], &store->kvs[at], (store->n - at) * sizeof(*store->kvs));
        store->n++;
        kv = &store->kvs[at];
        *kv = (struct etcd_kv){.key = fake_copy_text(key), .create_revision = revision};
    }
    kv->value = fake_copy_text(value);
    kv->value_len = strlen(value);
    kv->mod_revision = revision;
    kv->lease = lease; /* 0 detaches it, as in the real one */
    record_change(etcd, ETCD_EVENT_PUT, key, value, revision, lease);
}

static void delete_at(struct fake_etcd *etcd, const struct etcd_txn *txn, size_t at,
                      int64_t revision) {
    struct fake_store *store = &etcd->now;
    struct etcd_kv kv = store->kvs[at];

    if (etcd->on_change)
        etcd->on_change(etcd->on_change_arg, txn, kv.key, kv.value, NULL);
    memmove(&store->kvs[at], &store->kvs[at + 1], (store->n - at - 1) * sizeof(*store->kvs));
    store->n--;
    record_change(etcd, ETCD_EVENT_DELETE, kv.key, NULL, revision, 0);
    free(kv.key);
    free(kv.value);
}

/* ---- leases ---- */

struct fake_lease *fake_lease_find(const struct fake_etcd *etcd, int64_t id) {
    size_t i;

    for (i = 0; i < etcd->leases.n; i++)
        if (etcd->leases.list[i].id == id)
            return &etcd->leases.list[i];
    return NULL;
}

bool fake_in_outage(const struct fake_etcd *etcd) {
    return etcd->world->now_us < etcd->outage_until_us;
}

void fake_lease_end(struct fake_etcd *etcd, struct fake_lease *lease) {
    int64_t id = lease->id, revision = etcd->now.revision + 1;
    size_t i = 0;

    *lease = etcd->leases.list[--etcd->leases.n];
    while (i < etcd->now.n) {
        if (etcd->now.kvs[i].lease == id) {
            delete_at(etcd, NULL, i, revision);
            etcd->now.revision = revision;
        } else {
            i++;
        }
    }
}

/* Never early, and mostly a little late. */
static void lease_check(void *arg, uint64_t tag) {
    struct fake_etcd *etcd = arg;
    struct fake_lease *lease = fake_lease_find(etcd, (int64_t)tag);
    uint64_t now_us = etcd->world->now_us;

    if (!lease)
        return;
    if (fake_in_outage(etcd))
        lease->ends_us = etcd->outage_until_us + (uint64_t)lease->ttl_s * etcd->lease_second_us;
    if (lease->ends_us <= now_us)
        fake_lease_end(etcd, lease);
    else
        fake_world_at(etcd->world,
                      lease->ends_us + fake_below(etcd->world, etcd->lease_second_us / 2),
                      lease_check, etcd, tag);
}

void fake_lease_renew(struct fake_etcd *etcd, struct fake_lease *lease) {
    lease->ends_us = etcd->world->now_us + (uint64_t)lease->ttl_s * etcd->lease_second_us;
}

void fake_etcd_grant(struct fake_etcd *etcd, int64_t lease_id, int64_t ttl_s) {
    struct fake_lease *lease;

    assert(!fake_lease_find(etcd, lease_id));
    FAKE_GROW(etcd->leases.list, etcd->leases.n, etcd->leases.room);
    lease = &etcd->leases.list[etcd->leases.n++];
    *lease = (struct fake_lease){.id = lease_id, .ttl_s = ttl_s};
    fake_lease_renew(etcd, lease);
    lease_check(etcd, (uint64_t)lease_id);
}

/* ---- transactions ---- */

static bool has_put(const struct etcd_op *ops, size_t n) {
    size_t i;

    for (i = 0; i < n; i++)
        if (ops[i].kind == ETCD_PUT)
            return true;
    return false;
}

static bool only_ranges(const struct etcd_op *ops, size_t n) {
    size_t i;

    for (i = 0; i < n; i++)
        if (ops[i].kind != ETCD_RANGE)
            return false;
    return true;
}

enum status fake_etcd_execute(struct fake_etcd *etcd, const struct etcd_txn *txn, bool stale,
                              struct etcd_txn_result **result) {
    struct etcd_txn_result *answer;
    const struct fake_store *store = &etcd->now;
    const struct etcd_op *ops;
    int64_t revision = etcd->now.revision + 1;
    size_t i, n;
    bool succeeded = true;

    /* With a put or delete in either list it goes through the log, even if not taken. */
    if (stale && etcd->remembers && only_ranges(txn->then, txn->n_then) &&
        only_ranges(txn->otherwise, txn->n_otherwise))
        store = &etcd->older;
    if (etcd->full &&
        (has_put(txn->then, txn->n_then) || has_put(txn->otherwise, txn->n_otherwise)))
        return STATUS_NO_SPACE;
    for (i = 0; i < txn->n_compares; i++)
        succeeded = succeeded && fake_store_holds(store, &txn->compares[i]);
    ops = succeeded ? txn->then : txn->otherwise;
    n = succeeded ? txn->n_then : txn->n_otherwise;
    assert(n > 0 && n <= ETCD_TXN_MAX_OPS);
    for (i = 0; i < n; i++)
        if (ops[i].kind == ETCD_PUT && ops[i].lease && !fake_lease_find(etcd, ops[i].lease))
            return STATUS_NOT_FOUND;
    for (i = 0; i < n; i++)
        if (ops[i].kind == ETCD_RANGE && ops[i].revision && ops[i].revision != store->revision)
            return STATUS_INVALID;

    answer = calloc(1, sizeof(*answer));
    assert(answer);
    answer->succeeded = succeeded;
    answer->n_results = n;
    answer->results = calloc(n, sizeof(*answer->results));
    assert(answer->results);
    for (i = 0; i < n; i++) {
        const struct etcd_op *op = &ops[i];

        if (op->kind == ETCD_RANGE) {
            fake_store_read(store, op, &answer->results[i]);
        } else if (op->kind == ETCD_PUT) {
            put(etcd, txn, op->key, op->value, op->lease, revision);
            etcd->now.revision = revision;
        } else {
            size_t at = fake_store_seek(&etcd->now, op->key);

            while (at < etcd->now.n &&
                   fake_in_range(etcd->now.kvs[at].key, op->key, op->range_end)) {
                delete_at(etcd, txn, at, revision);
                etcd->now.revision = revision;
                answer->results[i].count++;
            }
        }
    }
    answer->revision = store->revision;
    *result = answer;
    return STATUS_OK;
}

void fake_etcd_result_free(struct etcd_txn_result *result) {
    size_t i, j;

    if (!result)
        return;
    for (i = 0; i < result->n_results; i++) {
        for (j = 0; j < result->results[i].n_kvs; j++) {
            free(result->results[i].kvs[j].key);
            free(result->results[i].kvs[j].value);
        }
        free(result->results[i].kvs);
    }
    free(result->results);
    free(result);
}

/* ---- the server ---- */

struct fake_etcd *fake_etcd_new(struct fake_world *world) {
    struct fake_etcd *etcd = calloc(1, sizeof(*etcd));

    assert(etcd);
    etcd->world = world;
    etcd->now.revision = 1;
    etcd->lease_second_us = 1000000;
    return etcd;
}

void fake_etcd_free(struct fake_etcd *etcd) {
    size_t i;

    if (!etcd)
        return;
    for (i = 0; i < etcd->n_requests; i++)
        fake_request_free(etcd->requests[i]);
    for (i = 0; i < etcd->n_watches; i++)
        fake_watch_free(etcd->watches[i]);
    for (i = 0; i < etcd->n_clients; i++)
        free(etcd->clients[i]);
    for (i = 0; i < etcd->n_changes; i++) {
        free(etcd->changes[i].key);
        free(etcd->changes[i].value);
    }
    fake_store_clear(&etcd->now);
    fake_store_clear(&etcd->older);
    free(etcd->leases.list);
    free(etcd->requests);
    free(etcd->watches);
    free(etcd->clients);
    free(etcd->changes);
    free(etcd);
}

void fake_etcd_outage(struct fake_etcd *etcd, uint64_t until_us) {
    size_t i;

    etcd->outage_until_us = until_us;
    for (i = 0; i < etcd->leases.n; i++)
        etcd->leases.list[i].ends_us = until_us +
                                       (uint64_t)etcd->leases.list[i].ttl_s * etcd->lease_second_us;
    for (i = 0; i < etcd->n_watches; i++)
        if (etcd->watches[i]->client)
            fake_watch_notice(etcd->watches[i]);
}

void fake_etcd_no_space(struct fake_etcd *etcd, bool full) {
    etcd->full = full;
}

void fake_etcd_remember(struct fake_etcd *etcd) {
    fake_store_copy(&etcd->older, &etcd->now);
    etcd->remembers = true;
}

void fake_etcd_lease_second(struct fake_etcd *etcd, uint64_t us) {
    assert(us >= 2);
    etcd->lease_second_us = us;
}

static void leases_copy(struct fake_leases *to, const struct fake_leases *from) {
    free(to->list);
    *to = (struct fake_leases){.n = from->n, .room = from->n};
    to->list = malloc((from->n + 1) * sizeof(*to->list));
    assert(to->list);
    if (from->n)
        memcpy(to->list, from->list, from->n * sizeof(*to->list));
}

struct fake_snapshot *fake_etcd_snapshot(const struct fake_etcd *etcd) {
    struct fake_snapshot *snapshot = calloc(1, sizeof(*snapshot));

    assert(snapshot);
    fake_store_copy(&snapshot->store, &etcd->now);
    leases_copy(&snapshot->leases, &etcd->leases);
    return snapshot;
}

void fake_etcd_restore(struct fake_etcd *etcd, const struct fake_snapshot *snapshot) {
    size_t i;

    for (i = 0; etcd->on_change && i < snapshot->store.n; i++)
        etcd->on_change(etcd->on_change_arg, NULL, snapshot->store.kvs[i].key, NULL,
                        snapshot->store.kvs[i].value);
    fake_store_copy(&etcd->now, &snapshot->store);
    leases_copy(&etcd->leases, &snapshot->leases);
    etcd->remembers = false;
    for (i = 0; i < etcd->leases.n; i++) {
        fake_lease_renew(etcd, &etcd->leases.list[i]);
        fake_world_at(etcd->world, etcd->leases.list[i].ends_us, lease_check, etcd,
                      (uint64_t)etcd->leases.list[i].id);
    }
    for (i = 0; i < etcd->n_watches; i++) {
        if (etcd->watches[i]->client) {
            etcd->watches[i]->reset = true;
            fake_watch_notice(etcd->watches[i]);
        }
    }
}

void fake_snapshot_free(struct fake_snapshot *snapshot) {
    if (!snapshot)
        return;
    fake_store_clear(&snapshot->store);
    free(snapshot->leases.list);
    free(snapshot);
}

const struct etcd_kv *fake_etcd_get(const struct fake_etcd *etcd, const char *key) {
    return fake_store_find(&etcd->now, key);
}

void fake_etcd_put(struct fake_etcd *etcd, const char *key, const char *value, int64_t lease) {
    assert(!lease || fake_lease_find(etcd, lease));
    put(etcd, NULL, key, value, lease, ++etcd->now.revision);
}

void fake_etcd_delete(struct fake_etcd *etcd, const char *key) {
    size_t at = fake_store_seek(&etcd->now, key);

    if (at < etcd->now.n && !strcmp(etcd->now.kvs[at].key, key))
        delete_at(etcd, NULL, at, ++etcd->now.revision);
}

void fake_etcd_revoke(struct fake_etcd *etcd, int64_t lease_id) {
    struct fake_lease *lease = fake_lease_find(etcd, lease_id);

    if (lease)
        fake_lease_end(etcd, lease);
}

size_t fake_etcd_leases(const struct fake_etcd *etcd) {
    return etcd->leases.n;
}

void fake_etcd_on_change(struct fake_etcd *etcd, fake_etcd_change_fn *fn, void *arg) {
    etcd->on_change = fn;
    etcd->on_change_arg = arg;
}
