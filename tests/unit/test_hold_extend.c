/* How a hold extends its window, and what it does when it cannot. */
#include "tests/support/hold_fixture.h"

static void an_extension_compares_and_writes_exactly_this(void) {
    char ceiling[CEILING_TEXT_MAX], horizon[HORIZON_TEXT_MAX];
    struct horizon expected;

    given_an_extension_under_way();
    expected = stored_horizon();
    expected.horizon_ms = now.wall_ms + WINDOW_MS;
    expected.n = 2;
    horizon_format(&expected, horizon);
    ceiling_format(expected.horizon_ms, ceiling);
    CU_ASSERT_EQUAL(act.txn->n_compares, 4);
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, keys.meta, stored(keys.meta)));
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, own_key, stored(own_key)));
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, hor_key, stored(hor_key)));
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_GREATER, keys.ceil, ceiling));
    CU_ASSERT_EQUAL(act.txn->n_then, 2);
    CHECK_TEXT(txn_does(ETCD_PUT, hor_key)->value, horizon);
    CU_ASSERT_EQUAL(txn_does(ETCD_PUT, hor_key)->lease, 0);
    CU_ASSERT_PTR_NOT_NULL(txn_does(ETCD_RANGE, keys.ceil));
    CU_ASSERT_TRUE(txn_reads_otherwise(own_key));
    CU_ASSERT_TRUE(txn_reads_otherwise(hor_key));
    CU_ASSERT_TRUE(txn_reads_otherwise(keys.meta));
    CU_ASSERT_TRUE(txn_reads_otherwise(keys.ceil));
    CU_ASSERT_TRUE(txn_reads_otherwise(assign_key));
}

static void the_window_is_extended_when_two_thirds_are_left_or_a_tenth_earlier(void) {
    size_t i;

    given_a_generation();
    for (i = 0; i < 200; i++) { /* the jitter differs each time */
        uint64_t left_ms;

        while (next() == HOLD_NOTHING)
            pass(act.wake_boot_ms - now.boot_ms);
        CU_ASSERT_TRUE_FATAL(is_extension());
        left_ms = look().limit_ms - now.wall_ms;
        CU_ASSERT_TRUE(left_ms >= WINDOW_MS * 2 / 3 - 1);
        CU_ASSERT_TRUE(left_ms <= WINDOW_MS * 2 / 3 + WINDOW_MS / 10);
        answer();
        CU_ASSERT_EQUAL(next(), HOLD_RAISE);
    }
}

static void the_limit_rises_only_when_etcd_has_answered(void) {
    uint64_t limit_ms;

    given_an_extension_under_way();
    limit_ms = sent_horizon().horizon_ms;
    CU_ASSERT_EQUAL(look().limit_ms, installed.limit_ms);
    answer();
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_RAISE);
    CHECK_TEXT(act.claim, installed.claim);
    CU_ASSERT_EQUAL(act.limit_ms, limit_ms);
    CU_ASSERT_EQUAL(look().limit_ms, limit_ms);
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, limit_ms);
}

static void one_transaction_is_under_way_at_a_time(void) {
    given_an_extension_under_way();
    CU_ASSERT_EQUAL(next_after(60000), HOLD_NOTHING);
}

static void an_extension_that_gains_nothing_only_reads(void) {
    given_a_generation();
    store_ceiling(installed.limit_ms + 1);
    hear_ceiling();
    CU_ASSERT_EQUAL(next_after(WINDOW_MS / 2), HOLD_NOTHING);
    CU_ASSERT_EQUAL(look().reason, HOLD_CEILING);
    CU_ASSERT_EQUAL(next_after(config.retry_max_ms), HOLD_TXN);
    CU_ASSERT_TRUE(is_read());
    CU_ASSERT_TRUE(txn_reads_otherwise(keys.ceil));
    CU_ASSERT_TRUE(txn_reads_otherwise(keys.meta));
    store_ceiling(FAR_MS);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_extension());
}

static void an_extension_never_reaches_the_ceiling_or_past_the_end_of_the_epoch(void) {
    now.wall_ms = snowflake_end_ms(SNOWFLAKE_EPOCH_MS) - WINDOW_MS - 10000;
    store_ceiling(CEILING_NONE);
    hear_ceiling();
    given_an_extension_under_way();
    CU_ASSERT_EQUAL(sent_horizon().horizon_ms, snowflake_end_ms(SNOWFLAKE_EPOCH_MS));
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_RAISE);
    pass(30000);
    nothing_rises();
}

