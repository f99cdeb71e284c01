/* One clock over time: samples that age, what they prove together, and drift. */
#include "coordinator/track.h"
#include "tests/support/check.h"

#define MS INT64_C(1000000)
#define S (1000 * MS)
#define RATE TRACK_RATE_PPB

static struct track track;

static void given_nothing(void) {
    track_reset(&track);
}

static bool add(int64_t boot_ns, int64_t offset_ns, int64_t bound_ns) {
    return track_add(&track, &(struct track_sample){{offset_ns, bound_ns}, boot_ns}, RATE);
}

static struct skew at(int64_t boot_ns) {
    struct skew skew = {0, 0};

    CU_ASSERT_TRUE_FATAL(track_at(&track, boot_ns, RATE, &skew));
    return skew;
}

static void nothing_is_known_without_a_sample(void) {
    struct skew skew;
    struct drift drift;

    CU_ASSERT_FALSE(track_at(&track, S, RATE, &skew));
    CU_ASSERT_FALSE(track_drift(&track, &drift));
}

static void a_sample_grows_old_by_200_ppm_and_what_the_kernels_correct(void) {
    struct skew skew;

    add(100 * S, 3 * MS, 1000);
    CU_ASSERT_EQUAL(at(100 * S).bound_ns, 1000);
    CU_ASSERT_EQUAL(at(110 * S).bound_ns, 1000 + 2 * MS);
    CU_ASSERT_EQUAL(at(110 * S).offset_ns, 3 * MS);
    CU_ASSERT_TRUE(track_at(&track, 110 * S, RATE + 50000, &skew));
    CU_ASSERT_EQUAL(skew.bound_ns, 1000 + 2 * MS + 500000);
}

static void samples_prove_more_together_than_the_newest_alone(void) {
    struct skew skew;

    add(0, 0, 10 * MS);
    add(S, 15 * MS, 10 * MS); /* a slow way back */
    skew = at(S);
    /* -10.2..10.2 and 5..25 */
    CU_ASSERT_EQUAL(skew.offset_ns, (5 * MS + 10200000) / 2);
    CU_ASSERT_EQUAL(skew.bound_ns, (10200000 - 5 * MS) / 2);
}

static void samples_that_do_not_meet_any_more_are_forgotten(void) {
    CU_ASSERT_TRUE(add(0, 0, MS));
    CU_ASSERT_FALSE(add(S, 100 * MS, MS));
    CU_ASSERT_EQUAL(at(S).offset_ns, 100 * MS);
    CU_ASSERT_EQUAL(at(S).bound_ns, MS);
    CU_ASSERT_EQUAL(track.n_recent, 1);
    CU_ASSERT_EQUAL(track.n_anchors, 1);
}

static void only_the_last_few_are_kept(void) {
    for (int i = 0; i < 1000; i++)
        add(i * S, 0, MS);
    CU_ASSERT_EQUAL(track.n_recent, TRACK_RECENT);
    CU_ASSERT_EQUAL(track.recent[0].boot_ns, (1000 - TRACK_RECENT) * S);
    CU_ASSERT_EQUAL(track.n_anchors, TRACK_ANCHORS);
    CU_ASSERT_EQUAL(track.anchors[0].boot_ns, 680 * S); /* 980 s, 960 s, ... */
}

static const struct {
    const char *row;
    int64_t offset_ns, bound_ns;
} extremes[] = {
    {"as far ahead as it goes", INT64_MAX / 2, 0},
    {"as far behind", -(INT64_MAX / 2), 0},
    {"and no bound to speak of", INT64_MAX / 2, INT64_MAX / 2},
    {"behind, no bound", -(INT64_MAX / 2), INT64_MAX},
    {"nothing proven", 0, INT64_MAX},
};

static void nothing_wraps_at_the_extremes(void) {
    for (size_t i = 0; i < sizeof extremes / sizeof extremes[0]; i++) {
        struct skew skew;
        struct drift drift;

        track_reset(&track);
        add(0, extremes[i].offset_ns, extremes[i].bound_ns);
        skew = at(INT64_MAX / 4);
        CHECK_ROW(extremes[i].row, skew.bound_ns >= 0);
        add(INT64_MAX / 4, -extremes[i].offset_ns, extremes[i].bound_ns);
        CHECK_ROW(extremes[i].row, !track_drift(&track, &drift) || drift.bound_ppm >= 0);
    }
}

static void drift_is_known_with_its_bound(void) {
    struct drift drift;

    add(0, 0, 100000);
    add(S / 2, 0, 100000);
    CU_ASSERT_FALSE(track_drift(&track, &drift)); /* half a second */
    add(100 * S, 5 * MS, 100000);                 /* 50 ppm */
    CU_ASSERT_TRUE_FATAL(track_drift(&track, &drift));
    CU_ASSERT_DOUBLE_EQUAL(drift.ppm, 50, 0.01);
    CU_ASSERT_DOUBLE_EQUAL(drift.bound_ppm, 2, 0.01);
}

