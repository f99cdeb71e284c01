/* The bound of a measured offset, the reference of a fleet, and what is made of both. */
#include "coordinator/consensus.h"
#include "common/skew.h"
#include "tests/support/check.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MS INT64_C(1000000)
#define S (1000 * MS)
#define ALLOWED (500 * MS)

/* --- one sample --- */

static const struct {
    const char *row;
    struct skew_sample sample;
    struct skew expected;
} samples[] = {
    {"equal clocks", {1000, 1005, 1006, 1011}, {0, 5}},
    {"worker ahead", {1000, 1205, 1206, 1011}, {200, 5}},
    {"worker behind", {1000, 805, 806, 1011}, {-200, 5}},
    {"a slow path proves less", {1000, 1200, 1201, 1401}, {0, 200}},
    {"400 ms both ways", {0, 400 * MS, 400 * MS, 800 * MS}, {0, 400 * MS}},
    {"400 ms one way only", {0, 400 * MS, 400 * MS, 400 * MS}, {200 * MS, 200 * MS}},
    {"time spent inside counts for nothing", {0, 10, 1000010, 1000020}, {0, 10}},
    {"a worker in 1970",
     {INT64_C(1764547200) * S, 5, 6, INT64_C(1764547200) * S + 11},
     {-INT64_C(1764547200) * S, 5}},
};

static void an_offset_is_measured_with_its_bound(void) {
    for (size_t i = 0; i < COUNT(samples); i++) {
        struct skew skew;
        int64_t off;

        CHECK_ROW(samples[i].row, skew_of_sample(&samples[i].sample, &skew));
        off = skew.offset_ns - samples[i].expected.offset_ns;
        CHECK_ROW(samples[i].row, off >= -1 && off <= 1);
        CHECK_ROW(samples[i].row, skew.bound_ns >= samples[i].expected.bound_ns &&
                                      skew.bound_ns <= samples[i].expected.bound_ns + 3);
    }
}

static const struct {
    const char *row;
    struct skew_sample sample;
} senseless[] = {
    {"back before it was sent", {1000, 1005, 1006, 999}},
    {"answered before it was received", {1000, 1006, 1005, 1011}},
    {"more time inside than outside", {1000, 1000, 1012, 1011}},
    {"negative time", {1000, -1, 5, 1011}},
    {"time beyond what can be added", {1000, INT64_MAX, INT64_MAX, 1011}},
    {"least time", {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN}},
};

static void a_sample_that_cannot_be_is_dropped(void) {
    for (size_t i = 0; i < COUNT(senseless); i++) {
        struct skew skew = {42, 42};

        CHECK_ROW(senseless[i].row, !skew_of_sample(&senseless[i].sample, &skew));
        CHECK_ROW(senseless[i].row, skew.offset_ns == 42 && skew.bound_ns == 42);
    }
}

static void of_eight_probes_the_one_with_least_delay_counts(void) {
    struct skew_sample probes[SKEW_PROBES];
    struct skew best;

    for (int64_t i = 0; i < SKEW_PROBES; i++) {
        int64_t delay = i == 5 ? 10 : 100 + i;

        /* All of the delay on the way there: the measured offset grows with it. */
        probes[i] = (struct skew_sample){0, delay, delay, delay};
    }
    CU_ASSERT_TRUE_FATAL(skew_best(probes, SKEW_PROBES, &best));
    CU_ASSERT_EQUAL(best.offset_ns, 5);
    probes[5].returned_ns = -1;
    CU_ASSERT_TRUE_FATAL(skew_best(probes, SKEW_PROBES, &best));
    CU_ASSERT_EQUAL(best.offset_ns, 50);
    CU_ASSERT_FALSE(skew_best(probes + 5, 1, &best));
    CU_ASSERT_FALSE(skew_best(NULL, 0, &best));
}

/* low..high */
static int64_t draw(struct check_random *random, int64_t low, int64_t high) {
    return low + (int64_t)check_random_below(random, (uint64_t)(high - low + 1));
}

static void the_truth_lies_within_the_bound_every_time(void) {
    struct check_random random = check_random_seeded(__func__);

    for (int round = 0; round < 1000000; round++) {
        int64_t scale = draw(&random, 0, 2) == 0 ? 10 : draw(&random, 0, 1) ? 1000000 : 10 * S;
        int64_t truth = draw(&random, -scale, scale) * draw(&random, 0, 3);
        int64_t sent = INT64_C(1764547200) * S + draw(&random, 0, S);
        int64_t there = draw(&random, 0, scale), inside = draw(&random, 0, scale),
                back = draw(&random, 0, scale);
        struct skew_sample sample = {sent, sent + there + truth, sent + there + inside + truth,
                                     sent + there + inside + back};
        struct skew skew;

        if (!skew_of_sample(&sample, &skew) || truth < skew.offset_ns - skew.bound_ns ||
            truth > skew.offset_ns + skew.bound_ns) {
            printf("round %d: truth %lld, measured %lld +- %lld\n", round, (long long)truth,
                   (long long)skew.offset_ns, (long long)skew.bound_ns);
            CU_FAIL_FATAL("the truth is outside");
        }
    }
    CU_PASS("one million exchanges");
}

