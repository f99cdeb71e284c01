/* ceiling.h - [pure] how far into the future the leader lets horizons rise.
 *
 * The ceiling is consensus time + lead, upwards only.  It is what keeps a worker whose clock is
 * years ahead from taking a machine ID's years with it, so it must not follow such a clock itself:
 * between two raises the consensus may advance by no more than the boot time that passed + 1 s.
 * The first raise has nothing to go by but the clocks: three that agree, or, with fewer, all that
 * can be heard, and an alarm.  What so few say is a basis only until the first firm consensus. */
#ifndef SNOWFLEET_COORDINATOR_CEILING_H
#define SNOWFLEET_COORDINATOR_CEILING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "coordinator/consensus.h"

#define CEILING_SLACK_MS 1000u

/* What the last raise of this term went by; zeroed at the begin of a term. */
struct ceiling {
    bool based;
    bool firm; /* the consensus it went by was */
    uint64_t consensus_ms;
    uint64_t boot_ms;
};

enum ceiling_alarm {
    CEILING_FINE,
    CEILING_FEW_CLOCKS, /* raised by fewer than three clocks that agree */
    CEILING_HELD_BACK   /* the consensus ran ahead of the boot time; only that much is followed */
};
const char *ceiling_alarm_text(enum ceiling_alarm alarm); /* for people; "" for CEILING_FINE */

struct ceiling_decision {
    bool raise;          /* false: the ceiling stays */
    uint64_t ceiling_ms; /* the new value, when raise */
    enum ceiling_alarm alarm;
    struct ceiling basis; /* for ceiling_raised() */
};

/* stored_ms: V(ceil) as read.  clocks: from now's clock, the leader's own among them. */
struct ceiling_decision ceiling_decide(const struct ceiling *ceiling, struct instant now,
                                       const struct consensus *clocks, uint64_t stored_ms,
                                       uint64_t lead_ms);

/* The raise is known to have been written: the next one goes by it.  Not after a failure, else the
 * slack would add up. */
void ceiling_raised(struct ceiling *ceiling, const struct ceiling_decision *decision);

#endif
