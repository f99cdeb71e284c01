/* raiser.h - the leader raises `ceil` every period, as ceiling.h decides, guarded by the exact
 * values of `leader` and `ceil`. */
#ifndef SNOWFLEET_COORDINATOR_RAISER_H
#define SNOWFLEET_COORDINATOR_RAISER_H

#include <stdint.h>

#include "common/clock.h"
#include "common/etcd.h"
#include "coordinator/ceiling.h"
#include "coordinator/clocks.h"
#include "coordinator/cluster.h"
#include "coordinator/election.h"

struct raiser;

struct raiser_config {
    struct etcd etcd;
    struct clock clock;
    struct cluster *cluster; /* these three are the caller's and outlive the requests */
    struct clocks *clocks;
    struct election *election;
    uint64_t lead_ms, interval_ms;
};
struct raiser *raiser_new(const struct raiser_config *config);
/* After the etcd client was closed. */
void raiser_free(struct raiser *raiser);

/* A term begins: nothing that an earlier one went by counts. */
void raiser_begin(struct raiser *raiser);
void raiser_tick(struct raiser *raiser);

struct raiser_stats {
    uint64_t raises_total;
    enum ceiling_alarm alarm; /* of the last decision */
};
const struct raiser_stats *raiser_stats(const struct raiser *raiser);

#endif
