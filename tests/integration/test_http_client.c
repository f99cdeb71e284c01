/* test_http_client.c - the HTTP client against a server that behaves as badly as it is told to. */
#include "common/http_client.h"

#include <dlfcn.h>
#include <glob.h>
#include <netdb.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/support/check.h"
#include "tests/support/etcd_process.h"
#include "tests/support/loop_wait.h"
#include "tests/support/raw_server.h"

#define WAIT_MS 30000

static uv_loop_t loop;
static struct raw_server server;
static struct http_client *client;
static bool client_closed;
static bool inside_call; /* a function of the client is running */

/* How a call ended. */
struct outcome {
    unsigned times;
    unsigned sendings;
    enum status status;
    char message[256];
    bool sent, reused;
    long http_status;
    char body[64];
    size_t body_len;
    struct http_result times_taken;
};

static struct outcome outcomes[16];
static size_t n_wanted;

static bool all_ended(void) {
    size_t i;

    for (i = 0; i < n_wanted; i++) {
        if (outcomes[i].times == 0)
            return false;
    }
    return true;
}

static void on_done(void *arg, const struct error *err, const struct http_result *result) {
    struct outcome *outcome = arg;

    CU_ASSERT_FALSE(inside_call);
    outcome->times++;
    outcome->status = err ? err->status : STATUS_OK;
    if (err)
        strcpy(outcome->message, err->message);
    outcome->sent = result->sent;
    outcome->reused = result->reused;
    outcome->http_status = result->http_status;
    outcome->body_len = result->body_len;
    outcome->times_taken = *result;
    CU_ASSERT_EQUAL(result->body[result->body_len], '\0');
    snprintf(outcome->body, sizeof outcome->body, "%.60s", result->body);
}

static void on_send(void *arg) {
    ((struct outcome *)arg)->sendings++;
}

static struct http_request request_to(const char *url, struct outcome *outcome) {
    return (struct http_request){.url = url,
                                 .timeout_ms = 20000,
                                 .max_bytes = 1 << 20,
                                 .on_send = on_send,
                                 .done = on_done,
                                 .arg = outcome};
}

static struct http_call *call(const struct http_request *request) {
    struct http_call *made;

    inside_call = true;
    made = http_client_send(client, request);
    inside_call = false;
    return made;
}

static struct outcome *run(struct http_request request) {
    outcomes[0] = (struct outcome){0};
    n_wanted = 1;
    request.arg = &outcomes[0];
    call(&request);
    CU_ASSERT_TRUE_FATAL(loop_wait(&loop, all_ended, WAIT_MS));
    CU_ASSERT_EQUAL(outcomes[0].times, 1);
    return &outcomes[0];
}

static struct outcome *get(void) {
    return run(request_to(server.url, NULL));
}

static struct outcome *post(const char *body) {
    struct http_request request = request_to(server.url, NULL);

    request.body = body;
    request.body_len = strlen(body);
    return run(request);
}

static void on_client_closed(void *arg) {
    (void)arg;
    CU_ASSERT_FALSE(inside_call);
    client_closed = true;
}

static bool is_client_closed(void) {
    return client_closed;
}

static void close_client(void) {
    inside_call = true;
    http_client_close(client, on_client_closed, NULL);
    inside_call = false;
    CU_ASSERT_TRUE(loop_wait(&loop, is_client_closed, WAIT_MS));
    client = NULL;
}

/* --- what the server does --- */

static char last_head[4096];
static size_t last_body_len;

static void remember(const struct raw_request *request) {
    snprintf(last_head, sizeof last_head, "%s", request->head);
    last_body_len = request->body_len;
}

static void answers(struct raw_connection *connection, const struct raw_request *request) {
    remember(request);
    raw_answer(connection, "{\"ok\":true}");
}

static void says_nothing(struct raw_connection *connection, const struct raw_request *request) {
    (void)connection;
    remember(request);
}

static void closes_when_the_connection_is_reused(struct raw_connection *connection,
                                                 const struct raw_request *request) {
    if (request->reused)
        raw_close(connection);
    else
        raw_answer(connection, "first");
}

static void closes(struct raw_connection *connection, const struct raw_request *request) {
    (void)request;
    raw_close(connection);
}

static const char *reply; /* of sends_reply() */

static void sends_reply(struct raw_connection *connection, const struct raw_request *request) {
    (void)request;
    raw_send(connection, reply, strlen(reply));
}

