/* body.h - the body of an HTTP answer that is sent many times: kept once, as it is and compressed,
 * for as long as somebody is being sent it.  Not thread-safe: for the loop's thread alone. */
#ifndef SNOWFLEET_COORDINATOR_BODY_H
#define SNOWFLEET_COORDINATOR_BODY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/http_server.h"

struct body;

/* bytes are copied.  tagged: it gets an ETag, made of its content. */
struct body *body_new(const void *bytes, size_t len, bool tagged);
/* The caller's part ends; answers under way go on. */
void body_free(struct body *body);

/* Answers 200 with it, gzipped if the client takes that; or 304 without it, if it is tagged and the
 * client has it.  headers: further ones, NULL-terminated pairs, at most BODY_HEADERS_MAX. */
#define BODY_HEADERS_MAX 8
void body_reply(const struct body *body, struct http_exchange *exchange, const char *content_type,
                const char *const *headers);

#endif
