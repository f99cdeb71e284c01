#include "coordinator/ctl_history.h"

#include <string.h>

#include "common/fields.h"
#include "coordinator/report.h"

#define CLAIMS_MAX 1000u /* shown */

/* own and hor of the machine ID as they were at one revision. */
struct moment {
    int64_t revision; /* of the store when it answered */
    bool has_own;
    struct own own;
    int64_t own_created; /* own's create_revision */
    bool has_horizon;
    struct horizon horizon;
    int64_t horizon_written; /* hor's mod_revision */
};

static void take_moment(void *arg, const struct etcd_txn_result *result) {
    struct moment *moment = arg;
    const struct etcd_op_result *own = &result->results[0], *hor = &result->results[1];
    struct error unreadable; /* it was held all the same */

    moment->revision = result->revision;
    moment->has_own = own->n_kvs > 0;
    if (moment->has_own) {
        own_parse(own->kvs[0].value, own->kvs[0].value_len, &moment->own, &unreadable);
        moment->own_created = own->kvs[0].create_revision;
    }
    if (hor->n_kvs > 0) {
        moment->has_horizon = horizon_parse(hor->kvs[0].value, hor->kvs[0].value_len,
                                            &moment->horizon);
        moment->horizon_written = hor->kvs[0].mod_revision;
    }
}

/* revision 0: now.  *compacted: etcd no longer knows. */
static enum status look(struct ctl_session *session, uint16_t machine_id, int64_t revision,
                        struct moment *moment, bool *compacted, struct error *err) {
    char own[KEY_MAX], hor[KEY_MAX];
    const struct etcd_op reads[] = {
        {.kind = ETCD_RANGE, .key = own, .revision = revision},
        {.kind = ETCD_RANGE, .key = hor, .revision = revision},
    };
    enum status status;

    keys_own(&session->keys, machine_id, own);
    keys_hor(&session->keys, machine_id, hor);
    *moment = (struct moment){.revision = 0};
    status = ctl_txn(session, &(struct etcd_txn){.then = reads, .n_then = 2}, take_moment, moment,
                     err);
    *compacted = status == STATUS_INVALID && strstr(err->message, "compacted") != NULL;
    if (*compacted)
        return STATUS_OK;
    return status == STATUS_OK ? status : error_context(err, "etcd");
}

/* The time at which a claim was made: its first horizon was at most the largest window ahead. */
static uint64_t begun_ms(const struct ctl_session *session, uint64_t first_horizon_ms,
                         uint64_t found_horizon_ms) {
    uint64_t window_ms = session->cluster->meta.max_window_ms;
    uint64_t begun = first_horizon_ms > window_ms ? first_horizon_ms - window_ms : 0;

    return begun > found_horizon_ms ? begun : found_horizon_ms;
}

static json_t *show_claim(const struct ctl_session *session, const struct moment *held,
                          const struct horizon *last, const struct moment *first,
                          const struct moment *before, const char *ended) {
    json_t *object = json_object();
    uint64_t found_ms = before->has_horizon ? before->horizon.horizon_ms : 0;

    fields_put(object, "claim", report_text(held->own.claim));
    fields_put(object, "identity", report_text(held->own.identity));
    fields_put(object, "instance", report_text(held->own.instance));
    fields_put(object, "from_ms",
               first->has_horizon
                   ? report_wide(begun_ms(session, first->horizon.horizon_ms, found_ms))
                   : json_null());
    fields_put(object, "until_ms", last ? report_wide(last->horizon_ms) : json_null());
    fields_put(object, "ended", json_string(ended));
    return object;
}

/* How the walk goes back: from a moment at which own exists to the one before it was created; from
 * one at which it does not to the last write of hor, which was the holder's, or to before that. */
struct walk {
    struct ctl_session *session;
    uint16_t machine_id;
    json_t *claims;
    struct moment at;
    bool compacted;
    bool newest; /* at is now */
    /* The last write of hor seen so far that no claim was found for yet. */
    bool has_last;
    struct horizon last;
};

static enum status step_over_claim(struct walk *walk, struct error *err) {
    struct moment held = walk->at, first, before;
    const struct horizon *last = held.has_horizon ? &held.horizon : NULL;
    const char *ended = walk->newest ? "held" : "gone";
    enum status status;

    if (walk->has_last && strcmp(walk->last.claim, held.own.claim) == 0) {
        /* Only a release removes own and writes hor at once. */
        ended = walk->last.n > held.horizon.n ? "released" : "gone";
        last = &walk->last;
    }
    status = look(walk->session, walk->machine_id, held.own_created, &first, &walk->compacted, err);
    before = first;
    if (status == STATUS_OK && !walk->compacted)
        status = look(walk->session, walk->machine_id, held.own_created - 1, &before,
                      &walk->compacted, err);
    if (status != STATUS_OK)
        return status;
    if (walk->compacted)
        before.has_horizon = false;
    fields_append(walk->claims, show_claim(walk->session, &held, last, &first, &before, ended));
    walk->has_last = false;
    walk->at = before;
    return STATUS_OK;
}

static enum status step_back(struct walk *walk, int64_t asked, struct error *err) {
    int64_t written = walk->at.horizon_written;

    if (!walk->has_last && walk->at.has_horizon) {
        walk->has_last = true;
        walk->last = walk->at.horizon;
    }
    return look(walk->session, walk->machine_id, written < asked ? written : written - 1, &walk->at,
                &walk->compacted, err);
}

static enum status go_back(struct walk *walk, struct error *err) {
    int64_t asked; /* the revision that walk->at was read at */

    if (look(walk->session, walk->machine_id, 0, &walk->at, &walk->compacted, err) != STATUS_OK)
        return err->status;
    walk->newest = true;
    asked = walk->at.revision;
    while (!walk->compacted && json_array_size(walk->claims) < CLAIMS_MAX) {
        if (walk->at.has_own) {
            asked = walk->at.own_created - 1;
            if (step_over_claim(walk, err) != STATUS_OK)
                return err->status;
        } else if (walk->at.horizon_written > 0 &&
                   !(walk->at.has_horizon && walk->at.horizon.n == 0)) {
            int64_t written = walk->at.horizon_written;

            if (step_back(walk, asked, err) != STATUS_OK)
                return err->status;
            asked = written < asked ? written : written - 1;
        } else {
            return STATUS_OK; /* nobody had ever claimed it */
        }
        walk->newest = false;
    }
    return STATUS_OK;
}

enum status ctl_history(struct ctl_session *session, uint16_t machine_id, json_t **history,
                        struct error *err) {
    struct walk walk = {.session = session, .machine_id = machine_id, .claims = json_array()};
    enum status status = go_back(&walk, err);
    bool complete = !walk.compacted && json_array_size(walk.claims) < CLAIMS_MAX;

    if (status != STATUS_OK) {
        json_decref(walk.claims);
        return status;
    }
    *history = json_object();
    fields_put(*history, "machine_id", fields_from_number(machine_id));
    fields_put(*history, "complete", json_boolean(complete));
    fields_put(*history, "claims", walk.claims);
    return STATUS_OK;
}
