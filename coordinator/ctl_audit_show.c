#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/decimal.h"
#include "common/fields.h"
#include "common/snowflake.h"
#include "coordinator/ctl_audit.h"
#include "coordinator/ctl_output.h"
#include "coordinator/report.h"

static const struct output_column bad_columns[] = {
    {"file", "FILE", false}, {"line", "LINE", true}, {"reason", "BAD LINE", false}};
static const struct output_column repeated_columns[] = {
    {"id", "REPEATED ID", true}, {"count", "TIMES", true},      {"machine_id", "MACHINE ID", true},
    {"time", "TIME", false},     {"identity", "HOLDER", false}, {"where", "FIRST PLACES", false}};
static const struct output_column stranger_columns[] = {
    {"id", "ID OUTSIDE", true},         {"file", "FILE", false}, {"line", "LINE", true},
    {"machine_id", "MACHINE ID", true}, {"time", "TIME", false}, {"reason", "REASON", false}};
static const struct output_column machine_columns[] = {
    {"machine_id", "MACHINE ID", true},
    {"lines", "LINES", true},
    {"first", "FIRST", false},
    {"last", "LAST", false},
    {"increasing", "INCREASING", false},
    {"outside", "OUTSIDE", true},
    {"not_covered", "NOT COVERED", true},
};
static const struct output_column holder_columns[] = {
    {"machine_id", "MACHINE ID", true},
    {"after", "AFTER", false},
    {"until", "UNTIL", false},
    {"first", "FIRST", false},
    {"last", "LAST", false},
    {"identity", "HOLDER", false},
    {"ids", "IDS", true},
    {"claim", "CLAIM", false},
};
#define TABLE(columns, rows) output_table((columns), sizeof(columns) / sizeof(columns)[0], (rows))

static json_t *show_time(uint64_t wall_ms) {
    char text[32];

    time_format(wall_ms, text);
    return json_string(text);
}

json_t *audit_show_place(const struct audit_findings *findings, uint64_t place) {
    json_t *object = json_object();
    const char *file = audit_file_name(findings->files[place >> 48]);

    fields_put(object, "file", fields_from_label(file));
    fields_put(object, "line", report_wide(place & ((UINT64_C(1) << 48) - 1)));
    return object;
}

static uint64_t time_of(const struct audit_findings *findings, uint64_t id) {
    return snowflake_decode((int64_t)id, findings->epoch_ms).timestamp_ms;
}

static json_t *show_machines(const struct audit_findings *findings) {
    json_t *rows = json_array();

    for (unsigned i = 0; i < MACHINE_IDS; i++) {
        const struct audit_machine *machine = &findings->machines[i];
        json_t *row;

        if (machine->lines == 0)
            continue;
        row = json_object();
        fields_put(row, "machine_id", fields_from_number(i));
        fields_put(row, "lines", report_wide(machine->lines));
        fields_put(row, "first", show_time(time_of(findings, machine->smallest)));
        fields_put(row, "last", show_time(time_of(findings, machine->largest)));
        fields_put(row, "increasing", json_boolean(machine->increasing));
        fields_put(row, "outside", findings->offline ? json_null() : report_wide(machine->outside));
        fields_put(row, "not_covered",
                   findings->offline ? json_null() : report_wide(machine->not_covered));
        fields_append(rows, row);
    }
    return rows;
}

/* Who held the machine IDs when these IDs were issued. */
static json_t *show_holders(const struct audit_findings *findings) {
    json_t *rows = json_array();

    for (unsigned i = 0; i < MACHINE_IDS; i++) {
        const struct audit_history *history = &findings->machines[i].history;

        for (size_t w = 0; w < history->n; w++) {
            const struct audit_window *window = &history->windows[w];
            json_t *row;

            if (window->ids == 0)
                continue;
            row = json_object();
            fields_put(row, "machine_id", fields_from_number(i));
            fields_put(row, "identity", report_text(window->identity));
            fields_put(row, "instance", report_text(window->instance));
            fields_put(row, "claim", report_text(window->claim));
            fields_put(row, "after", show_time(window->after_ms));
            fields_put(row, "until", show_time(window->until_ms));
            fields_put(row, "first", show_time(window->first_ms));
            fields_put(row, "last", show_time(window->last_ms));
            fields_put(row, "ids", report_wide(window->ids));
            fields_append(rows, row);
        }
    }
    return rows;
}

/* People want the places in one cell. */
static void add_where(json_t *rows) {
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *places = json_object_get(json_array_get(rows, i), "places");
        json_t *where = json_array();

        for (size_t p = 0; p < json_array_size(places); p++) {
            const json_t *place = json_array_get(places, p);

            fields_append(where,
                          json_sprintf("%s:%s", json_string_value(json_object_get(place, "file")),
                                       json_string_value(json_object_get(place, "line"))));
        }
        fields_put(json_array_get(rows, i), "where", where);
    }
}

static json_t *show_list(const char *name, uint64_t count, json_t *first) {
    json_t *object = json_object();

    fields_put(object, name, report_wide(count));
    fields_put(object, "first", json_incref(first));
    return object;
}

static void print_json(const struct audit_findings *findings) {
    json_t *object = json_object(), *repeated;

    fields_put(object, "lines", report_wide(findings->lines));
    fields_put(object, "ids", report_wide(findings->ids));
    fields_put(object, "bad_lines", show_list("lines", findings->bad_lines, findings->bad));
    repeated = show_list("ids", findings->repeated_ids, findings->repeated);
    fields_put(repeated, "lines", report_wide(findings->repeated_lines));
    fields_put(object, "duplicates", repeated);
    fields_put(object, "outside",
               findings->offline ? json_null()
                                 : show_list("ids", findings->outside, findings->strangers));
    fields_put(object, "not_covered",
               findings->offline ? json_null() : report_wide(findings->not_covered));
    fields_put(object, "machines", show_machines(findings));
    fields_put(object, "holders", findings->offline ? json_null() : show_holders(findings));
    output_json(object);
}

static void print_tables(const struct audit_findings *findings) {
    json_t *machines = show_machines(findings), *holders = show_holders(findings);

    printf("lines: %" PRIu64 "\nids: %" PRIu64 "\nbad lines: %" PRIu64 "\nrepeated: %" PRIu64
           " IDs, in %" PRIu64 " lines too many\n",
           findings->lines, findings->ids, findings->bad_lines, findings->repeated_ids,
           findings->repeated_lines);
    if (findings->offline)
        puts("outside: not checked (--offline)");
    else
        printf("outside: %" PRIu64 "\nnot covered: %" PRIu64
               " (older than what etcd still knows)\n",
               findings->outside, findings->not_covered);
    if (json_array_size(findings->bad) > 0)
        TABLE(bad_columns, findings->bad);
    if (json_array_size(findings->repeated) > 0) {
        add_where(findings->repeated);
        TABLE(repeated_columns, findings->repeated);
    }
    if (json_array_size(findings->strangers) > 0)
        TABLE(stranger_columns, findings->strangers);
    if (json_array_size(machines) > 0)
        TABLE(machine_columns, machines);
    if (json_array_size(holders) > 0)
        TABLE(holder_columns, holders);
    json_decref(machines);
    json_decref(holders);
}

void audit_show(const struct audit_findings *findings, enum ctl_output output) {
    if (output == CTL_JSON)
        print_json(findings);
    else
        print_tables(findings);
}
