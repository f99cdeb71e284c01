#include "worker/args.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/decimal.h"
#include "common/quote.h"

bool args_refuse(struct service_error *err, const char *field, const char *format, ...) {
    va_list args;

    *err = (struct service_error){.code = "INVALID_ARGUMENT", .field = field};
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return false;
}

/* ---- a request for IDs ---- */

void ids_args_init(struct ids_args *args) {
    *args = (struct ids_args){.count = 1};
}

static bool set_kind(struct ids_args *args, const char *value, size_t len,
                     struct service_error *err) {
    char quoted[QUOTE_SIZE];

    if (id_kind_find(value, len, &args->kind))
        return true;
    return args_refuse(err, "kind", "kind must be " ID_KIND_NAMES ", got %s",
                       quote(value, len, quoted));
}

static bool set_count(struct ids_args *args, const char *value, size_t len,
                      struct service_error *err) {
    struct error why;
    uint64_t count;

    if (decimal_parse(value, len, 1, SERVICE_COUNT_MAX, &count, &why) != STATUS_OK)
        return args_refuse(err, "count", "count %s", why.message);
    args->count = (uint32_t)count;
    return true;
}

static bool set_flag(bool *flag, const char *name, const char *value, size_t len,
                     struct service_error *err) {
    char quoted[QUOTE_SIZE];

    if (len != 1 || (*value != '0' && *value != '1'))
        return args_refuse(err, name, "%s must be 0 or 1, got %s", name, quote(value, len, quoted));
    *flag = *value == '1';
    return true;
}

static bool set_name(struct ids_args *args, const char *value, size_t len,
                     struct service_error *err) {
    struct error why;

    if (sequence_name_check(value, len, &why) != STATUS_OK)
        return args_refuse(err, "name", "name %s", why.message);
    memcpy(args->name, value, len);
    args->name[len] = '\0';
    return true;
}

static bool set_shard(struct ids_args *args, const char *value, size_t len,
                      struct service_error *err) {
    struct error why;
    uint64_t shard;

    if (decimal_parse(value, len, 0, SEQUENCE_SHARDS_MAX - 1, &shard, &why) != STATUS_OK)
        return args_refuse(err, "shard", "shard %s", why.message);
    args->shard = (uint16_t)shard;
    return true;
}

/* One field or argument: *given says whether it came before. */
static bool once(bool *given, const char *name, bool twice, struct service_error *err) {
    if (*given || twice)
        return args_refuse(err, name, "%s is given twice", name);
    *given = true;
    return true;
}

static bool refuse_unknown(const char *name, const char *known, struct service_error *err) {
    char quoted[QUOTE_SIZE];

    return args_refuse(err, NULL, "unknown argument %s; there are %s",
                       quote(name, strlen(name), quoted), known);
}

bool ids_args_set(struct ids_args *args, const char *name, const char *value, size_t len,
                  bool twice, struct service_error *err) {
    if (strcmp(name, "kind") == 0)
        return once(&args->has_kind, "kind", twice, err) && set_kind(args, value, len, err);
    if (strcmp(name, "count") == 0)
        return once(&args->has_count, "count", twice, err) && set_count(args, value, len, err);
    if (strcmp(name, "claim") == 0)
        return once(&args->has_claim, "claim", twice, err) &&
               set_flag(&args->claim, "claim", value, len, err);
    if (strcmp(name, "commit_wait") == 0)
        return once(&args->has_commit_wait, "commit_wait", twice, err) &&
               set_flag(&args->commit_wait, "commit_wait", value, len, err);
    if (strcmp(name, "name") == 0)
        return once(&args->has_name, "name", twice, err) && set_name(args, value, len, err);
    if (strcmp(name, "shard") == 0)
        return once(&args->has_shard, "shard", twice, err) && set_shard(args, value, len, err);
    return refuse_unknown(name, "kind, count, claim, commit_wait, name and shard", err);
}

bool ids_args_check(const struct ids_args *args, struct service_error *err) {
    const char *field = args->claim ? "claim" : args->commit_wait ? "commit_wait" : NULL;

    if (!id_kind_is_snowflake(args->kind) && field)
        return args_refuse(err, field, "%s goes with kinds snowflake and public only, got kind %s",
                           field, id_kind_name(args->kind));
    field = args->has_name ? "name" : args->has_shard ? "shard" : NULL;
    if (args->kind != ID_SEQUENCE && field)
        return args_refuse(err, field, "%s goes with kind sequence only, got kind %s", field,
                           id_kind_name(args->kind));
    if (args->kind == ID_SEQUENCE && !args->has_name)
        return args_refuse(err, "name", "name is missing: which sequence?");
    return true;
}

