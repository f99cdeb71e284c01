/* Which machine ID for which worker. */
#include "coordinator/placement.h"
#include "tests/support/check.h"

#define NOW_MS UINT64_C(1764547200000)
#define EPOCH_MS UINT64_C(1704067200000)
#define QUIET_MS 90000u
#define ALICE "a11ce000000000000000000000000000"
#define BOB "b0b00000000000000000000000000000"

static struct keys keys;
static struct registry registry;
static struct meta meta;
static struct placement placement;
static struct node node; /* what the worker asks */
static struct placement_answer answer;

static void set_horizon(unsigned machine_id, uint64_t horizon_ms) {
    struct horizon horizon = {.horizon_ms = horizon_ms, .n = 0};
    char key[KEY_MAX], text[HORIZON_TEXT_MAX];

    memset(horizon.claim, '0', HEX128_CHARS);
    keys_hor(&keys, (uint16_t)machine_id, key);
    horizon_format(&horizon, text);
    registry_apply(&registry, &keys, key, text, strlen(text), 0, 1);
}

static void hold(unsigned machine_id, const char *identity) {
    struct own own = {.claim = ALICE, .instance = ALICE};
    char key[KEY_MAX];
    char *text;

    snprintf(own.identity, sizeof own.identity, "%s", identity);
    text = own_format(&own);
    keys_own(&keys, (uint16_t)machine_id, key);
    registry_apply(&registry, &keys, key, text, strlen(text), 1, 1);
    placement_claimed(&placement, (uint16_t)machine_id, &own);
    free(text);
}

static void let_go(unsigned machine_id) {
    char key[KEY_MAX];

    keys_own(&keys, (uint16_t)machine_id, key);
    registry_apply(&registry, &keys, key, NULL, 0, 0, 1);
}

/* Machine IDs 0..7; each was last used a day ago, 7 longest ago. */
static void given_eight_free_machine_ids(void) {
    struct error err;

    CU_ASSERT_EQUAL_FATAL(keys_init(&keys, "default", &err), STATUS_OK);
    registry_done(&registry);
    registry_init(&registry);
    meta = (struct meta){.format = RECORD_FORMAT,
                         .epoch_ms = EPOCH_MS,
                         .floor_ms = EPOCH_MS,
                         .last_machine_id = 7,
                         .max_window_ms = 60000,
                         .quiet_time_ms = QUIET_MS,
                         .max_offset_ms = 500};
    memset(&placement, 0, sizeof placement);
    for (unsigned id = 0; id < 8; id++)
        set_horizon(id, NOW_MS - 86400000 - id * 1000);
    node = (struct node){.identity = "pod-1", .attempt = 1, .missing = 1};
}

static void ask(const char *instance) {
    placement_choose(&placement, &registry, &meta, instance, &node, NOW_MS, &answer);
}

static void the_oldest_horizon_comes_first(void) {
    ask(ALICE);
    CU_ASSERT_EQUAL_FATAL(answer.n, 1);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 7);
    CHECK_TEXT(answer.refused, "");
}

static void of_equal_horizons_the_lowest_machine_id_comes_first(void) {
    for (unsigned id = 0; id < 8; id++)
        set_horizon(id, EPOCH_MS);
    node.missing = 3;
    ask(ALICE);
    CU_ASSERT_EQUAL_FATAL(answer.n, 3);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 0);
    CU_ASSERT_EQUAL(answer.machine_ids[2], 2);
}

static void a_worker_gets_what_its_identity_held_last(void) {
    hold(3, "pod-1");
    let_go(3);
    ask(BOB);
    CU_ASSERT_EQUAL_FATAL(answer.n, 1);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 3);
}

static void even_while_it_cools_once_its_horizon_is_past(void) {
    hold(3, "pod-1");
    let_go(3);
    set_horizon(3, NOW_MS - 1);
    ask(BOB);
    CU_ASSERT_EQUAL_FATAL(answer.n, 1);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 3);
    set_horizon(3, NOW_MS + 1);
    ask(BOB);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 7);
}

static void a_wanted_machine_id_goes_before_the_last_one(void) {
    hold(3, "pod-1");
    let_go(3);
    node.wanted[0] = 5;
    node.n_wanted = 1;
    ask(BOB);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 5);
}

static void what_another_held_last_is_not_taken_while_it_cools(void) {
    hold(5, "pod-2");
    let_go(5);
    set_horizon(5, NOW_MS - 1);
    node.wanted[0] = 5;
    node.n_wanted = 1;
    ask(BOB);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 7);
}

static void a_wanted_machine_id_that_is_held_is_not_given(void) {
    hold(5, "pod-2");
    node.wanted[0] = 5;
    node.n_wanted = 1;
    ask(BOB);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 7);
}

static void a_wanted_machine_id_outside_the_range_is_not_given(void) {
    set_horizon(9, EPOCH_MS);
    node.wanted[0] = 9;
    node.n_wanted = 1;
    ask(BOB);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 7);
}

static void what_the_worker_refused_is_not_offered_again(void) {
    hold(7, "pod-1");
    let_go(7);
    node.wanted[0] = node.refused[0] = 7;
    node.n_wanted = node.n_refused = 1;
    ask(ALICE);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 6);
}

