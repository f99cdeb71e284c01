/* tokens.h - [pure] bearer tokens: those that a file lists, and whether a request brings one.
 *
 * Of each only its SHA-256 is kept, and all of them are compared, so that the time that it takes
 * tells nothing about how near a wrong one came. */
#ifndef SNOWFLEET_COMMON_TOKENS_H
#define SNOWFLEET_COMMON_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

#define TOKEN_MIN_CHARS 16
#define TOKEN_MAX_CHARS 256
#define TOKENS_MAX 100
#define TOKEN_DIGEST_BYTES 32

struct tokens {
    size_t n;
    unsigned char digests[TOKENS_MAX][TOKEN_DIGEST_BYTES];
};

/* One token a line; blank lines, and those that begin with '#', are left out, and so are blanks
 * around a token.  first becomes the first of them, for whoever shows one instead of asking for it.
 * STATUS_INVALID names the line and never what it holds; *tokens then is of no use. */
enum status tokens_parse(const char *text, size_t len, struct tokens *tokens,
                         char first[static TOKEN_MAX_CHARS + 1], struct error *err);

/* authorization: that header's value, "Bearer TOKEN"; NULL: there was none. */
bool tokens_accept(const struct tokens *tokens, const char *authorization);

bool tokens_equal(const struct tokens *a, const struct tokens *b);

#endif
