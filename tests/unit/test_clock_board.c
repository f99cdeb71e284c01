/* The effective clock as many threads read it while one looks and publishes. */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/check.h"
#include "worker/clock_board.h"

#define S INT64_C(1000000000)
#define READERS 3
#define STEP_BACK_NS (S / 2)
#define WORKED_OFF_MAX_NS (S / 10) /* of a step back, while the test runs: in 1.6 s */

static struct clock_board board;
static _Atomic int64_t wall_offset_ns; /* of a clock that is stepped while it is read */
static _Atomic bool over;
static struct clock real;

static struct instant_ns stepped_now_ns(void *self) {
    struct instant_ns now = clock_now_ns(&real);

    (void)self;
    now.wall_ns += atomic_load(&wall_offset_ns);
    return now;
}

static int64_t stepped_timer_ns(void *self, int64_t wall_ns) {
    (void)self;
    return wall_ns - atomic_load(&wall_offset_ns);
}

static const struct clock stepped = {.now_ns = stepped_now_ns, .timer_ns = stepped_timer_ns};

static struct effective_clock given(enum clock_strategy strategy) {
    const struct effective_limits limits = {
        .strategy = strategy, .max_forward_ns = S, .max_offset_ns = 10 * S, .drift_ppm = 200};
    struct effective_clock clock;

    real = clock_system();
    atomic_store(&wall_offset_ns, 0);
    effective_clock_init(&clock, &limits);
    effective_clock_look(&clock, clock_now_ns(&stepped));
    clock_board_init(&board, &stepped, &clock);
    return clock;
}

/* Each reader checks for itself that its time never jumps. */
static void *read_again_and_again(void *arg) {
    struct effective_now last = clock_board_now(&board);
    uintptr_t wrong = 0;

    (void)arg;
    while (!atomic_load(&over)) {
        struct effective_now now = clock_board_now(&board);
        int64_t elapsed_ns = now.boot_ns - last.boot_ns;
        int64_t gone_ns = now.effective_ns - last.effective_ns;

        /* What boot time says, but for what was worked off of a step back: a reader that sees the
         * clock come back has that at once, and loses it again when the writer never saw it. */
        wrong += gone_ns < elapsed_ns - WORKED_OFF_MAX_NS ||
                 gone_ns > elapsed_ns + WORKED_OFF_MAX_NS;
        last = now;
    }
    return (void *)wrong; // NOLINT
}

static void no_reader_is_dated_by_a_step_however_late_the_writer_is(void) {
    struct effective_clock clock = given(CLOCK_OFFSET);
    pthread_t readers[READERS];
    int64_t until_ns;
    void *wrong;

    atomic_store(&over, false);
    for (size_t i = 0; i < READERS; i++)
        pthread_create(&readers[i], NULL, read_again_and_again, NULL);
    until_ns = clock_now_ns(&real).boot_ns + S / 5;
    for (int i = 0; clock_now_ns(&real).boot_ns < until_ns; i++) {
        /* An hour ahead, half a second back, and where it was, each unseen by the writer for a
         * while. */
        atomic_store(&wall_offset_ns, i % 3 == 0 ? 3600 * S : i % 3 == 1 ? -STEP_BACK_NS : 0);
        if (i % 5 != 0) {
            effective_clock_look(&clock, clock_now_ns(&stepped));
            clock_board_publish(&board, &clock);
        }
    }
    atomic_store(&over, true);
    for (size_t i = 0; i < READERS; i++) {
        pthread_join(readers[i], &wrong);
        CU_ASSERT_PTR_NULL(wrong);
    }
}

static void a_timer_is_set_by_the_clock_that_dates(void) {
    struct clock effective;
    struct effective_clock clock = given(CLOCK_WAIT);
    int64_t target_ns, at_ns;

    effective = clock_board_clock(&board);
    CU_ASSERT_EQUAL(effective.timer_ns(effective.self, 12345), 12345);
    atomic_store(&wall_offset_ns,
                 3600 * S); /* coasting: a second of it is a second of the kernel */
    effective_clock_look(&clock, clock_now_ns(&stepped));
    clock_board_publish(&board, &clock);
    target_ns = clock_now_ns(&effective).wall_ns + S;
    at_ns = effective.timer_ns(effective.self, target_ns) - clock_now_ns(&real).wall_ns;
    CU_ASSERT(at_ns > S - S / 10 && at_ns <= S + S / 1000);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(no_reader_is_dated_by_a_step_however_late_the_writer_is),
    CHECK_TEST(a_timer_is_set_by_the_clock_that_dates),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"the board", NULL, NULL, NULL, NULL, rules})