/* --- pairs --- */

static const struct {
    const char *row;
    struct skew a, b;
    struct skew_distance expected;
} pairs[] = {
    {"the same", {0, 5}, {0, 5}, {0, 10}},
    {"perhaps the same", {0, 5}, {8, 5}, {0, 18}},
    {"surely apart", {0, 5}, {100, 7}, {88, 112}},
    {"the other way round", {100, 7}, {0, 5}, {88, 112}},
    {"as far as it goes", {INT64_MAX / 2, 0}, {-(INT64_MAX / 2), 9}, {INT64_MAX - 10, INT64_MAX}},
};

static void offsets_subtract_and_bounds_add(void) {
    for (size_t i = 0; i < COUNT(pairs); i++) {
        struct skew_distance distance = skew_between(&pairs[i].a, &pairs[i].b);

        CHECK_ROW(pairs[i].row, distance.at_least_ns == pairs[i].expected.at_least_ns);
        CHECK_ROW(pairs[i].row, distance.at_most_ns == pairs[i].expected.at_most_ns);
    }
}

static void a_fleet_is_as_far_apart_as_its_worst_pair(void) {
    /* The pair that is surely furthest apart need not be the one that may be. */
    const struct skew clocks[] = {{0, 1}, {100, 1}, {0, 500}};
    struct skew_distance fleet = skew_fleet(clocks, COUNT(clocks));

    CU_ASSERT_EQUAL(fleet.at_least_ns, 98);
    CU_ASSERT_EQUAL(fleet.at_most_ns, 601);
    fleet = skew_fleet(clocks, 1);
    CU_ASSERT_EQUAL(fleet.at_least_ns, 0);
    CU_ASSERT_EQUAL(fleet.at_most_ns, 0);
}

/* --- the reference --- */

static const struct {
    const char *row;
    size_t n;
    struct skew clocks[7];
    bool firm;
    size_t used, agree;
    int64_t reference_ns;
} fleets[] = {
    {"one", 1, {{7 * MS, MS}}, false, 1, 1, 7 * MS},
    {"two that agree", 2, {{0, MS}, {10 * MS, MS}}, false, 2, 2, 5 * MS},
    {"two that do not", 2, {{0, MS}, {60 * S, MS}}, false, 2, 0, 30 * S},
    {"three that agree", 3, {{0, MS}, {10 * MS, MS}, {-10 * MS, MS}}, true, 3, 3, 0},
    {"one of three far ahead", 3, {{0, MS}, {60 * S, MS}, {0, MS}}, false, 3, 2, 0},
    {"one of four far ahead", 4, {{0, MS}, {0, MS}, {0, MS}, {60 * S, MS}}, true, 4, 3, 0},
    {"one of five far behind",
     5,
     {{0, MS}, {0, MS}, {0, MS}, {0, MS}, {-60 * S, MS}},
     true,
     5,
     4,
     0},
    {"one of five in 1970",
     5,
     {{0, MS}, {0, MS}, {0, MS}, {0, MS}, {INT64_C(-1764547200) * S, MS}},
     true,
     5,
     4,
     0},
    {"two of five, each its own way",
     5,
     {{0, MS}, {0, MS}, {0, MS}, {3 * S, MS}, {-3 * S, MS}},
     true,
     5,
     3,
     0},
    {"two of five together",
     5,
     {{0, MS}, {0, MS}, {0, MS}, {60 * S, MS}, {60 * S, MS}},
     true,
     5,
     3,
     0},
    {"two against two", 4, {{0, MS}, {0, MS}, {60 * S, MS}, {60 * S, MS}}, false, 4, 0, 30 * S},
    {"one a little off does not draw the others",
     4,
     {{0, MS}, {0, MS}, {0, MS}, {400 * MS, MS}},
     true,
     4,
     4,
     0},
    {"a bound too wide proves nothing",
     4,
     {{0, MS}, {0, MS}, {0, MS}, {5 * S, 10 * S}},
     true,
     3,
     3,
     0},
    {"all bounds too wide", 3, {{0, S}, {0, S}, {0, S}}, false, 0, 0, 0},
    {"none", 0, {{0, 0}}, false, 0, 0, 0},
    {"exact clocks", 3, {{5, 0}, {5, 0}, {5, 0}}, true, 3, 3, 5},
};

