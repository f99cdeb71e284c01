/* grpc_message.h - [pure] what gRPC puts into HTTP/2: status codes, length-prefixed messages, the
 * timeout, percent-encoded text, content types.
 *
 * Source: "gRPC over HTTP2", the protocol's own description. */
#ifndef SNOWFLEET_COMMON_GRPC_MESSAGE_H
#define SNOWFLEET_COMMON_GRPC_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum grpc_code {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_ALREADY_EXISTS = 6,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_ABORTED = 10,
    GRPC_OUT_OF_RANGE = 11,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_DATA_LOSS = 15,
    GRPC_UNAUTHENTICATED = 16
};
#define GRPC_CODES (GRPC_UNAUTHENTICATED + 1)
/* "UNAVAILABLE" and its like. */
const char *grpc_code_name(enum grpc_code code);
/* GRPC_UNKNOWN for a name that is none. */
enum grpc_code grpc_code_of(const char *name);

/* ---- messages ---- */

#define GRPC_PREFIX_BYTES 5 /* a flag, and the length in four bytes, the highest first */

/* Writes the prefix of an uncompressed message of len bytes; len is below 2^32. */
void grpc_prefix_write(uint8_t prefix[static GRPC_PREFIX_BYTES], size_t len);

/* Puts messages together from a stream of bytes that may be cut anywhere. */
struct grpc_reader {
    uint8_t prefix[GRPC_PREFIX_BYTES];
    size_t prefix_len; /* how much of it is here */
    size_t len, have;  /* of the message under way, once its prefix is whole */
    uint8_t *message;  /* allocated, len bytes; NULL before the prefix is whole, or when len is 0 */
    size_t max_len;    /* the longest message that is taken */
};
enum grpc_read {
    GRPC_READ_MORE,       /* all bytes were taken, and no message is whole */
    GRPC_READ_MESSAGE,    /* message[len] is whole: look at it, then grpc_reader_next() */
    GRPC_READ_COMPRESSED, /* the flag says compressed */
    GRPC_READ_FLAG,       /* the flag is neither 0 nor 1 */
    GRPC_READ_TOO_LARGE   /* longer than max_len; len says how long */
};
void grpc_reader_init(struct grpc_reader *reader, size_t max_len);
/* Takes bytes from *bytes, which has *len, and moves both on.  After one of the last three nothing
 * more may be read. */
enum grpc_read grpc_reader_take(struct grpc_reader *reader, const uint8_t **bytes, size_t *len);
/* Frees the message; the next one may begin. */
void grpc_reader_next(struct grpc_reader *reader);
/* Has a message begun that is not whole yet? */
bool grpc_reader_inside(const struct grpc_reader *reader);
/* Bytes allocated at the moment. */
size_t grpc_reader_bytes(const struct grpc_reader *reader);
void grpc_reader_free(struct grpc_reader *reader);

/* ---- headers ---- */

/* "grpc-timeout": 1 to 8 digits and one of H M S m u n.  false for anything else.  Rounded up to
 * whole milliseconds. */
bool grpc_timeout_parse(const char *text, size_t len, uint64_t *timeout_ms);

/* Is this content type gRPC with protobuf: "application/grpc" or "application/grpc+proto", with or
 * without parameters? */
bool grpc_content_type(const char *text, size_t len);

#define GRPC_MESSAGE_MAX 512 /* characters of a percent-encoded message; longer ones are cut */

/* "grpc-message": what is not printable ASCII, and '%', as %XX.  A character of UTF-8 is kept whole or
 * left out.  Returns the length. */
size_t grpc_percent_encode(const char *text, char out[static GRPC_MESSAGE_MAX + 1]);

#endif
