#include "common/quote.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_visible(char c) {
    return c > ' ' && c < 0x7f && c != '"' && c != '\\';
}

const char *quote(const char *text, size_t len, char out[static QUOTE_SIZE]) {
    const size_t end = QUOTE_SIZE - sizeof "\\xNN...\"";
    bool plain = len > 0 && len <= end;
    size_t at = 0, i;

    for (i = 0; plain && i < len; i++)
        plain = is_visible(text[i]);
    if (plain) {
        memcpy(out, text, len);
        out[len] = '\0';
        return out;
    }
    out[at++] = '"';
    for (i = 0; i < len && at <= end; i++) {
        if (is_visible(text[i]) || text[i] == ' ')
            out[at++] = text[i];
        else
            at += (size_t)snprintf(out + at, QUOTE_SIZE - at, "\\x%02x",
                                   (unsigned)(unsigned char)text[i]);
    }
    strcpy(out + at, i < len ? "...\"" : "\"");
    return out;
}
