/* effective_clock.h - [pure] the clock that dates IDs, made of the physical ones.
 *
 * The wall clock (CLOCK_REALTIME) may be stepped by anybody at any moment.  A step shows exactly, as
 * a change of wall minus boot time that no slew explains, in the very reading that is affected: so
 * no reading is ever dated by a step that nobody has judged.  What follows from one:
 *
 *   forward, up to max_forward         taken over; so is the way back to where the clock was before
 *                                      a step back, as long as it has not caught up by itself
 *   forward, more                      coasting: the effective clock goes on by boot time, as if
 *                                      nothing had happened, until the step is confirmed, or the
 *                                      wall clock comes back to within max_forward
 *   back, strategy OFFSET, up to       slewing: a logical offset keeps the effective clock going,
 *   max_offset                         and is worked off by running 1/16 slower
 *   back, else                         the effective clock goes back too: whoever issues IDs waits,
 *                                      refuses, or takes another machine ID
 *
 * Strategy BOUNDED is as WAIT, and refuses while the clock's error is unknown or above max_error.
 *
 * Invariants: without a step the effective clock never goes back while boot time goes on and slews
 * stay below 1000 ppm; it runs ahead of the wall clock only in slewing, and behind it only in
 * coasting.  Uniqueness rests on none of this.
 *
 * One thread owns the clock and looks at it often; others take copies of it and ask what those make
 * of a later reading.  A copy that is some seconds old serves as well. */
#ifndef SNOWFLEET_COMMON_EFFECTIVE_CLOCK_H
#define SNOWFLEET_COMMON_EFFECTIVE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"

#define EFFECTIVE_SLEW 16 /* an offset is worked off by 1 ns in so many */
/* By so much a step may be measured larger than it was: one of just max_forward is taken over. */
#define EFFECTIVE_MEASURED_NS INT64_C(1000000)

enum clock_strategy { CLOCK_WAIT, CLOCK_OFFSET, CLOCK_BOUNDED };

struct effective_limits {
    enum clock_strategy strategy;
    int64_t max_forward_ns;
    int64_t max_offset_ns; /* OFFSET: of the logical offset */
    int64_t max_error_ns;  /* BOUNDED */
    int64_t drift_ppm;     /* how much an error may grow since it was last told, 1e-6 of the time */
};

struct effective_clock {
    struct effective_limits limits;
    bool started;
    struct instant_ns last; /* the physical clocks at the last look */
    int64_t offset_ns;      /* effective minus wall, then; below 0 only when coasting */
    bool coasting;
    uint64_t steps_total;
    int64_t last_step_ns;      /* positive forward */
    int64_t last_step_boot_ns; /* when it was noticed */
    int64_t last_jump_ns;      /* how far the effective clock went with it */
    /* Since steps back: what it read at most, and how far it went back, until it reads that again. */
    int64_t peak_ns, gone_back_ns;
    /* The bound on the effective clock's error, as last told. */
    bool knows_error;
    int64_t error_ns, error_boot_ns;
};

void effective_clock_init(struct effective_clock *clock, const struct effective_limits *limits);

/* Takes a reading in.  The first one is believed.  Returns the step of the wall clock since the last
 * look, 0 for none. */
int64_t effective_clock_look(struct effective_clock *clock, struct instant_ns now);

/* The wall clock at the last look is confirmed: an offset, of whichever sign, is dropped. */
void effective_clock_confirm(struct effective_clock *clock);

/* What the wall clock's error is at most, at the last look; known false: nobody can say.  While no
 * new bound comes the last one grows.  Ignored while coasting, when the wall clock is not the one
 * that counts. */
void effective_clock_tell_error(struct effective_clock *clock, bool known, int64_t error_ns);

/* What a copy makes of a reading; clock stays as it is. */
struct effective_now {
    int64_t effective_ns; /* Unix time */
    int64_t boot_ns;
    int64_t wall_ns;
    bool coasting, slewing;
    bool refuses; /* BOUNDED: the error is unknown or too large */
    bool knows_error;
    int64_t error_ns; /* the truth lies within effective_ns +- this */
};
struct effective_now effective_clock_at(const struct effective_clock *clock, struct instant_ns now);

/* The boot time at which the effective clock will read effective_ns, if nothing steps: INT64_MAX for
 * what lies beyond.  In the past for what it has passed. */
int64_t effective_clock_when(const struct effective_clock *clock, int64_t effective_ns);

/* "wait", "offset", "bounded" */
const char *clock_strategy_name(enum clock_strategy strategy);

#endif
