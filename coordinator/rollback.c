#include "coordinator/rollback.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/history.h"
#include "common/log.h"
#include "common/records.h"

#define HOLDS_MS 500u /* shorter than any etcd takes to come up with other data */

struct rollback {
    struct rollback_config config;
    struct history history;
    struct history_mark mark; /* of the fence on its way */
    uint64_t sent_boot_ms;    /* likewise */
    uint64_t held_boot_ms;    /* when the last one that held was sent; 0: none */
    bool asking, freezing;
};

struct rollback *rollback_new(const struct rollback_config *config) {
    struct rollback *rollback = allocate(1, sizeof *rollback);

    rollback->config = *config;
    return rollback;
}

void rollback_free(struct rollback *rollback) {
    free(rollback);
}

const char *rollback_alarm(const struct rollback *rollback) {
    return rollback->history.alarm;
}

/* Which era it is that we live in; later ones only a fence tells. */
static void learn_era(struct rollback *rollback, const struct etcd_event *event) {
    struct error unreadable;
    struct meta meta;

    if (!rollback->history.era[0] &&
        meta_parse(event->value, event->value_len, &meta, &unreadable) == STATUS_OK)
        history_meta(&rollback->history, &meta);
}

void rollback_events(struct rollback *rollback, const struct etcd_event *events, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == ETCD_EVENT_RESET)
            continue;
        history_saw(&rollback->history, events[i].mod_revision);
        if (events[i].kind == ETCD_EVENT_PUT &&
            strcmp(events[i].key, rollback->config.keys->meta) == 0)
            learn_era(rollback, &events[i]);
    }
}

static uint64_t boot_now(const struct rollback *rollback) {
    return clock_now(&rollback->config.clock).boot_ms;
}

/* ---- freezing ---- */

static void on_frozen(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct rollback *rollback = arg;

    rollback->freezing = false;
    if (!err && result->succeeded)
        log_warn("rollback", "froze the cluster: snowfleetctl recover comes next",
                 LOG_STR("reason", rollback->history.alarm));
}

/* What failed, or met another meta, is done again after the next fence. */
static void freeze(struct rollback *rollback, const struct meta *meta, const char *before) {
    const struct keys *keys = rollback->config.keys;
    const struct etcd *etcd = &rollback->config.etcd;
    const struct etcd_compare compares[] = {
        {.kind = ETCD_VALUE_EQUAL,
         .key = keys->leader,
         .value = election_value(rollback->config.election)},
        {.kind = ETCD_VALUE_EQUAL, .key = keys->meta, .value = before},
    };
    const struct etcd_op read = {.kind = ETCD_RANGE, .key = keys->meta};
    struct meta frozen = *meta;
    struct etcd_op put = {.kind = ETCD_PUT, .key = keys->meta};
    char *text;

    if (rollback->freezing ||
        (meta->mode == META_FROZEN &&
         strncmp(meta->reason, RECORD_ROLLBACK_REASON, strlen(RECORD_ROLLBACK_REASON)) == 0))
        return;
    frozen.mode = META_FROZEN;
    frozen.serial++;
    snprintf(frozen.reason, sizeof frozen.reason, RECORD_ROLLBACK_REASON " %.100s",
             rollback->history.alarm);
    put.value = text = meta_format(&frozen, before);
    rollback->freezing = true;
    etcd->txn(etcd->self,
              &(struct etcd_txn){.compares = compares,
                                 .n_compares = 2,
                                 .then = &put,
                                 .n_then = 1,
                                 .otherwise = &read,
                                 .n_otherwise = 1},
              on_frozen, rollback);
    free(text);
}

/* ---- the fence ---- */

static void judge(struct rollback *rollback, const struct meta *meta, const char *value,
                  int64_t revision) {
    struct history *history = &rollback->history;
    char before[HEX128_CHARS + 1], found[RECORD_REASON_MAX];

    memcpy(before, history->era, sizeof before);
    if (history_fenced(history, &rollback->mark, meta, revision, found) == HISTORY_FOLLOWED &&
        before[0])
        log_info("rollback", "a new era", LOG_STR("era", history->era), LOG_STR("before", before));
    if (found[0] && history_alarm(history, found))
        log_error("rollback", "etcd's history went back: nothing is assigned any more",
                  LOG_STR("reason", found));
    if (history->alarm[0]) {
        if (meta)
            freeze(rollback, meta, value);
        return;
    }
    rollback->held_boot_ms = rollback->sent_boot_ms;
    rollback->config.held(rollback->config.arg);
}

/* A meta that is damaged, or of a newer program: nobody assigns by it, and nobody writes it. */
static void on_fence(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct rollback *rollback = arg;
    const struct etcd_kv *kv;
    struct meta meta;
    enum status read;

    rollback->asking = false;
    if (err)
        return;
    read = history_fence_meta(result, &kv, &meta);
    if (read == STATUS_OK || read == STATUS_NOT_FOUND)
        judge(rollback, kv ? &meta : NULL, kv ? kv->value : NULL, result->revision);
}

bool rollback_fence(struct rollback *rollback) {
    const struct etcd *etcd = &rollback->config.etcd;
    struct history_fence fence;
    uint64_t now = boot_now(rollback);

    if (!rollback->history.alarm[0] && rollback->held_boot_ms &&
        now < rollback->held_boot_ms + HOLDS_MS)
        return true;
    if (rollback->asking)
        return false;
    rollback->asking = true;
    rollback->sent_boot_ms = now;
    rollback->mark = history_mark(&rollback->history);
    history_fence_build(&fence, rollback->config.keys);
    etcd->txn(etcd->self, &fence.txn, on_fence, rollback);
    return false;
}
