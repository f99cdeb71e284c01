/* A slot that is lost, rolled back, resumed, or of another era. */
#include "tests/support/hold_fixture.h"

/* ---- lost, and rolled back ---- */

static void a_foreign_horizon_drops_the_generation_at_once(void) {
    given_an_extension_under_way();
    fake_etcd_delete(etcd, own_key);
    store_horizon(installed.limit_ms + 5, STRANGER, 1);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_DROP);
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    CU_ASSERT_EQUAL(look().phase, HOLD_SEEKING);
    CU_ASSERT_EQUAL(look().lost_total, 1);
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 0);
}

static void an_older_value_of_its_own_is_a_rollback_and_it_serves_to_the_limit(void) {
    struct horizon first;

    given_an_extension_under_way();
    first = stored_horizon();
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_RAISE);
    store_horizon(first.horizon_ms, first.claim, first.n); /* etcd went back in time */
    CU_ASSERT_EQUAL(next_after(WINDOW_MS / 2), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
    CU_ASSERT_EQUAL(look().reason, HOLD_ROLLBACK);
    pass(config.retry_max_ms);
    nothing_rises();
    fake_etcd_delete(etcd, own_key); /* nor does it resume */
    pass(config.retry_max_ms);
    nothing_rises();
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, first.horizon_ms);
}

static void a_foreign_horizon_below_its_limit_is_a_rollback(void) {
    given_an_extension_under_way();
    store_horizon(H0_MS, STRANGER, 9);
    answer();
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
    CU_ASSERT_EQUAL(look().reason, HOLD_ROLLBACK);
    pass(config.retry_max_ms);
    nothing_rises();
}

static void an_own_key_written_by_hand_stops_the_extensions(void) {
    given_an_extension_under_way();
    fake_etcd_put(etcd, own_key, "by hand", 0);
    answer();
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
    CU_ASSERT_EQUAL(look().reason, HOLD_FOREIGN_OWN);
    nothing_rises();
}

/* ---- resuming ---- */

static void a_lease_that_ended_leads_to_a_look_and_then_to_a_claim_of_the_own_slot(void) {
    struct horizon before;

    given_that_own_is_gone();
    before = stored_horizon();
    answer();
    CU_ASSERT_TRUE(look().lost_slot);
    CU_ASSERT_EQUAL(look().limit_ms, installed.limit_ms); /* IDs flow to the limit meanwhile */
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_GRANT);
    grant();
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_claim());
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, hor_key, stored(hor_key)));
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, keys.meta, stored(keys.meta)));
    CU_ASSERT_TRUE(txn_compares(ETCD_ABSENT, own_key, NULL));
    CU_ASSERT_STRING_NOT_EQUAL(sent_horizon().claim, before.claim);
    CU_ASSERT_EQUAL(sent_horizon().n, 1);
    CU_ASSERT_EQUAL(sent_horizon().horizon_ms, now.wall_ms + WINDOW_MS);
    answer();
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_INSTALL);
    CU_ASSERT_TRUE(act.install.continues);
    CU_ASSERT_EQUAL(act.install.used_up_ms, H0_MS); /* of the claim that began the chain */
    CU_ASSERT_EQUAL(act.install.limit_ms, now.wall_ms + WINDOW_MS);
    CHECK_TEXT(act.install.claim, stored_horizon().claim);
    CU_ASSERT_EQUAL(look().resumes_total, 1);
    CU_ASSERT_FALSE(look().lost_slot);
}

static void resuming_does_not_mind_a_horizon_far_ahead(void) {
    given_that_own_is_gone();
    now.wall_ms -= 50000; /* a step back: the horizon is now 110 s ahead */
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    grant();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_claim());
    CU_ASSERT_EQUAL(sent_horizon().horizon_ms, installed.limit_ms); /* never lower */
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_INSTALL);
}

static void an_order_to_give_up_in_the_same_read_forbids_resuming(void) {
    given_that_own_is_gone();
    store_give_up(installed.claim);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_CLOSE);
    CU_ASSERT_EQUAL(look().reason, HOLD_GIVE_UP);
    hold_closed(hold, now, now.wall_ms);
    nothing_rises();
    CU_ASSERT_EQUAL(look().phase, HOLD_SEEKING);
    CHECK_TEXT(stored(own_key), "(absent)");
}

static void an_order_to_give_up_an_earlier_claim_is_not_obeyed(void) {
    given_that_own_is_gone();
    store_give_up(STRANGER);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
}

static void a_slot_that_was_taken_out_of_range_is_not_resumed_but_served_to_its_limit(void) {
    given_that_own_is_gone();
    take_out_of_range();
    answer();
    for (unsigned i = 0; i < 30 && look().phase == HOLD_OPEN; i++) {
        pass(WINDOW_MS / 20);
        while (next() != HOLD_NOTHING) {
            CU_ASSERT_FALSE(act.kind == HOLD_TXN && is_claim());
            if (act.kind == HOLD_TXN)
                answer();
        }
    }
    CU_ASSERT_EQUAL(look().phase, HOLD_SEEKING);
    CU_ASSERT_TRUE(now.wall_ms > installed.limit_ms);
    CHECK_TEXT(stored(own_key), "(absent)");
}