/* low..high */
static int64_t draw(struct check_random *random, int64_t low, int64_t high) {
    return low + (int64_t)check_random_below(random, (uint64_t)(high - low + 1));
}

/* A clock whose offset changes all the time, at a rate that is drawn for each round. */
struct wandering {
    int64_t start_ns, offset_ns, rate_ppb;
};

static int64_t truth_at(const struct wandering *clock, int64_t boot_ns) {
    return clock->offset_ns +
           (int64_t)((__int128)(boot_ns - clock->start_ns) * clock->rate_ppb / 1000000000);
}

/* One exchange that begins at *boot_ns, which moves on to its end.  What the other clock gains
 * while it lasts is on the bound, as in the prober.  The way there takes 1 us at least: an answer
 * that seems to have taken longer there than here, by a fast clock, is no sample. */
static struct track_sample exchange(const struct wandering *clock, int64_t *boot_ns,
                                    struct check_random *random, int64_t scale) {
    const int64_t wall = INT64_C(1764547200) * S;
    int64_t sent = *boot_ns, received = sent + draw(random, 1000, scale),
            answered = received + draw(random, 0, MS),
            returned = answered + (draw(random, 0, 2) ? draw(random, 0, scale) : 0);
    const struct skew_sample four = {wall + sent, wall + received + truth_at(clock, received),
                                     wall + answered + truth_at(clock, answered), wall + returned};
    struct track_sample sample = {.boot_ns = sent};

    CU_ASSERT_TRUE_FATAL(skew_of_sample(&four, &sample.skew));
    sample.skew.bound_ns += (returned - sent) / 1000 * RATE / 1000000 + 1;
    *boot_ns = returned;
    return sample;
}

static void check_honest(const struct wandering *clock, int64_t boot_ns, int round) {
    struct skew skew = at(boot_ns);
    int64_t truth = truth_at(clock, boot_ns);
    struct drift drift;

    if (truth < skew.offset_ns - skew.bound_ns || truth > skew.offset_ns + skew.bound_ns) {
        printf("round %d: truth %lld, said %lld +- %lld\n", round, (long long)truth,
               (long long)skew.offset_ns, (long long)skew.bound_ns);
        CU_FAIL_FATAL("the truth is outside");
    }
    if (track_drift(&track, &drift) &&
        (double)clock->rate_ppb / 1000 - drift.ppm > drift.bound_ppm + 1e-6) {
        printf("round %d: drift %g ppm, said %g +- %g\n", round, (double)clock->rate_ppb / 1000,
               drift.ppm, drift.bound_ppm);
        CU_FAIL_FATAL("the drift is outside");
    }
}

/* Known offsets of up to 35 years either way, paths of up to 1 s with any asymmetry: at whatever
 * moment somebody looks, the truth lies within what is said. */
static void the_bound_is_honest_for_a_thousand_rounds(void) {
    struct check_random random = check_random_seeded(__func__);

    for (int round = 0; round < 1000; round++) {
        int64_t boot = draw(&random, 0, 1000000 * S), scale = MS << draw(&random, 0, 10);
        const struct wandering clock = {
            boot, draw(&random, -35 * 365 * INT64_C(86400), 35 * 365 * INT64_C(86400)) * S,
            draw(&random, -RATE, RATE)};

        track_reset(&track);
        for (int probe = 0; probe < 20; probe++) {
            struct track_sample best = exchange(&clock, &boot, &random, scale);

            for (int i = 1; i < SKEW_PROBES; i++) {
                struct track_sample sample = exchange(&clock, &boot, &random, scale);

                if (sample.skew.bound_ns < best.skew.bound_ns)
                    best = sample;
            }
            CU_ASSERT_TRUE_FATAL(track_add(&track, &best, RATE));
            check_honest(&clock, boot, round);
            boot += draw(&random, 0, 30 * S);
            check_honest(&clock, boot, round);
        }
    }
}

static CU_TestInfo rules[] = {
    CHECK_TEST(nothing_is_known_without_a_sample),
    CHECK_TEST(a_sample_grows_old_by_200_ppm_and_what_the_kernels_correct),
    CHECK_TEST(samples_prove_more_together_than_the_newest_alone),
    CHECK_TEST(samples_that_do_not_meet_any_more_are_forgotten),
    CHECK_TEST(only_the_last_few_are_kept),
    CHECK_TEST(nothing_wraps_at_the_extremes),
    CHECK_TEST(drift_is_known_with_its_bound),
    CHECK_TEST(the_bound_is_honest_for_a_thousand_rounds),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"a clock over time", NULL, NULL, given_nothing, NULL, rules})
