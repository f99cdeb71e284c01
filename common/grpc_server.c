#include "common/grpc_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/allocate.h"

#define SWEEP_MS 1000

/* ---- limits that take time ---- */

static void sweep_call(struct grpc_call *call, uint64_t now_ms, uint64_t timeout_ms) {
    if (!call->over && !call->client_done && call->judged && !call->method->client_streams &&
        now_ms - call->began_ms > timeout_ms)
        grpc_call_stop(call, GRPC_DEADLINE_EXCEEDED, "the request was not whole in time",
                       GRPC_NO_RETRY);
    else if (call->finished && now_ms - call->finished_ms > timeout_ms)
        nghttp2_submit_rst_stream(call->conn->session, NGHTTP2_FLAG_NONE, call->stream_id,
                                  NGHTTP2_CANCEL);
}

/* The connection has reached its age, and its calls had their time to end by themselves. */
static void end_aged_calls(struct grpc_conn *conn) {
    for (struct grpc_call *call = conn->calls; call; call = call->next)
        grpc_call_stop(call, GRPC_UNAVAILABLE,
                       "the connection has reached its age: call again on a new one", 0);
}

static bool must_go(const struct grpc_conn *conn, uint64_t now_ms, uint64_t timeout_ms) {
    if (!conn->greeted && now_ms - conn->accepted_ms > timeout_ms)
        return true;
    if (conn->unwritten && now_ms - conn->writing_since_ms > timeout_ms)
        return true;
    return conn->pinged_ms && now_ms - conn->pinged_ms > GRPC_SILENT_WAIT_MS;
}

static void sweep_conn(struct grpc_conn *conn, uint64_t now_ms) {
    uint64_t timeout_ms = conn->server->config.request_timeout_ms;

    if (must_go(conn, now_ms, timeout_ms)) {
        grpc_conn_close(conn);
        return;
    }
    if (!conn->greeted)
        return;
    for (struct grpc_call *call = conn->calls; call; call = call->next)
        sweep_call(call, now_ms, timeout_ms);
    if (!conn->pinged_ms && now_ms - conn->heard_ms > GRPC_SILENT_MS) {
        conn->pinged_ms = now_ms;
        nghttp2_submit_ping(conn->session, NGHTTP2_FLAG_NONE, NULL);
    }
    if (conn->age_limit_ms && !conn->notice_ms && now_ms >= conn->age_limit_ms)
        grpc_conn_notice(conn, true);
    if (conn->notice_ms && !conn->goaway_sent && now_ms - conn->notice_ms > SWEEP_MS)
        grpc_conn_goaway(conn); /* it does not answer pings */
    if (conn->notice_for_age && now_ms - conn->notice_ms > GRPC_AGE_GRACE_MS)
        end_aged_calls(conn);
    grpc_conn_mark(conn);
}

static void on_sweep(uv_timer_t *timer) {
    struct grpc_server *server = timer->data;
    struct grpc_conn *next;

    for (struct grpc_conn *conn = server->conns; conn; conn = next) {
        next = conn->next;
        sweep_conn(conn, uv_now(server->loop));
    }
}

/* ---- writing, once a turn ---- */

static void on_before_poll(uv_prepare_t *handle) {
    grpc_flush(handle->data);
}

static void on_after_poll(uv_check_t *handle) {
    grpc_flush(handle->data);
}

/* ---- life ---- */

void grpc_part_closed(struct grpc_server *server) {
    if (--server->open_parts > 0)
        return;
    nghttp2_session_callbacks_del(server->callbacks);
    nghttp2_option_del(server->option);
    grpc_tls_unref(server->tls);
    if (server->closed)
        server->closed(server->closed_arg);
    free(server);
}

static void on_handle_closed(uv_handle_t *handle) {
    grpc_part_closed(handle->data);
}

/* handle: a uv_..._t, which begins with the fields of a uv_handle_t. */
static void open_handle(struct grpc_server *server, void *handle) {
    ((uv_handle_t *)handle)->data = server;
    server->open_parts++;
}

