/* What each path and method of the worker's HTTP interface means.  One serving thread in this
 * process, raw sockets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/check.h"
#include "tests/support/raw_http.h"
#include "tests/support/serving_fixture.h"

static struct serving_fixture fixture;

static void given_a_worker_that_serves(void) {
    serving_fixture_init(&fixture);
    serving_fixture_start(&fixture, "127.0.0.1:0");
    serving_fixture_grant(&fixture, 3600000);
}

static void stop(void) {
    serving_fixture_stop(&fixture);
}

static void sleep_ms(unsigned ms) {
    usleep(ms * 1000);
}

static int get(const char *target) {
    return raw_status(fixture.port, target);
}

static void check_body(const char *method, const char *target, const char *headers,
                       const char *body, int status, const char *expected) {
    struct raw_answer answer;

    CHECK_ROW(target, raw_ask(fixture.port, method, target, headers, body, &answer) == status);
    CHECK_TEXT(answer.body ? answer.body : "(none)", expected);
    raw_answer_free(&answer);
}

static uint64_t issued_total(void) {
    get("/livez"); /* another turn of the loop, which has published them */
    return atomic_load(&fixture.gauges.issued_total);
}

/* --- IDs --- */

static void ids_come_as_json_strings(void) {
    struct raw_answer answer;
    int64_t id;

    CU_ASSERT_EQUAL(raw_ask(fixture.port, "GET", "/v1/ids", "", "", &answer), 200);
    CU_ASSERT_EQUAL(
        sscanf(answer.body, "{\"kind\":\"snowflake\",\"count\":1,\"ids\":[\"%" SCNd64 "\"]}", &id),
        1);
    CU_ASSERT_EQUAL(snowflake_decode(id, SNOWFLAKE_EPOCH_MS).machine_id, 5);
    CU_ASSERT_TRUE(raw_header_is(&answer, "Content-Type", "application/json"));
    CU_ASSERT_TRUE(raw_header_is(&answer, "Cache-Control", "no-store"));
    raw_answer_free(&answer);
}

static void the_claim_is_told_when_asked_for(void) {
    static const char *const targets[] = {"/v1/ids?claim=1", "/v1/ids?claim=1&count=2"};
    struct raw_answer answer;

    for (size_t i = 0; i < 2; i++) {
        raw_ask(fixture.port, "GET", targets[i], "", "", &answer);
        CHECK_ROW(targets[i],
                  strstr(answer.body, ",\"claim\":\"" FIXTURE_CLAIM "\",\"ids\":[\"") != NULL);
        raw_answer_free(&answer);
    }
}

