#include "worker/worker_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/random.h"

enum { READ_HOR, READ_OWN, READ_META, READ_CEIL, READS };

static struct worker_slot *seeking_slot(struct worker *worker) {
    for (size_t i = 0; i < worker->n_slots; i++)
        if (holder_seeking(worker->slots[i].holder))
            return &worker->slots[i];
    return NULL;
}

/* Was it ordered to give that one up a short while ago? */
static bool given_up(const struct worker *worker, uint16_t machine_id) {
    return worker->given_up_until_boot_ms[machine_id] > worker_now(worker).boot_ms;
}

static size_t wanted_ids(const struct worker *worker, uint16_t wanted[RECORD_MACHINES_MAX]) {
    size_t n = 0;

    if (worker->config->machine_id)
        wanted[n++] = *worker->config->machine_id;
    for (size_t i = 0; i < worker->n_slots && n < RECORD_MACHINES_MAX; i++)
        if (worker->slots[i].has_last && holder_seeking(worker->slots[i].holder) &&
            !given_up(worker, worker->slots[i].last_machine_id))
            wanted[n++] = worker->slots[i].last_machine_id;
    return n;
}

char *worker_node_text(const struct worker *worker) {
    struct node node = {.attempt = worker->seek.attempt, .missing = worker->seek.missing};
    const struct clock_claim *claim = &worker->timing.claim;
    char *text;

    memcpy(node.identity, worker->self.identity, sizeof node.identity);
    node.addresses = worker->self.addresses;
    memcpy(node.version, SNOWFLEET_VERSION, sizeof SNOWFLEET_VERSION);
    node.n_wanted = wanted_ids(worker, node.wanted);
    for (size_t i = 0; i < worker->n_slots; i++) {
        struct hold_view view;

        holder_look(worker->slots[i].holder, &view);
        if (view.has_generation)
            node.held[node.n_held++] = view.machine_id;
    }
    for (unsigned id = 0; id < MACHINE_IDS && node.n_refused < RECORD_MACHINES_MAX; id++)
        if (worker->seek.refused[id])
            node.refused[node.n_refused++] = (uint16_t)id;
    node.synchronized = claim->synchronized;
    node.knows_error = claim->trusted;
    /* In steps of 100 ms: the bound grows all the time, the record need not. */
    node.max_error_ns = (uint64_t)claim->max_error_ns / 100000000 * 100000000;
    node.clock_unconfirmed = worker_clock_wants_confirmation(worker);
    node.public_key_version = worker_public_fingerprint(worker, node.public_key_fingerprint);
    text = node_format(&node);
    if (!text)
        abort();
    return text;
}

static void offer(struct worker *worker, uint16_t machine_id, const char *hor, size_t len) {
    struct worker_slot *slot = seeking_slot(worker);
    struct error err;

    if (!slot)
        return;
    switch (holder_offer(slot->holder, machine_id, hor, len, &err)) {
    case STATUS_OK: seek_found(&worker->seek, machine_id); break;
    case STATUS_REFUSED:
        log_info("worker", "slot not usable", LOG_INT("machine_id", machine_id),
                 LOG_STR("reason", err.message));
        seek_unusable(&worker->seek, machine_id);
        break;
    default: seek_pause(&worker->seek, worker_now(worker), err.message);
    }
}

static void read_one(struct worker *worker, const struct etcd_txn_result *result) {
    const struct etcd_op_result *hor = &result->results[READ_HOR];

    if (hor->n_kvs == 0 || result->results[READ_OWN].n_kvs > 0)
        seek_unusable(&worker->seek, worker->reading_id);
    else
        offer(worker, worker->reading_id, hor->kvs[0].value, hor->kvs[0].value_len);
}

static void read_all(struct worker *worker, const struct etcd_txn_result *result) {
    struct registry *registry = allocate(1, sizeof *registry);
    struct instant now = worker_now(worker);
    uint16_t wanted[RECORD_MACHINES_MAX], machine_id;
    size_t n_wanted = wanted_ids(worker, wanted);
    char hor[HORIZON_TEXT_MAX];

    registry_init(registry);
    for (size_t op = READ_HOR; op <= READ_OWN; op++)
        for (size_t i = 0; i < result->results[op].n_kvs; i++) {
            const struct etcd_kv *kv = &result->results[op].kvs[i];

            registry_apply(registry, &worker->keys, kv->key, kv->value, kv->value_len, kv->lease,
                           now.boot_ms);
        }
    if (!worker->has_meta) {
        seek_pause(&worker->seek, now, "meta missing: run snowfleetctl init");
    } else if (seek_choose(&worker->seek, now, registry, &worker->meta, wanted, n_wanted,
                           random_u64(), &machine_id)) {
        horizon_format(&registry->slots[machine_id].horizon, hor);
        offer(worker, machine_id, hor, strlen(hor));
    }
    registry_done(registry);
    free(registry);
}

static void take_single(struct worker *worker, const char *key,
                        const struct etcd_op_result *result) {
    worker_key(worker, key, result->n_kvs ? result->kvs[0].value : NULL,
               result->n_kvs ? result->kvs[0].value_len : 0);
}

