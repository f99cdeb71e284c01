#include "common/fields.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/decimal.h"
#include "common/quote.h"

#define SHOWN_SIZE (QUOTE_SIZE + 2)

/* Those of ASCII, and of UTF-8's second block. */
static bool is_control(const char *at) {
    unsigned char c = (unsigned char)at[0], next = (unsigned char)at[1];

    return c < 0x20 || c == 0x7f || (c == 0xc2 && next >= 0x80 && next < 0xa0);
}

enum status fields_check_label(const char *text, size_t size, struct error *err) {
    char quoted[QUOTE_SIZE];
    size_t i, len = strlen(text);
    bool fine = len < size;

    for (i = 0; fine && i < len; i++)
        fine = !is_control(text + i);
    if (fine)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "must be up to %zu bytes without control characters, got %s", size - 1,
                     quote(text, len, quoted));
}

/* A value as it stands in JSON; a long string is cut, and of what holds others only its kind. */
static const char *show(const json_t *value, char out[static SHOWN_SIZE]) {
    char quoted[QUOTE_SIZE];
    const char *text;

    if (!value) {
        strcpy(out, "nothing");
    } else if (json_is_object(value)) {
        strcpy(out, "an object");
    } else if (json_is_array(value)) {
        snprintf(out, SHOWN_SIZE, "a list of %zu", json_array_size(value));
    } else if (json_is_string(value)) {
        text = quote(json_string_value(value), json_string_length(value), quoted);
        snprintf(out, SHOWN_SIZE, text[0] == '"' ? "%s" : "\"%s\"", text);
    } else {
        out[json_dumpb(value, out, SHOWN_SIZE - 1, JSON_ENCODE_ANY)] = '\0';
    }
    return out;
}

void fields_fail(struct fields *fields, enum status status, const char *name, const char *why) {
    if (fields->status == STATUS_OK)
        fields->status = error_set(fields->err, status, "%s%s %s", fields->path, name, why);
}

void fields_refuse(struct fields *fields, const char *name, const json_t *value,
                   const char *wanted) {
    char why[256], shown[SHOWN_SIZE];

    snprintf(why, sizeof why, "must be %s, got %s", wanted, show(value, shown));
    fields_fail(fields, STATUS_PROTOCOL, name, why);
}

json_t *fields_open(struct fields *fields, const char *kind, const char *text, size_t len,
                    struct error *err) {
    json_error_t at;
    char quoted[QUOTE_SIZE];
    json_t *record = json_loadb(text, len, JSON_REJECT_DUPLICATES, &at);

    *fields = (struct fields){.object = record, .err = err, .status = STATUS_OK};
    snprintf(fields->path, sizeof fields->path, "%s: ", kind);
    if (json_is_object(record))
        return record;
    if (record)
        fields->status = error_set(err, STATUS_PROTOCOL, "%s: must be a JSON object, got a list",
                                   kind);
    else
        fields->status = error_set(err, STATUS_PROTOCOL, "%s: not JSON at byte %d: %s", kind,
                                   at.position, quote(at.text, strlen(at.text), quoted));
    fields->object = NULL;
    json_decref(record);
    return NULL;
}

bool fields_has(const struct fields *fields, const char *name) {
    return json_object_get(fields->object, name) != NULL;
}

void fields_number_value(struct fields *fields, const char *name, const json_t *value, uint64_t min,
                         uint64_t max, uint64_t *number) {
    json_int_t read = json_integer_value(value);
    char wanted[64];

    if (json_is_integer(value) && read >= 0 && (uint64_t)read >= min && (uint64_t)read <= max) {
        *number = (uint64_t)read;
        return;
    }
    snprintf(wanted, sizeof wanted, "%ju..%ju", (uintmax_t)min, (uintmax_t)max);
    fields_refuse(fields, name, value, wanted);
}

void fields_number(struct fields *fields, const char *name, uint64_t min, uint64_t max,
                   uint64_t *number) {
    fields_number_value(fields, name, json_object_get(fields->object, name), min, max, number);
}