static size_t count_lines(const char *text) {
    size_t lines = 0;

    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static void text_has_one_id_a_line(void) {
    struct raw_answer answer;

    CU_ASSERT_EQUAL(
        raw_ask(fixture.port, "GET", "/v1/ids?count=10000", "Accept: text/plain\r\n", "", &answer),
        200);
    CU_ASSERT_EQUAL(count_lines(answer.body), 10000);
    CU_ASSERT_EQUAL(strspn(answer.body, "0123456789\n"), answer.body_len);
    CU_ASSERT_TRUE(raw_header_is(&answer, "Content-Type", "text/plain; charset=utf-8"));
    raw_answer_free(&answer);
}

static void post_takes_arguments_from_query_and_body(void) {
    static const struct {
        const char *target, *body;
        size_t lines;
    } rows[] = {
        {"/v1/ids", "", 1},
        {"/v1/ids?count=3", "", 3},
        {"/v1/ids", "{\"count\":3,\"kind\":\"snowflake\"}", 3},
        {"/v1/ids?kind=snowflake", "{\"count\":\"4\"}", 4},
        {"/v1/ids?count=10000", "{}", 10000},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct raw_answer answer;

        CHECK_ROW(rows[i].target, raw_ask(fixture.port, "POST", rows[i].target,
                                          "Accept: text/plain\r\n", rows[i].body, &answer) == 200);
        CHECK_ROW(rows[i].target, count_lines(answer.body) == rows[i].lines);
        raw_answer_free(&answer);
    }
}

/* B97 and the rest that is not understood. */
static const struct {
    const char *method, *target, *body, *field, *message;
} refusals[] = {
    {"GET", "/v1/ids?count=-1", "", "count", "count must be 1..10000, got -1"},
    {"GET", "/v1/ids?count=-2", "", "count", "count must be 1..10000, got -2"},
    {"GET", "/v1/ids?count=%2B5", "", "count", "count must be 1..10000, got +5"},
    {"GET", "/v1/ids?count=+5", "", "count", "count must be 1..10000, got \\\" 5\\\""},
    {"GET", "/v1/ids?count=5%20", "", "count", "count must be 1..10000, got \\\"5 \\\""},
    {"GET", "/v1/ids?count=05", "", "count", "count must be 1..10000, got 05"},
    {"GET", "/v1/ids?count=0x10", "", "count", "count must be 1..10000, got 0x10"},
    {"GET", "/v1/ids?count=1e3", "", "count", "count must be 1..10000, got 1e3"},
    {"GET", "/v1/ids?count=5.0", "", "count", "count must be 1..10000, got 5.0"},
    {"GET", "/v1/ids?count=", "", "count", "count must be 1..10000, got \\\"\\\""},
    {"GET", "/v1/ids?count", "", "count", "count must be 1..10000, got \\\"\\\""},
    {"GET", "/v1/ids?count=5;6", "", "count", "count must be 1..10000, got 5;6"},
    {"GET", "/v1/ids?count=5%00", "", "count", "count must be 1..10000, got \\\"5\\\\x00\\\""},
    {"GET", "/v1/ids?count=0", "", "count", "count must be 1..10000, got 0"},
    {"GET", "/v1/ids?count=10001", "", "count", "count must be 1..10000, got 10001"},
    {"GET", "/v1/ids?count=18446744073709551616", "", "count",
     "count must be 1..10000, got 18446744073709551616"},
    {"GET", "/v1/ids?count=18446744073709551617", "", "count",
     "count must be 1..10000, got 18446744073709551617"},
    {"GET", "/v1/ids?count=%D9%A5", "", "count",
     "count must be 1..10000, got \\\"\\\\xd9\\\\xa5\\\""},
    {"GET", "/v1/ids?count=1&count=1", "", "count", "count is given twice"},
    {"GET", "/v1/ids?count=1&%63ount=2", "", "count", "count is given twice"},
    {"POST", "/v1/ids?count=1", "{\"count\":1}", "count", "count is given twice"},
    {"POST", "/v1/ids", "{\"count\":-1}", "count", "count must be 1..10000, got -1"},
    {"GET", "/v1/ids?kind=guid", "", "kind",
     "kind must be snowflake, uuidv4, uuidv7, ulid, sequence or public, got guid"},
    {"GET", "/v1/ids?Count=5", "", "",
     "unknown argument Count; there are kind, count, claim, commit_wait, name and shard"},
    {"GET", "/v1/ids?x%22%0A=5", "", "",
     "unknown argument \\\"x\\\\x22\\\\x0a\\\"; there are kind, count, claim, commit_wait, name and shard"},
    {"GET", "/v1/ids", "{}", "body", "a GET takes no body"},
    {"GET", "/v1/decode/-1", "", "id",
     "id must be a Snowflake (0..9223372036854775807), a UUID, a ULID or a public ID, got -1"},
    {"GET", "/v1/decode/+5", "", "id",
     "id must be a Snowflake (0..9223372036854775807), a UUID, a ULID or a public ID, got +5"},
    {"GET", "/v1/decode/05", "", "id",
     "id must be a Snowflake (0..9223372036854775807), a UUID, a ULID or a public ID, got 05"},
    {"GET", "/v1/decode/", "", "id",
     "id must be a Snowflake (0..9223372036854775807), a UUID, a ULID or a public ID, got \\\"\\\""},
    {"GET", "/v1/decode/5%20", "", "id",
     "id must be a Snowflake (0..9223372036854775807), a UUID, a ULID or a public ID, got \\\"5 \\\""},
    {"GET", "/v1/decode/9223372036854775808", "", "id",
     "id must be a Snowflake (0..9223372036854775807), a UUID, a ULID or a public ID, got 9223372036854775808"},
    {"GET", "/v1/decode/5?count=1", "", "", "unknown argument count; there is kind"},
    {"POST", "/v1/decode", "", "body", NULL},
    {"POST", "/v1/decode", "{\"id\":9223372036854775808}", "id",
     "id is a number of more than 64 bits"},
    {"POST", "/v1/decode", "{\"id\":1e5}", "id", NULL},
    {"GET", "/v1/status?x=1", "", "", "unknown argument x; there is none here"},
};

static void what_is_not_understood_is_refused_and_named(void) {
    uint64_t before = issued_total();

    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const char *row = refusals[i].target;
        char field[48], message[256];
        struct raw_answer answer;

        CHECK_ROW(row, raw_ask(fixture.port, refusals[i].method, row, "", refusals[i].body,
                               &answer) == 400);
        snprintf(field, sizeof field, "\"field\":\"%s\"", refusals[i].field);
        snprintf(message, sizeof message, "\"message\":\"%s\"",
                 refusals[i].message ? refusals[i].message : "");
        CHECK_ROW(row,
                  answer.body && strstr(answer.body, "{\"error\":{\"code\":\"INVALID_ARGUMENT\"") ==
                                     answer.body);
        if (refusals[i].message && !strstr(answer.body, message))
            CHECK_TEXT(answer.body, message);
        CHECK_ROW(row, refusals[i].field[0] ? strstr(answer.body, field) != NULL
                                            : !strstr(answer.body, "\"field\""));
        raw_answer_free(&answer);
    }
    CU_ASSERT_EQUAL(issued_total(), before);
}

