#include "common/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct history_mark history_mark(const struct history *history) {
    return (struct history_mark){.highest = history->highest, .eras = history->eras};
}

bool history_trusted(const struct history *history) {
    return !history->suspect && !history->alarm[0];
}

void history_saw(struct history *history, int64_t revision) {
    if (revision > history->highest)
        history->highest = revision;
}

bool history_answered(struct history *history, const struct history_mark *mark, int64_t revision) {
    if (mark->eras != history->eras)
        return true; /* of an era that is over: it says nothing of this one's revisions */
    if (revision < mark->highest) {
        history->suspect = true;
        return false;
    }
    history_saw(history, revision);
    return true;
}

void history_meta(struct history *history, const struct meta *meta) {
    if (!history->era[0])
        memcpy(history->era, meta->era, sizeof history->era);
    else if (strcmp(history->era, meta->era) != 0)
        history->suspect = true;
}

void history_forget(struct history *history) {
    *history = (struct history){.eras = history->eras + 1};
}

/* From here on revisions count anew. */
static void follow(struct history *history, const struct meta *meta, int64_t revision) {
    memcpy(history->era, meta->era, sizeof history->era);
    history->highest = revision;
    history->eras++;
    history->suspect = false;
    history->alarm[0] = '\0';
}

enum history_verdict history_fenced(struct history *history, const struct history_mark *mark,
                                    const struct meta *meta, int64_t revision,
                                    char found[static RECORD_REASON_MAX]) {
    bool back = mark->eras == history->eras && revision < mark->highest;

    found[0] = '\0';
    if (meta && (!history->era[0] || meta_earlier_era(meta, history->era))) {
        follow(history, meta, revision);
        return HISTORY_FOLLOWED;
    }
    if (meta && strcmp(meta->era, history->era) != 0) {
        snprintf(found, RECORD_REASON_MAX, "era %.32s came after %.32s", meta->era, history->era);
        return HISTORY_FOREIGN_ERA;
    }
    if (meta && back) {
        snprintf(found, RECORD_REASON_MAX, "revision %" PRId64 " came after %" PRId64, revision,
                 mark->highest);
        return HISTORY_WENT_BACK;
    }
    history->suspect = back;
    if (!back)
        history_saw(history, revision);
    if (!meta && history->era[0]) {
        snprintf(found, RECORD_REASON_MAX, "meta of era %.32s is gone", history->era);
        return HISTORY_NO_META;
    }
    return HISTORY_HOLDS;
}

bool history_alarm(struct history *history, const char *found) {
    if (history->alarm[0])
        return false;
    snprintf(history->alarm, sizeof history->alarm, "%s", found);
    return true;
}

enum { FENCE_META, FENCE_DELETE, FENCE_OPS };

void history_fence_build(struct history_fence *fence, const struct keys *keys) {
    keys_absent(keys, fence->absent);
    fence->ops[FENCE_META] = (struct etcd_op){.kind = ETCD_RANGE, .key = keys->meta};
    fence->ops[FENCE_DELETE] = (struct etcd_op){.kind = ETCD_DELETE, .key = fence->absent};
    fence->txn = (struct etcd_txn){.then = fence->ops, .n_then = FENCE_OPS};
}

enum status history_fence_meta(const struct etcd_txn_result *answer, const struct etcd_kv **kv,
                               struct meta *meta) {
    const struct etcd_op_result *read = &answer->results[FENCE_META];
    struct error unreadable;

    *kv = read->n_kvs > 0 ? &read->kvs[0] : NULL;
    if (!*kv)
        return STATUS_NOT_FOUND;
    return meta_parse((*kv)->value, (*kv)->value_len, meta, &unreadable);
}
