/* Many clients at once: nothing is issued twice, everybody gets their turn, nobody who leaves does
 * harm.  Serving threads in this process, raw sockets. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/allocate.h"
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

/* IDs, in the order in which they came. */
struct collected {
    int64_t *ids;
    size_t n, room;
};

static void collect(struct collected *collected, int64_t id) {
    if (collected->n == collected->room) {
        collected->room = collected->room * 2 + 1024;
        collected->ids = reallocate(collected->ids, collected->room * sizeof *collected->ids);
    }
    collected->ids[collected->n++] = id;
}

static int compare_ids(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

static size_t count_duplicates(struct collected *collected) {
    size_t duplicates = 0;

    qsort(collected->ids, collected->n, sizeof *collected->ids, compare_ids);
    for (size_t i = 1; i < collected->n; i++)
        duplicates += collected->ids[i] == collected->ids[i - 1];
    return duplicates;
}

/* Waits for a gauge, which its loop publishes once in each turn. */
static bool reaches(_Atomic uint64_t *gauge, uint64_t least) {
    uint64_t until_ms = raw_now_ms() + RAW_TIMEOUT_MS;

    while (atomic_load(gauge) < least) {
        if (raw_now_ms() > until_ms)
            return false;
        usleep(1000);
    }
    return true;
}

static bool send_request(struct raw *raw, unsigned count) {
    return raw_print(raw, "GET /v1/ids?count=%u HTTP/1.1\r\nHost: a\r\nAccept: text/plain\r\n\r\n",
                     count);
}

/* Takes an answer of IDs off the connection; false unless it is a 200 with as many as asked for. */
static bool take_ids(struct raw *raw, unsigned count, struct collected *collected) {
    struct raw_answer answer;
    bool ok = raw_answer(raw, &answer, false) && answer.status == 200;
    const char *at = answer.body;

    for (unsigned i = 0; ok && i < count; i++) {
        char *end;

        collect(collected, strtoll(at, &end, 10));
        ok = end > at && *end == '\n';
        at = end + 1;
    }
    ok = ok && *at == '\0';
    raw_answer_free(&answer);
    return ok;
}

/* --- many connections --- */

#define CONNECTIONS 64
#define REQUESTS 60

struct client {
    pthread_t thread;
    unsigned number;
    struct collected collected;
    bool ok, increasing, in_time;
};

/* B24: an ID is dated within the time in which it was asked for. */
static bool is_dated(int64_t id, uint64_t asked_ms, uint64_t answered_ms) {
    uint64_t dated_ms = snowflake_decode(id, SNOWFLAKE_EPOCH_MS).timestamp_ms;

    return dated_ms >= asked_ms && dated_ms <= answered_ms;
}

static void *run_client(void *arg) {
    static const unsigned counts[] = {1, 1, 37, 1, 1, 1000, 1, 1, 4097, 1};
    struct client *client = arg;
    struct raw raw;

    client->ok = client->increasing = client->in_time = true;
    raw_open(&raw, fixture.port);
    for (unsigned i = 0; i < REQUESTS && client->ok; i++) {
        unsigned count = counts[(i + client->number) % (sizeof counts / sizeof counts[0])];
        size_t first = client->collected.n;
        uint64_t asked_ms = clock_now(&fixture.config.clock).wall_ms, answered_ms;

        client->ok = send_request(&raw, count) && take_ids(&raw, count, &client->collected);
        answered_ms = clock_now(&fixture.config.clock).wall_ms;
        for (; first < client->collected.n; first++)
            client->in_time = client->in_time &&
                              is_dated(client->collected.ids[first], asked_ms, answered_ms);
    }
    raw_close(&raw, false);
    for (size_t i = 1; i < client->collected.n; i++) {
        if (client->collected.ids[i] <= client->collected.ids[i - 1])
            client->increasing = false;
    }
    return NULL;
}

/* Runs all clients and returns what they got. */
static struct collected run_clients(void) {
    static struct client clients[CONNECTIONS];
    struct collected all = {0};

    for (unsigned i = 0; i < CONNECTIONS; i++) {
        clients[i] = (struct client){.number = i};
        if (pthread_create(&clients[i].thread, NULL, run_client, &clients[i]) != 0)
            abort();
    }
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        pthread_join(clients[i].thread, NULL);
        CU_ASSERT_TRUE(clients[i].ok);
        CU_ASSERT_TRUE(clients[i].increasing);
        CU_ASSERT_TRUE(clients[i].in_time);
        for (size_t id = 0; id < clients[i].collected.n; id++)
            collect(&all, clients[i].collected.ids[id]);
        free(clients[i].collected.ids);
    }
    return all;
}

