/* test_skew_rounds.c - what a skew report prints is true: 1,000 rounds through the real prober, over
 * real connections, from clocks that are off by known amounts behind paths that are slow by known
 * amounts.
 *
 * Only time is not real: it passes when the other side says so, so a path of 400 ms costs nothing
 * and the truth is known to the nanosecond. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>

#include "common/http_client.h"
#include "coordinator/clocks.h"
#include "tests/support/check.h"
#include "tests/support/loop_wait.h"
#include "tests/support/raw_server.h"

#define US INT64_C(1000)
#define MS (1000 * US)
#define S (1000 * MS)
#define WALL_NS (INT64_C(1764547200) * S) /* of the asker, at first */
#define BOOT_NS (1000 * S)
#define LATEST_NS (INT64_MAX / 2) /* what the prober takes for a time */
#define WAIT_MS 60000
#define PEERS 7
#define NEAR 4 /* of these within 17 minutes: with the asker they are a majority */
#define ROUNDS 1000
#define DRIFT_MAX_PPB 150000 /* a crystal's, below what a report allows for */
#define DELAY_MAX_NS (400 * MS)
#define ROUNDING_MS 0.002 /* offset and reference are printed to 1 us each */

struct peer {
    struct raw_server server;
    int64_t offset_ns, drift_ppb; /* of its wall clock from true time; both of its clocks drift */
    int64_t there_ns, back_ns;    /* each exchange takes that long, or up to a third more */
};

static uv_loop_t loop;
static struct http_client *client;
static struct peer peers[PEERS];
static struct keys keys;
static struct cluster *cluster;
static struct clocks *clocks;
static bool measured, closed;
static int64_t true_ns; /* since the test began */

/* ---- chance, the same in every run ---- */

static double chance(void) {
    static uint64_t state = 20261202;

    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(state >> 11) / 9007199254740992.0;
}

/* From 10^low to 10^high, all sizes alike. */
static int64_t any_size(double low, double high) {
    return (int64_t)pow(10, low + chance() * (high - low));
}

/* ---- clocks ---- */

static int64_t drifted_ns(const struct peer *peer) {
    return (int64_t)((__int128)true_ns * peer->drift_ppb / S);
}

/* How far it is ahead of the asker's clock, which shows true time. */
static int64_t truth_ns(const struct peer *peer) {
    return peer->offset_ns + drifted_ns(peer);
}

static struct instant_ns peer_now(const struct peer *peer) {
    return (struct instant_ns){WALL_NS + true_ns + truth_ns(peer),
                               BOOT_NS + true_ns + drifted_ns(peer)};
}

static struct instant_ns asker_now(void *self) {
    (void)self;
    return (struct instant_ns){WALL_NS + true_ns, BOOT_NS + true_ns};
}

/* Of both signs and all sizes; some of those that need not be near, as far away as a clock can be.
 * A step is one that shows: it goes at least a second. */
static void step(struct peer *peer, bool near) {
    int64_t before_ns = peer->offset_ns;

    do {
        double which = near ? 1 : chance();

        if (which < 0.05)
            peer->offset_ns = S - WALL_NS;
        else if (which < 0.1)
            peer->offset_ns = LATEST_NS - WALL_NS - 24 * 3600 * S;
        else
            peer->offset_ns = (chance() < 0.5 ? -1 : 1) * any_size(3, near ? 12 : 17.5);
    } while (llabs(peer->offset_ns - before_ns) < S);
}

/* ---- paths ---- */

static int64_t any_delay(void) {
    int64_t delay_ns = any_size(4, 8.7);

    return delay_ns < DELAY_MAX_NS ? delay_ns : DELAY_MAX_NS;
}

static int64_t delayed(int64_t least_ns) {
    int64_t delay_ns = least_ns + (int64_t)(chance() * (double)least_ns / 3);

    return delay_ns < DELAY_MAX_NS ? delay_ns : DELAY_MAX_NS;
}