static const struct {
    const char *method, *target;
    int status;
    const char *allow;
} methods[] = {
    {"HEAD", "/v1/ids", 405, "GET, POST"},
    {"PUT", "/v1/ids", 405, "GET, POST"},
    {"get", "/v1/ids", 405, "GET, POST"},
    {"FOO", "/v1/ids", 405, "GET, POST"},
    {"OPTIONS", "/v1/ids", 405, "GET, POST"},
    {"DELETE", "/v1/status", 405, "GET, HEAD"},
    {"POST", "/v1/status", 405, "GET, HEAD"},
    {"GET", "/v1/decode", 405, "POST"},
    {"POST", "/v1/decode/5", 405, "GET, HEAD"},
    {"POST", "/livez", 405, "GET, HEAD"},
    {"HEAD", "/v1/status", 200, NULL},
    {"HEAD", "/livez", 200, NULL},
    {"HEAD", "/readyz", 200, NULL},
    {"HEAD", "/metrics", 200, NULL},
    {"HEAD", "/v1/clock", 200, NULL},
    {"HEAD", "/v1/decode/5", 200, NULL},
    {"GET", "/", 404, NULL},
    {"GET", "/v1", 404, NULL},
    {"GET", "/v1/ids/", 404, NULL},
    {"GET", "/V1/ids", 404, NULL},
    {"GET", "//v1/ids", 404, NULL},
    {"GET", "/v1/../livez", 404, NULL},
    {"GET", "http://test/livez", 200, NULL},
};

static void other_methods_and_paths_are_answered_and_issue_nothing(void) {
    uint64_t before = issued_total();

    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        const char *row = methods[i].target;
        struct raw_answer answer;
        char value[64];

        CHECK_ROW(row, raw_ask(fixture.port, methods[i].method, row, "", "", &answer) ==
                           methods[i].status);
        CHECK_ROW(row, raw_header(&answer, "Allow", value, sizeof value) == !!methods[i].allow);
        CHECK_ROW(row, !methods[i].allow || strcmp(value, methods[i].allow) == 0);
        raw_answer_free(&answer);
    }
    CU_ASSERT_EQUAL(issued_total(), before);
}

static void a_head_has_the_length_of_the_get_and_no_body(void) {
    struct raw_answer answer;
    struct raw raw;
    char length[24];

    raw_open(&raw, fixture.port);
    raw_print(&raw, "HEAD /livez HTTP/1.1\r\nHost: a\r\n\r\n"
                    "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n");
    CU_ASSERT_TRUE(raw_answer(&raw, &answer, true));
    CU_ASSERT_TRUE(raw_header(&answer, "Content-Length", length, sizeof length));
    CHECK_TEXT(length, "13");
    raw_answer_free(&answer);
    CU_ASSERT_TRUE(raw_answer(&raw, &answer, false));
    CHECK_TEXT(answer.body, "{\"live\":true}");
    raw_answer_free(&answer);
    raw_close(&raw, false);
}

