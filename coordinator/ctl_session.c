#include "coordinator/ctl_session.h"

#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/etcd_http.h"
#include "common/snowflake.h"
#include "common/token_file.h"
#include "coordinator/clocks.h"

#define CTL_TICK_MS 20
#define REPLY_MAX_BYTES (4u << 20)

static void on_closed(void *arg) {
    *(bool *)arg = true;
}

enum status ctl_open(struct ctl_session *session, const struct ctl_values *values,
                     struct error *err) {
    struct etcd_http_config etcd;
    /* All probes and what else there is: a request that waits for its turn uses up its time-out. */
    const struct http_config http = {.max_active = CLOCKS_NEAR_AT_A_TIME + CLOCKS_FAR_AT_A_TIME +
                                                   16,
                                     .max_connections = MACHINE_IDS};
    const char *token_name = values->shared.worker_token_file;
    struct token_file *tokens = NULL;
    bool etcd_closed = false;
    int code;

    memset(session, 0, sizeof *session);
    session->clock = clock_system();
    session->cluster_name = values->shared.cluster;
    session->etcd_timeout_ms = values->shared.etcd_timeout_ms;
    if (keys_init(&session->keys, values->shared.cluster, err) != STATUS_OK)
        return error_context(err, "--cluster");
    if (etcd_options_config(&values->shared, &etcd, err) != STATUS_OK)
        return err->status;
    if (token_name && token_file_open(token_name, &tokens, err) != STATUS_OK)
        return error_context(err, "--worker-token-file");
    code = uv_loop_init(&session->loop);
    if (code != 0) {
        token_file_close(tokens);
        return error_set(err, STATUS_SYSTEM, "event loop: %s", uv_strerror(code));
    }
    if (etcd_http_new(&session->loop, &etcd, &session->etcd_http, err) != STATUS_OK)
        goto no_etcd;
    if (http_client_new(&session->loop, &http, &session->client, err) != STATUS_OK)
        goto no_client;
    session->etcd = etcd_http_interface(session->etcd_http);
    session->cluster = cluster_new(&session->keys);
    http_client_authorize(session->client, tokens ? token_file_header(tokens) : NULL);
    token_file_close(tokens);
    return STATUS_OK;
no_client:
    etcd_http_close(session->etcd_http, on_closed, &etcd_closed);
    ctl_wait(session, &etcd_closed);
no_etcd:
    uv_loop_close(&session->loop);
    token_file_close(tokens);
    return err->status;
}

void ctl_close(struct ctl_session *session) {
    bool etcd_closed = false, client_closed = false;

    http_client_close(session->client, on_closed, &client_closed);
    etcd_http_close(session->etcd_http, on_closed, &etcd_closed);
    ctl_wait(session, &client_closed);
    ctl_wait(session, &etcd_closed);
    uv_run(&session->loop, UV_RUN_DEFAULT);
    uv_loop_close(&session->loop);
    cluster_free(session->cluster);
}

static void on_tick(uv_timer_t *timer) {
    (void)timer; /* only wakes the loop */
}

/* What a timer answers at the very start of uv_run() is no event to libuv, which would then wait for
 * the next one, perhaps for ever: so there is always a next one. */
void ctl_wait(struct ctl_session *session, const bool *done) {
    uv_timer_t tick;

    uv_timer_init(&session->loop, &tick);
    uv_timer_start(&tick, on_tick, CTL_TICK_MS, CTL_TICK_MS);
    while (!*done)
        uv_run(&session->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&tick, NULL);
    uv_run(&session->loop, UV_RUN_NOWAIT); /* the handle is on our stack */
}

/* ---- etcd ---- */

struct txn_wait {
    bool done;
    enum status status;
    struct error *err;
    void (*take)(void *arg, const struct etcd_txn_result *result);
    void *arg;
};

static void on_txn(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct txn_wait *wait = arg;

    wait->done = true;
    if (err) {
        wait->status = err->status;
        *wait->err = *err;
    } else {
        wait->take(wait->arg, result);
    }
}

enum status ctl_txn(struct ctl_session *session, const struct etcd_txn *txn,
                    void (*take)(void *arg, const struct etcd_txn_result *result), void *arg,
                    struct error *err) {
    struct txn_wait wait = {.status = STATUS_OK, .err = err, .take = take, .arg = arg};

    session->etcd.txn(session->etcd.self, txn, on_txn, &wait);
    ctl_wait(session, &wait.done);
    return wait.status;
}

static void take_all(void *arg, const struct etcd_txn_result *result) {
    struct ctl_session *session = arg;

    cluster_read(session->cluster, &result->results[0], clock_now(&session->clock).boot_ms);
}

enum status ctl_read(struct ctl_session *session, struct error *err) {
    char end[KEY_MAX];
    const struct etcd_op all = {.kind = ETCD_RANGE, .key = session->keys.prefix, .range_end = end};

    etcd_prefix_end(session->keys.prefix, end, sizeof end);
    if (ctl_txn(session, &(struct etcd_txn){.then = &all, .n_then = 1}, take_all, session, err) !=
        STATUS_OK)
        return error_context(err, "etcd");
    return STATUS_OK;
}

enum status ctl_read_initialised(struct ctl_session *session, struct error *err) {
    if (ctl_read(session, err) != STATUS_OK)
        return err->status;
    if (!session->cluster->meta_value)
        return error_set(err, STATUS_NOT_FOUND,
                         "cluster %s: meta is missing: snowfleetctl init makes it",
                         session->cluster_name);
    if (!session->cluster->has_meta) {
        *err = session->cluster->meta_error;
        return error_context(err, "cluster %s", session->cluster_name);
    }
    return STATUS_OK;
}

bool ctl_read_epoch(struct ctl_session *session, uint64_t *epoch_ms) {
    struct error err;

    if (ctl_read_initialised(session, &err) == STATUS_OK) {
        *epoch_ms = session->cluster->meta.epoch_ms;
        return true;
    }
    *epoch_ms = SNOWFLAKE_EPOCH_MS;
    ctl_note("%s; the epoch is taken for 2024-01-01T00:00:00Z", err.message);
    return false;
}

/* ---- HTTP ---- */

struct get_wait {
    bool done;
    struct error *err;
    enum status status;
    long http_status;
    char *body;
};

static void on_got(void *arg, const struct error *err, const struct http_result *result) {
    struct get_wait *wait = arg;

    wait->done = true;
    if (err) {
        wait->status = err->status;
        *wait->err = *err;
    } else {
        wait->http_status = result->http_status;
        wait->body = allocate_copy(result->body, result->body_len);
    }
}

enum status ctl_get(struct ctl_session *session, const char *url, uint64_t timeout_ms,
                    long *http_status, char **body, struct error *err) {
    struct get_wait wait = {.err = err, .status = STATUS_OK};

    http_client_send(session->client, &(struct http_request){.url = url,
                                                             .timeout_ms = timeout_ms,
                                                             .max_bytes = REPLY_MAX_BYTES,
                                                             .authorized = true,
                                                             .done = on_got,
                                                             .arg = &wait});
    ctl_wait(session, &wait.done);
    *http_status = wait.http_status;
    *body = wait.body;
    return wait.status;
}
