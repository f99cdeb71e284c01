/* uuid.h - [pure] UUIDs: versions 4 and 7 made, every version read.
 *
 * Source: RFC 9562.  A generator is not thread-safe. */
#ifndef SNOWFLEET_COMMON_UUID_H
#define SNOWFLEET_COMMON_UUID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/id128.h"
#include "common/status.h"

#define UUID_TEXT_LEN 36u

/* Version 4 of 16 random bytes, of which 122 bits are kept. */
struct id128 uuid_v4(const unsigned char random[static 16]);

/* Makes UUIDs of version 7, each above the one before, whatever the clock does:
 *
 *   48 bits Unix ms | version | 12 bits counter | variant | 20 bits counter | 42 random bits
 *
 * A fresh millisecond begins with a random counter, so all 74 bits are random then; within a
 * millisecond the counter goes up by one and the last 42 bits are drawn anew (RFC 9562, 6.2,
 * method 1, with a counter wide enough to need no guard bit). */
struct uuid7 {
    uint64_t last_ms; /* of the newest; 0 before the first */
    uint32_t counter; /* of the newest */
};

/* Makes the next, with 10 random bytes.  A clock behind the newest is not followed: its time is
 * kept and the counter goes on; and when that is spent, the time goes 1 ms ahead.
 *   STATUS_BUSY        this millisecond's counter is spent: wait for the next
 *   STATUS_CLOCK_RANGE 48 bits do not hold the time */
enum status uuid7_next(struct uuid7 *gen, uint64_t now_ms, const unsigned char random[static 10],
                       struct id128 *out);

/* The smallest and the largest of version 7 that carry ms, up to ID128_TIME_MAX_MS. */
void uuid7_range(uint64_t ms, struct id128 *smallest, struct id128 *largest);

/* 36 characters, lower case, and a NUL. */
void uuid_format(const struct id128 *id, char out[static UUID_TEXT_LEN + 1]);

/* Reads the canonical form in any case, that form after "urn:uuid:" (in any case) or in braces, or
 * 32 hex digits.  Everything else is STATUS_INVALID, and err says what a UUID looks like. */
enum status uuid_parse(const char *text, size_t len, struct id128 *out, struct error *err);

/* 1..8 as RFC 9562 defines them; 0 for all else: another variant, a version that is not defined,
 * the nil and the max UUID. */
unsigned uuid_version(const struct id128 *id);
bool uuid_is_nil(const struct id128 *id);
bool uuid_is_max(const struct id128 *id);

/* The Unix ms that versions 1, 6 and 7 carry.  False when there is none, or when it lies before
 * 1970. */
bool uuid_time_ms(const struct id128 *id, uint64_t *ms);

#endif
