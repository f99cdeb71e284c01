/* fake_clock.h - the two clocks of one node, over the world's true time.
 *
 * The wall clock can be stepped; both clocks run at one rate, as one oscillator drives them.  They
 * go on while the node is paused. */
#ifndef SNOWFLEET_TESTS_FAKE_CLOCK_H
#define SNOWFLEET_TESTS_FAKE_CLOCK_H

#include <stdint.h>

#include "common/clock.h"
#include "tests/support/fake_world.h"

struct fake_clock {
    const struct fake_world *world;
    int64_t rate_ppm; /* how much faster than true time; above -1000000 */
    /* What they read at anchor_us. */
    uint64_t anchor_us;
    uint64_t wall_us, boot_us;
};
void fake_clock_init(struct fake_clock *clock, const struct fake_world *world, uint64_t wall_ms,
                     uint64_t boot_ms);
struct instant fake_clock_now(const struct fake_clock *clock);
/* Sets the wall clock forward, or back when negative; not before 1970. */
void fake_clock_step(struct fake_clock *clock, int64_t ms);
void fake_clock_rate(struct fake_clock *clock, int64_t rate_ppm);
/* The first true time at which the clock reads that much, if it goes on as it does; now when it
 * does already. */
uint64_t fake_clock_when_boot(const struct fake_clock *clock, uint64_t boot_ms);
uint64_t fake_clock_when_wall(const struct fake_clock *clock, uint64_t wall_ms);

#endif
