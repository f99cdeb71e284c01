/* id_kind.h - [pure] the kinds of ID that a worker issues, by the names that clients use. */
#ifndef SNOWFLEET_COMMON_ID_KIND_H
#define SNOWFLEET_COMMON_ID_KIND_H

#include <stdbool.h>
#include <stddef.h>

#include "common/id128.h"

enum id_kind {
    ID_SNOWFLAKE,
    ID_UUIDV4,
    ID_UUIDV7,
    ID_ULID,
    ID_SEQUENCE,
    ID_PUBLIC, /* a Snowflake in its public form (public_id.h) */
    ID_KINDS
};

#define ID_KIND_NAMES                                                                              \
    "snowflake, uuidv4, uuidv7, ulid, sequence or public" /* all of them, for a message */

const char *id_kind_name(enum id_kind kind);
/* Does it have 128 bits?  Else 64. */
static inline bool id_kind_wide(enum id_kind kind) {
    return kind == ID_UUIDV4 || kind == ID_UUIDV7 || kind == ID_ULID;
}
/* text[len] is exactly one of the names. */
bool id_kind_find(const char *text, size_t len, enum id_kind *kind);

/* Is a Snowflake, in whatever form: needs a machine ID. */
static inline bool id_kind_is_snowflake(enum id_kind kind) {
    return kind == ID_SNOWFLAKE || kind == ID_PUBLIC;
}
/* Comes as text only, never as a number. */
static inline bool id_kind_is_text(enum id_kind kind) {
    return id_kind_wide(kind) || kind == ID_PUBLIC;
}

#define ID_TEXT_MAX 36u /* the longest text of an ID, without a NUL */

/* Writes an ID of a kind that has 128 bits, with a NUL, and returns the length without it. */
size_t id_kind_format(enum id_kind kind, const struct id128 *id, char out[static ID_TEXT_MAX + 1]);

#endif
