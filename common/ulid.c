#include "common/ulid.h"

#include <stdbool.h>
#include <string.h>

#include "common/crockford.h"
#include "common/quote.h"

#define TIME_CHARS 10u
#define HALF_CHARS 8u /* 40 bits, twice: the random part */

/* Adds one to the random part; false when it was at its end, and nothing is changed. */
static bool count_up(struct id128 *id) {
    int at = 15;

    while (at >= 6 && id->bytes[at] == 0xff)
        at--;
    if (at < 6)
        return false;
    id->bytes[at]++;
    memset(id->bytes + at + 1, 0, (size_t)(15 - at));
    return true;
}

enum status ulid_next(struct ulid *gen, uint64_t now_ms, const unsigned char random[static 10],
                      struct id128 *out) {
    uint64_t last_ms = id128_time_ms(&gen->last);
    uint64_t ms = now_ms;

    if (now_ms <= last_ms) {
        if (count_up(&gen->last)) {
            *out = gen->last;
            return STATUS_OK;
        }
        if (now_ms == last_ms)
            return STATUS_BUSY;
        ms = last_ms + 1; /* the clock is behind: waiting for it could take hours */
    }
    if (ms > ID128_TIME_MAX_MS)
        return STATUS_CLOCK_RANGE;
    id128_set_time_ms(&gen->last, ms);
    memcpy(gen->last.bytes + 6, random, 10);
    *out = gen->last;
    return STATUS_OK;
}

void ulid_range(uint64_t ms, struct id128 *smallest, struct id128 *largest) {
    memset(smallest, 0, sizeof *smallest);
    memset(largest, 0xff, sizeof *largest);
    id128_set_time_ms(smallest, ms);
    id128_set_time_ms(largest, ms);
}

static uint64_t read_40_bits(const unsigned char *at) {
    uint64_t value = 0;

    for (int i = 0; i < 5; i++)
        value = value << 8 | at[i];
    return value;
}

static void write_40_bits(unsigned char *at, uint64_t value) {
    for (int i = 0; i < 5; i++)
        at[i] = (unsigned char)(value >> (32 - 8 * i));
}

void ulid_format(const struct id128 *id, char out[static ULID_TEXT_LEN + 1]) {
    crockford_encode(id128_time_ms(id), TIME_CHARS, out);
    crockford_encode(read_40_bits(id->bytes + 6), HALF_CHARS, out + TIME_CHARS);
    crockford_encode(read_40_bits(id->bytes + 11), HALF_CHARS, out + TIME_CHARS + HALF_CHARS);
    out[ULID_TEXT_LEN] = '\0';
}

enum status ulid_parse(const char *text, size_t len, struct id128 *out, struct error *err) {
    char quoted[QUOTE_SIZE];
    uint64_t ms, high, low;

    if (len != ULID_TEXT_LEN || crockford_decode(text, TIME_CHARS, &ms) != TIME_CHARS ||
        crockford_decode(text + TIME_CHARS, HALF_CHARS, &high) != HALF_CHARS ||
        crockford_decode(text + TIME_CHARS + HALF_CHARS, HALF_CHARS, &low) != HALF_CHARS)
        return error_set(err, STATUS_INVALID,
                         "must be a ULID as in 01ARZ3NDEKTSV4RRFFQ69G5FAV, got %s",
                         quote(text, len, quoted));
    if (ms > ID128_TIME_MAX_MS)
        return error_set(err, STATUS_INVALID,
                         "must be a ULID of 128 bits, whose first character is 0..7, got %s",
                         quote(text, len, quoted));
    id128_set_time_ms(out, ms);
    write_40_bits(out->bytes + 6, high);
    write_40_bits(out->bytes + 11, low);
    return STATUS_OK;
}
