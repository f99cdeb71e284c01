/* What dates IDs after a step of the wall clock, by strategy. */
#include "common/effective_clock.h"

#include "tests/support/check.h"

#define S INT64_C(1000000000)
#define MS INT64_C(1000000)
#define H (3600 * S)
#define DAY (24 * H)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define START (INT64_C(1764547200) * S)

static struct effective_clock clock_;
static struct instant_ns now;
static int64_t last_ns; /* what the effective clock read last */

static void given(enum clock_strategy strategy) {
    const struct effective_limits limits = {.strategy = strategy,
                                            .max_forward_ns = 1 * S,
                                            .max_offset_ns = 10 * S,
                                            .max_error_ns = 250 * MS,
                                            .drift_ppm = 200};

    now = (struct instant_ns){.wall_ns = START, .boot_ns = 500 * S};
    effective_clock_init(&clock_, &limits);
    CU_ASSERT_EQUAL(effective_clock_look(&clock_, now), 0);
}

/* Both clocks go on, and the wall clock is stepped besides. */
static void pass(int64_t elapsed_ns, int64_t step_ns) {
    now.boot_ns += elapsed_ns;
    now.wall_ns += elapsed_ns + step_ns;
}

static int64_t effective(void) {
    return last_ns = effective_clock_at(&clock_, now).effective_ns;
}

static int64_t look(int64_t elapsed_ns, int64_t step_ns) {
    pass(elapsed_ns, step_ns);
    return effective_clock_look(&clock_, now);
}

/* ---- one step ---- */

static const struct {
    const char *row;
    enum clock_strategy strategy;
    int64_t step_ns;
    int64_t moved_ns; /* what the effective clock makes of it */
    bool coasting, slewing;
} steps[] = {
    {"wait: none", CLOCK_WAIT, 0, 0, false, false},
    {"wait: 5 ms back", CLOCK_WAIT, -5 * MS, -5 * MS, false, false},
    {"wait: 50 ms back", CLOCK_WAIT, -50 * MS, -50 * MS, false, false},
    {"wait: 5 s back", CLOCK_WAIT, -5 * S, -5 * S, false, false},
    {"wait: an hour back", CLOCK_WAIT, -1 * H, -1 * H, false, false},
    {"wait: 5 ms forward", CLOCK_WAIT, 5 * MS, 5 * MS, false, false},
    {"wait: 1 s forward", CLOCK_WAIT, 1 * S, 1 * S, false, false},
    {"wait: 1 s forward, as measured", CLOCK_WAIT, 1 * S + MS, 1 * S + MS, false, false},
    {"wait: a little more", CLOCK_WAIT, 1 * S + MS + 1, 0, true, false},
    {"wait: an hour forward", CLOCK_WAIT, 1 * H, 0, true, false},
    {"wait: a day forward", CLOCK_WAIT, DAY, 0, true, false},
    {"wait: to 1970", CLOCK_WAIT, -START - 3 * S, -START - 3 * S, false, false},
    {"offset: 5 ms back", CLOCK_OFFSET, -5 * MS, 0, false, true},
    {"offset: 5 s back", CLOCK_OFFSET, -5 * S, 0, false, true},
    {"offset: 10 s back", CLOCK_OFFSET, -10 * S, 0, false, true},
    {"offset: a little more", CLOCK_OFFSET, -10 * S - 1, -10 * S - 1, false, false},
    {"offset: an hour back", CLOCK_OFFSET, -1 * H, -1 * H, false, false},
    {"offset: 1 s forward", CLOCK_OFFSET, 1 * S, 1 * S, false, false},
    {"offset: an hour forward", CLOCK_OFFSET, 1 * H, 0, true, false},
    {"bounded: 5 ms back", CLOCK_BOUNDED, -5 * MS, -5 * MS, false, false},
    {"bounded: 5 s back", CLOCK_BOUNDED, -5 * S, -5 * S, false, false},
    {"bounded: 1 s forward", CLOCK_BOUNDED, 1 * S, 1 * S, false, false},
    {"bounded: an hour forward", CLOCK_BOUNDED, 1 * H, 0, true, false},
};

