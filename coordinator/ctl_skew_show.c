#include "coordinator/ctl_skew.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/fields.h"
#include "coordinator/ctl_output.h"

#define CELL_MAX 256
#define WIDE_COLUMNS 150 /* a narrower terminal gets the columns that matter most */
#define LINES_BESIDE 10  /* head and summary */
#define ROWS_MIN 10

/* ---- the table ---- */

static const struct output_column wide[] = {
    {"node", "NODE", false},       {"id", "ID", true},
    {"state", "STATE", false},     {"offset", "OFFSET MS", true},
    {"bound", "+- MS", true},      {"claim", "CLAIM MS", true},
    {"source", "SOURCE", false},   {"sync", "SYNC", false},
    {"drift", "DRIFT PPM", true},  {"effective", "EFF-WALL MS", true},
    {"lead", "LEAD S", true},      {"heard", "HEARD S", true},
    {"verdict", "VERDICT", false}, {"notes", "NOTES", false},
};

static const struct output_column narrow[] = {
    {"node", "NODE", false},       {"id", "ID", true},
    {"offset", "OFFSET MS", true}, {"bound", "+- MS", true},
    {"sync", "SYNC", false},       {"lead", "LEAD S", true},
    {"heard", "HEARD S", true},    {"verdict", "VERDICT", false},
};
#define NARROW_NODE_MAX 24

static const json_t *field(const json_t *node, const char *name) {
    return json_object_get(node, name);
}

static const char *text_of(const json_t *value, const char *otherwise) {
    return json_is_string(value) ? json_string_value(value) : otherwise;
}

static json_t *number_cell(const json_t *value, double unit, int digits, bool sign) {
    char cell[CELL_MAX];

    if (!json_is_number(value))
        return json_null();
    snprintf(cell, sizeof cell, sign ? "%+.*f" : "%.*f", digits, json_number_value(value) / unit);
    return json_string(cell);
}

static json_t *drift_cell(const json_t *node) {
    const json_t *drift = field(node, "drift_ppm"), *bound = field(node, "drift_bound_ppm");
    char cell[CELL_MAX];

    if (!json_is_number(drift) || !json_is_number(bound))
        return json_null();
    snprintf(cell, sizeof cell, "%+.1f +-%.1f", json_number_value(drift), json_number_value(bound));
    return json_string(cell);
}

/* "chrony", "kernel?" when it is not to be trusted. */
static json_t *source_cell(const json_t *node) {
    const char *source = text_of(field(node, "source"), "");
    char cell[CELL_MAX];

    if (!source[0])
        return json_null();
    snprintf(cell, sizeof cell, "%s%s", source, json_is_false(field(node, "trusted")) ? "?" : "");
    return json_string(cell);
}

static json_t *id_cell(const json_t *node) {
    size_t n = json_array_size(field(node, "machine_ids"));
    const json_t *id = field(node, "machine_id");
    char cell[CELL_MAX];

    if (!json_is_integer(id))
        return json_null();
    snprintf(cell, sizeof cell, "%" JSON_INTEGER_FORMAT, json_integer_value(id));
    if (n > 1)
        snprintf(cell + strlen(cell), sizeof cell - strlen(cell), "+%zu", n - 1);
    return json_string(cell);
}

static json_t *verdict_cell(const json_t *node) {
    char cell[CELL_MAX];

    snprintf(cell, sizeof cell, "%s%s", text_of(field(node, "verdict"), "-"),
             json_is_true(field(node, "uncertain")) ? " (uncertain)" : "");
    return json_string(cell);
}

static json_t *notes_cell(const json_t *node) {
    const json_t *notes = field(node, "notes");
    char cell[CELL_MAX] = "";
    size_t len = 0;

    for (size_t i = 0; i < json_array_size(notes) && len < sizeof cell; i++)
        len += (size_t)snprintf(cell + len, sizeof cell - len, "%s%s", i ? "; " : "",
                                text_of(json_array_get(notes, i), ""));
    return json_string(cell);
}

