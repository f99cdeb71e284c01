/* Which machine IDs can be taken back, and what it takes. */
#include "coordinator/reclaim.h"
#include "tests/support/check.h"

#define NOW_MS UINT64_C(1764547200000)
#define EPOCH_MS UINT64_C(1704067200000)
#define QUIET_MS 90000u
#define WINDOW_MS 60000u
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NEVER UINT64_MAX

static struct keys keys;
static struct registry registry;
static struct meta meta;

static void apply(const char *range_start, unsigned machine_id, const char *value) {
    char key[KEY_MAX];

    snprintf(key, sizeof key, "%s%04u", range_start, machine_id);
    registry_apply(&registry, &keys, key, value, value ? strlen(value) : 0, 1, 1);
}

static void set_horizon(unsigned machine_id, uint64_t horizon_ms) {
    char text[HORIZON_TEXT_MAX];
    struct horizon horizon = {.horizon_ms = horizon_ms, .n = 1};

    memset(horizon.claim, 'c', HEX128_CHARS);
    horizon_format(&horizon, text);
    apply(keys.hor, machine_id, text);
}

static void hold(unsigned machine_id) {
    struct own own = {.identity = "prod/ids-0"};
    char *text;

    memset(own.claim, 'c', HEX128_CHARS);
    memset(own.instance, 'e', HEX128_CHARS);
    text = own_format(&own);
    apply(keys.own, machine_id, text);
    free(text);
}

/* Machine IDs 0..9, of which 9 is free. */
static void given_a_cluster_of_ten(void) {
    struct error err;

    CU_ASSERT_EQUAL_FATAL(keys_init(&keys, "default", &err), STATUS_OK);
    registry_done(&registry);
    registry_init(&registry);
    meta = (struct meta){.format = RECORD_FORMAT,
                         .epoch_ms = EPOCH_MS,
                         .floor_ms = EPOCH_MS,
                         .last_machine_id = 9,
                         .max_window_ms = WINDOW_MS,
                         .quiet_time_ms = QUIET_MS,
                         .max_offset_ms = 500};
    set_horizon(9, EPOCH_MS);
}

/* The horizon is that many ms after now. */
static const struct {
    const char *row;
    bool held, no_horizon;
    int64_t horizon_in_ms;
    uint64_t unchanged_ms;
    enum presence presence;
    struct reclaim expected; /* its presence is not looked at */
} rows[] = {
    {"never used", false, false, -1000000, 0, PRESENCE_NOT_ASKED, {.verdict = RECLAIM_FREE}},
    {"horizon and quiet time just past",
     false,
     false,
     -(int64_t)QUIET_MS - 1,
     0,
     PRESENCE_NOT_ASKED,
     {.verdict = RECLAIM_FREE}},
    {"a ms before that",
     false,
     false,
     -(int64_t)QUIET_MS,
     0,
     PRESENCE_NOT_ASKED,
     {.verdict = RECLAIM_COOLING, .usable_in_ms = 1}},
    {"let go with its window still ahead",
     false,
     false,
     50000,
     0,
     PRESENCE_NOT_ASKED,
     {.verdict = RECLAIM_COOLING, .usable_in_ms = 50000 + QUIET_MS + 1}},
    {"further ahead than any window",
     false,
     false,
     WINDOW_MS + 1,
     0,
     PRESENCE_NOT_ASKED,
     {.verdict = RECLAIM_AHEAD, .usable_in_ms = WINDOW_MS + QUIET_MS + 2}},
    {"no horizon",
     false,
     true,
     0,
     0,
     PRESENCE_NOT_ASKED,
     {.verdict = RECLAIM_ABSENT, .usable_in_ms = NEVER}},
    {"live",
     true,
     false,
     50000,
     3000,
     PRESENCE_THERE,
     {.verdict = RECLAIM_HELD,
      .stuck_in_ms = QUIET_MS - 3000,
      .usable_in_ms = 50000 + QUIET_MS + 1}},
    {"silent, its window still ahead",
     true,
     false,
     100000,
     3000,
     PRESENCE_SILENT,
     {.verdict = RECLAIM_HELD, .stuck_in_ms = 100001, .usable_in_ms = 100000 + QUIET_MS + 1}},
    {"horizon past, but it changed not long ago",
     true,
     false,
     -200000,
     QUIET_MS - 1,
     PRESENCE_SILENT,
     {.verdict = RECLAIM_HELD, .stuck_in_ms = 1}},
    {"horizon past and still, not asked",
     true,
     false,
     -200000,
     QUIET_MS,
     PRESENCE_NOT_ASKED,
     {.verdict = RECLAIM_HELD, .must_ask = true}},
    {"horizon past and still, but it serves",
     true,
     false,
     -200000,
     QUIET_MS,
     PRESENCE_THERE,
     {.verdict = RECLAIM_HELD}},
    {"horizon past and still, something else answers",
     true,
     false,
     -200000,
     QUIET_MS,
     PRESENCE_UNCLEAR,
     {.verdict = RECLAIM_HELD}},
    {"horizon past and still, silent",
     true,
     false,
     -200000,
     QUIET_MS,
     PRESENCE_SILENT,
     {.verdict = RECLAIM_STUCK}},
    {"horizon past and still, without that claim",
     true,
     false,
     -1,
     QUIET_MS,
     PRESENCE_NOT,
     {.verdict = RECLAIM_STUCK, .usable_in_ms = QUIET_MS}},
    {"its horizon is this very ms",
     true,
     false,
     0,
     QUIET_MS,
     PRESENCE_SILENT,
     {.verdict = RECLAIM_HELD, .stuck_in_ms = 1, .usable_in_ms = QUIET_MS + 1}},
    {"held without horizon",
     true,
     true,
     0,
     QUIET_MS,
     PRESENCE_SILENT,
     {.verdict = RECLAIM_HELD, .stuck_in_ms = NEVER, .usable_in_ms = NEVER}},
};

