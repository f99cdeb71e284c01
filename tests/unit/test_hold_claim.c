/* What a hold does to claim a slot, by design.md section 4. */
#include "tests/support/hold_fixture.h"

static void a_first_claim_compares_and_writes_exactly_this(void) {
    char ceiling[CEILING_TEXT_MAX], horizon[HORIZON_TEXT_MAX];
    struct horizon sent, next_horizon;
    const struct etcd_op *put;
    struct own own;
    struct error err;

    given_a_claim_under_way();
    sent = sent_horizon();
    ceiling_format(sent.horizon_ms, ceiling);
    CU_ASSERT_EQUAL(act.txn->n_compares, 4);
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, keys.meta, stored(keys.meta)));
    CU_ASSERT_TRUE(txn_compares(ETCD_ABSENT, own_key, NULL));
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, hor_key, stored(hor_key)));
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_GREATER, keys.ceil, ceiling));

    CU_ASSERT_EQUAL(act.txn->n_then, 3);
    put = txn_does(ETCD_PUT, own_key);
    CU_ASSERT_NOT_EQUAL(put->lease, 0);
    CU_ASSERT_EQUAL_FATAL(own_parse(put->value, strlen(put->value), &own, &err), STATUS_OK);
    CHECK_TEXT(own.claim, sent.claim);
    CHECK_TEXT(own.instance, self.instance);
    next_horizon = (struct horizon){.horizon_ms = now.wall_ms + WINDOW_MS, .n = 1};
    memcpy(next_horizon.claim, sent.claim, sizeof(sent.claim));
    horizon_format(&next_horizon, horizon);
    CHECK_TEXT(txn_does(ETCD_PUT, hor_key)->value, horizon);
    CU_ASSERT_EQUAL(txn_does(ETCD_PUT, hor_key)->lease, 0);
    CU_ASSERT_PTR_NOT_NULL(txn_does(ETCD_RANGE, keys.ceil));

    CU_ASSERT_TRUE(txn_reads_otherwise(own_key));
    CU_ASSERT_TRUE(txn_reads_otherwise(hor_key));
    CU_ASSERT_TRUE(txn_reads_otherwise(keys.meta));
    CU_ASSERT_TRUE(txn_reads_otherwise(keys.ceil));
    CU_ASSERT_TRUE(txn_reads_otherwise(assign_key));
}

static void a_generation_starts_above_h0_and_ends_at_the_stored_horizon(void) {
    given_a_generation();
    CU_ASSERT_FALSE(installed.continues);
    CU_ASSERT_EQUAL(installed.machine_id, MACHINE);
    CU_ASSERT_EQUAL(installed.epoch_ms, SNOWFLAKE_EPOCH_MS);
    CU_ASSERT_EQUAL(installed.used_up_ms, H0_MS);
    CU_ASSERT_EQUAL(installed.limit_ms, now.wall_ms + WINDOW_MS);
    CHECK_TEXT(installed.era, ERA_A);
    CHECK_TEXT(installed.claim, stored_horizon().claim);
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
    CU_ASSERT_EQUAL(look().limit_ms, installed.limit_ms);
    CU_ASSERT_EQUAL(look().used_up_ms, H0_MS);
    CU_ASSERT_EQUAL(look().reason, HOLD_FINE);
}

static const struct {
    const char *row;
    uint64_t horizon_ms, floor_ms, ceiling_ms, now_ms; /* after the epoch */
    uint64_t h0_ms, new_ms;
} claim_rows[] = {
    {"one window ahead", 500, 0, 900000, 1000, 500, 61000},
    {"below the ceiling", 500, 0, 31000, 1000, 500, 30999},
    {"the horizon when the ceiling is just above it", 5000, 0, 5001, 1000, 5000, 5000},
    {"a horizon up to 5 s ahead", 6000, 0, 900000, 1000, 6000, 61000},
    {"above the floor", 500, 4000, 900000, 1000, 4000, 61000},
    {"the floor below the horizon", 500, 400, 900000, 1000, 500, 61000},
    {"to the end of the epoch", 500, 0, SNOWFLAKE_TIMESTAMP_MAX + 900000,
     SNOWFLAKE_TIMESTAMP_MAX - 1000, 500, SNOWFLAKE_TIMESTAMP_MAX},
};

static void a_claim_reaches_to_the_nearest_of_window_ceiling_and_end_of_epoch(void) {
    size_t i;

    for (i = 0; i < sizeof(claim_rows) / sizeof(*claim_rows); i++) {
        given_nothing_any_more();
        given_a_free_slot();
        meta.floor_ms = SNOWFLAKE_EPOCH_MS + claim_rows[i].floor_ms;
        store_meta();
        hear_meta();
        store_horizon(SNOWFLAKE_EPOCH_MS + claim_rows[i].horizon_ms, NOBODY, 0);
        store_ceiling(SNOWFLAKE_EPOCH_MS + claim_rows[i].ceiling_ms);
        hear_ceiling();
        now.wall_ms = SNOWFLAKE_EPOCH_MS + claim_rows[i].now_ms;
        given_a_generation();
        CHECK_ROW(claim_rows[i].row,
                  installed.used_up_ms == SNOWFLAKE_EPOCH_MS + claim_rows[i].h0_ms);
        CHECK_ROW(claim_rows[i].row,
                  installed.limit_ms == SNOWFLAKE_EPOCH_MS + claim_rows[i].new_ms);
        CHECK_ROW(claim_rows[i].row, stored_horizon().horizon_ms == installed.limit_ms);
    }
}

