/* assigner.h - the leader answers workers that ask for machine IDs: asks their clock, chooses, and
 * writes assign/<instance>, guarded by the exact value of `leader`. */
#ifndef SNOWFLEET_COORDINATOR_ASSIGNER_H
#define SNOWFLEET_COORDINATOR_ASSIGNER_H

#include <stdint.h>

#include "common/clock.h"
#include "common/etcd.h"
#include "coordinator/clocks.h"
#include "coordinator/cluster.h"
#include "coordinator/election.h"

struct assigner;

struct assigner_config {
    struct etcd etcd;
    struct clock clock;
    struct cluster *cluster; /* these three are the caller's and outlive the requests */
    struct clocks *clocks;
    struct election *election;
};
struct assigner *assigner_new(const struct assigner_config *config);
/* After the etcd client was closed. */
void assigner_free(struct assigner *assigner);

/* A claim was seen: remembers which identity held which machine ID. */
void assigner_saw_own(struct assigner *assigner, uint16_t machine_id);
/* Does what this member needs next, if we lead and it asks for anything. */
void assigner_consider(struct assigner *assigner, struct member *member);
void assigner_tick(struct assigner *assigner);

struct assigner_stats {
    uint64_t assigned_total; /* requests answered with machine IDs */
    uint64_t refused_total;
    uint64_t skew_refused_total;     /* of these: for their clock */
    uint64_t clocks_confirmed_total; /* orders that a clock that was stepped is right */
};
const struct assigner_stats *assigner_stats(const struct assigner *assigner);

#endif