/* --- decode --- */

static void an_id_is_taken_apart(void) {
    /* B34, B36: exact beyond 53 bits, whichever way it came. */
    static const char sevens[] =
        "{\"kind\":\"snowflake\",\"id\":\"187354526515220487\",\"time\":\"2025-06-01T00:00:00.000Z\","
        "\"timestamp_ms\":\"1748736000000\",\"machine_id\":5,\"sequence\":7,\"future\":false,"
        "\"ambiguous\":[\"snowflake\",\"sequence\"],"
        "\"holder\":\"test/fixture\"}";

    check_body("GET", "/v1/decode/187354526515220487", "", "", 200, sevens);
    check_body("POST", "/v1/decode", "", "{\"id\":\"187354526515220487\"}", 200, sevens);
    check_body("POST", "/v1/decode", "", "{\"id\":187354526515220487}", 200, sevens);
    check_body("POST", "/v1/decode", "", "{\"id\":264905529757794303}", 200,
               "{\"kind\":\"snowflake\",\"id\":\"264905529757794303\","
               "\"time\":\"2026-01-01T00:00:00.000Z\",\"timestamp_ms\":\"1767225600000\","
               "\"machine_id\":1023,\"sequence\":4095,\"future\":false,"
               "\"ambiguous\":[\"snowflake\",\"sequence\"]}");
    check_body("POST", "/v1/decode", "", "{\"id\":9223372036854775807}", 200,
               "{\"kind\":\"snowflake\",\"id\":\"9223372036854775807\","
               "\"time\":\"2093-09-06T15:47:35.551Z\",\"timestamp_ms\":\"3903090455551\","
               "\"machine_id\":1023,\"sequence\":4095,\"future\":true,"
               "\"ambiguous\":[\"snowflake\",\"sequence\"]}");
    check_body("GET", "/v1/decode/0", "", "", 200,
               "{\"kind\":\"snowflake\",\"id\":\"0\",\"time\":\"2024-01-01T00:00:00.000Z\","
               "\"timestamp_ms\":\"1704067200000\",\"machine_id\":0,\"sequence\":0,"
               "\"future\":false,"
               "\"ambiguous\":[\"snowflake\",\"sequence\"]}");
}

static bool decoded_as_future(uint64_t timestamp_ms) {
    struct raw_answer answer;
    int64_t smallest, largest;
    char target[64];
    bool future;

    snowflake_range(timestamp_ms, SNOWFLAKE_EPOCH_MS, &smallest, &largest);
    snprintf(target, sizeof target, "/v1/decode/%" PRId64, smallest);
    raw_ask(fixture.port, "GET", target, "", "", &answer);
    future = strstr(answer.body, "\"future\":true") != NULL;
    raw_answer_free(&answer);
    return future;
}

/* B26 */
static void an_id_of_more_than_a_second_ahead_is_marked(void) {
    uint64_t now_ms = clock_now(&fixture.config.clock).wall_ms;

    CU_ASSERT_FALSE(decoded_as_future(now_ms));
    CU_ASSERT_FALSE(decoded_as_future(now_ms + 1000)); /* test_id_decode.c has the ms after it */
    CU_ASSERT_TRUE(decoded_as_future(now_ms + 3600000));
}

/* --- the worker's state --- */

static void without_a_machine_id_it_says_so_and_when_to_try_again(void) {
    struct raw_answer answer;

    serving_fixture_order(&fixture, SERVING_DROP);
    serving_fixture_publish(&fixture, WORKER_CLAIMING, "floor");
    CU_ASSERT_EQUAL(raw_ask(fixture.port, "GET", "/v1/ids", "", "", &answer), 503);
    CHECK_TEXT(answer.body, "{\"error\":{\"code\":\"UNAVAILABLE\",\"message\":\"no machine ID yet: "
                            "floor\",\"retry_after_ms\":1000}}");
    CU_ASSERT_TRUE(raw_header_is(&answer, "Retry-After", "1"));
    raw_answer_free(&answer);
    CU_ASSERT_EQUAL(get("/readyz"), 503);
    CU_ASSERT_EQUAL(get("/livez"), 200);
    CU_ASSERT_EQUAL(get("/metrics"), 200);
    serving_fixture_grant(&fixture, 60000);
    CU_ASSERT_EQUAL(get("/v1/ids"), 200);
    CU_ASSERT_EQUAL(get("/readyz"), 200);
}

