/* test_etcd_auth.c - the etcd client with a user: a token for each endpoint, what is done when etcd
 * refuses it, and what a wrong password does.  First on a server that plays both gateway
 * generations, then on a real etcd with tokens that live for 4 s. */
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/etcd_options.h"
#include "tests/support/check.h"
#include "tests/support/etcd_process.h"
#include "tests/support/fault_rig.h"
#include "tests/support/loop_wait.h"

#define DONE(response)                                                                             \
    "{\"header\":{\"revision\":\"7\"},\"succeeded\":true,\"responses\":[{\"" response              \
    "\":{\"header\":{\"revision\":\"7\"}}}]}"

static char password_file[] = "/tmp/snowfleet-password-XXXXXX";

/* --- an etcd of our own --- */

/* What a call gets that lacks the token of now. */
static const struct refusal {
    const char *row, *status, *body;
} refusals[] = {
    {"3.4, old token", "401 Unauthorized",
     "{\"error\":\"etcdserver: invalid auth token\",\"message\":\"etcdserver: invalid auth "
     "token\",\"code\":16}"},
    {"3.5, old token", "401 Unauthorized",
     "{\"code\":16, \"message\":\"etcdserver: invalid auth token\", \"details\":[]}"},
    {"3.4, no token", "400 Bad Request",
     "{\"error\":\"etcdserver: user name is empty\",\"message\":\"etcdserver: user name is "
     "empty\",\"code\":3}"},
    {"3.5, no token", "400 Bad Request",
     "{\"code\":3, \"message\":\"etcdserver: user name is empty\", \"details\":[]}"},
    {"3.5, JWT from before a change", "400 Bad Request",
     "{\"code\":3, \"message\":\"etcdserver: revision of auth store is old\", \"details\":[]}"},
    {"3.5.30, keep-alive", "401 Unauthorized",
     "{\"error\":{\"code\":16, \"message\":\"etcdserver: invalid auth token\"}}"},
};

static struct {
    const struct refusal *refusal;
    const char *login_status, *login_body; /* what each login gets; NULL: a token or a refusal */
    bool silent;                           /* logins get no answer */
    int token;                             /* the number of the valid one; 0: none yet */
    unsigned logins, refused, served, anonymous;
} server;

static void answer(struct raw_connection *connection, const char *status, const char *body) {
    char text[1024];

    snprintf(text, sizeof text, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n%s", status,
             strlen(body), body);
    raw_send(connection, text, strlen(text));
}

static void answer_line(struct raw_connection *connection, const char *line) {
    raw_begin_chunks(connection);
    raw_chunk(connection, line, strlen(line));
}

static void log_in(struct raw_connection *connection, const struct raw_request *request) {
    char body[128];

    server.logins++;
    if (server.silent)
        return;
    if (server.login_body) {
        answer(connection, server.login_status, server.login_body);
    } else if (strcmp(request->body, "{\"name\":\"us\\\"er\",\"password\":\"good\"}") == 0) {
        snprintf(body, sizeof body, "{\"header\":{},\"token\":\"tok.%d\"}", ++server.token);
        raw_answer(connection, body);
    } else {
        answer(connection, "400 Bad Request",
               "{\"code\":3, \"message\":\"etcdserver: authentication failed, invalid user ID or "
               "password\"}");
    }
}

static void serve(struct raw_connection *connection, const struct raw_request *request) {
    if (strstr(request->head, "/v3/watch")) {
        answer_line(connection, "{\"result\":{\"header\":{\"revision\":\"7\"},"
                                "\"watch_id\":\"1\",\"created\":true}}\n");
    } else if (strstr(request->head, "/v3/lease/keepalive")) {
        raw_answer(connection, "{\"result\":{\"ID\":\"7\",\"TTL\":\"10\"}}\n");
    } else if (strstr(request->head, "/v3/lease/grant")) {
        raw_answer(connection, "{\"header\":{},\"ID\":\"7\",\"TTL\":\"10\"}");
    } else if (strstr(request->head, "/v3/lease/revoke")) {
        raw_answer(connection, "{\"header\":{\"revision\":\"7\"}}");
    } else {
        raw_answer(connection, strstr(request->body, "request_put") ? DONE("response_put")
                                                                    : DONE("response_range"));
    }
}

