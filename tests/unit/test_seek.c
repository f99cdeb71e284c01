#include "worker/seek.h"

#include "common/snowflake.h"

#include "tests/support/check.h"

static struct seek seek;
static struct instant now;
static struct registry registry;
static struct meta meta;
static uint16_t machine_id;
static uint64_t wake_boot_ms;

static void given_a_search_that_waits_20_s(void) {
    now = (struct instant){.wall_ms = SNOWFLAKE_EPOCH_MS + 10000000, .boot_ms = 500000};
    seek_init(&seek, 20000, 100, 2000);
    registry_init(&registry);
    meta = (struct meta){.epoch_ms = SNOWFLAKE_EPOCH_MS,
                         .floor_ms = SNOWFLAKE_EPOCH_MS,
                         .first_machine_id = 0,
                         .last_machine_id = 9,
                         .max_window_ms = 60000,
                         .quiet_time_ms = 90000};
}

static void forget(void) {
    registry_done(&registry);
}

static enum seek_move next(void) {
    return seek_next(&seek, now, &machine_id, &wake_boot_ms);
}

static struct assign assigned(uint64_t attempt, uint16_t id) {
    return (struct assign){.attempt = attempt, .machine_ids = {id}, .n_machine_ids = 1};
}

static void slot(uint16_t id, uint64_t horizon_ms, bool held) {
    registry.slots[id].has_horizon = true;
    registry.slots[id].horizon = (struct horizon){.horizon_ms = horizon_ms, .n = 1};
    registry.slots[id].held = held;
}

static void nothing_to_do_while_nothing_is_missing(void) {
    CU_ASSERT_EQUAL(next(), SEEK_WAIT);
    CU_ASSERT_EQUAL(seek.attempt, 0);
}

static void a_need_is_one_request(void) {
    seek_need(&seek, now, 1);
    CU_ASSERT_EQUAL(seek.attempt, 1);
    CU_ASSERT_EQUAL(next(), SEEK_WAIT);
    seek_need(&seek, now, 1);
    CU_ASSERT_EQUAL(seek.attempt, 1);
    CU_ASSERT_EQUAL(wake_boot_ms, now.boot_ms + 20000);
}

static void a_larger_need_is_a_new_request(void) {
    seek_need(&seek, now, 1);
    seek_need(&seek, now, 2);
    CU_ASSERT_EQUAL(seek.attempt, 2);
}

static void what_is_assigned_is_tried(void) {
    struct assign assign = assigned(1, 7);

    seek_need(&seek, now, 1);
    seek_assigned(&seek, now, &assign);
    CU_ASSERT_EQUAL(next(), SEEK_TRY);
    CU_ASSERT_EQUAL(machine_id, 7);
}

static void what_was_seen_to_be_free_is_tried_before_the_answer(void) {
    struct assign assign = assigned(1, 7);

    seek_need(&seek, now, 1);
    seek_suggest(&seek, 3);
    CU_ASSERT_EQUAL(next(), SEEK_TRY);
    CU_ASSERT_EQUAL(machine_id, 3);
    seek_unusable(&seek, 3); /* somebody else was quicker: the leader's answer counts */
    CU_ASSERT_EQUAL(next(), SEEK_WAIT);
    seek_assigned(&seek, now, &assign);
    CU_ASSERT_EQUAL(next(), SEEK_TRY);
    CU_ASSERT_EQUAL(machine_id, 7);
}

static void an_answer_to_an_older_request_is_ignored(void) {
    struct assign assign = assigned(1, 7);

    seek_need(&seek, now, 1);
    seek_need(&seek, now, 2);
    seek_assigned(&seek, now, &assign);
    CU_ASSERT_EQUAL(next(), SEEK_WAIT);
}

static void what_proves_unusable_is_asked_for_anew_without_it(void) {
    struct assign assign = assigned(1, 7);

    seek_need(&seek, now, 1);
    seek_assigned(&seek, now, &assign);
    CU_ASSERT_EQUAL(next(), SEEK_TRY);
    seek_unusable(&seek, 7);
    CU_ASSERT_EQUAL(next(), SEEK_WAIT);
    CU_ASSERT_EQUAL(seek.attempt, 2);
    CU_ASSERT_TRUE(seek.refused[7]);
}