static void every_claim_has_a_new_name_and_a_new_lease(void) {
    char first[HEX128_CHARS + 1];
    int64_t lease;

    given_a_claim_under_way();
    memcpy(first, sent_horizon().claim, sizeof(first));
    lease = txn_does(ETCD_PUT, own_key)->lease;
    fail(STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    given_a_claim_under_way();
    CU_ASSERT_STRING_NOT_EQUAL(sent_horizon().claim, first);
    CU_ASSERT_NOT_EQUAL(txn_does(ETCD_PUT, own_key)->lease, lease);
}

static void a_horizon_further_ahead_than_the_clock_allows_is_refused(void) {
    struct error err;

    store_horizon(now.wall_ms + AHEAD_MS + 1, NOBODY, 0);
    CU_ASSERT_EQUAL(offer(&err), STATUS_REFUSED);
    CU_ASSERT_EQUAL(look().phase, HOLD_SEEKING);
    store_horizon(now.wall_ms + AHEAD_MS, NOBODY, 0);
    CU_ASSERT_EQUAL(offer(&err), STATUS_OK);
}

static void a_machine_id_out_of_range_or_reserved_is_refused(void) {
    struct error err;

    CU_ASSERT_EQUAL(hold_offer(hold, now, 10, stored(hor_key), strlen(stored(hor_key)), &err),
                    STATUS_REFUSED);
    meta.reserved[MACHINE] = true;
    meta.serial++;
    store_meta();
    hear_meta();
    CU_ASSERT_EQUAL(offer(&err), STATUS_REFUSED);
}

static void an_unreadable_horizon_is_refused(void) {
    struct error err;

    CU_ASSERT_EQUAL(hold_offer(hold, now, MACHINE, "0", 1, &err), STATUS_REFUSED);
}

static void a_floor_that_is_ahead_is_waited_for_on_the_same_slot(void) {
    struct error err;

    meta.floor_ms = now.wall_ms + AHEAD_MS + 3000;
    store_meta();
    hear_meta();
    CU_ASSERT_EQUAL(offer(&err), STATUS_OK);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    CU_ASSERT_EQUAL(look().phase, HOLD_CLAIMING);
    CU_ASSERT_EQUAL(look().reason, HOLD_FLOOR);
    CU_ASSERT_TRUE(act.wake_boot_ms <= now.boot_ms + 3000);
    CU_ASSERT_EQUAL(next_after(2999), HOLD_NOTHING);
    CU_ASSERT_EQUAL(next_after(1), HOLD_GRANT);
    grant();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_INSTALL);
    CU_ASSERT_EQUAL(act.install.used_up_ms, meta.floor_ms);
    CU_ASSERT_EQUAL(look().reason, HOLD_FLOOR); /* until the clock has passed it */
    pass(AHEAD_MS + 1);
    CU_ASSERT_EQUAL(look().reason, HOLD_FINE);
}

static void a_window_above_what_the_cluster_allows_is_refused_naming_both(void) {
    struct error err;

    meta.max_window_ms = WINDOW_MS - 1;
    store_meta();
    hear_meta();
    CU_ASSERT_EQUAL(offer(&err), STATUS_UNAVAILABLE);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "60000"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "59999"));
    CU_ASSERT_EQUAL(look().reason, HOLD_WINDOW);
}

static void without_meta_or_while_frozen_nothing_is_claimed(void) {
    struct error err;

    meta.mode = META_FROZEN;
    store_meta();
    hear_meta();
    CU_ASSERT_EQUAL(offer(&err), STATUS_UNAVAILABLE);
    CU_ASSERT_EQUAL(look().reason, HOLD_FROZEN);
    fake_etcd_delete(etcd, keys.meta);
    hear_meta();
    CU_ASSERT_EQUAL(offer(&err), STATUS_UNAVAILABLE);
    CU_ASSERT_EQUAL(look().reason, HOLD_NO_META);
    hold_meta(hold, now, "{}", 2);
    CU_ASSERT_EQUAL(offer(&err), STATUS_UNAVAILABLE);
    CU_ASSERT_EQUAL(look().reason, HOLD_NO_META);
}

static void without_a_readable_ceiling_nothing_is_claimed(void) {
    static const char *const values[] = {NULL, "", "abc", "99999999999999999999999"};

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct error err = {.status = STATUS_OK};

        hold_ceiling(hold, now, values[i], values[i] ? strlen(values[i]) : 0);
        CHECK_ROW(values[i] ? values[i] : "absent", offer(&err) == STATUS_UNAVAILABLE);
        CHECK_TEXT(err.message, "ceil is missing or unreadable");
        hear_ceiling(); /* it comes back */
    }
    given_a_claim_under_way();
}

