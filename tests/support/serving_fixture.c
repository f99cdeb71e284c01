#include "tests/support/serving_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/http_server.h"
#include "common/random.h"
#include "tests/support/raw_http.h"

static void on_closed(void *arg, uint64_t last_ms) {
    struct serving_fixture *fixture = arg;

    atomic_store(&fixture->closed_ms, last_ms);
    atomic_fetch_add(&fixture->closed_times, 1);
}

void serving_fixture_init(struct serving_fixture *fixture) {
    memset(fixture, 0, sizeof *fixture);
    view_init(&fixture->view);
    fixture->config = (struct serving_config){
        .clock = clock_system(),
        .grpc_fd = -1,
        .unix_fd = -1,
        .max_connections = 1024,
        .max_backward_wait_ms = 10,
        .start = SNOWFLAKE_START_SPREAD,
        .board = &fixture->board,
        .gauges = &fixture->gauges,
        .all_gauges = &fixture->gauges,
        .n_loops = 1,
        .closed = on_closed,
        .arg = fixture,
    };
}

/* Nobody looks at it again: steps are judged by the first look. */
static void start_clock(struct serving_fixture *fixture) {
    const struct effective_limits limits = {.max_forward_ns = INT64_C(3600000000000)};
    struct effective_clock clock;

    effective_clock_init(&clock, &limits);
    effective_clock_look(&clock, clock_now_ns(&fixture->config.clock));
    clock_board_init(&fixture->clock_board, &fixture->config.clock, &clock);
    fixture->config.clock = clock_board_clock(&fixture->clock_board);
    fixture->config.clock_board = &fixture->clock_board;
}

void serving_fixture_start(struct serving_fixture *fixture, const char *address) {
    struct error err;

    start_clock(fixture);
    fixture->config.source = id128_source_new(random_bytes, &err);
    if (!fixture->config.source) {
        fprintf(stderr, "%s\n", err.message);
        exit(EXIT_FAILURE);
    }
    view_board_init(&fixture->board);
    if (http_listen(address, &fixture->fd, fixture->bound, sizeof fixture->bound, &err) !=
        STATUS_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(EXIT_FAILURE);
    }
    fixture->port = (unsigned)strtoul(strrchr(fixture->bound, ':') + 1, NULL, 10);
    fixture->config.http_fd = fixture->fd;
    if (serving_start(&fixture->config, &fixture->serving, &err) != STATUS_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(EXIT_FAILURE);
    }
    strcpy(fixture->view.identity, "test/fixture");
    serving_fixture_publish(fixture, WORKER_CLAIMING, "the test has granted nothing yet");
}

/* One turn of the loop takes orders and requests as they come, so an answer to a request sent after an
 * order may not know it yet; the next request's does. */
static void settle(const struct serving_fixture *fixture) {
    struct raw_answer answer;

    raw_get(fixture->port, "/livez", "", &answer);
    raw_answer_free(&answer);
}

void serving_fixture_grant(struct serving_fixture *fixture, uint64_t granted_ms) {
    uint64_t now_ms = clock_now(&fixture->config.clock).wall_ms;
    struct view_machine *machine = &fixture->view.machines[0];
    struct serving_order order = {
        .kind = SERVING_INSTALL,
        .install = {.era = "e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0",
                    .claim = FIXTURE_CLAIM,
                    .machine_id = 5,
                    .epoch_ms = SNOWFLAKE_EPOCH_MS,
                    .used_up_ms = now_ms - 1,
                    .limit_ms = now_ms + granted_ms},
    };

    fixture->view.n_machines = 1;
    machine->gauges = &fixture->gauges;
    machine->hold = (struct hold_view){
        .phase = HOLD_OPEN,
        .has_generation = true,
        .has_slot = true,
        .machine_id = 5,
        .claim = FIXTURE_CLAIM,
        .used_up_ms = now_ms - 1,
        .limit_ms = now_ms + granted_ms,
        .horizon_ms = now_ms + granted_ms,
    };
    serving_fixture_publish(fixture, WORKER_SERVING, "");
    serving_order(fixture->serving, &order);
    settle(fixture);
}

void serving_fixture_publish(struct serving_fixture *fixture, enum worker_state state,
                             const char *reason) {
    fixture->view.state = state;
    snprintf(fixture->view.reason, sizeof fixture->view.reason, "%s", reason);
    /* 0: nobody watches whether this control thread turns. */
    view_publish(&fixture->board, &fixture->view, 0);
}

void serving_fixture_order(struct serving_fixture *fixture, enum serving_order_kind kind) {
    const struct serving_order order = {.kind = kind};

    serving_order(fixture->serving, &order);
    if (kind != SERVING_DRAIN)
        settle(fixture);
}

void serving_fixture_stop(struct serving_fixture *fixture) {
    serving_stop(fixture->serving);
    serving_free(fixture->serving);
    close(fixture->fd);
    view_board_done(&fixture->board);
    id128_source_free(fixture->config.source);
}