static void answer(struct raw_connection *connection, const struct raw_request *request) {
    static const char host[] = "Host: 127.0.0.1:";
    const char *port = strstr(request->head, host);
    struct instant_ns received, transmitted;
    struct peer *peer = NULL;
    char body[256];

    for (size_t i = 0; port && i < PEERS; i++) {
        if (peers[i].server.port == atoi(port + strlen(host)))
            peer = &peers[i];
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(peer);
    true_ns += delayed(peer->there_ns);
    received = peer_now(peer);
    true_ns += any_size(3, 7);
    transmitted = peer_now(peer);
    true_ns += delayed(peer->back_ns);
    snprintf(body, sizeof body,
             "{\"receive_ns\":\"%" PRId64 "\",\"transmit_ns\":\"%" PRId64
             "\",\"boot_ns\":\"%" PRId64
             "\",\"max_error_ns\":null,\"synchronized\":true,\"frequency_ppb\":0}",
             received.wall_ns, transmitted.wall_ns, transmitted.boot_ns);
    raw_answer(connection, body);
}

/* ---- a fleet ---- */

static void on_measured(void *arg, struct member *member) {
    (void)arg, (void)member;
    measured = true;
}

static bool is_measured(void) {
    return measured;
}

static void apply(const char *key, char *text) {
    cluster_apply(cluster, key, text, strlen(text), 1, 1);
    free(text);
}

static void given_a_peer(size_t i) {
    struct node node = {.attempt = 1};
    struct peer *peer = &peers[i];
    char key[KEY_MAX], instance[HEX128_CHARS + 1];

    raw_server_start(&peer->server, &loop, answer);
    peer->drift_ppb = (int64_t)((2 * chance() - 1) * DRIFT_MAX_PPB);
    step(peer, i < NEAR);
    snprintf(node.identity, sizeof node.identity, "%zu", i);
    snprintf(node.addresses.http, sizeof node.addresses.http, "127.0.0.1:%d", peer->server.port);
    snprintf(instance, sizeof instance, "%032zx", i);
    keys_node(&keys, instance, key);
    apply(key, node_format(&node));
}

static void given_a_fleet(void) {
    struct meta meta = {.format = RECORD_FORMAT,
                        .serial = 1,
                        .epoch_ms = 1704067200000,
                        .floor_ms = 1704067200000,
                        .last_machine_id = 9,
                        .max_window_ms = 60000,
                        .quiet_time_ms = 90000,
                        .max_offset_ms = 3600000};
    struct clocks_config config = {.clock = {.now_ns = asker_now},
                                   .probe_interval_ms = INT64_MAX, /* only when told to */
                                   .timeout_ms = WAIT_MS,
                                   .far_at_a_time = CLOCKS_FAR_AT_A_TIME,
                                   .measured = on_measured};
    const struct http_config http = {0};
    struct error err;

    memset(meta.era, 'e', HEX128_CHARS);
    CU_ASSERT_EQUAL_FATAL(uv_loop_init(&loop), 0);
    CU_ASSERT_EQUAL_FATAL(http_client_new(&loop, &http, &client, &err), STATUS_OK);
    CU_ASSERT_EQUAL_FATAL(keys_init(&keys, "default", &err), STATUS_OK);
    config.client = client;
    config.cluster = cluster = cluster_new(&keys);
    clocks = clocks_new(&config);
    apply(keys.meta, meta_format(&meta, NULL));
    for (size_t i = 0; i < PEERS; i++)
        given_a_peer(i);
}

static void on_closed(void *arg) {
    (void)arg;
    closed = true;
}

static bool is_closed(void) {
    return closed;
}

static void then_all_is_closed(void) {
    http_client_close(client, on_closed, NULL);
    CU_ASSERT_TRUE(loop_wait(&loop, is_closed, WAIT_MS));
    clocks_free(clocks);
    cluster_free(cluster);
    for (size_t i = 0; i < PEERS; i++)
        raw_server_stop(&peers[i].server, &loop);
    CU_ASSERT_EQUAL(uv_loop_close(&loop), 0);
}

/* ---- rounds ---- */

struct seen {
    unsigned intervals, wrong, ahead, behind;
    double tightest_ms, widest_ms; /* bounds */
};

static double number(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);

    CU_ASSERT_TRUE_FATAL(json_is_number(value));
    return json_number_value(value);
}

