#include "common/effective_clock.h"

#include <assert.h>

#define PPM INT64_C(1000000)

void effective_clock_init(struct effective_clock *clock, const struct effective_limits *limits) {
    *clock = (struct effective_clock){.limits = *limits};
}

const char *clock_strategy_name(enum clock_strategy strategy) {
    static const char *const names[] = {"wait", "offset", "bounded"};

    return names[strategy];
}

static int64_t add_up(int64_t a, int64_t b) {
    int64_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

/* What is left of an offset after that much boot time. */
static int64_t worked_off(int64_t offset_ns, int64_t elapsed_ns) {
    int64_t left_ns = offset_ns - elapsed_ns / EFFECTIVE_SLEW;

    return left_ns > 0 ? left_ns : 0;
}

static int64_t elapsed_since(const struct effective_clock *clock, struct instant_ns now) {
    return now.boot_ns > clock->last.boot_ns ? now.boot_ns - clock->last.boot_ns : 0;
}

/* What the effective clock would read now if the wall clock had not been stepped. */
static int64_t gone_on(const struct effective_clock *clock, int64_t elapsed_ns) {
    int64_t offset_ns = clock->coasting ? clock->offset_ns
                                        : worked_off(clock->offset_ns, elapsed_ns);

    return add_up(add_up(clock->last.wall_ns, elapsed_ns), offset_ns);
}

/* The wall clock was stepped, or may have come back from a step that nobody confirmed. */
static void judge(struct effective_clock *clock, int64_t wall_ns, int64_t went_on_ns) {
    /* Where it would be without the steps back: up to there a step forward is no news. */
    int64_t line_ns = add_up(went_on_ns, clock->gone_back_ns);
    int64_t ahead_ns = add_up(wall_ns, -line_ns), behind_ns = add_up(went_on_ns, -wall_ns);

    clock->coasting = ahead_ns > add_up(clock->limits.max_forward_ns, EFFECTIVE_MEASURED_NS);
    if (clock->coasting)
        clock->offset_ns = -ahead_ns;
    else if (behind_ns > 0 && clock->limits.strategy == CLOCK_OFFSET &&
             behind_ns <= clock->limits.max_offset_ns)
        clock->offset_ns = behind_ns;
    else
        clock->offset_ns = 0;
    clock->last_jump_ns = add_up(clock->offset_ns, -behind_ns);
    if (clock->last_jump_ns < 0 && went_on_ns > clock->peak_ns)
        clock->peak_ns = went_on_ns;
    clock->gone_back_ns = add_up(clock->gone_back_ns, -clock->last_jump_ns);
    if (clock->gone_back_ns < 0)
        clock->gone_back_ns = 0;
    if (!clock->coasting)
        clock->knows_error = false; /* what was told is of the time before */
}

int64_t effective_clock_look(struct effective_clock *clock, struct instant_ns now) {
    struct clock_watch watch = {.started = clock->started, .last = clock->last};
    int64_t step_ns = clock_watch_step(&watch, now);
    int64_t elapsed_ns = elapsed_since(clock, now);
    int64_t went_on_ns = gone_on(clock, elapsed_ns);

    if (!clock->started)
        clock->started = true;
    else if (step_ns != 0 || clock->coasting)
        judge(clock, now.wall_ns, went_on_ns);
    else
        clock->offset_ns = worked_off(clock->offset_ns, elapsed_ns);
    clock->last = now;
    if (add_up(now.wall_ns, clock->offset_ns) >= clock->peak_ns)
        clock->gone_back_ns = 0;
    if (step_ns != 0) {
        clock->steps_total++;
        clock->last_step_ns = step_ns;
        clock->last_step_boot_ns = now.boot_ns;
    }
    assert(clock->coasting ? clock->offset_ns < 0 : clock->offset_ns >= 0);
    return step_ns;
}

void effective_clock_confirm(struct effective_clock *clock) {
    if (clock->offset_ns != 0)
        clock->knows_error = false;
    clock->offset_ns = 0;
    clock->gone_back_ns = 0;
    clock->coasting = false;
}

void effective_clock_tell_error(struct effective_clock *clock, bool known, int64_t error_ns) {
    if (clock->coasting || !clock->started)
        return;
    clock->knows_error = known;
    clock->error_ns = error_ns;
    clock->error_boot_ns = clock->last.boot_ns;
}

static int64_t error_at(const struct effective_clock *clock, int64_t boot_ns) {
    int64_t age_ns = boot_ns > clock->error_boot_ns ? boot_ns - clock->error_boot_ns : 0;

    /* Rounded up. */
    return add_up(clock->error_ns, age_ns / PPM * clock->limits.drift_ppm +
                                       (age_ns % PPM * clock->limits.drift_ppm + PPM - 1) / PPM);
}

struct effective_now effective_clock_at(const struct effective_clock *clock,
                                        struct instant_ns now) {
    struct effective_clock then = *clock;
    struct effective_now seen;

    effective_clock_look(&then, now);
    seen = (struct effective_now){
        .effective_ns = add_up(now.wall_ns, then.offset_ns),
        .boot_ns = now.boot_ns,
        .wall_ns = now.wall_ns,
        .coasting = then.coasting,
        .slewing = then.offset_ns > 0,
        .knows_error = then.knows_error,
        .error_ns = then.knows_error ? error_at(&then, now.boot_ns) : 0,
    };
    seen.refuses = then.limits.strategy == CLOCK_BOUNDED &&
                   (!seen.knows_error || seen.error_ns > then.limits.max_error_ns);
    return seen;
}

int64_t effective_clock_when(const struct effective_clock *clock, int64_t effective_ns) {
    int64_t ahead_ns = add_up(effective_ns, -add_up(clock->last.wall_ns, clock->offset_ns));
    int64_t slewing_ns;

    if (ahead_ns <= 0 || clock->offset_ns <= 0)
        return add_up(clock->last.boot_ns, ahead_ns);
    /* Until the offset is worked off it gains 15 ns in 16; then it runs with the wall clock. */
    slewing_ns = clock->offset_ns <= INT64_MAX / EFFECTIVE_SLEW ? clock->offset_ns * EFFECTIVE_SLEW
                                                                : INT64_MAX;
    if (ahead_ns <= slewing_ns / EFFECTIVE_SLEW * (EFFECTIVE_SLEW - 1))
        return add_up(clock->last.boot_ns, ahead_ns + (ahead_ns - 1) / (EFFECTIVE_SLEW - 1));
    return add_up(clock->last.boot_ns, add_up(ahead_ns, clock->offset_ns));
}
