/* park.h - callers that wait for their IDs, in the order in which they came; and callers that
 * have theirs and wait until the timestamps are certainly past.
 *
 * One for each serving loop, on its thread only.  Nobody spins: one timer, armed only while somebody
 * waits, fires when the next millisecond of the wall clock begins, or when that clock is set. */
#ifndef SNOWFLEET_WORKER_PARK_H
#define SNOWFLEET_WORKER_PARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/status.h"
#include "worker/clock_board.h"
#include "worker/service.h"

/* One request for IDs; memory of the transport's. */
struct park_call {
    struct service_ids ids; /* want is set, the rest zeroed */
    /* done() only when the timestamps of its IDs are certainly past (strategy `bounded`). */
    bool commit_wait;
    /* Runs once, perhaps from inside park_take(), with SERVICE_DONE or SERVICE_FAILED; then the call
     * is the transport's again, with its ids to free. */
    void (*done)(struct park_call *call, enum service_outcome outcome,
                 const struct service_error *err);
    /* Has the client gone away?  Asked before IDs are spent on somebody who had to wait. */
    bool (*gone)(const struct park_call *call);
    bool stand_in;                  /* of another loop's call: a failure goes back to that one */
    bool lent;                      /* another loop serves it just now */
    struct park_call *next, **link; /* the park's; link is NULL when the call does not wait here */
    uint64_t deadline_boot_ms;      /* of commit_wait */
};

struct park;

/* board and service outlive it.  max_commit_wait_ms: no caller waits longer for its IDs to be past. */
enum status park_new(uv_loop_t *loop, struct clock_board *board, struct service *service,
                     uint64_t max_commit_wait_ms, struct park **park, struct error *err);
/* Who is asked before a call fails for want of anything to issue from; lend.h. */
struct park_other {
    /* True: it is done when this one says so. */
    bool (*take)(void *arg, struct park_call *call, uint64_t now_ms);
    void (*leave)(void *arg, struct park_call *call); /* one that was taken: its client gave up */
    void *arg;
};
void park_set_other(struct park *park, const struct park_other *other);
/* Reads the clock and tells the service what the strategy has to say of it; zeroes where it has nothing
 * to say. */
struct effective_now park_look(struct park *park);
/* Serves the call now if nobody waits before it, else when its turn comes. */
void park_take(struct park *park, uint64_t now_ms, struct park_call *call);
/* A call that waits is forgotten, done() does not run: its client gave up.  Nothing, if it does not wait. */
void park_leave(struct park *park, struct park_call *call);
/* The clock was moved, and the timer with it: to be followed by park_serve(). */
void park_clock_moved(struct park *park);
/* More values of sequences may be had, or it is known that they may not. */
void park_serve_sequences(struct park *park, uint64_t now_ms);
/* Something changed that they may have waited for. */
void park_serve(struct park *park, uint64_t now_ms);
/* Ends all calls with this failure. */
void park_fail(struct park *park, const struct service_error *err);
/* Of both kinds. */
size_t park_waiting(const struct park *park);
/* Frees it, from the loop; nobody may wait any more.  NULL is let pass. */
void park_close(struct park *park);

#endif
