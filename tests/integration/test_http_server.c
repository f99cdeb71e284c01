/* What a client on the wire sees: framing, limits, routes, drain.  One serving thread in this
 * process, raw sockets. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/decimal.h"
#include "tests/support/check.h"
#include "tests/support/raw_http.h"
#include "tests/support/serving_fixture.h"

#define KIB 1024u
#define MIB (1024u * 1024u)

static struct serving_fixture fixture;

static void given_a_worker_that_serves(void) {
    serving_fixture_init(&fixture);
    fixture.config.request_timeout_ms = 3000; /* some of what is sent here never ends */
    serving_fixture_start(&fixture, "127.0.0.1:0");
    serving_fixture_grant(&fixture, 3600000);
}

/* Short limits, few connections. */
static void given_a_worker_with_tight_limits(void) {
    serving_fixture_init(&fixture);
    fixture.config.max_connections = 64;
    fixture.config.request_timeout_ms = 800;
    fixture.config.idle_timeout_ms = 1600;
    serving_fixture_start(&fixture, "127.0.0.1:0");
    serving_fixture_grant(&fixture, 3600000);
}

static void stop(void) {
    serving_fixture_stop(&fixture);
}

/* One request on a connection of its own. */
static int ask(const char *method, const char *target, const char *headers, const char *body,
               struct raw_answer *answer) {
    struct raw raw;

    raw_open(&raw, fixture.port);
    raw_print(&raw, "%s %s HTTP/1.1\r\nHost: test\r\n%sContent-Length: %zu\r\n\r\n%s", method,
              target, headers, strlen(body), body);
    raw_answer(&raw, answer, strcmp(method, "HEAD") == 0);
    raw_close(&raw, false);
    return answer->status;
}

static int get(const char *target) {
    struct raw_answer answer;
    int status = raw_get(fixture.port, target, "", &answer) ? answer.status : 0;

    raw_answer_free(&answer);
    return status;
}

static void check_body(const char *method, const char *target, const char *headers,
                       const char *body, int status, const char *expected) {
    struct raw_answer answer;

    CHECK_ROW(target, ask(method, target, headers, body, &answer) == status);
    CHECK_TEXT(answer.body ? answer.body : "(none)", expected);
    raw_answer_free(&answer);
}

static bool has_header(const struct raw_answer *answer, const char *name, const char *expected) {
    char value[256];

    return raw_header(answer, name, value, sizeof value) && strcmp(value, expected) == 0;
}

static uint64_t issued_total(void) {
    return atomic_load(&fixture.gauges.issued_total);
}

static uint64_t cpu_ms(void) {
    struct timespec spent;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return (uint64_t)spent.tv_sec * 1000 + (uint64_t)spent.tv_nsec / 1000000;
}

static size_t resident_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long total = 0, resident = 0;

    if (!file || fscanf(file, "%lu %lu", &total, &resident) != 2)
        abort();
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void sleep_ms(unsigned ms) {
    usleep(ms * 1000);
}

/* --- framing: B90 and the table of reference/server-stack.md --- */

#define POST "POST /v1/ids HTTP/1.1\r\nHost: a\r\n"
#define GOOD "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n\r\n"

