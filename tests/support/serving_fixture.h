/* serving_fixture.h - one serving thread on a free port of 127.0.0.1, with the control thread's part
 * played by the test. */
#ifndef SNOWFLEET_TESTS_SUPPORT_SERVING_FIXTURE_H
#define SNOWFLEET_TESTS_SUPPORT_SERVING_FIXTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "worker/serving.h"
#include "worker/view.h"

#define FIXTURE_CLAIM "c1a1c1a1c1a1c1a1c1a1c1a1c1a1c1a1"

struct serving_fixture {
    struct serving_config config;
    struct clock_board clock_board; /* over config.clock, as that was at the start */
    struct view_board board;
    struct worker_view view; /* as published */
    struct loop_gauges gauges;
    struct serving *serving;
    int fd;
    char bound[64];
    unsigned port;
    _Atomic uint64_t closed_ms; /* what SERVING_CLOSE handed over */
    _Atomic unsigned closed_times;
};

/* Fills in the defaults; the caller changes config as it likes and starts. */
void serving_fixture_init(struct serving_fixture *fixture);
void serving_fixture_start(struct serving_fixture *fixture, const char *address);
/* Grants machine ID 5 from now on for so long, and says so in the view.  This and orders other than
 * SERVING_DRAIN return when they are carried out. */
void serving_fixture_grant(struct serving_fixture *fixture, uint64_t granted_ms);
void serving_fixture_publish(struct serving_fixture *fixture, enum worker_state state,
                             const char *reason);
void serving_fixture_order(struct serving_fixture *fixture, enum serving_order_kind kind);
void serving_fixture_stop(struct serving_fixture *fixture);

#endif
