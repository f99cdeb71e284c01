/* fleet.h - [pure] the fleet at a glance, as the coordinator's page shows it: GET /v1/fleet.
 *
 * Bounded: at most MACHINE_IDS runs of machine IDs, FLEET_ALARMS_MAX alarms, and a fixed number of
 * fields for each worker. */
#ifndef SNOWFLEET_COORDINATOR_FLEET_H
#define SNOWFLEET_COORDINATOR_FLEET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/clock.h"
#include "coordinator/cluster.h"
#include "coordinator/consensus.h"

#define FLEET_ALARMS_MAX 32

/* What a coordinator knows.  All of it is the caller's. */
struct fleet_view {
    const struct cluster *cluster;
    const char *cluster_name;
    struct instant now;         /* this coordinator's clock */
    int64_t boot_ns;            /* the same moment, exactly */
    struct consensus consensus; /* from that clock */
    /* This coordinator. */
    const char *instance;
    bool leads;
    const char *state;         /* of its election */
    const char *trouble;       /* why nothing can be assigned; "" when all is well */
    const char *ceiling_alarm; /* of the leader's last raise; "" for none */
    const char *etcd_endpoint;
    const char *etcd_error; /* "" while etcd answers */
};

/* One worker, judged. */
struct fleet_worker {
    const struct member *member;
    const uint16_t *machine_ids; /* that it holds, in order */
    size_t n_machine_ids;
    struct skew skew; /* from our own clock, when it was heard */
    struct skew_facts facts;
    enum skew_verdict verdict;
};

/* All that is derived from a view. */
struct fleet {
    const struct fleet_view *view;
    uint64_t consensus_ms;        /* what time it is: by the consensus, or else by our own clock */
    struct fleet_worker *workers; /* worst first; allocated */
    size_t n_workers, n_heard;
    uint16_t *machine_ids;         /* what the workers' point into; allocated */
    struct skew_distance distance; /* of the clocks heard, ours among them */
};
void fleet_init(struct fleet *fleet, const struct fleet_view *view);
void fleet_done(struct fleet *fleet);

/* Is this a machine ID that is held although its horizon is past? */
bool fleet_is_stuck(const struct fleet *fleet, const struct slot *slot);

/* What is wrong, in words, the worst first: a list of {"severity", "text", "meaning"}; the
 * caller's.  Empty when all is well. */
json_t *fleet_alarms(const struct fleet *fleet);

/* The whole answer; the caller's. */
json_t *fleet_report(const struct fleet_view *view);

#endif