static void a_step_is_judged_in_the_reading_that_shows_it(void) {
    for (size_t i = 0; i < COUNT(steps); i++) {
        struct effective_now seen;

        given(steps[i].strategy);
        pass(100 * MS, steps[i].step_ns);
        seen = effective_clock_at(&clock_, now); /* before the owner has looked */
        CHECK_ROW(steps[i].row, seen.effective_ns == START + 100 * MS + steps[i].moved_ns);
        CHECK_ROW(steps[i].row,
                  seen.coasting == steps[i].coasting && seen.slewing == steps[i].slewing);
        CHECK_ROW(steps[i].row, effective_clock_look(&clock_, now) == steps[i].step_ns);
        seen = effective_clock_at(&clock_, now);
        CHECK_ROW(steps[i].row, seen.effective_ns == START + 100 * MS + steps[i].moved_ns);
        CHECK_ROW(steps[i].row, clock_.steps_total == (steps[i].step_ns != 0));
    }
}

/* ---- coasting ---- */

static void coasting_goes_on_by_boot_time(void) {
    given(CLOCK_WAIT);
    look(100 * MS, DAY);
    for (int i = 1; i <= 1000; i++) {
        CU_ASSERT_EQUAL(look(250 * MS, 0), 0);
        CU_ASSERT_EQUAL(effective(), START + 100 * MS + i * 250 * MS);
    }
    CU_ASSERT_TRUE(clock_.coasting);
    CU_ASSERT_EQUAL(clock_.steps_total, 1);
}

static void a_step_that_is_taken_back_leaves_no_trace(void) {
    given(CLOCK_WAIT);
    look(100 * MS, DAY);
    look(5 * S, -DAY);
    CU_ASSERT_FALSE(clock_.coasting);
    CU_ASSERT_EQUAL(effective(), now.wall_ns);
    CU_ASSERT_EQUAL(now.wall_ns, START + 5100 * MS);
    CU_ASSERT_EQUAL(clock_.steps_total, 2);
}

static void a_confirmed_step_is_taken_over(void) {
    given(CLOCK_WAIT);
    look(100 * MS, 1 * H);
    look(1 * S, 0);
    effective_clock_confirm(&clock_);
    CU_ASSERT_EQUAL(effective(), now.wall_ns);
    pass(1 * S, 0);
    CU_ASSERT_EQUAL(effective(), START + 1 * H + 2100 * MS);
}

static void a_step_on_top_of_an_unconfirmed_one_is_judged_by_where_it_leads(void) {
    given(CLOCK_WAIT);
    look(100 * MS, 1 * H);
    look(100 * MS, 1 * H); /* further away */
    CU_ASSERT_EQUAL(effective(), START + 200 * MS);
    look(100 * MS, -2 * H + 600 * MS); /* within what is taken over */
    CU_ASSERT_FALSE(clock_.coasting);
    CU_ASSERT_EQUAL(effective(), START + 900 * MS);
    look(100 * MS, 1 * H);
    look(100 * MS, -1 * H - 5 * S); /* behind where it went on */
    CU_ASSERT_FALSE(clock_.coasting);
    CU_ASSERT_EQUAL(effective(), START + 1100 * MS - 5 * S);
}

static void the_way_back_from_a_step_back_is_taken_over(void) {
    given(CLOCK_WAIT);
    look(100 * MS, -1 * H);
    look(5 * S, 1 * H);
    CU_ASSERT_FALSE(clock_.coasting);
    CU_ASSERT_EQUAL(effective(), START + 5100 * MS);
    /* In pieces, too, and no further than where it was. */
    look(0, -1 * H);
    look(0, 30 * 60 * S);
    look(0, 30 * 60 * S);
    CU_ASSERT_EQUAL(effective(), START + 5100 * MS);
    look(0, -1 * H);
    look(0, 1 * H + 2 * S);
    CU_ASSERT_TRUE(clock_.coasting);
    CU_ASSERT_EQUAL(effective(), START + 5100 * MS);
}

static void but_not_once_it_has_caught_up_or_was_confirmed(void) {
    given(CLOCK_WAIT);
    look(0, -10 * S);
    for (int i = 0; i < 10; i++)
        look(1 * S, 0);
    look(0, 10 * S);
    CU_ASSERT_TRUE(clock_.coasting);
    given(CLOCK_WAIT);
    look(0, -1 * H);
    effective_clock_confirm(&clock_);
    look(0, 1 * H);
    CU_ASSERT_TRUE(clock_.coasting);
    CU_ASSERT_EQUAL(effective(), START - 1 * H);
}

