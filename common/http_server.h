/* http_server.h - HTTP/1.1 on one event loop: libmicrohttpd behind our own accept, a guard that
 * refuses ambiguous framing, and limits that a slow or greedy client cannot stretch.
 *
 * Everything runs on the loop's thread; nothing here is thread-safe.  Several servers (one a loop)
 * may serve one listening socket. */
#ifndef SNOWFLEET_COMMON_HTTP_SERVER_H
#define SNOWFLEET_COMMON_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/status.h"

struct http_server;
struct http_exchange; /* one request and its answer; the server's */

struct http_server_config {
    unsigned max_connections;    /* above it: 503 with Retry-After, and closed; liveness too */
    size_t max_body_bytes;       /* above it: 413 */
    size_t max_header_bytes;     /* request line and headers; above it: 431 or 414 */
    uint64_t request_timeout_ms; /* from the first byte of a request to its last, and again for the
                                    answer; slow ones close */
    uint64_t idle_timeout_ms;    /* a kept-alive connection without a request */
    /* Called once for each request, when all of it is here.  It answers with http_reply(), at
     * once or later from the same loop: until then the connection is parked and costs nothing. */
    void (*handle)(void *arg, struct http_exchange *exchange);
    void *arg;
};

/* Binds and listens; port 0 lets the kernel choose.  address is "HOST:PORT" or "[V6]:PORT"; *bound
 * (size 64 or more) becomes the address with the port in use.  STATUS_SYSTEM with the reason when
 * the port is taken.  The descriptor is the caller's. */
enum status http_listen(const char *address, int *fd, char *bound, size_t bound_size,
                        struct error *err);

/* Takes no ownership of listen_fd, which may be shared with other servers. */
enum status http_server_new(uv_loop_t *loop, int listen_fd, const struct http_server_config *config,
                            struct http_server **server, struct error *err);

/* Every answer from now on says "Connection: close", and idle connections close.  New ones are still
 * taken, so that health can be asked to the end.  Parked requests stay the handler's to answer. */
void http_server_drain(struct http_server *server);
/* Connections that still wait for an answer or are still being written to. */
unsigned http_server_busy(const struct http_server *server);
/* Ends everything; parked exchanges are dead afterwards (their connections are closed unanswered).
 * closed() runs from the loop when the memory is free. */
void http_server_close(struct http_server *server, void (*closed)(void *arg), void *arg);

struct http_server_stats {
    uint64_t connections_total, requests_total, refused_connections_total, guard_refusals_total,
        timeouts_total;             /* requests and answers that were too slow, and were cut */
    uint64_t accept_failures_total; /* no descriptors or memory left: tried again after 100 ms */
    unsigned connections;
};
void http_server_stats(const struct http_server *server, struct http_server_stats *stats);

/* What the client asked.  All strings live until http_reply(). */
const char *http_method(const struct http_exchange *exchange); /* as sent: compare exactly */
const char *http_path(const struct http_exchange *exchange);   /* percent-decoded, without query */
/* A query argument, percent-decoded (length counts: %00 is kept).  false when not given.
 * twice: it was given more than once, which every caller refuses. */
struct http_text {
    const char *text;
    size_t len;
    bool twice;
};
bool http_query(const struct http_exchange *exchange, const char *name, struct http_text *value);
/* Visits every query argument; a handler refuses names that it does not know. */
void http_query_visit(const struct http_exchange *exchange,
                      void (*visit)(void *arg, const char *name, struct http_text value),
                      void *arg);
const char *http_header(const struct http_exchange *exchange, const char *name); /* or NULL */
const char *http_body(const struct http_exchange *exchange, size_t *len);
/* When the first byte of the request was read, for probes: CLOCK_REALTIME by the loop's clock is
 * the caller's; this is the moment the handler is called unless the server can do better. */

struct http_response {
    unsigned status;          /* 200.. */
    const char *content_type; /* a constant */
    char *body;               /* handed over: release(body) is called when it was sent */
    size_t body_len;
    void (*release)(void *body); /* NULL: body is copied at once and stays the caller's */
    /* Further headers, NULL-terminated pairs of name and value; copied.  May be NULL. */
    const char *const *headers;
};
/* Answers.  HEAD sends the same headers and no body (the handler must not issue for it).  The
 * exchange is dead afterwards. */
void http_reply(struct http_exchange *exchange, const struct http_response *response);

/* Has the client of a parked exchange gone away?  The exchange does not notice by itself, and is still
 * to be answered, but nobody will read it: libmicrohttpd closes a parked connection whose client has
 * reset it or has only stopped sending. */
bool http_client_gone(const struct http_exchange *exchange);

/* A slot for whoever parked the exchange. */
void http_exchange_set(struct http_exchange *exchange, void *user);
void *http_exchange_get(const struct http_exchange *exchange);

#endif