static void sends_reply_and_closes(struct raw_connection *connection,
                                   const struct raw_request *request) {
    sends_reply(connection, request);
    raw_finish(connection);
}

static void echoes_a_megabyte(struct raw_connection *connection,
                              const struct raw_request *request) {
    static char much[1 << 16];
    int i;

    (void)request;
    memset(much, 'x', sizeof much);
    raw_begin_chunks(connection);
    for (i = 0; i < 17; i++)
        raw_chunk(connection, much, sizeof much);
    raw_end_chunks(connection);
}

/* --- set-up --- */

static void given_a_client_and_a_server(void) {
    struct error err;

    uv_loop_init(&loop);
    raw_server_start(&server, &loop, answers);
    CU_ASSERT_EQUAL_FATAL(
        http_client_new(&loop, &(struct http_config){.max_active = 2}, &client, &err), STATUS_OK);
    client_closed = false;
    memset(outcomes, 0, sizeof outcomes);
}

static void then_all_is_closed(void) {
    if (client)
        close_client();
    raw_server_stop(&server, &loop);
    CU_ASSERT_EQUAL(uv_run(&loop, UV_RUN_DEFAULT), 0);
    CU_ASSERT_EQUAL(uv_loop_close(&loop), 0); /* no handle is left */
}

/* --- rules --- */

static void a_get_brings_status_body_and_times(void) {
    struct outcome *outcome = get();

    CU_ASSERT_EQUAL(outcome->status, STATUS_OK);
    CU_ASSERT_EQUAL(outcome->http_status, 200);
    CHECK_TEXT(outcome->body, "{\"ok\":true}");
    CU_ASSERT_TRUE(outcome->sent && !outcome->reused);
    CU_ASSERT_EQUAL(outcome->sendings, 1);
    CU_ASSERT_TRUE(outcome->times_taken.sent_us <= outcome->times_taken.first_byte_us);
    CU_ASSERT_TRUE(outcome->times_taken.first_byte_us <= outcome->times_taken.total_us);
    CU_ASSERT_TRUE(outcome->times_taken.total_us > 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_head, "GET / HTTP/1.1\r\n"));
}

static void a_second_request_goes_over_the_same_connection(void) {
    get();
    CU_ASSERT_TRUE(get()->reused);
    CU_ASSERT_TRUE(post("x")->reused);
    CU_ASSERT_EQUAL(server.n_connections, 1);
}

static void a_post_arrives_whole_with_its_headers_and_no_expect(void) {
    static const char *const headers[] = {"Content-Type: application/json", "X-Two: 2", NULL};
    struct http_request request = request_to(server.url, NULL);
    size_t len = 3 << 20;
    char *body = malloc(len);

    memset(body, 'y', len);
    request.headers = headers;
    request.body = body;
    request.body_len = len;
    CU_ASSERT_EQUAL(run(request)->status, STATUS_OK);
    CU_ASSERT_EQUAL(last_body_len, len);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_head, "POST / HTTP/1.1\r\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(last_head, "Content-Type: application/json\r\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(last_head, "X-Two: 2\r\n"));
    CU_ASSERT_PTR_NULL(strcasestr(last_head, "expect"));
    free(body);
}

static void only_an_authorized_request_brings_the_authorization(void) {
    struct http_request request = request_to(server.url, NULL);

    http_client_authorize(client, "Authorization: Bearer a");
    run(request);
    CU_ASSERT_PTR_NULL(strcasestr(last_head, "authorization"));
    request.authorized = true;
    run(request);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_head, "\r\nAuthorization: Bearer a\r\n"));
    http_client_authorize(client, "Authorization: Bearer b");
    run(request);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_head, "\r\nAuthorization: Bearer b\r\n"));
    http_client_authorize(client, NULL);
    run(request);
    CU_ASSERT_PTR_NULL(strcasestr(last_head, "authorization"));
}

static void any_http_status_is_an_answer(void) {
    server.handler = sends_reply;
    reply = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nlate";
    CU_ASSERT_EQUAL(get()->status, STATUS_OK);
    CU_ASSERT_EQUAL(outcomes[0].http_status, 503);
    CHECK_TEXT(outcomes[0].body, "late");
    reply = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n";
    CU_ASSERT_EQUAL(get()->http_status, 302);
    CU_ASSERT_EQUAL(outcomes[0].status, STATUS_OK);
    reply = "HTTP/1.1 204 No Content\r\n\r\n";
    CU_ASSERT_EQUAL(get()->http_status, 204);
    CHECK_TEXT(outcomes[0].body, "");
}