static void when_its_time_is_used_up_it_is_not_ready(void) {
    struct raw_answer answer;

    serving_fixture_order(&fixture, SERVING_DROP);
    serving_fixture_grant(&fixture, 3000);
    CU_ASSERT_EQUAL(get("/readyz"), 200);
    sleep_ms(3100);
    CU_ASSERT_EQUAL(raw_ask(fixture.port, "GET", "/readyz", "", "", &answer), 503);
    CU_ASSERT_PTR_NOT_NULL(strstr(answer.body, "\"state\":\"STARVED\""));
    raw_answer_free(&answer);
    CU_ASSERT_EQUAL(raw_ask(fixture.port, "GET", "/v1/ids", "", "", &answer), 503);
    CU_ASSERT_PTR_NOT_NULL(strstr(answer.body, "the time granted to machine ID 5 ended"));
    raw_answer_free(&answer);
    raw_ask(fixture.port, "GET", "/v1/status", "", "", &answer);
    CU_ASSERT_PTR_NOT_NULL(strstr(answer.body,
                                  "\"state\":\"STARVED\",\"reason\":\"the time granted "
                                  "is used up\""));
    raw_answer_free(&answer);
}

static void a_closed_generation_hands_over_its_last_and_issues_no_more(void) {
    struct raw_answer answer;
    int64_t id;

    raw_ask(fixture.port, "GET", "/v1/ids", "Accept: text/plain\r\n", "", &answer);
    id = strtoll(answer.body, NULL, 10);
    raw_answer_free(&answer);
    serving_fixture_order(&fixture, SERVING_CLOSE);
    CU_ASSERT_EQUAL(get("/v1/ids"), 503);
    CU_ASSERT_EQUAL(atomic_load(&fixture.closed_times), 1);
    CU_ASSERT_EQUAL(atomic_load(&fixture.closed_ms),
                    snowflake_decode(id, SNOWFLAKE_EPOCH_MS).timestamp_ms);
}

static void a_loop_that_hangs_fails_its_liveness(void) {
    struct loop_gauges *gauges = &fixture.gauges;
    uint64_t now_ms = clock_now(&fixture.config.clock).boot_ms;
    struct raw_answer answer;

    view_publish(&fixture.board, &fixture.view, now_ms - 9000);
    CU_ASSERT_EQUAL(get("/livez"), 200);
    view_publish(&fixture.board, &fixture.view, now_ms > 20000 ? now_ms - 20000 : 1);
    CU_ASSERT_EQUAL(raw_ask(fixture.port, "GET", "/livez", "", "", &answer), 503);
    CU_ASSERT_PTR_NOT_NULL(strstr(answer.body, "the control loop does not turn"));
    raw_answer_free(&answer);
    view_publish(&fixture.board, &fixture.view, now_ms);
    sleep_ms(1200);
    CU_ASSERT(atomic_load(&gauges->turned_boot_ms) > now_ms);
    CU_ASSERT_EQUAL(get("/livez"), 200);
}

