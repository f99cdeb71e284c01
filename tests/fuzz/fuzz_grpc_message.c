/* gRPC's own bytes and texts: messages cut in any places, timeouts, content types, and texts to be
 * percent-encoded.  The first byte chooses. */
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/grpc_message.h"

#define MAX_LEN 1000

static void require(int holds) {
    if (!holds)
        abort();
}

/* Whatever the cuts, the same messages come out: taken whole, and in pieces of up to step bytes. */
static size_t read_all(const uint8_t *bytes, size_t len, size_t step, enum grpc_read *last,
                       uint64_t *sum) {
    struct grpc_reader reader;
    size_t n = 0;

    grpc_reader_init(&reader, MAX_LEN);
    *last = GRPC_READ_MORE;
    *sum = 0;
    while (len > 0 && *last <= GRPC_READ_MESSAGE) {
        const uint8_t *at = bytes;
        size_t left = len < step ? len : step, given = left;

        *last = grpc_reader_take(&reader, &at, &left);
        require(left < given && (size_t)(at - bytes) == given - left);
        bytes += given - left;
        len -= given - left;
        require(grpc_reader_bytes(&reader) <= MAX_LEN);
        if (*last == GRPC_READ_MESSAGE) {
            require(reader.len <= MAX_LEN && reader.have == reader.len);
            for (size_t i = 0; i < reader.len; i++)
                *sum = *sum * 31 + reader.message[i];
            n++;
            grpc_reader_next(&reader);
        }
    }
    grpc_reader_free(&reader);
    return n;
}

static void messages(const uint8_t *bytes, size_t len) {
    enum grpc_read whole, pieces;
    uint64_t whole_sum, pieces_sum;
    size_t step = len > 0 ? bytes[0] % 7u + 1 : 1;

    require(read_all(bytes, len, len + 1, &whole, &whole_sum) ==
            read_all(bytes, len, step, &pieces, &pieces_sum));
    require(whole == pieces && whole_sum == pieces_sum);
}

static void encode(const uint8_t *bytes, size_t len) {
    char *text = allocate_copy((const char *)bytes, len);
    char out[GRPC_MESSAGE_MAX + 1];
    size_t encoded_len = grpc_percent_encode(text, out);

    require(encoded_len <= GRPC_MESSAGE_MAX && strlen(out) == encoded_len);
    for (size_t i = 0, at = 0; i < encoded_len; at++) {
        if (out[i] == '%') {
            char digits[3] = {out[i + 1], out[i + 2], '\0'};

            require((char)strtoul(digits, NULL, 16) == text[at]);
            i += 3;
        } else {
            require(out[i] >= ' ' && out[i] <= '~' && out[i] == text[at]);
            i++;
        }
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len) {
    uint64_t timeout_ms;

    if (len == 0)
        return 0;
    switch (bytes[0] % 4) {
    case 0: messages(bytes + 1, len - 1); break;
    case 1:
        if (grpc_timeout_parse((const char *)bytes + 1, len - 1, &timeout_ms))
            require(len <= 10 && timeout_ms <= UINT64_C(99999999) * 3600000);
        break;
    case 2:
        if (grpc_content_type((const char *)bytes + 1, len - 1))
            require(len - 1 >= strlen("application/grpc"));
        break;
    default: encode(bytes + 1, len - 1); break;
    }
    return 0;
}
