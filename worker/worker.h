/* worker.h - the worker as a whole: owns its parts and ties them together.
 *
 * The calling thread becomes the control thread: one event loop with the link to etcd, the leases,
 * the horizons (or, standalone, the state file) and the watch on the clock.  Beside it runs one serving thread for each machine ID. */
#ifndef SNOWFLEET_WORKER_WORKER_H
#define SNOWFLEET_WORKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/effective_clock.h"
#include "common/etcd_http.h"
#include "common/snowflake.h"
#include "common/status.h"

struct worker_config {
    struct clock clock;
    struct etcd_http_config etcd;
    const char *cluster;
    const char *identity;       /* a label; NULL: the host name */
    const char *http_listen;    /* HOST:PORT */
    const char *grpc_listen;    /* the same, for gRPC; "": none */
    const char *unix_socket;    /* path of a socket for gRPC; NULL: none */
    const char *advertise;      /* host that others reach this one by; NULL: that of http_listen */
    uint64_t machine_ids;       /* how many to hold */
    const uint16_t *machine_id; /* the one that is wanted; NULL: any, or 0 when standalone */
    bool standalone;            /* no etcd: the horizon is in state_file, and machine_ids is 1 */
    bool init, adopt;           /* standalone: make state_file; take over another host's */
    const char *state_file;     /* NULL: none, unless standalone */
    uint64_t window_ms, claim_ahead_ms, assign_wait_ms;
    uint64_t lease_ttl_ms, keepalive_interval_ms;
    struct effective_limits clock_limits;
    uint64_t
        max_commit_wait_ms; /* with strategy bounded: no caller waits longer for its IDs to be past */
    uint64_t max_alone_step_ms;   /* a worker alone in its fleet confirms this much by itself */
    uint64_t confirm_interval_ms; /* how often peers are asked about a step */
    uint16_t chrony_port;         /* on 127.0.0.1; 0: chronyd is not asked */
    uint64_t rotate_above_ms;     /* a clock that is further behind: another machine ID ... */
    uint64_t rotate_interval_ms;  /* ... at most once in that time */
    uint64_t max_backward_wait_ms, drain_timeout_ms;
    enum snowflake_start start;
    unsigned max_connections;       /* of each serving loop, for HTTP, and as many for gRPC */
    uint64_t max_connection_age_ms; /* of gRPC; 0: no limit */
    const char *tls_cert_file, *tls_key_file; /* of gRPC over TCP; NULL: no TLS */
    const char *tls_client_ca_file;           /* NULL: clients need no certificate */
    const char *client_token_file;            /* NULL: clients need no token */
    const char *public_key_file;              /* NULL: no public IDs */
};

/* Runs until SIGTERM or SIGINT, or until the coordinator orders it to drain; then drains, releases
 * its machine IDs and returns, within drain_timeout_ms even when etcd is away.  STATUS_OK unless it
 * could not start, or, standalone, could not write its state file any more. */
enum status worker_run(const struct worker_config *config, struct error *err);

#endif
