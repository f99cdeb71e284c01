/* test_etcd_http.c - the etcd client against a real etcd: transactions, leases, watches, and what
 * happens when etcd is stopped, paused, killed or compacted. */
#include "common/etcd_http.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include "tests/support/check.h"
#include "tests/support/etcd_process.h"
#include "tests/support/etcd_wait.h"
#include "tests/support/loop_wait.h"

#define WAIT_MS 20000

static struct etcd_process etcd;
static uv_loop_t loop, watch_loop; /* two, so that a watch can be held up while etcd moves on */
static struct etcd_http *client, *watch_client;
static struct etcd_wait wait;
static struct watch_view view;
static int n_closed;

static struct etcd_http *new_client(uv_loop_t *on, const struct etcd_http_config *config) {
    struct etcd_http *made = NULL;
    struct error err = {STATUS_OK, ""};

    if (etcd_http_new(on, config, &made, &err) != STATUS_OK)
        CHECK_TEXT(err.message, "");
    return made;
}

static void use(struct etcd_http *used) {
    memset(&wait, 0, sizeof wait);
    wait.loop = &loop;
    wait.etcd = etcd_http_interface(used);
}

static void on_closed(void *arg) {
    (void)arg;
    n_closed++;
}

static int expected_closed;

static bool is_closed(void) {
    return n_closed >= expected_closed;
}

static void close_on(uv_loop_t *on, struct etcd_http *closing) {
    expected_closed = n_closed + 1;
    etcd_http_close(closing, on_closed, NULL);
    CU_ASSERT_TRUE_FATAL(loop_wait(on, is_closed, 20000));
}

static int64_t random_lease(void) {
    struct check_random random = {(uint64_t)getpid() + uv_hrtime()};

    return (int64_t)(check_random_u64(&random) >> 2) + 1;
}

static int start_etcd(void) {
    return etcd_process_start(&etcd, NULL, false) ? 0 : 1;
}

static int stop_etcd(void) {
    etcd_process_done(&etcd);
    return 0;
}

static void given_two_clients(void) {
    const struct etcd_http_config config = {.endpoints = etcd.url};
    const struct etcd_http_config watching = {.endpoints = etcd.url, .watch_lifetime_ms = 1500};

    uv_loop_init(&loop);
    uv_loop_init(&watch_loop);
    client = new_client(&loop, &config);
    watch_client = new_client(&watch_loop, &watching);
    watch_view_init(&view);
    use(client);
    CU_ASSERT_EQUAL_FATAL(etcd_wait_delete(&wait, "/", "0"), STATUS_OK);
}

static void then_all_is_closed(void) {
    close_on(&loop, client);
    close_on(&watch_loop, watch_client);
    CU_ASSERT_EQUAL(uv_run(&loop, UV_RUN_DEFAULT), 0);
    CU_ASSERT_EQUAL(uv_run(&watch_loop, UV_RUN_DEFAULT), 0);
    CU_ASSERT_EQUAL(uv_loop_close(&loop), 0);
    CU_ASSERT_EQUAL(uv_loop_close(&watch_loop), 0);
}

/* --- transactions --- */

static void a_key_is_created_only_where_it_is_absent(void) {
    const struct etcd_compare absent = {.kind = ETCD_ABSENT, .key = "/t/a"};
    const struct etcd_op put = {.kind = ETCD_PUT, .key = "/t/a", .value = "mine"};
    const struct etcd_op get = {.kind = ETCD_RANGE, .key = "/t/a"};
    const struct etcd_txn create = {&absent, 1, &put, 1, &get, 1};

    CU_ASSERT_EQUAL(etcd_wait_txn(&wait, &create), STATUS_OK);
    CU_ASSERT_TRUE(wait.succeeded);
    CU_ASSERT_EQUAL(etcd_wait_txn(&wait, &create), STATUS_OK);
    CU_ASSERT_FALSE(wait.succeeded);
    CHECK_TEXT(wait.value, "mine");
    CU_ASSERT_TRUE(wait.mod_revision > 0 && wait.mod_revision <= wait.revision);
}