void ids_args_fill(const struct ids_args *args, struct service_ids *ids) {
    *ids = (struct service_ids){.kind = args->kind,
                                .want = args->count,
                                .has_shard = args->has_shard,
                                .shard = args->shard};
    memcpy(ids->sequence, args->name, sizeof ids->sequence);
}

/* ---- JSON bodies ---- */

/* The field whose number is too wide for the reader; NULL when there is none. */
static const char *find_wide_field(const char *body, size_t len) {
    static const char *const known[] = {"count", "id", "kind", "claim", "commit_wait", "shard"};
    json_t *object = json_loadb(body, len, JSON_DECODE_INT_AS_REAL, NULL);
    const char *found = NULL;

    for (size_t i = 0; !found && i < sizeof known / sizeof known[0]; i++) {
        double value = json_real_value(json_object_get(object, known[i]));

        if (value >= 9223372036854775808.0 || value <= -9223372036854775808.0)
            found = known[i];
    }
    json_decref(object);
    return found;
}

static bool refuse_body(const char *body, size_t len, const json_error_t *why,
                        struct service_error *err) {
    if (json_error_code(why) == json_error_numeric_overflow) {
        const char *field = find_wide_field(body, len);

        if (field)
            return args_refuse(err, field, "%s is a number of more than 64 bits", field);
    }
    return args_refuse(err, "body", "the body is not a JSON object: byte %d: %s", why->position,
                       why->text);
}

/* Reads a JSON object; NULL on failure.  The reader keeps integers of 64 bits exact and refuses
 * wider ones, as it does names given twice, and what is nested deeper than 2048. */
static json_t *read_object(const char *body, size_t len, struct service_error *err) {
    json_error_t why;
    json_t *object = json_loadb(body, len, JSON_REJECT_DUPLICATES, &why);

    if (!object) {
        refuse_body(body, len, &why, err);
        return NULL;
    }
    if (!json_is_object(object)) {
        args_refuse(err, "body", "the body is JSON, but not an object");
        json_decref(object);
        return NULL;
    }
    return object;
}

/* A field's value as the text that an argument of a query would have.  A boolean stands for 0 or 1;
 * what can be no value of ours is named by its type. */