static void with_users(struct raw_connection *connection, const struct raw_request *request) {
    char header[64];

    if (strstr(request->head, "/v3/auth/authenticate")) {
        log_in(connection, request);
        return;
    }
    snprintf(header, sizeof header, "\r\nAuthorization: tok.%d\r\n", server.token);
    if (!strstr(request->head, "Authorization"))
        server.anonymous++;
    if (server.token > 0 && strstr(request->head, header)) {
        server.served++;
        serve(connection, request);
    } else if (strstr(request->head, "/v3/watch")) {
        server.refused++;
        answer_line(
            connection,
            "{\"result\":{\"header\":{},\"watch_id\":\"-1\",\"created\":true,\"canceled\":"
            "true,\"cancel_reason\":\"rpc error: code = PermissionDenied desc = etcdserver: "
            "permission denied\"}}\n");
    } else {
        server.refused++;
        answer(connection, server.refusal->status, server.refusal->body);
    }
}

static void without_users(struct raw_connection *connection, const struct raw_request *request) {
    if (strstr(request->head, "/v3/auth/authenticate")) {
        log_in(connection, request);
        return;
    }
    if (!strstr(request->head, "Authorization"))
        server.anonymous++;
    server.served++;
    serve(connection, request);
}

static void says_nothing(struct raw_connection *connection, const struct raw_request *request) {
    (void)connection, (void)request;
}

static void write_password(const char *text) {
    FILE *file = fopen(password_file, "w");

    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(text, file);
    fclose(file);
}

/* Keeps the loop turning: a done() that runs from a timer at the start of uv_run() in UV_RUN_ONCE is
 * seen only when that returns, which without another event is never. */
static uv_timer_t tick;

static void start_tick(void) {
    uv_timer_init(&rig.loop, &tick);
    uv_timer_start(&tick, loop_wait_tick, 5, 5);
}

static void done(void) {
    uv_close((uv_handle_t *)&tick, NULL);
    fault_rig_done();
}

/* The rig's client, made anew with a user. */
static void given(raw_handler_fn *one, raw_handler_fn *two, const char *password) {
    char endpoints[128];
    const struct etcd_http_config config = {.endpoints = endpoints,
                                            .timeout_ms = 2000,
                                            .watch_lifetime_ms = 1000,
                                            .retry_min_ms = 40,
                                            .retry_max_ms = 200,
                                            .user = "us\"er",
                                            .password_file = password_file};
    struct error err;

    memset(&server, 0, sizeof server);
    server.refusal = &refusals[0];
    write_password(password);
    fault_rig_init(one, two, 2000);
    fault_rig_close_client();
    rig.closed = false;
    snprintf(endpoints, sizeof endpoints, "%s%s%s", rig.one.url, two ? "," : "",
             two ? rig.two.url : "");
    CU_ASSERT_EQUAL_FATAL(etcd_http_new(&rig.loop, &config, &rig.client, &err), STATUS_OK);
    rig.wait.etcd = etcd_http_interface(rig.client);
    start_tick();
}

static enum status put(void) {
    return etcd_wait_put(&rig.wait, "/a", "1", 0);
}

static enum status get(void) {
    return etcd_wait_get(&rig.wait, "/a", NULL);
}

/* --- tokens --- */

static void every_call_carries_the_token_of_one_login(void) {
    given(with_users, NULL, "good\n");
    CU_ASSERT_EQUAL(put(), STATUS_OK);
    CU_ASSERT_EQUAL(get(), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_wait_grant(&rig.wait, 7, 10), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_wait_keepalive(&rig.wait, 7), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_wait_revoke(&rig.wait, 7), STATUS_OK);
    CU_ASSERT_EQUAL(server.logins, 1);
    CU_ASSERT_EQUAL(server.served, 5);
    CU_ASSERT_EQUAL(server.refused + server.anonymous, 0);
    CU_ASSERT_EQUAL(etcd_http_stats(rig.client)->authentications, 1);
    done();
}

