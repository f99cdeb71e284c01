/* ulid.h - [pure] ULIDs: 48 bits of Unix ms and 80 random bits, in 26 characters of Crockford's
 * base32.
 *
 * Source: github.com/ulid/spec.  A generator is not thread-safe. */
#ifndef SNOWFLEET_COMMON_ULID_H
#define SNOWFLEET_COMMON_ULID_H

#include <stddef.h>
#include <stdint.h>

#include "common/id128.h"
#include "common/status.h"

#define ULID_TEXT_LEN 26u

/* Makes monotonic ULIDs, each above the one before, whatever the clock does: within a millisecond
 * the random part goes up by one, as the specification has it. */
struct ulid {
    struct id128 last; /* the newest; all zero before the first */
};

/* Makes the next; random is used in a fresh millisecond only.  A clock behind the newest is not
 * followed: its time is kept and the random part goes on; and when that is spent, the time goes
 * 1 ms ahead.
 *   STATUS_BUSY        this millisecond's random part is spent (the specification lets it fail):
 *                      wait for the next
 *   STATUS_CLOCK_RANGE 48 bits do not hold the time */
enum status ulid_next(struct ulid *gen, uint64_t now_ms, const unsigned char random[static 10],
                      struct id128 *out);

/* The smallest and the largest that carry ms, up to ID128_TIME_MAX_MS. */
void ulid_range(uint64_t ms, struct id128 *smallest, struct id128 *largest);

/* 26 characters, upper case, and a NUL. */
void ulid_format(const struct id128 *id, char out[static ULID_TEXT_LEN + 1]);

/* Reads 26 characters as Crockford has them: any case, I and L for 1, O for 0, never U.  The first
 * is 0..7: more would not fit into 128 bits.  STATUS_INVALID otherwise. */
enum status ulid_parse(const char *text, size_t len, struct id128 *out, struct error *err);

#endif