static void a_refused_connection_was_never_sent_on(void) {
    char url[40];
    struct outcome *outcome;

    snprintf(url, sizeof url, "http://127.0.0.1:%d/x", free_port());
    outcome = run(request_to(url, NULL));
    CU_ASSERT_EQUAL(outcome->status, STATUS_UNAVAILABLE);
    CU_ASSERT_FALSE(outcome->sent);
    CU_ASSERT_EQUAL(outcome->sendings, 0);
    url[strlen(url) - 2] = '\0';
    CU_ASSERT_EQUAL(strncmp(outcome->message, url, strlen(url)), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome->message, ": Failed to connect"));
}

static void what_is_no_url_is_invalid(void) {
    CU_ASSERT_EQUAL(run(request_to("http://a b/", NULL))->status, STATUS_INVALID);
    CU_ASSERT_EQUAL(run(request_to("file:///etc/passwd", NULL))->status, STATUS_INVALID);
    CU_ASSERT_EQUAL(run(request_to("", NULL))->status, STATUS_INVALID);
}

static void silence_after_sending_is_unknown_when_the_time_is_over(void) {
    struct http_request request = request_to(server.url, NULL);
    uint64_t before_ms = loop_wait_now_ms(), took_ms;

    server.handler = says_nothing;
    request.timeout_ms = 300;
    CU_ASSERT_EQUAL(run(request)->status, STATUS_UNKNOWN);
    took_ms = loop_wait_now_ms() - before_ms;
    CU_ASSERT_TRUE(took_ms >= 290 && took_ms < 2000);
    CU_ASSERT_TRUE(outcomes[0].sent);
    server.handler = answers;
    CU_ASSERT_EQUAL(get()->status, STATUS_OK);
}

static void a_post_whose_connection_breaks_is_unknown_and_delivered_once(void) {
    server.handler = closes_when_the_connection_is_reused;
    CHECK_TEXT(post("one")->body, "first");
    CU_ASSERT_EQUAL(post("two")->status, STATUS_UNKNOWN);
    CU_ASSERT_TRUE(outcomes[0].sent);
    CU_ASSERT_EQUAL(outcomes[0].sendings, 1);
    CU_ASSERT_EQUAL(server.n_requests, 2); /* curl by itself would have made it 3 and a success */
    CU_ASSERT_PTR_NOT_NULL(strstr(outcomes[0].message, "broke before an answer came"));
    server.handler = closes;
    CU_ASSERT_EQUAL(post("three")->status, STATUS_UNKNOWN); /* a fresh connection: no repeat */
    CU_ASSERT_EQUAL(server.n_requests, 3);
}

static void a_repeatable_request_is_repeated_once_its_old_connection_breaks(void) {
    struct http_request request = request_to(server.url, NULL);

    request.repeatable = true;
    server.handler = closes_when_the_connection_is_reused;
    run(request);
    CHECK_TEXT(run(request)->body, "first");
    CU_ASSERT_EQUAL(outcomes[0].sendings, 2);
    CU_ASSERT_EQUAL(server.n_requests, 3);
}

/* The first copy was delivered: a refused second connection must not look like "never sent". */
static void a_broken_and_then_refused_connection_is_unknown(void) {
    static struct raw_server other;
    char url[40];
    struct http_request request;

    raw_server_start(&other, &loop, answers);
    strcpy(url, other.url);
    request = request_to(url, NULL);
    request.repeatable = true;
    CU_ASSERT_EQUAL(run(request)->status, STATUS_OK);
    uv_close((uv_handle_t *)&other.handle, NULL); /* no new connection; the old one stands */
    other.handler = closes;
    CU_ASSERT_EQUAL(run(request)->status, STATUS_UNKNOWN);
    CU_ASSERT_TRUE(outcomes[0].sent);
    CU_ASSERT_EQUAL(other.n_requests, 2);
    raw_server_stop(&other, &loop);
}

