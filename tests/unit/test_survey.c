/* The skew report of a fleet: who is named, what is told, and what the exit code is. */
#include "coordinator/survey.h"
#include "tests/support/check.h"

#define MS INT64_C(1000000)
#define S (1000 * MS)
#define WALL_NS (INT64_C(1764547200) * S)
#define BOOT_NS (1000 * S)

static struct keys keys;
static struct cluster *cluster;
static struct survey survey;
static bool own;

static void given_an_empty_cluster(void) {
    struct meta meta = {.format = RECORD_FORMAT,
                        .serial = 1,
                        .epoch_ms = 1704067200000,
                        .floor_ms = 1704067200000,
                        .last_machine_id = 9,
                        .max_window_ms = 60000,
                        .quiet_time_ms = 90000,
                        .max_offset_ms = 500};
    struct error err;
    char *text;

    CU_ASSERT_EQUAL_FATAL(keys_init(&keys, "default", &err), STATUS_OK);
    cluster = cluster_new(&keys);
    memset(meta.era, 'e', HEX128_CHARS);
    text = meta_format(&meta, NULL);
    cluster_apply(cluster, keys.meta, text, strlen(text), 0, 1);
    free(text);
    own = false;
}

static void and_it_is_freed(void) {
    cluster_free(cluster);
}

/* A registered worker, heard just now. */
static struct member *worker(const char *identity, int64_t offset_ns, int64_t bound_ns) {
    struct node node = {.attempt = 1};
    struct member *member;
    char key[KEY_MAX], instance[HEX128_CHARS + 1];
    char *text;

    snprintf(node.identity, sizeof node.identity, "%s", identity);
    snprintf(instance, sizeof instance, "%032zx", cluster->n_members + 1);
    keys_node(&keys, instance, key);
    text = node_format(&node);
    cluster_apply(cluster, key, text, strlen(text), 1, 1);
    free(text);
    member = cluster->members[cluster->n_members - 1];
    member->reading = (struct clock_reading){.heard = true,
                                             .synchronized = true,
                                             .knows_error = true,
                                             .max_error_ns = MS,
                                             .boot_ms = BOOT_NS / MS,
                                             .claim = {.trusted = true, .source = "kernel"}};
    member->heard_boot_ms = BOOT_NS / MS;
    track_add(&member->track, &(struct track_sample){{offset_ns, bound_ns}, BOOT_NS},
              TRACK_RATE_PPB);
    return member;
}

static void take_after(int64_t elapsed_ns) {
    survey_take(&survey, cluster,
                &(struct survey_config){.now = {WALL_NS + elapsed_ns, BOOT_NS + elapsed_ns},
                                        .fresh_ms = 30000,
                                        .rate_ppb = TRACK_RATE_PPB,
                                        .own = own});
}

static const struct survey_node *node(const char *identity) {
    for (size_t i = 0; i < survey.n; i++) {
        if (strcmp(survey.nodes[i].member->node.identity, identity) == 0)
            return &survey.nodes[i];
    }
    CU_FAIL_FATAL("no such node");
    return NULL;
}

static void only_the_clock_that_is_off_is_named(void) {
    for (int sign = -1; sign <= 1; sign += 2) {
        if (sign > 0) {
            and_it_is_freed();
            given_an_empty_cluster();
        }
        worker("a", MS, MS);
        worker("b", -MS, MS);
        worker("bad", sign * 60 * S, MS);
        worker("c", 0, MS);
        worker("d", 2 * MS, MS);
        take_after(0);
        CHECK_TEXT(survey.nodes[0].member->node.identity, "bad");
        CU_ASSERT_EQUAL(node("bad")->verdict, SKEW_CRIT);
        CU_ASSERT_TRUE(node("bad")->falseticker);
        CU_ASSERT_TRUE(node("bad")->claim_false);
        CU_ASSERT_TRUE(sign * node("bad")->facts.skew.offset_ns > 59 * S);
        CU_ASSERT_EQUAL(survey.verdicts[SKEW_OK], 4);
        CU_ASSERT_EQUAL(survey.falsetickers, 1);
        CU_ASSERT_EQUAL(survey.claims_false, 1);
        CU_ASSERT_EQUAL(survey_exit_code(&survey), SKEW_EXIT_CRIT);
        survey_done(&survey);
    }
}

static void of_two_none_is_named_and_the_distance_is_told(void) {
    worker("a", 0, MS);
    worker("b", 60 * S, MS);
    take_after(0);
    CU_ASSERT_EQUAL(survey.verdicts[SKEW_UNKNOWN], 2);
    CU_ASSERT_EQUAL(survey.falsetickers + survey.claims_false, 0);
    CU_ASSERT_FALSE(node("a")->facts.has_offset);
    CU_ASSERT_EQUAL(survey.fleet.at_least_ns, 60 * S - 2 * MS);
    CU_ASSERT_EQUAL(survey_exit_code(&survey), SKEW_EXIT_CRIT);
    survey_done(&survey);
    own = true; /* with the coordinator's own clock it is two against one */
    take_after(0);
    CU_ASSERT_EQUAL(node("b")->verdict, SKEW_CRIT);
    CU_ASSERT_EQUAL(node("a")->verdict, SKEW_OK);
    survey_done(&survey);
}

