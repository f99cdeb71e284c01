/* snowfleetctl reclaim: which machine IDs can be taken back, and taking them back. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/decimal.h"
#include "common/fields.h"
#include "coordinator/ctl.h"
#include "coordinator/ctl_order.h"
#include "coordinator/ctl_output.h"
#include "coordinator/ctl_session.h"
#include "coordinator/presence.h"
#include "coordinator/reclaim.h"
#include "coordinator/report.h"

#define TIMEOUT_MS 2000u /* of a holder's answer */
#define AT_A_TIME 64u    /* holders asked at the same time */
#define HAND_BACK_MS                                                                               \
    2000u /* so long a holder that was ordered to give up may take to do it itself */
#define LOOK_MS 50u
#define ATTEMPTS 5u

static const struct option options[] = {
    {.name = "yes",
     .type = OPTION_BOOL,
     .offset = offsetof(struct ctl_values, yes),
     .help = "Does it.  Without it nothing is changed, and what would be done is shown."},
    {.name = "force",
     .type = OPTION_BOOL,
     .offset = offsetof(struct ctl_values, force),
     .help = "Takes the machine IDs that are named from a holder that may be alive, too.  No ID is "
             "issued twice by that: its window has to pass before another can start.  The holder "
             "is ordered to give it up and takes another one."},
    {.name = NULL},
};

/* What is, or would be, done. */
enum action {
    ACTION_NONE,
    ACTION_WOULD_TAKE,
    ACTION_WOULD_FORCE,
    ACTION_NEEDS_FORCE,
    ACTION_REFUSED,
    ACTION_TAKEN,
    ACTION_HANDED_BACK,
    ACTION_FAILED,
};
static const char *const action_names[] = {
    [ACTION_NONE] = "nothing",
    [ACTION_WOULD_TAKE] = "would take back",
    [ACTION_WOULD_FORCE] = "would force",
    [ACTION_NEEDS_FORCE] = "needs --force",
    [ACTION_REFUSED] = "refused",
    [ACTION_TAKEN] = "taken back",
    [ACTION_HANDED_BACK] = "handed back",
    [ACTION_FAILED] = "failed",
};

/* One machine ID, as it was when it was judged. */
struct row {
    uint16_t machine_id;
    struct own own;
    char *own_value; /* NULL when not held */
    struct horizon horizon;
    enum presence presence;
    struct reclaim reclaim;
    char message[RECLAIM_TEXT_MAX];
    enum action action;
};

struct reclaiming {
    struct ctl_session *session;
    const struct ctl_values *values;
    bool named; /* the machine IDs were given */
    struct row *rows;
    size_t n, n_begun;
    unsigned asking;
    bool asked; /* all have been */
    unsigned n_refused;
    char refusal[RECLAIM_TEXT_MAX + 64]; /* the first */
};

/* ---- looking ---- */

static struct reclaim judge(const struct ctl_session *session, const struct row *row) {
    const struct cluster *cluster = session->cluster;
    uint64_t now_ms = clock_now(&session->clock).wall_ms;
    uint64_t quiet_ms = reclaim_quiet_ms(&cluster->registry, &cluster->meta, now_ms);
    uint64_t horizon_ms = row->horizon.horizon_ms;

    /* Read but once, a horizon that is past must have stood since then, by this machine's clock;
     * that the holder is asked, and its exact value compared, covers the rest. */
    return reclaim_judge(&cluster->registry, &cluster->meta, row->machine_id, quiet_ms, now_ms,
                         horizon_ms < now_ms ? now_ms - horizon_ms : 0, row->presence);
}

static void add_row(struct reclaiming *work, uint16_t machine_id) {
    const struct slot *slot = &work->session->cluster->registry.slots[machine_id];
    struct row *row = &work->rows[work->n++];

    *row = (struct row){.machine_id = machine_id, .own = slot->own, .horizon = slot->horizon};
    if (slot->held)
        row->own_value = allocate_copy(slot->own_value, strlen(slot->own_value));
}

/* Those that are named; or else all that somebody holds or held not long ago. */
static void find_rows(struct reclaiming *work, const bool named[static MACHINE_IDS]) {
    const struct cluster *cluster = work->session->cluster;
    uint64_t now_ms = clock_now(&work->session->clock).wall_ms;

    work->rows = allocate(MACHINE_IDS, sizeof *work->rows);
    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        enum slot_state state = registry_state(&cluster->registry, &cluster->meta,
                                               cluster->meta.quiet_time_ms, (uint16_t)id, now_ms);
        bool in_motion = state == SLOT_HELD || state == SLOT_COOLING || state == SLOT_AHEAD;

        if (work->named ? named[id] : in_motion)
            add_row(work, (uint16_t)id);
    }
}

