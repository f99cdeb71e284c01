/* seek.h - [pure] finding a slot: asks the leader, and when no answer comes within assign_wait,
 * leader key or not, chooses a free one at random.
 *
 * One for the worker, whatever the number of machine IDs it needs.  Whatever it comes up with is
 * advice: the claim transaction decides. */
#ifndef SNOWFLEET_WORKER_SEEK_H
#define SNOWFLEET_WORKER_SEEK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/records.h"
#include "common/registry.h"

struct seek {
    uint64_t assign_wait_ms;
    uint64_t retry_min_ms, retry_max_ms;

    unsigned missing; /* how many machine IDs are looked for */
    uint64_t attempt; /* of the newest request to the leader, counted from 1 */
    uint64_t asked_boot_ms;
    bool asking;            /* that request has no answer yet */
    bool alone;             /* nobody answers: choose by ourselves until the search is over */
    uint64_t retry_boot_ms; /* nothing before this */
    unsigned failures;      /* searches in a row that came to nothing */
    uint16_t candidates[RECORD_MACHINES_MAX]; /* assigned and not tried yet */
    size_t n_candidates;
    bool refused[MACHINE_IDS];      /* found unusable in this search */
    char reason[RECORD_REASON_MAX]; /* why nothing was found; "" otherwise */
};

void seek_init(struct seek *seek, uint64_t assign_wait_ms, uint64_t retry_min_ms,
               uint64_t retry_max_ms);

/* How many are needed now.  A larger need than before is a new request. */
void seek_need(struct seek *seek, struct instant now, unsigned missing);
/* Everything that was looked for is held: the search is over, and what it learnt is forgotten. */
void seek_settled(struct seek *seek);
/* assign/<instance> as it stands; what answers an older attempt is ignored. */
void seek_assigned(struct seek *seek, struct instant now, const struct assign *assign);
/* That slot was seen to be free: it is tried before anybody is asked. */
void seek_suggest(struct seek *seek, uint16_t machine_id);
/* That slot cannot be had, or was lost: not again in this search. */
void seek_unusable(struct seek *seek, uint16_t machine_id);
/* The slot that was tried is being claimed. */
void seek_found(struct seek *seek, uint16_t machine_id);
/* No request can be made or no claim allowed now (etcd is away, frozen, ...): later. */
void seek_pause(struct seek *seek, struct instant now, const char *reason);
/* Ends a pause. */
void seek_resume(struct seek *seek);

enum seek_move {
    SEEK_WAIT,  /* until wake_boot_ms */
    SEEK_TRY,   /* read this slot and offer it */
    SEEK_CHOOSE /* read all slots, let seek_choose() pick, and offer that */
};
/* May begin a new request to the leader: attempt has changed then, and the node record is to be
 * written again. */
enum seek_move seek_next(struct seek *seek, struct instant now, uint16_t *machine_id,
                         uint64_t *wake_boot_ms);

/* Chooses among all slots: wanted ones first if they are free, else any free one by random_bits;
 * when none is free, the quiet time is waived.  false: none, and the reason says when there will
 * be (retry at that time, or later). */
bool seek_choose(struct seek *seek, struct instant now, const struct registry *registry,
                 const struct meta *meta, const uint16_t *wanted, size_t n_wanted,
                 uint64_t random_bits, uint16_t *machine_id);

#endif
