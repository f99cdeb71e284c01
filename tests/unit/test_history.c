/* When etcd's history went back, and when it only looks like it. */
#include "common/history.h"
#include "tests/support/check.h"

#define OURS "0123456789abcdef0123456789abcdef"
#define NEXT "fedcba9876543210fedcba9876543210"
#define OTHER "77777777777777777777777777777777"

static struct history history;
static char found[RECORD_REASON_MAX];

static struct meta meta_of(const char *era, const char *earlier) {
    struct meta meta = {.mode = META_OPEN};

    memcpy(meta.era, era, HEX128_CHARS + 1);
    if (earlier)
        memcpy(meta.earlier_eras[meta.n_earlier_eras++], earlier, HEX128_CHARS + 1);
    return meta;
}

static void given_revision_100_in_our_era(void) {
    struct meta meta = meta_of(OURS, NULL);

    history = (struct history){.era = ""};
    history_meta(&history, &meta);
    history_saw(&history, 100);
}

static bool answered(struct history_mark mark, int64_t revision) {
    return history_answered(&history, &mark, revision);
}

static enum history_verdict fenced(const struct meta *meta, int64_t revision) {
    struct history_mark mark = history_mark(&history);

    return history_fenced(&history, &mark, meta, revision, found);
}

static enum history_verdict fenced_in(const char *era, const char *earlier, int64_t revision) {
    struct meta meta = meta_of(era, earlier);

    return fenced(&meta, revision);
}

/* ---- answers ---- */

static void what_never_saw_anything_suspects_nothing(void) {
    history = (struct history){.era = ""};
    CU_ASSERT_TRUE(answered(history_mark(&history), 1));
    CU_ASSERT_EQUAL(fenced(NULL, 1), HISTORY_HOLDS);
    CU_ASSERT_TRUE(history_trusted(&history));
}

static void an_answer_of_the_same_revision_or_later_is_believed(void) {
    struct history_mark mark = history_mark(&history);

    CU_ASSERT_TRUE(answered(mark, 100));
    CU_ASSERT_TRUE(answered(mark, 105));
    CU_ASSERT_EQUAL(history.highest, 105);
    CU_ASSERT_TRUE(history_trusted(&history));
}

static void answers_may_overtake_one_another(void) {
    struct history_mark first = history_mark(&history), second = history_mark(&history);

    CU_ASSERT_TRUE(answered(second, 120));
    CU_ASSERT_TRUE(answered(first, 110)); /* lower, but not than what was seen before it was sent */
    CU_ASSERT_TRUE(history_trusted(&history));
    CU_ASSERT_EQUAL(history.highest, 120);
}

static void a_lower_answer_is_a_suspicion_and_no_alarm(void) {
    CU_ASSERT_FALSE(answered(history_mark(&history), 99));
    CU_ASSERT_FALSE(history_trusted(&history));
    CHECK_TEXT(history.alarm, "");
    CU_ASSERT_EQUAL(history.highest, 100);
}

static void a_suspicion_stands_until_a_fence_tells_whatever_else_is_answered(void) {
    struct history_mark before = history_mark(&history);

    answered(before, 99);
    CU_ASSERT_TRUE(answered(before, 130));
    CU_ASSERT_FALSE(history_trusted(&history));
}

/* ---- the fence ---- */

static void a_stale_member_is_cleared_by_a_fence(void) {
    answered(history_mark(&history), 99);
    CU_ASSERT_EQUAL(fenced_in(OURS, NULL, 101), HISTORY_HOLDS);
    CHECK_TEXT(found, "");
    CU_ASSERT_TRUE(history_trusted(&history));
    CU_ASSERT_EQUAL(history.highest, 101);
}

static void a_lower_fence_says_that_history_went_back(void) {
    CU_ASSERT_EQUAL(fenced_in(OURS, NULL, 99), HISTORY_WENT_BACK);
    CHECK_TEXT(found, "revision 99 came after 100");
}

