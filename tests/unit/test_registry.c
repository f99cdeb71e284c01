#include "common/registry.h"

#include "common/snowflake.h"
#include "tests/support/check.h"

#define ROWS(table) (sizeof(table) / sizeof(table)[0])

#define CLAIM "c1a1c1a1c1a1c1a1c1a1c1a1c1a1c1a1"
#define INSTANCE "0123456789abcdef0123456789abcdef"
#define OWN                                                                                        \
    "{\"claim\":\"" CLAIM "\",\"instance\":\"" INSTANCE                                            \
    "\",\"identity\":\"prod/ids-0\",\"addresses\":{}}"

#define NOW_MS (SNOWFLAKE_EPOCH_MS + 1000000)
#define WINDOW_MS UINT64_C(60000)
#define QUIET_MS UINT64_C(90000)

static struct registry registry;
static struct keys keys;
static struct meta meta;

static void given_machine_ids_1_to_100_without_13(void) {
    struct error err;

    CU_ASSERT_EQUAL_FATAL(keys_init(&keys, "prod", &err), STATUS_OK);
    registry_init(&registry);
    meta = (struct meta){.epoch_ms = SNOWFLAKE_EPOCH_MS,
                         .first_machine_id = 1,
                         .last_machine_id = 100,
                         .max_window_ms = WINDOW_MS,
                         .quiet_time_ms = QUIET_MS};
    meta.reserved[13] = true;
}

static void forget_all(void) {
    registry_done(&registry);
}

static void apply(const char *key, const char *value, int64_t lease, uint64_t boot_ms) {
    registry_apply(&registry, &keys, key, value, value ? strlen(value) : 0, lease, boot_ms);
}

static void put_horizon(uint16_t machine_id, uint64_t horizon_ms, uint64_t boot_ms) {
    const struct horizon horizon = {horizon_ms, CLAIM, 1};
    char key[KEY_MAX], value[HORIZON_TEXT_MAX];

    keys_hor(&keys, machine_id, key);
    horizon_format(&horizon, value);
    apply(key, value, 0, boot_ms);
}

static void put_own(uint16_t machine_id, const char *value) {
    char key[KEY_MAX];

    keys_own(&keys, machine_id, key);
    apply(key, value, value ? 77 : 0, 1);
}

static enum slot_state state_of(uint16_t machine_id) {
    return registry_state(&registry, &meta, meta.quiet_time_ms, machine_id, NOW_MS);
}

static uint64_t usable_in(uint16_t machine_id) {
    return registry_usable_in_ms(&registry, &meta, meta.quiet_time_ms, machine_id, NOW_MS);
}

/* --- states --- */

#define NONE UINT64_MAX

