#include "worker/render.h"

#include "common/snowflake.h"
#include "tests/support/check.h"
#include "worker/report.h"

#define NOW_MS UINT64_C(1748736000000) /* 2025-06-01 */

static void check_handed_over(char *text, size_t len, const char *expected) {
    CU_ASSERT_EQUAL(len, strlen(text));
    CHECK_TEXT(text, expected);
    free(text);
}

/* --- IDs --- */

static struct snowflake_run runs[3];
static struct service_ids ids;

static void given_ids_of_three_runs(void) {
    runs[0] = (struct snowflake_run){8, 4};
    runs[1] = (struct snowflake_run){998, 3};
    runs[2] = (struct snowflake_run){INT64_MAX, 1};
    ids = (struct service_ids){.want = 8, .have = 8, .runs = runs, .n_runs = 3};
    strcpy(ids.claim, "0123456789abcdef0123456789abcdef");
}

static void ids_stand_as_strings_in_json(void) {
    size_t len;
    char *text = render_ids_json(&ids, false, &len);

    check_handed_over(text, len,
                      "{\"kind\":\"snowflake\",\"count\":8,\"ids\":[\"8\",\"9\",\"10\",\"11\","
                      "\"998\",\"999\",\"1000\",\"9223372036854775807\"]}");
}

static void the_claim_comes_before_the_ids(void) {
    size_t len;
    char *text;

    ids.have = 1;
    ids.n_runs = 1;
    runs[0].count = 1;
    text = render_ids_json(&ids, true, &len);
    check_handed_over(text, len,
                      "{\"kind\":\"snowflake\",\"count\":1,"
                      "\"claim\":\"0123456789abcdef0123456789abcdef\",\"ids\":[\"8\"]}");
}

static void the_interval_of_true_time_stands_in_strings(void) {
    size_t len;
    char *text;

    given_ids_of_three_runs();
    ids.have = 1;
    ids.n_runs = 1;
    runs[0].count = 1;
    ids.bounded = true;
    ids.earliest_ms = 1764547200000;
    ids.latest_ms = UINT64_MAX;
    text = render_ids_json(&ids, true, &len);
    check_handed_over(
        text, len,
        "{\"kind\":\"snowflake\",\"count\":1,"
        "\"claim\":\"0123456789abcdef0123456789abcdef\","
        "\"interval_ms\":[\"1764547200000\",\"18446744073709551615\"],\"ids\":[\"8\"]}");
}

static void text_is_one_id_a_line(void) {
    size_t len;
    char *text = render_ids_text(&ids, &len);

    check_handed_over(text, len, "8\n9\n10\n11\n998\n999\n1000\n9223372036854775807\n");
}

static void the_largest_answer_has_room(void) {
    size_t len;
    char *text;

    runs[0] = (struct snowflake_run){INT64_MAX - 9999, 10000};
    ids.have = 10000;
    ids.n_runs = 1;
    text = render_ids_json(&ids, true, &len);
    CU_ASSERT(len > 10000 * 22 && len < 4194304);
    CHECK_TEXT(text + len - 24, ",\"9223372036854775807\"]}");
    free(text);
}

static void the_other_kinds_stand_in_their_canonical_form(void) {
    static struct id128 wide[] = {{{0x01, 0x7f, 0x22, 0xe2, 0x79, 0xb0, 0x7c, 0xc3, 0x98, 0xc4,
                                    0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f}},
                                  {{0}}};
    struct service_ids made = {.kind = ID_UUIDV7, .want = 2, .have = 2, .wide = wide};
    size_t len;
    char *text = render_ids_json(&made, false, &len);

    check_handed_over(text, len,
                      "{\"kind\":\"uuidv7\",\"count\":2,\"ids\":["
                      "\"017f22e2-79b0-7cc3-98c4-dc0c0c07398f\","
                      "\"00000000-0000-0000-0000-000000000000\"]}");
    made.kind = ID_ULID;
    text = render_ids_text(&made, &len);
    check_handed_over(text, len, "01FWHE4YDGFK1SHH6W1G60EECF\n00000000000000000000000000\n");
}

