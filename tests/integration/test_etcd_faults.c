/* test_etcd_faults.c - calls of the etcd client when the network or the server misbehaves: what is
 * certain, what is unknown, what is tried again, and what closing does. */
#include <signal.h>

#include "tests/support/check.h"
#include "tests/support/fault_rig.h"
#include "tests/support/loop_wait.h"

#define PUT_DONE                                                                                   \
    "{\"header\":{\"revision\":\"7\"},\"succeeded\":true,"                                         \
    "\"responses\":[{\"response_put\":{\"header\":{\"revision\":\"7\"}}}]}"
#define GET_DONE                                                                                   \
    "{\"header\":{\"revision\":\"7\"},\"succeeded\":true,"                                         \
    "\"responses\":[{\"response_range\":{\"header\":{\"revision\":\"7\"}}}]}"

static const char *reply; /* what reply handlers send, raw */

static void answers(struct raw_connection *connection, const struct raw_request *request) {
    if (strstr(request->head, "/v3/lease/keepalive"))
        raw_answer(connection, "{\"result\":{\"ID\":\"7\",\"TTL\":\"10\"}}\n");
    else if (strstr(request->head, "/v3/lease/grant"))
        raw_answer(connection, "{\"header\":{},\"ID\":\"7\",\"TTL\":\"10\"}");
    else if (strstr(request->head, "/v3/lease/revoke"))
        raw_answer(connection, "{\"header\":{\"revision\":\"7\"}}");
    else
        raw_answer(connection, strstr(request->body, "request_put") ? PUT_DONE : GET_DONE);
}

static void says_nothing(struct raw_connection *connection, const struct raw_request *request) {
    (void)connection, (void)request;
}

static void takes_and_closes(struct raw_connection *connection, const struct raw_request *request) {
    (void)request;
    raw_close(connection);
}

static void answers_once_and_then_closes(struct raw_connection *connection,
                                         const struct raw_request *request) {
    if (request->reused)
        raw_close(connection);
    else
        answers(connection, request);
}

static void sends_reply(struct raw_connection *connection, const struct raw_request *request) {
    (void)request;
    raw_send(connection, reply, strlen(reply));
}

static void answers_byte_by_byte(struct raw_connection *connection,
                                 const struct raw_request *request) {
    const char *body = strstr(request->body, "request_put") ? PUT_DONE : GET_DONE;

    raw_begin_chunks(connection);
    for (; *body; body++)
        raw_chunk(connection, body, 1);
    raw_end_chunks(connection);
}

static enum status put(void) {
    return etcd_wait_put(&rig.wait, "/a", "1", 0);
}

static enum status get(void) {
    return etcd_wait_get(&rig.wait, "/a", NULL);
}

/* --- what is known of a write --- */

static void good_answers_are_success(void) {
    fault_rig_init(answers, NULL, 2000);
    CU_ASSERT_EQUAL(put(), STATUS_OK);
    CU_ASSERT_EQUAL(get(), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_wait_grant(&rig.wait, 7, 10), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_wait_keepalive(&rig.wait, 7), STATUS_OK);
    CU_ASSERT_EQUAL(rig.wait.ttl_s, 10);
    CU_ASSERT_EQUAL(etcd_wait_revoke(&rig.wait, 7), STATUS_OK);
    CU_ASSERT_EQUAL(rig.one.n_connections, 1);
    rig.one.handler = answers_byte_by_byte;
    CU_ASSERT_EQUAL(put(), STATUS_OK);
    CU_ASSERT_EQUAL(get(), STATUS_OK);
    fault_rig_done();
}