/* Kinds of calls, for rules that hold for each. */
static enum status call(size_t kind) {
    switch (kind) {
    case 0: return put();
    case 1: return get();
    case 2: return etcd_wait_grant(&rig.wait, 7, 10);
    case 3: return etcd_wait_keepalive(&rig.wait, 7);
    default: return etcd_wait_revoke(&rig.wait, 7);
    }
}

static void a_refused_token_is_renewed_and_the_call_repeated_once(void) {
    size_t i, kind;

    for (i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        given(with_users, NULL, "good");
        server.refusal = &refusals[i];
        CU_ASSERT_EQUAL(get(), STATUS_OK);
        for (kind = 0; kind < 5; kind++) {
            unsigned logins = server.logins, served = server.served, refused = server.refused;

            server.token += 100; /* the one we hold is none any more */
            CHECK_ROW(refusals[i].row, call(kind) == STATUS_OK);
            CHECK_ROW(refusals[i].row, server.logins == logins + 1);
            CHECK_ROW(refusals[i].row, server.served == served + 1);
            CHECK_ROW(refusals[i].row, server.refused == refused + 1);
        }
        CHECK_ROW(refusals[i].row, etcd_http_stats(rig.client)->unknown_outcomes == 0);
        CHECK_ROW(refusals[i].row, etcd_http_stats(rig.client)->failures_in_row == 0);
        done();
    }
}

static struct etcd_wait many[12];

static bool all_came(void) {
    size_t i;

    for (i = 0; i < 12; i++) {
        if (many[i].times == 0)
            return false;
    }
    return true;
}

static void call_many(void) {
    const struct etcd_op op = {.kind = ETCD_PUT, .key = "/a", .value = "1"};
    const struct etcd_txn txn = {.then = &op, .n_then = 1};
    size_t i;

    memset(many, 0, sizeof many);
    for (i = 0; i < 12; i += 2) {
        rig.wait.etcd.txn(rig.client, &txn, etcd_wait_on_txn, &many[i]);
        rig.wait.etcd.lease_keepalive(rig.client, 7, etcd_wait_on_lease, &many[i + 1]);
    }
}

static void calls_at_the_same_time_share_one_login(void) {
    size_t i, round;

    given(with_users, NULL, "good");
    for (round = 1; round <= 2; round++) { /* with no token, then with an old one */
        call_many();
        fault_rig_until(all_came);
        for (i = 0; i < 12; i++) {
            CU_ASSERT_EQUAL(many[i].times, 1);
            CU_ASSERT_EQUAL(many[i].status, STATUS_OK);
        }
        CU_ASSERT_EQUAL(server.logins, round);
        server.token += 100;
    }
    done();
}

static void each_endpoint_has_a_token_of_its_own(void) {
    given(with_users, with_users, "good");
    CU_ASSERT_EQUAL(put(), STATUS_OK);
    rig.one.handler = says_nothing;
    CU_ASSERT_EQUAL(get(), STATUS_OK);
    CU_ASSERT_EQUAL(server.logins, 2);
    CU_ASSERT_EQUAL(server.refused + server.anonymous, 0);
    CHECK_TEXT(etcd_http_stats(rig.client)->endpoint, rig.two.url);
    done();
}

static void a_login_without_an_answer_leaves_time_for_the_next_endpoint(void) {
    uint64_t before_ms;

    given(says_nothing, with_users, "good");
    before_ms = loop_wait_now_ms();
    CU_ASSERT_EQUAL(put(), STATUS_OK); /* a write: it was surely not sent */
    CU_ASSERT_TRUE(loop_wait_now_ms() - before_ms < 2000);
    CU_ASSERT_EQUAL(rig.one.n_requests, 1);
    CU_ASSERT_EQUAL(server.logins, 1);
    done();
}

