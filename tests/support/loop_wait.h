/* loop_wait.h - runs a libuv loop until a condition holds, with a deadline: no test sleeps and
 * hopes. */
#ifndef SNOWFLEET_TESTS_SUPPORT_LOOP_WAIT_H
#define SNOWFLEET_TESTS_SUPPORT_LOOP_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

static inline void loop_wait_tick(uv_timer_t *timer) {
    (void)timer; /* only wakes the loop, so that conditions on the outside are seen */
}

static inline uint64_t loop_wait_now_ms(void) {
    return uv_hrtime() / 1000000;
}

/* False when the deadline passed first. */
static inline bool loop_wait(uv_loop_t *loop, bool (*holds)(void), uint64_t timeout_ms) {
    uint64_t deadline_ms = loop_wait_now_ms() + timeout_ms;
    uv_timer_t tick;
    bool ok;

    uv_timer_init(loop, &tick);
    uv_timer_start(&tick, loop_wait_tick, 5, 5);
    while (!(ok = holds()) && loop_wait_now_ms() < deadline_ms)
        uv_run(loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&tick, NULL);
    uv_run(loop, UV_RUN_NOWAIT); /* the handle is on our stack */
    return ok;
}

#endif
