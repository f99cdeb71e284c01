#include "common/http_guard.h"

#include <string.h>
#include <strings.h>

static bool is_token_char(unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (!is_token_char((unsigned char)text[i]))
            return false;
    }
    return len > 0;
}

static bool name_is(const char *name, size_t len, const char *wanted) {
    return len == strlen(wanted) && strncasecmp(name, wanted, len) == 0;
}

/* Digits only; leading zeros do no harm here, and every reader takes them alike. */
static const char *read_length(const char *text, size_t len, uint64_t *bytes) {
    uint64_t sum = 0;

    if (len == 0)
        return "Content-Length is empty";
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return "Content-Length is not a plain number";
        if (__builtin_mul_overflow(sum, UINT64_C(10), &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(text[i] - '0'), &sum))
            return "Content-Length is too large";
    }
    *bytes = sum;
    return NULL;
}

static const char *judge_header(struct http_guard *guard, const char *name, size_t name_len,
                                const char *value, size_t value_len) {
    if (!is_token(name, name_len))
        return "a header's name is not a token";
    for (size_t i = 0; i < value_len; i++) {
        if (value[i] == '\r' || value[i] == '\n' || value[i] == '\0')
            return "a header's value holds CR, LF or NUL";
    }
    if (name_is(name, name_len, "Content-Length")) {
        guard->lengths++;
        return read_length(value, value_len, &guard->body_bytes);
    }
    if (name_is(name, name_len, "Transfer-Encoding")) {
        guard->encodings++;
        return value_len == strlen("chunked") && memcmp(value, "chunked", value_len) == 0
                   ? NULL
                   : "Transfer-Encoding is not chunked";
    }
    if (name_is(name, name_len, "Host"))
        guard->hosts++;
    if (name_is(name, name_len, "Authorization"))
        guard->authorizations++;
    return NULL;
}

void http_guard_header(struct http_guard *guard, const char *name, size_t name_len,
                       const char *value, size_t value_len) {
    const char *reason = judge_header(guard, name, name_len, value, value_len);

    if (!guard->reason)
        guard->reason = reason;
}

const char *http_guard_verdict(const struct http_guard *guard, const char *version) {
    if (guard->reason)
        return guard->reason;
    if (guard->lengths > 1)
        return "more than one Content-Length";
    if (guard->encodings > 1)
        return "more than one Transfer-Encoding";
    if (guard->lengths && guard->encodings)
        return "both Content-Length and Transfer-Encoding";
    if (guard->encodings && strcmp(version, "HTTP/1.1") != 0)
        return "Transfer-Encoding needs HTTP/1.1";
    if (guard->hosts > 1)
        return "more than one Host";
    if (guard->authorizations > 1)
        return "more than one Authorization";
    return NULL;
}

static int hex_value(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Decodes text in place; false when an escape is malformed. */
static bool unescape(char *text, bool plus_is_blank, size_t *len) {
    char *to = text;

    for (const char *from = text; *from; from++) {
        if (*from == '%') {
            int high = hex_value(from[1]);
            int low = high < 0 ? -1 : hex_value(from[2]);

            if (low < 0)
                return false;
            *to++ = (char)(high << 4 | low);
            from += 2;
        } else {
            *to++ = *from == '+' && plus_is_blank ? ' ' : *from;
        }
    }
    *to = '\0';
    *len = (size_t)(to - text);
    return true;
}

/* "http://host/path" is the same as "/path": RFC 9112, 3.2.2. */
static char *without_authority(char *text) {
    char *host, *path;

    if (strncasecmp(text, "http://", 7) == 0)
        host = text + 7;
    else if (strncasecmp(text, "https://", 8) == 0)
        host = text + 8;
    else
        return text;
    path = host + strcspn(host, "/?");
    return *path == '/' ? path : text;
}

static const char *parse_arg(char *piece, struct http_target *target) {
    struct http_arg *arg = &target->args[target->n_args];
    char *equals = strchr(piece, '=');
    char *value = equals ? equals + 1 : piece + strlen(piece);
    size_t name_len;

    if (equals)
        *equals = '\0';
    *arg = (struct http_arg){.name = piece, .value = {.text = value}};
    if (!unescape(value, true, &arg->value.len) || !unescape(piece, true, &name_len))
        return "a malformed percent-escape in the query";
    if (strlen(piece) != name_len)
        return "an argument's name holds a NUL";
    for (size_t i = 0; i < target->n_args; i++) {
        if (strcmp(target->args[i].name, arg->name) == 0)
            target->args[i].value.twice = arg->value.twice = true;
    }
    target->n_args++;
    return NULL;
}

const char *http_target_parse(char *text, struct http_target *target) {
    char *path = without_authority(text);
    char *query = strchr(path, '?');
    size_t path_len;

    target->path = path;
    target->n_args = 0;
    for (const char *at = path; *at; at++) {
        if ((unsigned char)*at <= ' ' || *at == 0x7f)
            return "the request target holds a control character";
    }
    if (query)
        *query++ = '\0';
    if (!unescape(path, false, &path_len))
        return "a malformed percent-escape in the path";
    if (strlen(path) != path_len)
        return "the path holds a NUL";
    while (query) {
        char *piece = query;

        query = strchr(piece, '&');
        if (query)
            *query++ = '\0';
        if (*piece) {
            const char *reason = target->n_args < HTTP_ARGS_MAX ? parse_arg(piece, target)
                                                                : "too many query arguments";

            if (reason)
                return reason;
        }
    }
    return NULL;
}