static void each_slot_gets_its_verdict(void) {
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct reclaim *expected = &rows[i].expected;
        struct reclaim reclaim;

        given_a_cluster_of_ten();
        if (!rows[i].no_horizon)
            set_horizon(3, (uint64_t)((int64_t)NOW_MS + rows[i].horizon_in_ms));
        if (rows[i].held)
            hold(3);
        reclaim = reclaim_judge(&registry, &meta, 3, QUIET_MS, NOW_MS, rows[i].unchanged_ms,
                                rows[i].presence);
        CHECK_ROW(rows[i].row, reclaim.verdict == expected->verdict);
        CHECK_ROW(rows[i].row, reclaim.must_ask == expected->must_ask);
        CHECK_ROW(rows[i].row, reclaim.stuck_in_ms == expected->stuck_in_ms);
        CHECK_ROW(rows[i].row, reclaim.usable_in_ms == expected->usable_in_ms);
    }
}

static void what_is_reserved_or_out_of_range_is_not_given_out(void) {
    struct reclaim reclaim;

    meta.reserved[4] = true;
    set_horizon(4, EPOCH_MS);
    set_horizon(11, EPOCH_MS);
    reclaim = reclaim_judge(&registry, &meta, 4, QUIET_MS, NOW_MS, 0, PRESENCE_NOT_ASKED);
    CU_ASSERT_EQUAL(reclaim.verdict, RECLAIM_RESERVED);
    reclaim = reclaim_judge(&registry, &meta, 11, QUIET_MS, NOW_MS, 0, PRESENCE_NOT_ASKED);
    CU_ASSERT_EQUAL(reclaim.verdict, RECLAIM_RESERVED);
    CU_ASSERT_EQUAL(reclaim.usable_in_ms, NEVER);
}

/* Whoever holds it all the same can be stuck like any other. */
static void a_reserved_machine_id_that_is_held_can_be_taken_back(void) {
    struct reclaim reclaim;

    meta.reserved[4] = true;
    set_horizon(4, NOW_MS - 1);
    hold(4);
    reclaim = reclaim_judge(&registry, &meta, 4, QUIET_MS, NOW_MS, QUIET_MS, PRESENCE_SILENT);
    CU_ASSERT_EQUAL(reclaim.verdict, RECLAIM_STUCK);
    CU_ASSERT_EQUAL(reclaim.usable_in_ms, NEVER);
}

