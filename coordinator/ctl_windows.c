#include "coordinator/ctl_windows.h"

#include <string.h>

#define WINDOWS_MAX 10000u /* of one machine ID; what is older counts as not covered */

/* own and hor of the machine ID as they were at one revision. */
struct moment {
    int64_t revision;
    bool has_own;
    struct own own;      /* empty strings when unreadable */
    int64_t own_created; /* own's create_revision */
    bool has_horizon, unreadable;
    struct horizon horizon;
    int64_t horizon_written; /* hor's mod_revision */
};

/* Goes back from one moment to the one before.  Whoever writes hor holds own, or removes it by the
 * same transaction (a release); only recover writes it without. */
struct walk {
    struct ctl_session *session;
    const struct ctl_revisions *revisions;
    uint16_t machine_id;
    struct audit_history *history;
    struct moment at;
    /* The newest write of hor by the claim that is looked for. */
    bool has_last;
    struct horizon last;
    bool done;
};

static void take_moment(void *arg, const struct etcd_txn_result *result) {
    struct moment *moment = arg;
    const struct etcd_op_result *own = &result->results[0], *hor = &result->results[1];
    struct error unreadable; /* it was held all the same */

    moment->has_own = own->n_kvs > 0;
    if (moment->has_own) {
        own_parse(own->kvs[0].value, own->kvs[0].value_len, &moment->own, &unreadable);
        moment->own_created = own->kvs[0].create_revision;
    }
    if (hor->n_kvs > 0) {
        moment->has_horizon = horizon_parse(hor->kvs[0].value, hor->kvs[0].value_len,
                                            &moment->horizon);
        moment->unreadable = !moment->has_horizon;
        moment->horizon_written = hor->kvs[0].mod_revision;
    }
}

static bool is_compacted(enum status status, const struct error *err) {
    return status == STATUS_INVALID && strstr(err->message, "compacted") != NULL;
}

/* *compacted: etcd no longer knows. */
static enum status look(struct walk *walk, int64_t revision, struct moment *moment, bool *compacted,
                        struct error *err) {
    char own[KEY_MAX], hor[KEY_MAX];
    const struct etcd_op reads[] = {
        {.kind = ETCD_RANGE, .key = own, .revision = revision},
        {.kind = ETCD_RANGE, .key = hor, .revision = revision},
    };
    struct error failed;
    enum status status;

    keys_own(&walk->session->keys, walk->machine_id, own);
    keys_hor(&walk->session->keys, walk->machine_id, hor);
    *moment = (struct moment){.revision = revision};
    status = ctl_txn(walk->session, &(struct etcd_txn){.then = reads, .n_then = 2}, take_moment,
                     moment, &failed);
    *compacted = is_compacted(status, &failed);
    if (status != STATUS_OK && !*compacted) {
        *err = failed;
        return error_context(err, "etcd");
    }
    if (moment->unreadable)
        return error_set(err, STATUS_PROTOCOL, "%s is not a horizon", hor);
    return STATUS_OK;
}

/* Nothing further back can be seen: up to here somebody may have issued. */
static void stop_at(struct walk *walk, uint64_t covered_after_ms) {
    walk->history->covered_after_ms = covered_after_ms;
    walk->done = true;
}

/* Of what no window has been found for yet. */
static uint64_t newest_horizon(const struct walk *walk) {
    return walk->has_last && walk->last.horizon_ms > walk->at.horizon.horizon_ms
               ? walk->last.horizon_ms
               : walk->at.horizon.horizon_ms;
}

static void add_window(struct walk *walk, uint64_t after_ms) {
    const struct moment *held = &walk->at;
    struct audit_window window = {.after_ms = after_ms, .until_ms = held->horizon.horizon_ms};

    if (walk->has_last && strcmp(walk->last.claim, held->horizon.claim) == 0)
        window.until_ms = walk->last.horizon_ms;
    walk->has_last = false;
    memcpy(window.claim, held->horizon.claim, sizeof window.claim);
    memcpy(window.instance, held->own.instance, sizeof window.instance);
    memcpy(window.identity, held->own.identity, sizeof window.identity);
    audit_history_add(walk->history, &window);
}

