/* etcd_http_internal.h - what etcd_http.c and etcd_watch.c share. */
#ifndef SNOWFLEET_COMMON_ETCD_HTTP_INTERNAL_H
#define SNOWFLEET_COMMON_ETCD_HTTP_INTERNAL_H

#include <stdbool.h>
#include <sys/queue.h>

#include "common/etcd_auth.h"
#include "common/etcd_endpoints.h"
#include "common/etcd_http.h"
#include "common/http_client.h"

TAILQ_HEAD(etcd_watches, etcd_watch);
TAILQ_HEAD(etcd_refusals, etcd_operation);

struct etcd_http {
    uv_loop_t *loop;
    struct http_client *http; /* NULL once it has closed */
    struct etcd_auth *auth;   /* NULL: no user */
    struct etcd_endpoints endpoints;
    size_t current; /* the endpoint in use */
    uint64_t timeout_ms, watch_lifetime_ms, retry_min_ms, retry_max_ms;
    struct etcd_http_stats stats;
    struct etcd_watches watches;
    struct etcd_refusals refusals; /* operations that end without a request, in the next turn */
    uv_timer_t refusal_timer;
    bool closing;
    size_t open_parts; /* HTTP client, timer, auth and watches that are still to close */
    void (*closed)(void *arg);
    void *closed_arg;
};

/* A good answer came. */
void etcd_http_note_success(struct etcd_http *client);
/* A failure at an endpoint: leaves it, if it is still the one in use, for the next. */
void etcd_http_note_failure(struct etcd_http *client, size_t endpoint, const struct error *err);
/* Who we are, or what we may do, was not accepted: another endpoint would say the same. */
void etcd_http_note_refusal(struct etcd_http *client, const struct error *err);
/* One of the open parts has closed. */
void etcd_http_part_closed(struct etcd_http *client);

void etcd_http_txn(void *self, const struct etcd_txn *txn, etcd_txn_fn *done, void *arg);

/* etcd_watch.c */
struct etcd_watch *etcd_watch_new(struct etcd_http *client, const struct etcd_key_range *ranges,
                                  size_t n_ranges, etcd_watch_fn *on_events, void *arg);
void etcd_watch_stop(struct etcd_watch *watch);
void etcd_watch_stop_all(struct etcd_http *client);
void etcd_watch_release_all(struct etcd_http *client);
/* The client has changed its endpoint: running streams follow. */
void etcd_watch_follow_all(struct etcd_http *client);

#endif
