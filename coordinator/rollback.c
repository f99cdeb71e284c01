#include "coordinator/rollback.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/log.h"
#include "common/records.h"

#define HOLDS_MS 500u /* shorter than any etcd takes to come up with other data */

struct rollback {
    struct rollback_config config;
    int64_t highest;        /* revision seen so far, in this history */
    int64_t highest_before; /* as it was when the fence was sent */
    uint64_t sent_boot_ms;  /* of the fence on its way */
    uint64_t held_boot_ms;  /* when the last one that held was sent; 0: none */
    bool asking, freezing;
    char era[HEX128_CHARS + 1]; /* ours; "" before meta was read */
    char alarm[RECORD_REASON_MAX];
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
    return rollback->alarm;
}

/* Which era it is that we live in; later ones only a fence tells. */
static void learn_era(struct rollback *rollback, const struct etcd_event *event) {
    struct error unreadable;
    struct meta meta;

    if (!rollback->era[0] &&
        meta_parse(event->value, event->value_len, &meta, &unreadable) == STATUS_OK)
        memcpy(rollback->era, meta.era, sizeof rollback->era);
}

void rollback_events(struct rollback *rollback, const struct etcd_event *events, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == ETCD_EVENT_RESET)
            continue;
        if (events[i].mod_revision > rollback->highest)
            rollback->highest = events[i].mod_revision;
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
                 LOG_STR("reason", rollback->alarm));
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
             rollback->alarm);
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

static void find_alarm(const struct rollback *rollback, const struct meta *meta, int64_t revision,
                       char alarm[static RECORD_REASON_MAX]) {
    if (!meta)
        snprintf(alarm, RECORD_REASON_MAX, "meta of era %.32s is gone", rollback->era);
    else if (strcmp(meta->era, rollback->era) != 0)
        snprintf(alarm, RECORD_REASON_MAX, "era %.32s came after %.32s", meta->era, rollback->era);
    else if (revision < rollback->highest_before)
        snprintf(alarm, RECORD_REASON_MAX, "revision %" PRId64 " came after %" PRId64, revision,
                 rollback->highest_before);
}

/* recover made it, out of ours: from here on revisions count anew. */
static void follow(struct rollback *rollback, const struct meta *meta, int64_t revision) {
    if (rollback->era[0])
        log_info("rollback", "a new era", LOG_STR("era", meta->era),
                 LOG_STR("before", rollback->era));
    memcpy(rollback->era, meta->era, sizeof rollback->era);
    rollback->highest = rollback->highest_before = revision;
    rollback->alarm[0] = '\0';
}

static void judge(struct rollback *rollback, const struct meta *meta, const char *value,
                  int64_t revision) {
    char alarm[RECORD_REASON_MAX] = "";

    if (meta && (!rollback->era[0] || meta_earlier_era(meta, rollback->era)))
        follow(rollback, meta, revision);
    if (rollback->era[0])
        find_alarm(rollback, meta, revision, alarm);
    if (alarm[0] && !rollback->alarm[0]) {
        memcpy(rollback->alarm, alarm, sizeof alarm);
        log_error("rollback", "etcd's history went back: nothing is assigned any more",
                  LOG_STR("reason", alarm));
    }
    if (rollback->alarm[0]) {
        if (meta)
            freeze(rollback, meta, value);
        return;
    }
    if (revision > rollback->highest)
        rollback->highest = revision;
    rollback->held_boot_ms = rollback->sent_boot_ms;
    rollback->config.held(rollback->config.arg);
}

static void on_fence(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct rollback *rollback = arg;
    const struct etcd_op_result *read;
    struct error unreadable;
    struct meta meta;
    bool readable;

    rollback->asking = false;
    if (err)
        return;
    read = &result->results[0];
    readable = read->n_kvs > 0 && meta_parse(read->kvs[0].value, read->kvs[0].value_len, &meta,
                                             &unreadable) == STATUS_OK;
    if (read->n_kvs > 0 && !readable)
        return; /* damaged, or of a newer program: nobody assigns by it, and nobody writes it */
    judge(rollback, readable ? &meta : NULL, readable ? read->kvs[0].value : NULL,
          result->revision);
}

/* Deletes what never exists: that goes by way of the log and changes nothing. */
bool rollback_fence(struct rollback *rollback) {
    const struct keys *keys = rollback->config.keys;
    const struct etcd *etcd = &rollback->config.etcd;
    char nobody[HEX128_CHARS + 1], absent[KEY_MAX];
    const struct etcd_op ops[] = {{.kind = ETCD_RANGE, .key = keys->meta},
                                  {.kind = ETCD_DELETE, .key = absent}};
    uint64_t now = boot_now(rollback);

    if (!rollback->alarm[0] && rollback->held_boot_ms && now < rollback->held_boot_ms + HOLDS_MS)
        return true;
    if (rollback->asking)
        return false;
    memset(nobody, '0', HEX128_CHARS);
    nobody[HEX128_CHARS] = '\0';
    keys_assign(keys, nobody, absent);
    rollback->asking = true;
    rollback->sent_boot_ms = now;
    rollback->highest_before = rollback->highest;
    etcd->txn(etcd->self, &(struct etcd_txn){.then = ops, .n_then = 2}, on_fence, rollback);
    return false;
}