static void an_alarm_is_raised_once_and_outlives_revisions_that_catch_up(void) {
    fenced_in(OURS, NULL, 99);
    CU_ASSERT_TRUE(history_alarm(&history, found));
    CU_ASSERT_FALSE(history_alarm(&history, "another"));
    CHECK_TEXT(history.alarm, "revision 99 came after 100");
    CU_ASSERT_EQUAL(fenced_in(OURS, NULL, 500), HISTORY_HOLDS);
    CU_ASSERT_FALSE(history_trusted(&history));
    CHECK_TEXT(history.alarm, "revision 99 came after 100");
}

static void meta_that_is_gone_says_so(void) {
    CU_ASSERT_EQUAL(fenced(NULL, 101), HISTORY_NO_META);
    CHECK_TEXT(found, "meta of era " OURS " is gone");
    CU_ASSERT_TRUE(history_trusted(&history)); /* what follows from it is the caller's to say */
}

static void without_meta_a_lower_revision_stays_a_suspicion(void) {
    answered(history_mark(&history), 7);
    CU_ASSERT_EQUAL(fenced(NULL, 8), HISTORY_NO_META);
    CU_ASSERT_FALSE(history_trusted(&history));
}

/* ---- eras ---- */

static void another_era_is_for_a_fence_to_look_at(void) {
    struct meta meta = meta_of(NEXT, OURS);

    history_meta(&history, &meta);
    CU_ASSERT_FALSE(history_trusted(&history));
    CHECK_TEXT(history.era, OURS);
}

static void an_era_that_follows_ends_the_alarm_and_counts_anew(void) {
    fenced_in(OURS, NULL, 99);
    history_alarm(&history, found);
    CU_ASSERT_EQUAL(fenced_in(NEXT, OURS, 30), HISTORY_FOLLOWED);
    CU_ASSERT_TRUE(history_trusted(&history));
    CHECK_TEXT(history.alarm, "");
    CHECK_TEXT(history.era, NEXT);
    CU_ASSERT_EQUAL(history.highest, 30);
    CU_ASSERT_EQUAL(fenced_in(NEXT, OURS, 30), HISTORY_HOLDS);
}

static void an_era_that_does_not_follow_is_foreign(void) {
    struct meta meta = meta_of(OTHER, NULL);

    history_meta(&history, &meta);
    CU_ASSERT_EQUAL(fenced_in(OTHER, NULL, 200), HISTORY_FOREIGN_ERA);
    CHECK_TEXT(found, "era " OTHER " came after " OURS);
    CU_ASSERT_FALSE(history_trusted(&history));
    CHECK_TEXT(history.era, OURS);
}

static void our_own_era_again_after_a_foreign_one_goes_on(void) {
    struct meta meta = meta_of(OTHER, NULL);

    history_meta(&history, &meta);
    fenced_in(OTHER, NULL, 200);
    CU_ASSERT_EQUAL(fenced_in(OURS, NULL, 201), HISTORY_HOLDS);
    CU_ASSERT_TRUE(history_trusted(&history));
}

static void answers_of_an_era_that_is_over_count_for_nothing(void) {
    struct history_mark old = history_mark(&history);

    fenced_in(NEXT, OURS, 30);
    CU_ASSERT_TRUE(answered(old, 150)); /* of the etcd that is gone */
    CU_ASSERT_EQUAL(history.highest, 30);
    CU_ASSERT_TRUE(answered(old, 31)); /* of the one that came */
    CU_ASSERT_TRUE(history_trusted(&history));
}

static void a_fence_is_a_write_that_changes_nothing(void) {
    struct history_fence fence;
    struct keys keys;
    struct error err;

    keys_init(&keys, "prod", &err);
    history_fence_build(&fence, &keys);
    CU_ASSERT_EQUAL(fence.txn.n_compares, 0);
    CU_ASSERT_EQUAL(fence.txn.n_then, 2);
    CHECK_TEXT(fence.txn.then[0].key, "/snowfleet/prod/meta");
    CU_ASSERT_EQUAL(fence.txn.then[0].kind, ETCD_RANGE);
    CU_ASSERT_EQUAL(fence.txn.then[1].kind, ETCD_DELETE);
    CHECK_TEXT(fence.txn.then[1].key, "/snowfleet/prod/assign/00000000000000000000000000000000");
}