static void it_is_not_left_by_slewing_across(void) {
    /* A wall clock that is slewed back to where we are ends it without a step. */
    given(CLOCK_WAIT);
    look(100 * MS, 1 * S + 10 * MS);
    CU_ASSERT_TRUE(clock_.coasting);
    for (int i = 0; i < 100 && clock_.coasting; i++) {
        pass(250 * MS, -200000); /* 800 ppm */
        CU_ASSERT_EQUAL(effective_clock_look(&clock_, now), 0);
    }
    CU_ASSERT_FALSE(clock_.coasting);
    CU_ASSERT_EQUAL(effective(), now.wall_ns);
}

/* ---- slewing ---- */

static void an_offset_is_worked_off_at_a_sixteenth(void) {
    int64_t before_ns;

    given(CLOCK_OFFSET);
    look(100 * MS, -2 * S);
    before_ns = effective();
    CU_ASSERT_EQUAL(before_ns, START + 100 * MS);
    pass(16 * S, 0);
    CU_ASSERT_EQUAL(effective() - before_ns, 15 * S);
    for (int i = 0; i < 31; i++)
        look(1 * S, 0);
    CU_ASSERT_EQUAL(look(1 * S, 0), 0);
    /* 16 s by the copy, then 32 s by looks of a second: 3 s of the 48 are gone, the offset was 2. */
    CU_ASSERT_EQUAL(effective(), now.wall_ns);
    CU_ASSERT_EQUAL(clock_.offset_ns, 0);
}

static void offsets_add_up_to_the_limit_and_no_further(void) {
    given(CLOCK_OFFSET);
    look(0, -6 * S);
    look(0, -4 * S);
    CU_ASSERT_EQUAL(effective(), START);
    look(0, -2 * MS);
    CU_ASSERT_EQUAL(effective(), START - 10 * S - 2 * MS); /* as wait, from here on */
    CU_ASSERT_EQUAL(clock_.offset_ns, 0);
}

static void a_step_forward_works_an_offset_off(void) {
    given(CLOCK_OFFSET);
    look(0, -6 * S);
    look(0, 4 * S);
    CU_ASSERT_EQUAL(effective(), START);
    CU_ASSERT_EQUAL(clock_.offset_ns, 2 * S);
    look(0, 3 * S); /* 1 s ahead: taken over */
    CU_ASSERT_EQUAL(effective(), START + 1 * S);
    look(0, -6 * S);
    look(0, 1 * H); /* an hour less 6 s: not */
    CU_ASSERT_TRUE(clock_.coasting);
    CU_ASSERT_EQUAL(effective(), START + 1 * S);
}

/* ---- without steps ---- */

static void slews_and_suspends_reach_the_effective_clock(void) {
    for (int strategy = CLOCK_WAIT; strategy <= CLOCK_BOUNDED; strategy++) {
        given((enum clock_strategy)strategy);
        for (int i = 0; i < 10000; i++)
            look(250 * MS, 125000); /* 500 ppm fast */
        CU_ASSERT_EQUAL(effective(), now.wall_ns);
        pass(7 * DAY, 0); /* suspended: boot time runs on */
        CU_ASSERT_EQUAL(effective(), now.wall_ns);
        CU_ASSERT_EQUAL(clock_.steps_total, 0);
    }
}

/* ---- the error ---- */

static void an_error_grows_by_the_drift_until_it_is_told_anew(void) {
    given(CLOCK_BOUNDED);
    CU_ASSERT_TRUE(effective_clock_at(&clock_, now).refuses); /* unknown */
    effective_clock_tell_error(&clock_, true, 10 * MS);
    CU_ASSERT_FALSE(effective_clock_at(&clock_, now).refuses);
    CU_ASSERT_EQUAL(effective_clock_at(&clock_, now).error_ns, 10 * MS);
    look(100 * S, 0);
    CU_ASSERT_EQUAL(effective_clock_at(&clock_, now).error_ns, 30 * MS);
    look(1100 * S, 0);
    CU_ASSERT_EQUAL(effective_clock_at(&clock_, now).error_ns, 250 * MS);
    CU_ASSERT_FALSE(effective_clock_at(&clock_, now).refuses);
    look(1, 0);
    CU_ASSERT_EQUAL(effective_clock_at(&clock_, now).error_ns, 250 * MS + 1);
    CU_ASSERT_TRUE(effective_clock_at(&clock_, now).refuses);
    effective_clock_tell_error(&clock_, true, 0);
    CU_ASSERT_EQUAL(effective_clock_at(&clock_, now).error_ns, 0);
    effective_clock_tell_error(&clock_, false, 0);
    CU_ASSERT_FALSE(effective_clock_at(&clock_, now).knows_error);
    CU_ASSERT_TRUE(effective_clock_at(&clock_, now).refuses);
}