static void a_value_is_compared_exactly_and_as_text(void) {
    static const struct {
        const char *row;
        enum etcd_compare_kind kind;
        const char *key, *value;
        bool holds;
        const char *range_end;
    } rows[] = {
        {"equal", ETCD_VALUE_EQUAL, "/t/ceil", "00000000001800000000", true, NULL},
        {"prefix is not equal", ETCD_VALUE_EQUAL, "/t/ceil", "000000000018", false, NULL},
        {"equal of an absent key", ETCD_VALUE_EQUAL, "/t/none", "", false, NULL},
        {"stored is greater", ETCD_VALUE_GREATER, "/t/ceil", "00000000001799999999", true, NULL},
        {"equal is not greater", ETCD_VALUE_GREATER, "/t/ceil", "00000000001800000000", false,
         NULL},
        {"stored is less", ETCD_VALUE_GREATER, "/t/ceil", "00000000001800000001", false, NULL},
        {"20 digits of time", ETCD_VALUE_GREATER, "/t/ceil", "00000000000999999999", true, NULL},
        {"greater of an absent key", ETCD_VALUE_GREATER, "/t/none", "", false, NULL},
        {"absent", ETCD_ABSENT, "/t/none", NULL, true, NULL},
        {"not absent", ETCD_ABSENT, "/t/ceil", NULL, false, NULL},
        {"none of a range", ETCD_ABSENT, "/t/m", NULL, true, "/t/z"},
        {"one of a range", ETCD_ABSENT, "/t/b", NULL, false, "/t/d"},
        {"a range ends before its end", ETCD_ABSENT, "/t/b", NULL, true, "/t/ceil"},
    };
    const struct etcd_op get = {.kind = ETCD_RANGE, .key = "/t/ceil"};
    size_t i;

    CU_ASSERT_EQUAL(etcd_wait_put(&wait, "/t/ceil", "00000000001800000000", 0), STATUS_OK);
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct etcd_compare compare = {
            .kind = rows[i].kind,
            .key = rows[i].key,
            .value = rows[i].value,
            .range_end = rows[i].range_end,
        };
        const struct etcd_txn txn = {&compare, 1, &get, 1, &get, 1};

        CHECK_ROW(rows[i].row, etcd_wait_txn(&wait, &txn) == STATUS_OK);
        CHECK_ROW(rows[i].row, wait.succeeded == rows[i].holds);
    }
}

static void keys_that_were_created_since_are_noticed_and_changed_ones_are_not(void) {
    struct etcd_compare none = {.kind = ETCD_NONE_SINCE, .key = "/t/s/", .range_end = "/t/s0"};
    const struct etcd_op get = {.kind = ETCD_RANGE, .key = "/t/s/a"};
    const struct etcd_txn ask = {&none, 1, &get, 1, &get, 1};

    CU_ASSERT_EQUAL(etcd_wait_txn(&wait, &ask), STATUS_OK);
    CU_ASSERT_TRUE(wait.succeeded);
    CU_ASSERT_EQUAL(etcd_wait_put(&wait, "/t/s/a", "first", 0), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_wait_txn(&wait, &ask), STATUS_OK);
    CU_ASSERT_FALSE(wait.succeeded);
    none.revision = wait.mod_revision;
    CU_ASSERT_EQUAL(etcd_wait_put(&wait, "/t/s/a", "changed", 0), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_wait_put(&wait, "/t/s0", "beyond", 0), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_wait_txn(&wait, &ask), STATUS_OK);
    CU_ASSERT_TRUE(wait.succeeded);
    none.revision--;
    CU_ASSERT_EQUAL(etcd_wait_txn(&wait, &ask), STATUS_OK);
    CU_ASSERT_FALSE(wait.succeeded);
}

