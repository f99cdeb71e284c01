/* id_decode.h - [pure] reads an ID of any kind, and tells what it says. */
#ifndef SNOWFLEET_COMMON_ID_DECODE_H
#define SNOWFLEET_COMMON_ID_DECODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/id128.h"
#include "common/id_kind.h"
#include "common/status.h"

/* What a reader is to take.  No text fits two kinds: a Snowflake has up to 19 characters, a ULID 26, a
 * UUID 32, 36, 38 or 45.  So ID_READ_ANY is never ambiguous, and the others refuse what is not theirs. */
enum id_read {
    ID_READ_ANY,
    ID_READ_SNOWFLAKE,
    ID_READ_UUID, /* of any version */
    ID_READ_UUIDV4,
    ID_READ_UUIDV7,
    ID_READ_ULID,
    ID_READS
};
#define ID_READ_NAMES "snowflake, uuid, uuidv4, uuidv7 or ulid"
/* False for another name. */
bool id_read_find(const char *name, size_t len, enum id_read *what);

struct id_value {
    enum id_read kind; /* SNOWFLAKE, UUID or ULID */
    int64_t number;    /* of a Snowflake */
    struct id128 wide; /* of the others */
};
/* STATUS_INVALID says what it must be, to follow the name of a field: "must be a ULID as in ..." */
enum status id_read(enum id_read what, const char *text, size_t len, struct id_value *value,
                    struct error *err);

/* What it says. */
struct id_facts {
    char kind[12];              /* "snowflake", "ulid", "uuidv1" to "uuidv8", or "uuid" */
    char text[ID_TEXT_MAX + 1]; /* in its canonical form */
    unsigned version;           /* of a UUID as RFC 9562 defines it, 1..8; 0: none */
    const char *note;           /* what is special about a UUID; NULL: nothing */
    bool has_time;
    uint64_t timestamp_ms;         /* Unix ms */
    bool future;                   /* that is more than 1 s after now */
    uint16_t machine_id, sequence; /* of a Snowflake */
    char random[21];               /* of a ULID, 20 hex digits; else "" */
};
/* epoch_ms is that of Snowflakes, and not looked at for the others. */
void id_decode(const struct id_value *value, uint64_t epoch_ms, uint64_t now_ms,
               struct id_facts *facts);
/* The same as JSON, as design.md 7.1 has it; holder: NULL when not known.  The caller's. */
json_t *id_facts_json(const struct id_facts *facts, const char *holder);

#endif
