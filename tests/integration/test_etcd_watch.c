/* test_etcd_watch.c - a watch of the etcd client whose server misbehaves: nothing is missed, the
 * owner is told once, and no fault makes a tight loop. */
#include <signal.h>

#include "tests/support/check.h"
#include "tests/support/fault_rig.h"
#include "tests/support/loop_wait.h"

#define HEAD(revision) "\"header\":{\"revision\":\"" #revision "\"}"
#define CREATED(id, revision)                                                                      \
    "{\"result\":{" HEAD(revision) ",\"watch_id\":\"" #id "\",\"created\":true}}\n"
/* L2Ev is "/a/", L2EvMQ== is "/a/1", L2I= is "/b" */
#define KV(key, revision, value)                                                                   \
    "{\"key\":\"" key "\",\"create_revision\":\"" #revision "\",\"mod_revision\":\"" #revision     \
    "\",\"value\":\"" value "\"}"
#define EVENT(id, key, revision, value)                                                            \
    "{\"result\":{\"header\":{\"revision\":\"99\"},\"watch_id\":\"" #id                            \
    "\",\"events\":[{\"kv\":" KV(key, revision, value) "}]}}\n"
#define A1 "L2EvMQ=="
#define B "L2I="

static const struct etcd_key_range ranges[] = {{"/a/", "/a0"}, {"/b", NULL}};

/* The list: /a/1 = x, at the revision given. */
#define LIST(revision)                                                                             \
    "{" HEAD(revision) ",\"succeeded\":true,\"responses\":[{\"response_range\":{\"kvs\":[" KV(     \
        A1, 3, "eA==") "]}},{\"response_range\":{}}]}"

static struct raw_connection *stream; /* the newest */
static const char *lists[4];          /* what each list is answered with; the last one stays */
static const char *lines[4];          /* the same for each stream; then it stays open */
static bool ends[4];                  /* that stream ends after its lines */

static const char *nth(const char *const *texts, size_t n) {
    size_t i = 0;

    while (i < n && i < 3 && texts[i + 1])
        i++;
    return texts[i];
}

static void scripted(struct raw_connection *connection, const struct raw_request *request) {
    const char *text;

    if (!fault_rig_note(request)) {
        raw_answer(connection, nth(lists, rig.n_lists - 1));
        return;
    }
    stream = connection;
    text = nth(lines, rig.n_watches - 1);
    raw_begin_chunks(connection);
    if (text[0])
        raw_chunk(connection, text, strlen(text));
    if (rig.n_watches <= 4 && ends[rig.n_watches - 1])
        raw_end_chunks(connection);
}

static void says_nothing(struct raw_connection *connection, const struct raw_request *request) {
    (void)connection;
    fault_rig_note(request);
}

static struct etcd_watch *start(void) {
    struct etcd etcd = rig.wait.etcd;

    return etcd.watch(etcd.self, ranges, 2, watch_view_on_events, &rig.view);
}

static void given_a_scripted_server(void) {
    memset(lists, 0, sizeof lists);
    memset(lines, 0, sizeof lines);
    memset(ends, 0, sizeof ends);
    stream = NULL;
    lists[0] = LIST(10);
    lines[0] = CREATED(1, 10) CREATED(2, 10);
    fault_rig_init(scripted, NULL, 300);
}

static const char *expected_log;

static bool log_is_as_expected(void) {
    return strcmp(rig.view.log, expected_log) == 0;
}

static void log_becomes(const char *log) {
    expected_log = log;
    fault_rig_until(log_is_as_expected);
    CHECK_TEXT(rig.view.log, log);
}

static size_t wanted_watches;

static bool watches_came(void) {
    return rig.n_watches >= wanted_watches;
}

static void watch_requests_become(size_t n) {
    wanted_watches = n;
    fault_rig_until(watches_came);
}