static void a_clock_that_stepped_back_does_not_lower_the_horizon(void) {
    given_an_extension_under_way();
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_RAISE);
    now.wall_ms -= 30000;
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
}

static void an_extension_of_unknown_outcome_is_read_back_before_anything_else(void) {
    given_an_extension_under_way();
    fail(STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(look().limit_ms, installed.limit_ms);
    CU_ASSERT_EQUAL(look().pending, 1);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_ordered_read());
    answer();
    CU_ASSERT_EQUAL(look().limit_ms, installed.limit_ms);
    CU_ASSERT_EQUAL(next(), HOLD_TXN); /* not landed so far: it may be sent again */
    CU_ASSERT_TRUE(is_extension());
    CU_ASSERT_EQUAL(sent_horizon().n, 2);
}

static void an_extension_that_landed_although_unanswered_is_adopted(void) {
    uint64_t limit_ms;

    given_an_extension_under_way();
    limit_ms = sent_horizon().horizon_ms;
    lose_answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_RAISE);
    CU_ASSERT_EQUAL(act.limit_ms, limit_ms);
    CU_ASSERT_EQUAL(look().pending, 0);
}

static void an_extension_that_lands_after_its_retry_was_sent_is_adopted(void) {
    given_an_extension_under_way();
    delay_request();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(next_after(1000), HOLD_TXN);
    CU_ASSERT_TRUE(is_extension());
    late_request_lands();
    answer(); /* the retry compares with the value before */
    CU_ASSERT_EQUAL(next(), HOLD_RAISE);
    CU_ASSERT_EQUAL(act.limit_ms, stored_horizon().horizon_ms);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
}

static void a_meta_rewritten_in_the_same_era_is_taken_and_the_extension_sent_again(void) {
    given_an_extension_under_way();
    meta.serial++;
    meta.floor_ms++;
    store_meta();
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_extension());
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, keys.meta, stored(keys.meta)));
    CU_ASSERT_EQUAL(sent_horizon().n, 2);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_RAISE);
}

static void while_frozen_it_serves_to_the_limit_and_goes_on_after_the_thaw(void) {
    given_an_extension_under_way();
    meta.mode = META_FROZEN;
    meta.serial++;
    store_meta();
    answer();
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
    CU_ASSERT_EQUAL(look().reason, HOLD_FROZEN);
    nothing_rises();
    pass(config.retry_max_ms);
    nothing_rises();
    meta.mode = META_OPEN;
    meta.serial++;
    store_meta();
    hear_meta();
    CU_ASSERT_EQUAL(next_after(config.retry_max_ms), HOLD_TXN);
    CU_ASSERT_TRUE(is_read());
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_extension());
}

static void without_meta_it_serves_to_the_limit_and_keeps_reading(void) {
    given_an_extension_under_way();
    fake_etcd_delete(etcd, keys.meta);
    answer();
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
    CU_ASSERT_EQUAL(look().reason, HOLD_NO_META);
    nothing_rises();
    CU_ASSERT_EQUAL(next_after(config.retry_max_ms), HOLD_TXN);
    CU_ASSERT_TRUE(is_read());
    store_meta();
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_extension());
}

static void without_hor_it_serves_to_the_limit_and_keeps_reading(void) {
    char horizon[HORIZON_TEXT_MAX];

    given_an_extension_under_way();
    snprintf(horizon, sizeof(horizon), "%s", stored(hor_key));
    fake_etcd_delete(etcd, hor_key);
    answer();
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
    CU_ASSERT_EQUAL(look().reason, HOLD_NO_HORIZON);
    nothing_rises();
    CU_ASSERT_EQUAL(next_after(config.retry_max_ms), HOLD_TXN);
    CU_ASSERT_TRUE(is_read());
    fake_etcd_put(etcd, hor_key, horizon, 0);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_extension());
}

static void an_unreadable_hor_counts_as_absent(void) {
    given_an_extension_under_way();
    fake_etcd_put(etcd, hor_key, "12", 0);
    answer();
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
    CU_ASSERT_EQUAL(look().reason, HOLD_NO_HORIZON);
    nothing_rises();
}

