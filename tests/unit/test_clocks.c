/* Who is asked for the time, and when: clocks.c over a prober that only says how long its answers take,
 * in a time of its own. */
#include "coordinator/clocks.h"
#include "common/allocate.h"
#include "common/prober.h"
#include "tests/support/check.h"

#define MS INT64_C(1000000)
#define STEP_MS 10
#define TICK_MS 100 /* as the coordinator's */
#define INTERVAL_MS 10000
#define OLDEST_MS (CLOCKS_FRESH_MS / 2) /* who answers is heard again by then */
#define EXCHANGES 9
#define WORKERS_MAX 1000
#define DEAD INT64_MAX /* as a round trip */

/* A probe under way. */
struct probe {
    int64_t end_ns;
    size_t worker;
    bool far;
    probe_fn *done;
    void *arg;
    struct probe *next;
};

static int64_t now_ns; /* since boot */
static int64_t round_trip_ns[WORKERS_MAX];
static bool warm[WORKERS_MAX];
static struct probe *probes;
static size_t n_workers, near_now, far_now, near_most, far_most, begun_now, begun_most;
static struct keys keys;
static struct cluster *cluster;
static struct clocks *clocks;

static struct instant_ns read_clock(void *self) {
    (void)self;
    return (struct instant_ns){INT64_C(1764547200000) * MS + now_ns, now_ns};
}

static bool is_far(size_t worker) {
    return round_trip_ns[worker] >= 10 * MS;
}

/* In place of prober.c. */
void probe_clock(struct http_client *client, struct clock clock, const char *address,
                 uint64_t timeout_ms, probe_fn *done, void *arg) {
    struct probe *probe = allocate(1, sizeof *probe);
    size_t worker = strtoul(strchr(address, ':') + 1, NULL, 10) - 1;
    int64_t takes_ns = (int64_t)timeout_ms * MS;

    (void)client, (void)clock;
    CU_ASSERT_FATAL(worker < n_workers);
    if (round_trip_ns[worker] != DEAD)
        takes_ns = round_trip_ns[worker] * (EXCHANGES + !warm[worker]); /* one to connect */
    *probe = (struct probe){now_ns + takes_ns, worker, is_far(worker), done, arg, probes};
    probes = probe;
    *(probe->far ? &far_now : &near_now) += 1;
    far_most = far_now > far_most ? far_now : far_most;
    near_most = near_now > near_most ? near_now : near_most;
    begun_now++;
    begun_most = begun_now > begun_most ? begun_now : begun_most;
}

static void end(struct probe *probe) {
    int64_t round_trip = round_trip_ns[probe->worker];
    struct clock_reading reading = {.boot_ms = (uint64_t)(now_ns / MS)};

    if (round_trip == DEAD) {
        snprintf(reading.reason, sizeof reading.reason, "timed out");
    } else {
        reading.heard = true;
        reading.exchanges = EXCHANGES;
        reading.skew.bound_ns = round_trip / 2;
        reading.sent_boot_ns = now_ns - round_trip;
        reading.peer = read_clock(NULL);
    }
    warm[probe->worker] = reading.heard;
    *(probe->far ? &far_now : &near_now) -= 1;
    probe->done(probe->arg, &reading);
    free(probe);
}

/* Time goes on by STEP_MS; all that is done by then is told. */
static void go_on(void) {
    struct probe **link = &probes, *ended;

    now_ns += STEP_MS * MS;
    while (*link) {
        ended = *link;
        if (ended->end_ns > now_ns) {
            link = &ended->next;
            continue;
        }
        *link = ended->next;
        end(ended);
    }
    begun_now = 0;
    if (now_ns / MS % TICK_MS == 0)
        clocks_tick(clocks);
}

static void on_measured(void *arg, struct member *member) {
    (void)arg, (void)member;
}