static const struct {
    const char *row;
    uint16_t machine_id;
    bool held;
    uint64_t horizon_ms; /* NONE: no hor key */
    uint64_t quiet_ms, floor_ms;
    enum slot_state state;
    uint64_t usable_in_ms;
} states[] = {
    /* the quiet time ends: horizon + quiet time < now */
    {"long unused", 7, false, SNOWFLAKE_EPOCH_MS, QUIET_MS, 0, SLOT_FREE, 0},
    {"quiet time over since 1 ms", 7, false, NOW_MS - QUIET_MS - 1, QUIET_MS, 0, SLOT_FREE, 0},
    {"quiet time over now", 7, false, NOW_MS - QUIET_MS, QUIET_MS, 0, SLOT_COOLING, 1},
    {"quiet time over in 1 ms", 7, false, NOW_MS - QUIET_MS + 1, QUIET_MS, 0, SLOT_COOLING, 2},
    {"horizon now", 7, false, NOW_MS, QUIET_MS, 0, SLOT_COOLING, QUIET_MS + 1},
    /* without a quiet time, under pressure */
    {"horizon past since 1 ms, no quiet time", 7, false, NOW_MS - 1, 0, 0, SLOT_FREE, 0},
    {"horizon now, no quiet time", 7, false, NOW_MS, 0, 0, SLOT_COOLING, 1},
    /* the floor: floor < now */
    {"floor past since 1 ms", 7, false, SNOWFLAKE_EPOCH_MS, QUIET_MS, NOW_MS - 1, SLOT_FREE, 0},
    {"floor now", 7, false, SNOWFLAKE_EPOCH_MS, QUIET_MS, NOW_MS, SLOT_COOLING, 1},
    {"floor in 60 s", 7, false, SNOWFLAKE_EPOCH_MS, QUIET_MS, NOW_MS + 60000, SLOT_COOLING, 60001},
    {"floor beyond the window", 7, false, SNOWFLAKE_EPOCH_MS, QUIET_MS, NOW_MS + 9 * WINDOW_MS,
     SLOT_COOLING, 9 * WINDOW_MS + 1},
    {"floor before the quiet time", 7, false, NOW_MS, QUIET_MS, NOW_MS + 5, SLOT_COOLING,
     QUIET_MS + 1},
    /* further ahead than a window reaches */
    {"a whole window ahead", 7, false, NOW_MS + WINDOW_MS, QUIET_MS, 0, SLOT_COOLING,
     WINDOW_MS + QUIET_MS + 1},
    {"a window and 1 ms ahead", 7, false, NOW_MS + WINDOW_MS + 1, QUIET_MS, 0, SLOT_AHEAD,
     WINDOW_MS + QUIET_MS + 2},
    {"a window and 1 ms ahead, no quiet time", 7, false, NOW_MS + WINDOW_MS + 1, 0, 0, SLOT_AHEAD,
     WINDOW_MS + 2},
    {"the largest number with its quiet time", 7, false, UINT64_MAX - QUIET_MS, QUIET_MS, 0,
     SLOT_AHEAD, NONE},
    {"beyond all numbers with its quiet time", 7, false, UINT64_MAX - 1, QUIET_MS, 0, SLOT_AHEAD,
     NONE},
    /* which machine IDs */
    {"no horizon", 7, false, NONE, QUIET_MS, 0, SLOT_ABSENT, NONE},
    {"reserved", 13, false, SNOWFLAKE_EPOCH_MS, QUIET_MS, 0, SLOT_RESERVED, NONE},
    {"reserved, no horizon", 13, false, NONE, QUIET_MS, 0, SLOT_RESERVED, NONE},
    {"below the range", 0, false, SNOWFLAKE_EPOCH_MS, QUIET_MS, 0, SLOT_RESERVED, NONE},
    {"the first in range", 1, false, SNOWFLAKE_EPOCH_MS, QUIET_MS, 0, SLOT_FREE, 0},
    {"the last in range", 100, false, SNOWFLAKE_EPOCH_MS, QUIET_MS, 0, SLOT_FREE, 0},
    {"above the range", 101, false, NONE, QUIET_MS, 0, SLOT_RESERVED, NONE},
    {"the last of all", 1023, false, SNOWFLAKE_EPOCH_MS, QUIET_MS, 0, SLOT_RESERVED, NONE},
    /* own wins */
    {"held", 7, true, NOW_MS + WINDOW_MS, QUIET_MS, 0, SLOT_HELD, WINDOW_MS + QUIET_MS + 1},
    {"held, horizon long past", 7, true, SNOWFLAKE_EPOCH_MS, QUIET_MS, 0, SLOT_HELD, 0},
    {"held, far ahead", 7, true, NOW_MS + 2 * WINDOW_MS, 0, 0, SLOT_HELD, 2 * WINDOW_MS + 1},
    {"held, no horizon", 7, true, NONE, QUIET_MS, 0, SLOT_HELD, NONE},
    {"held, reserved", 13, true, SNOWFLAKE_EPOCH_MS, QUIET_MS, 0, SLOT_HELD, NONE},
    {"held, out of range", 500, true, SNOWFLAKE_EPOCH_MS, QUIET_MS, 0, SLOT_HELD, NONE},
};

static void a_slot_has_one_state_and_a_time_until_it_is_free(void) {
    size_t i;

    for (i = 0; i < ROWS(states); i++) {
        uint16_t id = states[i].machine_id;

        registry_done(&registry);
        given_machine_ids_1_to_100_without_13();
        meta.floor_ms = states[i].floor_ms;
        if (states[i].horizon_ms != NONE)
            put_horizon(id, states[i].horizon_ms, 1);
        if (states[i].held)
            put_own(id, OWN);
        CHECK_ROW(states[i].row, registry_state(&registry, &meta, states[i].quiet_ms, id, NOW_MS) ==
                                     states[i].state);
        CHECK_ROW(states[i].row, registry_usable_in_ms(&registry, &meta, states[i].quiet_ms, id,
                                                       NOW_MS) == states[i].usable_in_ms);
    }
}