static bool starts_at(size_t request, const char *first, const char *second) {
    char expected[512];

    snprintf(
        expected, sizeof expected,
        "{\"create_request\":{\"key\":\"L2Ev\",\"range_end\":\"L2Ew\",\"start_revision\":\"%s\","
        "\"watch_id\":\"1\"}}{\"create_request\":{\"key\":\"L2I=\",\"start_revision\":\"%s\","
        "\"watch_id\":\"2\"}}",
        first, second);
    return strcmp(rig.bodies[request], expected) == 0;
}

static uint64_t failures(void) {
    return etcd_http_stats(rig.client)->watch_failures;
}

static const char *last_error(void) {
    return etcd_http_stats(rig.client)->last_error.message;
}

/* --- nothing is missed --- */

static void each_range_goes_on_from_where_it_stands_itself(void) {
    /* The stream breaks between the line of one watch (revision 12) and of the other (11). */
    lines[0] = CREATED(1, 10) CREATED(2, 10) EVENT(1, A1, 12, "eQ==");
    ends[0] = true;
    lines[1] = CREATED(1, 12) CREATED(2, 12) EVENT(2, B, 11, "eg==");
    start();
    log_becomes("reset /a/1=x | /a/1=y | /b=z | ");
    CU_ASSERT_TRUE(starts_at(0, "11", "11"));
    CU_ASSERT_TRUE(starts_at(1, "13", "11"));
    CU_ASSERT_EQUAL(rig.n_lists, 1);
    fault_rig_done();
}

static void lines_come_in_any_pieces(void) {
    static const char text[] = CREATED(1, 10) CREATED(2, 10) EVENT(1, A1, 11, "eQ==")
        EVENT(2, B, 12, "eg==") EVENT(1, A1, 13, "eg==");
    size_t i;

    lines[0] = "";
    start();
    watch_requests_become(1);
    for (i = 0; i < sizeof text - 1; i++) {
        raw_chunk(stream, text + i, 1);
        if (i % 7 == 0)
            uv_run(&rig.loop, UV_RUN_NOWAIT);
    }
    log_becomes("reset /a/1=x | /a/1=y | /b=z | /a/1=z | ");
    CU_ASSERT_EQUAL(failures(), 0);
    fault_rig_done();
}

static void a_last_line_without_newline_counts(void) {
    lines[0] = CREATED(1, 10)
        CREATED(2, 10) "{\"error\":{\"grpc_code\":14,\"message\":\"transport is closing\"}}";
    ends[0] = true;
    start();
    watch_requests_become(2);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_error(), "watch: transport is closing"));
    CU_ASSERT_EQUAL(failures(), 1);
    fault_rig_done();
}

static void events_that_were_told_are_not_told_again(void) {
    lines[0] = CREATED(1, 10) CREATED(2, 10) EVENT(1, A1, 9, "b2xk") EVENT(1, A1, 11, "eQ==")
        EVENT(1, A1, 11, "eQ==") EVENT(1, A1, 12, "eg==");
    start();
    log_becomes("reset /a/1=x | /a/1=y | /a/1=z | ");
    fault_rig_done();
}

static void a_compacted_start_reads_all_again_and_closes_the_silent_stream(void) {
    lines[0] = CREATED(1, 10) CREATED(
        2, 10) "{\"result\":{\"header\":{\"raft_term\":\"2\"},\"watch_id\":\"2\",\"canceled\":true,"
               "\"compact_revision\":\"15\"}}\n";
    lines[1] = CREATED(1, 20) CREATED(2, 20);
    lists[1] = LIST(20);
    start();
    log_becomes("reset /a/1=x | reset /a/1=x | ");
    watch_requests_become(2);
    CU_ASSERT_TRUE(starts_at(1, "21", "21"));
    CU_ASSERT_EQUAL(failures(), 0); /* no endpoint's fault */
    fault_rig_done();
}

static void a_history_that_went_back_reads_all_again(void) {
    lists[1] = LIST(5);
    lines[0] = CREATED(1, 5);
    lines[1] = CREATED(1, 5) CREATED(2, 5) EVENT(2, B, 6, "eg==");
    start();
    log_becomes("reset /a/1=x | reset /a/1=x | /b=z | ");
    CU_ASSERT_TRUE(starts_at(0, "11", "11"));
    CU_ASSERT_TRUE(starts_at(1, "6", "6"));
    fault_rig_done();
}