static void check_node(const json_t *node, double from_here_ms, unsigned round, struct seen *seen) {
    const char *identity = json_string_value(json_object_get(node, "identity"));
    double truth_ms = (double)truth_ns(&peers[atoi(identity)]) / 1e6;
    double offset_ms = number(node, "offset_ms") + from_here_ms,
           bound_ms = number(node, "bound_ms");

    /* A double has 52 bits for 146 years in ms. */
    if (fabs(offset_ms - truth_ms) > bound_ms + ROUNDING_MS + fabs(truth_ms) * 1e-15) {
        seen->wrong++;
        printf("round %u: node %s is %.6f ms ahead, and said to be %.6f within %.6f\n", round,
               identity, truth_ms, offset_ms, bound_ms);
    }
    seen->intervals++;
    *(truth_ms > 0 ? &seen->ahead : &seen->behind) += 1;
    seen->tightest_ms = fmin(seen->tightest_ms, bound_ms);
    seen->widest_ms = fmax(seen->widest_ms, bound_ms);
}

/* The report as text, and what it says of each node that was heard. */
static void check_report(unsigned round, struct seen *seen) {
    struct survey survey;
    json_t *report, *read;
    char *text;

    clocks_survey(clocks, &survey);
    report = survey_json(&survey, cluster, "default", 0, "test");
    survey_done(&survey);
    text = json_dumps(report, JSON_COMPACT);
    json_decref(report);
    read = json_loads(text, 0, NULL);
    free(text);
    for (size_t i = 0; i < json_array_size(json_object_get(read, "nodes")); i++) {
        const json_t *node = json_array_get(json_object_get(read, "nodes"), i);

        if (!json_is_null(json_object_get(node, "bound_ms")))
            check_node(node, number(json_object_get(read, "reference"), "from_here_ms"), round,
                       seen);
    }
    json_decref(read);
}

static void ask(size_t i) {
    peers[i].there_ns = any_delay();
    peers[i].back_ns = any_delay();
    measured = false;
    clocks_ask(clocks, cluster->members[i]);
    CU_ASSERT_TRUE_FATAL(loop_wait(&loop, is_measured, WAIT_MS));
    CU_ASSERT_TRUE_FATAL(cluster->members[i]->reading.heard);
}

static void every_interval_printed_in_a_thousand_rounds_holds_the_truth(void) {
    struct seen seen = {.tightest_ms = 1e9};
    const struct clocks_stats *stats = clocks_stats(clocks);

    for (size_t i = 0; i < PEERS; i++)
        ask(i); /* without a majority nothing is printed */
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t i = round % PEERS;

        if (chance() < 0.25)
            step(&peers[i], i < NEAR);
        ask(i);
        true_ns += any_size(3, 9.3); /* what was measured grows old */
        check_report(round, &seen);
    }
    CU_ASSERT_EQUAL(seen.wrong, 0);
    CU_ASSERT(seen.intervals >= ROUNDS && seen.ahead > ROUNDS / 4 && seen.behind > ROUNDS / 4);
    CU_ASSERT(seen.tightest_ms < 1 && seen.widest_ms > 300);
    CU_ASSERT_EQUAL(stats->probes_total, PEERS + ROUNDS);
    CU_ASSERT(stats->steps_total > ROUNDS / 8 && stats->own_steps_total == 0);
    printf("%d rounds, %u intervals with bounds of %.3f to %.1f ms\n", ROUNDS, seen.intervals,
           seen.tightest_ms, seen.widest_ms);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(every_interval_printed_in_a_thousand_rounds_holds_the_truth),
    CU_TEST_INFO_NULL,
};

int main(void) {
    CU_SuiteInfo suites[] = {{"skew reports", NULL, NULL, given_a_fleet, then_all_is_closed, rules},
                             CU_SUITE_INFO_NULL};

    signal(SIGPIPE, SIG_IGN);
    return check_run(suites);
}