static json_t *node_cell(const json_t *node, bool is_wide) {
    const char *identity = text_of(field(node, "identity"), text_of(field(node, "instance"), "-"));
    char cell[CELL_MAX];
    size_t len = strlen(identity);

    /* The end of a name tells more than its begin: pods of one set begin alike. */
    if (!is_wide && len > NARROW_NODE_MAX)
        snprintf(cell, sizeof cell, "..%s", identity + len - (NARROW_NODE_MAX - 2));
    else
        snprintf(cell, sizeof cell, "%s", identity);
    return json_string(cell);
}

static json_t *row_of(const json_t *node, bool is_wide) {
    json_t *row = json_object();
    const json_t *sync = field(node, "synchronized");

    fields_put(row, "node", node_cell(node, is_wide));
    fields_put(row, "id", id_cell(node));
    fields_put(row, "state", json_string(text_of(field(node, "state"), "-")));
    fields_put(row, "offset", number_cell(field(node, "offset_ms"), 1, 3, true));
    fields_put(row, "bound", number_cell(field(node, "bound_ms"), 1, 3, false));
    fields_put(row, "claim", number_cell(field(node, "claimed_error_ms"), 1, 3, false));
    fields_put(row, "source", source_cell(node));
    fields_put(row, "sync", json_is_boolean(sync) ? json_boolean(json_is_true(sync)) : json_null());
    fields_put(row, "drift", drift_cell(node));
    fields_put(row, "effective", number_cell(field(node, "effective_minus_wall_ms"), 1, 3, true));
    fields_put(row, "lead", number_cell(field(node, "horizon_lead_ms"), 1000, 0, false));
    fields_put(row, "heard", number_cell(field(node, "heard_ms"), 1000, 0, false));
    fields_put(row, "verdict", verdict_cell(node));
    fields_put(row, "notes", notes_cell(node));
    return row;
}

/* ---- what stands below it ---- */

static void print_fleet(const json_t *report, size_t n) {
    const json_t *fleet = field(report, "fleet_skew_ms"), *reference = field(report, "reference");
    json_int_t heard = json_integer_value(field(report, "heard"));
    double at_least = json_number_value(field(fleet, "at_least"));
    double at_most = json_number_value(field(fleet, "at_most"));

    if (n == 0)
        puts("no worker is registered");
    else if (json_is_true(field(report, "incomplete")))
        printf("incomplete: %" JSON_INTEGER_FORMAT " of %zu workers did not answer\n",
               (json_int_t)n - heard, n);
    if (json_is_object(reference))
        printf("reference: %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
               " clocks agree, %+.3f ms from the clock of %s\n",
               json_integer_value(field(reference, "agreeing")),
               json_integer_value(field(reference, "clocks")),
               json_number_value(field(reference, "from_here_ms")),
               strcmp(text_of(field(report, "measured_by"), ""), "snowfleetctl") == 0
                   ? "this machine"
                   : "the coordinator");
    else
        puts("reference: none");
    if (!json_is_object(fleet))
        return;
    if (json_is_object(reference))
        printf("fleet: two differ by at least %.3f, any two by at most %.3f ms\n", at_least,
               at_most);
    else if (heard == 2)
        printf(
            "fleet: they differ by %.3f to %.3f ms; two clocks cannot say which of them is wrong\n",
            at_least, at_most);
    else
        printf("fleet: they differ by %.3f to %.3f ms; no majority agrees, so none is taken for "
               "right\n",
               at_least, at_most);
}

static void print_cluster(const json_t *report) {
    const json_t *slots = field(report, "slots"), *lead = field(report, "ceiling_lead_s");
    const char *name;
    json_t *count;

    if (json_is_object(slots)) {
        bool first = true;

        printf("slots:");
        json_object_foreach((json_t *)slots, name, count) {
            printf("%s %" JSON_INTEGER_FORMAT " %s", first ? "" : ",", json_integer_value(count),
                   name);
            first = false;
        }
        putchar('\n');
    }
    if (json_is_integer(lead))
        printf("ceiling: %" JSON_INTEGER_FORMAT " s ahead", json_integer_value(lead));
    else
        printf("ceiling: none");
    printf("   mode: %s\nera: %s\n", text_of(field(report, "mode"), "-"),
           text_of(field(report, "era"), "-"));
}