/* Texts of test_public_id.c. */
static void public_ids_stand_as_text(void) {
    static const char file[] = "1:000102030405060708090a0b0c0d0e0f";
    static struct snowflake_run two[] = {{0, 2}, {INT64_MAX, 1}};
    struct service_ids made = {.kind = ID_PUBLIC, .want = 3, .have = 3, .runs = two, .n_runs = 2};
    struct public_keys keys;
    struct error err;
    size_t len;
    char *text;

    CU_ASSERT_EQUAL_FATAL(public_keys_parse(file, strlen(file), &keys, &err), STATUS_OK);
    made.codec = public_codec_new(&keys, &err);
    strcpy(made.claim, "0123456789abcdef0123456789abcdef");
    text = render_ids_json(&made, true, &len);
    check_handed_over(text, len,
                      "{\"kind\":\"public\",\"count\":3,"
                      "\"claim\":\"0123456789abcdef0123456789abcdef\",\"ids\":["
                      "\"P12Z5J0D6MPKX3YB9BN470C8TXY8\",\"P102KTHJ1J8AMXSEP3THMVD976J3\","
                      "\"P1738R7A8SZFKA0FX1Z8456W536Y\"]}");
    text = render_ids_text(&made, &len);
    check_handed_over(text, len,
                      "P12Z5J0D6MPKX3YB9BN470C8TXY8\nP102KTHJ1J8AMXSEP3THMVD976J3\n"
                      "P1738R7A8SZFKA0FX1Z8456W536Y\n");
    public_codec_free(made.codec);
}

/* --- decode and errors --- */

static void the_future_begins_after_a_second(void) {
    static const struct {
        uint64_t ahead_ms;
        const char *future;
    } rows[] = {{0, "\"future\":false}"}, {1000, "\"future\":false}"}, {1001, "\"future\":true}"}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t smallest, largest;
        struct id_facts facts;
        size_t len;
        char *text;

        snowflake_range(NOW_MS + rows[i].ahead_ms, SNOWFLAKE_EPOCH_MS, &smallest, &largest);
        id_decode(&(struct id_value){.kind = ID_READ_SNOWFLAKE, .number = largest},
                  SNOWFLAKE_EPOCH_MS, NOW_MS, &facts);
        text = render_decoded(&facts, NULL, &len);
        CHECK_TEXT(text + len - strlen(rows[i].future), rows[i].future);
        free(text);
    }
}

static void an_error_may_quote_anything(void) {
    struct service_error err = {
        .code = "UNAVAILABLE", .message = "a \"b\" \\ \x01\xff", .retry_after_ms = 5};
    size_t len;
    char *text = render_error(&err, &len);

    check_handed_over(text, len,
                      "{\"error\":{\"code\":\"UNAVAILABLE\",\"message\":\"a \\\"b\\\" \\\\ ??\","
                      "\"retry_after_ms\":5}}");
}

/* --- the worker's state, as of the moment of asking --- */

static struct worker_view view;

static void given_a_worker_that_serves_for_60_s(void) {
    memset(&view, 0, sizeof view);
    view.state = WORKER_SERVING;
    view.n_machines = 1;
    view.machines[0].hold = (struct hold_view){
        .phase = HOLD_OPEN,
        .has_generation = true,
        .used_up_ms = NOW_MS - 1000,
        .limit_ms = NOW_MS + 60000,
    };
}

static void a_worker_whose_limits_are_past_is_starved(void) {
    CU_ASSERT_EQUAL(view_state(&view, NOW_MS + 60000), WORKER_SERVING);
    CU_ASSERT_EQUAL(view_runway_ms(&view, NOW_MS), 60000);
    CU_ASSERT_EQUAL(view_state(&view, NOW_MS + 60001), WORKER_STARVED);
    CU_ASSERT_EQUAL(view_runway_ms(&view, NOW_MS + 60001), 0);
    CHECK_TEXT(view_machine_state(&view.machines[0], NOW_MS + 60001), "STARVED");
}

static void one_of_two_machine_ids_is_enough(void) {
    view.machines[1] = view.machines[0];
    view.machines[1].hold.limit_ms = NOW_MS + 90000;
    view.n_machines = 2;
    CU_ASSERT_EQUAL(view_state(&view, NOW_MS + 70000), WORKER_SERVING);
    CU_ASSERT_EQUAL(view_runway_ms(&view, NOW_MS + 70000), 20000);
}

static void until_the_old_horizon_is_past_it_is_claiming(void) {
    view.machines[0].hold.used_up_ms = NOW_MS + 4000;
    CU_ASSERT_EQUAL(view_state(&view, NOW_MS + 4000), WORKER_CLAIMING);
    CHECK_TEXT(view_machine_state(&view.machines[0], NOW_MS + 4000), "CLAIMING");
    CU_ASSERT_EQUAL(view_state(&view, NOW_MS + 4001), WORKER_SERVING);
}

