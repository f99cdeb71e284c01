/* What a hold does while etcd's history may have gone back, and after it has. */
#include "tests/support/hold_fixture.h"

static const enum hold_trust distrust[] = {HOLD_DOUBTED, HOLD_WENT_BACK};
#define DISTRUSTS (sizeof distrust / sizeof distrust[0])
static const char *const names[] = {"doubted", "went back"};

static void no_slot_is_claimed(void) {
    for (size_t i = 0; i < DISTRUSTS; i++) {
        struct error err = {.status = STATUS_OK};

        hold_trust(hold, distrust[i]);
        CHECK_ROW(names[i], offer(&err) == STATUS_UNAVAILABLE);
        CHECK_ROW(names[i], strstr(err.message, "history") != NULL);
        CHECK_ROW(names[i], look().phase == HOLD_SEEKING);
    }
}

static void a_claim_under_way_is_given_up_with_its_lease(void) {
    given_a_claim_under_way();
    hold_trust(hold, HOLD_DOUBTED);
    answer(); /* it was done, by an etcd that may be the wrong one */
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    CU_ASSERT_EQUAL(look().phase, HOLD_SEEKING);
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 0);
    hold_trust(hold, HOLD_TRUSTED);
    pass(WINDOW_MS);
    given_a_claim_under_way();
}

static void a_granted_lease_is_not_claimed_with(void) {
    struct error err;

    CU_ASSERT_EQUAL_FATAL(offer(&err), STATUS_OK);
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    hold_trust(hold, HOLD_DOUBTED);
    grant();
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 0);
}

static void nothing_is_extended_and_ids_flow_to_the_limit(void) {
    uint64_t limit_ms;

    given_a_generation();
    limit_ms = look().limit_ms;
    for (size_t i = 0; i < DISTRUSTS; i++) {
        hold_trust(hold, distrust[i]);
        CHECK_ROW(names[i], next_after(WINDOW_MS / 2) == HOLD_NOTHING);
        CHECK_ROW(names[i], look().phase == HOLD_OPEN);
        CHECK_ROW(names[i], look().limit_ms == limit_ms);
    }
    CU_ASSERT_EQUAL(look().reason, HOLD_ROLLBACK);
    hold_trust(hold, HOLD_TRUSTED);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_extension());
}

static void an_extension_that_is_answered_under_doubt_raises_nothing(void) {
    uint64_t limit_ms;

    given_an_extension_under_way();
    limit_ms = look().limit_ms;
    hold_trust(hold, HOLD_DOUBTED);
    answer();
    CU_ASSERT_EQUAL(look().limit_ms, limit_ms);
    CU_ASSERT_EQUAL(look().pending, 1);
    pass(5000);
    nothing_rises();
    CU_ASSERT_EQUAL(look().limit_ms, limit_ms);
}

static void a_doubt_that_was_nothing_reads_back_and_adopts(void) {
    given_an_extension_under_way();
    hold_trust(hold, HOLD_DOUBTED);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    hold_trust(hold, HOLD_TRUSTED);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_ordered_read());
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_RAISE);
    CU_ASSERT_EQUAL(act.limit_ms, stored_horizon().horizon_ms);
}

static void a_read_that_is_answered_under_doubt_is_read_again(void) {
    given_that_own_is_gone();
    hold_trust(hold, HOLD_DOUBTED);
    store_horizon(FAR_MS / 2, STRANGER, 9);
    answer();
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN); /* not lost by that answer */
    hold_trust(hold, HOLD_TRUSTED);
    CU_ASSERT_EQUAL(next_after(config.retry_max_ms), HOLD_TXN);
    CU_ASSERT_TRUE(is_ordered_read());
}

static void nothing_is_resumed(void) {
    given_that_own_is_gone();
    answer();
    hold_trust(hold, HOLD_WENT_BACK);
    pass(5000);
    nothing_rises();
    CU_ASSERT_TRUE(look().lost_slot);
    CU_ASSERT_EQUAL(fake_etcd_get(etcd, own_key), NULL);
}

static void an_era_that_follows_drops_the_generation_all_the_same(void) {
    given_a_generation();
    hold_trust(hold, HOLD_WENT_BACK);
    other_era_of(ERA_B, ERA_A);
    hear_meta();
    CU_ASSERT_EQUAL(next(), HOLD_DROP);
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
}

static void a_machine_id_is_handed_back_all_the_same(void) {
    given_a_closed_generation(H0_MS + 100001);
    hold_trust(hold, HOLD_WENT_BACK);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_release());
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_DROP);
    CU_ASSERT_EQUAL(look().phase, HOLD_RELEASED);
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, H0_MS + 100001);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(no_slot_is_claimed),
    CHECK_TEST(a_claim_under_way_is_given_up_with_its_lease),
    CHECK_TEST(a_granted_lease_is_not_claimed_with),
    CHECK_TEST(nothing_is_extended_and_ids_flow_to_the_limit),
    CHECK_TEST(an_extension_that_is_answered_under_doubt_raises_nothing),
    CHECK_TEST(a_doubt_that_was_nothing_reads_back_and_adopts),
    CHECK_TEST(a_read_that_is_answered_under_doubt_is_read_again),
    CHECK_TEST(nothing_is_resumed),
    CHECK_TEST(an_era_that_follows_drops_the_generation_all_the_same),
    CHECK_TEST(a_machine_id_is_handed_back_all_the_same),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN(HOLD_SUITE("trust", rules))
