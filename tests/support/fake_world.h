/* fake_world.h - true time, chance and what is going to happen, for tests that never wait.
 *
 * Everything that a simulation does follows from the seed. */
#ifndef SNOWFLEET_TESTS_FAKE_WORLD_H
#define SNOWFLEET_TESTS_FAKE_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* tag tells the callee whether the event still concerns it: there is no way to take one back. */
typedef void fake_event_fn(void *arg, uint64_t tag);

struct fake_event {
    uint64_t at_us;
    uint64_t order; /* among events of one moment: by chance */
    fake_event_fn *fn;
    void *arg;
    uint64_t tag;
};

struct fake_world {
    uint64_t now_us; /* true time */
    uint64_t random;
    uint64_t events_total;
    struct fake_event *heap; /* what is to come; the earliest first */
    size_t n, room;
};
void fake_world_init(struct fake_world *world, uint64_t seed);
/* What has not happened yet never will. */
void fake_world_done(struct fake_world *world);

/* Runs fn(arg, tag) at that moment, or now when it is past; never from inside this call. */
void fake_world_at(struct fake_world *world, uint64_t at_us, fake_event_fn *fn, void *arg,
                   uint64_t tag);
/* Lets the next event happen if it lies at or before until_us, else moves to until_us.  Returns
 * whether one happened. */
bool fake_world_step(struct fake_world *world, uint64_t until_us);

uint64_t fake_random(struct fake_world *world);
void fake_random_bytes(struct fake_world *world, void *bytes, size_t n);
/* 0 .. n - 1 */
uint64_t fake_below(struct fake_world *world, uint64_t n);
/* least .. most */
uint64_t fake_between(struct fake_world *world, uint64_t least, uint64_t most);
/* True in so many of a thousand cases. */
bool fake_chance(struct fake_world *world, unsigned per_mille);

#endif