enum fate {
    REFUSED, /* an error of the client's, or no answer at all, and closed */
    SERVED   /* and the request behind it too */
};
static const struct {
    const char *row, *bytes;
    enum fate fate;
    int status; /* 0: any error, or none */
} framings[] = {
    {"a good one", POST "Content-Length: 2\r\n\r\n{}", SERVED, 200},
    {"a good chunked one", POST CHUNKED "2;x=y\r\n{}\r\n0\r\n\r\n", SERVED, 200},
    {"length and chunked", POST "Content-Length: 5\r\n" CHUNKED "0\r\n\r\n", REFUSED, 400},
    {"chunked and length", POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
     REFUSED, 400},
    {"two lengths", POST "Content-Length: 2\r\nContent-Length: 44\r\n\r\n{}", REFUSED, 400},
    {"two equal lengths", POST "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", REFUSED, 400},
    {"length +2", POST "Content-Length: +2\r\n\r\n{}", REFUSED, 0},
    {"length -1", POST "Content-Length: -1\r\n\r\n", REFUSED, 0},
    {"length 0x2", POST "Content-Length: 0x2\r\n\r\n{}", REFUSED, 0},
    {"length 0, 44", POST "Content-Length: 0, 44\r\n\r\n", REFUSED, 0},
    {"length above 2^64", POST "Content-Length: 18446744073709551616\r\n\r\n", REFUSED, 0},
    {"xchunked", POST "Transfer-Encoding: xchunked\r\n\r\n", REFUSED, 400},
    {"identity, chunked", POST "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", REFUSED,
     400},
    {"chunked and a tab", POST "Transfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n", REFUSED, 0},
    {"chunked twice", POST "Transfer-Encoding: chunked\r\n" CHUNKED "0\r\n\r\n", REFUSED, 400},
    {"a blank before the colon of a length", POST "Content-Length : 2\r\n\r\n", REFUSED, 400},
    {"a blank before the colon of chunked", POST "Transfer-Encoding : chunked\r\n\r\n", REFUSED,
     400},
    {"a folded header", POST "X: a\r\n b\r\nContent-Length: 2\r\n\r\n{}", SERVED, 200},
    {"a bare CR in a value", POST "X: a\rb\r\n\r\n", REFUSED, 400},
    {"two hosts", POST "Host: b\r\n\r\n", REFUSED, 400},
    {"1.0 and chunked", "POST /v1/ids HTTP/1.0\r\n" CHUNKED "0\r\n\r\n", REFUSED, 400},
    {"no host", "GET /v1/ids HTTP/1.1\r\n\r\n", REFUSED, 400},
    {"chunk size 0x5", POST CHUNKED "0x5\r\nhello\r\n0\r\n\r\n", REFUSED, 0},
    {"chunk size of 64 bits", POST CHUNKED "FFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n", REFUSED, 0},
    {"chunk size of 68 bits", POST CHUNKED "FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n", REFUSED, 0},
    {"chunk size -1", POST CHUNKED "-1\r\nhello\r\n0\r\n\r\n", REFUSED, 0},
    {"junk after a chunk", POST CHUNKED "2\r\n{}junk\r\n0\r\n\r\n", REFUSED, 0},
    {"length 300000", POST "Content-Length: 300000\r\n\r\n", REFUSED, 413},
    {"HTTP/2.0", "GET /v1/ids HTTP/2.0\r\nHost: a\r\n\r\n", REFUSED, 0},
    {"a blank in the target", "GET /v1/ids x HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED, 0},
    {"a bad escape", "GET /v1/%zz HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED, 400},
    {"a NUL in the path", "GET /v1/decode/5%00 HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED, 400},
    /* libmicrohttpd takes a bare LF as a line's end everywhere, so nobody is misled by it. */
    {"bare LF as the line's end", "POST /v1/ids HTTP/1.1\nHost: a\nContent-Length: 2\n\n{}", SERVED,
     200},
};

static void ambiguous_requests_are_refused_and_hide_nothing(void) {
    for (size_t i = 0; i < sizeof framings / sizeof framings[0]; i++) {
        const char *row = framings[i].row;
        struct raw_answer first, second;
        struct raw raw;
        bool answered;

        raw_open(&raw, fixture.port);
        raw_print(&raw, "%s" GOOD, framings[i].bytes);
        answered = raw_answer(&raw, &first, false);
        if (framings[i].fate == SERVED) {
            CHECK_ROW(row, first.status == framings[i].status);
            CHECK_ROW(row, raw_answer(&raw, &second, false) && second.status == 200);
            raw_answer_free(&second);
        } else {
            CHECK_ROW(row, !answered || (first.status >= 400 && first.status <= 505));
            CHECK_ROW(row, !framings[i].status || first.status == framings[i].status);
            CHECK_ROW(row, !raw_answer(&raw, &second, false));
            raw_answer_free(&second);
            CHECK_ROW(row, raw_closed(&raw, 2000));
        }
        raw_answer_free(&first);
        raw_close(&raw, false);
    }
    CU_ASSERT_EQUAL(get("/livez"), 200);
}

static void a_refusal_by_the_guard_is_ours_and_counted(void) {
    struct raw_answer answer;
    struct raw raw;

    raw_open(&raw, fixture.port);
    raw_print(&raw, POST "Host: b\r\n\r\n");
    CU_ASSERT_TRUE(raw_answer(&raw, &answer, false));
    CHECK_TEXT(answer.body,
               "{\"error\":{\"code\":\"INVALID_ARGUMENT\",\"message\":\"more than one Host\"}}");
    CU_ASSERT_TRUE(has_header(&answer, "Content-Type", "application/json"));
    raw_answer_free(&answer);
    raw_close(&raw, false);
    get("/livez");
    CU_ASSERT_EQUAL(atomic_load(&fixture.gauges.http_guard_refusals_total), 1);
}

/* --- sizes: B93 --- */

/* Sends head, then filler up to that size; true when the server closed, or answered and closed,
 * before all of it was taken. */
static bool flood(const char *head, const char *filler, size_t filler_len, size_t total,
                  int *status) {
    struct raw_answer answer;
    struct raw raw;
    bool stopped = false;
    size_t sent;

    raw_open(&raw, fixture.port);
    raw_print(&raw, "%s", head);
    for (sent = 0; sent < total && !stopped; sent += filler_len)
        stopped = !raw_send(&raw, filler, filler_len);
    raw_answer(&raw, &answer, false);
    *status = answer.status;
    raw_answer_free(&answer);
    stopped = stopped || raw_closed(&raw, 5000);
    raw_close(&raw, false);
    return stopped;
}

static void endless_headers_targets_and_bodies_are_cut_off(void) {
    static char letters[64 * KIB + 1], chunk[8 * KIB + 16];
    size_t before = resident_bytes();
    int status;

    memset(letters, 'a', sizeof letters - 1);
    snprintf(chunk, sizeof chunk, "2000\r\n%.*s\r\n", 8192, letters);
    CU_ASSERT_TRUE(flood("GET /livez HTTP/1.1\r\nHost: a\r\nX: ", letters, sizeof letters - 1,
                         100 * MIB, &status));
    CU_ASSERT(status == 0 || status == 431 || status == 413);
    CU_ASSERT_TRUE(flood("GET /", letters, sizeof letters - 1, 10 * MIB, &status));
    CU_ASSERT(status == 0 || status == 414);
    CU_ASSERT_TRUE(flood("GET /livez HTTP/1.1\r\nHost: a\r\n", "X: y\r\n", 6, 6 * MIB, &status));
    CU_ASSERT(status == 0 || status == 431 || status == 413);
    CU_ASSERT_TRUE(flood(POST CHUNKED, chunk, strlen(chunk), 1024 * MIB, &status));
    CU_ASSERT(status == 0 || status == 413);
    CU_ASSERT_TRUE(flood(POST CHUNKED "5;", letters, sizeof letters - 1, 100 * MIB, &status));
    CU_ASSERT(status == 0 || status == 413 || status == 400);
    CU_ASSERT_TRUE(flood("GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741824\r\n\r\n",
                         letters, sizeof letters - 1, 1024 * MIB, &status));
    CU_ASSERT(status == 0 || status == 413);
    CU_ASSERT(resident_bytes() < before + 6 * MIB);
    CU_ASSERT_EQUAL(get("/livez"), 200);
}

static void twelve_kilobytes_of_headers_pass(void) {
    static char headers[13 * KIB];
    struct raw_answer answer;

    memset(headers, 'a', sizeof headers);
    memcpy(headers, "X: ", 3);
    memcpy(headers + 12 * KIB, "\r\n", 3);
    CU_ASSERT_TRUE(raw_get(fixture.port, "/livez", headers, &answer));
    CU_ASSERT_EQUAL(answer.status, 200);
    raw_answer_free(&answer);
}

static void a_body_over_the_limit_gets_413(void) {
    static char body[80 * KIB];
    struct raw_answer answer;
    struct raw raw;

    /* Just over, with its length told: refused before it was sent. */
    raw_open(&raw, fixture.port);
    raw_print(&raw, POST "Content-Length: %u\r\n\r\n", 64 * KIB + 1);
    CU_ASSERT_TRUE(raw_answer(&raw, &answer, false));
    CU_ASSERT_EQUAL(answer.status, 413);
    CHECK_TEXT(answer.body, "{\"error\":{\"code\":\"INVALID_ARGUMENT\",\"message\":\"the body is "
                            "larger than 65536 bytes\"}}");
    raw_answer_free(&answer);
    raw_close(&raw, false);

    /* The same chunked: it cannot be known before. */
    memset(body, ' ', sizeof body - 1);
    raw_open(&raw, fixture.port);
    raw_print(&raw, POST CHUNKED "%zx\r\n%s\r\n0\r\n\r\n", strlen(body), body);
    CU_ASSERT_TRUE(raw_answer(&raw, &answer, false));
    CU_ASSERT_EQUAL(answer.status, 413);
    raw_answer_free(&answer);
    raw_close(&raw, false);

    /* And as much as is allowed. */
    memcpy(body, "{\"count\":2", 10);
    body[64 * KIB - 1] = '}';
    body[64 * KIB] = '\0';
    CU_ASSERT_EQUAL(ask("POST", "/v1/ids", "", body, &answer), 200);
    raw_answer_free(&answer);
}

/* B92 */
static void expect_100_continue_is_answered_at_once(void) {
    uint64_t began_ms = raw_now_ms();
    struct raw_answer answer;
    struct raw raw;

    raw_open(&raw, fixture.port);
    raw_print(&raw, POST "Expect: 100-continue\r\nContent-Length: 11\r\n\r\n");
    CU_ASSERT_TRUE(raw_answer(&raw, &answer, false));
    CU_ASSERT_EQUAL(answer.status, 100);
    raw_answer_free(&answer);
    raw_print(&raw, "{\"count\":2}");
    CU_ASSERT_TRUE(raw_answer(&raw, &answer, false));
    CU_ASSERT_EQUAL(answer.status, 200);
    raw_answer_free(&answer);
    CU_ASSERT(raw_now_ms() - began_ms < 200);
    raw_print(&raw, POST "Expect: 200-maybe\r\nContent-Length: 11\r\n\r\n{\"count\":2}");
    CU_ASSERT_TRUE(raw_answer(&raw, &answer, false));
    CU_ASSERT(answer.status == 200 || answer.status == 417);
    raw_answer_free(&answer);
    raw_close(&raw, false);
}

static void twenty_pipelined_requests_get_twenty_answers_in_order(void) {
    struct raw_answer answer;
    struct raw raw;
    char expected[64];

    raw_open(&raw, fixture.port);
    for (int i = 0; i < 20; i++)
        raw_print(&raw, "GET /v1/decode/%d HTTP/1.1\r\nHost: a\r\n\r\n", i);
    for (int i = 0; i < 20; i++) {
        snprintf(expected, sizeof expected, "\"id\":\"%d\"", i);
        CU_ASSERT_TRUE(raw_answer(&raw, &answer, false));
        CU_ASSERT_PTR_NOT_NULL(strstr(answer.body, expected));
        raw_answer_free(&answer);
    }
    raw_close(&raw, false);
}

static void a_slow_reader_gets_all_of_a_large_answer(void) {
    const int small = 16384;
    struct raw_answer answer;
    struct raw raw;

    raw_open(&raw, fixture.port);
    setsockopt(raw.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    for (int i = 0; i < 2; i++) {
        raw_print(&raw, "GET /v1/ids?count=10000 HTTP/1.1\r\nHost: a\r\n\r\n");
        sleep_ms(200);
        CU_ASSERT_TRUE(raw_answer(&raw, &answer, false));
        CU_ASSERT_EQUAL(answer.status, 200);
        CU_ASSERT(answer.body_len > 200000);
        CHECK_TEXT(answer.body + answer.body_len - 3, "\"]}");
        raw_answer_free(&answer);
    }
    raw_close(&raw, false);
}

/* --- IDs --- */

static void ids_come_as_json_strings(void) {
    struct raw_answer answer;
    int64_t id;

    CU_ASSERT_EQUAL(ask("GET", "/v1/ids", "", "", &answer), 200);
    CU_ASSERT_EQUAL(
        sscanf(answer.body, "{\"kind\":\"snowflake\",\"count\":1,\"ids\":[\"%" SCNd64 "\"]}", &id),
        1);
    CU_ASSERT_EQUAL(snowflake_decode(id, SNOWFLAKE_EPOCH_MS).machine_id, 5);
    CU_ASSERT_TRUE(has_header(&answer, "Content-Type", "application/json"));
    CU_ASSERT_TRUE(has_header(&answer, "Cache-Control", "no-store"));
    raw_answer_free(&answer);
}

static void the_claim_is_told_when_asked_for(void) {
    static const char *const targets[] = {"/v1/ids?claim=1", "/v1/ids?claim=1&count=2"};
    struct raw_answer answer;

    for (size_t i = 0; i < 2; i++) {
        ask("GET", targets[i], "", "", &answer);
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

    CU_ASSERT_EQUAL(ask("GET", "/v1/ids?count=10000", "Accept: text/plain\r\n", "", &answer), 200);
    CU_ASSERT_EQUAL(count_lines(answer.body), 10000);
    CU_ASSERT_EQUAL(strspn(answer.body, "0123456789\n"), answer.body_len);
    CU_ASSERT_TRUE(has_header(&answer, "Content-Type", "text/plain; charset=utf-8"));
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

        CHECK_ROW(rows[i].target, ask("POST", rows[i].target, "Accept: text/plain\r\n",
                                      rows[i].body, &answer) == 200);
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
    {"GET", "/v1/ids?kind=ulid", "", "kind", "kind must be snowflake, got ulid"},
    {"GET", "/v1/ids?Count=5", "", "", "unknown argument Count; there are kind, count and claim"},
    {"GET", "/v1/ids?x%22%0A=5", "", "",
     "unknown argument \\\"x\\\\x22\\\\x0a\\\"; there are kind, count and claim"},
    {"GET", "/v1/ids", "{}", "body", "a GET takes no body"},
    {"GET", "/v1/decode/-1", "", "id", "id must be 0..9223372036854775807, got -1"},
    {"GET", "/v1/decode/+5", "", "id", "id must be 0..9223372036854775807, got +5"},
    {"GET", "/v1/decode/05", "", "id", "id must be 0..9223372036854775807, got 05"},
    {"GET", "/v1/decode/", "", "id", "id must be 0..9223372036854775807, got \\\"\\\""},
    {"GET", "/v1/decode/5%20", "", "id", "id must be 0..9223372036854775807, got \\\"5 \\\""},
    {"GET", "/v1/decode/9223372036854775808", "", "id",
     "id must be 0..9223372036854775807, got 9223372036854775808"},
    {"GET", "/v1/decode/5?kind=ulid", "", "", "unknown argument kind; there is none here"},
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

        CHECK_ROW(row, ask(refusals[i].method, row, "", refusals[i].body, &answer) == 400);
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

        CHECK_ROW(row, ask(methods[i].method, row, "", "", &answer) == methods[i].status);
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
    raw_print(&raw, "HEAD /livez HTTP/1.1\r\nHost: a\r\n\r\n" GOOD);
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
        "\"holder\":\"test/fixture\"}";

    check_body("GET", "/v1/decode/187354526515220487", "", "", 200, sevens);
    check_body("POST", "/v1/decode", "", "{\"id\":\"187354526515220487\"}", 200, sevens);
    check_body("POST", "/v1/decode", "", "{\"id\":187354526515220487}", 200, sevens);
    check_body("POST", "/v1/decode", "", "{\"id\":264905529757794303}", 200,
               "{\"kind\":\"snowflake\",\"id\":\"264905529757794303\","
               "\"time\":\"2026-01-01T00:00:00.000Z\",\"timestamp_ms\":\"1767225600000\","
               "\"machine_id\":1023,\"sequence\":4095,\"future\":false}");
    check_body("POST", "/v1/decode", "", "{\"id\":9223372036854775807}", 200,
               "{\"kind\":\"snowflake\",\"id\":\"9223372036854775807\","
               "\"time\":\"2093-09-06T15:47:35.551Z\",\"timestamp_ms\":\"3903090455551\","
               "\"machine_id\":1023,\"sequence\":4095,\"future\":true}");
    check_body("GET", "/v1/decode/0", "", "", 200,
               "{\"kind\":\"snowflake\",\"id\":\"0\",\"time\":\"2024-01-01T00:00:00.000Z\","
               "\"timestamp_ms\":\"1704067200000\",\"machine_id\":0,\"sequence\":0,"
               "\"future\":false}");
}

static bool decoded_as_future(uint64_t timestamp_ms) {
    struct raw_answer answer;
    int64_t smallest, largest;
    char target[64];
    bool future;

    snowflake_range(timestamp_ms, SNOWFLAKE_EPOCH_MS, &smallest, &largest);
    snprintf(target, sizeof target, "/v1/decode/%" PRId64, smallest);
    ask("GET", target, "", "", &answer);
    future = strstr(answer.body, "\"future\":true") != NULL;
    raw_answer_free(&answer);
    return future;
}

/* B26 */
static void an_id_of_more_than_a_second_ahead_is_marked(void) {
    uint64_t now_ms = clock_now(&fixture.config.clock).wall_ms;

    CU_ASSERT_FALSE(decoded_as_future(now_ms));
    CU_ASSERT_FALSE(decoded_as_future(now_ms + 1000));
    CU_ASSERT_TRUE(decoded_as_future(now_ms + 3600000));
}

/* --- the worker's state --- */

static void without_a_machine_id_it_says_so_and_when_to_try_again(void) {
    struct raw_answer answer;

    serving_fixture_order(&fixture, SERVING_DROP);
    serving_fixture_publish(&fixture, WORKER_CLAIMING, "floor");
    CU_ASSERT_EQUAL(ask("GET", "/v1/ids", "", "", &answer), 503);
    CHECK_TEXT(answer.body, "{\"error\":{\"code\":\"UNAVAILABLE\",\"message\":\"no machine ID yet: "
                            "floor\",\"retry_after_ms\":1000}}");
    CU_ASSERT_TRUE(has_header(&answer, "Retry-After", "1"));
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
    serving_fixture_grant(&fixture, 300);
    CU_ASSERT_EQUAL(get("/readyz"), 200);
    sleep_ms(400);
    CU_ASSERT_EQUAL(ask("GET", "/readyz", "", "", &answer), 503);
    CU_ASSERT_PTR_NOT_NULL(strstr(answer.body, "\"state\":\"STARVED\""));
    raw_answer_free(&answer);
    CU_ASSERT_EQUAL(ask("GET", "/v1/ids", "", "", &answer), 503);
    CU_ASSERT_PTR_NOT_NULL(strstr(answer.body, "the time granted to machine ID 5 ended"));
    raw_answer_free(&answer);
    ask("GET", "/v1/status", "", "", &answer);
    CU_ASSERT_PTR_NOT_NULL(strstr(answer.body,
                                  "\"state\":\"STARVED\",\"reason\":\"the time granted "
                                  "is used up\""));
    raw_answer_free(&answer);
}

static void a_closed_generation_hands_over_its_last_and_issues_no_more(void) {
    struct raw_answer answer;
    int64_t id;

    ask("GET", "/v1/ids", "Accept: text/plain\r\n", "", &answer);
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
    CU_ASSERT_EQUAL(ask("GET", "/livez", "", "", &answer), 503);
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
    CU_ASSERT_EQUAL(ask("GET", "/v1/status", "", "", &answer), 200);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CHECK_ROW(names[i], strstr(answer.body, names[i]) != NULL);
    raw_answer_free(&answer);
}

static void the_clock_is_told_in_strings(void) {
    struct instant_ns before = clock_now_ns(&fixture.config.clock), after;
    int64_t receive_ns, transmit_ns, boot_ns, error_ns;
    struct raw_answer answer;
    char synchronized[8];

    ask("GET", "/v1/clock", "", "", &answer);
    after = clock_now_ns(&fixture.config.clock);
    CU_ASSERT_EQUAL(sscanf(answer.body,
                           "{\"receive_ns\":\"%" SCNd64 "\",\"transmit_ns\":\"%" SCNd64
                           "\",\"boot_ns\":\"%" SCNd64 "\",\"max_error_ns\":\"%" SCNd64
                           "\",\"synchronized\":%5[a-z],\"source\":\"kernel\"}",
                           &receive_ns, &transmit_ns, &boot_ns, &error_ns, synchronized),
                    5);
    CU_ASSERT(before.wall_ns < receive_ns && receive_ns < transmit_ns &&
              transmit_ns < after.wall_ns);
    CU_ASSERT(before.boot_ns < boot_ns && boot_ns < after.boot_ns);
    raw_answer_free(&answer);
}

/* B110 */
static void metrics_have_their_type_and_help(void) {
    struct raw_answer answer;

    get("/v1/ids?count=3");
    CU_ASSERT_EQUAL(ask("GET", "/metrics", "Accept: application/openmetrics-text\r\n", "", &answer),
                    200);
    CU_ASSERT_TRUE(has_header(&answer, "Content-Type", "text/plain; version=0.0.4; charset=utf-8"));
    CU_ASSERT_PTR_NOT_NULL(
        strstr(answer.body, "\nsnowfleet_ids_issued_total{kind=\"snowflake\",loop=\"0\"} 3\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer.body, "\nsnowfleet_worker_state{state=\"SERVING\"} 1\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer.body, "# TYPE snowfleet_ids_issued_total counter\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer.body, "# HELP snowfleet_runway_seconds "));
    CU_ASSERT_EQUAL(answer.body[answer.body_len - 1], '\n');
    raw_answer_free(&answer);
}

/* --- limits --- */

/* B88 */
static void slow_requests_are_cut_and_others_served_meanwhile(void) {
    enum { SLOW = 30 };
    static const char head[] =
        "POST /v1/ids HTTP/1.1\r\nHost: test\r\nX-Some-Header: abcdefghij\r\n";
    struct raw slow[SLOW];
    uint64_t began_ms = raw_now_ms(), cut_ms = 0, longest_ms = 0;

    for (int i = 0; i < SLOW; i++) {
        raw_open(&slow[i], fixture.port);
        if (i >= SLOW / 2) /* the others are slow with the body */
            raw_print(&slow[i], POST "Content-Length: 60\r\n\r\n");
    }
    for (size_t at = 0; at < sizeof head - 1 && cut_ms == 0; at++) {
        uint64_t asked_ms = raw_now_ms();
        bool all_cut = true;

        for (int i = 0; i < SLOW; i++)
            all_cut = !raw_send(&slow[i], head + at, 1) && all_cut;
        CU_ASSERT_EQUAL(get("/v1/ids"), 200);
        if (raw_now_ms() - asked_ms > longest_ms)
            longest_ms = raw_now_ms() - asked_ms;
        if (all_cut)
            cut_ms = raw_now_ms() - began_ms;
        sleep_ms(50);
    }
    CU_ASSERT(cut_ms >= 700 && cut_ms < 2500);
    CU_ASSERT(longest_ms < 1000);
    for (int i = 0; i < SLOW; i++) {
        CU_ASSERT_TRUE(raw_closed(&slow[i], 1000));
        raw_close(&slow[i], false);
    }
    CU_ASSERT(atomic_load(&fixture.gauges.http_timeouts_total) >= SLOW);
}

static void an_idle_connection_is_closed_at_its_limit_and_not_before(void) {
    uint64_t began_ms = raw_now_ms();
    struct raw_answer answer;
    struct raw fresh, used;

    raw_open(&fresh, fixture.port);
    raw_open(&used, fixture.port);
    raw_print(&used, GOOD);
    raw_answer(&used, &answer, false);
    raw_answer_free(&answer);
    /* Longer than a request may take: no request has begun. */
    sleep_ms(1100);
    raw_print(&used, GOOD);
    CU_ASSERT_TRUE(raw_answer(&used, &answer, false));
    raw_answer_free(&answer);
    CU_ASSERT_TRUE(raw_closed(&fresh, 3000));
    CU_ASSERT(raw_now_ms() - began_ms >= 1500);
    CU_ASSERT_TRUE(raw_closed(&used, 3000));
    CU_ASSERT(raw_now_ms() - began_ms >= 2600);
    raw_close(&fresh, false);
    raw_close(&used, false);
}

static void whoever_does_not_read_the_answer_is_cut(void) {
    const int small = 2048;
    struct raw raw;

    raw_open(&raw, fixture.port);
    setsockopt(raw.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    /* More than the kernel takes off the server's hands. */
    for (int i = 0; i < 40; i++)
        raw_print(&raw, "GET /v1/ids?count=10000 HTTP/1.1\r\nHost: a\r\n\r\n");
    sleep_ms(1500);
    CU_ASSERT_EQUAL(get("/livez"), 200);
    CU_ASSERT(atomic_load(&fixture.gauges.http_timeouts_total) >= 1);
    CU_ASSERT_TRUE(raw_closed(&raw, 2000));
    raw_close(&raw, false);
}

static void above_the_connection_limit_a_client_is_told_to_come_again(void) {
    struct raw held[64], extra;
    struct raw_answer answer;

    for (int i = 0; i < 64; i++) {
        raw_open(&held[i], fixture.port);
        raw_print(&held[i], GOOD);
        CU_ASSERT_TRUE(raw_answer(&held[i], &answer, false));
        raw_answer_free(&answer);
    }
    raw_open(&extra, fixture.port);
    raw_print(&extra, GOOD);
    CU_ASSERT_TRUE(raw_answer(&extra, &answer, false));
    CU_ASSERT_EQUAL(answer.status, 503);
    CU_ASSERT_TRUE(has_header(&answer, "Retry-After", "1"));
    CHECK_TEXT(answer.body, "{\"error\":{\"code\":\"UNAVAILABLE\",\"message\":\"too many "
                            "connections\",\"retry_after_ms\":1000}}");
    raw_answer_free(&answer);
    CU_ASSERT_TRUE(raw_closed(&extra, 1000));
    raw_close(&extra, false);
    raw_print(&held[63], GOOD);
    CU_ASSERT_TRUE(raw_answer(&held[63], &answer, false));
    CU_ASSERT_EQUAL(answer.status, 200);
    raw_answer_free(&answer);
    raw_close(&held[0], false);
    sleep_ms(50);
    CU_ASSERT_EQUAL(get("/livez"), 200);
    for (int i = 1; i < 64; i++)
        raw_close(&held[i], false);
}

static void out_of_descriptors_it_waits_and_goes_on(void) {
    struct rlimit before, none;
    struct raw_answer answer;
    struct raw raw;
    uint64_t began_ms;
    int highest = open("/dev/null", O_RDONLY | O_CLOEXEC);

    close(highest);
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    /* The client's descriptor is the last. */
    none.rlim_cur = (rlim_t)highest + 1;
    setrlimit(RLIMIT_NOFILE, &none);
    raw_open(&raw, fixture.port);
    raw_print(&raw, GOOD);
    sleep_ms(50);
    began_ms = cpu_ms();
    sleep_ms(400);
    CU_ASSERT(cpu_ms() - began_ms < 100);
    CU_ASSERT(atomic_load(&fixture.gauges.http_accept_failures_total) > 0);
    CU_ASSERT(atomic_load(&fixture.gauges.http_accept_failures_total) < 20);
    setrlimit(RLIMIT_NOFILE, &before);
    CU_ASSERT_TRUE(raw_answer(&raw, &answer, false));
    CU_ASSERT_EQUAL(answer.status, 200);
    raw_answer_free(&answer);
    raw_close(&raw, false);
}

/* --- the end --- */

static void draining_it_finishes_what_runs_and_takes_nothing_new(void) {
    struct raw idle, busy, begun;
    struct raw_answer answer;

    raw_open(&idle, fixture.port);
    raw_print(&idle, GOOD);
    raw_answer(&idle, &answer, false);
    raw_answer_free(&answer);
    raw_open(&busy, fixture.port);
    raw_print(&busy, "GET /v1/ids?count=10000 HTTP/1.1\r\nHost: a\r\n\r\n");
    raw_open(&begun, fixture.port);
    raw_print(&begun, POST "Content-Length: 2\r\n\r\n");
    CU_ASSERT_EQUAL(get("/readyz"), 200);
    serving_fixture_order(&fixture, SERVING_DRAIN);
    CU_ASSERT_TRUE(raw_closed(&idle, 1000));
    CU_ASSERT_TRUE(raw_answer(&busy, &answer, false));
    CU_ASSERT_EQUAL(answer.status, 200);
    CU_ASSERT(answer.body_len > 200000);
    raw_answer_free(&answer);
    CU_ASSERT_TRUE(raw_closed(&busy, 1000));
    raw_print(&begun, "{}");
    CU_ASSERT_TRUE(raw_answer(&begun, &answer, false));
    CU_ASSERT_EQUAL(answer.status, 200);
    CU_ASSERT_TRUE(has_header(&answer, "Connection", "close"));
    raw_answer_free(&answer);
    CU_ASSERT_TRUE(raw_closed(&begun, 1000));
    sleep_ms(20);
    CU_ASSERT_EQUAL(serving_busy(fixture.serving), 0);
    raw_close(&idle, false);
    raw_close(&busy, false);
    raw_close(&begun, false);
}

/* B102, for HTTP */
static void draining_it_is_not_ready_at_once(void) {
    struct raw_answer answer;
    struct raw raw;

    raw_open(&raw, fixture.port);
    raw_print(&raw, "GET /readyz HTTP/1.1\r\nHost: a\r\n");
    sleep_ms(100);
    serving_fixture_order(&fixture, SERVING_DRAIN);
    sleep_ms(100);
    raw_print(&raw, "\r\n");
    CU_ASSERT_TRUE(raw_answer(&raw, &answer, false));
    CU_ASSERT_EQUAL(answer.status, 503);
    CU_ASSERT_PTR_NOT_NULL(strstr(answer.body, "\"state\":\"DRAINING\""));
    raw_answer_free(&answer);
    raw_close(&raw, false);
}

static void stopped_it_answers_those_who_wait(void) {
    enum { CALLERS = 200 };
    struct raw raw[CALLERS];
    struct raw_answer answer;
    unsigned served = 0, told = 0;

    for (int i = 0; i < CALLERS; i++) {
        raw_open(&raw[i], fixture.port);
        raw_print(&raw[i], "GET /v1/ids?count=10000 HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    while (atomic_load(&fixture.gauges.http_connections) < CALLERS)
        sleep_ms(1);
    serving_stop(fixture.serving); /* some of them have had their turn */
    for (int i = 0; i < CALLERS; i++) {
        CU_ASSERT_TRUE(raw_answer(&raw[i], &answer, false));
        if (answer.status == 200)
            served++;
        else if (answer.status == 503 && strstr(answer.body, "this worker is shutting down"))
            told++;
        raw_answer_free(&answer);
        raw_close(&raw[i], false);
    }
    CU_ASSERT_EQUAL(served + told, CALLERS);
    CU_ASSERT(told > 0);
    close(fixture.fd);
    view_board_done(&fixture.board);
}

static CU_TestInfo framing_rules[] = {
    CHECK_TEST(ambiguous_requests_are_refused_and_hide_nothing),
    CHECK_TEST(a_refusal_by_the_guard_is_ours_and_counted),
    CHECK_TEST(endless_headers_targets_and_bodies_are_cut_off),
    CHECK_TEST(twelve_kilobytes_of_headers_pass),
    CHECK_TEST(a_body_over_the_limit_gets_413),
    CHECK_TEST(expect_100_continue_is_answered_at_once),
    CHECK_TEST(twenty_pipelined_requests_get_twenty_answers_in_order),
    CHECK_TEST(a_slow_reader_gets_all_of_a_large_answer),
    CU_TEST_INFO_NULL,
};
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
static CU_TestInfo limit_rules[] = {
    CHECK_TEST(slow_requests_are_cut_and_others_served_meanwhile),
    CHECK_TEST(an_idle_connection_is_closed_at_its_limit_and_not_before),
    CHECK_TEST(whoever_does_not_read_the_answer_is_cut),
    CHECK_TEST(above_the_connection_limit_a_client_is_told_to_come_again),
    CHECK_TEST(out_of_descriptors_it_waits_and_goes_on),
    CU_TEST_INFO_NULL,
};
static CU_TestInfo drain_rules[] = {
    CHECK_TEST(draining_it_finishes_what_runs_and_takes_nothing_new),
    CHECK_TEST(draining_it_is_not_ready_at_once),
    CU_TEST_INFO_NULL,
};
static CU_TestInfo stop_rules[] = {
    CHECK_TEST(stopped_it_answers_those_who_wait),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"requests", NULL, NULL, given_a_worker_that_serves, stop, framing_rules},
           {"routes", NULL, NULL, given_a_worker_that_serves, stop, route_rules},
           {"limits", NULL, NULL, given_a_worker_with_tight_limits, stop, limit_rules},
           {"drain", NULL, NULL, given_a_worker_that_serves, stop, drain_rules},
           {"stop", NULL, NULL, given_a_worker_that_serves, NULL, stop_rules})
