/* How a slot is handed back, and what becomes of its leases. */
#include "tests/support/hold_fixture.h"

/* ---- releasing ---- */

static void a_release_compares_and_writes_exactly_this(void) {
    char horizon[HORIZON_TEXT_MAX];
    struct horizon expected;

    given_a_closed_generation(H0_MS + 70000);
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_release());
    expected = stored_horizon();
    expected.horizon_ms = H0_MS + 70000;
    expected.n = 2;
    horizon_format(&expected, horizon);
    CU_ASSERT_EQUAL(act.txn->n_compares, 2);
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, own_key, stored(own_key)));
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, hor_key, stored(hor_key)));
    CU_ASSERT_EQUAL(act.txn->n_then, 2);
    CHECK_TEXT(txn_does(ETCD_PUT, hor_key)->value, horizon);
    CU_ASSERT_PTR_NOT_NULL(txn_does(ETCD_DELETE, own_key));
    CU_ASSERT_TRUE(txn_reads_otherwise(own_key));
    CU_ASSERT_TRUE(txn_reads_otherwise(hor_key));
}

static void a_release_stores_the_last_timestamp_and_lets_go_of_own_and_lease(void) {
    given_a_closed_generation(H0_MS + 70000);
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_TXN);
    answer();
    nothing_rises();
    CU_ASSERT_EQUAL(look().phase, HOLD_RELEASED);
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, H0_MS + 70000);
    CHECK_TEXT(stored(own_key), "(absent)");
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 0);
}

static void a_generation_that_issued_nothing_gives_its_whole_grant_back(void) {
    given_a_closed_generation(H0_MS);
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, H0_MS);
}

static void nothing_is_released_before_the_loop_has_closed(void) {
    given_a_generation();
    hold_release(hold, now);
    CU_ASSERT_EQUAL(next(), HOLD_CLOSE);
    CU_ASSERT_EQUAL(next_after(60000), HOLD_NOTHING);
    CU_ASSERT_EQUAL(look().phase, HOLD_CLOSING);
}

static void pending_is_settled_by_a_read_before_the_release(void) {
    uint64_t extended_ms;

    given_an_extension_under_way();
    extended_ms = sent_horizon().horizon_ms;
    lose_answer();
    hold_release(hold, now);
    CU_ASSERT_EQUAL(next(), HOLD_CLOSE);
    hold_closed(hold, now, now.wall_ms);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_ordered_read());
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, extended_ms);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN); /* no raise: it is closed */
    CU_ASSERT_TRUE(is_release());
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, hor_key, stored(hor_key)));
    CU_ASSERT_EQUAL(sent_horizon().n, 3);
}

static void an_unanswered_release_never_reopens_and_is_settled(void) {
    given_a_closed_generation(H0_MS + 70000);
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_TXN);
    fail(STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_ordered_read());
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_release());
    lose_answer();
    nothing_rises();
    CU_ASSERT_EQUAL(look().phase, HOLD_RELEASED);
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, H0_MS + 70000);
}

static void a_slot_that_was_lost_meanwhile_needs_no_release(void) {
    given_a_closed_generation(H0_MS + 70000);
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_TXN);
    fake_etcd_delete(etcd, own_key);
    answer();
    nothing_rises();
    CU_ASSERT_EQUAL(look().phase, HOLD_RELEASED);
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, installed.limit_ms);
}

static void a_slot_that_somebody_else_has_meanwhile_is_left_alone(void) {
    given_a_closed_generation(H0_MS + 70000);
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_TXN);
    fake_etcd_put(etcd, own_key, "{}", 0);
    store_horizon(installed.limit_ms + 1, STRANGER, 1);
    answer();
    nothing_rises();
    CU_ASSERT_EQUAL(look().phase, HOLD_RELEASED);
    CHECK_TEXT(stored_horizon().claim, STRANGER);
}

static void a_generation_lost_while_it_closes_is_dropped_when_the_loop_has_answered(void) {
    struct etcd_txn_result *result;

    given_an_extension_under_way();
    fake_etcd_delete(etcd, own_key);
    store_horizon(installed.limit_ms + 1, STRANGER, 1);
    result = carry_out();
    hold_release(hold, now);
    CU_ASSERT_EQUAL(next(), HOLD_CLOSE);
    hear(result);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    hold_closed(hold, now, now.wall_ms);
    CU_ASSERT_EQUAL(next(), HOLD_DROP);
    CU_ASSERT_EQUAL(look().phase, HOLD_RELEASED);
    CHECK_TEXT(stored_horizon().claim, STRANGER);
}

static void an_era_that_changes_while_it_closes_ends_it_when_the_loop_has_answered(void) {
    given_a_generation();
    hold_give_up(hold, now, MACHINE, installed.claim);
    CU_ASSERT_EQUAL(next(), HOLD_CLOSE);
    other_era_of(ERA_B, ERA_A);
    hear_meta();
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    hold_closed(hold, now, now.wall_ms);
    CU_ASSERT_EQUAL(next(), HOLD_DROP);
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    CHECK_TEXT(look().era, ERA_B);
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, installed.limit_ms);
}

