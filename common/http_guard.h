/* http_guard.h - [pure] what a request may look like, beyond what libmicrohttpd refuses: framing
 * that two readers could understand differently, and a request target taken apart strictly.
 *
 * Behind a proxy every leniency here is a way to smuggle a second request past it. */
#ifndef SNOWFLEET_COMMON_HTTP_GUARD_H
#define SNOWFLEET_COMMON_HTTP_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/http_server.h"

/* Zeroed at first; fed with every header of a request, then asked for the verdict. */
struct http_guard {
    /* How many of each header came. */
    unsigned lengths, encodings, hosts, authorizations;
    uint64_t body_bytes; /* Content-Length; 0 without one */
    const char *reason;  /* of the first fault; NULL: none so far */
};
void http_guard_header(struct http_guard *guard, const char *name, size_t name_len,
                       const char *value, size_t value_len);
/* version as in the request line: "HTTP/1.1".  Returns NULL when all is well, else the reason for a
 * 400, a constant without quotes.  A missing Host is libmicrohttpd's to refuse. */
const char *http_guard_verdict(const struct http_guard *guard, const char *version);

#define HTTP_ARGS_MAX 16u /* query arguments */

struct http_arg {
    const char *name; /* NUL-terminated, without NUL in it */
    struct http_text value;
};
struct http_target {
    const char *path; /* NUL-terminated, without NUL in it */
    struct http_arg args[HTTP_ARGS_MAX];
    size_t n_args;
};
/* Takes a request target apart: "/path?name=value&name" or "http://host/path?..."; percent-decodes
 * path and arguments, and "+" among the arguments.  Works in place: text is NUL-terminated, is
 * written to, and has to outlive target.  Returns NULL, or the reason for a 400, a constant without quotes. */
const char *http_target_parse(char *text, struct http_target *target);

#endif