static void a_step_makes_the_error_unknown(void) {
    given(CLOCK_BOUNDED);
    effective_clock_tell_error(&clock_, true, 10 * MS);
    pass(1 * S, -5 * MS);
    CU_ASSERT_TRUE(effective_clock_at(&clock_, now).refuses);
    effective_clock_look(&clock_, now);
    effective_clock_tell_error(&clock_, true, 10 * MS);
    CU_ASSERT_FALSE(effective_clock_at(&clock_, now).refuses);
}

static void a_coasting_clock_keeps_the_error_it_had(void) {
    given(CLOCK_BOUNDED);
    effective_clock_tell_error(&clock_, true, 10 * MS);
    look(50 * S, 1 * H);
    effective_clock_tell_error(&clock_, true, 1); /* of the wall clock, which is not ours */
    CU_ASSERT_EQUAL(effective_clock_at(&clock_, now).error_ns, 20 * MS);
    effective_clock_confirm(&clock_);
    CU_ASSERT_TRUE(effective_clock_at(&clock_, now).refuses);
}

static void the_other_strategies_never_refuse_for_an_error(void) {
    given(CLOCK_WAIT);
    CU_ASSERT_FALSE(effective_clock_at(&clock_, now).refuses);
    given(CLOCK_OFFSET);
    CU_ASSERT_FALSE(effective_clock_at(&clock_, now).refuses);
}

/* ---- when ---- */

/* At the boot time that is named the effective clock reads that much, and a ns before it does not. */
static void check_when(const char *row, int64_t ahead_ns) {
    int64_t target_ns = effective() + ahead_ns;
    int64_t when_ns = effective_clock_when(&clock_, target_ns);
    struct instant_ns start = now;

    CHECK_ROW(row, when_ns >= now.boot_ns);
    pass(when_ns - now.boot_ns, 0);
    CHECK_ROW(row, effective() == target_ns);
    pass(-1, 0);
    CHECK_ROW(row, effective() < target_ns);
    now = start;
}

static void it_is_known_when_a_time_comes(void) {
    static const int64_t ahead[] = {1, 2, 1 * MS, 1 * S, 29 * S, 30 * S, 30 * S + 1, 1 * H};

    for (size_t i = 0; i < COUNT(ahead); i++) {
        given(CLOCK_WAIT);
        check_when("following", ahead[i]);
        look(0, 1 * H);
        check_when("coasting", ahead[i]);
        given(CLOCK_OFFSET);
        look(0, -2 * S); /* worked off after 32 s, which are 30 s of its own */
        check_when("slewing", ahead[i]);
    }
    given(CLOCK_WAIT);
    CU_ASSERT_EQUAL(effective_clock_when(&clock_, START - 5 * S), 495 * S);
    CU_ASSERT_EQUAL(effective_clock_when(&clock_, INT64_MAX), INT64_MAX - START + 500 * S);
    look(0, -2 * S);
    CU_ASSERT(effective_clock_when(&clock_, INT64_MAX) > 0);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(a_step_is_judged_in_the_reading_that_shows_it),
    CHECK_TEST(coasting_goes_on_by_boot_time),
    CHECK_TEST(a_step_that_is_taken_back_leaves_no_trace),
    CHECK_TEST(a_confirmed_step_is_taken_over),
    CHECK_TEST(a_step_on_top_of_an_unconfirmed_one_is_judged_by_where_it_leads),
    CHECK_TEST(the_way_back_from_a_step_back_is_taken_over),
    CHECK_TEST(but_not_once_it_has_caught_up_or_was_confirmed),
    CHECK_TEST(it_is_not_left_by_slewing_across),
    CHECK_TEST(an_offset_is_worked_off_at_a_sixteenth),
    CHECK_TEST(offsets_add_up_to_the_limit_and_no_further),
    CHECK_TEST(a_step_forward_works_an_offset_off),
    CHECK_TEST(slews_and_suspends_reach_the_effective_clock),
    CHECK_TEST(an_error_grows_by_the_drift_until_it_is_told_anew),
    CHECK_TEST(a_step_makes_the_error_unknown),
    CHECK_TEST(a_coasting_clock_keeps_the_error_it_had),
    CHECK_TEST(the_other_strategies_never_refuse_for_an_error),
    CHECK_TEST(it_is_known_when_a_time_comes),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"the effective clock", NULL, NULL, NULL, NULL, rules})