static void the_reference_is_what_most_clocks_share(void) {
    for (size_t i = 0; i < COUNT(fleets); i++) {
        struct consensus consensus = consensus_find(fleets[i].clocks, fleets[i].n, ALLOWED);

        CHECK_ROW(fleets[i].row, consensus.found == (fleets[i].used > 0));
        CHECK_ROW(fleets[i].row, consensus.firm == fleets[i].firm);
        CHECK_ROW(fleets[i].row, consensus.used == fleets[i].used);
        CHECK_ROW(fleets[i].row, consensus.agree == fleets[i].agree);
        CHECK_ROW(fleets[i].row, consensus.reference_ns == fleets[i].reference_ns);
    }
}

static void a_minority_moves_the_reference_no_further_than_the_majority_reaches(void) {
    struct check_random random = check_random_seeded(__func__);

    for (int round = 0; round < 2000; round++) {
        struct skew clocks[15];
        size_t n = (size_t)draw(&random, 1, 15),
               bad = (size_t)draw(&random, 0, (int64_t)(n - 1) / 2);
        struct consensus consensus;

        for (size_t i = 0; i < n; i++) {
            clocks[i] = (struct skew){draw(&random, -20 * MS, 20 * MS), draw(&random, 0, 5 * MS)};
            if (i < bad)
                clocks[i].offset_ns = draw(&random, -1000, 1000) * S;
        }
        consensus = consensus_find(clocks, n, ALLOWED);
        if (!consensus.found || consensus.reference_ns < -25 * MS ||
            consensus.reference_ns > 25 * MS) {
            printf("round %d: %zu of %zu wrong, reference %lld ns\n", round, bad, n,
                   (long long)consensus.reference_ns);
            CU_FAIL_FATAL("a minority moved the reference");
        }
    }
    CU_PASS("2000 fleets");
}

static void a_worker_is_refused_only_when_certainly_too_far_from_three_that_agree(void) {
    struct skew clocks[] = {{0, MS}, {0, MS}, {0, MS}};
    struct consensus three = consensus_find(clocks, 3, ALLOWED);
    struct consensus two = consensus_find(clocks, 2, ALLOWED);

    CU_ASSERT_TRUE(consensus_refuses(&three, &(struct skew){502 * MS, MS}, ALLOWED));
    CU_ASSERT_TRUE(consensus_refuses(&three, &(struct skew){-502 * MS, MS}, ALLOWED));
    CU_ASSERT_FALSE(consensus_refuses(&three, &(struct skew){501 * MS, MS}, ALLOWED));
    CU_ASSERT_FALSE(consensus_refuses(&three, &(struct skew){10 * S, 10 * S}, ALLOWED));
    CU_ASSERT_FALSE(consensus_refuses(&two, &(struct skew){60 * S, MS}, ALLOWED));
}

static const struct {
    const char *row;
    size_t n;
    struct skew claims[5]; /* offset, and the measurement's bound and the claim together */
    bool found;
    int disproves; /* which of them; -1: none */
} claims[] = {
    {"all can be true", 3, {{0, 10}, {5, 10}, {-5, 10}}, true, -1},
    {"one of three cannot", 3, {{0, 10}, {5, 10}, {60, 10}}, true, 2},
    {"it may be off by what it says", 3, {{0, 10}, {5, 10}, {60, 60}}, true, -1},
    {"two cannot accuse each other", 2, {{0, 10}, {60, 10}}, false, -1},
    {"nor can two pairs", 4, {{0, 10}, {0, 10}, {60, 10}, {60, 10}}, false, -1},
    {"touching is no proof", 3, {{0, 10}, {0, 10}, {20, 10}}, true, -1},
    {"a wide one proves nothing wrong",
     5,
     {{0, 10}, {1, 10}, {2, 10}, {30, 10}, {0, 1000}},
     true,
     3},
    {"as far apart as it goes",
     3,
     {{INT64_MAX / 2, INT64_MAX / 4}, {INT64_MAX / 2, 0}, {-(INT64_MAX / 2), INT64_MAX / 4}},
     true,
     2},
};

static void a_claim_is_disproved_by_most_of_the_others_only(void) {
    for (size_t i = 0; i < COUNT(claims); i++) {
        struct consensus_claims most = consensus_of_claims(claims[i].claims, claims[i].n);

        CHECK_ROW(claims[i].row, most.found == claims[i].found);
        for (size_t k = 0; k < claims[i].n; k++)
            CHECK_ROW(claims[i].row, consensus_disproves(&most, &claims[i].claims[k]) ==
                                         ((int)k == claims[i].disproves));
    }
}

/* --- verdicts --- */

