#include "tests/support/fake_clock.h"

#include <assert.h>

#define PPM INT64_C(1000000)

void fake_clock_init(struct fake_clock *clock, const struct fake_world *world, uint64_t wall_ms,
                     uint64_t boot_ms) {
    *clock = (struct fake_clock){
        .world = world,
        .anchor_us = world->now_us,
        .wall_us = wall_ms * 1000,
        .boot_us = boot_ms * 1000,
    };
}

static uint64_t elapsed_us(const struct fake_clock *clock) {
    return (clock->world->now_us - clock->anchor_us) * (uint64_t)(PPM + clock->rate_ppm) /
           (uint64_t)PPM;
}

struct instant fake_clock_now(const struct fake_clock *clock) {
    return (struct instant){.wall_ms = (clock->wall_us + elapsed_us(clock)) / 1000,
                            .boot_ms = (clock->boot_us + elapsed_us(clock)) / 1000};
}

static void set_anchor(struct fake_clock *clock) {
    uint64_t passed_us = elapsed_us(clock);

    clock->wall_us += passed_us;
    clock->boot_us += passed_us;
    clock->anchor_us = clock->world->now_us;
}

void fake_clock_step(struct fake_clock *clock, int64_t ms) {
    set_anchor(clock);
    assert(ms >= 0 || clock->wall_us >= (uint64_t)-ms * 1000);
    clock->wall_us += (uint64_t)ms * 1000; /* modulo 2^64: a negative step takes away */
}

void fake_clock_rate(struct fake_clock *clock, int64_t rate_ppm) {
    assert(rate_ppm > -PPM);
    set_anchor(clock);
    clock->rate_ppm = rate_ppm;
}

static uint64_t when(const struct fake_clock *clock, uint64_t at_anchor_us, uint64_t target_ms) {
    uint64_t rate = (uint64_t)(PPM + clock->rate_ppm);
    uint64_t target_us, ahead_us;

    if (target_ms > UINT64_MAX / 1000)
        return UINT64_MAX;
    target_us = target_ms * 1000;
    if (target_us <= at_anchor_us + elapsed_us(clock))
        return clock->world->now_us;
    ahead_us = target_us - at_anchor_us;
    if (ahead_us > UINT64_MAX / (uint64_t)PPM - 1)
        return UINT64_MAX;
    return clock->anchor_us + (ahead_us * (uint64_t)PPM + rate - 1) / rate;
}

uint64_t fake_clock_when_boot(const struct fake_clock *clock, uint64_t boot_ms) {
    return when(clock, clock->boot_us, boot_ms);
}

uint64_t fake_clock_when_wall(const struct fake_clock *clock, uint64_t wall_ms) {
    return when(clock, clock->wall_us, wall_ms);
}
