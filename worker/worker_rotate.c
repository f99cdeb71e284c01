/* Another machine ID after a large step back: at the correct time at once, instead of waiting. */
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/random.h"
#include "worker/worker_internal.h"

enum { READ_HOR, READ_OWN, READS };

#define RETRY_MS 5000u /* when no other machine ID was free, or etcd did not say */

/* How far the clock is behind what this slot has issued; 0 when it is not. */
static uint64_t behind_ms(const struct worker *worker, const struct worker_slot *slot) {
    uint64_t now_ms = worker_now(worker).wall_ms;
    uint64_t newest_ms = atomic_load_explicit(&worker->gauges[slot->index].newest_ms,
                                              memory_order_relaxed);
    struct hold_view view;

    worker_slot_look(slot, &view);
    if (view.phase != HOLD_OPEN || newest_ms <= view.used_up_ms || newest_ms <= now_ms)
        return 0;
    return newest_ms - now_ms;
}

bool worker_is_behind(const struct worker *worker) {
    for (size_t i = 0; i < worker->n_slots; i++)
        if (behind_ms(worker, &worker->slots[i]) > 0)
            return true;
    return false;
}

bool worker_must_rotate(const struct worker *worker) {
    const struct worker_rotation *rotation = &worker->rotation;
    uint64_t boot_ms = worker_now(worker).boot_ms;

    if (worker->config->standalone || worker->drain != WORKER_RUNNING || !rotation->went_back ||
        (rotation->last_boot_ms &&
         boot_ms - rotation->last_boot_ms < worker->config->rotate_interval_ms))
        return false;
    for (size_t i = 0; i < worker->n_slots; i++)
        if (behind_ms(worker, &worker->slots[i]) > worker->config->rotate_above_ms)
            return true;
    return false;
}

/* Free ones, none of them ours, as many as asked for. */
static size_t choose(struct worker *worker, const struct etcd_txn_result *result, size_t want,
                     uint16_t chosen[RECORD_MACHINES_MAX]) {
    struct registry *registry = allocate(1, sizeof *registry);
    struct seek *search = allocate(1, sizeof *search); /* one that leaves the real one alone */
    struct instant now = worker_now(worker);
    size_t n = 0;

    registry_init(registry);
    for (size_t op = READ_HOR; op < READS; op++)
        for (size_t i = 0; i < result->results[op].n_kvs; i++) {
            const struct etcd_kv *kv = &result->results[op].kvs[i];

            registry_apply(registry, &worker->keys, kv->key, kv->value, kv->value_len, kv->lease,
                           now.boot_ms);
        }
    seek_init(search, 0, WORKER_RETRY_MIN_MS, WORKER_RETRY_MAX_MS);
    while (n < want &&
           seek_choose(search, now, registry, &worker->meta, NULL, 0, random_u64(), &chosen[n]))
        seek_unusable(search, chosen[n++]);
    registry_done(registry);
    free(registry);
    free(search);
    return n;
}

static void on_read(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct worker *worker = arg;
    struct worker_rotation *rotation = &worker->rotation;
    uint16_t chosen[RECORD_MACHINES_MAX];
    size_t behind[RECORD_MACHINES_MAX], n_behind = 0, n;

    if (err && err->status == STATUS_CANCELLED)
        return;
    rotation->reading = false;
    rotation->retry_boot_ms = worker_now(worker).boot_ms + (err ? RETRY_MS : 0);
    if (err || !worker->has_meta || !worker_must_rotate(worker))
        return; /* or it has caught up meanwhile */
    for (size_t i = 0; i < worker->n_slots; i++)
        if (behind_ms(worker, &worker->slots[i]) > worker->config->rotate_above_ms)
            behind[n_behind++] = i;
    n = choose(worker, result, n_behind, chosen);
    if (n == 0)
        rotation->retry_boot_ms = worker_now(worker).boot_ms + RETRY_MS;
    if (n == 0)
        log_repeat_failed(&rotation->none_free, worker_now(worker).boot_ms, "clock",
                          "the clock went back, and no other machine ID is free",
                          "waiting until it has caught up");
    else
        log_repeat_ended(&rotation->none_free, worker_now(worker).boot_ms, "clock",
                         "another machine ID is free");
    for (size_t i = 0; i < n; i++) {
        struct worker_slot *slot = &worker->slots[behind[i]];
        struct hold_view view;

        holder_look(slot->holder, &view);
        log_warn("clock", "the clock went back: another machine ID",
                 LOG_INT("behind_ms", behind_ms(worker, slot)), LOG_INT("from", view.machine_id),
                 LOG_INT("to", chosen[i]));
        worker->given_up_until_boot_ms[view.machine_id] = worker_now(worker).boot_ms +
                                                          WORKER_GIVEN_UP_MS;
        rotation->suggested[rotation->n_suggested++] = chosen[i];
        rotation->total++;
        rotation->last_boot_ms = worker_now(worker).boot_ms;
        holder_give_up(slot->holder, view.machine_id, view.claim);
    }
}

void worker_rotate(struct worker *worker) {
    struct etcd_op ops[READS] = {[READ_HOR] = {.kind = ETCD_RANGE,
                                               .key = worker->keys.hor,
                                               .range_end = worker->keys.hor_end},
                                 [READ_OWN] = {.kind = ETCD_RANGE,
                                               .key = worker->keys.own,
                                               .range_end = worker->keys.own_end}};
    struct etcd_txn txn = {.then = ops, .n_then = READS};
    struct worker_rotation *rotation = &worker->rotation;

    if (rotation->reading || worker_now(worker).boot_ms < rotation->retry_boot_ms)
        return;
    rotation->reading = true;
    rotation->n_suggested = 0;
    worker->etcd.txn(worker->etcd.self, &txn, on_read, worker);
}

void worker_suggest_slots(struct worker *worker) {
    struct worker_rotation *rotation = &worker->rotation;

    for (size_t i = 0; i < rotation->n_suggested; i++)
        seek_suggest(&worker->seek, rotation->suggested[i]);
    rotation->n_suggested = 0;
}