static void a_fence_tells_a_meta_that_is_absent_from_one_that_is_damaged(void) {
    struct etcd_kv kv = {.value = "{", .value_len = 1};
    struct etcd_op_result results[2] = {{.kvs = &kv, .n_kvs = 1}};
    struct etcd_txn_result answer = {.results = results, .n_results = 2};
    struct meta meta, stored = {.format = RECORD_FORMAT, .last_machine_id = 9, .max_window_ms = 1};
    const struct etcd_kv *read;

    CU_ASSERT_EQUAL(history_fence_meta(&answer, &read, &meta), STATUS_PROTOCOL);
    CU_ASSERT_PTR_EQUAL(read, &kv);
    memcpy(stored.era, OURS, sizeof stored.era);
    stored.serial = stored.max_offset_ms = 1;
    kv.value = meta_format(&stored, NULL);
    kv.value_len = strlen(kv.value);
    CU_ASSERT_EQUAL(history_fence_meta(&answer, &read, &meta), STATUS_OK);
    CHECK_TEXT(meta.era, OURS);
    free(kv.value);
    results[0].n_kvs = 0;
    CU_ASSERT_EQUAL(history_fence_meta(&answer, &read, &meta), STATUS_NOT_FOUND);
    CU_ASSERT_PTR_NULL(read);
}

static CU_TestInfo answers[] = {
    CHECK_TEST(what_never_saw_anything_suspects_nothing),
    CHECK_TEST(an_answer_of_the_same_revision_or_later_is_believed),
    CHECK_TEST(answers_may_overtake_one_another),
    CHECK_TEST(a_lower_answer_is_a_suspicion_and_no_alarm),
    CHECK_TEST(a_suspicion_stands_until_a_fence_tells_whatever_else_is_answered),
    CU_TEST_INFO_NULL,
};
static CU_TestInfo fences[] = {
    CHECK_TEST(a_stale_member_is_cleared_by_a_fence),
    CHECK_TEST(a_lower_fence_says_that_history_went_back),
    CHECK_TEST(an_alarm_is_raised_once_and_outlives_revisions_that_catch_up),
    CHECK_TEST(meta_that_is_gone_says_so),
    CHECK_TEST(without_meta_a_lower_revision_stays_a_suspicion),
    CHECK_TEST(a_fence_tells_a_meta_that_is_absent_from_one_that_is_damaged),
    CHECK_TEST(a_fence_is_a_write_that_changes_nothing),
    CU_TEST_INFO_NULL,
};
/* A worker whose state file turns out to be of another cluster's life: the fence that its highest
 * revision called for is still on its way. */
static void what_was_asked_before_all_was_forgotten_tells_nothing(void) {
    struct history_mark before = history_mark(&history);
    struct meta meta = meta_of(OTHER, NULL);

    CU_ASSERT_FALSE(answered(before, 5));
    history_forget(&history);
    history_meta(&history, &meta);
    CU_ASSERT_TRUE(answered(before, 5));
    CU_ASSERT_EQUAL(history_fenced(&history, &before, &meta, 5, found), HISTORY_HOLDS);
    CU_ASSERT_TRUE(history_trusted(&history));
}

static CU_TestInfo eras[] = {
    CHECK_TEST(another_era_is_for_a_fence_to_look_at),
    CHECK_TEST(an_era_that_follows_ends_the_alarm_and_counts_anew),
    CHECK_TEST(an_era_that_does_not_follow_is_foreign),
    CHECK_TEST(our_own_era_again_after_a_foreign_one_goes_on),
    CHECK_TEST(answers_of_an_era_that_is_over_count_for_nothing),
    CHECK_TEST(what_was_asked_before_all_was_forgotten_tells_nothing),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"answers", NULL, NULL, given_revision_100_in_our_era, NULL, answers},
           {"fences", NULL, NULL, given_revision_100_in_our_era, NULL, fences},
           {"eras", NULL, NULL, given_revision_100_in_our_era, NULL, eras})
