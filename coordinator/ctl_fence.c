#include "coordinator/ctl_fence.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/sequence.h"
#include "coordinator/ctl_seq.h"

#define ATTEMPTS 20u /* while etcd does not answer */

struct found {
    char name[SEQUENCE_NAME_MAX + 1];
    char *value;
};

struct fence {
    struct ctl_session *session;
    const struct recover_evidence *evidence;
    const char *frozen;
    struct found *list; /* as read last */
    size_t n;
};

static void forget(struct fence *fence) {
    for (size_t i = 0; i < fence->n; i++)
        free(fence->list[i].value);
    free(fence->list);
    fence->list = NULL;
    fence->n = 0;
}

static void take_all(void *arg, const struct etcd_txn_result *result) {
    struct fence *fence = arg;
    const struct etcd_op_result *read = &result->results[0];

    fence->list = allocate(read->n_kvs, sizeof *fence->list);
    for (size_t i = 0; i < read->n_kvs; i++) {
        const char *name = keys_seq_name(&fence->session->keys, read->kvs[i].key);

        if (!name)
            continue;
        memcpy(fence->list[fence->n].name, name, strlen(name) + 1);
        fence->list[fence->n++].value = allocate_copy(read->kvs[i].value, read->kvs[i].value_len);
    }
}

/* One sequence, or all of them; by way of the log. */
static enum status read_some(struct fence *fence, const char *name, struct error *err) {
    const struct keys *keys = &fence->session->keys;
    char absent[KEY_MAX], key[KEY_MAX];
    const struct etcd_op ops[] = {
        {.kind = ETCD_RANGE,
         .key = name ? key : keys->seq,
         .range_end = name ? NULL : keys->seq_end},
        {.kind = ETCD_DELETE, .key = absent},
    };

    keys_absent(keys, absent);
    if (name)
        keys_seq(keys, name, key);
    forget(fence);
    if (ctl_txn(fence->session, &(struct etcd_txn){.then = ops, .n_then = 2}, take_all, fence,
                err) != STATUS_OK)
        return error_context(err, "sequences");
    return STATUS_OK;
}

/* Nothing is granted while meta is frozen, so the clock is read after that. */
static char *fenced(const struct fence *fence, const char *name, const char *before) {
    uint64_t until_ms = clock_now(&fence->session->clock).wall_ms +
                        fence->evidence->meta.max_offset_ms;
    struct sequence sequence;
    struct error err;
    bool dropped;

    if (sequence_parse(before, strlen(before), &sequence, &err) != STATUS_OK) {
        ctl_note("sequence %s is left alone, and gives nothing: %s", name, err.message);
        return NULL;
    }
    dropped = sequence.dropped;
    sequence_fence(&sequence, until_ms, recover_sequence(fence->evidence, name));
    if (sequence.dropped && !dropped)
        ctl_note(
            "sequence %s %s dropped: a clock was far ahead when it was granted from, so how far it came is "
            "not known; create it anew with a --start that is above all its values",
            name, fence->frozen ? "is" : "would be");
    return sequence_format(&sequence, before);
}

/* Where its outcome is not known it is read back. */
static enum status fence_one(struct fence *one, const char *name, const char *value, unsigned *n,
                             struct error *err) {
    char *before = allocate_copy(value, strlen(value)), *after = fenced(one, name, before);
    enum status status = STATUS_OK;
    bool written = !after || !one->frozen;

    *n += after != NULL;
    for (unsigned i = 0; status == STATUS_OK && !written && i < ATTEMPTS; i++) {
        status = ctl_seq_write(
            one->session,
            &(struct ctl_seq_change){
                .name = name, .meta = one->frozen, .before = before, .after = after},
            &written, err);
        if (status != STATUS_OK && status != STATUS_UNKNOWN)
            break;
        if (status == STATUS_OK && written)
            break;
        status = read_some(one, name, err);
        if (status != STATUS_OK)
            break;
        written = one->n > 0 && strcmp(one->list[0].value, after) == 0;
        if (!written && (one->n == 0 || strcmp(one->list[0].value, before) != 0))
            status = error_set(err, STATUS_REFUSED, "somebody else changed it meanwhile");
    }
    if (status == STATUS_OK && !written)
        status = error_set(
            err, STATUS_UNAVAILABLE,
            "cannot be written: etcd does not answer, or somebody else changed meta");
    free(before);
    free(after);
    return status == STATUS_OK ? status : error_context(err, "sequence %s", name);
}

static bool is_known(const struct fence *fence, const char *name) {
    for (size_t i = 0; i < fence->n; i++)
        if (strcmp(fence->list[i].name, name) == 0)
            return true;
    return false;
}

static void note_missing(const struct fence *fence) {
    const struct recover_evidence *evidence = fence->evidence;

    for (size_t i = 0; i < evidence->n_sequences; i++)
        if (!is_known(fence, evidence->sequences[i].name))
            ctl_note(
                "sequence %s is known to workers and not to etcd any more: it was granted up to %" PRIu64
                " at least; create it anew with a --start that is above all its values",
                evidence->sequences[i].name,
                evidence->sequences[i].top ? evidence->sequences[i].top - 1 : 0);
}

enum status ctl_fence_sequences(struct ctl_session *session,
                                const struct recover_evidence *evidence, const char *frozen,
                                unsigned *n, struct error *err) {
    struct fence all = {.session = session, .evidence = evidence, .frozen = frozen}, one = all;
    enum status status = read_some(&all, NULL, err);

    *n = 0;
    if (status == STATUS_OK)
        note_missing(&all);
    for (size_t i = 0; i < all.n && status == STATUS_OK; i++)
        status = fence_one(&one, all.list[i].name, all.list[i].value, n, err);
    forget(&one);
    forget(&all);
    return status;
}
