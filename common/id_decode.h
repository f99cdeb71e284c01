/* id_decode.h - [pure] reads an ID of any kind, and tells what it says. */
#ifndef SNOWFLEET_COMMON_ID_DECODE_H
#define SNOWFLEET_COMMON_ID_DECODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/id128.h"
#include "common/id_kind.h"
#include "common/public_id.h"
#include "common/status.h"

/* What a reader is to take.  Kinds are told by their lengths: a Snowflake has up to 19 characters, a ULID
 * 26, a public ID 28, a UUID 32, 36, 38 or 45.  Only a plain number fits two kinds, Snowflake and sequence:
 * ID_READ_ANY takes it for a Snowflake, and says so.  The others refuse what is not theirs. */
enum id_read {
    ID_READ_ANY,
    ID_READ_SNOWFLAKE,
    ID_READ_UUID, /* of any version */
    ID_READ_UUIDV4,
    ID_READ_UUIDV7,
    ID_READ_ULID,
    ID_READ_PUBLIC,
    ID_READ_SEQUENCE, /* a value of a sequence */
    ID_READS
};
#define ID_READ_NAMES "snowflake, uuid, uuidv4, uuidv7, ulid, public or sequence"
/* False for another name. */
bool id_read_find(const char *name, size_t len, enum id_read *what);

struct id_value {
    enum id_read kind;    /* SNOWFLAKE, UUID, ULID, PUBLIC or SEQUENCE */
    bool ambiguous;       /* a plain number, which fits SNOWFLAKE and SEQUENCE */
    int64_t number;       /* of SNOWFLAKE and SEQUENCE; of PUBLIC once opened */
    struct id128 wide;    /* of UUID and ULID; of PUBLIC the block */
    unsigned key_version; /* of PUBLIC */
    enum public_of of;    /* of PUBLIC once opened */
};
/* STATUS_INVALID says what it must be, to follow the name of a field: "must be a ULID as in ..." */
enum status id_read(enum id_read what, const char *text, size_t len, struct id_value *value,
                    struct error *err);

/* Looks behind a public ID; others need it not and are let pass.  Failures read like those of id_read(). */
enum status id_open(struct public_codec *codec, struct id_value *value, struct error *err);

/* What it says. */
struct id_facts {
    char kind[12]; /* "snowflake", "ulid", "uuidv1" to "uuidv8", "uuid", "public" or "sequence" */
    char text[ID_TEXT_MAX + 1]; /* in its canonical form */
    unsigned version;           /* of a UUID as RFC 9562 defines it, 1..8; 0: none */
    const char *note;           /* what is special about a UUID; NULL: nothing */
    bool has_time;
    uint64_t timestamp_ms;         /* Unix ms */
    bool future;                   /* that is more than 1 s after now */
    bool is_snowflake;             /* it is one, or the public form of one */
    uint16_t machine_id, sequence; /* of that */
    bool ambiguous;                /* as in id_value */
    const char *of;                /* of a public ID: "snowflake" or "sequence"; else NULL */
    unsigned key_version;          /* of a public ID; else 0 */
    int64_t number;                /* of SNOWFLAKE, SEQUENCE and PUBLIC; else 0 */
    char random[21];               /* of a ULID, 20 hex digits; else "" */
};
/* What a public ID that has just been made says of itself: all but the time and the parts, for which one
 * needs the epoch. */
void id_encoded(struct public_codec *codec, enum public_of of, int64_t number,
                struct id_facts *facts);
/* A Snowflake, or a public ID that has been opened and is one: only those need the epoch. */
bool id_is_snowflake(const struct id_value *value);
/* epoch_ms is that of Snowflakes, and not looked at for the others.  A public ID has been opened. */
void id_decode(const struct id_value *value, uint64_t epoch_ms, uint64_t now_ms,
               struct id_facts *facts);
/* The same as JSON, as design.md 7.1 has it; holder: NULL when not known.  The caller's. */
json_t *id_facts_json(const struct id_facts *facts, const char *holder);

#endif
