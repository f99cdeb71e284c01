/* id128.h - 128 bits that name something: what a UUID and a ULID both are.
 *
 * Most significant byte first, so that memcmp() orders them as their numbers and their texts. */
#ifndef SNOWFLEET_COMMON_ID128_H
#define SNOWFLEET_COMMON_ID128_H

#include <stdint.h>

struct id128 {
    unsigned char bytes[16];
};

#define ID128_TIME_MAX_MS ((UINT64_C(1) << 48) - 1) /* what 48 bits of Unix ms hold: year 10889 */

/* The first 48 bits, where UUIDv7 and ULID keep their Unix ms. */
static inline uint64_t id128_time_ms(const struct id128 *id) {
    uint64_t ms = 0;

    for (int i = 0; i < 6; i++)
        ms = ms << 8 | id->bytes[i];
    return ms;
}

static inline void id128_set_time_ms(struct id128 *id, uint64_t ms) {
    for (int i = 0; i < 6; i++)
        id->bytes[i] = (unsigned char)(ms >> (40 - 8 * i));
}

#endif
