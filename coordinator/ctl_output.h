/* ctl_output.h - results on stdout: the same JSON as a table for people, or as it is. */
#ifndef SNOWFLEET_COORDINATOR_CTL_OUTPUT_H
#define SNOWFLEET_COORDINATOR_CTL_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct output_column {
    const char *field; /* of a row's object */
    const char *head;
    bool right; /* a number */
};

/* rows: a list of objects; null and absent fields show as "-", lists with commas. */
void output_table(const struct output_column *columns, size_t n, const json_t *rows);
/* One "name: value" a line, for a single object; fields whose values are objects or lists of
 * objects are left out. */
void output_facts(const json_t *object);
/* Takes object: as it is (json), or as facts. */
void output_object(json_t *object, bool json);
/* Takes value. */
void output_json(json_t *value);

#endif