/* --- faults are failures, with a pause --- */

static const struct {
    const char *row, *lines, *error;
} faults[] = {
    {"refused",
     "{\"result\":{" HEAD(10) ",\"watch_id\":\"-1\",\"created\":true,\"canceled\":true,"
                              "\"cancel_reason\":\"permission denied\"}}\n",
     "watch: permission denied"},
    {"cancelled without a reason",
     CREATED(1, 10) "{\"result\":{" HEAD(10) ",\"watch_id\":\"1\",\"canceled\":true}}\n",
     "watch: cancelled by etcd"},
    {"garbage", "garbage\n", "watch: answer is not JSON"},
    {"an empty line", "\n", "watch: an empty answer"},
    {"of another watch", CREATED(3, 10), "a watch that was not asked for"},
    {"of watch 0", CREATED(0, 10), "a watch that was not asked for"},
    {"never created", CREATED(1, 10), "not created in time"},
    {"silence", "", "not created in time"},
    {"deadline at once",
     CREATED(1, 10) CREATED(2, 10) "{\"error\":{\"code\":4,\"message\":\"deadline\"}}\n",
     "watch: deadline"},
    {"malformed", "{\"error\":\"bad\",\"message\":\"bad\",\"code\":2}\n", "watch: bad"},
};

static bool three_failures(void) {
    return failures() >= 3;
}

static void every_fault_is_told_and_tried_again_with_a_pause(void) {
    size_t i;

    for (i = 0; i < sizeof faults / sizeof *faults; i++) {
        uint64_t before_ms;

        given_a_scripted_server();
        lines[0] = faults[i].lines;
        start();
        before_ms = loop_wait_now_ms();
        fault_rig_until(three_failures);
        /* Two pauses: at least half of 40 and 80 ms. */
        CHECK_ROW(faults[i].row, loop_wait_now_ms() - before_ms >= 55);
        CHECK_ROW(faults[i].row, strstr(last_error(), faults[i].error) != NULL);
        CHECK_ROW(faults[i].row, rig.n_lists == 1 && rig.view.n_resets == 1);
        CHECK_ROW(faults[i].row, rig.one.n_open <= 2); /* silent streams are closed */
        fault_rig_done();
    }
}

static void refuses(struct raw_connection *connection, const struct raw_request *request) {
    static const char reply[] = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 54\r\n\r\n"
                                "{\"error\":{\"code\":16,\"message\":\"invalid auth token\"}}   ";

    if (fault_rig_note(request))
        raw_send(connection, reply, sizeof reply - 1);
    else
        raw_answer(connection, lists[0]);
}

static void an_http_error_is_told_in_its_own_words(void) {
    rig.one.handler = refuses;
    start();
    fault_rig_until(three_failures);
    CU_ASSERT_EQUAL(strncmp(last_error(), rig.one.url, strlen(rig.one.url)), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_error(), ": invalid auth token"));
    CU_ASSERT_EQUAL(etcd_http_stats(rig.client)->last_error.status, STATUS_AUTH);
    fault_rig_done();
}

static bool a_failure(void) {
    return failures() >= 1;
}

static void a_line_without_end_is_given_up(void) {
    static char much[1 << 20];
    int i;

    memset(much, 'x', sizeof much);
    fault_rig_done();
    fault_rig_watch_lifetime_ms = 60000; /* 17 MB are not to take longer */
    fault_rig_init(scripted, NULL, 2000);
    fault_rig_watch_lifetime_ms = 1000;
    start();
    log_becomes("reset /a/1=x | ");
    watch_requests_become(1);
    for (i = 0; i < 17; i++)
        raw_chunk(stream, much, sizeof much);
    fault_rig_until(a_failure);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_error(), "watch: a line is too long"));
    watch_requests_become(2);
    fault_rig_done();
}

static void a_silent_stream_is_left_after_its_lifetime(void) {
    uint64_t before_ms = loop_wait_now_ms();

    start(); /* of 1 s, and 1.1 s of grace; this server does not end it */
    watch_requests_become(2);
    CU_ASSERT_TRUE(loop_wait_now_ms() - before_ms >= 2000);
    CU_ASSERT_EQUAL(failures(), 1);
    fault_rig_done();
}