static const struct {
    const char *row, *reply;
    enum status expected;
} broken[] = {
    {"no HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", STATUS_PROTOCOL},
    {"cut head", "HTTP/1.1 200 OK\r\nContent-Le", STATUS_UNKNOWN},
    {"cut body", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", STATUS_UNKNOWN},
    {"cut chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc", STATUS_UNKNOWN},
    {"no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
     STATUS_UNKNOWN},
    {"chunk of no size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
     STATUS_UNKNOWN},
    {"length below zero", "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc", STATUS_PROTOCOL},
    {"length beyond all", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nabc",
     STATUS_PROTOCOL},
    {"too large by its length", "HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\nabc",
     STATUS_PROTOCOL},
    {"nothing", "", STATUS_UNKNOWN},
};

static void an_answer_that_is_not_whole_is_no_answer(void) {
    size_t i;

    server.handler = sends_reply_and_closes;
    for (i = 0; i < sizeof broken / sizeof *broken; i++) {
        reply = broken[i].reply;
        CHECK_ROW(broken[i].row, post("x")->status == broken[i].expected);
        CHECK_ROW(broken[i].row, outcomes[0].sent && outcomes[0].message[0]);
    }
}

static void an_answer_above_the_limit_is_refused(void) {
    server.handler = echoes_a_megabyte;
    CU_ASSERT_EQUAL(get()->status, STATUS_PROTOCOL);
    CU_ASSERT_PTR_NOT_NULL(strstr(outcomes[0].message, "too large"));
    CU_ASSERT_TRUE(outcomes[0].body_len <= 1 << 20);
}

static void proxies_in_the_environment_are_ignored(void) {
    static const char *const names[] = {"http_proxy", "https_proxy", "HTTPS_PROXY",
                                        "ALL_PROXY",  "all_proxy",   "grpc_proxy"};
    size_t i;

    for (i = 0; i < sizeof names / sizeof *names; i++)
        setenv(names[i], "http://127.0.0.1:9", 1);
    CU_ASSERT_EQUAL(get()->status, STATUS_OK);
    for (i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

static bool two_requests_arrived(void) {
    return server.n_requests >= 2;
}

static void requests_beyond_the_limit_wait_and_then_run(void) {
    struct http_request request;
    size_t i;

    server.handler = says_nothing;
    n_wanted = 6;
    for (i = 0; i < 6; i++) {
        request = request_to(server.url, &outcomes[i]);
        request.timeout_ms = i < 2 ? 400 : 20000;
        if (i == 2)
            request.timeout_ms = 100; /* over before its turn */
        call(&request);
    }
    CU_ASSERT_TRUE(loop_wait(&loop, two_requests_arrived, WAIT_MS));
    server.handler = answers;
    CU_ASSERT_TRUE(loop_wait(&loop, all_ended, WAIT_MS));
    CU_ASSERT_EQUAL(outcomes[0].status, STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(outcomes[1].status, STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(outcomes[2].status, STATUS_UNAVAILABLE);
    CU_ASSERT_FALSE(outcomes[2].sent);
    for (i = 3; i < 6; i++)
        CU_ASSERT_EQUAL(outcomes[i].status, STATUS_OK);
    CU_ASSERT_EQUAL(server.n_requests, 5);
}

/* --- streams --- */

static struct http_call *stream;
static struct raw_connection *streaming;
static char streamed[64];

static void starts_a_stream(struct raw_connection *connection, const struct raw_request *request) {
    if (strncmp(request->head, "GET /stream", 11) != 0) {
        raw_answer(connection, "plain");
        return;
    }
    streaming = connection;
    raw_begin_chunks(connection);
    raw_chunk(connection, "a", 1);
}

static void collect(void *arg, long http_status, const char *bytes, size_t len) {
    (void)arg;
    CU_ASSERT_EQUAL(http_status, 200);
    snprintf(streamed + strlen(streamed), sizeof streamed - strlen(streamed), "%.*s", (int)len,
             bytes);
}

/* Calls back into the client from inside curl. */
static void collect_and_send(void *arg, long http_status, const char *bytes, size_t len) {
    collect(arg, http_status, bytes, len);
    if (strcmp(streamed, "a") == 0) {
        struct http_request request = request_to(server.url, &outcomes[1]);

        call(&request);
    } else {
        http_call_cancel(stream);
    }
}

static bool streamed_a(void) {
    return streamed[0] != '\0';
}

static bool plain_ended(void) {
    return outcomes[1].times > 0;
}

static char stream_url[48];

static struct http_request stream_request(http_bytes_fn *on_bytes) {
    struct http_request request;

    server.handler = starts_a_stream;
    streamed[0] = '\0';
    snprintf(stream_url, sizeof stream_url, "%s/stream", server.url);
    request = request_to(stream_url, &outcomes[0]);
    request.timeout_ms = 0;
    request.on_bytes = on_bytes;
    return request;
}

static void a_stream_brings_pieces_as_they_come_and_its_end(void) {
    struct http_request request = stream_request(collect);

    n_wanted = 1;
    stream = call(&request);
    CU_ASSERT_TRUE_FATAL(loop_wait(&loop, streamed_a, WAIT_MS));
    CU_ASSERT_EQUAL(outcomes[0].times, 0);
    raw_chunk(streaming, "bc", 2);
    raw_end_chunks(streaming);
    CU_ASSERT_TRUE(loop_wait(&loop, all_ended, WAIT_MS));
    CU_ASSERT_EQUAL(outcomes[0].status, STATUS_OK);
    CHECK_TEXT(streamed, "abc");
    CHECK_TEXT(outcomes[0].body, "");
}

static void a_stream_may_send_and_cancel_from_its_own_bytes(void) {
    struct http_request request = stream_request(collect_and_send);

    n_wanted = 2;
    stream = call(&request);
    CU_ASSERT_TRUE_FATAL(loop_wait(&loop, plain_ended, WAIT_MS));
    CHECK_TEXT(outcomes[1].body, "plain");
    raw_chunk(streaming, "b", 1);
    CU_ASSERT_TRUE(loop_wait(&loop, all_ended, WAIT_MS));
    CU_ASSERT_EQUAL(outcomes[0].status, STATUS_CANCELLED);
    CHECK_TEXT(streamed, "ab");
}

static bool no_connection_is_open(void) {
    return server.n_open == 0;
}

static void streams_take_no_place_from_requests_and_cancel_closes_their_connection(void) {
    struct http_request request = stream_request(collect);
    struct http_call *streams[3];
    size_t i;

    n_wanted = 4;
    for (i = 0; i < 3; i++) {
        request.arg = &outcomes[i == 1 ? 3 : i];
        streams[i] = call(&request);
    }
    request = request_to(server.url, &outcomes[1]);
    call(&request);
    CU_ASSERT_TRUE_FATAL(loop_wait(&loop, plain_ended, WAIT_MS));
    CHECK_TEXT(outcomes[1].body, "plain");
    inside_call = true;
    for (i = 0; i < 3; i++)
        http_call_cancel(streams[i]);
    inside_call = false;
    CU_ASSERT_TRUE(loop_wait(&loop, all_ended, WAIT_MS));
    for (i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(outcomes[i].status, i == 1 ? STATUS_OK : STATUS_CANCELLED);
    close_client();
    CU_ASSERT_TRUE(loop_wait(&loop, no_connection_is_open, WAIT_MS));
}

/* --- closing --- */

static void on_done_send_again(void *arg, const struct error *err,
                               const struct http_result *result) {
    struct http_request request = request_to(server.url, &outcomes[5]);

    on_done(arg, err, result);
    call(&request);
}

static bool a_request_arrived(void) {
    return server.n_requests > 0;
}

static void closing_cancels_what_runs_what_waits_and_what_is_sent_meanwhile(void) {
    struct http_request request;
    size_t i;

    server.handler = says_nothing;
    n_wanted = 6;
    for (i = 0; i < 5; i++) { /* two run, three wait */
        request = request_to(server.url, &outcomes[i]);
        if (i == 4)
            request.done = on_done_send_again;
        call(&request);
    }
    CU_ASSERT_TRUE(loop_wait(&loop, a_request_arrived, WAIT_MS));
    close_client();
    for (i = 0; i < 6; i++) {
        CU_ASSERT_EQUAL(outcomes[i].times, 1);
        CU_ASSERT_EQUAL(outcomes[i].status, STATUS_CANCELLED);
    }
}

static void closing_at_once_or_during_the_connect_takes_no_time(void) {
    /* 192.0.2.1 is nobody's: no answer comes, or a router says so at once. */
    struct http_request request = request_to("http://192.0.2.1:9/", &outcomes[0]);
    uint64_t before_ms = loop_wait_now_ms();

    n_wanted = 1;
    call(&request);
    uv_run(&loop, UV_RUN_NOWAIT);
    close_client();
    CU_ASSERT_EQUAL(outcomes[0].times, 1);
    CU_ASSERT_TRUE(loop_wait_now_ms() - before_ms < 1000);
}

/* --- a name server that is away --- */

static atomic_int resolving;
static atomic_bool name_server_is_back;

/* Stands before libc's, also for libcurl. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **found) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    unsigned waits;

    if (node && strcmp(node, "slow.test") == 0) {
        resolving++;
        for (waits = 0; waits < WAIT_MS && !name_server_is_back; waits++)
            usleep(1000);
        resolving--;
        return EAI_AGAIN;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return real(node, service, hints, found);
}

static bool somebody_resolves_again(void) {
    return resolving == 2;
}

/* What the resolver's threads hold is theirs to free: none may be reported as a leak. */
static bool no_other_thread_runs(void) {
    glob_t threads = {0};
    size_t n = glob("/proc/self/task/*", 0, NULL, &threads) == 0 ? threads.gl_pathc : 0;

    globfree(&threads);
    return n == 1;
}

static void a_hanging_name_server_does_not_hold_up_the_loop(void) {
    struct http_request request = request_to("http://slow.test:1/", NULL);

    name_server_is_back = false;
    request.timeout_ms = 200;
    CU_ASSERT_EQUAL(run(request)->status, STATUS_UNAVAILABLE);
    CU_ASSERT_FALSE(outcomes[0].sent);
    CU_ASSERT_EQUAL(resolving, 1);
    CU_ASSERT_EQUAL(get()->status, STATUS_OK);
    outcomes[0] = (struct outcome){0};
    request.timeout_ms = 20000;
    request.arg = &outcomes[0];
    call(&request);
    CU_ASSERT_TRUE(loop_wait(&loop, somebody_resolves_again, WAIT_MS));
    close_client();
    CU_ASSERT_EQUAL(outcomes[0].status, STATUS_CANCELLED);
    CU_ASSERT_EQUAL(resolving, 2); /* nobody waited for them */
    name_server_is_back = true;
    CU_ASSERT_TRUE(loop_wait(&loop, no_other_thread_runs, WAIT_MS));
}

static void a_file_that_cannot_be_read_is_named(void) {
    struct http_client *none = NULL;
    struct error err;

    CU_ASSERT_EQUAL(
        http_client_new(&loop, &(struct http_config){.ca_file = "/nowhere/ca.pem"}, &none, &err),
        STATUS_INVALID);
    CHECK_TEXT(err.message, "CA file /nowhere/ca.pem: No such file or directory");
    CU_ASSERT_EQUAL(
        http_client_new(&loop, &(struct http_config){.cert_file = "/dev/null"}, &none, &err),
        STATUS_INVALID);
    CHECK_TEXT(err.message, "certificate and key go together");
    CU_ASSERT_PTR_NULL(none);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(a_get_brings_status_body_and_times),
    CHECK_TEST(a_second_request_goes_over_the_same_connection),
    CHECK_TEST(a_post_arrives_whole_with_its_headers_and_no_expect),
    CHECK_TEST(only_an_authorized_request_brings_the_authorization),
    CHECK_TEST(any_http_status_is_an_answer),
    CHECK_TEST(a_refused_connection_was_never_sent_on),
    CHECK_TEST(what_is_no_url_is_invalid),
    CHECK_TEST(silence_after_sending_is_unknown_when_the_time_is_over),
    CHECK_TEST(a_post_whose_connection_breaks_is_unknown_and_delivered_once),
    CHECK_TEST(a_repeatable_request_is_repeated_once_its_old_connection_breaks),
    CHECK_TEST(a_broken_and_then_refused_connection_is_unknown),
    CHECK_TEST(an_answer_that_is_not_whole_is_no_answer),
    CHECK_TEST(an_answer_above_the_limit_is_refused),
    CHECK_TEST(proxies_in_the_environment_are_ignored),
    CHECK_TEST(requests_beyond_the_limit_wait_and_then_run),
    CHECK_TEST(a_stream_brings_pieces_as_they_come_and_its_end),
    CHECK_TEST(a_stream_may_send_and_cancel_from_its_own_bytes),
    CHECK_TEST(streams_take_no_place_from_requests_and_cancel_closes_their_connection),
    CHECK_TEST(closing_cancels_what_runs_what_waits_and_what_is_sent_meanwhile),
    CHECK_TEST(closing_at_once_or_during_the_connect_takes_no_time),
    CHECK_TEST(a_hanging_name_server_does_not_hold_up_the_loop),
    CHECK_TEST(a_file_that_cannot_be_read_is_named),
    CU_TEST_INFO_NULL};

int main(void) {
    CU_SuiteInfo suites[] = {
        {"HTTP client", NULL, NULL, given_a_client_and_a_server, then_all_is_closed, rules},
        CU_SUITE_INFO_NULL};

    signal(SIGPIPE, SIG_IGN);
    return check_run(suites);
}
