#include "common/uuid.h"

#include <string.h>
#include <strings.h>

#include "common/quote.h"

/* 100 ns from 1582-10-15, where versions 1 and 6 begin, to 1970. */
#define GREGORIAN_TO_UNIX UINT64_C(0x01B21DD213814000)

static void set_version(struct id128 *id, unsigned version) {
    id->bytes[6] = (unsigned char)((id->bytes[6] & 0x0f) | version << 4);
    id->bytes[8] = (unsigned char)((id->bytes[8] & 0x3f) | 0x80);
}

struct id128 uuid_v4(const unsigned char random[static 16]) {
    struct id128 id;

    memcpy(id.bytes, random, sizeof id.bytes);
    set_version(&id, 4);
    return id;
}

static uint32_t read_u32(const unsigned char at[static 4]) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static struct id128 assemble(uint64_t ms, uint32_t counter, const unsigned char random[static 6]) {
    struct id128 id;

    id128_set_time_ms(&id, ms);
    id.bytes[6] = (unsigned char)(counter >> 28);
    id.bytes[7] = (unsigned char)(counter >> 20);
    id.bytes[8] = (unsigned char)(counter >> 14 & 0x3f);
    id.bytes[9] = (unsigned char)(counter >> 6);
    id.bytes[10] = (unsigned char)(counter << 2 | (random[0] & 0x03));
    memcpy(id.bytes + 11, random + 1, 5);
    set_version(&id, 7);
    return id;
}

enum status uuid7_next(struct uuid7 *gen, uint64_t now_ms, const unsigned char random[static 10],
                       struct id128 *out) {
    uint64_t ms = now_ms > gen->last_ms ? now_ms : gen->last_ms;
    bool fresh = ms != gen->last_ms;

    if (!fresh && gen->counter == UINT32_MAX) {
        if (now_ms == ms)
            return STATUS_BUSY;
        ms++; /* the clock is behind: waiting for it could take hours */
        fresh = true;
    }
    if (ms > ID128_TIME_MAX_MS)
        return STATUS_CLOCK_RANGE;
    gen->counter = fresh ? read_u32(random) : gen->counter + 1;
    gen->last_ms = ms;
    *out = assemble(ms, gen->counter, random + 4);
    return STATUS_OK;
}

void uuid7_range(uint64_t ms, struct id128 *smallest, struct id128 *largest) {
    static const unsigned char zeros[6] = {0};
    static const unsigned char ones[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

    *smallest = assemble(ms, 0, zeros);
    *largest = assemble(ms, UINT32_MAX, ones);
}

/* ---- text ---- */

void uuid_format(const struct id128 *id, char out[static UUID_TEXT_LEN + 1]) {
    static const char digits[] = "0123456789abcdef";
    /* Where each byte's two digits go: groups of 8, 4, 4, 4 and 12. */
    static const unsigned char place[16] = {0,  2,  4,  6,  9,  11, 14, 16,
                                            19, 21, 24, 26, 28, 30, 32, 34};

    for (int i = 0; i < 16; i++) {
        out[place[i]] = digits[id->bytes[i] >> 4];
        out[place[i] + 1] = digits[id->bytes[i] & 15];
    }
    out[8] = out[13] = out[18] = out[23] = '-';
    out[UUID_TEXT_LEN] = '\0';
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* With hyphens text is 36 characters long, without 32. */
static bool read_digits(const char *text, bool hyphens, struct id128 *out) {
    for (int i = 0; i < 16; i++) {
        int high, low;

        if (hyphens && (i == 4 || i == 6 || i == 8 || i == 10) && *text++ != '-')
            return false;
        high = hex_digit(*text++);
        low = hex_digit(*text++);
        if (high < 0 || low < 0)
            return false;
        out->bytes[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

enum status uuid_parse(const char *text, size_t len, struct id128 *out, struct error *err) {
    static const char urn[] = "urn:uuid:";
    const char *from = text;
    char quoted[QUOTE_SIZE];
    struct id128 id;
    size_t left = len;

    if (len == UUID_TEXT_LEN + strlen(urn) && strncasecmp(text, urn, strlen(urn)) == 0) {
        from += strlen(urn);
        left = UUID_TEXT_LEN;
    } else if (len == UUID_TEXT_LEN + 2 && text[0] == '{' && text[len - 1] == '}') {
        from++;
        left = UUID_TEXT_LEN;
    }
    if ((left != UUID_TEXT_LEN && left != 32) || !read_digits(from, left == UUID_TEXT_LEN, &id))
        return error_set(err, STATUS_INVALID,
                         "must be a UUID as in 017f22e2-79b0-7cc3-98c4-dc0c0c07398f, got %s",
                         quote(text, len, quoted));
    *out = id;
    return STATUS_OK;
}

/* ---- what is in one ---- */

static bool all_bytes_are(const struct id128 *id, unsigned char value) {
    for (int i = 0; i < 16; i++) {
        if (id->bytes[i] != value)
            return false;
    }
    return true;
}

bool uuid_is_nil(const struct id128 *id) {
    return all_bytes_are(id, 0);
}

bool uuid_is_max(const struct id128 *id) {
    return all_bytes_are(id, 0xff);
}

unsigned uuid_version(const struct id128 *id) {
    unsigned version = id->bytes[6] >> 4;

    return (id->bytes[8] & 0xc0) == 0x80 && version <= 8 ? version : 0;
}

/* The 60 bits of versions 1 and 6. */
static uint64_t gregorian(const struct id128 *id, unsigned version) {
    const unsigned char *b = id->bytes;

    if (version == 6)
        return (uint64_t)read_u32(b) << 28 | (uint64_t)b[4] << 20 | (uint64_t)b[5] << 12 |
               (uint64_t)(b[6] & 0x0f) << 8 | b[7];
    return (uint64_t)(b[6] & 0x0f) << 56 | (uint64_t)b[7] << 48 | (uint64_t)b[4] << 40 |
           (uint64_t)b[5] << 32 | read_u32(b);
}

bool uuid_time_ms(const struct id128 *id, uint64_t *ms) {
    unsigned version = uuid_version(id);
    uint64_t ticks;

    if (version == 7) {
        *ms = id128_time_ms(id);
        return true;
    }
    if (version != 1 && version != 6)
        return false;
    ticks = gregorian(id, version);
    if (ticks < GREGORIAN_TO_UNIX)
        return false;
    *ms = (ticks - GREGORIAN_TO_UNIX) / 10000;
    return true;
}
