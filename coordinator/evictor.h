/* evictor.h - the leader takes machine IDs back from stuck holders, as reclaim.h judges them: a
 * process that is gone while its own/NNNN stays, since etcd can keep dead leases.
 *
 * Asks the holder first; then deletes own/NNNN, guarded by the exact values of own/NNNN, of
 * hor/NNNN and of `leader`.  A holder that extended meanwhile, or a leader that is none any more,
 * makes it fail.  The horizon is never touched. */
#ifndef SNOWFLEET_COORDINATOR_EVICTOR_H
#define SNOWFLEET_COORDINATOR_EVICTOR_H

#include <stdint.h>

#include "common/clock.h"
#include "common/etcd.h"
#include "common/http_client.h"
#include "coordinator/cluster.h"
#include "coordinator/election.h"

struct evictor;

struct evictor_config {
    struct etcd etcd;
    struct clock clock;
    struct http_client *client; /* these three are the caller's and outlive the requests */
    struct cluster *cluster;
    struct election *election;
};
struct evictor *evictor_new(const struct evictor_config *config);
/* After the etcd client and the HTTP client were closed. */
void evictor_free(struct evictor *evictor);

/* Looks at all slots, a few of which it deals with at a time. */
void evictor_tick(struct evictor *evictor);

struct evictor_stats {
    uint64_t evicted_total;
};
const struct evictor_stats *evictor_stats(const struct evictor *evictor);

#endif