static void a_key_is_read_as_it_was(void) {
    struct etcd_op get = {.kind = ETCD_RANGE, .key = "/t/then"};
    const struct etcd_txn read = {.then = &get, .n_then = 1};

    CU_ASSERT_EQUAL(etcd_wait_put(&wait, "/t/then", "first", 0), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_wait_txn(&wait, &read), STATUS_OK);
    get.revision = wait.mod_revision;
    CU_ASSERT_EQUAL(etcd_wait_put(&wait, "/t/then", "second", 0), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_wait_txn(&wait, &read), STATUS_OK);
    CHECK_TEXT(wait.value, "first");
    get.revision = wait.revision + 1000;
    CU_ASSERT_EQUAL(etcd_wait_txn(&wait, &read), STATUS_INVALID);
}

static void put_1024_keys(void) {
    static char keys[1024][32];
    static struct etcd_op puts[1024];
    size_t i;

    for (i = 0; i < 1024; i++) {
        snprintf(keys[i], sizeof keys[i], "/t/hor/%04zu", i);
        puts[i] = (struct etcd_op){.kind = ETCD_PUT, .key = keys[i], .value = keys[i] + 7};
    }
    for (i = 0; i < 1024; i += ETCD_TXN_MAX_OPS) {
        const struct etcd_txn txn = {.then = puts + i, .n_then = ETCD_TXN_MAX_OPS};

        CU_ASSERT_EQUAL_FATAL(etcd_wait_txn(&wait, &txn), STATUS_OK);
    }
}

static void a_prefix_of_1024_keys_is_read_at_once(void) {
    struct etcd_op range = {.kind = ETCD_RANGE, .key = "/t/hor/", .range_end = "/t/hor0"};
    const struct etcd_txn txn = {.then = &range, .n_then = 1};

    put_1024_keys();
    CU_ASSERT_EQUAL(etcd_wait_txn(&wait, &txn), STATUS_OK);
    CU_ASSERT_EQUAL(wait.n_kvs, 1024);
    CU_ASSERT_EQUAL(wait.count, 1024);
    CHECK_TEXT(wait.key, "/t/hor/0000");
    CHECK_TEXT(wait.value, "0000");
    range.limit = 10;
    range.keys_only = true;
    CU_ASSERT_EQUAL(etcd_wait_txn(&wait, &txn), STATUS_OK);
    CU_ASSERT_EQUAL(wait.n_kvs, 10);
    CU_ASSERT_EQUAL(wait.count, 1024);
    CHECK_TEXT(wait.value, "");
    CU_ASSERT_EQUAL(etcd_wait_delete(&wait, "/t/hor/", "/t/hor0"), STATUS_OK);
    CU_ASSERT_EQUAL(wait.count, 1024);
}

static void what_etcd_refuses_is_told_and_not_done(void) {
    const struct etcd_op twice[] = {{.kind = ETCD_PUT, .key = "/t/d", .value = "1"},
                                    {.kind = ETCD_PUT, .key = "/t/d", .value = "2"}};
    const struct etcd_txn duplicate = {.then = twice, .n_then = 2};
    const struct etcd_txn empty = {0};

    CU_ASSERT_EQUAL(etcd_wait_txn(&wait, &duplicate), STATUS_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(wait.message, "duplicate key given in txn request"));
    CU_ASSERT_EQUAL(strncmp(wait.message, etcd.url, strlen(etcd.url)), 0);
    CU_ASSERT_EQUAL(etcd_wait_txn(&wait, &empty), STATUS_INVALID); /* never sent */
    CU_ASSERT_EQUAL(etcd_wait_get(&wait, "/t/d", NULL), STATUS_OK);
    CU_ASSERT_EQUAL(wait.n_kvs, 0);
    CU_ASSERT_EQUAL(etcd_http_stats(client)->failures, 0);
}

/* --- leases --- */

