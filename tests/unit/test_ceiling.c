/* How far into the future the leader lets horizons rise. */
#include "common/keys.h"
#include "coordinator/ceiling.h"
#include "tests/support/check.h"

#define MS INT64_C(1000000)
#define S (1000 * MS)
#define ALLOWED (500 * MS)
#define NOW_MS UINT64_C(1764547200000)
#define LEAD_MS UINT64_C(86400000)

static struct ceiling ceiling;
static struct instant now;
static uint64_t stored_ms;

static void given_a_new_leader(void) {
    ceiling = (struct ceiling){.based = false};
    now = (struct instant){.wall_ms = NOW_MS, .boot_ms = 5000};
    stored_ms = NOW_MS;
}

/* Of a leader and up to four workers. */
struct fleet {
    size_t n;
    int64_t offsets_ns[5];
};

static struct ceiling_decision decide(struct fleet fleet) {
    struct skew clocks[5];
    struct consensus consensus;

    for (size_t i = 0; i < fleet.n; i++)
        clocks[i] = (struct skew){fleet.offsets_ns[i], MS / 100};
    consensus = consensus_find(clocks, fleet.n, ALLOWED);
    return ceiling_decide(&ceiling, now, &consensus, stored_ms, LEAD_MS);
}

/* Decides, and raises when it says so. */
static struct ceiling_decision raise(struct fleet fleet) {
    struct ceiling_decision decision = decide(fleet);

    if (decision.raise) {
        ceiling_raised(&ceiling, &decision);
        stored_ms = decision.ceiling_ms;
    }
    return decision;
}

static void pass(uint64_t ms) {
    now.wall_ms += ms;
    now.boot_ms += ms;
}

static const struct fleet three = {3, {0}};

static const struct {
    const char *row;
    struct fleet fleet;
    enum ceiling_alarm alarm;
    int64_t from_now_ms; /* of the consensus that it goes by */
} first_raises[] = {
    {"three that agree", {3, {0, 10 * MS, -10 * MS}}, CEILING_FINE, 0},
    {"three of five, the leader's is wrong",
     {5, {0, 60 * S, 60 * S, 60 * S, 60 * S}},
     CEILING_FINE,
     60000},
    {"one of four is years ahead", {4, {0, 0, 0, INT64_C(100000000) * S}}, CEILING_FINE, 0},
    {"the leader alone", {1, {0}}, CEILING_FEW_CLOCKS, 0},
    {"two that agree", {2, {0, 100 * MS}}, CEILING_FEW_CLOCKS, 50},
    {"two that do not: the one behind", {2, {0, 3600 * S}}, CEILING_FEW_CLOCKS, 0},
    {"two that do not: the one behind is the other",
     {2, {0, -3600 * S}},
     CEILING_FEW_CLOCKS,
     -3600000},
    {"three, none agree: the one behind", {3, {0, 3600 * S, 7200 * S}}, CEILING_FEW_CLOCKS, 0},
    {"two against two", {4, {0, 0, 3600 * S, 3600 * S}}, CEILING_FEW_CLOCKS, 0},
};

static void the_first_raise_goes_by_three_clocks_or_by_all_with_an_alarm(void) {
    for (size_t i = 0; i < sizeof first_raises / sizeof first_raises[0]; i++) {
        struct ceiling_decision decision;

        given_a_new_leader();
        decision = decide(first_raises[i].fleet);
        CHECK_ROW(first_raises[i].row, decision.raise);
        CHECK_ROW(first_raises[i].row, decision.alarm == first_raises[i].alarm);
        CHECK_ROW(first_raises[i].row,
                  decision.ceiling_ms ==
                      (uint64_t)((int64_t)NOW_MS + first_raises[i].from_now_ms) + LEAD_MS);
    }
}

static void each_period_raises_it_by_the_time_passed(void) {
    for (int period = 0; period < 100; period++) {
        struct ceiling_decision decision = raise(three);

        CU_ASSERT_TRUE(decision.raise);
        CU_ASSERT_EQUAL(decision.alarm, CEILING_FINE);
        CU_ASSERT_EQUAL(decision.ceiling_ms, now.wall_ms + LEAD_MS);
        pass(60000);
    }
}