/* B27 */
static void nothing_comes_twice_and_every_connection_sees_increasing_ids(void) {
    struct collected all = run_clients();

    CU_ASSERT(all.n > CONNECTIONS * REQUESTS * 400);
    CU_ASSERT_EQUAL(count_duplicates(&all), 0);
    CU_ASSERT_TRUE(reaches(&fixture.gauges.issued_total, all.n));
    CU_ASSERT_EQUAL(atomic_load(&fixture.gauges.issued_total), all.n);
    free(all.ids);
}

static void two_loops_on_one_socket_have_a_machine_id_each(void) {
    struct loop_gauges gauges = {0};
    struct serving_config config = fixture.config;
    struct serving_order order = {
        .kind = SERVING_INSTALL,
        .install = {.era = "e", .claim = "b", .machine_id = 6, .epoch_ms = SNOWFLAKE_EPOCH_MS},
    };
    size_t by_machine[2] = {0, 0};
    struct serving *second;
    struct collected all;
    struct error err;

    order.install.used_up_ms = clock_now(&config.clock).wall_ms - 1;
    order.install.limit_ms = order.install.used_up_ms + 3600000;
    config.gauges = &gauges;
    CU_ASSERT_EQUAL_FATAL(serving_start(&config, &second, &err), STATUS_OK);
    serving_order(second, &order);
    CU_ASSERT_TRUE(reaches(&gauges.newest_ms, order.install.used_up_ms));
    all = run_clients();
    for (size_t i = 0; i < all.n; i++) {
        unsigned machine_id = snowflake_decode(all.ids[i], SNOWFLAKE_EPOCH_MS).machine_id;

        if (machine_id == 5 || machine_id == 6)
            by_machine[machine_id - 5]++;
    }
    CU_ASSERT_EQUAL(by_machine[0] + by_machine[1], all.n);
    CU_ASSERT_EQUAL(count_duplicates(&all), 0);
    printf("\n    machine ID 5: %zu IDs, 6: %zu\n  ", by_machine[0], by_machine[1]);
    free(all.ids);
    serving_stop(second);
    serving_free(second);
}

/* --- saturation: B19 --- */

#define GREEDY 16
#define SATURATED_MS 1500

static _Atomic bool sated;

static void *run_greedy(void *arg) {
    struct client *client = arg;
    struct raw raw;

    client->ok = true;
    raw_open(&raw, fixture.port);
    while (client->ok && !atomic_load(&sated)) {
        client->number++;
        client->ok = send_request(&raw, 1000) && take_ids(&raw, 1000, &client->collected);
        client->collected.n = 0;
    }
    raw_close(&raw, false);
    free(client->collected.ids);
    return NULL;
}

static uint64_t time_request(const char *target) {
    uint64_t began_ms = raw_now_ms();
    struct raw_answer answer;

    CU_ASSERT_TRUE(raw_get(fixture.port, target, "", &answer));
    CU_ASSERT_EQUAL(answer.status, 200);
    raw_answer_free(&answer);
    return raw_now_ms() - began_ms;
}

static void under_saturation_everybody_gets_a_turn_and_health_is_answered(void) {
    static struct client greedy[GREEDY];
    uint64_t until_ms = raw_now_ms() + SATURATED_MS, longest_ms[2] = {0, 0};
    unsigned fewest = ~0u, most = 0, asked = 0;

    atomic_store(&sated, false);
    for (unsigned i = 0; i < GREEDY; i++) {
        greedy[i] = (struct client){0};
        if (pthread_create(&greedy[i].thread, NULL, run_greedy, &greedy[i]) != 0)
            abort();
    }
    while (raw_now_ms() < until_ms) {
        uint64_t health_ms = time_request("/livez"), single_ms = time_request("/v1/ids");

        longest_ms[0] = health_ms > longest_ms[0] ? health_ms : longest_ms[0];
        longest_ms[1] = single_ms > longest_ms[1] ? single_ms : longest_ms[1];
        asked++;
        usleep(10000);
    }
    atomic_store(&sated, true);
    for (unsigned i = 0; i < GREEDY; i++) {
        pthread_join(greedy[i].thread, NULL);
        CU_ASSERT_TRUE(greedy[i].ok);
        fewest = greedy[i].number < fewest ? greedy[i].number : fewest;
        most = greedy[i].number > most ? greedy[i].number : most;
    }
    printf("\n    %u..%u batches each; of %u: health at most %ju ms, one ID %ju ms\n  ", fewest,
           most, asked, (uintmax_t)longest_ms[0], (uintmax_t)longest_ms[1]);
    CU_ASSERT(asked >= 5);
    CU_ASSERT(fewest > 0 && fewest * 10 >= most);
}