static const struct {
    enum hold_phase phase;
    bool has_generation;
    const char *state;
} phases[] = {
    {HOLD_SEEKING, false, "CLAIMING"}, {HOLD_CLAIMING, false, "CLAIMING"},
    {HOLD_HALTED, false, "CLAIMING"},  {HOLD_OPEN, true, "SERVING"},
    {HOLD_CLOSING, true, "CLOSED"},    {HOLD_RELEASING, true, "CLOSED"},
    {HOLD_RELEASED, false, "CLOSED"},
};

static void a_machine_id_s_state_follows_its_phase(void) {
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++) {
        view.machines[0].hold.phase = phases[i].phase;
        view.machines[0].hold.has_generation = phases[i].has_generation;
        CHECK_TEXT(view_machine_state(&view.machines[0], NOW_MS), phases[i].state);
    }
}

static void draining_starting_and_halted_are_the_control_thread_s_to_say(void) {
    static const enum worker_state states[] = {WORKER_STARTING, WORKER_DRAINING, WORKER_HALTED};

    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        view.state = states[i];
        CU_ASSERT_EQUAL(view_state(&view, NOW_MS), states[i]);
    }
}

static void a_loop_that_does_not_turn_is_named(void) {
    struct loop_gauges loops[2] = {{0}, {0}};
    struct report report = {
        .view = &view,
        .loops = loops,
        .n_loops = 2,
        .now = {.wall_ns = (int64_t)NOW_MS * 1000000, .boot_ns = INT64_C(100000000000)},
    };
    struct service_error err;

    CU_ASSERT_TRUE(report_live(&report, &err)); /* nobody has begun to turn */
    atomic_store(&loops[0].turned_boot_ms, 99000);
    atomic_store(&loops[1].turned_boot_ms, 90000);
    CU_ASSERT_TRUE(report_live(&report, &err));
    atomic_store(&loops[1].turned_boot_ms, 89999);
    CU_ASSERT_FALSE(report_live(&report, &err));
    CHECK_TEXT(err.message, "serving loop 1 does not turn");
    atomic_store(&loops[1].turned_boot_ms, 100000);
    view.published_boot_ms = 89999;
    CU_ASSERT_FALSE(report_live(&report, &err));
    CHECK_TEXT(err.message, "the control loop does not turn");
}

static void a_loop_serves_up_to_its_limit_and_unless_the_clock_is_behind(void) {
    static const struct {
        const char *row;
        uint64_t limit_ms, newest_ms;
        bool serves;
    } rows[] = {
        {"it has no generation", 0, 0, false},
        {"the clock is past all that was issued", NOW_MS + 1000, NOW_MS - 1, true},
        {"the last millisecond of the limit", NOW_MS, NOW_MS, true},
        {"the limit is past", NOW_MS - 1, NOW_MS - 1, false},
        {"behind as long as is waited out", NOW_MS + 1000, NOW_MS + 10, true},
        {"further behind", NOW_MS + 1000, NOW_MS + 11, false},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct loop_gauges loop = {.limit_ms = rows[i].limit_ms, .newest_ms = rows[i].newest_ms};

        CHECK_ROW(rows[i].row, view_loop_serves(&loop, NOW_MS, 10) == rows[i].serves);
    }
}

static CU_TestInfo id_rules[] = {
    CHECK_TEST(ids_stand_as_strings_in_json),
    CHECK_TEST(the_claim_comes_before_the_ids),
    CHECK_TEST(the_interval_of_true_time_stands_in_strings),
    CHECK_TEST(text_is_one_id_a_line),
    CHECK_TEST(the_largest_answer_has_room),
    CHECK_TEST(the_other_kinds_stand_in_their_canonical_form),
    CHECK_TEST(public_ids_stand_as_text),
    CHECK_TEST(the_future_begins_after_a_second),
    CHECK_TEST(an_error_may_quote_anything),
    CU_TEST_INFO_NULL,
};
static CU_TestInfo state_rules[] = {
    CHECK_TEST(a_worker_whose_limits_are_past_is_starved),
    CHECK_TEST(one_of_two_machine_ids_is_enough),
    CHECK_TEST(until_the_old_horizon_is_past_it_is_claiming),
    CHECK_TEST(a_machine_id_s_state_follows_its_phase),
    CHECK_TEST(draining_starting_and_halted_are_the_control_thread_s_to_say),
    CHECK_TEST(a_loop_that_does_not_turn_is_named),
    CHECK_TEST(a_loop_serves_up_to_its_limit_and_unless_the_clock_is_behind),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"bodies", NULL, NULL, given_ids_of_three_runs, NULL, id_rules},
           {"states", NULL, NULL, given_a_worker_that_serves_for_60_s, NULL, state_rules})