static void an_etcd_without_users_is_used_without_a_token_until_it_has_some(void) {
    static const struct refusal off[] = {
        {"3.4", "412 Precondition Failed",
         "{\"error\":\"etcdserver: authentication is not enabled\",\"message\":\"etcdserver: "
         "authentication is not enabled\",\"code\":9}"},
        {"3.5", "400 Bad Request",
         "{\"code\":9, \"message\":\"etcdserver: authentication is not enabled\"}"},
    };
    size_t i;

    for (i = 0; i < 2; i++) {
        given(without_users, NULL, "good");
        server.login_status = off[i].status;
        server.login_body = off[i].body;
        CHECK_ROW(off[i].row, put() == STATUS_OK && get() == STATUS_OK);
        CHECK_ROW(off[i].row, server.logins == 1 && server.anonymous == 2);
        server.login_body = NULL;
        server.refusal = &refusals[2];
        rig.one.handler = with_users;
        CHECK_ROW(off[i].row, put() == STATUS_OK);
        CHECK_ROW(off[i].row, server.logins == 2 && server.refused == 1);
        done();
    }
}

/* --- watches --- */

static bool watch_was_refused(void) {
    return server.refused >= 1;
}

static bool two_resets(void) {
    return rig.view.n_resets >= 2;
}

static bool one_reset(void) {
    return rig.view.n_resets >= 1;
}

static void a_watch_that_is_cancelled_for_its_token_gets_a_new_one(void) {
    given(with_users, NULL, "good");
    rig.wait.etcd.watch(rig.client, &(struct etcd_key_range){"/a", NULL}, 1, watch_view_on_events,
                        &rig.view);
    fault_rig_until(one_reset);
    server.token += 100;
    fault_rig_until(watch_was_refused); /* when its stream is renewed */
    fault_rig_until(two_resets);
    CU_ASSERT_EQUAL(server.logins, 2);
    CU_ASSERT_EQUAL(server.anonymous, 0);
    done();
}

/* --- what does not help --- */

static void a_wrong_password_is_said_once_a_while_and_a_new_one_taken_up_at_once(void) {
    int i;

    given(with_users, NULL, "bad-secret\n");
    for (i = 0; i < 20; i++) {
        CU_ASSERT_EQUAL(put(), STATUS_AUTH);
        CU_ASSERT_EQUAL(etcd_wait_keepalive(&rig.wait, 7), STATUS_AUTH);
    }
    CU_ASSERT_EQUAL(server.logins, 1);
    CU_ASSERT_EQUAL(server.refused + server.served, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(rig.wait.message, "user us\"er: etcdserver: authentication "
                                                    "failed, invalid user ID or password"));
    CU_ASSERT_PTR_NOT_NULL(strstr(rig.wait.message, rig.one.url));
    CU_ASSERT_PTR_NULL(strstr(rig.wait.message, "bad-secret"));
    CHECK_TEXT(etcd_http_stats(rig.client)->last_error.message, rig.wait.message);
    CU_ASSERT_TRUE(etcd_http_stats(rig.client)->failures_in_row >= 40);
    CU_ASSERT_EQUAL(etcd_http_stats(rig.client)->endpoint_switches, 0);
    write_password("good");
    CU_ASSERT_EQUAL(put(), STATUS_OK);
    CU_ASSERT_EQUAL(server.logins, 2);
    CU_ASSERT_EQUAL(etcd_http_stats(rig.client)->failures_in_row, 0);
    done();
}

static void the_pause_after_a_wrong_password_doubles(void) {
    uint64_t end_ms;

    given(with_users, NULL, "bad");
    end_ms = loop_wait_now_ms() + 2200;
    while (loop_wait_now_ms() < end_ms) {
        CU_ASSERT_EQUAL(put(), STATUS_AUTH);
        fault_rig_for(20);
    }
    /* At 0, after 250..500, then 500..1000, then 1000..2000 ms. */
    CU_ASSERT_TRUE(server.logins >= 3 && server.logins <= 4);
    done();
}

static void a_fresh_token_that_is_refused_too_is_no_loop(void) {
    int i;

    given(with_users, NULL, "good");
    server.login_status = "200 OK";
    server.login_body = "{\"token\":\"never.valid\"}";
    for (i = 0; i < 20; i++)
        CU_ASSERT_EQUAL(put(), STATUS_AUTH);
    CU_ASSERT_EQUAL(server.logins, 2);
    CU_ASSERT_EQUAL(server.refused, 2);
    done();
}