static void between_two_raises_it_follows_no_more_than_the_boot_time_and_a_second(void) {
    struct ceiling_decision decision;

    raise(three);
    pass(60000);
    now.wall_ms += 3600000; /* all clocks stepped, or all that are heard are new */
    decision = raise(three);
    CU_ASSERT_EQUAL(decision.alarm, CEILING_HELD_BACK);
    CU_ASSERT_EQUAL(decision.ceiling_ms, NOW_MS + 61000 + LEAD_MS);
    pass(60000);
    decision = raise(three);
    CU_ASSERT_EQUAL(decision.ceiling_ms, NOW_MS + 122000 + LEAD_MS);
}

static void a_second_of_slack_is_no_alarm(void) {
    struct ceiling_decision decision;

    raise(three);
    pass(60000);
    now.wall_ms += 1000;
    decision = decide(three);
    CU_ASSERT_EQUAL(decision.alarm, CEILING_FINE);
    CU_ASSERT_EQUAL(decision.ceiling_ms, now.wall_ms + LEAD_MS);
}

static void failed_raises_do_not_add_their_slack_up(void) {
    raise(three);
    now.wall_ms += 3600000;
    for (int attempt = 0; attempt < 10; attempt++) {
        struct ceiling_decision decision = decide(three);

        CU_ASSERT_EQUAL(decision.ceiling_ms, NOW_MS + 1000 + LEAD_MS);
    }
}

static void it_never_falls(void) {
    struct ceiling_decision decision;

    raise(three);
    pass(1000);
    now.wall_ms -= 7200000;
    decision = raise(three);
    CU_ASSERT_FALSE(decision.raise);
    /* Nor does the way back count as an advance. */
    pass(1000);
    now.wall_ms += 7200000;
    decision = raise(three);
    CU_ASSERT_TRUE(decision.raise);
    CU_ASSERT_EQUAL(decision.alarm, CEILING_FINE);
}

static void what_few_clocks_said_gives_way_once_to_three_that_agree(void) {
    struct ceiling_decision decision;

    raise((struct fleet){1, {0}});
    pass(1000);
    decision = raise((struct fleet){4, {0, 3600 * S, 3600 * S, 3600 * S}});
    CU_ASSERT_EQUAL(decision.alarm, CEILING_FINE);
    CU_ASSERT_EQUAL(decision.ceiling_ms, NOW_MS + 3601000 + LEAD_MS);
    pass(1000);
    decision = raise((struct fleet){4, {0, 7200 * S, 7200 * S, 7200 * S}});
    CU_ASSERT_EQUAL(decision.alarm, CEILING_HELD_BACK);
}

static void few_clocks_follow_no_jump_either(void) {
    struct ceiling_decision decision;

    raise((struct fleet){1, {0}});
    pass(1000);
    now.wall_ms += 3600000;
    decision = raise((struct fleet){1, {0}});
    CU_ASSERT_EQUAL(decision.alarm, CEILING_HELD_BACK);
    CU_ASSERT_EQUAL(decision.ceiling_ms, NOW_MS + 2000 + LEAD_MS);
}

static void without_a_usable_clock_it_stays(void) {
    CU_ASSERT_FALSE(decide((struct fleet){0, {0}}).raise);
}

static void no_ceiling_stays_no_ceiling(void) {
    stored_ms = CEILING_NONE;
    CU_ASSERT_FALSE(decide(three).raise);
    now.wall_ms = UINT64_MAX;
    CU_ASSERT_FALSE(decide(three).raise);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(the_first_raise_goes_by_three_clocks_or_by_all_with_an_alarm),
    CHECK_TEST(each_period_raises_it_by_the_time_passed),
    CHECK_TEST(between_two_raises_it_follows_no_more_than_the_boot_time_and_a_second),
    CHECK_TEST(a_second_of_slack_is_no_alarm),
    CHECK_TEST(failed_raises_do_not_add_their_slack_up),
    CHECK_TEST(it_never_falls),
    CHECK_TEST(what_few_clocks_said_gives_way_once_to_three_that_agree),
    CHECK_TEST(few_clocks_follow_no_jump_either),
    CHECK_TEST(without_a_usable_clock_it_stays),
    CHECK_TEST(no_ceiling_stays_no_ceiling),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"ceiling", NULL, NULL, given_a_new_leader, NULL, rules})