static bool a_list_failed(void) {
    return etcd_http_stats(rig.client)->failures >= 2;
}

static void a_stream_whose_time_is_over_is_renewed_without_a_failure(void) {
    static const char over[] = "{\"error\":{\"code\":4,\"message\":\"deadline exceeded\"}}\n";

    start();
    watch_requests_become(1);
    fault_rig_for(600); /* of 1 s */
    raw_chunk(stream, over, sizeof over - 1);
    watch_requests_become(2);
    CU_ASSERT_EQUAL(failures(), 0);
    CU_ASSERT_EQUAL(rig.view.n_resets, 1);
    fault_rig_done();
}

static void a_list_that_fails_is_tried_again(void) {
    lists[0] = "garbage";
    lists[1] = "{}";
    lists[2] = LIST(10);
    start();
    fault_rig_until(a_list_failed);
    log_becomes("reset /a/1=x | ");
    CU_ASSERT_EQUAL(rig.n_lists, 3);
    CU_ASSERT_EQUAL(failures(), 2);
    fault_rig_done();
}

/* --- endpoints --- */

static size_t streams_at_two;

static void streams_at_two_too(struct raw_connection *connection,
                               const struct raw_request *request) {
    static const char text[] = CREATED(1, 12) CREATED(2, 12) EVENT(1, A1, 12, "eQ==");

    if (strncmp(request->head, "POST /v3/watch ", 15) != 0)
        return;
    streams_at_two++;
    raw_begin_chunks(connection);
    raw_chunk(connection, text, sizeof text - 1);
}

static void a_watch_follows_when_a_call_finds_its_endpoint_dead(void) {
    fault_rig_done();
    streams_at_two = 0;
    fault_rig_init(scripted, streams_at_two_too, 300);
    start();
    log_becomes("reset /a/1=x | ");
    watch_requests_become(1);
    rig.one.handler = says_nothing; /* the stream stands, silently */
    CU_ASSERT_EQUAL(etcd_wait_put(&rig.wait, "/a/1", "y", 0), STATUS_UNKNOWN);
    log_becomes("reset /a/1=x | /a/1=y | ");
    CU_ASSERT_EQUAL(streams_at_two, 1);
    CU_ASSERT_EQUAL(failures(), 0);
    fault_rig_done();
}

/* --- stopping --- */

static struct etcd_watch *running;
static unsigned stop_at; /* the batch that stops it */

static void stop_from_inside(void *arg, const struct etcd_event *events, size_t n) {
    watch_view_on_events(arg, events, n);
    if (rig.view.n_batches == stop_at)
        rig.wait.etcd.watch_stop(rig.client, running);
}

static bool a_batch(void) {
    return rig.view.n_batches >= stop_at;
}

static void a_watch_may_be_stopped_by_its_own_events(void) {
    for (stop_at = 1; stop_at <= 3; stop_at++) {
        given_a_scripted_server();
        lines[0] = CREATED(1, 10) CREATED(2, 10) EVENT(1, A1, 11, "eQ==") EVENT(1, A1, 12, "eg==")
            EVENT(1, A1, 13, "eQ==");
        running = rig.wait.etcd.watch(rig.client, ranges, 2, stop_from_inside, &rig.view);
        fault_rig_until(a_batch);
        fault_rig_for(50);
        CU_ASSERT_EQUAL(rig.view.n_batches, stop_at);
        CU_ASSERT_EQUAL(rig.n_watches, stop_at > 1);
        fault_rig_done();
    }
}

static void on_closed_from_inside(void *arg) {
    (void)arg;
    rig.closed = true;
}

static void close_from_inside(void *arg, const struct etcd_event *events, size_t n) {
    watch_view_on_events(arg, events, n);
    if (rig.view.n_batches == stop_at)
        etcd_http_close(rig.client, on_closed_from_inside, NULL);
}