static void parked_callers_are_served_in_the_order_they_came(void) {
    enum { CALLERS = 20 };
    uint64_t before = atomic_load(&fixture.gauges.http_requests_total);
    struct raw raw[CALLERS];
    struct collected all = {0};

    for (int i = 0; i < CALLERS; i++)
        raw_open(&raw[i], fixture.port);
    for (unsigned i = 0; i < CALLERS; i++) {
        send_request(&raw[i], 10000); /* takes 3 ms, so that a queue builds up */
        while (atomic_load(&fixture.gauges.http_requests_total) < before + i + 1)
            usleep(10);
    }
    for (int i = 0; i < CALLERS; i++) {
        CU_ASSERT_TRUE(take_ids(&raw[i], 10000, &all));
        raw_close(&raw[i], false);
    }
    for (size_t i = 1; i < all.n; i++) {
        if (all.ids[i] <= all.ids[i - 1]) {
            CU_FAIL("a later caller was served before an earlier one");
            break;
        }
    }
    free(all.ids);
}

/* --- clients that leave --- */

/* B94 */
static void clients_that_reset_do_no_harm(void) {
    enum { LEAVING = 300 };
    struct collected all = {0};
    struct raw raw;

    raw_open(&raw, fixture.port);
    for (int i = 0; i < LEAVING; i++) {
        struct raw leaving;

        raw_open(&leaving, fixture.port);
        send_request(&leaving, 10000);
        raw_close(&leaving, true);
        if (i % 50 == 0)
            CU_ASSERT_TRUE(send_request(&raw, 100) && take_ids(&raw, 100, &all));
    }
    CU_ASSERT_TRUE(send_request(&raw, 100) && take_ids(&raw, 100, &all));
    raw_close(&raw, false);
    for (size_t i = 1; i < all.n; i++)
        CU_ASSERT(all.ids[i] > all.ids[i - 1]);
    CU_ASSERT_EQUAL(count_duplicates(&all), 0);
    printf("\n    %d left; %ju IDs issued\n  ", LEAVING,
           (uintmax_t)atomic_load(&fixture.gauges.issued_total));
    free(all.ids);
}

static void a_client_that_only_stops_sending_gets_its_answer_and_is_closed(void) {
    struct collected all = {0};
    struct raw raw;

    raw_open(&raw, fixture.port);
    usleep(10000);
    send_request(&raw, 100);
    shutdown(raw.fd, SHUT_WR);
    CU_ASSERT_TRUE(take_ids(&raw, 100, &all));
    CU_ASSERT_TRUE(raw_closed(&raw, 3000));
    raw_close(&raw, false);
    free(all.ids);
}

/* What it costs when so many ask for 10,000 IDs each, behind one that is served, and leave. */
static uint64_t cost_of_leaving(unsigned leaving) {
    struct collected all = {0};
    struct raw busy, left[leaving];
    uint64_t before = atomic_load(&fixture.gauges.issued_total), cost;

    raw_open(&busy, fixture.port);
    for (unsigned i = 0; i < leaving; i++)
        raw_open(&left[i], fixture.port);
    CU_ASSERT_TRUE(reaches(&fixture.gauges.http_connections, leaving + 1));
    send_request(&busy, 10000);
    for (unsigned i = 0; i < leaving; i++) {
        send_request(&left[i], 10000);
        raw_close(&left[i], i % 2);
    }
    CU_ASSERT_TRUE(take_ids(&busy, 10000, &all));
    CU_ASSERT_TRUE(send_request(&busy, 1) && take_ids(&busy, 1, &all));
    raw_close(&busy, false);
    while (atomic_load(&fixture.gauges.http_connections) > 0)
        usleep(1000);
    cost = atomic_load(&fixture.gauges.issued_total) - before;
    free(all.ids);
    return cost;
}

static void whoever_leaves_while_parked_costs_no_ids(void) {
    enum { LEAVING = 30 };
    bool cheap = false;

    /* Some may have had their turn before they left: all of them, if we had no turn meanwhile. */
    for (int i = 0; i < 10 && !cheap; i++)
        cheap = cost_of_leaving(LEAVING) < LEAVING * 10000 / 2;
    CU_ASSERT_TRUE(cheap);
}

static void callers_that_wait_when_the_machine_id_is_lost_are_told(void) {
    enum { CALLERS = 50 };
    struct raw raw[CALLERS];
    struct raw_answer answer;
    unsigned served = 0, told = 0;

    for (int i = 0; i < CALLERS; i++) {
        raw_open(&raw[i], fixture.port);
        send_request(&raw[i], 10000);
    }
    while (atomic_load(&fixture.gauges.parked) == 0)
        usleep(100);
    serving_fixture_order(&fixture, SERVING_DROP);
    for (int i = 0; i < CALLERS; i++) {
        CU_ASSERT_TRUE(raw_answer(&raw[i], &answer, false));
        served += answer.status == 200;
        told += answer.status == 503;
        raw_answer_free(&answer);
        raw_close(&raw[i], false);
    }
    CU_ASSERT_EQUAL(served + told, CALLERS);
    CU_ASSERT(told > 0);
    serving_fixture_grant(&fixture, 3600000);
    time_request("/v1/ids");
}