/* The two must not contradict each other: whoever waits as told finds the slot free. */
static void a_slot_is_free_when_told_and_not_before(void) {
    struct check_random random = check_random_seeded(__func__);
    unsigned round;

    for (round = 0; round < 20000; round++) {
        uint64_t quiet_ms = check_random_below(&random, 2) * check_random_below(&random, QUIET_MS);
        uint64_t wait_ms;

        meta.floor_ms = NOW_MS - 200000 + check_random_below(&random, 300000);
        put_horizon(7, NOW_MS - 200000 + check_random_below(&random, 400000), round);
        wait_ms = registry_usable_in_ms(&registry, &meta, quiet_ms, 7, NOW_MS);
        if (registry_state(&registry, &meta, quiet_ms, 7, NOW_MS + wait_ms) != SLOT_FREE ||
            (wait_ms > 0 &&
             registry_state(&registry, &meta, quiet_ms, 7, NOW_MS + wait_ms - 1) == SLOT_FREE))
            CU_FAIL("not free when told, or before");
    }
}

static void states_have_names(void) {
    CHECK_TEXT(slot_state_name(SLOT_ABSENT), "ABSENT");
    CHECK_TEXT(slot_state_name(SLOT_RESERVED), "RESERVED");
    CHECK_TEXT(slot_state_name(SLOT_HELD), "HELD");
    CHECK_TEXT(slot_state_name(SLOT_FREE), "FREE");
    CHECK_TEXT(slot_state_name(SLOT_COOLING), "COOLING");
    CHECK_TEXT(slot_state_name(SLOT_AHEAD), "AHEAD");
}

static void every_slot_is_counted_once(void) {
    struct registry_counts counts;

    put_horizon(1, SNOWFLAKE_EPOCH_MS, 1);
    put_horizon(2, SNOWFLAKE_EPOCH_MS, 1);
    put_horizon(3, NOW_MS, 1);
    put_horizon(4, NOW_MS + WINDOW_MS + 1, 1);
    put_horizon(5, NOW_MS, 1);
    put_own(5, OWN);
    put_own(1023, OWN);
    registry_count(&registry, &meta, QUIET_MS, NOW_MS, &counts);
    CU_ASSERT_EQUAL(counts.free, 2);
    CU_ASSERT_EQUAL(counts.cooling, 1);
    CU_ASSERT_EQUAL(counts.ahead, 1);
    CU_ASSERT_EQUAL(counts.held, 2);
    CU_ASSERT_EQUAL(counts.reserved, MACHINE_IDS - 100 - 1 + 1); /* 1023 is held, 13 reserved */
    CU_ASSERT_EQUAL(counts.absent, 100 - 5 - 1);
}

/* --- what is taken in --- */

static void own_says_who_holds_the_slot(void) {
    const struct slot *slot = &registry.slots[7];

    put_own(7, OWN);
    CU_ASSERT(slot->held);
    CHECK_TEXT(slot->own.claim, CLAIM);
    CHECK_TEXT(slot->own.identity, "prod/ids-0");
    CHECK_TEXT(slot->own_value, OWN);
    CU_ASSERT_EQUAL(slot->own_lease, 77);
    put_own(7, NULL);
    CU_ASSERT(!slot->held && !slot->own_value && slot->own_lease == 0);
    CHECK_TEXT(slot->own.identity, "");
}

static void an_unreadable_own_still_holds_the_slot(void) {
    const struct slot *slot = &registry.slots[7];

    put_horizon(7, SNOWFLAKE_EPOCH_MS, 1);
    put_own(7, OWN);
    put_own(7, "nonsense");
    CU_ASSERT_EQUAL(state_of(7), SLOT_HELD);
    CHECK_TEXT(slot->own.claim, ""); /* and is not taken for the one before */
    CHECK_TEXT(slot->own_value, "nonsense");
    put_own(7, "");
    CU_ASSERT_EQUAL(state_of(7), SLOT_HELD);
    CHECK_TEXT(slot->own_value, "");
}

static void an_unreadable_horizon_makes_the_slot_unusable(void) {
    char key[KEY_MAX];

    keys_hor(&keys, 7, key);
    put_horizon(7, SNOWFLAKE_EPOCH_MS, 1);
    CU_ASSERT_EQUAL(state_of(7), SLOT_FREE);
    apply(key, "00000001704067200000", 0, 2);
    CU_ASSERT_EQUAL(state_of(7), SLOT_ABSENT);
    CU_ASSERT_EQUAL(usable_in(7), UINT64_MAX);
    put_horizon(7, SNOWFLAKE_EPOCH_MS, 3);
    CU_ASSERT_EQUAL(state_of(7), SLOT_FREE);
    apply(key, NULL, 0, 4);
    CU_ASSERT_EQUAL(state_of(7), SLOT_ABSENT);
}