static void given(size_t n, int64_t round_trip, unsigned far_at_a_time) {
    struct clocks_config config = {.clock = {.now_ns = read_clock},
                                   .probe_interval_ms = INTERVAL_MS,
                                   .timeout_ms = CLOCKS_TIMEOUT_MS,
                                   .far_at_a_time = far_at_a_time,
                                   .measured = on_measured};
    struct error err;

    now_ns = 1000 * 1000 * MS;
    n_workers = n;
    near_now = far_now = near_most = far_most = begun_now = begun_most = 0;
    CU_ASSERT_EQUAL_FATAL(keys_init(&keys, "default", &err), STATUS_OK);
    config.cluster = cluster = cluster_new(&keys);
    clocks = clocks_new(&config);
    for (size_t i = 0; i < n; i++) {
        struct node node = {.attempt = 1};
        char key[KEY_MAX], instance[HEX128_CHARS + 1], *text;

        round_trip_ns[i] = round_trip;
        warm[i] = false;
        snprintf(node.identity, sizeof node.identity, "%zu", i);
        snprintf(node.addresses.http, sizeof node.addresses.http, "10.0.0.1:%zu", i + 1);
        snprintf(instance, sizeof instance, "%032zx", i);
        keys_node(&keys, instance, key);
        text = node_format(&node);
        cluster_apply(cluster, key, text, strlen(text), 1, 1);
        free(text);
    }
    CU_ASSERT_EQUAL_FATAL(cluster->n_members, n);
}

static void then_all_is_closed(void) {
    for (struct probe *probe; (probe = probes);) {
        probes = probe->next;
        end(probe);
    }
    clocks_free(clocks);
    cluster_free(cluster);
}

/* How long ago the one who has waited longest was heard, in ms; of those who answer. */
static int64_t oldest_ms(void) {
    int64_t oldest = 0;

    for (size_t i = 0; i < n_workers; i++) {
        const struct member *member = cluster->members[i];
        int64_t age = now_ns / MS - (int64_t)member->heard_boot_ms;

        if (round_trip_ns[atoi(member->node.identity)] != DEAD && age > oldest)
            oldest = age;
    }
    return oldest;
}

/* The most that oldest_ms() is in the time from the end of a first round on, which may take first_ms. */
static int64_t oldest_of_all_ms(int64_t first_ms, int64_t for_ms) {
    int64_t most = 0, begun_ns = now_ns;

    while (now_ns < begun_ns + first_ms * MS)
        go_on();
    while (now_ns < begun_ns + (first_ms + for_ms) * MS) {
        int64_t oldest = now_ns / MS % TICK_MS == 0 ? oldest_ms() : 0;

        most = oldest > most ? oldest : most;
        go_on();
    }
    return most;
}

static void a_thousand_workers_of_100_ms_are_asked_each_interval(void) {
    given(WORKERS_MAX, 100 * MS, CLOCKS_FAR_AT_A_TIME);
    CU_ASSERT(oldest_of_all_ms(10000, 120000) <= OLDEST_MS);
    CU_ASSERT(far_most <= CLOCKS_FAR_AT_A_TIME + 48); /* those that were new */
    then_all_is_closed();
}

static void and_of_300_ms_before_they_count_as_unknown(void) {
    given(WORKERS_MAX, 300 * MS, CLOCKS_FAR_AT_A_TIME);
    CU_ASSERT(oldest_of_all_ms(28000, 120000) < CLOCKS_FRESH_MS);
    then_all_is_closed();
}

static void what_is_near_is_asked_a_few_at_a_time_beside_what_is_far(void) {
    given(WORKERS_MAX, 100 * MS, CLOCKS_FAR_AT_A_TIME);
    for (size_t i = 0; i < n_workers; i += 2)
        round_trip_ns[i] = 2 * MS;
    CU_ASSERT(oldest_of_all_ms(10000, 10000) <= OLDEST_MS);
    near_most = far_most = 0;
    CU_ASSERT(oldest_of_all_ms(0, 60000) <= OLDEST_MS);
    CU_ASSERT_EQUAL(near_most, 16);
    CU_ASSERT(far_most > 16 && far_most <= CLOCKS_FAR_AT_A_TIME);
    then_all_is_closed();
}