void fields_wide(struct fields *fields, const char *name, uint64_t max, uint64_t *number) {
    const json_t *value = json_object_get(fields->object, name);
    struct error unused;
    char wanted[64];

    if (json_is_string(value) && decimal_parse(json_string_value(value), json_string_length(value),
                                               0, max, number, &unused) == STATUS_OK)
        return;
    snprintf(wanted, sizeof wanted, "0..%ju as a string", (uintmax_t)max);
    fields_refuse(fields, name, value, wanted);
}

void fields_wide_or_null(struct fields *fields, const char *name, uint64_t max, uint64_t *number,
                         bool *known) {
    *known = !json_is_null(json_object_get(fields->object, name));
    if (*known)
        fields_wide(fields, name, max, number);
}

void fields_flag(struct fields *fields, const char *name, bool *flag) {
    const json_t *value = json_object_get(fields->object, name);

    if (json_is_boolean(value))
        *flag = json_is_true(value);
    else
        fields_refuse(fields, name, value, "true or false");
}

void fields_text_value(struct fields *fields, const char *name, const json_t *value,
                       fields_check_fn *check, char *out) {
    struct error why;

    if (!json_is_string(value))
        fields_refuse(fields, name, value, "a string");
    else if (check(json_string_value(value), &why) != STATUS_OK)
        fields_fail(fields, STATUS_PROTOCOL, name, why.message);
    else
        strcpy(out, json_string_value(value));
}

void fields_text(struct fields *fields, const char *name, fields_check_fn *check, char *out) {
    fields_text_value(fields, name, json_object_get(fields->object, name), check, out);
}

const json_t *fields_list(struct fields *fields, const char *name, size_t max) {
    const json_t *list = json_object_get(fields->object, name);
    char wanted[48];

    if (json_is_array(list) && json_array_size(list) <= max)
        return list;
    snprintf(wanted, sizeof wanted, "a list of up to %zu", max);
    fields_refuse(fields, name, list, wanted);
    return NULL;
}

const char *fields_element(const char *list, size_t i, char out[static FIELDS_NAME_MAX]) {
    int len = snprintf(out, FIELDS_NAME_MAX, "%s[%zu]", list, i);

    assert(len < FIELDS_NAME_MAX); /* our own names are short */
    (void)len;
    return out;
}

struct fields fields_enter(struct fields *fields, const char *name, const json_t *object) {
    struct fields inner = {.object = object, .err = fields->err, .status = fields->status};
    int len = snprintf(inner.path, sizeof inner.path, "%s%s.", fields->path, name);

    assert(len < (int)sizeof inner.path);
    (void)len;
    return inner;
}

void fields_leave(struct fields *fields, const struct fields *inner) {
    fields->status = inner->status;
}

void fields_put(json_t *object, const char *name, json_t *value) {
    if (json_object_set_new(object, name, value) != 0)
        abort();
}

void fields_append(json_t *list, json_t *value) {
    if (json_array_append_new(list, value) != 0)
        abort();
}

json_t *fields_from_wide(uint64_t number) {
    char digits[DECIMAL_U64_MAX_CHARS];

    return json_stringn(digits, decimal_format(number, digits));
}

json_t *fields_from_number(uint64_t value) {
    return json_integer((json_int_t)value);
}

json_t *fields_from_label(const char *text) {
    size_t len = strlen(text), i;
    char *clean = allocate_copy(text, len);
    json_t *string;

    for (i = 0; i < len; i++) {
        if (is_control(clean + i))
            clean[i] = '?';
    }
    string = json_string(clean);
    if (!string) { /* it is not UTF-8 */
        for (i = 0; i < len; i++) {
            if ((unsigned char)clean[i] >= 0x80)
                clean[i] = '?';
        }
        string = json_string(clean);
    }
    free(clean);
    return string;
}

char *fields_spell(json_t *record, const char *before) {
    json_t *old = before ? json_loads(before, JSON_REJECT_DUPLICATES, NULL) : NULL;
    char *text;

    if (json_is_object(old) && json_object_update_missing(record, old) != 0)
        abort();
    text = json_dumps(record, JSON_COMPACT);
    if (!text)
        abort();
    json_decref(old);
    json_decref(record);
    return text;
}