static bool is_closed(void) {
    return rig.closed;
}

/* The first comes from a call's done(), the others from inside curl. */
static void events_may_close_the_client(void) {
    for (stop_at = 1; stop_at <= 3; stop_at++) {
        given_a_scripted_server();
        lines[0] = CREATED(1, 10) CREATED(2, 10) EVENT(1, A1, 11, "eQ==") EVENT(1, A1, 12, "eg==")
            EVENT(1, A1, 13, "eQ==");
        rig.wait.etcd.watch(rig.client, ranges, 2, close_from_inside, &rig.view);
        fault_rig_until(is_closed);
        rig.client = NULL;
        CU_ASSERT_EQUAL(rig.view.n_batches, stop_at);
        fault_rig_done();
    }
}

static bool list_came(void) {
    return rig.n_lists >= 1;
}

/* In each state a watch can be in: stopped, then closed; closed, then stopped; only closed. */
static void a_watch_may_be_stopped_or_closed_in_any_state(void) {
    enum { FRESH, LISTING, OPENING, STREAMING, PAUSED, N_STATES } state;
    int way;

    for (state = FRESH; state < N_STATES; state++) {
        for (way = 0; way < 3; way++) {
            struct etcd_watch *watch;

            given_a_scripted_server();
            if (state == LISTING)
                rig.one.handler = says_nothing;
            if (state == OPENING)
                lines[0] = "";
            if (state == PAUSED)
                lines[0] = "garbage\n";
            watch = start();
            if (state == LISTING)
                fault_rig_until(list_came);
            if (state == OPENING || state == STREAMING)
                watch_requests_become(1);
            if (state == PAUSED)
                fault_rig_until(a_failure);
            if (way == 0) {
                rig.wait.etcd.watch_stop(rig.client, watch);
                fault_rig_for(20);
            }
            rig.view.n_batches = 0;
            if (way == 1) {
                struct etcd etcd = rig.wait.etcd;

                etcd_http_close(rig.client, NULL, NULL);
                uv_run(&rig.loop, UV_RUN_NOWAIT);
                etcd.watch_stop(etcd.self, watch);
                rig.client = NULL;
                fault_rig_for(50);
            }
            CU_ASSERT_EQUAL(rig.view.n_batches, 0);
            fault_rig_done();
        }
    }
}

static CU_TestInfo rules[] = {
    CHECK_TEST(each_range_goes_on_from_where_it_stands_itself),
    CHECK_TEST(lines_come_in_any_pieces),
    CHECK_TEST(a_last_line_without_newline_counts),
    CHECK_TEST(events_that_were_told_are_not_told_again),
    CHECK_TEST(a_compacted_start_reads_all_again_and_closes_the_silent_stream),
    CHECK_TEST(a_history_that_went_back_reads_all_again),
    CHECK_TEST(an_http_error_is_told_in_its_own_words),
    CHECK_TEST(a_line_without_end_is_given_up),
    CHECK_TEST(a_silent_stream_is_left_after_its_lifetime),
    CHECK_TEST(a_stream_whose_time_is_over_is_renewed_without_a_failure),
    CHECK_TEST(a_list_that_fails_is_tried_again),
    CHECK_TEST(a_watch_follows_when_a_call_finds_its_endpoint_dead),
    CU_TEST_INFO_NULL};
/* These make their servers themselves, one for each row. */
static CU_TestInfo row_rules[] = {
    CHECK_TEST(every_fault_is_told_and_tried_again_with_a_pause),
    CHECK_TEST(a_watch_may_be_stopped_by_its_own_events), CHECK_TEST(events_may_close_the_client),
    CHECK_TEST(a_watch_may_be_stopped_or_closed_in_any_state), CU_TEST_INFO_NULL};

int main(void) {
    CU_SuiteInfo suites[] = {
        {"a watch, one server", NULL, NULL, given_a_scripted_server, NULL, rules},
        {"a watch, many servers", NULL, NULL, NULL, NULL, row_rules},
        CU_SUITE_INFO_NULL};

    signal(SIGPIPE, SIG_IGN);
    return check_run(suites);
}
