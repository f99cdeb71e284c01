#include "worker/clock_board.h"

#include <sched.h>
#include <string.h>

#define WORDS (sizeof((struct clock_board *)0)->words / sizeof(uint64_t))

void clock_board_init(struct clock_board *board, const struct clock *physical,
                      const struct effective_clock *clock) {
    board->physical = *physical;
    board->strategy = clock->limits.strategy;
    board->max_error_ns = clock->limits.max_error_ns;
    atomic_init(&board->sequence, 0);
    clock_board_publish(board, clock);
}

void clock_board_publish(struct clock_board *board, const struct effective_clock *clock) {
    uint64_t sequence = atomic_load_explicit(&board->sequence, memory_order_relaxed);
    uint64_t words[WORDS] = {0};

    memcpy(words, clock, sizeof *clock);
    atomic_store_explicit(&board->sequence, sequence + 1, memory_order_relaxed);
    for (size_t i = 0; i < WORDS; i++) /* none of them before the sequence is odd */
        atomic_store_explicit(&board->words[i], words[i], memory_order_release);
    atomic_store_explicit(&board->sequence, sequence + 2, memory_order_release);
}

static void read_state(const struct clock_board *board, struct effective_clock *clock) {
    uint64_t words[WORDS], before;

    for (;;) {
        before = atomic_load_explicit(&board->sequence, memory_order_acquire);
        for (size_t i = 0; i < WORDS; i++) /* none of them after the sequence is looked at again */
            words[i] = atomic_load_explicit(&board->words[i], memory_order_acquire);
        if (before % 2 == 0 &&
            before == atomic_load_explicit(&board->sequence, memory_order_relaxed))
            break;
        sched_yield();
    }
    memcpy(clock, words, sizeof *clock);
}

/* The state first: a reading must not be older than what it is judged by. */
static struct instant_ns look(const struct clock_board *board, struct effective_clock *clock) {
    read_state(board, clock);
    return clock_now_ns(&board->physical);
}

struct effective_now clock_board_now(const struct clock_board *board) {
    struct effective_clock clock;
    struct instant_ns now = look(board, &clock);

    return effective_clock_at(&clock, now);
}

static struct instant_ns board_now_ns(void *self) {
    struct effective_now now = clock_board_now(self);

    return (struct instant_ns){.wall_ns = now.effective_ns, .boot_ns = now.boot_ns};
}

static int64_t board_timer_ns(void *self, int64_t effective_ns) {
    const struct clock_board *board = self;
    struct effective_clock clock;
    struct instant_ns now = look(board, &clock);
    int64_t when_ns, wall_ns;

    effective_clock_look(&clock, now);
    if (clock.offset_ns == 0) /* it is the wall clock */
        return board->physical.timer_ns(board->physical.self, effective_ns);
    when_ns = effective_clock_when(&clock, effective_ns);
    if (__builtin_add_overflow(now.wall_ns, when_ns - now.boot_ns, &wall_ns))
        return INT64_MAX;
    return board->physical.timer_ns(board->physical.self, wall_ns);
}

struct clock clock_board_clock(struct clock_board *board) {
    return (struct clock){.now_ns = board_now_ns, .timer_ns = board_timer_ns, .self = board};
}
