/* decimal.h - numbers, durations and times as text, strictly read and quickly written.  [pure]
 *
 * "Plain" is design.md's rule for every number a person or a program gives us: digits only; no
 * sign, blank, leading zero, exponent or fraction; nothing after it. */
#ifndef SNOWFLEET_COMMON_DECIMAL_H
#define SNOWFLEET_COMMON_DECIMAL_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

#define DECIMAL_U64_MAX_CHARS 20 /* without the NUL */

/* Reads text[len] as a plain number of min..max.  On failure *value stays as it was and err says,
 * for a person, what was expected and what came: "must be 1..10000, got -1" (the text as quote()
 * shows it: cut and made printable when it is long or strange).  Prefix it with the name of the field. */
enum status decimal_parse(const char *text, size_t len, uint64_t min, uint64_t max, uint64_t *value,
                          struct error *err);

/* Writes value without NUL and returns the number of characters, 1..20. */
size_t decimal_format(uint64_t value, char out[static DECIMAL_U64_MAX_CHARS]);

/* Adds one to the number that stands in text[*len] as plain decimal, in place; *len grows by one
 * when 99...9 becomes 100...0 (text must have room).  For runs of IDs: about a nanosecond. */
void decimal_increment(char *text, size_t *len);

/* Durations: a plain number with its unit, "250ms", "15s", "2m", "1h"; a bare number is refused, so
 * is a fraction.  min_ms and max_ms are named in the message: "must be 2s..600s, got 1s". */
enum status duration_parse(const char *text, size_t len, uint64_t min_ms, uint64_t max_ms,
                           uint64_t *value_ms, struct error *err);
/* "250ms", "15s", "2m", "1h": the largest unit that is exact; "0s". */
void duration_format(uint64_t value_ms, char out[static 24]);
/* "2s..600s": both in one unit while that stays readable, else "1ms..1h". */
void duration_format_range(uint64_t min_ms, uint64_t max_ms, char out[static 52]);

/* RFC 3339 in UTC with milliseconds: "2024-01-01T00:00:00.000Z".  Years above 9999 carry a sign:
 * "+10889-08-02T05:31:50.655Z".  Any uint64_t. */
void time_format(uint64_t wall_ms, char out[static 32]);
/* Reads the same, with 0 to 3 digits of fraction, and only with Z or a numeric offset; T and Z are
 * capitals.  Refused are dates that do not exist, leap seconds (Unix time has none) and what lies
 * before 1970.  On failure *wall_ms stays as it was. */
enum status time_parse(const char *text, size_t len, uint64_t *wall_ms, struct error *err);

#endif