static void a_lease_lives_by_keepalives_until_it_is_revoked(void) {
    int64_t lease = random_lease();

    CU_ASSERT_EQUAL(etcd_wait_grant(&wait, lease, 1), STATUS_OK);
    CU_ASSERT_EQUAL(wait.lease_id, lease);
    CU_ASSERT_EQUAL(wait.ttl_s, 2); /* raised: 1.5 times the election time-out */
    CU_ASSERT_EQUAL(etcd_wait_grant(&wait, lease, 10), STATUS_EXISTS);
    CU_ASSERT_EQUAL(etcd_wait_put(&wait, "/t/own", "me", lease), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_wait_get(&wait, "/t/own", NULL), STATUS_OK);
    CU_ASSERT_EQUAL(wait.lease, lease);
    CU_ASSERT_EQUAL(etcd_wait_keepalive(&wait, lease), STATUS_OK);
    CU_ASSERT_EQUAL(wait.ttl_s, 2);
    CU_ASSERT_EQUAL(etcd_wait_revoke(&wait, lease), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_wait_get(&wait, "/t/own", NULL), STATUS_OK);
    CU_ASSERT_EQUAL(wait.n_kvs, 0);
    CU_ASSERT_EQUAL(etcd_wait_keepalive(&wait, lease), STATUS_NOT_FOUND);
    CU_ASSERT_EQUAL(etcd_wait_revoke(&wait, lease), STATUS_NOT_FOUND);
    CU_ASSERT_EQUAL(etcd_wait_grant(&wait, INT64_MAX, INT64_MAX), STATUS_INVALID); /* TTL */
}

static void a_transaction_with_a_dead_lease_is_undone_as_a_whole(void) {
    const struct etcd_op ops[] = {
        {.kind = ETCD_PUT, .key = "/t/first", .value = "1"},
        {.kind = ETCD_PUT, .key = "/t/own", .value = "me", .lease = random_lease()}};
    const struct etcd_txn txn = {.then = ops, .n_then = 2};

    CU_ASSERT_EQUAL(etcd_wait_txn(&wait, &txn), STATUS_NOT_FOUND);
    CU_ASSERT_EQUAL(etcd_wait_get(&wait, "/t/", "/t0"), STATUS_OK);
    CU_ASSERT_EQUAL(wait.n_kvs, 0);
}

static void several_calls_may_be_under_way(void) {
    static struct etcd_wait many[40];
    const struct etcd_op get = {.kind = ETCD_RANGE, .key = "/t/a"};
    const struct etcd_txn txn = {.then = &get, .n_then = 1};
    size_t i, ended;

    memset(many, 0, sizeof many);
    for (i = 0; i < 40; i++)
        wait.etcd.txn(wait.etcd.self, &txn, etcd_wait_on_txn, &many[i]);
    do {
        uv_run(&loop, UV_RUN_ONCE);
        for (i = 0, ended = 0; i < 40; i++)
            ended += many[i].times;
    } while (ended < 40);
    for (i = 0; i < 40; i++)
        CU_ASSERT_TRUE(many[i].times == 1 && many[i].status == STATUS_OK);
}

/* --- watches --- */

static const struct etcd_key_range both[] = {{"/t/", "/t0"}, {"/u/one", NULL}};
static const char *expected_log, *last_key, *last_value;

static struct etcd_watch *start_watch(void) {
    struct etcd interface = etcd_http_interface(watch_client);

    return interface.watch(interface.self, both, 2, watch_view_on_events, &view);
}

static bool reset_came(void) {
    return view.n_resets > 0;
}

static bool log_is_as_expected(void) {
    return strcmp(view.log, expected_log) == 0;
}

static bool last_change_came(void) {
    const char *value = watch_view_value(&view, last_key);

    return last_value ? value && strcmp(value, last_value) == 0 : !value;
}

/* One after the other: what reaches the watch first is not for the log to decide. */
static void log_becomes(const char *expected) {
    expected_log = expected;
    if (!loop_wait(&watch_loop, log_is_as_expected, WAIT_MS))
        CHECK_TEXT(view.log, expected);
}

