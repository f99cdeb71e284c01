#include "common/tokens.h"

#include <gnutls/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/lines.h"

#define SCHEME "Bearer "

static void digest(const char *token, size_t len, unsigned char out[static TOKEN_DIGEST_BYTES]) {
    if (gnutls_hash_fast(GNUTLS_DIG_SHA256, token, len, out) != 0)
        abort(); /* no token may be let pass because it could not be judged */
}

static bool is_printable(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '!' || text[i] > '~')
            return false;
    }
    return true;
}

static enum status add(struct tokens *tokens, const char *text, size_t len, size_t line,
                       struct error *err) {
    if (len < TOKEN_MIN_CHARS || len > TOKEN_MAX_CHARS)
        return error_set(err, STATUS_INVALID, "line %zu: a token is %d..%d characters, got %zu",
                         line, TOKEN_MIN_CHARS, TOKEN_MAX_CHARS, len);
    if (!is_printable(text, len))
        return error_set(err, STATUS_INVALID,
                         "line %zu: a token is of printable ASCII without blanks", line);
    if (tokens->n == TOKENS_MAX)
        return error_set(err, STATUS_INVALID, "line %zu: more than %d tokens", line, TOKENS_MAX);
    digest(text, len, tokens->digests[tokens->n++]);
    return STATUS_OK;
}

enum status tokens_parse(const char *text, size_t len, struct tokens *tokens,
                         char first[static TOKEN_MAX_CHARS + 1], struct error *err) {
    struct lines lines = lines_of(text, len);
    const char *token;
    size_t token_len;

    memset(tokens, 0, sizeof *tokens);
    first[0] = '\0';
    while (lines_next(&lines, &token, &token_len)) {
        if (add(tokens, token, token_len, lines.number, err) != STATUS_OK)
            return err->status;
        if (tokens->n == 1) {
            memcpy(first, token, token_len);
            first[token_len] = '\0';
        }
    }
    return tokens->n > 0 ? STATUS_OK : error_set(err, STATUS_INVALID, "it holds no token");
}

bool tokens_accept(const struct tokens *tokens, const char *authorization) {
    unsigned char brought[TOKEN_DIGEST_BYTES];
    bool known = false;
    size_t len;

    if (!authorization || strncasecmp(authorization, SCHEME, strlen(SCHEME)) != 0)
        return false;
    authorization += strlen(SCHEME);
    authorization += strspn(authorization, " ");
    len = strnlen(authorization, TOKEN_MAX_CHARS + 1);
    if (len > TOKEN_MAX_CHARS)
        return false;
    digest(authorization, len, brought);
    for (size_t i = 0; i < tokens->n; i++)
        known |= gnutls_memcmp(tokens->digests[i], brought, sizeof brought) == 0;
    return known;
}

bool tokens_equal(const struct tokens *a, const struct tokens *b) {
    return a->n == b->n && memcmp(a->digests, b->digests, a->n * sizeof a->digests[0]) == 0;
}
