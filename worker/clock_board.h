/* clock_board.h - the effective clock as the control thread last left it, for all threads to date by.
 *
 * The control thread looks at the physical clock and publishes what it makes of it; any thread reads
 * the physical clock for itself and judges its own reading by the last state published, so that a
 * step is never dated by, however late the control thread is.  No reader waits for another, nor the
 * writer for them. */
#ifndef SNOWFLEET_WORKER_CLOCK_BOARD_H
#define SNOWFLEET_WORKER_CLOCK_BOARD_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/effective_clock.h"

struct clock_board {
    struct clock physical;
    enum clock_strategy strategy;
    int64_t max_error_ns;
    _Atomic uint64_t sequence; /* odd while the words are being written */
    _Atomic uint64_t words[(sizeof(struct effective_clock) + 7) / 8];
};

/* clock has looked at least once. */
void clock_board_init(struct clock_board *board, const struct clock *physical,
                      const struct effective_clock *clock);
/* From one thread only. */
void clock_board_publish(struct clock_board *board, const struct effective_clock *clock);

/* From any thread. */
struct effective_now clock_board_now(const struct clock_board *board);
/* The effective clock as whoever needs no more than a time sees it: what it calls the wall clock is
 * the effective one.  Lives as long as the board. */
struct clock clock_board_clock(struct clock_board *board);

#endif
