#include "common/id_decode.h"

#include <stdio.h>
#include <string.h>

#include "common/decimal.h"
#include "common/fields.h"
#include "common/quote.h"
#include "common/snowflake.h"
#include "common/ulid.h"
#include "common/uuid.h"

/* An ID later than this after now is from a clock that is ahead, or from another epoch. */
#define FUTURE_MS 1000u

bool id_read_find(const char *name, size_t len, enum id_read *what) {
    static const char *const names[ID_READS] = {
        [ID_READ_SNOWFLAKE] = "snowflake", [ID_READ_UUID] = "uuid", [ID_READ_UUIDV4] = "uuidv4",
        [ID_READ_UUIDV7] = "uuidv7",       [ID_READ_ULID] = "ulid", [ID_READ_PUBLIC] = "public",
        [ID_READ_SEQUENCE] = "sequence",
    };

    for (int i = ID_READ_SNOWFLAKE; i < ID_READS; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0) {
            *what = (enum id_read)i;
            return true;
        }
    }
    return false;
}

/* ---- reading ---- */

/* kind: SNOWFLAKE or SEQUENCE */
static enum status read_number(enum id_read kind, const char *text, size_t len,
                               struct id_value *value, struct error *err) {
    uint64_t number;

    if (decimal_parse(text, len, 0, INT64_MAX, &number, err) != STATUS_OK)
        return err->status;
    *value = (struct id_value){.kind = kind, .number = (int64_t)number};
    return STATUS_OK;
}

static enum status read_ulid(const char *text, size_t len, struct id_value *value,
                             struct error *err) {
    struct id128 id;

    if (ulid_parse(text, len, &id, err) != STATUS_OK)
        return err->status;
    *value = (struct id_value){.kind = ID_READ_ULID, .wide = id};
    return STATUS_OK;
}

static enum status read_public(const char *text, size_t len, struct id_value *value,
                               struct error *err) {
    char quoted[QUOTE_SIZE];
    struct id_value read = {.kind = ID_READ_PUBLIC};

    if (!public_id_read(text, len, &read.key_version, &read.wide))
        return error_set(
            err, STATUS_INVALID,
            "must be a public ID exactly as it was given out, 28 characters from P on, "
            "got %s",
            quote(text, len, quoted));
    *value = read;
    return STATUS_OK;
}

/* version 0: any. */
static enum status read_uuid(const char *text, size_t len, unsigned version, struct id_value *value,
                             struct error *err) {
    char quoted[QUOTE_SIZE];
    struct id128 id;

    if (uuid_parse(text, len, &id, err) != STATUS_OK)
        return err->status;
    if (version != 0 && uuid_version(&id) != version)
        return error_set(err, STATUS_INVALID, "must be a UUID of version %u, got %s", version,
                         quote(text, len, quoted));
    *value = (struct id_value){.kind = ID_READ_UUID, .wide = id};
    return STATUS_OK;
}

static enum status read_any(const char *text, size_t len, struct id_value *value,
                            struct error *err) {
    char quoted[QUOTE_SIZE];

    switch (len) {
    case ULID_TEXT_LEN: return read_ulid(text, len, value, err);
    case PUBLIC_ID_CHARS: return read_public(text, len, value, err);
    case 32:
    case UUID_TEXT_LEN:
    case UUID_TEXT_LEN + 2: /* in braces */
    case UUID_TEXT_LEN + 9: /* after urn:uuid: */ return read_uuid(text, len, 0, value, err);
    default: break;
    }
    if (read_number(ID_READ_SNOWFLAKE, text, len, value, err) == STATUS_OK) {
        value->ambiguous = true;
        return STATUS_OK;
    }
    return error_set(
        err, STATUS_INVALID,
        "must be a Snowflake (0..9223372036854775807), a UUID, a ULID or a public ID, got %s",
        quote(text, len, quoted));
}

enum status id_read(enum id_read what, const char *text, size_t len, struct id_value *value,
                    struct error *err) {
    switch (what) {
    case ID_READ_SNOWFLAKE:
    case ID_READ_SEQUENCE: return read_number(what, text, len, value, err);
    case ID_READ_PUBLIC: return read_public(text, len, value, err);
    case ID_READ_UUID: return read_uuid(text, len, 0, value, err);
    case ID_READ_UUIDV4: return read_uuid(text, len, 4, value, err);
    case ID_READ_UUIDV7: return read_uuid(text, len, 7, value, err);
    case ID_READ_ULID: return read_ulid(text, len, value, err);
    default: return read_any(text, len, value, err);
    }
}

enum status id_open(struct public_codec *codec, struct id_value *value, struct error *err) {
    if (value->kind != ID_READ_PUBLIC)
        return STATUS_OK;
    return public_id_open(codec, value->key_version, &value->wide, &value->of, &value->number, err);
}

/* ---- what it says ---- */