enum status grpc_server_new(uv_loop_t *loop, const struct grpc_server_config *config,
                            struct grpc_server **server, struct error *err) {
    struct grpc_server *made = allocate(1, sizeof *made);

    made->loop = loop;
    made->config = *config;
    made->dirty_end = &made->dirty;
    made->jitter = (uint64_t)(uintptr_t)made ^ uv_hrtime();
    uv_timer_init(loop, &made->sweep);
    uv_prepare_init(loop, &made->before_poll);
    uv_check_init(loop, &made->after_poll);
    uv_idle_init(loop, &made->again);
    open_handle(made, &made->sweep);
    open_handle(made, &made->before_poll);
    open_handle(made, &made->after_poll);
    open_handle(made, &made->again);
    if (grpc_session_prepare(made, err) != STATUS_OK) {
        grpc_server_close(made, NULL, NULL);
        return err->status;
    }
    uv_timer_start(&made->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    uv_prepare_start(&made->before_poll, on_before_poll);
    uv_check_start(&made->after_poll, on_after_poll);
    *server = made;
    return STATUS_OK;
}

static bool take_connection(void *arg, int fd, const struct sockaddr *from, socklen_t from_len) {
    struct grpc_listen *listener = arg;
    struct grpc_server *server = listener->server;

    (void)from, (void)from_len;
    if (server->n_conns >= server->config.max_connections)
        return false;
    grpc_conn_open(server, listener->kind, fd); /* on failure it closes fd */
    return true;
}

enum status grpc_server_listen(struct grpc_server *server, enum grpc_listener kind, int listen_fd,
                               struct error *err) {
    struct grpc_listen *listener = &server->listeners[kind];
    const struct acceptor_config accepting = {
        .listen_fd = listen_fd, .take = take_connection, .arg = listener};

    listener->server = server;
    listener->kind = kind;
    if (acceptor_init(&listener->acceptor, server->loop, &accepting, err) != STATUS_OK)
        return error_context(err, "gRPC server");
    server->open_parts++;
    return STATUS_OK;
}

void grpc_server_set_tls(struct grpc_server *server, struct grpc_tls *tls) {
    grpc_tls_unref(server->tls);
    server->tls = grpc_tls_ref(tls);
}

void grpc_server_drain(struct grpc_server *server) {
    if (server->draining)
        return;
    server->draining = true;
    for (struct grpc_conn *conn = server->conns; conn; conn = conn->next)
        grpc_conn_notice(conn, false);
}

void grpc_server_end_calls(struct grpc_server *server, const char *why) {
    for (struct grpc_conn *conn = server->conns; conn; conn = conn->next) {
        for (struct grpc_call *call = conn->calls; call; call = call->next)
            grpc_call_stop(call, GRPC_UNAVAILABLE, why, 1000);
        grpc_conn_goaway(conn); /* what comes after that was not looked at, and may be repeated */
    }
}

unsigned grpc_server_busy(const struct grpc_server *server) {
    unsigned busy = server->busy;

    for (const struct grpc_conn *conn = server->conns; conn; conn = conn->next)
        busy += conn->unwritten != NULL ||
                (conn->notice_ms && !conn->notice_for_age && !conn->goaway_sent);
    return busy;
}

static void on_listener_closed(void *arg) {
    grpc_part_closed(((struct grpc_listen *)arg)->server);
}

void grpc_server_close(struct grpc_server *server, void (*closed)(void *arg), void *arg) {
    struct grpc_conn *next;

    grpc_flush(server);
    server->closing = true;
    server->closed = closed;
    server->closed_arg = arg;
    for (int i = 0; i < GRPC_LISTENERS; i++)
        if (server->listeners[i].acceptor.opened) {
            acceptor_stop(&server->listeners[i].acceptor);
            acceptor_close(&server->listeners[i].acceptor, on_listener_closed);
        }
    for (struct grpc_conn *conn = server->conns; conn; conn = next) {
        next = conn->next;
        grpc_conn_close(conn);
    }
    grpc_call_pool_close(server);
    uv_close((uv_handle_t *)&server->sweep, on_handle_closed);
    uv_close((uv_handle_t *)&server->before_poll, on_handle_closed);
    uv_close((uv_handle_t *)&server->after_poll, on_handle_closed);
    uv_close((uv_handle_t *)&server->again, on_handle_closed);
}

void grpc_server_stats(const struct grpc_server *server, struct grpc_server_stats *stats) {
    *stats = server->stats;
    stats->connections = server->n_conns;
    for (int i = 0; i < GRPC_LISTENERS; i++) {
        stats->refused_connections_total += server->listeners[i].acceptor.refused_total;
        stats->accept_failures_total += server->listeners[i].acceptor.failures_total;
    }
}
