/* fields.h - [pure] the fields of a JSON record, one after the other, strictly.
 *
 * For records.c and its like.  Needs no check after every field: the first failure stays, what is
 * read after it counts for nothing, and its message names the record, the field, what it must be
 * and what it is:
 *
 *     struct fields fields;
 *     json_t *record = fields_open(&fields, "meta", text, len, err);
 *     fields_number(&fields, "max_window_ms", 1, 3600000, &read.max_window_ms);
 *     json_decref(record);
 *     if (fields.status == STATUS_OK)
 *         *meta = read;
 *     return fields.status; */
#ifndef SNOWFLEET_COMMON_FIELDS_H
#define SNOWFLEET_COMMON_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

#define FIELDS_NAME_MAX 48 /* a field's name, with its place in a list */

struct fields {
    const json_t *object;           /* the caller's; NULL has no fields */
    char path[2 * FIELDS_NAME_MAX]; /* before a field's name: "meta: ", "own: addresses." */
    struct error *err;              /* where the first failure goes */
    enum status status;             /* of the first failure */
};

/* ---- reading: a field that is missing fails like a wrong one ---- */

/* Parses text[len] as one JSON object in which no name comes twice, for the caller to json_decref().
 * NULL, and a failure, when it is none. */
json_t *fields_open(struct fields *fields, const char *kind, const char *text, size_t len,
                    struct error *err);
bool fields_has(const struct fields *fields, const char *name);
/* Those that end in _value read a value that is at hand, such as an element of a list; value NULL
 * is a missing one. */
void fields_number(struct fields *fields, const char *name, uint64_t min, uint64_t max,
                   uint64_t *number);
void fields_number_value(struct fields *fields, const char *name, const json_t *value, uint64_t min,
                         uint64_t max, uint64_t *number);
/* A number 0..max that stands as a string of plain decimal. */
void fields_wide(struct fields *fields, const char *name, uint64_t max, uint64_t *number);
/* The same, or null for what is not known: then *known is false and *number stays as it was. */
void fields_wide_or_null(struct fields *fields, const char *name, uint64_t max, uint64_t *number,
                         bool *known);
void fields_flag(struct fields *fields, const char *name, bool *flag);
/* A string that check takes.  check says what it must be and what it is ("must be host:port, got
 * x"), and takes only what fits into out. */
typedef enum status fields_check_fn(const char *text, struct error *err);
void fields_text(struct fields *fields, const char *name, fields_check_fn *check, char *out);
void fields_text_value(struct fields *fields, const char *name, const json_t *value,
                       fields_check_fn *check, char *out);
/* A list of up to max elements, borrowed; NULL, which has no elements, after a failure. */
const json_t *fields_list(struct fields *fields, const char *name, size_t max);
/* Spells the name of an element, "reserved[3]", and returns out. */
const char *fields_element(const char *list, size_t i, char out[static FIELDS_NAME_MAX]);
/* The fields of an object within this one; fields_leave() brings a failure back. */
struct fields fields_enter(struct fields *fields, const char *name, const json_t *object);
void fields_leave(struct fields *fields, const struct fields *inner);

/* For fields of another kind: "<path><name> must be <wanted>, got <value>" ... */
void fields_refuse(struct fields *fields, const char *name, const json_t *value,
                   const char *wanted);
/* ... and "<path><name> <why>". */
void fields_fail(struct fields *fields, enum status status, const char *name, const char *why);

/* A check for labels: fewer than size bytes of UTF-8 without control characters. */
enum status fields_check_label(const char *text, size_t size, struct error *err);

/* ---- writing: aborts when there is no memory, since a record that lacks a field must not go out.
 * Values are handed over: put and append take them, spell takes the record. ---- */

void fields_put(json_t *object, const char *name, json_t *value);
void fields_append(json_t *list, json_t *value);
json_t *fields_from_number(uint64_t value); /* up to INT64_MAX */
json_t *fields_from_wide(uint64_t value);   /* as a string */
/* A string that fields_check_label takes, but for its length: a control character becomes '?', and
 * so does every byte beyond ASCII when text is not UTF-8.  A label may hold what somebody typed, or
 * be cut within a character, and must not make its record unreadable. */
json_t *fields_from_label(const char *text);
/* The record's text, for the caller to free(): without blanks, in the order in which the fields
 * were put; then those of before, the text of an older record, that it has not.  before may be
 * NULL; what is no JSON object has no fields. */
char *fields_spell(json_t *record, const char *before);

#endif
