/* grpc_filter.h - [pure] takes out of what a client sends the resets of streams that never began.
 *
 * gRPC's C core, hence Python and others, sends RST_STREAM for a call that is cancelled before its
 * headers were written.  By HTTP/2 that is an error of the connection, and nghttp2 would end it with
 * all other calls on it; servers of gRPC let it pass, and so must this one. */
#ifndef SNOWFLEET_COMMON_GRPC_FILTER_H
#define SNOWFLEET_COMMON_GRPC_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRPC_FILTER_HEAD 13 /* a frame's header and the payload of RST_STREAM */

struct grpc_filter {
    uint8_t head[GRPC_FILTER_HEAD];
    size_t head_len;
    bool split;      /* head began in bytes that are gone */
    size_t left;     /* of the preface, or of a frame's payload: goes through as it is */
    uint32_t newest; /* the highest stream that began */
    unsigned dropped;
};

void grpc_filter_init(struct grpc_filter *filter);
/* Hands on what is left of the bytes, in one or more pieces, until pass() returns false. */
void grpc_filter_take(struct grpc_filter *filter, const uint8_t *bytes, size_t len,
                      bool (*pass)(void *arg, const uint8_t *bytes, size_t len), void *arg);

#endif