/* --- a clock that is set --- */

static struct clock_page *page;

static void given_a_worker_whose_clock_can_be_set(void) {
    char path[] = "/tmp/snowfleet-clock-XXXXXX";
    int fd = mkstemp(path);
    struct error err;

    if (fd < 0 || ftruncate(fd, sizeof *page) != 0)
        abort();
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    serving_fixture_init(&fixture);
    if (page == MAP_FAILED || clock_test_page(path, &fixture.config.clock, &err) != STATUS_OK)
        abort();
    unlink(path);
    serving_fixture_start(&fixture, "127.0.0.1:0");
    serving_fixture_grant(&fixture, 3600000);
}

static void step_clock(int64_t ms) {
    __atomic_add_fetch(&page->sequence, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&page->wall_offset_ns, ms * 1000000, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&page->sequence, 1, __ATOMIC_SEQ_CST);
}

static int64_t one_id(void) {
    struct collected one = {0};
    struct raw raw;
    int64_t id;

    raw_open(&raw, fixture.port);
    CU_ASSERT_TRUE(send_request(&raw, 1) && take_ids(&raw, 1, &one));
    raw_close(&raw, false);
    id = one.n ? one.ids[0] : 0;
    free(one.ids);
    return id;
}

/* B11 */
static void a_small_step_back_is_waited_out_a_large_one_refused_until_it_is_over(void) {
    int64_t last = one_id(), next;
    struct raw_answer answer;

    step_clock(-8);
    next = one_id();
    CU_ASSERT(next > last);
    step_clock(-1000);
    CU_ASSERT_TRUE(raw_get(fixture.port, "/v1/ids", "", &answer));
    CU_ASSERT_EQUAL(answer.status, 503);
    CU_ASSERT_PTR_NOT_NULL(strstr(answer.body, " ms behind the last ID\",\"retry_after_ms\":"));
    raw_answer_free(&answer);
    CU_ASSERT_TRUE(raw_get(fixture.port, "/readyz", "", &answer));
    CU_ASSERT_EQUAL(answer.status, 503);
    raw_answer_free(&answer);
    usleep(999999);
    CU_ASSERT(one_id() > next);
}

static void a_step_back_reaches_those_who_wait(void) {
    enum { CALLERS = 30 };
    struct raw raw[CALLERS];
    struct raw_answer answer;
    unsigned told = 0;

    for (int i = 0; i < CALLERS; i++) {
        raw_open(&raw[i], fixture.port);
        send_request(&raw[i], 10000);
    }
    while (atomic_load(&fixture.gauges.parked) == 0)
        usleep(100);
    step_clock(-3600000);
    for (int i = 0; i < CALLERS; i++) {
        CU_ASSERT_TRUE(raw_answer(&raw[i], &answer, false));
        told += answer.status == 503;
        raw_answer_free(&answer);
        raw_close(&raw[i], false);
    }
    CU_ASSERT(told > 0);
    step_clock(3600000);
    one_id();
}

static void a_step_forward_goes_on_at_once(void) {
    int64_t last = one_id();

    step_clock(60000);
    CU_ASSERT(snowflake_decode(one_id(), SNOWFLAKE_EPOCH_MS).timestamp_ms >=
              snowflake_decode(last, SNOWFLAKE_EPOCH_MS).timestamp_ms + 60000);
}

static CU_TestInfo load_rules[] = {
    CHECK_TEST(nothing_comes_twice_and_every_connection_sees_increasing_ids),
    CHECK_TEST(two_loops_on_one_socket_have_a_machine_id_each),
    CHECK_TEST(under_saturation_everybody_gets_a_turn_and_health_is_answered),
    CHECK_TEST(parked_callers_are_served_in_the_order_they_came),
    CHECK_TEST(clients_that_reset_do_no_harm),
    CHECK_TEST(a_client_that_only_stops_sending_gets_its_answer_and_is_closed),
    CHECK_TEST(whoever_leaves_while_parked_costs_no_ids),
    CHECK_TEST(callers_that_wait_when_the_machine_id_is_lost_are_told),
    CU_TEST_INFO_NULL,
};
static CU_TestInfo clock_rules[] = {
    CHECK_TEST(a_small_step_back_is_waited_out_a_large_one_refused_until_it_is_over),
    CHECK_TEST(a_step_back_reaches_those_who_wait),
    CHECK_TEST(a_step_forward_goes_on_at_once),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"load", NULL, NULL, given_a_worker_that_serves, stop, load_rules},
           {"a clock that is set", NULL, NULL, given_a_worker_whose_clock_can_be_set, stop,
            clock_rules})