/* at is a moment at which own exists: to the one before it was created. */
static enum status step_over_claim(struct walk *walk, uint64_t first_ms, struct error *err) {
    int64_t created = walk->at.own_created;
    bool begun_unseen = created <= walk->revisions->oldest, compacted;
    struct moment before;

    if (look(walk, begun_unseen ? walk->revisions->oldest : created - 1, &before, &compacted,
             err) != STATUS_OK)
        return err->status;
    if (compacted) {
        stop_at(walk, newest_horizon(walk));
        return STATUS_OK;
    }
    add_window(walk, before.horizon.horizon_ms);
    if (begun_unseen || walk->history->n == WINDOWS_MAX)
        stop_at(walk, before.horizon.horizon_ms);
    else
        walk->done = before.horizon.horizon_ms < first_ms;
    walk->at = before;
    return STATUS_OK;
}

/* at is a moment at which own is gone: to the last write of hor, or to before that. */
static enum status step_back(struct walk *walk, struct error *err) {
    const struct moment at = walk->at;
    int64_t to = at.horizon_written < at.revision ? at.horizon_written : at.horizon_written - 1;
    bool compacted = to < walk->revisions->oldest;

    if (!walk->has_last || strcmp(walk->last.claim, at.horizon.claim) != 0) {
        walk->has_last = true;
        walk->last = at.horizon;
    }
    if (!compacted && look(walk, to, &walk->at, &compacted, err) != STATUS_OK)
        return err->status;
    if (compacted)
        stop_at(walk, newest_horizon(walk));
    return STATUS_OK;
}

enum status ctl_windows(struct ctl_session *session, const struct ctl_revisions *revisions,
                        uint16_t machine_id, uint64_t first_ms, struct audit_history *history,
                        struct error *err) {
    struct walk walk = {
        .session = session, .revisions = revisions, .machine_id = machine_id, .history = history};
    bool compacted;

    if (look(&walk, revisions->newest, &walk.at, &compacted, err) != STATUS_OK)
        return err->status;
    if (compacted) /* all that was read just now */
        stop_at(&walk, UINT64_MAX);
    while (!walk.done && walk.at.has_horizon && (walk.at.has_own || walk.at.horizon.n > 0)) {
        enum status status = walk.at.has_own ? step_over_claim(&walk, first_ms, err)
                                             : step_back(&walk, err);
        if (status != STATUS_OK)
            return status;
    }
    audit_history_close(history);
    return STATUS_OK;
}

/* ---- how far back one can look ---- */

static void take_revision(void *arg, const struct etcd_txn_result *result) {
    *(int64_t *)arg = result->revision;
}

static enum status read_at(struct ctl_session *session, int64_t revision, int64_t *newest,
                           bool *compacted, struct error *err) {
    const struct etcd_op read = {
        .kind = ETCD_RANGE, .key = session->keys.meta, .revision = revision};
    struct error failed;
    enum status status = ctl_txn(session, &(struct etcd_txn){.then = &read, .n_then = 1},
                                 take_revision, newest, &failed);

    *compacted = is_compacted(status, &failed);
    if (status == STATUS_OK || *compacted)
        return STATUS_OK;
    *err = failed;
    return error_context(err, "etcd");
}

enum status ctl_revisions(struct ctl_session *session, struct ctl_revisions *revisions,
                          struct error *err) {
    int64_t unused, low = 1, high; /* the oldest lies within low..high */
    bool compacted;

    if (read_at(session, 0, &revisions->newest, &compacted, err) != STATUS_OK)
        return err->status;
    high = revisions->newest;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (read_at(session, middle, &unused, &compacted, err) != STATUS_OK)
            return err->status;
        if (compacted)
            low = middle + 1;
        else
            high = middle;
    }
    revisions->oldest = low;
    return STATUS_OK;
}
