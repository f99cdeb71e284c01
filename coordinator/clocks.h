/* clocks.h - a coordinator's view of the members' clocks: asks each now and then, and on demand.
 *
 * Readings are offsets from our own clock: when that is stepped, all are void and asked anew. */
#ifndef SNOWFLEET_COORDINATOR_CLOCKS_H
#define SNOWFLEET_COORDINATOR_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/http_client.h"
#include "coordinator/cluster.h"
#include "coordinator/consensus.h"

#define CLOCKS_FRESH_MS 30000u  /* an older reading counts for nothing */
#define CLOCKS_TIMEOUT_MS 1000u /* of one exchange */

struct clocks;

struct clocks_config {
    struct http_client *client; /* outlives the clocks' requests */
    struct clock clock;
    struct cluster *cluster; /* the caller's */
    uint64_t probe_interval_ms;
    /* A member was asked; its reading is new. */
    void (*measured)(void *arg, struct member *member);
    void *arg;
};

struct clocks *clocks_new(const struct clocks_config *config);
/* After the client was closed. */
void clocks_free(struct clocks *clocks);

/* Asks whom it is time to ask. */
void clocks_tick(struct clocks *clocks);
/* Asks this member soon, whatever the interval. */
void clocks_ask(struct clocks *clocks, struct member *member);
/* Has every member been asked not long ago, so that the consensus is as good as it gets? */
bool clocks_all_asked(const struct clocks *clocks);

/* What is known of the member's clock now, from ours; false when it was not heard for
 * CLOCKS_FRESH_MS. */
bool clocks_skew(const struct clocks *clocks, const struct member *member, struct skew *skew);

/* Of all that are known, and of our own clock. */
struct consensus clocks_consensus(const struct clocks *clocks, uint64_t allowed_ms);

#endif
