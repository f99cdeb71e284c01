/* base64.h - RFC 4648 section 4: the standard alphabet, padded, no line breaks. */
#ifndef SNOWFLEET_COMMON_BASE64_H
#define SNOWFLEET_COMMON_BASE64_H

#include <stddef.h>

#include "common/status.h"

/* Characters that n bytes become, without the NUL. */
static inline size_t base64_encoded_len(size_t n) {
    return (n + 2) / 3 * 4;
}

/* The most bytes that len characters can become. */
static inline size_t base64_decoded_max(size_t len) {
    return len / 4 * 3;
}

/* Writes base64_encoded_len(n) characters and a NUL. */
void base64_encode(const void *bytes, size_t n, char *text);

/* Reads text[len] into bytes, which has room for base64_decoded_max(len), and stores their number
 * in *n.  STATUS_INVALID for anything the encoder would not have written: another alphabet, absent
 * or surplus padding, white space, or bits set that belong to no byte.  Then *n stays as it was. */
enum status base64_decode(const char *text, size_t len, void *bytes, size_t *n);

#endif
