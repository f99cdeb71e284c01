#include "worker/worker_internal.h"

#include <string.h>

#define FENCE_AGAIN_MS 2000u /* while history is in doubt or an alarm stands */

/* Did the process that left the state file live after that era? */
static bool is_former(const struct worker *worker, const char *era) {
    const struct state_record *record = &worker->state;

    for (size_t i = 0; i < record->n_earlier_eras; i++)
        if (strcmp(record->earlier_eras[i], era) == 0)
            return true;
    return false;
}

void worker_history_meta(struct worker *worker, bool knew_meta) {
    struct history *history = &worker->history;
    const char *era = worker->meta.era;

    if (!knew_meta && history->era[0] && strcmp(history->era, era) != 0 &&
        !is_former(worker, era)) {
        /* Nothing of what the file knew is in use: this process starts like one that has none. */
        log_warn("state", "the state file is of another era", LOG_STR("era", era),
                 LOG_STR("before", history->era));
        history_forget(history);
    }
    history_meta(history, &worker->meta);
}

/* A meta that is gone or foreign is no alarm here: the holds stop at that by themselves. */
static void judge(struct worker *worker, const struct meta *meta, int64_t revision) {
    struct history *history = &worker->history;
    char before[HEX128_CHARS + 1], found[RECORD_REASON_MAX];

    memcpy(before, history->era, sizeof before);
    switch (history_fenced(history, &worker->fence_mark, meta, revision, found)) {
    case HISTORY_FOLLOWED:
        if (before[0])
            log_info("rollback", "a new era", LOG_STR("era", history->era),
                     LOG_STR("before", before));
        break;
    case HISTORY_FOREIGN_ERA:
        if (!is_former(worker, meta->era))
            break;
        /* fall through */
    case HISTORY_WENT_BACK:
        if (history_alarm(history, found))
            log_error("rollback",
                      "etcd's history went back: serving to the limit, claiming and extending "
                      "nothing until snowfleetctl recover has run",
                      LOG_STR("reason", found));
        break;
    case HISTORY_HOLDS:
    case HISTORY_NO_META: break;
    }
}

static void on_fence(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct worker *worker = arg;
    const struct etcd_kv *kv;
    struct meta meta;
    enum status read;

    worker->fencing = false;
    if (err)
        return;
    read = history_fence_meta(result, &kv, &meta);
    if (read == STATUS_OK || read == STATUS_NOT_FOUND)
        judge(worker, kv ? &meta : NULL, result->revision);
    worker_key(worker, worker->keys.meta, kv ? kv->value : NULL, kv ? kv->value_len : 0);
    worker_changed(worker);
}

void worker_look_at_history(struct worker *worker, struct instant now) {
    struct history_fence fence;

    if (history_trusted(&worker->history) || worker->fencing ||
        (worker->fenced_boot_ms && now.boot_ms < worker->fenced_boot_ms + FENCE_AGAIN_MS))
        return;
    if (!worker->history.alarm[0])
        log_debug("rollback", "etcd's history is in doubt: asking by way of its log",
                  LOG_INT("highest_revision", worker->history.highest));
    worker->fencing = true;
    worker->fenced_boot_ms = now.boot_ms;
    worker->fence_mark = history_mark(&worker->history);
    history_fence_build(&fence, &worker->keys);
    worker->etcd.txn(worker->etcd.self, &fence.txn, on_fence, worker);
}