struct question {
    struct reclaiming *work;
    struct row *row;
};

static void ask_next(struct reclaiming *work);

static void on_asked(void *arg, enum presence presence, const char *reason) {
    struct question *question = arg;
    struct reclaiming *work = question->work;

    (void)reason;
    question->row->presence = presence;
    free(question);
    work->asking--;
    ask_next(work);
}

static void ask_next(struct reclaiming *work) {
    while (work->n_begun < work->n && work->asking < AT_A_TIME) {
        struct row *row = &work->rows[work->n_begun++];
        struct question *question;

        if (!row->own_value)
            continue;
        question = allocate(1, sizeof *question);
        *question = (struct question){work, row};
        work->asking++;
        presence_ask(work->session->client, &row->own, TIMEOUT_MS, on_asked, question);
    }
    work->asked = work->n_begun == work->n && work->asking == 0;
}

static void judge_all(struct reclaiming *work) {
    ask_next(work);
    ctl_wait(work->session, &work->asked);
    for (size_t i = 0; i < work->n; i++) {
        struct row *row = &work->rows[i];
        struct slot shown = {.own = row->own, .horizon = row->horizon};

        row->reclaim = judge(work->session, row);
        reclaim_explain(&row->reclaim, &shown, clock_now(&work->session->clock).wall_ms,
                        row->message);
    }
}

/* ---- taking back ---- */

static void __attribute__((format(printf, 3, 4)))
refuse(struct reclaiming *work, struct row *row, const char *format, ...) {
    va_list args;

    row->action = ACTION_REFUSED;
    va_start(args, format);
    vsnprintf(row->message, sizeof row->message, format, args);
    va_end(args);
    if (work->n_refused++ == 0)
        snprintf(work->refusal, sizeof work->refusal, "machine ID %u: %s", row->machine_id,
                 row->message);
}

static void fail(struct reclaiming *work, struct row *row, const char *why) {
    refuse(work, row, "%s", why);
    row->action = ACTION_FAILED;
}

enum own_now { OWN_SAME, OWN_GONE, OWN_OTHER };

struct own_look {
    const char *before;
    bool deleted;
    enum own_now now;
};

static void take_own(void *arg, const struct etcd_txn_result *result) {
    struct own_look *look = arg;

    look->deleted = result->succeeded && result->results[0].n_kvs == 0 && result->results[0].count;
    if (look->deleted || result->results[0].n_kvs == 0)
        look->now = OWN_GONE;
    else
        look->now = strcmp(result->results[0].kvs[0].value, look->before) == 0 ? OWN_SAME
                                                                               : OWN_OTHER;
}

static enum status look_at_own(struct ctl_session *session, const struct row *row,
                               struct own_look *look, struct error *err) {
    char key[KEY_MAX];
    const struct etcd_op read = {.kind = ETCD_RANGE, .key = key};

    keys_own(&session->keys, row->machine_id, key);
    *look = (struct own_look){.before = row->own_value};
    return ctl_txn(session, &(struct etcd_txn){.then = &read, .n_then = 1}, take_own, look, err);
}

/* Deletes own by its exact value; a stuck one also only while its horizon stands. */
static enum status delete_own(struct ctl_session *session, const struct row *row, bool stuck,
                              struct own_look *look, struct error *err) {
    char own[KEY_MAX], hor[KEY_MAX], horizon[HORIZON_TEXT_MAX];
    const struct etcd_compare compares[] = {
        {.kind = ETCD_VALUE_EQUAL, .key = own, .value = row->own_value},
        {.kind = ETCD_VALUE_EQUAL, .key = hor, .value = horizon},
    };
    const struct etcd_op delete = {.kind = ETCD_DELETE, .key = own};
    const struct etcd_op read = {.kind = ETCD_RANGE, .key = own};
    enum status status = STATUS_UNKNOWN;

    keys_own(&session->keys, row->machine_id, own);
    keys_hor(&session->keys, row->machine_id, hor);
    if (stuck)
        horizon_format(&row->horizon, horizon);
    *look = (struct own_look){.before = row->own_value};
    /* Of unknown outcome: the next attempt reads what is there. */
    for (unsigned i = 0; status == STATUS_UNKNOWN && i < ATTEMPTS; i++)
        status = ctl_txn(session,
                         &(struct etcd_txn){.compares = compares,
                                            .n_compares = stuck ? 2 : 1,
                                            .then = &delete,
                                            .n_then = 1,
                                            .otherwise = &read,
                                            .n_otherwise = 1},
                         take_own, look, err);
    return status;
}