static void without_a_free_slot_the_quiet_time_shrinks_to_zero(void) {
    struct reclaim reclaim;
    uint64_t quiet_ms;

    CU_ASSERT_EQUAL(reclaim_quiet_ms(&registry, &meta, NOW_MS), QUIET_MS);
    hold(9);
    set_horizon(3, NOW_MS - 1);
    quiet_ms = reclaim_quiet_ms(&registry, &meta, NOW_MS);
    CU_ASSERT_EQUAL(quiet_ms, 0);
    reclaim = reclaim_judge(&registry, &meta, 3, quiet_ms, NOW_MS, 0, PRESENCE_NOT_ASKED);
    CU_ASSERT_EQUAL(reclaim.verdict, RECLAIM_FREE);
    reclaim = reclaim_judge(&registry, &meta, 9, quiet_ms, NOW_MS, 0, PRESENCE_SILENT);
    CU_ASSERT_EQUAL(reclaim.verdict, RECLAIM_STUCK);
    CU_ASSERT_EQUAL(reclaim.usable_in_ms, 0);
}

static void no_two_verdicts_read_alike(void) {
    static const struct reclaim verdicts[] = {
        {.verdict = RECLAIM_FREE},
        {.verdict = RECLAIM_COOLING, .usable_in_ms = 34200},
        {.verdict = RECLAIM_AHEAD, .usable_in_ms = 3600000},
        {.verdict = RECLAIM_HELD, .presence = PRESENCE_THERE, .usable_in_ms = 57300},
        {.verdict = RECLAIM_HELD, .presence = PRESENCE_SILENT, .stuck_in_ms = 12500},
        {.verdict = RECLAIM_HELD, .presence = PRESENCE_UNCLEAR},
        {.verdict = RECLAIM_STUCK, .presence = PRESENCE_SILENT},
        {.verdict = RECLAIM_STUCK, .presence = PRESENCE_NOT, .usable_in_ms = NEVER},
        {.verdict = RECLAIM_RESERVED},
        {.verdict = RECLAIM_ABSENT},
    };
    static const char *const expected[COUNT(verdicts)] = {
        "free: there is nothing to take back",
        "cooling: nobody holds it, it comes free by itself in 34.2 s",
        "ahead: its horizon lies 3600.0 s in the future, and it comes free when real time passes "
        "that; a horizon is never set back",
        "held by prod/ids-0, which serves it; --force takes it, usable then in 57.3 s",
        "held by prod/ids-0, which does not answer; stuck in 12.5 s unless it goes on; --force "
        "takes it, usable then at once",
        "held by prod/ids-0, whose answer is not a worker's; --force takes it, usable then at once",
        "stuck: its horizon passed 5.0 s ago, and it still belongs to prod/ids-0, which does not "
        "answer; --yes takes it back, usable then at once",
        "stuck: its horizon passed 5.0 s ago, and it still belongs to prod/ids-0, which answers "
        "that it does not hold it; --yes takes it back, not usable after that either",
        "reserved or out of range: it is not given out",
        "its horizon is missing or cannot be read: it cannot be used",
    };
    struct slot slot = {.own = {.identity = "prod/ids-0"}};
    char text[RECLAIM_TEXT_MAX];

    for (size_t i = 0; i < COUNT(verdicts); i++) {
        slot.horizon.horizon_ms = verdicts[i].verdict == RECLAIM_AHEAD ? NOW_MS + 3600000
                                                                       : NOW_MS - 5000;
        reclaim_explain(&verdicts[i], &slot, NOW_MS, text);
        CHECK_TEXT(text, expected[i]);
    }
}

static void each_verdict_has_a_name(void) {
    for (unsigned verdict = 0; verdict < RECLAIM_VERDICTS; verdict++)
        CU_ASSERT_PTR_NOT_NULL(reclaim_verdict_name((enum reclaim_verdict)verdict));
    CHECK_TEXT(reclaim_verdict_name(RECLAIM_STUCK), "STUCK");
}

static CU_TestInfo rules[] = {
    CHECK_TEST(each_slot_gets_its_verdict),
    CHECK_TEST(what_is_reserved_or_out_of_range_is_not_given_out),
    CHECK_TEST(a_reserved_machine_id_that_is_held_can_be_taken_back),
    CHECK_TEST(without_a_free_slot_the_quiet_time_shrinks_to_zero),
    CHECK_TEST(no_two_verdicts_read_alike),
    CHECK_TEST(each_verdict_has_a_name),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"reclaim", NULL, NULL, given_a_cluster_of_ten, NULL, rules})
