/* fuzz_tokens.c - what a file of bearer tokens may hold, and what a request may bring for one. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first one opens the door, with one character more or less it does not. */
static void first_is_accepted(const struct tokens *tokens, const char *first) {
    char header[TOKEN_MAX_CHARS + 32];
    size_t len = strlen(first), at = strlen("Bearer ");

    assert(len >= TOKEN_MIN_CHARS && len <= TOKEN_MAX_CHARS);
    memcpy(header, "bEARER ", at);
    memcpy(header + at, first, len + 1);
    assert(tokens_accept(tokens, header));
    header[at - 1] = '\t';
    assert(!tokens_accept(tokens, header));
    if (tokens->n > 1)
        return; /* else another one may be just that */
    header[at - 1] = ' ';
    header[at + len - 1] = '\0';
    assert(!tokens_accept(tokens, header));
    memcpy(header + at + len - 1, "~~", 3);
    assert(!tokens_accept(tokens, header));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tokens tokens, again;
    char first[TOKEN_MAX_CHARS + 1], second[TOKEN_MAX_CHARS + 1];
    struct error err = {.message = ""};
    char *text = malloc(size + 1);

    assert(text);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    if (tokens_parse(text, size, &tokens, first, &err) == STATUS_OK) {
        assert(tokens.n >= 1 && tokens.n <= TOKENS_MAX);
        first_is_accepted(&tokens, first);
        assert(tokens_parse(text, size, &again, second, &err) == STATUS_OK);
        assert(tokens_equal(&tokens, &again) && strcmp(first, second) == 0);
    } else {
        assert(err.status == STATUS_INVALID && err.message[0]);
        tokens.n = 0;
    }
    /* The same bytes as a header: no token of a file begins with a blank or holds one. */
    if (tokens_accept(&tokens, text))
        assert(strlen(text) >= strlen("Bearer ") + TOKEN_MIN_CHARS);
    free(text);
    return 0;
}