static void status_tells_what_tools_rely_on(void) {
    static const char *const names[] = {
        "\"state\":\"SERVING\"",
        "\"identity\":\"test/fixture\"",
        "\"machine_id\":5",
        "\"claim\":\"" FIXTURE_CLAIM "\"",
        "\"limit_ms\":\"",
        "\"horizon_ms\":\"",
        "\"runway_ms\":",
        "\"last_issued_ms\":\"",
        "\"issued_total\":\"1\"",
        "\"era\":\"",
        "\"epoch_ms\":\"1704067200000\"",
        "\"machine_id_range\":\"0-1023\"",
        "\"reserved\":[7,\"100-102\"]",
        "\"window_ms\":",
        "\"lease_ttl_s\":",
        "\"clock\":{",
    };
    struct meta *meta = &fixture.view.meta;
    struct raw_answer answer;

    fixture.view.has_meta = true;
    *meta = (struct meta){.format = 1,
                          .serial = 1,
                          .epoch_ms = SNOWFLAKE_EPOCH_MS,
                          .last_machine_id = 1023,
                          .max_window_ms = 60000};
    memset(meta->era, 'e', HEX128_CHARS);
    meta->reserved[7] = meta->reserved[100] = meta->reserved[101] = meta->reserved[102] = true;
    serving_fixture_publish(&fixture, WORKER_SERVING, "");
    get("/v1/ids");
    CU_ASSERT_EQUAL(raw_ask(fixture.port, "GET", "/v1/status", "", "", &answer), 200);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CHECK_ROW(names[i], strstr(answer.body, names[i]) != NULL);
    raw_answer_free(&answer);
}

static void the_clock_is_told_in_strings(void) {
    struct instant_ns before = clock_now_ns(&fixture.config.clock), after;
    int64_t receive_ns, transmit_ns, boot_ns;
    struct raw_answer answer;

    raw_ask(fixture.port, "GET", "/v1/clock", "", "", &answer);
    after = clock_now_ns(&fixture.config.clock);
    CU_ASSERT_EQUAL(sscanf(answer.body,
                           "{\"receive_ns\":\"%" SCNd64 "\",\"transmit_ns\":\"%" SCNd64
                           "\",\"boot_ns\":\"%" SCNd64 "\",\"max_error_ns\":null",
                           &receive_ns, &transmit_ns, &boot_ns),
                    3);
    CU_ASSERT(before.wall_ns < receive_ns && receive_ns < transmit_ns &&
              transmit_ns < after.wall_ns);
    CU_ASSERT(before.boot_ns < boot_ns && boot_ns < after.boot_ns);
    raw_answer_free(&answer);
}

/* B110 */
static void metrics_have_their_type_and_help(void) {
    struct raw_answer answer;

    get("/v1/ids?count=3");
    CU_ASSERT_EQUAL(raw_ask(fixture.port, "GET", "/metrics",
                            "Accept: application/openmetrics-text\r\n", "", &answer),
                    200);
    CU_ASSERT_TRUE(
        raw_header_is(&answer, "Content-Type", "text/plain; version=0.0.4; charset=utf-8"));
    CU_ASSERT_PTR_NOT_NULL(
        strstr(answer.body, "\nsnowfleet_ids_issued_total{kind=\"snowflake\",loop=\"0\"} 3\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer.body, "\nsnowfleet_worker_state{state=\"SERVING\"} 1\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer.body, "# TYPE snowfleet_ids_issued_total counter\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer.body, "# HELP snowfleet_runway_seconds "));
    CU_ASSERT_EQUAL(answer.body[answer.body_len - 1], '\n');
    raw_answer_free(&answer);
}

static CU_TestInfo route_rules[] = {
    CHECK_TEST(ids_come_as_json_strings),
    CHECK_TEST(the_claim_is_told_when_asked_for),
    CHECK_TEST(text_has_one_id_a_line),
    CHECK_TEST(post_takes_arguments_from_query_and_body),
    CHECK_TEST(what_is_not_understood_is_refused_and_named),
    CHECK_TEST(other_methods_and_paths_are_answered_and_issue_nothing),
    CHECK_TEST(a_head_has_the_length_of_the_get_and_no_body),
    CHECK_TEST(an_id_is_taken_apart),
    CHECK_TEST(an_id_of_more_than_a_second_ahead_is_marked),
    CHECK_TEST(without_a_machine_id_it_says_so_and_when_to_try_again),
    CHECK_TEST(when_its_time_is_used_up_it_is_not_ready),
    CHECK_TEST(a_closed_generation_hands_over_its_last_and_issues_no_more),
    CHECK_TEST(a_loop_that_hangs_fails_its_liveness),
    CHECK_TEST(status_tells_what_tools_rely_on),
    CHECK_TEST(the_clock_is_told_in_strings),
    CHECK_TEST(metrics_have_their_type_and_help),
    CU_TEST_INFO_NULL,
};
CHECK_MAIN({"routes", NULL, NULL, given_a_worker_that_serves, stop, route_rules})