static void take_stuck(struct reclaiming *work, struct row *row) {
    struct own_look look;
    struct error err;

    if (delete_own(work->session, row, true, &look, &err) != STATUS_OK) {
        fail(work, row, err.message);
    } else if (look.now == OWN_GONE) {
        row->action = look.deleted ? ACTION_TAKEN : ACTION_NONE;
        snprintf(row->message, sizeof row->message, "%s",
                 look.deleted ? "taken back" : "its holder's record is gone already");
    } else {
        fail(work, row, "its holder came back meanwhile: nothing was done");
    }
}

/* ---- with force ---- */

static bool add_give_up(void *arg, struct assign *assign) {
    const struct row *row = arg;
    struct give_up order = {.machine_id = row->machine_id};

    for (size_t i = 0; i < assign->n_give_up; i++) {
        if (strcmp(assign->give_up[i].claim, row->own.claim) == 0)
            return false;
    }
    memcpy(order.claim, row->own.claim, sizeof order.claim);
    /* The oldest are of claims that ended long ago: a worker holds no more than fit. */
    if (assign->n_give_up == RECORD_MACHINES_MAX)
        memmove(&assign->give_up[0], &assign->give_up[1],
                --assign->n_give_up * sizeof assign->give_up[0]);
    assign->give_up[assign->n_give_up++] = order;
    return true;
}

static void warn(const struct row *row) {
    uint64_t horizon_ms = row->horizon.horizon_ms;
    char until[32];

    time_format(horizon_ms, until);
    ctl_note("machine ID %u may be in use by %s: nobody else can start on it before its window has "
             "passed (%s); usable in %.1f s at most",
             row->machine_id, row->own.identity[0] ? row->own.identity : "somebody", until,
             (double)(row->reclaim.usable_in_ms == UINT64_MAX ? 0 : row->reclaim.usable_in_ms) /
                 1e3);
}

/* The holder hands it back by itself, and then no window has to pass: until it had the time. */
static enum status wait_for_hand_back(struct ctl_session *session, const struct row *row,
                                      struct own_look *look, struct error *err) {
    uint64_t until = clock_now(&session->clock).boot_ms + HAND_BACK_MS;
    enum status status;

    while ((status = look_at_own(session, row, look, err)) == STATUS_OK && look->now == OWN_SAME &&
           clock_now(&session->clock).boot_ms < until)
        uv_sleep(LOOK_MS);
    return status;
}

static void take_by_force(struct reclaiming *work, struct row *row) {
    struct ctl_session *session = work->session;
    enum ctl_ordered ordered = CTL_ORDERED_NOBODY;
    struct own_look look = {.now = OWN_SAME};
    struct error err;

    warn(row);
    if (row->own.instance[0] &&
        ctl_order(session, row->own.instance, add_give_up, row, &ordered, &err) != STATUS_OK) {
        fail(work, row, err.message);
        return;
    }
    if (ordered != CTL_ORDERED_NOBODY &&
        wait_for_hand_back(session, row, &look, &err) != STATUS_OK) {
        fail(work, row, err.message);
        return;
    }
    if (look.now == OWN_GONE) {
        row->action = ACTION_HANDED_BACK;
        snprintf(row->message, sizeof row->message, "the holder gave it up as ordered");
        return;
    }
    if (delete_own(session, row, false, &look, &err) != STATUS_OK) {
        fail(work, row, err.message);
    } else if (look.now == OWN_GONE) {
        row->action = ACTION_TAKEN;
        snprintf(
            row->message, sizeof row->message, "%s",
            ordered == CTL_ORDERED_NOBODY
                ? "taken back; the holder is not registered, so nobody was ordered to give it up"
                : "taken back; the holder, which did not react, is ordered to give it up");
    } else {
        fail(work, row, "it was claimed anew meanwhile: look again");
    }
}

/* ---- deciding ---- */

static void plan(const struct reclaiming *work, struct row *row) {
    if (row->reclaim.verdict == RECLAIM_STUCK)
        row->action = ACTION_WOULD_TAKE;
    else if (row->reclaim.verdict == RECLAIM_HELD)
        row->action = work->values->force ? ACTION_WOULD_FORCE : ACTION_NEEDS_FORCE;
    if (row->action == ACTION_WOULD_FORCE)
        warn(row);
}

static void carry_out(struct reclaiming *work, struct row *row) {
    char why[RECLAIM_TEXT_MAX];

    switch (row->reclaim.verdict) {
    case RECLAIM_STUCK: take_stuck(work, row); break;
    case RECLAIM_HELD:
        if (work->values->force) {
            take_by_force(work, row);
        } else if (work->named) {
            snprintf(why, sizeof why, "%s", row->message);
            refuse(work, row, "%s", why);
        } else {
            row->action = ACTION_NEEDS_FORCE;
        }
        break;
    case RECLAIM_AHEAD:
    case RECLAIM_RESERVED:
    case RECLAIM_ABSENT:
        if (work->named) {
            snprintf(why, sizeof why, "%s", row->message);
            refuse(work, row, "%s", why);
        }
        break;
    case RECLAIM_FREE:
    case RECLAIM_COOLING: break;
    }
}