static void an_order_to_give_up_releases_and_seeks_another_slot(void) {
    given_a_generation();
    hold_give_up(hold, now, MACHINE, installed.claim);
    CU_ASSERT_EQUAL(next(), HOLD_CLOSE);
    hold_closed(hold, now, now.wall_ms);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_release());
    answer();
    nothing_rises();
    CU_ASSERT_EQUAL(look().phase, HOLD_SEEKING);
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, now.wall_ms);
}

static void an_order_to_give_up_another_machine_or_claim_is_ignored(void) {
    given_a_generation();
    hold_give_up(hold, now, MACHINE + 1, installed.claim);
    hold_give_up(hold, now, MACHINE, STRANGER);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
}

static void without_a_generation_a_release_is_done_at_once(void) {
    hold_release(hold, now);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    CU_ASSERT_EQUAL(look().phase, HOLD_RELEASED);
}

static void a_release_during_a_claim_hands_the_slot_straight_back(void) {
    given_a_claim_under_way();
    hold_release(hold, now);
    CU_ASSERT_EQUAL(look().phase, HOLD_CLAIMING);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING); /* it is on its way, and is seen through */
    fail(STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    answer();
    nothing_rises();
    CU_ASSERT_EQUAL(look().phase, HOLD_RELEASED);
    CHECK_TEXT(stored(own_key), "(absent)");
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 0);
}

/* ---- leases ---- */

static void the_lease_is_kept_alive_at_its_interval(void) {
    int64_t lease;
    size_t i;

    given_a_generation();
    lease = fake_etcd_get(etcd, own_key)->lease;
    for (i = 0; i < 3; i++) {
        pass(4999);
        CU_ASSERT_EQUAL(hold_next(hold, now, &act), HOLD_NOTHING);
        CU_ASSERT_EQUAL(act.wake_boot_ms, now.boot_ms + 1);
        pass(1);
        CU_ASSERT_EQUAL(hold_next(hold, now, &act), HOLD_KEEPALIVE);
        CU_ASSERT_EQUAL(act.lease_id, lease);
        hold_kept(hold, now, NULL, lease);
    }
}

static void a_keepalive_of_unknown_outcome_changes_nothing_and_is_repeated_soon(void) {
    struct error err;

    given_a_generation();
    pass(5000);
    CU_ASSERT_EQUAL(hold_next(hold, now, &act), HOLD_KEEPALIVE);
    error_set(&err, STATUS_UNKNOWN, "test: no answer");
    hold_kept(hold, now, &err, act.lease_id);
    CU_ASSERT_EQUAL(hold_next(hold, now, &act), HOLD_NOTHING);
    CU_ASSERT_TRUE(act.wake_boot_ms <= now.boot_ms + config.retry_max_ms);
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
}

static void a_grant_of_unknown_outcome_is_revoked_and_asked_for_again(void) {
    struct error err;
    int64_t lease;

    CU_ASSERT_EQUAL(offer(&err), STATUS_OK);
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    lease = act.lease_id;
    error_set(&err, STATUS_UNKNOWN, "test: no answer");
    hold_granted(hold, now, &err, lease, 0);
    CU_ASSERT_EQUAL(hold_next(hold, now, &act), HOLD_REVOKE);
    CU_ASSERT_EQUAL(act.lease_id, lease);
    CU_ASSERT_EQUAL(next_after(config.retry_max_ms), HOLD_GRANT);
    CU_ASSERT_NOT_EQUAL(act.lease_id, lease);
}

static CU_TestInfo releases[] = {
    CHECK_TEST(a_release_compares_and_writes_exactly_this),
    CHECK_TEST(a_release_stores_the_last_timestamp_and_lets_go_of_own_and_lease),
    CHECK_TEST(a_generation_that_issued_nothing_gives_its_whole_grant_back),
    CHECK_TEST(nothing_is_released_before_the_loop_has_closed),
    CHECK_TEST(pending_is_settled_by_a_read_before_the_release),
    CHECK_TEST(an_unanswered_release_never_reopens_and_is_settled),
    CHECK_TEST(a_slot_that_was_lost_meanwhile_needs_no_release),
    CHECK_TEST(a_slot_that_somebody_else_has_meanwhile_is_left_alone),
    CHECK_TEST(a_generation_lost_while_it_closes_is_dropped_when_the_loop_has_answered),
    CHECK_TEST(an_era_that_changes_while_it_closes_ends_it_when_the_loop_has_answered),
    CHECK_TEST(an_order_to_give_up_releases_and_seeks_another_slot),
    CHECK_TEST(an_order_to_give_up_another_machine_or_claim_is_ignored),
    CHECK_TEST(without_a_generation_a_release_is_done_at_once),
    CHECK_TEST(a_release_during_a_claim_hands_the_slot_straight_back),
    CU_TEST_INFO_NULL,
};

static CU_TestInfo leases[] = {
    CHECK_TEST(the_lease_is_kept_alive_at_its_interval),
    CHECK_TEST(a_keepalive_of_unknown_outcome_changes_nothing_and_is_repeated_soon),
    CHECK_TEST(a_grant_of_unknown_outcome_is_revoked_and_asked_for_again),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN(HOLD_SUITE("release", releases), HOLD_SUITE("lease", leases))