static void a_ceiling_that_goes_while_its_lease_is_granted_stops_a_claim(void) {
    struct error err;

    CU_ASSERT_EQUAL_FATAL(offer(&err), STATUS_OK);
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    hold_ceiling(hold, now, NULL, 0);
    grant();
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    CU_ASSERT_EQUAL(look().phase, HOLD_SEEKING);
}

static void a_claim_that_somebody_else_forestalled_gives_the_slot_and_its_lease_back(void) {
    given_a_claim_under_way();
    store_horizon(now.wall_ms + 1000, STRANGER, 1);
    fake_etcd_put(etcd, own_key, "{}", 0);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    CU_ASSERT_EQUAL(look().phase, HOLD_SEEKING);
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 0);
}

static void a_slot_that_was_taken_out_of_range_meanwhile_is_not_claimed(void) {
    given_a_claim_under_way();
    take_out_of_range();
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    CHECK_TEXT(stored(own_key), "(absent)");
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 0);
}

static void a_claim_under_a_meta_that_was_rewritten_meanwhile_is_sent_again(void) {
    given_a_claim_under_way();
    meta.serial++;
    store_meta();
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    grant();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_claim());
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, keys.meta, stored(keys.meta)));
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_INSTALL);
}

static void a_claim_of_unknown_outcome_is_read_back_before_anything_else(void) {
    given_a_claim_under_way();
    fail(STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_ordered_read());
    CU_ASSERT_TRUE(txn_reads_otherwise(hor_key));
    answer();
    /* Not landed so far: given up, and its lease revoked, so that it cannot keep the slot. */
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 0);
}

static void a_claim_that_landed_although_unanswered_is_adopted_with_its_own_h0(void) {
    given_a_claim_under_way();
    lose_answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_INSTALL);
    CU_ASSERT_FALSE(act.install.continues);
    CU_ASSERT_EQUAL(act.install.used_up_ms, H0_MS);
    CU_ASSERT_EQUAL(act.install.limit_ms, stored_horizon().horizon_ms);
    CHECK_TEXT(act.install.claim, stored_horizon().claim);
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 1);
}

static void a_claim_that_its_own_first_copy_forestalled_is_adopted(void) {
    given_a_claim_under_way();
    fake_etcd_result_free(carry_out());
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_INSTALL);
    CU_ASSERT_EQUAL(act.install.used_up_ms, H0_MS);
}

static void a_claim_that_etcd_surely_did_not_do_is_tried_again(void) {
    given_a_claim_under_way();
    fail(STATUS_UNAVAILABLE);
    CU_ASSERT_EQUAL(look().reason, HOLD_NO_ETCD);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    CU_ASSERT_TRUE(act.wake_boot_ms <= now.boot_ms + config.retry_min_ms);
    CU_ASSERT_EQUAL(next_after(config.retry_min_ms), HOLD_TXN);
    CU_ASSERT_TRUE(is_claim());
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_INSTALL);
}

static CU_TestInfo claims[] = {
    CHECK_TEST(a_first_claim_compares_and_writes_exactly_this),
    CHECK_TEST(a_generation_starts_above_h0_and_ends_at_the_stored_horizon),
    CHECK_TEST(a_claim_reaches_to_the_nearest_of_window_ceiling_and_end_of_epoch),
    CHECK_TEST(every_claim_has_a_new_name_and_a_new_lease),
    CHECK_TEST(a_horizon_further_ahead_than_the_clock_allows_is_refused),
    CHECK_TEST(a_machine_id_out_of_range_or_reserved_is_refused),
    CHECK_TEST(an_unreadable_horizon_is_refused),
    CHECK_TEST(a_floor_that_is_ahead_is_waited_for_on_the_same_slot),
    CHECK_TEST(a_window_above_what_the_cluster_allows_is_refused_naming_both),
    CHECK_TEST(without_meta_or_while_frozen_nothing_is_claimed),
    CHECK_TEST(without_a_readable_ceiling_nothing_is_claimed),
    CHECK_TEST(a_ceiling_that_goes_while_its_lease_is_granted_stops_a_claim),
    CHECK_TEST(a_claim_that_somebody_else_forestalled_gives_the_slot_and_its_lease_back),
    CHECK_TEST(a_slot_that_was_taken_out_of_range_meanwhile_is_not_claimed),
    CHECK_TEST(a_claim_under_a_meta_that_was_rewritten_meanwhile_is_sent_again),
    CHECK_TEST(a_claim_of_unknown_outcome_is_read_back_before_anything_else),
    CHECK_TEST(a_claim_that_landed_although_unanswered_is_adopted_with_its_own_h0),
    CHECK_TEST(a_claim_that_its_own_first_copy_forestalled_is_adopted),
    CHECK_TEST(a_claim_that_etcd_surely_did_not_do_is_tried_again),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN(HOLD_SUITE("claim", claims))
