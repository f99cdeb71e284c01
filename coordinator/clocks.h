/* clocks.h - a coordinator's (or snowfleetctl's) view of the members' clocks: asks each now and
 * then, and on demand.
 *
 * What is known of a clock is its track (track.h), as an offset from our own: when ours is stepped,
 * all is void and asked anew; when a member's is, its own is. */
#ifndef SNOWFLEET_COORDINATOR_CLOCKS_H
#define SNOWFLEET_COORDINATOR_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/http_client.h"
#include "coordinator/cluster.h"
#include "coordinator/consensus.h"
#include "coordinator/survey.h"

#define CLOCKS_FRESH_MS 30000u  /* an older reading counts for nothing */
#define CLOCKS_TIMEOUT_MS 1000u /* of one exchange, for a daemon */

/* So many members are asked at a time: of those that are near or were silent, and of those that are
 * far, which mostly wait.  A client that takes fewer requests at a time lets some wait until their
 * time-out. */
#define CLOCKS_NEAR_AT_A_TIME 64u
#define CLOCKS_FAR_AT_A_TIME 128u

struct clocks;

struct clocks_config {
    struct http_client *client; /* outlives the clocks' requests */
    struct clock clock;
    struct cluster *cluster; /* the caller's */
    uint64_t probe_interval_ms;
    uint64_t timeout_ms;    /* of one exchange */
    unsigned far_at_a_time; /* 1..CLOCKS_FAR_AT_A_TIME */
    /* A member was asked; its reading is new. */
    void (*measured)(void *arg, struct member *member);
    void *arg;
};

struct clocks *clocks_new(const struct clocks_config *config);
/* After the client was closed. */
void clocks_free(struct clocks *clocks);

/* They only grow. */
struct clocks_stats {
    uint64_t probes_total;
    uint64_t failures_total;       /* of these: told nothing of the clock */
    uint64_t exchanges_total;      /* questions answered */
    uint64_t dropped_total;        /* of these: in vain, since a clock was stepped meanwhile */
    uint64_t cold_total;           /* and over a connection of their own */
    uint64_t steps_total;          /* of members' clocks, as seen by the probes */
    uint64_t own_steps_total;      /* of our own clock */
    uint64_t contradictions_total; /* samples that exclude those before: a clock moves faster than
                                      assumed */
};
const struct clocks_stats *clocks_stats(const struct clocks *clocks);

/* Asks whom it is time to ask. */
void clocks_tick(struct clocks *clocks);
/* Asks this member soon, whatever the interval. */
void clocks_ask(struct clocks *clocks, struct member *member);
/* Asks all of them, as many at a time as is good; clocks_tick() asks the next. */
void clocks_ask_all(struct clocks *clocks);
/* Nobody is being asked, or still to be by clocks_ask() or clocks_ask_all(). */
bool clocks_idle(const struct clocks *clocks);
/* Forgets what is known, because our own clock was stepped. */
void clocks_void(struct clocks *clocks);
/* Has every member been asked not long ago, so that the consensus is as good as it gets? */
bool clocks_all_asked(const struct clocks *clocks);

/* By how much our clock and another may drift apart, beside what the other's kernel corrects. */
int64_t clocks_rate_ppb(const struct clocks *clocks);
/* What is known of the member's clock now, from ours; false when it was not heard for
 * CLOCKS_FRESH_MS. */
bool clocks_skew(const struct clocks *clocks, const struct member *member, struct skew *skew);
/* Of all that are known, and of our own clock. */
struct consensus clocks_consensus(const struct clocks *clocks, uint64_t allowed_ms);
/* The report of it all, our own clock among them; the cluster must have its meta.  survey_done()
 * releases it. */
void clocks_survey(const struct clocks *clocks, struct survey *survey);

#endif
