/* reclaim.h - [pure] which machine IDs can be taken back: a verdict for each slot, what it would
 * take, and how long one has to wait.
 *
 * Taking back only ever means to delete own/NNNN, guarded by its exact value.  The horizon stays, so
 * whoever was the holder finishes its window, and whoever comes next starts above it: a wrong
 * verdict costs a live worker its machine ID, never an ID issued twice. */
#ifndef SNOWFLEET_COORDINATOR_RECLAIM_H
#define SNOWFLEET_COORDINATOR_RECLAIM_H

#include <stddef.h>
#include <stdint.h>

#include "common/records.h"
#include "common/registry.h"

/* What came of asking the holder's /v1/status for its claim. */
enum presence {
    PRESENCE_NOT_ASKED,
    PRESENCE_THERE,   /* it holds the machine ID under that claim */
    PRESENCE_NOT,     /* it answered, and does not */
    PRESENCE_SILENT,  /* it cannot be reached */
    PRESENCE_UNCLEAR, /* something answered, but not with a status: counts as there */
};

enum reclaim_verdict {
    RECLAIM_FREE,
    RECLAIM_COOLING,
    RECLAIM_AHEAD,
    RECLAIM_HELD,  /* in use, or not yet known to be stuck */
    RECLAIM_STUCK, /* own exists, the horizon is past and did not change for the quiet time, and the
                      holder is silent or without that claim: can be taken back at once */
    RECLAIM_RESERVED,
    RECLAIM_ABSENT, /* no horizon, or one that cannot be read */
};
#define RECLAIM_VERDICTS (RECLAIM_ABSENT + 1)
const char *reclaim_verdict_name(enum reclaim_verdict verdict); /* "STUCK" */

struct reclaim {
    enum reclaim_verdict verdict;
    enum presence presence;
    /* HELD, and it depends on the holder's answer whether it is STUCK. */
    bool must_ask;
    /* HELD and unless it is extended: how long until must_ask, 0 when it is; UINT64_MAX when the
     * horizon says nothing. */
    uint64_t stuck_in_ms;
    /* How long until it can be claimed, with own gone now (HELD and STUCK: if it were taken back
     * now); UINT64_MAX when it does not come free by itself. */
    uint64_t usable_in_ms;
};

/* The quiet time that counts now: that of meta, and none under pressure, when no slot is FREE. */
uint64_t reclaim_quiet_ms(const struct registry *registry, const struct meta *meta,
                          uint64_t now_ms);

/* unchanged_ms: for how long the slot's horizon has been seen unchanged. */
struct reclaim reclaim_judge(const struct registry *registry, const struct meta *meta,
                             uint16_t machine_id, uint64_t quiet_ms, uint64_t now_ms,
                             uint64_t unchanged_ms, enum presence presence);

/* Says for a person what it is and what it would take, a sentence without a full stop:
 * "held by prod/ids-0, which serves it; --force takes it, usable then in 57.3 s". */
#define RECLAIM_TEXT_MAX 512
void reclaim_explain(const struct reclaim *reclaim, const struct slot *slot, uint64_t now_ms,
                     char text[static RECLAIM_TEXT_MAX]);

#endif