static void change_comes(const char *key, const char *value) {
    last_key = key;
    last_value = value;
    if (!loop_wait(&watch_loop, last_change_came, WAIT_MS))
        CHECK_TEXT(view.log, key);
}

static void a_watch_begins_with_all_there_is_and_then_tells_each_change(void) {
    int64_t lease = random_lease();

    CU_ASSERT_EQUAL(etcd_wait_put(&wait, "/t/a", "1", 0), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_wait_put(&wait, "/u/one", "x", 0), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_wait_put(&wait, "/u/two", "unseen", 0), STATUS_OK);
    start_watch();
    log_becomes("reset /t/a=1 /u/one=x | ");
    etcd_wait_put(&wait, "/t/b", "2", 0);
    log_becomes("reset /t/a=1 /u/one=x | /t/b=2 | ");
    etcd_wait_put(&wait, "/u/two", "unseen", 0);
    etcd_wait_delete(&wait, "/t/a", NULL);
    log_becomes("reset /t/a=1 /u/one=x | /t/b=2 | -/t/a | ");
    CU_ASSERT_EQUAL(etcd_wait_grant(&wait, lease, 2), STATUS_OK);
    etcd_wait_put(&wait, "/t/own", "", lease);
    /* nobody renews it */
    log_becomes("reset /t/a=1 /u/one=x | /t/b=2 | -/t/a | /t/own= | -/t/own | ");
    etcd_wait_put(&wait, "/u/one", "y", 0);
    log_becomes("reset /t/a=1 /u/one=x | /t/b=2 | -/t/a | /t/own= | -/t/own | /u/one=y | ");
}

static uint64_t lived_until_ms;

static bool lived(void) {
    return loop_wait_now_ms() >= lived_until_ms;
}

static void a_renewed_stream_misses_and_repeats_nothing(void) {
    static const char *const keys[] = {"/t/a", "/u/one"};
    char expected[4096] = "reset | ", value[16], part[48];
    int i;

    start_watch();
    CU_ASSERT_TRUE(loop_wait(&watch_loop, reset_came, WAIT_MS));
    lived_until_ms = loop_wait_now_ms();
    /* Changes throughout two lifetimes of 1.5 s, some of them while no stream stands. */
    for (i = 0; i < 80; i++) {
        snprintf(value, sizeof value, "%d", i);
        CU_ASSERT_EQUAL(etcd_wait_put(&wait, keys[i % 2], value, 0), STATUS_OK);
        snprintf(part, sizeof part, "%s=%s | ", keys[i % 2], value);
        strcat(expected, part);
        lived_until_ms += 45;
        loop_wait(&watch_loop, lived, 100);
    }
    change_comes("/u/one", "79");
    CU_ASSERT_EQUAL(view.n_resets, 1);
    CU_ASSERT_EQUAL(view.n_events, 81); /* the reset and 80 changes */
    CU_ASSERT_TRUE(view.in_order);
}

static void a_watch_goes_on_after_etcd_restarts_without_a_reset(void) {
    static const int signals[] = {SIGTERM, SIGKILL};
    size_t i;

    start_watch();
    CU_ASSERT_TRUE(loop_wait(&watch_loop, reset_came, WAIT_MS));
    for (i = 0; i < 2; i++) {
        etcd_wait_put(&wait, "/t/a", i ? "before kill" : "before term", 0);
        change_comes("/t/a", i ? "before kill" : "before term");
        etcd_process_stop(&etcd, signals[i]);
        CU_ASSERT_TRUE_FATAL(etcd_process_restart(&etcd));
        /* The watch's loop has not run since: these are changes it has to catch up with. */
        put_1024_keys();
        etcd_wait_delete(&wait, "/t/a", NULL);
        etcd_wait_put(&wait, "/u/one", i ? "killed" : "termed", 0);
        change_comes("/u/one", i ? "killed" : "termed");
        change_comes("/t/a", NULL);
        change_comes("/t/hor/1023", "1023");
        CU_ASSERT_EQUAL(view.n_keys, 1025);
    }
    CU_ASSERT_EQUAL(view.n_resets, 1);
    CU_ASSERT_TRUE(etcd_http_stats(watch_client)->watch_failures >= 1);
}