static void a_refusal_is_shown_and_asked_again_in_time(void) {
    struct assign assign = {.attempt = 1, .refused = "no machine ID free", .retry_after_ms = 3000};

    seek_need(&seek, now, 1);
    seek_assigned(&seek, now, &assign);
    CHECK_TEXT(seek.reason, "no machine ID free");
    CU_ASSERT_EQUAL(next(), SEEK_WAIT);
    CU_ASSERT_EQUAL(wake_boot_ms, now.boot_ms + 3000);
    CU_ASSERT_EQUAL(seek.attempt, 1);
    now.boot_ms += 3000;
    CU_ASSERT_EQUAL(next(), SEEK_WAIT);
    CU_ASSERT_EQUAL(seek.attempt, 2);
}

static void without_an_answer_it_chooses_alone(void) {
    seek_need(&seek, now, 1);
    now.boot_ms += 19999;
    CU_ASSERT_EQUAL(next(), SEEK_WAIT);
    now.boot_ms += 1;
    CU_ASSERT_EQUAL(next(), SEEK_CHOOSE);
}

static void once_alone_a_lost_claim_is_followed_by_another_at_once(void) {
    seek_need(&seek, now, 1);
    now.boot_ms += 20000;
    CU_ASSERT_EQUAL(next(), SEEK_CHOOSE);
    seek_found(&seek, 3);
    seek_need(&seek, now, 0);
    CU_ASSERT_EQUAL(next(), SEEK_WAIT);
    seek_need(&seek, now, 1);
    CU_ASSERT_EQUAL(next(), SEEK_CHOOSE);
}

static void the_next_search_asks_the_leader_again(void) {
    seek_need(&seek, now, 1);
    now.boot_ms += 20000;
    CU_ASSERT_EQUAL(next(), SEEK_CHOOSE);
    seek_settled(&seek);
    seek_need(&seek, now, 1);
    CU_ASSERT_EQUAL(next(), SEEK_WAIT);
    CU_ASSERT_EQUAL(seek.attempt, 2);
}

static void a_late_answer_ends_the_choosing(void) {
    struct assign assign = assigned(1, 7);

    seek_need(&seek, now, 1);
    now.boot_ms += 20000;
    CU_ASSERT_EQUAL(next(), SEEK_CHOOSE);
    seek_assigned(&seek, now, &assign);
    CU_ASSERT_EQUAL(next(), SEEK_TRY);
    CU_ASSERT_EQUAL(machine_id, 7);
}

static void pauses_grow_to_their_bound(void) {
    uint64_t last_ms = 0;

    seek_need(&seek, now, 1);
    for (int i = 0; i < 12; i++) {
        seek_pause(&seek, now, "etcd: connection refused");
        CU_ASSERT_EQUAL(next(), SEEK_WAIT);
        CU_ASSERT_TRUE(wake_boot_ms - now.boot_ms >= last_ms);
        last_ms = wake_boot_ms - now.boot_ms;
        now.boot_ms = wake_boot_ms;
    }
    CU_ASSERT_EQUAL(last_ms, 2000);
}

static void chooses_only_among_the_free(void) {
    slot(2, now.wall_ms - 100000, true);
    slot(4, now.wall_ms - 100000, false);
    slot(5, now.wall_ms - 1000, false);
    for (uint64_t bits = 0; bits < 20; bits++) {
        CU_ASSERT_TRUE(seek_choose(&seek, now, &registry, &meta, NULL, 0, bits, &machine_id));
        CU_ASSERT_EQUAL(machine_id, 4);
    }
}

static void every_free_one_can_be_chosen(void) {
    unsigned seen = 0;

    for (uint16_t id = 0; id < 10; id++)
        slot(id, now.wall_ms - 100000, false);
    for (uint64_t bits = 0; bits < 10; bits++) {
        CU_ASSERT_TRUE(seek_choose(&seek, now, &registry, &meta, NULL, 0, bits, &machine_id));
        seen |= 1u << machine_id;
    }
    CU_ASSERT_EQUAL(seen, 0x3ff);
}

