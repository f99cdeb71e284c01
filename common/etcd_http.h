/* etcd_http.h - the interface of etcd.h over etcd's JSON gateway (3.4 to 3.6): endpoints,
 * time-outs, what is tried again and what is not.
 *
 * The client stays with the endpoint that works; a failure moves the following requests, and the
 * running watches, on to the next.  Within one call's time-out the other endpoints are tried at
 * once when the request was surely never sent, or when sending it twice does no harm (transactions
 * that only read, keep-alives).  Anything else is reported, and is the caller's to look into.
 *
 * What this client adds to etcd.h's contract: it never sends a write twice; a transaction that
 * only reads never ends in STATUS_UNKNOWN; a write's answer that makes no sense is STATUS_UNKNOWN.
 *
 * With a user every request carries the token of its endpoint; see etcd_auth.h.  A call that etcd
 * refuses because of the token was not carried out: the client authenticates and sends it again,
 * once.  Without a user, or when that does not help, it ends in STATUS_AUTH.
 *
 * Not thread-safe: one client for each loop.  The process must ignore SIGPIPE. */
#ifndef SNOWFLEET_COMMON_ETCD_HTTP_H
#define SNOWFLEET_COMMON_ETCD_HTTP_H

#include <stdint.h>
#include <uv.h>

#include "common/etcd.h"
#include "common/status.h"

struct etcd_http;

struct etcd_http_config {
    const char *endpoints;      /* "http://a:2379,https://b:2379" */
    uint64_t timeout_ms;        /* of one call, all its tries included, and the same again when it
                                   has to wait for an authentication.  0: 2 s */
    uint64_t watch_lifetime_ms; /* a watch's stream is renewed that often, which finds a dead one.
                                   0: 60 s */
    uint64_t retry_min_ms;      /* pause before a broken watch is tried again: doubles with */
    uint64_t retry_max_ms;      /* each failure, with jitter.  0: 100 ms and 2 s */
    const char *ca_file;        /* PEM; NULL: the system's */
    const char *cert_file;      /* PEM, with key_file; NULL: no client certificate */
    const char *key_file;
    const char *user;          /* NULL: no authentication; a client certificate needs none */
    const char *password_file; /* with user: its one line, read again for each authentication */
};

/* Does not connect yet.  Strings are copied.  STATUS_INVALID: an endpoint that is no URL, or a
 * file that cannot be used; err names it. */
enum status etcd_http_new(uv_loop_t *loop, const struct etcd_http_config *config,
                          struct etcd_http **client, struct error *err);

/* Valid until etcd_http_close() is called; watch_stop() also until closed() runs. */
struct etcd etcd_http_interface(struct etcd_http *client);

/* From the loop: every outstanding done() runs with STATUS_CANCELLED, watches end in silence, then
 * closed() runs and the client is gone.  Takes no time worth mention, whatever etcd does.  Calls
 * made meanwhile (from a done(), say) end with STATUS_CANCELLED too. */
void etcd_http_close(struct etcd_http *client, void (*closed)(void *arg), void *arg);

/* Counters for metrics; they only grow. */
struct etcd_http_stats {
    uint64_t requests;         /* tries, of all kinds but watches */
    uint64_t request_us;       /* that they took, together */
    uint64_t failures;         /* of those: without an answer, or with one that says "not now" */
    uint64_t unknown_outcomes; /* writes that ended in STATUS_UNKNOWN */
    uint64_t endpoint_switches;
    uint64_t authentications; /* tries */
    uint64_t watch_failures;  /* streams and readings of all keys that failed */
    uint64_t watch_resets;    /* ETCD_EVENT_RESET delivered, the first one of a watch too */
    uint64_t failures_in_row; /* since the last good answer; 0: all is well */
    const char *endpoint;     /* the one in use; valid as long as the client */
    struct error last_error;  /* of the last failure; message "" when there was none */
};
/* Valid until the next turn of the loop. */
const struct etcd_http_stats *etcd_http_stats(const struct etcd_http *client);

#endif