/* What can be claimed when, once all is done. */
static enum status look_again(struct reclaiming *work, struct error *err) {
    if (ctl_read_initialised(work->session, err) != STATUS_OK)
        return err->status;
    for (size_t i = 0; i < work->n; i++) {
        struct row *row = &work->rows[i];

        row->horizon = work->session->cluster->registry.slots[row->machine_id].horizon;
        row->reclaim.usable_in_ms = judge(work->session, row).usable_in_ms;
    }
    return STATUS_OK;
}

/* ---- showing ---- */

static const struct output_column columns[] = {
    {"machine_id", "MACHINE ID", true},     {"verdict", "VERDICT", false},
    {"identity", "IDENTITY", false},        {"action", "ACTION", false},
    {"usable_in_ms", "USABLE IN MS", true}, {"message", "WHAT IT IS", false},
};

static json_t *show_row(const struct row *row) {
    json_t *object = json_object();
    uint64_t usable_in_ms = row->reclaim.usable_in_ms;

    fields_put(object, "machine_id", fields_from_number(row->machine_id));
    fields_put(object, "verdict", json_string(reclaim_verdict_name(row->reclaim.verdict)));
    fields_put(object, "identity", report_text(row->own.identity));
    fields_put(object, "instance", report_text(row->own.instance));
    fields_put(object, "action", json_string(action_names[row->action]));
    fields_put(object, "usable_in_ms",
               usable_in_ms > INT64_MAX ? json_null() : fields_from_number(usable_in_ms));
    fields_put(object, "message", fields_from_label(row->message));
    return object;
}

static void show(const struct reclaiming *work) {
    json_t *list = json_array();

    for (size_t i = 0; i < work->n; i++)
        fields_append(list, show_row(&work->rows[i]));
    if (work->values->output == CTL_JSON) {
        output_json(list);
        return;
    }
    if (work->n > 0)
        output_table(columns, sizeof columns / sizeof columns[0], list);
    else
        puts("no machine ID is held, or was not long ago");
    if (!work->values->yes)
        puts("nothing was changed: --yes carries it out");
    json_decref(list);
}

static enum status reclaim(struct reclaiming *work, const bool named[static MACHINE_IDS],
                           struct error *err) {
    enum status status = ctl_read_initialised(work->session, err);

    if (status != STATUS_OK)
        return status;
    find_rows(work, named);
    judge_all(work);
    for (size_t i = 0; i < work->n; i++) {
        if (work->values->yes)
            carry_out(work, &work->rows[i]);
        else
            plan(work, &work->rows[i]);
    }
    if (work->values->yes)
        status = look_again(work, err);
    if (status == STATUS_OK)
        show(work);
    if (status == STATUS_OK && work->n_refused > 1)
        status = error_set(err, STATUS_REFUSED, "%u were not taken back; %.180s", work->n_refused,
                           work->refusal);
    else if (status == STATUS_OK && work->n_refused == 1)
        status = error_set(err, STATUS_REFUSED, "%s", work->refusal);
    for (size_t i = 0; i < work->n; i++)
        free(work->rows[i].own_value);
    free(work->rows);
    return status;
}

static int run(const struct ctl_values *values, char *const *operands, struct error *err) {
    struct ctl_session session;
    struct reclaiming work = {.session = &session, .values = values, .named = operands[0] != NULL};
    bool named[MACHINE_IDS] = {false};
    enum status status;

    for (size_t i = 0; operands[i]; i++) {
        uint64_t machine_id;

        if (decimal_parse(operands[i], strlen(operands[i]), 0, MACHINE_IDS - 1, &machine_id, err) !=
            STATUS_OK) {
            error_context(err, "ID");
            return CTL_USAGE;
        }
        named[machine_id] = true;
    }
    if (values->force && !work.named) {
        error_set(err, STATUS_INVALID, "--force: name the machine IDs that are meant");
        return CTL_USAGE;
    }
    if (ctl_open(&session, values, err) != STATUS_OK)
        return CTL_USAGE;
    status = reclaim(&work, named, err);
    ctl_close(&session);
    return status == STATUS_OK ? CTL_DONE : CTL_FAILED;
}

const struct ctl_command ctl_reclaim = {
    .name = "reclaim",
    .operands = "[ID]...",
    .max_operands = MACHINE_IDS,
    .summary = "Shows which machine IDs can be taken back, and with --yes takes them back.",
    .options = options,
    .run = run,
};
