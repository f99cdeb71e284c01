/* snowfleetctl machines: each machine ID, its state and its holder; or the history of one. */
#include <fnmatch.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/allocate.h"
#include "common/decimal.h"
#include "common/fields.h"
#include "common/quote.h"
#include "coordinator/ctl.h"
#include "coordinator/ctl_history.h"
#include "coordinator/ctl_output.h"
#include "coordinator/ctl_session.h"
#include "coordinator/report.h"

#define STATES (SLOT_AHEAD + 1)

enum sort { SORT_ID, SORT_STATE, SORT_USABLE, SORT_HORIZON };
static const char *const sorts[] = {[SORT_ID] = "id",
                                    [SORT_STATE] = "state",
                                    [SORT_USABLE] = "usable",
                                    [SORT_HORIZON] = "horizon",
                                    NULL};

static const struct option options[] = {
    {.name = "state",
     .type = OPTION_STRING,
     .offset = offsetof(struct ctl_values, state),
     .argument = "STATE[,STATE]...",
     .help = "Only these: HELD, COOLING, FREE, AHEAD, RESERVED, ABSENT."},
    {.name = "identity",
     .type = OPTION_STRING,
     .offset = offsetof(struct ctl_values, identity),
     .argument = "GLOB",
     .help = "Only those whose holder's identity matches, as in prod/*."},
    {.name = "sort",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct ctl_values, sort),
     .argument = "id|state|usable|horizon",
     .fallback = "id",
     .choices = sorts,
     .help = "By what; usable: which can be claimed soonest."},
    {.name = "history",
     .type = OPTION_NUMBER,
     .offset = offsetof(struct ctl_values, history),
     .given_offset = offsetof(struct ctl_values, history_given),
     .argument = "ID",
     .max = MACHINE_IDS - 1,
     .help = "Who held this machine ID and when, newest first, as far as etcd's history goes "
             "back.  etcd keeps no times: they are derived from horizons and approximate."},
    {.name = NULL},
};

static const struct output_column columns[] = {
    {"machine_id", "MACHINE ID", true}, {"state", "STATE", false},
    {"identity", "IDENTITY", false},    {"instance", "INSTANCE", false},
    {"horizon_ms", "HORIZON", false},   {"usable_in_ms", "USABLE IN MS", true},
    {"stuck", "STUCK", false},
};

static const struct output_column history_columns[] = {
    {"from_ms", "FROM (ABOUT)", false}, {"until_ms", "UNTIL (AT MOST)", false},
    {"ended", "ENDED", false},          {"identity", "IDENTITY", false},
    {"instance", "INSTANCE", false},    {"claim", "CLAIM", false},
};

/* People read dates. */
static void date(json_t *rows, const char *field) {
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        uint64_t wall_ms = 0;
        struct error err;
        struct fields fields = {.object = row, .err = &err};
        char text[32];

        if (!json_is_string(json_object_get(row, field)))
            continue;
        fields_wide(&fields, field, UINT64_MAX, &wall_ms);
        time_format(wall_ms, text);
        fields_put(row, field, json_string(text));
    }
}

/* ---- filters and sort ---- */

static enum status read_states(const char *list, bool wanted[static STATES], struct error *err) {
    const char *at = list;
    char quoted[QUOTE_SIZE];

    while (at) {
        size_t len = strcspn(at, ",");
        unsigned state = 0;

        while (state < STATES &&
               (strlen(slot_state_name((enum slot_state)state)) != len ||
                strncasecmp(slot_state_name((enum slot_state)state), at, len) != 0))
            state++;
        if (state == STATES)
            return error_set(err, STATUS_INVALID,
                             "--state=%s: must be of HELD, COOLING, FREE, AHEAD, RESERVED, ABSENT",
                             quote(list, strlen(list), quoted));
        wanted[state] = true;
        at = at[len] ? at + len + 1 : NULL;
    }
    return STATUS_OK;
}

static bool passes(const json_t *machine, const struct ctl_values *values,
                   const bool wanted[static STATES]) {
    const char *state = json_string_value(json_object_get(machine, "state"));
    const char *identity = json_string_value(json_object_get(machine, "identity"));
    bool in_state = !values->state;

    for (unsigned i = 0; i < STATES; i++)
        in_state = in_state ||
                   (wanted[i] && strcmp(state, slot_state_name((enum slot_state)i)) == 0);
    return in_state &&
           (!values->identity || (identity && fnmatch(values->identity, identity, 0) == 0));
}

