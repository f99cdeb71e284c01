#include "coordinator/ctl_output.h"

#include <libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELL_MAX 512

/* Spells a value for a person. */
static void spell(const json_t *value, char *text, size_t size) {
    size_t len = 0;

    switch (json_is_array(value) ? JSON_ARRAY : value ? json_typeof(value) : JSON_NULL) {
    case JSON_STRING: snprintf(text, size, "%s", json_string_value(value)); break;
    case JSON_INTEGER:
        snprintf(text, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL: snprintf(text, size, "%.3f", json_real_value(value)); break;
    case JSON_TRUE: snprintf(text, size, "yes"); break;
    case JSON_FALSE: snprintf(text, size, "no"); break;
    case JSON_ARRAY:
        snprintf(text, size, "-");
        for (size_t i = 0; i < json_array_size(value) && len < size; i++) {
            char element[64];

            spell(json_array_get(value, i), element, sizeof element);
            len += (size_t)snprintf(text + len, size - len, "%s%s", i ? "," : "", element);
        }
        break;
    case JSON_NULL:
    case JSON_OBJECT: snprintf(text, size, "-"); break;
    }
}

void output_table(const struct output_column *columns, size_t n, const json_t *rows) {
    struct libscols_table *table = scols_new_table();

    if (!table)
        abort();
    for (size_t i = 0; i < n; i++) {
        if (!scols_table_new_column(table, columns[i].head, 0,
                                    columns[i].right ? SCOLS_FL_RIGHT : 0))
            abort();
    }
    for (size_t row = 0; row < json_array_size(rows); row++) {
        struct libscols_line *line = scols_table_new_line(table, NULL);

        for (size_t i = 0; line && i < n; i++) {
            char cell[CELL_MAX];

            spell(json_object_get(json_array_get(rows, row), columns[i].field), cell, sizeof cell);
            scols_line_set_data(line, i, cell);
        }
    }
    scols_print_table(table);
    scols_unref_table(table);
}

void output_facts(const json_t *object) {
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)object, name, value) {
        char text[CELL_MAX];

        if (json_is_object(value) ||
            (json_is_array(value) && json_is_object(json_array_get(value, 0))))
            continue;
        spell(value, text, sizeof text);
        printf("%s: %s\n", name, text);
    }
}

void output_json(json_t *value) {
    json_dumpf(value, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    putchar('\n');
    json_decref(value);
}

void output_object(json_t *object, bool json) {
    if (json) {
        output_json(object);
    } else {
        output_facts(object);
        json_decref(object);
    }
}