static void on_read(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct worker *worker = arg;

    if (err && err->status == STATUS_CANCELLED)
        return;
    worker->reading = false;
    if (err) {
        seek_pause(&worker->seek, worker_now(worker), err->message);
    } else if (!history_answered(&worker->history, &worker->reading_mark, result->revision)) {
        seek_pause(&worker->seek, worker_now(worker),
                   "etcd answered with an older revision than before");
    } else {
        take_single(worker, worker->keys.meta, &result->results[READ_META]);
        take_single(worker, worker->keys.ceil, &result->results[READ_CEIL]);
        if (worker->reading_for == SEEK_TRY)
            read_one(worker, result);
        else
            read_all(worker, result);
    }
    worker_changed(worker);
}

static void read_slots(struct worker *worker, enum seek_move move, uint16_t machine_id) {
    char hor[KEY_MAX], own[KEY_MAX];
    struct etcd_op ops[READS] = {[READ_HOR] = {.kind = ETCD_RANGE,
                                               .key = worker->keys.hor,
                                               .range_end = worker->keys.hor_end},
                                 [READ_OWN] = {.kind = ETCD_RANGE,
                                               .key = worker->keys.own,
                                               .range_end = worker->keys.own_end},
                                 [READ_META] = {.kind = ETCD_RANGE, .key = worker->keys.meta},
                                 [READ_CEIL] = {.kind = ETCD_RANGE, .key = worker->keys.ceil}};
    struct etcd_txn txn = {.then = ops, .n_then = READS};

    if (move == SEEK_TRY) {
        keys_hor(&worker->keys, machine_id, hor);
        keys_own(&worker->keys, machine_id, own);
        ops[READ_HOR] = (struct etcd_op){.kind = ETCD_RANGE, .key = hor};
        ops[READ_OWN] = (struct etcd_op){.kind = ETCD_RANGE, .key = own};
    }
    worker->reading = true;
    worker->reading_mark = history_mark(&worker->history);
    worker->reading_for = move;
    worker->reading_id = machine_id;
    worker->etcd.txn(worker->etcd.self, &txn, on_read, worker);
}

/* Slots that this worker has or is about to have, or was told to give up, are not to be found. */
static void exclude_ours(struct worker *worker) {
    for (size_t i = 0; i < worker->n_slots; i++) {
        struct hold_view view;

        holder_look(worker->slots[i].holder, &view);
        if (view.has_slot)
            seek_unusable(&worker->seek, view.machine_id);
    }
    for (unsigned id = 0; id < MACHINE_IDS; id++)
        if (given_up(worker, (uint16_t)id))
            seek_unusable(&worker->seek, (uint16_t)id);
}

void worker_search(struct worker *worker) {
    struct instant now = worker_now(worker);
    unsigned missing = 0, claiming = 0;
    uint64_t wake_boot_ms;
    uint16_t machine_id = 0;
    enum seek_move move;

    for (size_t i = 0; i < worker->n_slots; i++) {
        struct hold_view view;

        holder_look(worker->slots[i].holder, &view);
        missing += holder_seeking(worker->slots[i].holder);
        claiming += view.phase == HOLD_CLAIMING;
    }
    seek_need(&worker->seek, now, missing);
    if (missing > 0)
        worker_suggest_slots(worker);
    if (missing == 0 && claiming == 0)
        seek_settled(&worker->seek);
    if (missing == 0 || worker->reading)
        return;
    exclude_ours(worker);
    move = seek_next(&worker->seek, now, &machine_id, &wake_boot_ms);
    if (move != SEEK_WAIT)
        read_slots(worker, move, machine_id);
    else if (wake_boot_ms < now.boot_ms + WORKER_TICK_MS)
        uv_timer_start(&worker->review, worker->review.timer_cb,
                       wake_boot_ms > now.boot_ms ? wake_boot_ms - now.boot_ms : 1, 0);
}

void worker_assigned(struct worker *worker, const char *value, size_t len) {
    struct assign assign;
    struct error err;

    if (assign_parse(value, len, &assign, &err) != STATUS_OK) {
        log_warn("worker", "assignment unreadable", LOG_STR("reason", err.message));
        return;
    }
    /* It asks again and again, and the figure differs a little each time: the first of a row is news. */
    if (assign.refused[0] && !worker->refused)
        log_warn("worker", "refused a machine ID", LOG_STR("reason", assign.refused));
    worker->refused = assign.refused[0] != '\0';
    seek_assigned(&worker->seek, worker_now(worker), &assign);
    worker_clock_ordered(worker, assign.clock_ok_until_ms);
    if (assign.drain)
        worker_start_drain(worker, "ordered by snowfleetctl release");
    for (size_t i = 0; i < assign.n_give_up; i++)
        for (size_t k = 0; k < worker->n_slots; k++) {
            struct hold_view view;

            holder_look(worker->slots[k].holder, &view);
            if (!view.has_generation || view.machine_id != assign.give_up[i].machine_id ||
                strcmp(view.claim, assign.give_up[i].claim) != 0)
                continue;
            worker->given_up_until_boot_ms[view.machine_id] = worker_now(worker).boot_ms +
                                                              WORKER_GIVEN_UP_MS;
            holder_give_up(worker->slots[k].holder, view.machine_id, view.claim);
        }
}
