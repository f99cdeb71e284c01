/* skew_history.h - [pure] a day of offsets and bounds of every node, in bounded memory.
 *
 * The last hour stands in intervals of 10 s, the day in intervals of 60 s.  A point of an interval
 * is an offset with a bound; where several readings fall together it is their hull, so that offset
 * +- bound holds each of them: a short excursion is never averaged away.
 *
 * Memory: SKEW_HISTORY_NODE_BYTES for each node heard within the day, and at most SKEW_HISTORY_NODES_MAX of
 * them: 7.4 MB for 500 nodes, 15.2 MB for 1,024, never more than 22.8 MB.  Beyond that those that
 * have been gone the longest make room, and when all are present a further one is not kept.
 *
 * Times are on the boot clock of whoever keeps it, which never jumps. */
#ifndef SNOWFLEET_COORDINATOR_SKEW_HISTORY_H
#define SNOWFLEET_COORDINATOR_SKEW_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/records.h"
#include "common/skew.h"

#define SKEW_HISTORY_FINE_MS 10000u
#define SKEW_HISTORY_FINE_POINTS 360u /* an hour */
#define SKEW_HISTORY_COARSE_MS 60000u
#define SKEW_HISTORY_COARSE_POINTS 1440u /* a day */
#define SKEW_HISTORY_NODES_MAX 1536u
#define SKEW_HISTORY_NODE_BYTES 14864u /* and malloc's few */
/* Of one answer, nodes times points: some 2 MB of JSON.  What would be more comes coarser. */
#define SKEW_HISTORY_ANSWER_POINTS 100000u

struct skew_history;

struct skew_history *skew_history_new(void);
void skew_history_free(struct skew_history *history);

/* Is it time for a new round of skew_history_add()?  Then all that follows until the next one is noted
 * at boot_ms, which never goes back. */
bool skew_history_due(struct skew_history *history, uint64_t boot_ms);
/* A node that is registered.  skew: from the reference; NULL: not heard. */
void skew_history_add(struct skew_history *history, const char *instance, const char *identity,
                      const uint16_t *machine_ids, size_t n_machine_ids, const struct skew *skew);

size_t skew_history_nodes(const struct skew_history *history);
uint64_t skew_history_refused_total(
    const struct skew_history *history); /* nodes not kept, for want of room */

/* The answer of GET /v1/skew/history, for the caller to free(): what was noted after since_ms (Unix
 * time by the clock that reads now_ms when boot_ms is now; 0: everything).  Beginning within the
 * last hour it comes in steps of SKEW_HISTORY_FINE_MS, else of SKEW_HISTORY_COARSE_MS, whole intervals only;
 * or of a multiple, when it would have more than SKEW_HISTORY_ANSWER_POINTS. */
char *skew_history_spell(const struct skew_history *history, uint64_t now_ms, uint64_t boot_ms,
                         uint64_t since_ms, size_t *len);

#endif