#define HEARD .heard = true, .synchronized = true, .has_claim = true
static const struct {
    const char *row;
    struct skew_facts facts;
    enum skew_verdict expected;
} verdicts[] = {
    {"all is well", {HEARD, .has_offset = true}, SKEW_OK},
    {"never heard", {.heard = false, .synchronized = true}, SKEW_UNKNOWN},
    {"100 ms at most", {HEARD, .has_offset = true, .skew = {101 * MS, MS}}, SKEW_OK},
    {"more than 100 ms", {HEARD, .has_offset = true, .skew = {101 * MS + 1, MS}}, SKEW_WARN},
    {"more than 100 ms behind",
     {HEARD, .has_offset = true, .skew = {-101 * MS - 1, MS}},
     SKEW_WARN},
    {"500 ms at most", {HEARD, .has_offset = true, .skew = {501 * MS, MS}}, SKEW_WARN},
    {"more than 500 ms", {HEARD, .has_offset = true, .skew = {501 * MS + 1, MS}}, SKEW_CRIT},
    {"far, but it may be the path", {HEARD, .has_offset = true, .skew = {60 * S, 60 * S}}, SKEW_OK},
    {"no reference, no accusation", {HEARD, .skew = {60 * S, MS}}, SKEW_OK},
    {"claims 250 ms", {HEARD, .claimed_error_ns = 250 * MS}, SKEW_OK},
    {"claims more", {HEARD, .claimed_error_ns = 250 * MS + 1}, SKEW_WARN},
    {"claims more than 1 s", {HEARD, .claimed_error_ns = S + 1}, SKEW_CRIT},
    {"does not know its error",
     {.heard = true, .synchronized = true, .claimed_error_ns = INT64_MAX},
     SKEW_OK},
    {"claims what is proven false", {HEARD, .claimed_error_ns = 1, .claim_false = true}, SKEW_WARN},
    {"not synchronized", {.heard = true, .claimed_error_ns = 16 * S}, SKEW_WARN},
    {"10 s ahead", {HEARD, .has_horizon = true, .horizon_lead_ms = 10000}, SKEW_OK},
    {"less", {HEARD, .has_horizon = true, .horizon_lead_ms = 9999}, SKEW_WARN},
    {"none", {HEARD, .has_horizon = true, .horizon_lead_ms = 0}, SKEW_WARN},
    {"past", {HEARD, .has_horizon = true, .horizon_lead_ms = -1}, SKEW_CRIT},
    {"the worst counts",
     {HEARD, .has_offset = true, .skew = {S, MS}, .has_horizon = true, .horizon_lead_ms = 1},
     SKEW_CRIT},
};

static void a_verdict_counts_only_what_is_certain(void) {
    for (size_t i = 0; i < COUNT(verdicts); i++)
        CHECK_ROW(verdicts[i].row, skew_judge(&verdicts[i].facts) == verdicts[i].expected);
}

static const struct {
    const char *row;
    enum skew_verdict verdicts[3];
    bool incomplete;
    int expected;
} exits[] = {
    {"all OK", {SKEW_OK, SKEW_OK, SKEW_OK}, false, 0},
    {"one warns", {SKEW_OK, SKEW_WARN, SKEW_OK}, false, 1},
    {"critical before warning", {SKEW_WARN, SKEW_CRIT, SKEW_OK}, false, 2},
    {"incomplete before warning", {SKEW_WARN, SKEW_UNKNOWN, SKEW_OK}, true, 3},
    {"critical before incomplete", {SKEW_CRIT, SKEW_UNKNOWN, SKEW_OK}, true, 2},
    {"not judged is not unheard", {SKEW_UNKNOWN, SKEW_UNKNOWN, SKEW_WARN}, false, 1},
};

static void the_exit_code_is_2_before_3_before_1(void) {
    for (size_t i = 0; i < COUNT(exits); i++)
        CHECK_ROW(exits[i].row,
                  skew_exit_code(exits[i].verdicts, 3, exits[i].incomplete) == exits[i].expected);
    CU_ASSERT_EQUAL(skew_exit_code(NULL, 0, true), 3);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(an_offset_is_measured_with_its_bound),
    CHECK_TEST(a_sample_that_cannot_be_is_dropped),
    CHECK_TEST(of_eight_probes_the_one_with_least_delay_counts),
    CHECK_TEST(the_truth_lies_within_the_bound_every_time),
    CHECK_TEST(offsets_subtract_and_bounds_add),
    CHECK_TEST(a_fleet_is_as_far_apart_as_its_worst_pair),
    CHECK_TEST(the_reference_is_what_most_clocks_share),
    CHECK_TEST(a_minority_moves_the_reference_no_further_than_the_majority_reaches),
    CHECK_TEST(a_worker_is_refused_only_when_certainly_too_far_from_three_that_agree),
    CHECK_TEST(a_claim_is_disproved_by_most_of_the_others_only),
    CHECK_TEST(a_verdict_counts_only_what_is_certain),
    CHECK_TEST(the_exit_code_is_2_before_3_before_1),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"skew", NULL, NULL, NULL, NULL, rules})
