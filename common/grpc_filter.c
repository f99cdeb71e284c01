#include "common/grpc_filter.h"

#include <string.h>

#define PREFACE_BYTES 24
#define HEADER_BYTES 9
#define HEADERS 1
#define RST_STREAM 3

void grpc_filter_init(struct grpc_filter *filter) {
    *filter = (struct grpc_filter){.left = PREFACE_BYTES};
}

static size_t payload_len(const uint8_t *head) {
    return (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
}

/* A reset is looked at as a whole; one of a wrong length is nghttp2's to refuse. */
static size_t wanted(const struct grpc_filter *filter) {
    return filter->head_len >= 4 && filter->head[3] == RST_STREAM && payload_len(filter->head) == 4
               ? GRPC_FILTER_HEAD
               : HEADER_BYTES;
}

/* A frame's head is whole: is the frame to be dropped? */
static bool judge(struct grpc_filter *filter) {
    const uint8_t *head = filter->head;
    uint32_t stream = (uint32_t)(head[5] & 127) << 24 | (uint32_t)head[6] << 16 |
                      (uint32_t)head[7] << 8 | head[8];

    if (filter->head_len == GRPC_FILTER_HEAD && stream > filter->newest && stream % 2 == 1) {
        filter->dropped++;
        return true;
    }
    if (head[3] == HEADERS && stream > filter->newest)
        filter->newest = stream;
    filter->left = payload_len(head) - (filter->head_len - HEADER_BYTES);
    return false;
}

void grpc_filter_take(struct grpc_filter *filter, const uint8_t *bytes, size_t len,
                      bool (*pass)(void *arg, const uint8_t *bytes, size_t len), void *arg) {
    const uint8_t *end = bytes + len, *start = bytes, *frame = bytes;

    while (bytes < end) {
        size_t want = filter->left, n;

        if (want > 0) {
            n = want < (size_t)(end - bytes) ? want : (size_t)(end - bytes);
            filter->left -= n;
            bytes += n;
            continue;
        }
        if (filter->head_len == 0) {
            filter->split = false;
            frame = bytes;
        }
        want = wanted(filter) - filter->head_len;
        n = want < (size_t)(end - bytes) ? want : (size_t)(end - bytes);
        memcpy(filter->head + filter->head_len, bytes, n);
        filter->head_len += n;
        bytes += n;
        if (filter->head_len < wanted(filter))
            continue;
        if (judge(filter)) {
            if (!filter->split && frame > start && !pass(arg, start, (size_t)(frame - start)))
                return;
            start = bytes;
        } else if (filter->split) {
            if (!pass(arg, filter->head, filter->head_len))
                return;
            start = bytes;
        }
        filter->head_len = 0;
    }
    if (filter->head_len > 0) { /* what came of it is kept for the next time */
        if (!filter->split && frame > start)
            pass(arg, start, (size_t)(frame - start));
        filter->split = true;
    } else if (end > start) {
        pass(arg, start, (size_t)(end - start));
    }
}