static void compact_at(int64_t revision) {
    char command[160];

    snprintf(command, sizeof command,
             "ETCDCTL_API=3 etcdctl --endpoints %s compaction %lld >/dev/null", etcd.url,
             (long long)revision);
    CU_ASSERT_EQUAL(system(command), 0);
}

static void a_watch_whose_revision_is_compacted_reads_all_again(void) {
    etcd_wait_put(&wait, "/t/stays", "1", 0);
    etcd_wait_put(&wait, "/t/goes", "1", 0);
    start_watch();
    CU_ASSERT_TRUE(loop_wait(&watch_loop, reset_came, WAIT_MS));
    etcd_process_stop(&etcd, SIGKILL);
    CU_ASSERT_TRUE_FATAL(etcd_process_restart(&etcd));
    etcd_wait_delete(&wait, "/t/goes", NULL);
    etcd_wait_put(&wait, "/t/new", "1", 0);
    put_1024_keys();
    etcd_wait_delete(&wait, "/t/hor/", "/t/hor0");
    etcd_wait_get(&wait, "/t/stays", NULL);
    compact_at(wait.revision);
    change_comes("/t/new", "1");
    CU_ASSERT_EQUAL(view.n_resets, 2);
    CU_ASSERT_PTR_NULL(watch_view_value(&view, "/t/goes"));
    CHECK_TEXT(watch_view_value(&view, "/t/stays"), "1");
    CU_ASSERT_EQUAL(view.n_keys, 2);
    etcd_wait_put(&wait, "/t/stays", "2", 0);
    change_comes("/t/stays", "2");
    CU_ASSERT_EQUAL(view.n_resets, 2);
}

static void a_paused_etcd_holds_a_watch_up_and_loses_nothing(void) {
    start_watch();
    CU_ASSERT_TRUE(loop_wait(&watch_loop, reset_came, WAIT_MS));
    etcd_process_pause(&etcd);
    lived_until_ms = loop_wait_now_ms() + 3500; /* beyond the stream's own deadline */
    loop_wait(&watch_loop, lived, WAIT_MS);
    CU_ASSERT_TRUE(etcd_http_stats(watch_client)->watch_failures >= 1);
    etcd_process_resume(&etcd);
    while (etcd_wait_put(&wait, "/t/a", "after", 0) != STATUS_OK)
        ;
    change_comes("/t/a", "after");
    CU_ASSERT_EQUAL(view.n_resets, 1);
}

static void a_stopped_watch_tells_nothing_more(void) {
    struct etcd interface = etcd_http_interface(watch_client);
    struct etcd_watch *watch = start_watch();

    CU_ASSERT_TRUE(loop_wait(&watch_loop, reset_came, WAIT_MS));
    interface.watch_stop(interface.self, watch);
    etcd_wait_put(&wait, "/t/a", "late", 0);
    lived_until_ms = loop_wait_now_ms() + 200;
    loop_wait(&watch_loop, lived, WAIT_MS);
    CHECK_TEXT(view.log, "reset | ");
}

/* --- etcd in trouble --- */

