/* placement.h - [pure] which machine ID for which worker.
 *
 * Assignment is advice: the worker's claim transaction decides.  So nothing here guards the
 * promise that no ID is issued twice; it only keeps workers from running into each other.
 *
 * Order of choice: a machine ID that the worker wants or that its identity held last, if FREE, or
 * COOLING with its horizon past; else the FREE one whose horizon is oldest.  Without any, the quiet
 * time shrinks to zero.  Never one that the worker refused, nor one promised to another.
 *
 * Slots are judged for the moment at which the floor has passed: while only the floor is ahead, a
 * worker gets its machine ID and waits for the floor by itself. */
#ifndef SNOWFLEET_COORDINATOR_PLACEMENT_H
#define SNOWFLEET_COORDINATOR_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/keys.h"
#include "common/records.h"
#include "common/registry.h"

/* What the leader remembers beside the registry; zeroed at first. */
struct placement {
    char last_identity[MACHINE_IDS][RECORD_IDENTITY_MAX + 1]; /* "": not seen held */
    char promised_to[MACHINE_IDS][HEX128_CHARS + 1];          /* instance; "": nobody */
};

/* A claim was seen: own/NNNN holds own. */
void placement_claimed(struct placement *placement, uint16_t machine_id, const struct own *own);

/* An instance of that identity says that it holds it, or held it when it last wrote: for a leader that
 * did not see who claimed it. */
void placement_recall(struct placement *placement, uint16_t machine_id, const char *identity);

/* Which promises stand follows from the records of node/ and assign/ and from what the leader is
 * about to write: it says so anew before each choice. */
void placement_clear_promises(struct placement *placement);
void placement_promise(struct placement *placement, const char *instance,
                       const uint16_t *machine_ids, size_t n);

/* Up to node->missing machine IDs.  When there is none at all, refused says why and
 * retry_after_ms when to ask again. */
struct placement_answer {
    uint16_t machine_ids[RECORD_MACHINES_MAX];
    size_t n;
    char refused[RECORD_REASON_MAX];
    uint64_t retry_after_ms;
};
void placement_choose(const struct placement *placement, const struct registry *registry,
                      const struct meta *meta, const char *instance, const struct node *node,
                      uint64_t now_ms, struct placement_answer *answer);

#endif
