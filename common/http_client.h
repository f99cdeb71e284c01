/* http_client.h - HTTP requests from a libuv loop.  The only file with curl.h.
 *
 * HTTP/1.1 over kept-alive connections; no proxy whatever the environment says, no redirects.
 * libcurl's silent repeat of a request whose re-used connection breaks is switched off, except
 * where a request says that it does no harm: a body is never delivered twice.
 *
 * Not thread-safe: one client for each loop.  The process must ignore SIGPIPE. */
#ifndef SNOWFLEET_COMMON_HTTP_CLIENT_H
#define SNOWFLEET_COMMON_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/status.h"

struct http_client;
struct http_call; /* one request: valid until its done() returns */

struct http_config {
    size_t max_active;      /* requests at a time, streams not counted; the others wait.  0: 16 */
    size_t max_connections; /* kept open for re-use, beyond those in use.  0: 32 */
    const char *ca_file;    /* PEM; NULL: the system's */
    const char *cert_file;  /* PEM, with key_file; NULL: no client certificate */
    const char *key_file;
};

/* Strings are copied.  STATUS_INVALID: a file cannot be read. */
enum status http_client_new(uv_loop_t *loop, const struct http_config *config,
                            struct http_client **client, struct error *err);

/* Outstanding requests end with STATUS_CANCELLED, then closed() runs, all from the loop and not
 * from inside the call; the client is gone when closed() runs.  A request sent meanwhile (from a
 * done(), say) ends with STATUS_CANCELLED too. */
void http_client_close(struct http_client *client, void (*closed)(void *arg), void *arg);

/* header, "Authorization: Bearer ...", goes along with every request that is `authorized` from now
 * on; copied.  NULL: none, as at first. */
void http_client_authorize(struct http_client *client, const char *header);

struct http_result {
    bool sent;        /* a connection stood and the request may have been written to it */
    bool reused;      /* over a connection that was open before: the times hold no connecting */
    long http_status; /* 0: no answer began */
    const char *body; /* NUL-terminated; "" for a stream */
    size_t body_len;
    uint64_t sent_us;       /* from the start of the transfer to the sending */
    uint64_t first_byte_us; /* to the first byte of the answer */
    uint64_t total_us;
};

/* err is NULL when a whole answer came, whatever its HTTP status; else it begins with the URL's
 * scheme, host and port.  *result is the client's, lives until done() returns and is never NULL.
 *   STATUS_UNAVAILABLE  surely never sent (!result->sent): no name, refused, connect time-out, TLS
 *   STATUS_UNKNOWN      it may have been carried out; no whole answer came
 *   STATUS_PROTOCOL     the same, and what came is no HTTP answer or is too large
 *   STATUS_INVALID      no URL that we can use; never sent
 *   STATUS_CANCELLED    see http_call_cancel(); carried out or not */
typedef void http_done_fn(void *arg, const struct error *err, const struct http_result *result);

/* A piece of a streamed answer, of any length.  May call any function of the client. */
typedef void http_bytes_fn(void *arg, long http_status, const char *bytes, size_t len);

struct http_request {
    const char *url;
    const char *const *headers; /* "Name: value", NULL-terminated; NULL for none */
    const char *body;           /* POST; NULL: GET */
    size_t body_len;
    uint64_t timeout_ms;         /* for all of it, from this call on; 0: none, for a stream */
    uint64_t connect_timeout_ms; /* of that for name, connection and TLS; 0: all of it */
    size_t max_bytes;            /* of the answer; not for streams */
    bool repeatable;             /* may be delivered twice without harm */
    bool authorized;             /* sends what http_client_authorize() was given, if anything */
    void (*on_send)(void *arg);  /* the connection stands, the request goes out now (of a repeatable
                                    one perhaps twice); for measuring.  May be NULL */
    http_bytes_fn *on_bytes;     /* streams the answer.  NULL: done() gets it whole */
    http_done_fn *done;
    void *arg;
};

/* Returns at once.  Everything is copied.  done() runs exactly once, from the loop. */
struct http_call *http_client_send(struct http_client *client, const struct http_request *request);

/* Gives the call up: its connection is closed, no on_bytes() runs any more, and done() runs with
 * STATUS_CANCELLED from the loop, not from inside. */
void http_call_cancel(struct http_call *call);

#endif