static void who_is_not_heard_for_half_a_minute_is_unknown(void) {
    worker("a", 0, MS);
    worker("b", 0, MS);
    worker("c", 0, MS);
    worker("late", 0, MS)->heard_boot_ms = (BOOT_NS - 20 * S) / MS;
    take_after(10 * S);
    CU_ASSERT_FALSE(survey.incomplete);
    CU_ASSERT_EQUAL(node("late")->verdict, SKEW_OK);
    CU_ASSERT_EQUAL(node("late")->heard_ms, 30000);
    /* What was measured 10 s ago is 200 ppm less certain. */
    CU_ASSERT_EQUAL(node("a")->skew.bound_ns, MS + 2 * MS);
    survey_done(&survey);
    take_after(10 * S + MS);
    CU_ASSERT_TRUE(survey.incomplete);
    CU_ASSERT_EQUAL(node("late")->verdict, SKEW_UNKNOWN);
    CU_ASSERT_EQUAL(survey_exit_code(&survey), SKEW_EXIT_INCOMPLETE);
    survey_done(&survey);
}

static void a_slow_path_is_uncertain_and_no_alarm(void) {
    worker("a", 0, MS);
    worker("b", 0, MS);
    worker("c", 0, MS);
    worker("far", 200 * MS, 200 * MS); /* 400 ms on the way there only */
    take_after(0);
    CU_ASSERT_EQUAL(node("far")->verdict, SKEW_OK);
    CU_ASSERT_TRUE(node("far")->uncertain);
    CU_ASSERT_FALSE(node("a")->uncertain);
    CU_ASSERT_EQUAL(survey_exit_code(&survey), SKEW_EXIT_OK);
    survey_done(&survey);
}

static void what_it_claims_is_judged_by_what_was_measured(void) {
    struct member *liar;

    worker("a", 0, 100000);
    worker("b", 0, 100000);
    worker("c", 0, 100000);
    liar = worker("liar", 60 * MS, 100000);
    take_after(0);
    CU_ASSERT_TRUE(node("liar")->claim_false);
    CU_ASSERT_EQUAL(node("liar")->verdict, SKEW_WARN);
    CU_ASSERT_FALSE(node("liar")->falseticker); /* 60 ms are allowed */
    survey_done(&survey);
    liar->reading.max_error_ns = 61 * MS;
    take_after(0);
    CU_ASSERT_FALSE(node("liar")->claim_false);
    survey_done(&survey);
    liar->reading.max_error_ns = 0;
    liar->reading.knows_error = false;
    take_after(0);
    CU_ASSERT_FALSE(node("liar")->claim_false); /* unknown is no claim */
    survey_done(&survey);
}

static void drift_is_told_from_the_fleet(void) {
    /* Ours loses 100 ppm, or so it seems to all of them; "fast" gains 50 more. */
    static const char *const names[] = {"a", "b", "c", "fast"};

    for (size_t i = 0; i < 4; i++) {
        struct member *member = worker(names[i], 0, MS);
        int64_t gained = 100 * S / 1000000 * (i == 3 ? 150 : 100);

        track_reset(&member->track);
        track_add(&member->track, &(struct track_sample){{0, 10000}, BOOT_NS - 100 * S}, 200000);
        track_add(&member->track, &(struct track_sample){{gained, 10000}, BOOT_NS}, 200000);
    }
    take_after(0);
    CU_ASSERT_TRUE(node("a")->has_drift);
    CU_ASSERT_DOUBLE_EQUAL(node("a")->drift.ppm, 0, 0.3);
    CU_ASSERT_DOUBLE_EQUAL(node("fast")->drift.ppm, 50, 0.3);
    CU_ASSERT_DOUBLE_EQUAL(node("fast")->drift.bound_ppm, 0.2, 0.01);
    survey_done(&survey);
}

static const struct {
    const char *row;
    int64_t offset_ns, bound_ns, claimed_ns;
} extremes[] = {
    {"far-ahead", INT64_MAX / 2, 0, INT64_MAX},
    {"far-behind", -(INT64_MAX / 2), INT64_MAX / 2, INT64_MAX},
    {"nothing-proven", 0, INT64_MAX, 0},
    {"1970", -WALL_NS, MS, INT64_MAX - 1},
};

static void nothing_wraps_at_the_extremes(void) {
    char *text;
    json_t *json;

    worker("a", 0, MS);
    worker("b", 0, MS);
    worker("c", 0, MS);
    for (size_t i = 0; i < sizeof extremes / sizeof extremes[0]; i++)
        worker(extremes[i].row, extremes[i].offset_ns, extremes[i].bound_ns)->reading.max_error_ns =
            extremes[i].claimed_ns;
    take_after(30 * S);
    CU_ASSERT_EQUAL(node("far-ahead")->verdict, SKEW_CRIT);
    CU_ASSERT_EQUAL(node("a")->verdict, SKEW_OK);
    json = survey_json(&survey, cluster, "default", WALL_NS / MS, "test");
    text = json_dumps(json, JSON_COMPACT);
    CU_ASSERT_PTR_NOT_NULL(text);
    free(text);
    json_decref(json);
    survey_done(&survey);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(only_the_clock_that_is_off_is_named),
    CHECK_TEST(of_two_none_is_named_and_the_distance_is_told),
    CHECK_TEST(who_is_not_heard_for_half_a_minute_is_unknown),
    CHECK_TEST(a_slow_path_is_uncertain_and_no_alarm),
    CHECK_TEST(what_it_claims_is_judged_by_what_was_measured),
    CHECK_TEST(drift_is_told_from_the_fleet),
    CHECK_TEST(nothing_wraps_at_the_extremes),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"a skew report", NULL, NULL, given_an_empty_cluster, and_it_is_freed, rules})
