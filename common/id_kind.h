/* id_kind.h - [pure] the kinds of ID that a worker issues, by the names that clients use. */
#ifndef SNOWFLEET_COMMON_ID_KIND_H
#define SNOWFLEET_COMMON_ID_KIND_H

#include <stdbool.h>
#include <stddef.h>

#include "common/id128.h"

enum id_kind { ID_SNOWFLAKE, ID_UUIDV4, ID_UUIDV7, ID_ULID, ID_SEQUENCE, ID_KINDS };

#define ID_KIND_NAMES "snowflake, uuidv4, uuidv7, ulid or sequence" /* all of them, for a message */

const char *id_kind_name(enum id_kind kind);
/* Does it have 128 bits?  Else 64. */
static inline bool id_kind_wide(enum id_kind kind) {
    return kind == ID_UUIDV4 || kind == ID_UUIDV7 || kind == ID_ULID;
}
/* text[len] is exactly one of the names. */
bool id_kind_find(const char *text, size_t len, enum id_kind *kind);

#define ID_TEXT_MAX 36u /* the longest text of an ID, without a NUL */

/* Writes an ID of a kind that has 128 bits, with a NUL, and returns the length without it. */
size_t id_kind_format(enum id_kind kind, const struct id128 *id, char out[static ID_TEXT_MAX + 1]);

#endif
