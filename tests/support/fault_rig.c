#include "tests/support/fault_rig.h"

#include <string.h>

#include "tests/support/check.h"
#include "tests/support/loop_wait.h"

struct fault_rig rig;
uint64_t fault_rig_watch_lifetime_ms = 1000;

void fault_rig_init(raw_handler_fn *one, raw_handler_fn *two, uint64_t timeout_ms) {
    char endpoints[128];
    const struct etcd_http_config config = {.endpoints = endpoints,
                                            .timeout_ms = timeout_ms,
                                            .watch_lifetime_ms = fault_rig_watch_lifetime_ms,
                                            .retry_min_ms = 40,
                                            .retry_max_ms = 200};
    struct error err;

    memset(&rig, 0, sizeof rig);
    uv_loop_init(&rig.loop);
    raw_server_start(&rig.one, &rig.loop, one);
    raw_server_start(&rig.two, &rig.loop, two);
    snprintf(endpoints, sizeof endpoints, "%s%s%s", rig.one.url, two ? "," : "",
             two ? rig.two.url : "");
    CU_ASSERT_EQUAL_FATAL(etcd_http_new(&rig.loop, &config, &rig.client, &err), STATUS_OK);
    rig.wait.loop = &rig.loop;
    rig.wait.etcd = etcd_http_interface(rig.client);
    watch_view_init(&rig.view);
}

static void on_closed(void *arg) {
    (void)arg;
    rig.closed = true;
}

static bool is_closed(void) {
    return rig.closed;
}

void fault_rig_close_client(void) {
    uint64_t before_ms = loop_wait_now_ms();

    etcd_http_close(rig.client, on_closed, NULL);
    CU_ASSERT_FALSE(rig.closed); /* not from inside */
    fault_rig_until(is_closed);
    CU_ASSERT_TRUE(loop_wait_now_ms() - before_ms < 1000);
    rig.client = NULL;
}

void fault_rig_done(void) {
    if (rig.client)
        fault_rig_close_client();
    raw_server_stop(&rig.one, &rig.loop);
    raw_server_stop(&rig.two, &rig.loop);
    CU_ASSERT_EQUAL(uv_run(&rig.loop, UV_RUN_DEFAULT), 0);
    CU_ASSERT_EQUAL(uv_loop_close(&rig.loop), 0);
}

void fault_rig_until(bool (*holds)(void)) {
    CU_ASSERT_TRUE(loop_wait(&rig.loop, holds, FAULT_WAIT_MS));
}

static uint64_t until_ms;

static bool is_later(void) {
    return loop_wait_now_ms() >= until_ms;
}

void fault_rig_for(uint64_t ms) {
    until_ms = loop_wait_now_ms() + ms;
    fault_rig_until(is_later);
}

bool fault_rig_note(const struct raw_request *request) {
    if (strncmp(request->head, "POST /v3/watch ", 15) != 0) {
        rig.n_lists++;
        return false;
    }
    if (rig.n_watches < 8)
        snprintf(rig.bodies[rig.n_watches], sizeof rig.bodies[0], "%s", request->body);
    rig.n_watches++;
    return true;
}