static void a_paused_etcd_leaves_writes_unknown_in_time_and_works_afterwards(void) {
    const struct etcd_http_config config = {.endpoints = etcd.url, .timeout_ms = 1500};
    struct etcd_http *hasty = new_client(&loop, &config);
    int64_t lease = random_lease();
    uint64_t before_ms;

    use(hasty);
    CU_ASSERT_EQUAL(etcd_wait_grant(&wait, lease, 60), STATUS_OK);
    etcd_process_pause(&etcd);
    before_ms = loop_wait_now_ms();
    CU_ASSERT_EQUAL(etcd_wait_put(&wait, "/t/a", "1", 0), STATUS_UNKNOWN);
    CU_ASSERT_TRUE(loop_wait_now_ms() - before_ms >= 1490);
    CU_ASSERT_TRUE(loop_wait_now_ms() - before_ms < 3000);
    CU_ASSERT_EQUAL(etcd_wait_grant(&wait, random_lease(), 60), STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(etcd_wait_keepalive(&wait, lease), STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(etcd_wait_get(&wait, "/t/a", NULL), STATUS_UNAVAILABLE); /* it only reads */
    CU_ASSERT_EQUAL(etcd_http_stats(hasty)->unknown_outcomes, 2);
    CU_ASSERT_EQUAL(etcd_http_stats(hasty)->failures_in_row, 4);
    CU_ASSERT_PTR_NOT_NULL(strstr(etcd_http_stats(hasty)->last_error.message, etcd.url));
    etcd_process_resume(&etcd);
    before_ms = loop_wait_now_ms();
    while (etcd_wait_put(&wait, "/t/a", "2", 0) != STATUS_OK &&
           loop_wait_now_ms() - before_ms < WAIT_MS)
        ;
    CU_ASSERT_EQUAL(etcd_wait_keepalive(&wait, lease), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_http_stats(hasty)->failures_in_row, 0);
    close_on(&loop, hasty);
}

static void an_etcd_that_is_away_is_unavailable_at_once(void) {
    uint64_t before_ms;

    etcd_process_stop(&etcd, SIGKILL);
    before_ms = loop_wait_now_ms();
    CU_ASSERT_EQUAL(etcd_wait_put(&wait, "/t/a", "1", 0), STATUS_UNAVAILABLE);
    CU_ASSERT_EQUAL(etcd_wait_grant(&wait, 1, 10), STATUS_UNAVAILABLE);
    CU_ASSERT_EQUAL(etcd_wait_keepalive(&wait, 1), STATUS_UNAVAILABLE);
    CU_ASSERT_EQUAL(etcd_wait_revoke(&wait, 1), STATUS_UNAVAILABLE);
    CU_ASSERT_EQUAL(etcd_wait_get(&wait, "/t/a", NULL), STATUS_UNAVAILABLE);
    CU_ASSERT_TRUE(loop_wait_now_ms() - before_ms < 1000);
    CU_ASSERT_EQUAL(etcd_http_stats(client)->unknown_outcomes, 0);
    CU_ASSERT_TRUE_FATAL(etcd_process_restart(&etcd));
    CU_ASSERT_EQUAL(etcd_wait_put(&wait, "/t/a", "1", 0), STATUS_OK);
}

static size_t open_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    size_t n = 0;

    /* cppcheck-suppress readdirCalled ; one thread, and readdir_r is obsolete */
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static void an_etcd_killed_again_and_again_leaves_no_descriptor_behind(void) {
    size_t after_the_first = 0;
    int i;

    start_watch();
    CU_ASSERT_TRUE(loop_wait(&watch_loop, reset_came, WAIT_MS));
    for (i = 0; i < 5; i++) {
        char value[8];

        snprintf(value, sizeof value, "%d", i);
        etcd_process_stop(&etcd, SIGKILL);
        CU_ASSERT_NOT_EQUAL(etcd_wait_put(&wait, "/t/a", "lost", 0), STATUS_OK);
        lived_until_ms = loop_wait_now_ms() + 200;
        loop_wait(&watch_loop, lived, WAIT_MS); /* in vain */
        CU_ASSERT_TRUE_FATAL(etcd_process_restart(&etcd));
        CU_ASSERT_EQUAL(etcd_wait_put(&wait, "/t/a", value, 0), STATUS_OK);
        change_comes("/t/a", value);
        if (i == 0)
            after_the_first = open_descriptors();
    }
    CU_ASSERT_TRUE(open_descriptors() <= after_the_first + 1);
    CU_ASSERT_EQUAL(view.n_resets, 1);
}

static void a_dead_endpoint_is_left_for_one_that_works(void) {
    char endpoints[128], dead[48];
    const struct etcd_http_config config = {.endpoints = endpoints};
    struct etcd_http *two;
    int i;

    snprintf(dead, sizeof dead, "http://127.0.0.1:%d", free_port());
    snprintf(endpoints, sizeof endpoints, "%s,%s", dead, etcd.url);
    two = new_client(&loop, &config);
    use(two);
    CHECK_TEXT(etcd_http_stats(two)->endpoint, dead);
    for (i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(etcd_wait_put(&wait, "/t/a", "1", 0), STATUS_OK);
    CHECK_TEXT(etcd_http_stats(two)->endpoint, etcd.url);
    CU_ASSERT_EQUAL(etcd_http_stats(two)->endpoint_switches, 1);
    CU_ASSERT_EQUAL(etcd_http_stats(two)->requests, 4);
    CU_ASSERT_EQUAL(etcd_http_stats(two)->failures, 1);
    close_on(&loop, two);
}

static void proxies_in_the_environment_are_ignored(void) {
    static const char *const names[] = {"http_proxy", "https_proxy", "HTTPS_PROXY",
                                        "ALL_PROXY",  "all_proxy",   "grpc_proxy"};
    size_t i;

    for (i = 0; i < sizeof names / sizeof *names; i++)
        setenv(names[i], "http://127.0.0.1:9", 1);
    CU_ASSERT_EQUAL(etcd_wait_put(&wait, "/t/a", "1", 0), STATUS_OK);
    start_watch();
    CU_ASSERT_TRUE(loop_wait(&watch_loop, reset_came, WAIT_MS));
    for (i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(a_key_is_created_only_where_it_is_absent),
    CHECK_TEST(a_value_is_compared_exactly_and_as_text),
    CHECK_TEST(keys_that_were_created_since_are_noticed_and_changed_ones_are_not),
    CHECK_TEST(a_key_is_read_as_it_was),
    CHECK_TEST(a_prefix_of_1024_keys_is_read_at_once),
    CHECK_TEST(what_etcd_refuses_is_told_and_not_done),
    CHECK_TEST(a_lease_lives_by_keepalives_until_it_is_revoked),
    CHECK_TEST(a_transaction_with_a_dead_lease_is_undone_as_a_whole),
    CHECK_TEST(several_calls_may_be_under_way),
    CHECK_TEST(a_watch_begins_with_all_there_is_and_then_tells_each_change),
    CHECK_TEST(a_renewed_stream_misses_and_repeats_nothing),
    CHECK_TEST(a_watch_goes_on_after_etcd_restarts_without_a_reset),
    CHECK_TEST(a_watch_whose_revision_is_compacted_reads_all_again),
    CHECK_TEST(a_paused_etcd_holds_a_watch_up_and_loses_nothing),
    CHECK_TEST(a_stopped_watch_tells_nothing_more),
    CHECK_TEST(a_paused_etcd_leaves_writes_unknown_in_time_and_works_afterwards),
    CHECK_TEST(an_etcd_that_is_away_is_unavailable_at_once),
    CHECK_TEST(an_etcd_killed_again_and_again_leaves_no_descriptor_behind),
    CHECK_TEST(a_dead_endpoint_is_left_for_one_that_works),
    CHECK_TEST(proxies_in_the_environment_are_ignored),
    CU_TEST_INFO_NULL};

int main(void) {
    CU_SuiteInfo suites[] = {
        {"etcd client", start_etcd, stop_etcd, given_two_clients, then_all_is_closed, rules},
        CU_SUITE_INFO_NULL};

    signal(SIGPIPE, SIG_IGN);
    return check_run(suites);
}