static const struct {
    const char *row, *key;
} ignored[] = {
    {"meta", "/snowfleet/prod/meta"},
    {"a node", "/snowfleet/prod/node/" INSTANCE},
    {"too short", "/snowfleet/prod/own/7"},
    {"too long", "/snowfleet/prod/own/00007"},
    {"no such machine ID", "/snowfleet/prod/own/1024"},
    {"another cluster", "/snowfleet/prod2/own/0007"},
    {"empty", ""},
};

static void other_keys_are_ignored(void) {
    struct registry_counts counts;
    size_t i;

    for (i = 0; i < ROWS(ignored); i++) {
        apply(ignored[i].key, OWN, 77, 1);
        registry_count(&registry, &meta, QUIET_MS, NOW_MS, &counts);
        CHECK_ROW(ignored[i].row, counts.held == 0);
    }
}

static void the_change_of_a_horizon_is_dated_when_it_was_first_seen(void) {
    const struct slot *slot = &registry.slots[7];
    char key[KEY_MAX];

    put_horizon(7, NOW_MS, 100);
    CU_ASSERT_EQUAL(slot->horizon_changed_boot_ms, 100);
    put_horizon(7, NOW_MS, 200); /* an event may come twice */
    CU_ASSERT_EQUAL(slot->horizon_changed_boot_ms, 100);
    put_horizon(7, NOW_MS + 1, 300);
    CU_ASSERT_EQUAL(slot->horizon_changed_boot_ms, 300);
    keys_hor(&keys, 7, key);
    apply(key, NULL, 0, 400);
    CU_ASSERT_EQUAL(slot->horizon_changed_boot_ms, 400);
    put_horizon(7, NOW_MS + 1, 500);
    CU_ASSERT_EQUAL(slot->horizon_changed_boot_ms, 500);
}

static void a_reset_drops_what_does_not_come_again(void) {
    put_horizon(7, SNOWFLAKE_EPOCH_MS, 100);
    put_horizon(8, SNOWFLAKE_EPOCH_MS, 100);
    put_horizon(9, SNOWFLAKE_EPOCH_MS, 100);
    put_own(7, OWN);
    put_own(8, OWN);
    registry_reset_begin(&registry);
    CU_ASSERT_EQUAL(state_of(8), SLOT_HELD); /* nothing is gone yet */
    put_horizon(7, SNOWFLAKE_EPOCH_MS, 200);
    put_horizon(8, NOW_MS, 200);
    put_own(7, OWN);
    registry_reset_end(&registry, 200);
    CU_ASSERT_EQUAL(state_of(7), SLOT_HELD);
    CU_ASSERT_EQUAL(registry.slots[7].horizon_changed_boot_ms, 100);
    CU_ASSERT_EQUAL(state_of(8), SLOT_COOLING);
    CU_ASSERT_EQUAL(registry.slots[8].horizon_changed_boot_ms, 200);
    CU_ASSERT_EQUAL(state_of(9), SLOT_ABSENT);
    CU_ASSERT_EQUAL(registry.slots[9].horizon_changed_boot_ms, 200);
}

static CU_TestInfo derived[] = {CHECK_TEST(a_slot_has_one_state_and_a_time_until_it_is_free),
                                CHECK_TEST(a_slot_is_free_when_told_and_not_before),
                                CHECK_TEST(states_have_names),
                                CHECK_TEST(every_slot_is_counted_once), CU_TEST_INFO_NULL};
static CU_TestInfo taken_in[] = {
    CHECK_TEST(own_says_who_holds_the_slot),
    CHECK_TEST(an_unreadable_own_still_holds_the_slot),
    CHECK_TEST(an_unreadable_horizon_makes_the_slot_unusable),
    CHECK_TEST(other_keys_are_ignored),
    CHECK_TEST(the_change_of_a_horizon_is_dated_when_it_was_first_seen),
    CHECK_TEST(a_reset_drops_what_does_not_come_again),
    CU_TEST_INFO_NULL};
CHECK_MAIN({"states", NULL, NULL, given_machine_ids_1_to_100_without_13, forget_all, derived},
           {"keys taken in", NULL, NULL, given_machine_ids_1_to_100_without_13, forget_all,
            taken_in})