static void a_resuming_claim_that_landed_although_unanswered_is_adopted(void) {
    given_that_own_is_gone();
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    grant();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    lose_answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_INSTALL);
    CU_ASSERT_TRUE(act.install.continues);
    CHECK_TEXT(act.install.claim, stored_horizon().claim);
}

static void an_extension_that_landed_before_own_went_is_adopted_and_resumed_from(void) {
    given_an_extension_under_way();
    lose_answer();
    fake_etcd_delete(etcd, own_key);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_RAISE);
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    grant();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_claim());
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, hor_key, stored(hor_key)));
}

static void nobody_resumes_a_slot_that_somebody_else_has_claimed(void) {
    given_that_own_is_gone();
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    grant();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    store_horizon(installed.limit_ms + 1, STRANGER, 1);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_DROP);
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 0);
}

static void a_late_claim_whose_lease_was_revoked_cannot_keep_the_slot(void) {
    given_that_own_is_gone();
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    grant();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    delay_request();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 0);
}

/* ---- eras ---- */

static void an_era_that_follows_its_own_drops_the_generation_and_claims_anew(void) {
    given_a_generation();
    other_era_of(ERA_B, ERA_A);
    hear_meta();
    CU_ASSERT_EQUAL(next(), HOLD_DROP);
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    CHECK_TEXT(look().era, ERA_B);
    pass(WINDOW_MS); /* its own horizon is like any other's now */
    given_a_claim_under_way();
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, keys.meta, stored(keys.meta)));
}

static void a_foreign_era_halts_it_until_meta_names_its_own(void) {
    given_a_generation();
    other_era_of(ERA_B, NULL);
    hear_meta();
    CU_ASSERT_EQUAL(next(), HOLD_DROP);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    CU_ASSERT_EQUAL(look().phase, HOLD_HALTED);
    CU_ASSERT_EQUAL(look().reason, HOLD_FOREIGN_ERA);
    CHECK_TEXT(look().era, ERA_A);
    CU_ASSERT_EQUAL(next_after(60000), HOLD_NOTHING);
    other_era_of(ERA_A, NULL);
    hear_meta();
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    given_a_generation();
}

static void another_era_that_a_failed_extension_shows_drops_the_generation(void) {
    given_an_extension_under_way();
    other_era_of(ERA_B, ERA_A);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_DROP);
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
}

static void an_answer_to_a_request_of_an_earlier_era_changes_nothing(void) {
    struct etcd_txn_result *result;
    struct error err;

    given_an_extension_under_way();
    result = carry_out();
    other_era_of(ERA_B, ERA_A);
    hear_meta();
    CU_ASSERT_EQUAL(next(), HOLD_DROP);
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    hear(result);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    pass(WINDOW_MS); /* its horizon is past */
    CU_ASSERT_EQUAL(offer(&err), STATUS_OK);
}

static CU_TestInfo losses[] = {
    CHECK_TEST(a_foreign_horizon_drops_the_generation_at_once),
    CHECK_TEST(an_older_value_of_its_own_is_a_rollback_and_it_serves_to_the_limit),
    CHECK_TEST(a_foreign_horizon_below_its_limit_is_a_rollback),
    CHECK_TEST(an_own_key_written_by_hand_stops_the_extensions),
    CU_TEST_INFO_NULL,
};

static CU_TestInfo resumes[] = {
    CHECK_TEST(a_slot_that_was_taken_out_of_range_is_not_resumed_but_served_to_its_limit),
    CHECK_TEST(a_lease_that_ended_leads_to_a_look_and_then_to_a_claim_of_the_own_slot),
    CHECK_TEST(resuming_does_not_mind_a_horizon_far_ahead),
    CHECK_TEST(an_order_to_give_up_in_the_same_read_forbids_resuming),
    CHECK_TEST(an_order_to_give_up_an_earlier_claim_is_not_obeyed),
    CHECK_TEST(a_resuming_claim_that_landed_although_unanswered_is_adopted),
    CHECK_TEST(an_extension_that_landed_before_own_went_is_adopted_and_resumed_from),
    CHECK_TEST(nobody_resumes_a_slot_that_somebody_else_has_claimed),
    CHECK_TEST(a_late_claim_whose_lease_was_revoked_cannot_keep_the_slot),
    CU_TEST_INFO_NULL,
};

static CU_TestInfo eras[] = {
    CHECK_TEST(an_era_that_follows_its_own_drops_the_generation_and_claims_anew),
    CHECK_TEST(a_foreign_era_halts_it_until_meta_names_its_own),
    CHECK_TEST(another_era_that_a_failed_extension_shows_drops_the_generation),
    CHECK_TEST(an_answer_to_a_request_of_an_earlier_era_changes_nothing),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN(HOLD_SUITE("lost", losses), HOLD_SUITE("resume", resumes), HOLD_SUITE("era", eras))
