#include "common/clock.h"

#define STEP_MIN_NS INT64_C(1000000)
#define SLEW_PER_MILLE 1

int64_t clock_watch_step(struct clock_watch *watch, struct instant_ns now) {
    struct instant_ns last = watch->last;
    bool started = watch->started;
    int64_t elapsed_ns, change_ns, explained_ns;

    *watch = (struct clock_watch){.started = true, .last = now};
    if (!started)
        return 0;
    elapsed_ns = now.boot_ns - last.boot_ns;
    change_ns = (now.wall_ns - last.wall_ns) - elapsed_ns;
    explained_ns = STEP_MIN_NS;
    if (elapsed_ns > 0)
        explained_ns += elapsed_ns / 1000 * SLEW_PER_MILLE;
    return change_ns > explained_ns || change_ns < -explained_ns ? change_ns : 0;
}
