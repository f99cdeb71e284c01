#include "common/grpc_message.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/allocate.h"

static const char *const names[] = {
    [GRPC_OK] = "OK",
    [GRPC_CANCELLED] = "CANCELLED",
    [GRPC_UNKNOWN] = "UNKNOWN",
    [GRPC_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
    [GRPC_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
    [GRPC_NOT_FOUND] = "NOT_FOUND",
    [GRPC_ALREADY_EXISTS] = "ALREADY_EXISTS",
    [GRPC_PERMISSION_DENIED] = "PERMISSION_DENIED",
    [GRPC_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
    [GRPC_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
    [GRPC_ABORTED] = "ABORTED",
    [GRPC_OUT_OF_RANGE] = "OUT_OF_RANGE",
    [GRPC_UNIMPLEMENTED] = "UNIMPLEMENTED",
    [GRPC_INTERNAL] = "INTERNAL",
    [GRPC_UNAVAILABLE] = "UNAVAILABLE",
    [GRPC_DATA_LOSS] = "DATA_LOSS",
    [GRPC_UNAUTHENTICATED] = "UNAUTHENTICATED",
};

const char *grpc_code_name(enum grpc_code code) {
    return names[code];
}

enum grpc_code grpc_code_of(const char *name) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0)
            return (enum grpc_code)i;
    }
    return GRPC_UNKNOWN;
}

/* ---- messages ---- */

void grpc_prefix_write(uint8_t prefix[static GRPC_PREFIX_BYTES], size_t len) {
    prefix[0] = 0;
    prefix[1] = (uint8_t)(len >> 24);
    prefix[2] = (uint8_t)(len >> 16);
    prefix[3] = (uint8_t)(len >> 8);
    prefix[4] = (uint8_t)len;
}

void grpc_reader_init(struct grpc_reader *reader, size_t max_len) {
    *reader = (struct grpc_reader){.max_len = max_len};
}

/* The prefix is whole: what does it say? */
static enum grpc_read begin(struct grpc_reader *reader) {
    const uint8_t *prefix = reader->prefix;

    reader->len = (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 |
                  (size_t)prefix[4];
    if (prefix[0] > 1)
        return GRPC_READ_FLAG;
    if (prefix[0] == 1)
        return GRPC_READ_COMPRESSED;
    if (reader->len > reader->max_len)
        return GRPC_READ_TOO_LARGE;
    if (reader->len > 0)
        reader->message = allocate(reader->len, 1);
    return GRPC_READ_MORE;
}

static size_t fill(uint8_t *to, size_t have, size_t want, const uint8_t **bytes, size_t *len) {
    size_t n = want - have < *len ? want - have : *len;

    if (n > 0)
        memcpy(to + have, *bytes, n);
    *bytes += n;
    *len -= n;
    return have + n;
}

enum grpc_read grpc_reader_take(struct grpc_reader *reader, const uint8_t **bytes, size_t *len) {
    if (reader->prefix_len < GRPC_PREFIX_BYTES) {
        enum grpc_read result;

        reader->prefix_len = fill(reader->prefix, reader->prefix_len, GRPC_PREFIX_BYTES, bytes,
                                  len);
        if (reader->prefix_len < GRPC_PREFIX_BYTES)
            return GRPC_READ_MORE;
        result = begin(reader);
        if (result != GRPC_READ_MORE)
            return result;
    }
    if (reader->len > 0)
        reader->have = fill(reader->message, reader->have, reader->len, bytes, len);
    return reader->have == reader->len ? GRPC_READ_MESSAGE : GRPC_READ_MORE;
}

void grpc_reader_next(struct grpc_reader *reader) {
    size_t max_len = reader->max_len;

    free(reader->message);
    grpc_reader_init(reader, max_len);
}

bool grpc_reader_inside(const struct grpc_reader *reader) {
    return reader->prefix_len > 0;
}

size_t grpc_reader_bytes(const struct grpc_reader *reader) {
    return reader->message ? reader->len : 0;
}

void grpc_reader_free(struct grpc_reader *reader) {
    free(reader->message);
    reader->message = NULL;
}

/* ---- headers ---- */

bool grpc_timeout_parse(const char *text, size_t len, uint64_t *timeout_ms) {
    uint64_t value = 0;

    if (len < 2 || len > 9)
        return false;
    for (size_t i = 0; i < len - 1; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    switch (text[len - 1]) {
    case 'H': *timeout_ms = value * 3600000; return true;
    case 'M': *timeout_ms = value * 60000; return true;
    case 'S': *timeout_ms = value * 1000; return true;
    case 'm': *timeout_ms = value; return true;
    case 'u': *timeout_ms = (value + 999) / 1000; return true;
    case 'n': *timeout_ms = (value + 999999) / 1000000; return true;
    default: return false;
    }
}

bool grpc_content_type(const char *text, size_t len) {
    static const char plain[] = "application/grpc", proto[] = "+proto";
    size_t used = strlen(plain);

    if (len < used || strncasecmp(text, plain, used) != 0)
        return false;
    if (len - used >= strlen(proto) && strncasecmp(text + used, proto, strlen(proto)) == 0)
        used += strlen(proto);
    return len == used || text[used] == ';' || text[used] == ' ';
}

/* How many bytes the character of UTF-8 that begins here has; 1 for what is none. */
static size_t character_bytes(const unsigned char *at) {
    size_t n = *at >= 0xf0 ? 4 : *at >= 0xe0 ? 3 : *at >= 0xc0 ? 2 : 1;

    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80) /* a NUL too */
            return 1;
    }
    return n;
}

size_t grpc_percent_encode(const char *text, char out[static GRPC_MESSAGE_MAX + 1]) {
    static const char digits[] = "0123456789ABCDEF";
    const unsigned char *at = (const unsigned char *)text;
    size_t len = 0;

    while (*at) {
        bool plain = *at >= ' ' && *at <= '~' && *at != '%';
        size_t n = plain ? 1 : character_bytes(at);

        if (len + (plain ? 1 : 3 * n) > GRPC_MESSAGE_MAX)
            break;
        for (; n > 0; n--, at++) {
            if (plain) {
                out[len++] = (char)*at;
                continue;
            }
            out[len++] = '%';
            out[len++] = digits[*at >> 4];
            out[len++] = digits[*at & 15];
        }
    }
    out[len] = '\0';
    return len;
}
