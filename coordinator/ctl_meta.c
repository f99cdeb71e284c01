#include "coordinator/ctl_meta.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/decimal.h"
#include "common/quote.h"
#include "common/snowflake.h"

#define ATTEMPTS 20u /* against others who write too */

bool ctl_meta_rolled_back(const struct meta *meta) {
    return meta->mode == META_FROZEN &&
           strncmp(meta->reason, RECORD_ROLLBACK_REASON, strlen(RECORD_ROLLBACK_REASON)) == 0;
}

/* ---- writing ---- */

static void take_outcome(void *arg, const struct etcd_txn_result *result) {
    *(bool *)arg = result->succeeded;
}

static enum status write_meta(struct ctl_session *session, const struct ctl_meta_change *change,
                              const char *text, bool *written, struct error *err) {
    const char *key = session->keys.meta;
    struct etcd_compare compares[ETCD_TXN_MAX_OPS] = {
        {.kind = ETCD_VALUE_EQUAL, .key = key, .value = session->cluster->meta_value}};
    const struct etcd_op put = {.kind = ETCD_PUT, .key = key, .value = text};
    const struct etcd_op read = {.kind = ETCD_RANGE, .key = key};

    assert(change->n_guards < ETCD_TXN_MAX_OPS);
    for (size_t i = 0; i < change->n_guards; i++)
        compares[i + 1] = change->guards[i];
    *written = false;
    return ctl_txn(session,
                   &(struct etcd_txn){.compares = compares,
                                      .n_compares = change->n_guards + 1,
                                      .then = &put,
                                      .n_then = 1,
                                      .otherwise = &read,
                                      .n_otherwise = 1},
                   take_outcome, written, err);
}

/* One round.  *sent is the text whose outcome is unknown, NULL when there is none. */
static enum status try_once(struct ctl_session *session, struct ctl_meta_change *change,
                            char **sent, bool *written, struct error *err) {
    const struct cluster *cluster = session->cluster;
    struct meta meta;
    enum status status = ctl_read_initialised(session, err);

    if (status != STATUS_OK)
        return status;
    if (*sent && strcmp(cluster->meta_value, *sent) == 0) {
        *written = true; /* it arrived after all */
        return STATUS_OK;
    }
    meta = cluster->meta;
    status = change->edit(change->arg, session, &meta, err);
    if (status != STATUS_OK)
        return status == STATUS_UNKNOWN ? STATUS_OK : status;
    meta.serial++;
    if (meta_check(&meta, err) != STATUS_OK)
        return err->status;
    free(*sent);
    *sent = meta_format(&meta, cluster->meta_value);
    status = write_meta(session, change, *sent, written, err);
    if (status == STATUS_OK && *written)
        cluster_apply(session->cluster, session->keys.meta, *sent, strlen(*sent), 0,
                      clock_now(&session->clock).boot_ms);
    if (status == STATUS_OK) {
        free(*sent);
        *sent = NULL;
    }
    return status == STATUS_UNKNOWN ? STATUS_OK : status;
}

enum status ctl_meta_change(struct ctl_session *session, struct ctl_meta_change *change,
                            bool *written, struct error *err) {
    char *sent = NULL;
    enum status status = STATUS_OK;

    *written = false;
    for (unsigned i = 0; status == STATUS_OK && !*written && i < ATTEMPTS; i++)
        status = try_once(session, change, &sent, written, err);
    free(sent);
    if (status == STATUS_EXISTS)
        return STATUS_OK;
    if (status == STATUS_OK && !*written)
        return error_set(err, STATUS_UNAVAILABLE,
                         "not written after %u rounds: others write too, or etcd does not answer",
                         ATTEMPTS);
    return status;
}

/* ---- reserved machine IDs ---- */

static enum status reserve_item(struct meta *meta, const char *text, size_t len,
                                struct error *err) {
    const char *dash = memchr(text, '-', len);
    size_t first_len = dash ? (size_t)(dash - text) : len;
    uint64_t first, last;

    if (decimal_parse(text, first_len, 0, SNOWFLAKE_MACHINE_ID_MAX, &first, err) != STATUS_OK)
        return err->status;
    last = first;
    if (dash && decimal_parse(dash + 1, len - first_len - 1, first, SNOWFLAKE_MACHINE_ID_MAX, &last,
                              err) != STATUS_OK)
        return err->status;
    for (uint64_t id = first; id <= last; id++)
        meta->reserved[id] = true;
    return STATUS_OK;
}

enum status ctl_meta_reserve(struct meta *meta, const char *list, struct error *err) {
    const char *at = list;
    char quoted[QUOTE_SIZE];

    while (at) {
        size_t len = strcspn(at, ",");

        if (reserve_item(meta, at, len, err) != STATUS_OK)
            return error_context(err, "--reserved=%s: machine ID",
                                 quote(list, strlen(list), quoted));
        at = at[len] ? at + len + 1 : NULL;
    }
    for (unsigned id = meta->first_machine_id; id <= meta->last_machine_id; id++) {
        if (!meta->reserved[id])
            return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "--reserved: no machine ID of the range is left");
}