static void print_verdicts(const json_t *report) {
    const char *name;
    json_t *count;
    bool first = true;

    printf("verdicts:");
    json_object_foreach(json_object_get(report, "verdicts"), name, count) {
        printf("%s %" JSON_INTEGER_FORMAT " %s", first ? "" : ",", json_integer_value(count), name);
        first = false;
    }
    printf("   measured %s\n", text_of(field(report, "measured_at"), "-"));
}

static void show_table(const json_t *report, const struct skew_show *how) {
    const json_t *nodes = field(report, "nodes");
    size_t n = json_array_size(nodes), shown = n;
    struct winsize window = {0};
    bool terminal = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 &&
                    window.ws_col > 0;
    bool is_wide = !terminal || window.ws_col >= WIDE_COLUMNS;
    json_t *rows = json_array();

    if (how->top == SKEW_TOP_FIT) {
        size_t room = window.ws_row > LINES_BESIDE + ROWS_MIN ? window.ws_row - LINES_BESIDE
                                                              : ROWS_MIN;

        if (terminal && shown > room)
            shown = room;
    } else if (how->top > 0 && shown > how->top) {
        shown = (size_t)how->top;
    }
    if (how->watch && terminal)
        fputs("\033[H\033[2J", stdout);
    else if (how->again)
        putchar('\n');
    for (size_t i = 0; i < shown; i++)
        fields_append(rows, row_of(json_array_get(nodes, i), is_wide));
    if (is_wide)
        output_table(wide, sizeof wide / sizeof wide[0], rows);
    else
        output_table(narrow, sizeof narrow / sizeof narrow[0], rows);
    json_decref(rows);
    if (shown < n)
        printf("and %zu more, none of them worse (--top=0 shows all)\n", n - shown);
    print_verdicts(report);
    print_fleet(report, n);
    print_cluster(report);
}

/* ---- CSV ---- */

static const char *const csv_fields[] = {
    "measured_at",     "identity",     "instance",    "machine_id",       "state",
    "offset_ms",       "bound_ms",     "uncertain",   "claimed_error_ms", "source",
    "trusted",         "synchronized", "drift_ppm",   "drift_bound_ppm",  "effective_minus_wall_ms",
    "horizon_lead_ms", "heard_ms",     "falseticker", "claim_false",      "verdict",
    "reason",
};
#define N_CSV (sizeof csv_fields / sizeof csv_fields[0])

static void print_csv_text(const char *text) {
    if (!text[strcspn(text, "\",\r\n")]) {
        fputs(text, stdout);
        return;
    }
    putchar('"');
    for (; *text; text++) {
        if (*text == '"')
            putchar('"');
        putchar(*text);
    }
    putchar('"');
}

static void print_csv_value(const json_t *value) {
    if (json_is_string(value))
        print_csv_text(json_string_value(value));
    else if (json_is_integer(value))
        printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        printf("%.3f", json_real_value(value));
    else if (json_is_boolean(value))
        fputs(json_is_true(value) ? "true" : "false", stdout);
}

static void show_csv(const json_t *report, const struct skew_show *how) {
    const json_t *nodes = field(report, "nodes");

    for (size_t i = 0; !how->again && i < N_CSV; i++)
        printf("%s%s", csv_fields[i], i + 1 < N_CSV ? "," : "\r\n");
    for (size_t row = 0; row < json_array_size(nodes); row++) {
        const json_t *node = json_array_get(nodes, row);

        for (size_t i = 0; i < N_CSV; i++) {
            print_csv_value(i == 0 ? field(report, csv_fields[0]) : field(node, csv_fields[i]));
            fputs(i + 1 < N_CSV ? "," : "\r\n", stdout);
        }
    }
}

void skew_show(const json_t *report, const struct skew_show *how) {
    switch (how->form) {
    case SKEW_TABLE: show_table(report, how); break;
    case SKEW_CSV: show_csv(report, how); break;
    case SKEW_JSON: output_json(json_incref((json_t *)report)); break;
    case SKEW_JSON_LINE:
        json_dumpf(report, stdout, JSON_COMPACT | JSON_REAL_PRECISION(15));
        putchar('\n');
        break;
    }
}