static void those_that_are_gone_keep_nobody_waiting(void) {
    given(WORKERS_MAX, DEAD, CLOCKS_FAR_AT_A_TIME);
    for (size_t i = 3; i < n_workers; i += 4)
        round_trip_ns[i] = i % 8 == 3 ? 100 * MS : 2 * MS;
    CU_ASSERT(oldest_of_all_ms(15000, 60000) <= OLDEST_MS);
    then_all_is_closed();
}

/* However few are asked at a time, all have their turn: each waits as long as the others. */
static void nobody_is_passed_over_for_ever(void) {
    given(200, 100 * MS, 4);
    CU_ASSERT(oldest_of_all_ms(60000, 300000) <= 200 / 4 * 1000 + 2000);
    far_most = 0;
    CU_ASSERT(oldest_of_all_ms(0, 60000) <= 200 / 4 * 1000 + 2000);
    CU_ASSERT_EQUAL(far_most, 4);
    then_all_is_closed();
}

static void few_far_ones_begin_together(void) {
    given(WORKERS_MAX, 100 * MS, CLOCKS_FAR_AT_A_TIME);
    for (int i = 0; i < 30000 / STEP_MS; i++)
        go_on();
    begun_most = 0;
    for (size_t i = 0; i < n_workers; i++)
        clocks_ask(clocks, cluster->members[i]); /* all wanted at once */
    for (int i = 0; i < 5000 / STEP_MS; i++)
        go_on();
    CU_ASSERT_EQUAL(begun_most, 16);
    then_all_is_closed();
}

static void who_was_slow_once_is_near_again(void) {
    given(WORKERS_MAX, 2 * MS, CLOCKS_FAR_AT_A_TIME);
    CU_ASSERT(oldest_of_all_ms(10000, 10000) <= OLDEST_MS);
    for (size_t i = 0; i < n_workers; i++)
        round_trip_ns[i] = 50 * MS;
    CU_ASSERT(oldest_of_all_ms(15000, 0) == 0);
    for (size_t i = 0; i < n_workers; i++)
        round_trip_ns[i] = 2 * MS;
    CU_ASSERT(oldest_of_all_ms(15000, 10000) <= OLDEST_MS);
    near_most = 0;
    CU_ASSERT(oldest_of_all_ms(0, 30000) <= OLDEST_MS);
    CU_ASSERT_EQUAL(near_most, 16);
    then_all_is_closed();
}

static void one_without_an_address_is_not_asked_and_says_why(void) {
    char key[KEY_MAX], text[] = "{}";

    given(1, 2 * MS, CLOCKS_FAR_AT_A_TIME);
    keys_node(&keys, cluster->members[0]->instance, key);
    cluster_apply(cluster, key, text, strlen(text), 1, 1);
    clocks_ask_all(clocks);
    CU_ASSERT_TRUE(clocks_idle(clocks));
    CU_ASSERT_EQUAL(near_most, 0);
    CHECK_TEXT(cluster->members[0]->reading.reason, "no HTTP address");
    then_all_is_closed();
}

static CU_TestInfo rules[] = {
    CHECK_TEST(a_thousand_workers_of_100_ms_are_asked_each_interval),
    CHECK_TEST(and_of_300_ms_before_they_count_as_unknown),
    CHECK_TEST(what_is_near_is_asked_a_few_at_a_time_beside_what_is_far),
    CHECK_TEST(those_that_are_gone_keep_nobody_waiting),
    CHECK_TEST(nobody_is_passed_over_for_ever),
    CHECK_TEST(few_far_ones_begin_together),
    CHECK_TEST(who_was_slow_once_is_near_again),
    CHECK_TEST(one_without_an_address_is_not_asked_and_says_why),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"clocks", NULL, NULL, NULL, NULL, rules})