static void a_token_that_is_none_is_not_sent(void) {
    static const char *const bodies[] = {"{}",
                                         "{\"token\":\"\"}",
                                         "{\"token\":7}",
                                         "token",
                                         "{\"token\":\"a\\r\\nX: y\"}",
                                         "{\"token\":\"a b\"}"};
    size_t i;

    for (i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        given(with_users, NULL, "good");
        server.login_status = "200 OK";
        server.login_body = bodies[i];
        CHECK_ROW(bodies[i], put() == STATUS_PROTOCOL);
        CHECK_ROW(bodies[i], server.logins == 1 && server.refused + server.served == 0);
        done();
    }
}

static bool a_login_came(void) {
    return server.logins > 0;
}

static void closing_during_a_login_cancels_every_call_once(void) {
    size_t i;

    given(with_users, NULL, "good");
    server.silent = true;
    call_many();
    rig.wait.etcd.watch(rig.client, &(struct etcd_key_range){"/a", NULL}, 1, watch_view_on_events,
                        &rig.view);
    fault_rig_until(a_login_came);
    fault_rig_close_client();
    for (i = 0; i < 12; i++) {
        CU_ASSERT_EQUAL(many[i].times, 1);
        CU_ASSERT_EQUAL(many[i].status, STATUS_CANCELLED);
    }
    CU_ASSERT_EQUAL(server.logins, 1);
    done();

    given(with_users, NULL, "bad"); /* and while calls wait to be told of the pause */
    CU_ASSERT_EQUAL(put(), STATUS_AUTH);
    call_many();
    fault_rig_close_client();
    for (i = 0; i < 12; i++)
        CU_ASSERT_EQUAL(many[i].times, 1);
    done();
}

static void hangs_up(struct raw_connection *connection, const struct raw_request *request) {
    (void)request;
    raw_close(connection);
}

/* Told of the pause after the connections are closed: the other endpoint is not tried then. */
static void closing_while_one_endpoint_pauses_sends_nothing_to_the_other(void) {
    given(says_nothing, with_users, "good");
    CU_ASSERT_EQUAL(put(), STATUS_OK); /* by the second */
    rig.two.handler = hangs_up;
    CU_ASSERT_EQUAL(put(), STATUS_UNKNOWN); /* so the first has its turn, and pauses */
    call_many();
    fault_rig_close_client();
    for (size_t i = 0; i < 12; i++)
        CU_ASSERT_EQUAL(many[i].times, 1);
    done();
}

/* --- settings --- */

static void a_password_file_that_cannot_be_used_is_named(void) {
    static const struct {
        const char *row, *text, *message;
    } files[] = {
        {"empty", "", "it is empty"},
        {"only a newline", "\n", "it is empty"},
        {"two lines", "a\nb\n", "it has more than one line"},
        {"a tab", "a\tb", "byte 2 is a control character"},
        {"not UTF-8", "\xff\xfe", "the password is not UTF-8"},
    };
    struct etcd_http_config config = {.endpoints = "http://127.0.0.1:1", .user = "u"};
    struct etcd_http *none = NULL;
    char expected[256];
    struct error err;
    uv_loop_t loop;
    size_t i;

    uv_loop_init(&loop);
    for (i = 0; i < sizeof files / sizeof *files; i++) {
        config.password_file = password_file;
        write_password(files[i].text);
        snprintf(expected, sizeof expected, "etcd password file %s: %s", password_file,
                 files[i].message);
        CHECK_ROW(files[i].row, etcd_http_new(&loop, &config, &none, &err) == STATUS_INVALID);
        CHECK_TEXT(err.message, expected);
    }
    config.password_file = password_file;
    write_password("good");
    CU_ASSERT_EQUAL(chmod(password_file, 0644), 0);
    snprintf(
        expected, sizeof expected,
        "etcd password file %s: its mode is 0644, and must be 0640 or stricter: it holds secrets",
        password_file);
    CU_ASSERT_EQUAL(etcd_http_new(&loop, &config, &none, &err), STATUS_INVALID);
    CHECK_TEXT(err.message, expected);
    CU_ASSERT_EQUAL(chmod(password_file, 0600), 0);
    config.password_file = "/nowhere/password";
    CU_ASSERT_EQUAL(etcd_http_new(&loop, &config, &none, &err), STATUS_INVALID);
    CHECK_TEXT(err.message, "etcd password file /nowhere/password: No such file or directory");
    config.password_file = "/tmp";
    CU_ASSERT_EQUAL(etcd_http_new(&loop, &config, &none, &err), STATUS_INVALID);
    CHECK_TEXT(err.message, "etcd password file /tmp: it is not a file");
    CU_ASSERT_EQUAL(uv_loop_close(&loop), 0);
}

