/* coordinator.h - owns the parts of the watching program and ties them together: the watch of the
 * cluster's keys, the election, and, while it leads, clocks, assignments, evictions and the ceiling. */
#ifndef SNOWFLEET_COORDINATOR_COORDINATOR_H
#define SNOWFLEET_COORDINATOR_COORDINATOR_H

#include <stdint.h>

#include "common/clock.h"
#include "common/etcd_http.h"
#include "common/status.h"

/* Strings outlive the run. */
struct coordinator_config {
    struct clock clock;
    struct etcd_http_config etcd;
    const char *cluster;
    const char *http_listen; /* "HOST:PORT" */
    const char *advertise;   /* host by which others reach us; NULL: that of http_listen */
    uint64_t lease_ttl_ms;   /* whole seconds */
    uint64_t probe_interval_ms;
    uint64_t ceiling_lead_ms, ceiling_interval_ms;
    const char *worker_token_file; /* of the token that workers ask for; NULL: they ask for none */
};

/* Runs until SIGTERM or SIGINT, then hands over and returns within some three seconds, whatever
 * etcd does.  A failure means that it could not start. */
enum status coordinator_run(const struct coordinator_config *config, struct error *err);

#endif