static void what_is_promised_to_another_is_not_given(void) {
    ask(ALICE);
    placement_promise(&placement, ALICE, answer.machine_ids, answer.n);
    ask(BOB);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 6);
    ask(ALICE); /* its own promise may be repeated */
    CU_ASSERT_EQUAL(answer.machine_ids[0], 7);
}

static void a_promise_that_no_longer_stands_binds_nobody(void) {
    const uint16_t seven = 7;

    placement_promise(&placement, ALICE, &seven, 1);
    placement_clear_promises(&placement);
    ask(BOB);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 7);
}

static void reserved_machine_ids_are_left_alone(void) {
    meta.reserved[7] = true;
    ask(ALICE);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 6);
}

static void the_quiet_time_shrinks_only_when_nothing_is_free(void) {
    for (unsigned id = 0; id < 7; id++)
        hold(id, "pod-2");
    set_horizon(7, NOW_MS - 1); /* COOLING, its horizon past */
    ask(ALICE);
    CU_ASSERT_EQUAL_FATAL(answer.n, 1);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 7);
    let_go(2);
    ask(ALICE);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 2);
}

static void a_slot_ahead_is_never_given(void) {
    for (unsigned id = 0; id < 8; id++)
        set_horizon(id, NOW_MS + 86400000);
    ask(ALICE);
    CU_ASSERT_EQUAL(answer.n, 0);
}

static void a_slot_without_horizon_is_never_given(void) {
    registry_done(&registry);
    registry_init(&registry);
    ask(ALICE);
    CU_ASSERT_EQUAL(answer.n, 0);
    CHECK_TEXT(answer.refused,
               "no machine ID free: 0 held, all others reserved, refused or promised");
}

static void none_free_says_how_many_are_held_and_when_to_come_again(void) {
    for (unsigned id = 0; id < 8; id++) {
        hold(id, "pod-2");
        set_horizon(id, NOW_MS + 60000 + id * 1000);
    }
    set_horizon(4, NOW_MS + 20000);
    ask(ALICE);
    CU_ASSERT_EQUAL(answer.n, 0);
    CU_ASSERT_EQUAL(
        strncmp(answer.refused, "no machine ID free: 8 held, next at 2025-12-01T00:00:20.", 56), 0);
    CU_ASSERT_EQUAL(answer.retry_after_ms, 5000); /* it may come free before */
}

static void all_1024_held_is_said_with_their_number(void) {
    meta.last_machine_id = (MACHINE_IDS - 1);
    for (unsigned id = 0; id <= (MACHINE_IDS - 1); id++) {
        set_horizon(id, NOW_MS + 60000);
        hold(id, "pod-2");
    }
    ask(BOB);
    CU_ASSERT_EQUAL(answer.n, 0);
    CU_ASSERT_EQUAL(strncmp(answer.refused, "no machine ID free: 1024 held, next at ", 39), 0);
    CU_ASSERT_EQUAL(answer.retry_after_ms, 5000); /* at most: one may be handed back any time */
}

static void machine_id_1023_is_given_and_1024_does_not_exist(void) {
    meta.last_machine_id = (MACHINE_IDS - 1);
    for (unsigned id = 0; id < (MACHINE_IDS - 1); id++)
        hold(id, "pod-2");
    set_horizon((MACHINE_IDS - 1), EPOCH_MS);
    node.missing = 2;
    ask(BOB);
    CU_ASSERT_EQUAL_FATAL(answer.n, 1);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 1023);
}

static void what_is_missing_is_given_as_far_as_it_goes(void) {
    for (unsigned id = 0; id < 6; id++)
        hold(id, "pod-2");
    node.missing = 5;
    ask(ALICE);
    CU_ASSERT_EQUAL(answer.n, 2);
    node.missing = RECORD_MACHINES_MAX + 10;
    meta.last_machine_id = 1023;
    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        let_go(id);
        set_horizon(id, EPOCH_MS);
    }
    ask(ALICE);
    CU_ASSERT_EQUAL(answer.n, RECORD_MACHINES_MAX);
}

static void while_only_the_floor_is_ahead_machine_ids_are_given(void) {
    meta.floor_ms = NOW_MS + 60000;
    ask(ALICE);
    CU_ASSERT_EQUAL_FATAL(answer.n, 1);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 7);
}

static void a_new_leader_recalls_from_node_records_whom_it_did_not_see(void) {
    placement_recall(&placement, 3, "pod-1");
    ask(BOB);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 3);
    hold(5, "pod-2");
    let_go(5);
    placement_recall(&placement, 5, "pod-1"); /* what was seen counts for more */
    node.identity[4] = '2';
    ask(BOB);
    CU_ASSERT_EQUAL(answer.machine_ids[0], 5);
}

#define NONE (-1)

/* Eight machine IDs, one character each: . free  c cooling  p its horizon just past  h held, its
 * horizon 20 s ahead + its number  a ahead  r reserved  x no horizon */