/* Numbers by value; texts by length first, which orders numerals too; null comes last. */
static int compare(const json_t *a, const json_t *b) {
    size_t a_len = json_string_length(a), b_len = json_string_length(b);

    if (json_is_null(a) || json_is_null(b))
        return json_is_null(a) - json_is_null(b);
    if (json_is_integer(a))
        return (json_integer_value(a) > json_integer_value(b)) -
               (json_integer_value(a) < json_integer_value(b));
    if (a_len != b_len)
        return a_len < b_len ? -1 : 1;
    return strcmp(json_string_value(a), json_string_value(b));
}

static int by_field(const void *a, const void *b, void *field) {
    const json_t *left = *(json_t *const *)a, *right = *(json_t *const *)b;
    int order = compare(json_object_get(left, field), json_object_get(right, field));

    return order
               ? order
               : compare(json_object_get(left, "machine_id"), json_object_get(right, "machine_id"));
}

/* Takes machines; what is wanted of them, in the order that is wanted. */
static json_t *select_machines(json_t *machines, const struct ctl_values *values,
                               const bool wanted[static STATES]) {
    static const char *const fields[] = {[SORT_ID] = "machine_id",
                                         [SORT_STATE] = "state",
                                         [SORT_USABLE] = "usable_in_ms",
                                         [SORT_HORIZON] = "horizon_ms"};
    json_t **sorted = allocate(json_array_size(machines) + 1, sizeof(json_t *));
    json_t *selected = json_array();
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(machines); i++) {
        if (passes(json_array_get(machines, i), values, wanted))
            sorted[n++] = json_array_get(machines, i);
    }
    qsort_r(sorted, n, sizeof(json_t *), by_field, (void *)fields[values->sort]);
    for (size_t i = 0; i < n; i++)
        fields_append(selected, json_incref(sorted[i]));
    free(sorted);
    json_decref(machines);
    return selected;
}

/* ---- showing ---- */

static enum status list_machines(struct ctl_session *session, const struct ctl_values *values,
                                 const bool wanted[static STATES], struct error *err) {
    json_t *machines;

    if (ctl_read_initialised(session, err) != STATUS_OK)
        return err->status;
    machines = select_machines(
        report_machines(session->cluster, clock_now(&session->clock).wall_ms), values, wanted);
    if (values->output == CTL_JSON) {
        output_json(machines);
        return STATUS_OK;
    }
    date(machines, "horizon_ms");
    output_table(columns, sizeof columns / sizeof columns[0], machines);
    json_decref(machines);
    return STATUS_OK;
}

static enum status show_history(struct ctl_session *session, const struct ctl_values *values,
                                struct error *err) {
    json_t *history, *claims;

    if (ctl_read_initialised(session, err) != STATUS_OK ||
        ctl_history(session, (uint16_t)values->history, &history, err) != STATUS_OK)
        return err->status;
    if (values->output == CTL_JSON) {
        output_json(history);
        return STATUS_OK;
    }
    claims = json_object_get(history, "claims");
    date(claims, "from_ms");
    date(claims, "until_ms");
    if (json_array_size(claims) > 0)
        output_table(history_columns, sizeof history_columns / sizeof history_columns[0], claims);
    puts(json_is_true(json_object_get(history, "complete"))
             ? "that is all: nobody held it before"
             : "what was before etcd no longer knows: its history is compacted");
    json_decref(history);
    return STATUS_OK;
}

static int run(const struct ctl_values *values, char *const *operands, struct error *err) {
    bool wanted[STATES] = {false};
    struct ctl_session session;
    enum status status;

    (void)operands;
    if (values->state && read_states(values->state, wanted, err) != STATUS_OK)
        return CTL_USAGE;
    if (values->history_given && (values->state || values->identity || values->sort != SORT_ID)) {
        error_set(err, STATUS_INVALID, "--history: is of one machine ID, without filter and sort");
        return CTL_USAGE;
    }
    if (ctl_open(&session, values, err) != STATUS_OK)
        return CTL_USAGE;
    status = values->history_given ? show_history(&session, values, err)
                                   : list_machines(&session, values, wanted, err);
    ctl_close(&session);
    return status == STATUS_OK ? CTL_DONE : CTL_FAILED;
}

const struct ctl_command ctl_machines = {
    .name = "machines",
    .operands = "",
    .summary = "Lists the machine IDs: HELD, COOLING, FREE, AHEAD, RESERVED or ABSENT.",
    .options = options,
    .run = run,
};