static void user_and_password_file_go_together(void) {
    char user[] = "u", empty[] = "", file[] = "f", cluster[] = "default",
         endpoints[] = "http://127.0.0.1:2379";
    struct shared_options options = {
        .cluster = cluster, .etcd_endpoints = endpoints, .etcd_user = user};
    struct etcd_http_config config;
    struct error err;

    CU_ASSERT_EQUAL(etcd_options_config(&options, &config, &err), STATUS_INVALID);
    CHECK_TEXT(err.message, "--etcd-user and --etcd-password-file go together");
    options = (struct shared_options){
        .cluster = cluster, .etcd_endpoints = endpoints, .etcd_password_file = file};
    CU_ASSERT_EQUAL(etcd_options_config(&options, &config, &err), STATUS_INVALID);
    options.etcd_user = empty;
    CU_ASSERT_EQUAL(etcd_options_config(&options, &config, &err), STATUS_INVALID);
    options.etcd_user = user;
    CU_ASSERT_EQUAL(etcd_options_config(&options, &config, &err), STATUS_OK);
    CHECK_TEXT(config.user, "u");
    CHECK_TEXT(config.password_file, "f");
}

/* --- a real etcd --- */

static struct etcd_process etcd;

static void etcdctl(const char *arguments) {
    char command[256];

    snprintf(command, sizeof command, "ETCDCTL_API=3 etcdctl --endpoints %s %s >/dev/null 2>&1",
             etcd.url, arguments);
    CU_ASSERT_EQUAL(system(command), 0);
}

static const struct etcd_http_stats *stats(void) {
    return etcd_http_stats(rig.client);
}

static bool told_of_b(void) {
    const char *value = watch_view_value(&rig.view, "/t/b");

    return value && strcmp(value, "2") == 0;
}

/* A claim and its release. */
static enum status claim_and_release(void) {
    int64_t lease = (int64_t)loop_wait_now_ms();

    if (etcd_wait_grant(&rig.wait, lease, 60) != STATUS_OK ||
        etcd_wait_put(&rig.wait, "/t/a", "1", lease) != STATUS_OK ||
        etcd_wait_keepalive(&rig.wait, lease) != STATUS_OK ||
        etcd_wait_delete(&rig.wait, "/t/a", NULL) != STATUS_OK)
        return rig.wait.status;
    return etcd_wait_revoke(&rig.wait, lease);
}