static void decode_number(const char *kind, int64_t number, struct id_facts *facts) {
    strcpy(facts->kind, kind);
    facts->number = number;
    facts->text[decimal_format((uint64_t)number, facts->text)] = '\0';
}

static void decode_parts(int64_t number, uint64_t epoch_ms, struct id_facts *facts) {
    struct snowflake_parts parts = snowflake_decode(number, epoch_ms);

    facts->is_snowflake = true;
    facts->has_time = true;
    facts->timestamp_ms = parts.timestamp_ms;
    facts->machine_id = parts.machine_id;
    facts->sequence = parts.sequence;
}

static void decode_public(unsigned key_version, enum public_of of, int64_t number,
                          struct id_facts *facts) {
    strcpy(facts->kind, "public");
    facts->key_version = key_version;
    facts->of = of == PUBLIC_OF_SNOWFLAKE ? "snowflake" : "sequence";
    facts->number = number;
}

void id_encoded(struct public_codec *codec, enum public_of of, int64_t number,
                struct id_facts *facts) {
    *facts = (struct id_facts){.version = 0};
    decode_public(public_codec_version(codec), of, number, facts);
    public_id_encode(codec, of, number, facts->text);
}

static void decode_ulid(const struct id128 *id, struct id_facts *facts) {
    strcpy(facts->kind, "ulid");
    ulid_format(id, facts->text);
    facts->has_time = true;
    facts->timestamp_ms = id128_time_ms(id);
    for (size_t i = 0; i < 10; i++)
        snprintf(facts->random + 2 * i, 3, "%02x", id->bytes[6 + i]);
}

static void decode_uuid(const struct id128 *id, struct id_facts *facts) {
    facts->version = uuid_version(id);
    uuid_format(id, facts->text);
    if (facts->version)
        snprintf(facts->kind, sizeof facts->kind, "uuidv%u", facts->version % 10);
    else
        strcpy(facts->kind, "uuid");
    facts->has_time = uuid_time_ms(id, &facts->timestamp_ms);
    if (uuid_is_nil(id))
        facts->note = "the nil UUID";
    else if (uuid_is_max(id))
        facts->note = "the max UUID";
    else if (!facts->version)
        facts->note = "not RFC 9562: another variant, or a version that is not defined";
    else if (!facts->has_time && (facts->version == 1 || facts->version == 6))
        facts->note = "its time is before 1970";
}

bool id_is_snowflake(const struct id_value *value) {
    return value->kind == ID_READ_SNOWFLAKE ||
           (value->kind == ID_READ_PUBLIC && value->of == PUBLIC_OF_SNOWFLAKE);
}

void id_decode(const struct id_value *value, uint64_t epoch_ms, uint64_t now_ms,
               struct id_facts *facts) {
    *facts = (struct id_facts){.ambiguous = value->ambiguous};
    if (value->kind == ID_READ_SNOWFLAKE) {
        decode_number("snowflake", value->number, facts);
    } else if (value->kind == ID_READ_SEQUENCE) {
        decode_number("sequence", value->number, facts);
    } else if (value->kind == ID_READ_PUBLIC) {
        decode_public(value->key_version, value->of, value->number, facts);
        public_id_format(value->key_version, &value->wide, facts->text);
    } else if (value->kind == ID_READ_ULID) {
        decode_ulid(&value->wide, facts);
    } else {
        decode_uuid(&value->wide, facts);
    }
    if (id_is_snowflake(value))
        decode_parts(value->number, epoch_ms, facts);
    facts->future = facts->has_time && facts->timestamp_ms > now_ms + FUTURE_MS;
}

json_t *id_facts_json(const struct id_facts *facts, const char *holder) {
    json_t *object = json_object();
    char time[32];

    fields_put(object, "kind", json_string(facts->kind));
    fields_put(object, "id", json_string(facts->text));
    if (facts->of) {
        fields_put(object, "key_version", fields_from_number(facts->key_version));
        fields_put(object, "of", json_string(facts->of));
        fields_put(object, "number", fields_from_wide((uint64_t)facts->number));
    }
    if (facts->version)
        fields_put(object, "version", fields_from_number(facts->version));
    if (facts->note)
        fields_put(object, "note", json_string(facts->note));
    if (facts->has_time) {
        time_format(facts->timestamp_ms, time);
        fields_put(object, "time", json_string(time));
        fields_put(object, "timestamp_ms", fields_from_wide(facts->timestamp_ms));
    }
    if (facts->is_snowflake) {
        fields_put(object, "machine_id", fields_from_number(facts->machine_id));
        fields_put(object, "sequence", fields_from_number(facts->sequence));
    }
    if (facts->random[0])
        fields_put(object, "random", json_string(facts->random));
    if (facts->has_time)
        fields_put(object, "future", json_boolean(facts->future));
    if (facts->ambiguous)
        fields_put(object, "ambiguous", json_pack("[s, s]", "snowflake", "sequence"));
    if (holder)
        fields_put(object, "holder", fields_from_label(holder));
    return object;
}
