/* What a client on the wire sees of the server: framing, sizes, limits, drain.  One serving thread in
 * this process, raw sockets. */
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
/* What has to happen at some time may take this long on a busy machine. */
#define SOON_MS 15000

static struct serving_fixture fixture;

static void given_a_worker_that_serves(void) {
    serving_fixture_init(&fixture);
    fixture.config.request_timeout_ms = 3000; /* some of what is sent here never ends */
    serving_fixture_start(&fixture, "127.0.0.1:0");
    serving_fixture_grant(&fixture, 3600000);
}

static void given_a_worker_that_is_strict_about_time(void) {
    serving_fixture_init(&fixture);
    fixture.config.request_timeout_ms = 800;
    fixture.config.idle_timeout_ms = 3000;
    serving_fixture_start(&fixture, "127.0.0.1:0");
    serving_fixture_grant(&fixture, 3600000);
}

static void given_a_worker_for_64_connections(void) {
    serving_fixture_init(&fixture);
    fixture.config.max_connections = 64;
    serving_fixture_start(&fixture, "127.0.0.1:0");
    serving_fixture_grant(&fixture, 3600000);
}

static void stop(void) {
    serving_fixture_stop(&fixture);
}

static int get(const char *target) {
    return raw_status(fixture.port, target);
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

/* Waits for a gauge, which the loop publishes once in each turn. */
static bool reaches(_Atomic uint64_t *gauge, uint64_t least, uint64_t most) {
    uint64_t until_ms = raw_now_ms() + SOON_MS;

    while (raw_now_ms() < until_ms) {
        uint64_t value = atomic_load(gauge);

        if (value >= least && value <= most)
            return true;
        sleep_ms(1);
    }
    return false;
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
            CHECK_ROW(row, raw_closed(&raw, SOON_MS));
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
    CU_ASSERT_TRUE(raw_header_is(&answer, "Content-Type", "application/json"));
    raw_answer_free(&answer);
    raw_close(&raw, false);
    CU_ASSERT_TRUE(reaches(&fixture.gauges.http_guard_refusals_total, 1, 1));
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
    stopped = stopped || raw_closed(&raw, SOON_MS);
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
    CU_ASSERT_EQUAL(raw_ask(fixture.port, "POST", "/v1/ids", "", body, &answer), 200);
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
    CU_ASSERT(raw_now_ms() - began_ms < 900); /* curl would wait for a second */
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
    CU_ASSERT(cut_ms >= 750); /* and before they were done */
    CU_ASSERT(longest_ms < 5000);
    for (int i = 0; i < SLOW; i++) {
        CU_ASSERT_TRUE(raw_closed(&slow[i], SOON_MS));
        raw_close(&slow[i], false);
    }
    CU_ASSERT_TRUE(reaches(&fixture.gauges.http_timeouts_total, SLOW, SLOW));
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
    CU_ASSERT_TRUE(raw_closed(&fresh, SOON_MS));
    CU_ASSERT(raw_now_ms() - began_ms >= 2900);
    CU_ASSERT_TRUE(raw_closed(&used, SOON_MS));
    CU_ASSERT(raw_now_ms() - began_ms >= 4000);
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
    CU_ASSERT_TRUE(reaches(&fixture.gauges.http_timeouts_total, 1, 1));
    CU_ASSERT_EQUAL(get("/livez"), 200);
    /* The client would still find in the kernel what was written before. */
    CU_ASSERT_TRUE(reaches(&fixture.gauges.http_connections, 0, 0));
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
    CU_ASSERT_TRUE(raw_header_is(&answer, "Retry-After", "1"));
    CHECK_TEXT(answer.body, "{\"error\":{\"code\":\"UNAVAILABLE\",\"message\":\"too many "
                            "connections\",\"retry_after_ms\":1000}}");
    raw_answer_free(&answer);
    CU_ASSERT_TRUE(raw_closed(&extra, SOON_MS));
    raw_close(&extra, false);
    raw_print(&held[63], GOOD);
    CU_ASSERT_TRUE(raw_answer(&held[63], &answer, false));
    CU_ASSERT_EQUAL(answer.status, 200);
    raw_answer_free(&answer);
    raw_close(&held[0], false);
    CU_ASSERT_TRUE(reaches(&fixture.gauges.http_connections, 0, 63));
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
    CU_ASSERT_TRUE(reaches(&fixture.gauges.http_accept_failures_total, 1, 20));
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
    CU_ASSERT_TRUE(raw_closed(&idle, SOON_MS));
    CU_ASSERT_TRUE(raw_answer(&busy, &answer, false));
    CU_ASSERT_EQUAL(answer.status, 200);
    CU_ASSERT(answer.body_len > 200000);
    raw_answer_free(&answer);
    CU_ASSERT_TRUE(raw_closed(&busy, SOON_MS));
    raw_print(&begun, "{}");
    CU_ASSERT_TRUE(raw_answer(&begun, &answer, false));
    CU_ASSERT_EQUAL(answer.status, 200);
    CU_ASSERT_TRUE(raw_header_is(&answer, "Connection", "close"));
    raw_answer_free(&answer);
    CU_ASSERT_TRUE(raw_closed(&begun, SOON_MS));
    for (int i = 0; i < SOON_MS && serving_busy(fixture.serving) > 0; i++)
        sleep_ms(1);
    CU_ASSERT_EQUAL(serving_busy(fixture.serving), 0);
    raw_close(&idle, false);
    raw_close(&busy, false);
    raw_close(&begun, false);
}

static void draining_it_closes_after_an_answer_that_began_before(void) {
    const int small = 16384;
    struct raw_answer answer;
    struct raw raw;
    char byte;

    setsockopt(fixture.fd, SOL_SOCKET, SO_SNDBUF, &small,
               sizeof small); /* and so the accepted one */
    raw_open(&raw, fixture.port);
    setsockopt(raw.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    raw_print(&raw, "GET /v1/ids?count=10000 HTTP/1.1\r\nHost: a\r\n\r\n");
    CU_ASSERT_EQUAL(recv(raw.fd, &byte, 1, MSG_PEEK), 1);
    serving_fixture_order(&fixture, SERVING_DRAIN);
    CU_ASSERT_TRUE(raw_answer(&raw, &answer, false));
    CU_ASSERT_EQUAL(answer.status, 200);
    CU_ASSERT_FALSE(raw_header_is(&answer, "Connection", "close"));
    raw_answer_free(&answer);
    CU_ASSERT_TRUE(raw_closed(&raw, SOON_MS));
    raw_close(&raw, false);
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

/* Callers for 10,000 IDs each, of whom one at a time is served. */
static bool had_their_turn_or_wait(uint64_t callers) {
    uint64_t until_ms = raw_now_ms() + SOON_MS;

    while (raw_now_ms() < until_ms) {
        if (atomic_load(&fixture.gauges.issued_total) / 10000 +
                atomic_load(&fixture.gauges.parked) >=
            callers)
            return true;
        sleep_ms(1);
    }
    return false;
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
    CU_ASSERT_TRUE(had_their_turn_or_wait(CALLERS));
    serving_stop(fixture.serving);
    serving_free(fixture.serving);
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

/* libmicrohttpd asks to be run again and again for such a client. */
static void a_chunk_that_never_begins_neither_spins_nor_holds_up_the_end(void) {
    static char letters[64 * KIB + 1];
    struct raw stuck[10];
    uint64_t began_ms, spent_ms;

    memset(letters, 'a', sizeof letters - 1);
    for (size_t i = 0; i < 10; i++) {
        raw_open(&stuck[i], fixture.port);
        raw_print(&stuck[i], POST CHUNKED "5;%s", letters);
    }
    spent_ms = cpu_ms();
    sleep_ms(200);
    spent_ms = cpu_ms() - spent_ms;
    CU_ASSERT(spent_ms < 150);
    CU_ASSERT_EQUAL(get("/v1/ids"), 200);
    began_ms = raw_now_ms();
    stop();
    CU_ASSERT(raw_now_ms() - began_ms < 2000);
    for (size_t i = 0; i < 10; i++)
        raw_close(&stuck[i], false);
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
static CU_TestInfo time_rules[] = {
    CHECK_TEST(slow_requests_are_cut_and_others_served_meanwhile),
    CHECK_TEST(an_idle_connection_is_closed_at_its_limit_and_not_before),
    CHECK_TEST(whoever_does_not_read_the_answer_is_cut),
    CU_TEST_INFO_NULL,
};
static CU_TestInfo number_rules[] = {
    CHECK_TEST(above_the_connection_limit_a_client_is_told_to_come_again),
    CHECK_TEST(out_of_descriptors_it_waits_and_goes_on),
    CU_TEST_INFO_NULL,
};
static CU_TestInfo drain_rules[] = {
    CHECK_TEST(draining_it_finishes_what_runs_and_takes_nothing_new),
    CHECK_TEST(draining_it_closes_after_an_answer_that_began_before),
    CHECK_TEST(draining_it_is_not_ready_at_once),
    CU_TEST_INFO_NULL,
};
static CU_TestInfo stop_rules[] = {
    CHECK_TEST(a_chunk_that_never_begins_neither_spins_nor_holds_up_the_end),
    CHECK_TEST(stopped_it_answers_those_who_wait),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"requests", NULL, NULL, given_a_worker_that_serves, stop, framing_rules},
           {"time limits", NULL, NULL, given_a_worker_that_is_strict_about_time, stop, time_rules},
           {"limits", NULL, NULL, given_a_worker_for_64_connections, stop, number_rules},
           {"drain", NULL, NULL, given_a_worker_that_serves, stop, drain_rules},
           {"stop", NULL, NULL, given_a_worker_that_serves, NULL, stop_rules})