static void prefers_the_one_that_is_wanted(void) {
    const uint16_t wanted[] = {9, 6};

    slot(9, now.wall_ms - 100000, true);
    for (uint16_t id = 0; id < 9; id++)
        slot(id, now.wall_ms - 100000, false);
    CU_ASSERT_TRUE(seek_choose(&seek, now, &registry, &meta, wanted, 2, 0, &machine_id));
    CU_ASSERT_EQUAL(machine_id, 6);
}

static void the_quiet_time_is_waived_when_none_is_free(void) {
    slot(2, now.wall_ms - 1000, false);
    CU_ASSERT_TRUE(seek_choose(&seek, now, &registry, &meta, NULL, 0, 0, &machine_id));
    CU_ASSERT_EQUAL(machine_id, 2);
}

static void a_floor_ahead_is_waited_for_on_a_slot(void) {
    meta.floor_ms = now.wall_ms + 60000;
    slot(2, now.wall_ms - 100000, false);
    CU_ASSERT_TRUE(seek_choose(&seek, now, &registry, &meta, NULL, 0, 0, &machine_id));
    CU_ASSERT_EQUAL(machine_id, 2);
}

static void all_held_says_when_the_first_could_be_free(void) {
    slot(1, now.wall_ms + 50000, true);
    slot(2, now.wall_ms + 40000, true);
    seek_need(&seek, now, 1);
    CU_ASSERT_FALSE(seek_choose(&seek, now, &registry, &meta, NULL, 0, 0, &machine_id));
    CU_ASSERT_PTR_NOT_NULL(strstr(seek.reason, "no machine ID free: 2 held, next in 40"));
}

static void none_free_says_how_many_are_held_and_when_one_will_be(void) {
    slot(1, now.wall_ms + 50000, true);
    slot(2, now.wall_ms + 4000, false);
    seek_need(&seek, now, 1);
    CU_ASSERT_FALSE(seek_choose(&seek, now, &registry, &meta, NULL, 0, 0, &machine_id));
    CU_ASSERT_PTR_NOT_NULL(strstr(seek.reason, "no machine ID free: 1 held, next in 4"));
    CU_ASSERT_EQUAL(next(), SEEK_WAIT);
}

static CU_TestInfo searching[] = {
    CHECK_TEST(nothing_to_do_while_nothing_is_missing),
    CHECK_TEST(a_need_is_one_request),
    CHECK_TEST(a_larger_need_is_a_new_request),
    CHECK_TEST(what_is_assigned_is_tried),
    CHECK_TEST(what_was_seen_to_be_free_is_tried_before_the_answer),
    CHECK_TEST(an_answer_to_an_older_request_is_ignored),
    CHECK_TEST(what_proves_unusable_is_asked_for_anew_without_it),
    CHECK_TEST(a_refusal_is_shown_and_asked_again_in_time),
    CHECK_TEST(without_an_answer_it_chooses_alone),
    CHECK_TEST(once_alone_a_lost_claim_is_followed_by_another_at_once),
    CHECK_TEST(the_next_search_asks_the_leader_again),
    CHECK_TEST(a_late_answer_ends_the_choosing),
    CHECK_TEST(pauses_grow_to_their_bound),
    CU_TEST_INFO_NULL};
static CU_TestInfo choosing[] = {CHECK_TEST(chooses_only_among_the_free),
                                 CHECK_TEST(every_free_one_can_be_chosen),
                                 CHECK_TEST(prefers_the_one_that_is_wanted),
                                 CHECK_TEST(the_quiet_time_is_waived_when_none_is_free),
                                 CHECK_TEST(a_floor_ahead_is_waited_for_on_a_slot),
                                 CHECK_TEST(all_held_says_when_the_first_could_be_free),
                                 CHECK_TEST(none_free_says_how_many_are_held_and_when_one_will_be),
                                 CU_TEST_INFO_NULL};

CHECK_MAIN({"asking the leader", NULL, NULL, given_a_search_that_waits_20_s, forget, searching},
           {"choosing alone", NULL, NULL, given_a_search_that_waits_20_s, forget, choosing})