static void an_eaten_reply_leaves_a_write_unknown_and_delivered_once(void) {
    fault_rig_init(takes_and_closes, NULL, 2000);
    CU_ASSERT_EQUAL(put(), STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(rig.one.n_requests, 1);
    CU_ASSERT_EQUAL(etcd_wait_grant(&rig.wait, 7, 10), STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(etcd_wait_revoke(&rig.wait, 7), STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(etcd_wait_keepalive(&rig.wait, 7), STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(get(), STATUS_UNAVAILABLE);
    CU_ASSERT_EQUAL(rig.one.n_requests, 5);
    CU_ASSERT_EQUAL(etcd_http_stats(rig.client)->unknown_outcomes, 3);
    fault_rig_done();
}

static void a_write_on_a_stale_connection_is_unknown_and_a_read_is_repeated(void) {
    fault_rig_init(answers_once_and_then_closes, NULL, 2000);
    CU_ASSERT_EQUAL(put(), STATUS_OK);
    CU_ASSERT_EQUAL(put(), STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(rig.one.n_requests, 2);
    CU_ASSERT_EQUAL(get(), STATUS_OK);
    CU_ASSERT_EQUAL(get(), STATUS_OK); /* curl's own repeat, on a new connection */
    CU_ASSERT_EQUAL(rig.one.n_requests, 5);
    fault_rig_done();
}

/* status: the answer is well-formed and holds text; without it text is all that is sent. */
static const struct {
    const char *row, *status, *text;
    enum status of_put, of_get, of_keepalive;
} rows[] = {
    {"garbage", "200 OK", "garbage", STATUS_UNKNOWN, STATUS_PROTOCOL, STATUS_PROTOCOL},
    {"empty body", "200 OK", "", STATUS_UNKNOWN, STATUS_PROTOCOL, STATUS_PROTOCOL},
    {"empty object", "200 OK", "{}", STATUS_UNKNOWN, STATUS_PROTOCOL, STATUS_PROTOCOL},
    {"cut JSON", "200 OK", "{\"header\":{\"revision\":\"7\"},\"succee", STATUS_UNKNOWN,
     STATUS_PROTOCOL, STATUS_PROTOCOL},
    {"length too small", NULL, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" PUT_DONE,
     STATUS_UNKNOWN, STATUS_PROTOCOL, STATUS_PROTOCOL},
    {"length too large", NULL, "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" PUT_DONE,
     STATUS_UNKNOWN, STATUS_UNAVAILABLE, STATUS_UNKNOWN},
    {"beyond 64 MiB", NULL, "HTTP/1.1 200 OK\r\nContent-Length: 67108865\r\n\r\n{", STATUS_UNKNOWN,
     STATUS_UNAVAILABLE, STATUS_UNKNOWN},
    {"no HTTP", NULL, "\x15\x03\x01 TLS alert\r\n\r\n", STATUS_UNKNOWN, STATUS_UNAVAILABLE,
     STATUS_UNKNOWN},
    {"plain 404", "404 Not Found", "Not Found", STATUS_UNAVAILABLE, STATUS_UNAVAILABLE,
     STATUS_UNAVAILABLE},
    {"v1 lease unknown", "404 Not Found",
     "{\"error\":\"x\",\"message\":\"etcdserver: requested lease not found\",\"code\":5}",
     STATUS_NOT_FOUND, STATUS_NOT_FOUND, STATUS_NOT_FOUND},
    {"v2 lease in use", "400 Bad Request",
     "{\"code\":9, \"message\":\"etcdserver: lease already exists\"}", STATUS_EXISTS, STATUS_EXISTS,
     STATUS_EXISTS},
    {"v2 no quorum", "504 Gateway Timeout",
     "{\"code\":4, \"message\":\"context deadline exceeded\"}", STATUS_UNKNOWN, STATUS_UNAVAILABLE,
     STATUS_UNAVAILABLE},
    {"v1 keepalive error", "503 Service Unavailable",
     "{\"error\":{\"grpc_code\":14,\"message\":\"etcdserver: no leader\"}}", STATUS_UNKNOWN,
     STATUS_UNAVAILABLE, STATUS_UNAVAILABLE},
    {"no space", "429 Too Many Requests",
     "{\"code\":8, \"message\":\"etcdserver: mvcc: database space exceeded\"}", STATUS_NO_SPACE,
     STATUS_NO_SPACE, STATUS_NO_SPACE},
    {"bad token", "401 Unauthorized",
     "{\"code\":16, \"message\":\"etcdserver: invalid auth token\"}", STATUS_AUTH, STATUS_AUTH,
     STATUS_AUTH},
};

static void each_strange_answer_says_what_is_known(void) {
    char whole[512];
    size_t i;

    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        fault_rig_init(sends_reply, NULL, 250);
        snprintf(whole, sizeof whole, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n%s",
                 rows[i].status, strlen(rows[i].text), rows[i].text);
        reply = rows[i].status ? whole : rows[i].text;
        CHECK_ROW(rows[i].row, put() == rows[i].of_put);
        CHECK_ROW(rows[i].row, rig.one.n_requests == 1);
        CHECK_ROW(rows[i].row, strncmp(rig.wait.message, rig.one.url, strlen(rig.one.url)) == 0);
        raw_close_all(&rig.one);
        CHECK_ROW(rows[i].row, get() == rows[i].of_get);
        raw_close_all(&rig.one);
        CHECK_ROW(rows[i].row, etcd_wait_keepalive(&rig.wait, 7) == rows[i].of_keepalive);
        fault_rig_done();
    }
}

static void a_missing_gateway_is_named(void) {
    fault_rig_init(sends_reply, NULL, 2000);
    reply = "HTTP/1.1 404 Not Found\r\nContent-Length: 19\r\n\r\n404 page not found\n";
    CU_ASSERT_EQUAL(put(), STATUS_UNAVAILABLE);
    CU_ASSERT_PTR_NOT_NULL(strstr(rig.wait.message, "no etcd v3 JSON gateway"));
    CHECK_TEXT(etcd_http_stats(rig.client)->last_error.message, rig.wait.message);
    fault_rig_done();
}

/* --- endpoints --- */

static void a_write_is_not_sent_on_when_it_may_have_arrived_but_the_next_one_is(void) {
    fault_rig_init(says_nothing, answers, 1500);
    CU_ASSERT_EQUAL(put(), STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(rig.two.n_requests, 0);
    CU_ASSERT_EQUAL(put(), STATUS_OK);
    CU_ASSERT_EQUAL(rig.two.n_requests, 1);
    CHECK_TEXT(etcd_http_stats(rig.client)->endpoint, rig.two.url);
    CU_ASSERT_EQUAL(put(), STATUS_OK); /* it stays there */
    CU_ASSERT_EQUAL(rig.one.n_requests, 1);
    fault_rig_done();
}

static void a_read_or_keepalive_tries_the_next_endpoint_within_its_time(void) {
    uint64_t before_ms;

    fault_rig_init(says_nothing, answers, 3000);
    before_ms = loop_wait_now_ms();
    CU_ASSERT_EQUAL(get(), STATUS_OK);
    CU_ASSERT_TRUE(loop_wait_now_ms() - before_ms < 3000);
    rig.two.handler = takes_and_closes;
    rig.one.handler = answers;
    CU_ASSERT_EQUAL(etcd_wait_keepalive(&rig.wait, 7), STATUS_OK);
    CHECK_TEXT(etcd_http_stats(rig.client)->endpoint, rig.one.url);
    CU_ASSERT_EQUAL(etcd_http_stats(rig.client)->endpoint_switches, 2);
    fault_rig_done();
}

static void a_write_that_was_surely_not_done_tries_the_next_endpoint(void) {
    fault_rig_init(sends_reply, answers, 2000);
    reply = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    CU_ASSERT_EQUAL(put(), STATUS_OK);
    CU_ASSERT_EQUAL(rig.one.n_requests, 1);
    CU_ASSERT_EQUAL(rig.two.n_requests, 1);
    fault_rig_done();
}

static void when_all_endpoints_fail_each_was_tried_once_and_time_kept(void) {
    uint64_t before_ms, took_ms;

    fault_rig_init(says_nothing, says_nothing, 1000);
    before_ms = loop_wait_now_ms();
    CU_ASSERT_EQUAL(get(), STATUS_UNAVAILABLE);
    took_ms = loop_wait_now_ms() - before_ms;
    CU_ASSERT_TRUE(took_ms >= 990 && took_ms < 2000);
    CU_ASSERT_EQUAL(rig.one.n_requests, 1);
    CU_ASSERT_EQUAL(rig.two.n_requests, 1);
    CU_ASSERT_EQUAL(etcd_wait_keepalive(&rig.wait, 7), STATUS_UNKNOWN);
    fault_rig_done();
}

/* A keep-alive that one endpoint swallowed and the other refuses may have been carried out. */
static void an_earlier_try_is_not_forgotten(void) {
    fault_rig_init(takes_and_closes, says_nothing, 2000);
    uv_close((uv_handle_t *)&rig.two.handle, NULL);
    CU_ASSERT_EQUAL(etcd_wait_keepalive(&rig.wait, 7), STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(rig.one.n_requests, 1);
    fault_rig_done();
}

static void requests_that_fail_together_leave_their_endpoint_once(void) {
    static struct etcd_wait many[6];
    const struct etcd_op op = {.kind = ETCD_PUT, .key = "/a", .value = "1"};
    const struct etcd_txn txn = {.then = &op, .n_then = 1};
    size_t i, ended;

    memset(many, 0, sizeof many);
    fault_rig_init(says_nothing, answers, 200);
    for (i = 0; i < 6; i++)
        rig.wait.etcd.txn(rig.client, &txn, etcd_wait_on_txn, &many[i]);
    do {
        uv_run(&rig.loop, UV_RUN_ONCE);
        for (i = 0, ended = 0; i < 6; i++)
            ended += many[i].times;
    } while (ended < 6);
    CU_ASSERT_EQUAL(etcd_http_stats(rig.client)->endpoint_switches, 1);
    CU_ASSERT_EQUAL(etcd_http_stats(rig.client)->unknown_outcomes, 6);
    fault_rig_done();
}

/* --- closing --- */

#define MANY 24 /* more than run at a time */
static struct etcd_wait outstanding[MANY + 4];

static void on_txn_call_again(void *arg, const struct error *err,
                              const struct etcd_txn_result *result) {
    const struct etcd_op op = {.kind = ETCD_RANGE, .key = "/a"};
    const struct etcd_txn txn = {.then = &op, .n_then = 1};

    etcd_wait_on_txn(arg, err, result);
    rig.wait.etcd.txn(rig.client, &txn, etcd_wait_on_txn, &outstanding[MANY + 1]);
    rig.wait.etcd.lease_keepalive(rig.client, 7, etcd_wait_on_lease, &outstanding[MANY + 2]);
    rig.wait.etcd.watch(rig.client, &(struct etcd_key_range){"/a", NULL}, 1, watch_view_on_events,
                        &rig.view);
}

static bool a_request_arrived(void) {
    return rig.one.n_requests > 0;
}

static void closing_cancels_every_call_once(void) {
    const struct etcd_op op = {.kind = ETCD_PUT, .key = "/a", .value = "1"};
    const struct etcd_txn txn = {.then = &op, .n_then = 1}, empty = {0};
    struct etcd etcd;
    size_t i;

    memset(outstanding, 0, sizeof outstanding);
    fault_rig_init(says_nothing, NULL, 5000);
    etcd = rig.wait.etcd;
    for (i = 0; i < MANY; i += 4) {
        etcd.txn(etcd.self, &txn, i == 8 ? on_txn_call_again : etcd_wait_on_txn, &outstanding[i]);
        etcd.lease_grant(etcd.self, 7, 10, etcd_wait_on_lease, &outstanding[i + 1]);
        etcd.lease_keepalive(etcd.self, 7, etcd_wait_on_lease, &outstanding[i + 2]);
        etcd.lease_revoke(etcd.self, 7, etcd_wait_on_lease, &outstanding[i + 3]);
    }
    fault_rig_until(a_request_arrived);
    etcd.txn(etcd.self, &empty, etcd_wait_on_txn, &outstanding[MANY]);
    CU_ASSERT_EQUAL(outstanding[MANY].times, 0); /* not from inside */
    fault_rig_close_client();
    for (i = 0; i < MANY + 3; i++) {
        CU_ASSERT_EQUAL(outstanding[i].times, 1);
        CU_ASSERT_EQUAL(outstanding[i].status, i == MANY ? STATUS_INVALID : STATUS_CANCELLED);
    }
    CU_ASSERT_EQUAL(rig.view.n_batches, 0);
    fault_rig_done();
}

static bool is_closed_from_inside;

static void on_closed_from_inside(void *arg) {
    (void)arg;
    is_closed_from_inside = true;
}

static bool closed_from_inside(void) {
    return is_closed_from_inside;
}

static void on_lease_close(void *arg, const struct error *err, int64_t lease_id, int64_t ttl_s) {
    etcd_wait_on_lease(arg, err, lease_id, ttl_s);
    etcd_http_close(rig.client, on_closed_from_inside, NULL);
    CU_ASSERT_FALSE(is_closed_from_inside);
}

static void a_done_may_close_the_client(void) {
    memset(outstanding, 0, sizeof outstanding);
    is_closed_from_inside = false;
    fault_rig_init(answers, NULL, 5000);
    rig.wait.etcd.lease_keepalive(rig.client, 7, on_lease_close, &outstanding[0]);
    fault_rig_until(closed_from_inside);
    rig.client = NULL;
    CU_ASSERT_EQUAL(outstanding[0].status, STATUS_OK);
    fault_rig_done();
}

static void closing_before_the_first_turn_cancels_too(void) {
    memset(outstanding, 0, sizeof outstanding);
    fault_rig_init(answers, NULL, 5000);
    rig.wait.etcd.lease_keepalive(rig.client, 7, etcd_wait_on_lease, &outstanding[0]);
    fault_rig_close_client();
    CU_ASSERT_EQUAL(outstanding[0].status, STATUS_CANCELLED);
    CU_ASSERT_EQUAL(rig.one.n_requests, 0);
    fault_rig_done();
}

#define TURNS 64
static struct etcd_wait late[TURNS];
static unsigned n_late;

/* Once in each turn of the loop, after its timers and before what they closed is gone. */
static void on_check_call(uv_check_t *check) {
    const struct etcd_op op = {.kind = ETCD_RANGE, .key = "/a"};
    const struct etcd_txn txn = {.then = &op, .n_then = 1};

    (void)check;
    if (n_late < TURNS)
        rig.wait.etcd.txn(rig.client, &txn, etcd_wait_on_txn, &late[n_late++]);
}

static void on_closed_stop_calling(void *check) {
    uv_check_stop(check);
    on_closed_from_inside(NULL);
}

static void what_is_called_until_the_end_is_cancelled(void) {
    uv_check_t check;

    memset(late, 0, sizeof late);
    n_late = 0;
    is_closed_from_inside = false;
    fault_rig_init(says_nothing, NULL, 5000);
    uv_check_init(&rig.loop, &check);
    uv_check_start(&check, on_check_call);
    etcd_http_close(rig.client, on_closed_stop_calling, &check);
    fault_rig_until(closed_from_inside);
    rig.client = NULL;
    CU_ASSERT_TRUE(n_late > 0 && n_late < TURNS);
    for (unsigned i = 0; i < n_late; i++) {
        CU_ASSERT_EQUAL(late[i].times, 1);
        CU_ASSERT_EQUAL(late[i].status, STATUS_CANCELLED);
    }
    uv_close((uv_handle_t *)&check, NULL);
    fault_rig_done();
}

static void wrong_settings_are_named(void) {
    const struct etcd_http_config url = {.endpoints = "http://a:2379,localhost:2379"};
    const struct etcd_http_config file = {.endpoints = "https://a", .ca_file = "/nowhere"};
    struct etcd_http *none = NULL;
    struct error err;
    uv_loop_t loop;

    uv_loop_init(&loop);
    CU_ASSERT_EQUAL(etcd_http_new(&loop, &url, &none, &err), STATUS_INVALID);
    CHECK_TEXT(err.message, "etcd endpoint localhost:2379: must be http://HOST:PORT or "
                            "https://HOST:PORT");
    CU_ASSERT_EQUAL(etcd_http_new(&loop, &file, &none, &err), STATUS_INVALID);
    CHECK_TEXT(err.message, "CA file /nowhere: No such file or directory");
    CU_ASSERT_EQUAL(uv_loop_close(&loop), 0);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(good_answers_are_success),
    CHECK_TEST(an_eaten_reply_leaves_a_write_unknown_and_delivered_once),
    CHECK_TEST(a_write_on_a_stale_connection_is_unknown_and_a_read_is_repeated),
    CHECK_TEST(each_strange_answer_says_what_is_known),
    CHECK_TEST(a_missing_gateway_is_named),
    CHECK_TEST(a_write_is_not_sent_on_when_it_may_have_arrived_but_the_next_one_is),
    CHECK_TEST(a_read_or_keepalive_tries_the_next_endpoint_within_its_time),
    CHECK_TEST(a_write_that_was_surely_not_done_tries_the_next_endpoint),
    CHECK_TEST(when_all_endpoints_fail_each_was_tried_once_and_time_kept),
    CHECK_TEST(an_earlier_try_is_not_forgotten),
    CHECK_TEST(requests_that_fail_together_leave_their_endpoint_once),
    CHECK_TEST(closing_cancels_every_call_once),
    CHECK_TEST(a_done_may_close_the_client),
    CHECK_TEST(closing_before_the_first_turn_cancels_too),
    CHECK_TEST(what_is_called_until_the_end_is_cancelled),
    CHECK_TEST(wrong_settings_are_named),
    CU_TEST_INFO_NULL};

int main(void) {
    CU_SuiteInfo suites[] = {{"etcd client, faults", NULL, NULL, NULL, NULL, rules},
                             CU_SUITE_INFO_NULL};

    signal(SIGPIPE, SIG_IGN);
    return check_run(suites);
}