static void tokens_end_and_are_renewed_until_the_password_is_wrong(void) {
    static const char *const settings[] = {"--bcrypt-cost", "4", "--auth-token-ttl", "4", NULL};
    const struct etcd_http_config config = {.endpoints = etcd.url,
                                            .user = "u",
                                            .password_file = password_file,
                                            .watch_lifetime_ms = 3000};
    struct error err;
    uint64_t logins;
    int i;

    CU_ASSERT_TRUE_FATAL(etcd_process_start(&etcd, settings, false));
    etcdctl("user add root:root");
    etcdctl("user add u:first");
    etcdctl("role add r");
    etcdctl("role grant-permission r readwrite --prefix /t/");
    etcdctl("user grant-role u r");
    etcdctl("auth enable");
    write_password("first\n");
    memset(&rig, 0, sizeof rig);
    uv_loop_init(&rig.loop);
    CU_ASSERT_EQUAL_FATAL(etcd_http_new(&rig.loop, &config, &rig.client, &err), STATUS_OK);
    rig.wait.loop = &rig.loop;
    rig.wait.etcd = etcd_http_interface(rig.client);
    watch_view_init(&rig.view);
    start_tick();
    CU_ASSERT_EQUAL(claim_and_release(), STATUS_OK);
    CU_ASSERT_EQUAL(stats()->authentications, 1);

    fault_rig_for(6000); /* unused, the token ends */
    CU_ASSERT_EQUAL(claim_and_release(), STATUS_OK);
    CU_ASSERT_EQUAL(stats()->authentications, 2);

    rig.wait.etcd.watch(rig.client, &(struct etcd_key_range){"/t/", "/t0"}, 1, watch_view_on_events,
                        &rig.view);
    fault_rig_until(one_reset);
    for (i = 0; i < 3; i++)
        fault_rig_for(2500); /* streams end and are opened again */
    CU_ASSERT_EQUAL(etcd_wait_put(&rig.wait, "/t/b", "2", 0), STATUS_OK);
    fault_rig_until(told_of_b);

    logins = stats()->authentications;
    etcd_process_stop(&etcd, SIGKILL);
    CU_ASSERT_TRUE(etcd_process_restart(&etcd));
    for (i = 0; i < 50 && claim_and_release() != STATUS_OK; i++)
        fault_rig_for(100);
    CU_ASSERT_EQUAL(rig.wait.status, STATUS_OK);
    CU_ASSERT_TRUE(stats()->authentications > logins);
    CU_ASSERT_TRUE(stats()->authentications <= logins + 3);

    CU_ASSERT_EQUAL(etcd_wait_put(&rig.wait, "/u", "1", 0), STATUS_REFUSED); /* beyond the role */

    etcdctl("--user root:root user delete u");
    etcdctl("--user root:root user add u:second");
    etcdctl("--user root:root user grant-role u r");
    logins = stats()->authentications;
    for (i = 0; i < 30; i++)
        CU_ASSERT_EQUAL(claim_and_release(), STATUS_AUTH);
    CU_ASSERT_PTR_NOT_NULL(strstr(rig.wait.message, "user u: etcdserver: authentication failed"));
    CU_ASSERT_TRUE(stats()->authentications <= logins + 2);
    write_password("second");
    CU_ASSERT_EQUAL(claim_and_release(), STATUS_OK);

    fault_rig_close_client();
    uv_close((uv_handle_t *)&tick, NULL);
    CU_ASSERT_EQUAL(uv_run(&rig.loop, UV_RUN_DEFAULT), 0);
    CU_ASSERT_EQUAL(uv_loop_close(&rig.loop), 0);
    etcd_process_done(&etcd);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(every_call_carries_the_token_of_one_login),
    CHECK_TEST(a_refused_token_is_renewed_and_the_call_repeated_once),
    CHECK_TEST(calls_at_the_same_time_share_one_login),
    CHECK_TEST(each_endpoint_has_a_token_of_its_own),
    CHECK_TEST(a_login_without_an_answer_leaves_time_for_the_next_endpoint),
    CHECK_TEST(an_etcd_without_users_is_used_without_a_token_until_it_has_some),
    CHECK_TEST(a_watch_that_is_cancelled_for_its_token_gets_a_new_one),
    CHECK_TEST(a_wrong_password_is_said_once_a_while_and_a_new_one_taken_up_at_once),
    CHECK_TEST(the_pause_after_a_wrong_password_doubles),
    CHECK_TEST(a_fresh_token_that_is_refused_too_is_no_loop),
    CHECK_TEST(a_token_that_is_none_is_not_sent),
    CHECK_TEST(closing_during_a_login_cancels_every_call_once),
    CHECK_TEST(closing_while_one_endpoint_pauses_sends_nothing_to_the_other),
    CHECK_TEST(a_password_file_that_cannot_be_used_is_named),
    CHECK_TEST(user_and_password_file_go_together),
    CHECK_TEST(tokens_end_and_are_renewed_until_the_password_is_wrong),
    CU_TEST_INFO_NULL};

static int make_password_file(void) {
    int fd = mkstemp(password_file);

    return fd < 0 ? 1 : close(fd);
}

static int remove_password_file(void) {
    return unlink(password_file);
}

int main(void) {
    CU_SuiteInfo suites[] = {
        {"etcd client, users", make_password_file, remove_password_file, NULL, NULL, rules},
        CU_SUITE_INFO_NULL};

    signal(SIGPIPE, SIG_IGN);
    return check_run(suites);
}