static const char *spell(const json_t *value, char text[static 24], size_t *len) {
    const char *spelt = text;

    switch (json_typeof(value)) {
    case JSON_STRING: *len = json_string_length(value); return json_string_value(value);
    case JSON_INTEGER:
        snprintf(text, 24, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_TRUE: spelt = "1"; break;
    case JSON_FALSE: spelt = "0"; break;
    case JSON_REAL: spelt = "<fraction>"; break;
    case JSON_NULL: spelt = "<null>"; break;
    case JSON_OBJECT: spelt = "<object>"; break;
    case JSON_ARRAY: spelt = "<list>"; break;
    }
    *len = strlen(spelt);
    return spelt;
}

static bool set_field(struct ids_args *args, const char *name, const json_t *value,
                      struct service_error *err) {
    char text[24];
    size_t len;
    const char *spelt = spell(value, text, &len);

    if (json_is_boolean(value) && strcmp(name, "claim") != 0 && strcmp(name, "commit_wait") != 0) {
        spelt = "<boolean>";
        len = strlen(spelt);
    }
    return ids_args_set(args, name, spelt, len, false, err);
}

bool ids_args_body(struct ids_args *args, const char *body, size_t len, struct service_error *err) {
    json_t *object, *value;
    const char *name;
    bool ok = true;

    if (len == 0)
        return true;
    object = read_object(body, len, err);
    if (!object)
        return false;
    json_object_foreach(object, name, value) {
        ok = set_field(args, name, value, err);
        if (!ok)
            break;
    }
    json_decref(object);
    return ok;
}

/* ---- decoding ---- */

bool decode_args_kind(const char *value, size_t len, enum id_read *kind,
                      struct service_error *err) {
    char quoted[QUOTE_SIZE];

    if (id_read_find(value, len, kind))
        return true;
    return args_refuse(err, "kind", "kind must be " ID_READ_NAMES ", got %s",
                       quote(value, len, quoted));
}

bool decode_args_id(const char *text, size_t len, enum id_read kind, struct id_value *id,
                    struct service_error *err) {
    struct error why;

    if (id_read(kind, text, len, id, &why) != STATUS_OK)
        return args_refuse(err, "id", "id %s", why.message);
    return true;
}

bool encode_args_kind(const char *value, size_t len, enum id_read *kind,
                      struct service_error *err) {
    char quoted[QUOTE_SIZE];

    if (id_read_find(value, len, kind) && (*kind == ID_READ_SNOWFLAKE || *kind == ID_READ_SEQUENCE))
        return true;
    return args_refuse(err, "kind", "kind must be snowflake or sequence, got %s",
                       quote(value, len, quoted));
}

bool public_args_check(const struct public_codec *codec, struct service_error *err) {
    if (codec)
        return true;
    args_refuse(err, NULL, "public IDs need a worker with --public-key-file");
    err->code = "FAILED_PRECONDITION";
    return false;
}

typedef bool kind_fn(const char *value, size_t len, enum id_read *kind, struct service_error *err);

/* kind: without the field */
static bool id_fields(json_t *object, kind_fn *read_kind, enum id_read kind, struct id_value *id,
                      struct service_error *err) {
    json_t *value, *kind_value = json_object_get(object, "kind");
    const char *name, *spelt;
    char text[24];
    size_t len;

    json_object_foreach(object, name, value) {
        if (strcmp(name, "id") != 0 && strcmp(name, "kind") != 0)
            return refuse_unknown(name, "id and kind", err);
    }
    if (kind_value) {
        spelt = spell(kind_value, text, &len);
        if (!read_kind(spelt, len, &kind, err))
            return false;
    }
    value = json_object_get(object, "id");
    if (!value)
        return args_refuse(err, "id", "id is missing");
    if (json_is_boolean(value))
        return args_refuse(err, "id", "id must be a number or a string");
    spelt = spell(value, text, &len);
    return decode_args_id(spelt, len, kind, id, err);
}

static bool id_body(const char *body, size_t len, kind_fn *read_kind, enum id_read kind,
                    struct id_value *id, struct service_error *err) {
    json_t *object = read_object(body, len, err);
    bool ok = object && id_fields(object, read_kind, kind, id, err);

    json_decref(object);
    return ok;
}

bool decode_args_body(const char *body, size_t len, struct id_value *id,
                      struct service_error *err) {
    return id_body(body, len, decode_args_kind, ID_READ_ANY, id, err);
}

bool encode_args_body(const char *body, size_t len, struct id_value *id,
                      struct service_error *err) {
    return id_body(body, len, encode_args_kind, ID_READ_SNOWFLAKE, id, err);
}

/* ---- Accept ---- */

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* "0.85" in thousandths. */
static unsigned read_quality(const char *at, const char *end) {
    unsigned sum = 0, scale = 1000;

    for (; at < end && scale > 0; at++) {
        if (*at >= '0' && *at <= '9') {
            sum += (unsigned)(*at - '0') * scale;
            scale /= 10;
        } else if (*at != '.') {
            break;
        }
    }
    return sum < 1000 ? sum : 1000;
}

/* Of the parameters of a media range, which begin with a semicolon: q, or 1000 without one. */
static unsigned quality(const char *params, const char *end) {
    while (params) {
        do
            params++;
        while (params < end && is_blank(*params));
        if (end - params > 2 && (*params == 'q' || *params == 'Q') && params[1] == '=')
            return read_quality(params + 2, end);
        params = memchr(params, ';', (size_t)(end - params));
    }
    return 1000;
}

/* How well a media range fits a type: 3 exactly, 2 by its first half, 1 as anything does, 0 not. */
static unsigned fit(const char *range, size_t len, const char *type) {
    size_t major = (size_t)(strchr(type, '/') - type) + 1;

    if (len == strlen(type) && strncasecmp(range, type, len) == 0)
        return 3;
    if (len == major + 1 && strncasecmp(range, type, major) == 0 && range[major] == '*')
        return 2;
    return len == 3 && memcmp(range, "*/*", 3) == 0 ? 1 : 0;
}

/* The quality of the range that fits type best, as RFC 9110, 12.5.1 has it. */
static unsigned accepted(const char *accept, const char *type) {
    unsigned best_fit = 0, best_quality = 0;

    while (*accept) {
        const char *end = accept + strcspn(accept, ",");
        const char *params = memchr(accept, ';', (size_t)(end - accept));
        const char *range_end = params ? params : end;
        unsigned how;

        while (accept < range_end && is_blank(*accept))
            accept++;
        while (range_end > accept && is_blank(range_end[-1]))
            range_end--;
        how = fit(accept, (size_t)(range_end - accept), type);
        if (how > best_fit) {
            best_fit = how;
            best_quality = quality(params, end);
        }
        accept = *end ? end + 1 : end;
    }
    return best_quality;
}

bool accept_prefers_text(const char *accept) {
    return accept && accepted(accept, "text/plain") > accepted(accept, "application/json");
}
