/* consensus.h - [pure] what time a number of clocks agree on, when some of them are wrong.
 *
 * Marzullo's idea: each clock is an interval, and the truth lies where most intervals meet.  Ours
 * bound only the measurement, not the clock's own error, so clocks that are a few ms apart would
 * never meet: all intervals are widened by the same amount, the least at which a majority of them
 * share a point.  The reference is the middle of what they share.  Means are not used: a minority
 * of wrong clocks cannot move it, however wrong they are.
 *
 * Source: K. Marzullo, "Maintaining the Time in a Distributed System" (1984), as in NTP's clock
 * selection (RFC 5905, 11.2.1). */
#ifndef SNOWFLEET_COORDINATOR_CONSENSUS_H
#define SNOWFLEET_COORDINATOR_CONSENSUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/skew.h"

#define CONSENSUS_QUORUM 3 /* fewer clocks cannot say which of them is wrong */

struct consensus {
    bool found;    /* some clock is exact enough to be used; else the rest is 0 */
    bool majority; /* of three and more clocks, more than half agree: enough to name others */
    bool firm;     /* and these are three and more: enough to act upon */
    size_t used;   /* clocks whose bound is within the allowed offset */
    size_t agree;  /* of these: certainly within the allowed offset of the reference */
    int64_t reference_ns; /* from the asker's clock */
    int64_t earliest_ns;  /* the clock that is furthest behind, of those used */
};

/* clocks: from the asker's clock; the asker's own is {0, 0} if it counts.  allowed_ns: how far two
 * clocks may be apart and still agree. */
struct consensus consensus_find(const struct skew *clocks, size_t n, int64_t allowed_ns);

/* The same clock, from the reference. */
struct skew consensus_offset(const struct consensus *consensus, const struct skew *clock);

/* Is this clock certainly further than allowed_ns from a firm reference? */
bool consensus_refuses(const struct consensus *consensus, const struct skew *clock,
                       int64_t allowed_ns);

/* Marzullo's own: where most of the intervals that clocks claim for themselves meet.  claims: from
 * the asker's clock, bound_ns the measurement's and the clock's own together, up to INT64_MAX / 4. */
struct consensus_claims {
    bool found;                     /* of three and more, more than half meet */
    int64_t earliest_ns, latest_ns; /* the truth lies between, if most claims are true */
};
struct consensus_claims consensus_of_claims(const struct skew *claims, size_t n);
/* Most clocks exclude every time that this claim allows. */
bool consensus_disproves(const struct consensus_claims *most, const struct skew *claim);

#endif