static void without_a_readable_ceiling_it_serves_to_the_limit_and_keeps_reading(void) {
    static const char *const values[] = {NULL, "", "abc"};
    uint64_t limit_ms;

    given_a_generation();
    limit_ms = look().limit_ms;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const char *row = values[i] ? values[i] : "absent";

        if (values[i])
            fake_etcd_put(etcd, keys.ceil, values[i], 0);
        else
            fake_etcd_delete(etcd, keys.ceil);
        hold_ceiling(hold, now, values[i], values[i] ? strlen(values[i]) : 0);
        pass(WINDOW_MS / 2);
        nothing_rises();
        CHECK_ROW(row, look().limit_ms == limit_ms);
        CHECK_ROW(row, look().phase == HOLD_OPEN);
        CHECK_ROW(row, look().reason == HOLD_CEILING);
        CHECK_ROW(row, next_after(config.retry_max_ms) == HOLD_TXN && is_read());
        answer();
    }
    store_ceiling(FAR_MS);
    hear_ceiling();
    CU_ASSERT_EQUAL(next_after(config.retry_max_ms), HOLD_TXN);
    CU_ASSERT_TRUE(is_extension());
}

static void out_of_space_is_named_and_tried_again(void) {
    given_an_extension_under_way();
    fail(STATUS_NO_SPACE);
    CU_ASSERT_EQUAL(look().reason, HOLD_NO_SPACE);
    CU_ASSERT_EQUAL(look().limit_ms, installed.limit_ms);
    CU_ASSERT_EQUAL(next_after(config.retry_max_ms), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(look().reason, HOLD_FINE);
}

static void pauses_between_failures_grow_to_the_longest_and_no_further(void) {
    uint64_t pause_ms = 0;
    size_t i;

    given_an_extension_under_way();
    for (i = 0; i < 10; i++) {
        uint64_t before_ms = now.boot_ms;

        fail(STATUS_UNAVAILABLE);
        while (next() == HOLD_NOTHING)
            pass(act.wake_boot_ms - now.boot_ms);
        CU_ASSERT_TRUE(is_extension());
        pause_ms = now.boot_ms - before_ms;
        CU_ASSERT_TRUE(pause_ms <= config.retry_max_ms);
        CU_ASSERT_TRUE(i > 0 || pause_ms <= config.retry_min_ms);
    }
    CU_ASSERT_TRUE(pause_ms >= config.retry_max_ms / 2);
}

static CU_TestInfo extensions[] = {
    CHECK_TEST(an_extension_compares_and_writes_exactly_this),
    CHECK_TEST(the_window_is_extended_when_two_thirds_are_left_or_a_tenth_earlier),
    CHECK_TEST(the_limit_rises_only_when_etcd_has_answered),
    CHECK_TEST(one_transaction_is_under_way_at_a_time),
    CHECK_TEST(an_extension_that_gains_nothing_only_reads),
    CHECK_TEST(an_extension_never_reaches_the_ceiling_or_past_the_end_of_the_epoch),
    CHECK_TEST(a_clock_that_stepped_back_does_not_lower_the_horizon),
    CHECK_TEST(an_extension_of_unknown_outcome_is_read_back_before_anything_else),
    CHECK_TEST(an_extension_that_landed_although_unanswered_is_adopted),
    CHECK_TEST(an_extension_that_lands_after_its_retry_was_sent_is_adopted),
    CHECK_TEST(a_meta_rewritten_in_the_same_era_is_taken_and_the_extension_sent_again),
    CHECK_TEST(while_frozen_it_serves_to_the_limit_and_goes_on_after_the_thaw),
    CHECK_TEST(without_meta_it_serves_to_the_limit_and_keeps_reading),
    CHECK_TEST(without_hor_it_serves_to_the_limit_and_keeps_reading),
    CHECK_TEST(an_unreadable_hor_counts_as_absent),
    CHECK_TEST(without_a_readable_ceiling_it_serves_to_the_limit_and_keeps_reading),
    CHECK_TEST(out_of_space_is_named_and_tried_again),
    CHECK_TEST(pauses_between_failures_grow_to_the_longest_and_no_further),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN(HOLD_SUITE("extend", extensions))