static const struct {
    const char *row, *slots;
    unsigned missing;
    int first;           /* what comes first, or NONE */
    size_t n;            /* how many are given */
    const char *refused; /* how it begins */
    uint64_t retry_after_ms;
} fleets[] = {
    {"all free", "........", 1, 7, 1, "", 0},
    {"only what is not reserved", "rrrrrr.r", 8, 6, 1, "", 0},
    {"reserved in the middle", "..rrrr..", 8, 7, 4, "", 0},
    {"free before cooling", "pppp.ppp", 1, 4, 1, "", 0},
    {"under pressure, what is past", "hhphhhhh", 1, 2, 1, "", 0},
    {"free, and under pressure for the rest", ".hhhhhhp", 2, 0, 2, "", 0},
    {"never what is ahead", "aaaaaaar", 1, NONE, 0,
     "no machine ID free: 0 held, next at 2025-12-02", 5000},
    {"none has a horizon", "xxxxxxxx", 1, NONE, 0,
     "no machine ID free: 0 held, all others reserved, refused or promised", 5000},
    {"all reserved but the held one", "rrrrrrrh", 1, NONE, 0,
     "no machine ID free: 1 held, next at 2025-12-01T00:00:27.001Z", 5000},
    {"the first of the held ones", "hhhhhhhh", 1, NONE, 0,
     "no machine ID free: 8 held, next at 2025-12-01T00:00:20.001Z", 5000},
    {"cooling before the held ones", "hhhhhhhc", 1, NONE, 0,
     "no machine ID free: 7 held, next at 2025-12-01T00:00:05.001Z", 5000},
    {"what is reserved does not come free", "rhhhhhhh", 1, NONE, 0,
     "no machine ID free: 7 held, next at 2025-12-01T00:00:21.001Z", 5000},
};

static void make(unsigned id, char kind) {
    char key[KEY_MAX];

    switch (kind) {
    case 'c': set_horizon(id, NOW_MS + 5000); break;
    case 'p': set_horizon(id, NOW_MS - 1); break;
    case 'a': set_horizon(id, NOW_MS + 86400000); break;
    case 'r': meta.reserved[id] = true; break;
    case 'h':
        hold(id, "pod-2");
        set_horizon(id, NOW_MS + 20000 + id * 1000);
        break;
    case 'x':
        keys_hor(&keys, (uint16_t)id, key);
        registry_apply(&registry, &keys, key, NULL, 0, 0, 1);
        break;
    default: break;
    }
}

static void each_fleet_gives_what_it_has_or_says_when(void) {
    for (size_t i = 0; i < sizeof fleets / sizeof fleets[0]; i++) {
        const char *row = fleets[i].row;

        given_eight_free_machine_ids();
        for (unsigned id = 0; id < 8; id++)
            make(id, fleets[i].slots[id]);
        node.missing = fleets[i].missing;
        ask(ALICE);
        CHECK_ROW(row, answer.n == fleets[i].n);
        CHECK_ROW(row, fleets[i].first == NONE || answer.machine_ids[0] == fleets[i].first);
        CHECK_ROW(row, strncmp(answer.refused, fleets[i].refused, strlen(fleets[i].refused)) == 0);
        CHECK_ROW(row, answer.retry_after_ms == fleets[i].retry_after_ms);
    }
}

static CU_TestInfo rules[] = {
    CHECK_TEST(the_oldest_horizon_comes_first),
    CHECK_TEST(of_equal_horizons_the_lowest_machine_id_comes_first),
    CHECK_TEST(a_worker_gets_what_its_identity_held_last),
    CHECK_TEST(even_while_it_cools_once_its_horizon_is_past),
    CHECK_TEST(a_wanted_machine_id_goes_before_the_last_one),
    CHECK_TEST(what_another_held_last_is_not_taken_while_it_cools),
    CHECK_TEST(a_wanted_machine_id_that_is_held_is_not_given),
    CHECK_TEST(a_wanted_machine_id_outside_the_range_is_not_given),
    CHECK_TEST(what_the_worker_refused_is_not_offered_again),
    CHECK_TEST(what_is_promised_to_another_is_not_given),
    CHECK_TEST(a_promise_that_no_longer_stands_binds_nobody),
    CHECK_TEST(reserved_machine_ids_are_left_alone),
    CHECK_TEST(the_quiet_time_shrinks_only_when_nothing_is_free),
    CHECK_TEST(a_slot_ahead_is_never_given),
    CHECK_TEST(a_slot_without_horizon_is_never_given),
    CHECK_TEST(none_free_says_how_many_are_held_and_when_to_come_again),
    CHECK_TEST(all_1024_held_is_said_with_their_number),
    CHECK_TEST(machine_id_1023_is_given_and_1024_does_not_exist),
    CHECK_TEST(what_is_missing_is_given_as_far_as_it_goes),
    CHECK_TEST(while_only_the_floor_is_ahead_machine_ids_are_given),
    CHECK_TEST(a_new_leader_recalls_from_node_records_whom_it_did_not_see),
    CHECK_TEST(each_fleet_gives_what_it_has_or_says_when),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"placement", NULL, NULL, given_eight_free_machine_ids, NULL, rules})
