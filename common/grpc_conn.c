#include "common/grpc_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/allocate.h"

#define FLUSH_ROUNDS 4 /* of one connection, before the others have their turn */

/* What a client of HTTP/1.x is told. */
static const char http1_answer[] =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 52\r\n"
    "Connection: close\r\n\r\nThis port speaks gRPC: HTTP/2 with prior knowledge.\n";

/* ---- out ---- */

void grpc_conn_mark(struct grpc_conn *conn) {
    if (conn->dirty || conn->closing)
        return;
    conn->dirty = true;
    conn->next_dirty = NULL;
    *conn->server->dirty_end = conn;
    conn->server->dirty_end = &conn->next_dirty;
    conn->server->n_dirty++;
}

static void take_off_dirty(struct grpc_conn *conn) {
    struct grpc_server *server = conn->server;
    struct grpc_conn **at = &server->dirty;

    if (!conn->dirty)
        return;
    while (*at != conn)
        at = &(*at)->next_dirty;
    *at = conn->next_dirty;
    if (!*at)
        server->dirty_end = at;
    server->n_dirty--;
    conn->dirty = false;
}

static void on_written(uv_write_t *write, int status) {
    struct grpc_conn *conn = write->data;

    free(conn->unwritten);
    conn->unwritten = NULL;
    if (conn->closing)
        return;
    if (status < 0)
        grpc_conn_close(conn);
    else
        grpc_conn_mark(conn);
}

/* What the kernel does not take at once is copied and written when it does.  false: failed. */
static bool transmit(struct grpc_conn *conn, const uint8_t *bytes, size_t len) {
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)len);
    int written = uv_try_write(&conn->io.stream, &buf, 1);

    if (written < 0 && written != UV_EAGAIN)
        return false;
    written = written < 0 ? 0 : written;
    if ((size_t)written == len)
        return true;
    conn->unwritten = (uint8_t *)allocate_copy((const char *)bytes + written,
                                               len - (size_t)written);
    conn->writing_since_ms = uv_now(conn->server->loop);
    conn->write.data = conn;
    buf = uv_buf_init((char *)conn->unwritten, (unsigned)(len - (size_t)written));
    if (uv_write(&conn->write, &conn->io.stream, &buf, 1, on_written) == 0)
        return true;
    free(conn->unwritten);
    conn->unwritten = NULL;
    return false;
}

static bool transmit_tls(struct grpc_conn *conn) {
    const uint8_t *bytes;
    size_t len = grpc_tls_pending(conn->tls, &bytes);
    bool ok = len == 0 || transmit(conn, bytes, len);

    grpc_tls_sent(conn->tls);
    return ok;
}

static bool put_out(struct grpc_conn *conn, const uint8_t *bytes, size_t len) {
    if (!conn->tls)
        return transmit(conn, bytes, len);
    return grpc_tls_write(conn->tls, bytes, len) && transmit_tls(conn);
}

/* Gathers what nghttp2 has to say, about GRPC_OUT_BYTES at most; -1: the session is of no use. */
static ssize_t gather(struct grpc_conn *conn, uint8_t *out) {
    size_t len = 0;

    while (len < GRPC_OUT_BYTES) {
        const uint8_t *bytes;
        ssize_t n = nghttp2_session_mem_send(conn->session, &bytes);

        if (n < 0)
            return -1;
        if (n == 0)
            break;
        assert((size_t)n <=
               GRPC_CHUNK_BYTES); /* a frame of 16 KiB at most: we change no settings */
        memcpy(out + len, bytes, (size_t)n);
        len += (size_t)n;
    }
    return (ssize_t)len;
}

/* Never more than one write ahead of the socket, so that nghttp2 holds data back. */
static void write_out(struct grpc_conn *conn) {
    if (conn->tls && !conn->unwritten && !transmit_tls(conn)) {
        grpc_conn_close(conn);
        return;
    }
    if (conn->tls && !grpc_tls_ready(conn->tls))
        return; /* nothing of ours before the handshake is over */
    for (int round = 0; round < FLUSH_ROUNDS && !conn->unwritten; round++) {
        ssize_t len = gather(conn, conn->server->out);

        if (len < 0 || (len > 0 && !put_out(conn, conn->server->out, (size_t)len))) {
            grpc_conn_close(conn);
            return;
        }
        if ((size_t)len < GRPC_OUT_BYTES)
            break;
    }
    if (conn->unwritten)
        return; /* on_written() goes on */
    if (conn->doomed)
        grpc_conn_close(conn);
    else if (nghttp2_session_want_write(conn->session))
        grpc_conn_mark(conn);
    else if (!nghttp2_session_want_read(conn->session))
        grpc_conn_close(conn);
}

/* Handlers may send more then, which marks their connections again. */
static void tell_sent(struct grpc_server *server) {
    while (server->sent) {
        struct grpc_call *call = server->sent;

        server->sent = call->next_sent;
        call->in_sent = false;
        if (!call->over && call->sent && call->out_at == call->out_len)
            call->sent(call->user);
    }
}

static void on_again(uv_idle_t *handle) {
    uv_idle_stop(handle); /* it was only to keep the loop from waiting */
}

void grpc_flush(struct grpc_server *server) {
    /* Those that are marked meanwhile have their turn next time. */
    for (unsigned n = server->n_dirty; n > 0 && server->dirty; n--) {
        struct grpc_conn *conn = server->dirty;

        take_off_dirty(conn);
        write_out(conn);
    }
    tell_sent(server);
    if (server->dirty && !server->closing)
        uv_idle_start(&server->again, on_again);
}

/* ---- in ---- */

static bool is_http1(const uint8_t *bytes, size_t len) {
    return len >= 4 && memcmp(bytes, "PRI ", 4) != 0 && bytes[0] >= 'A' && bytes[0] <= 'Z';
}

static bool feed_session(void *arg, const uint8_t *bytes, size_t len) {
    struct grpc_conn *conn = arg;
    ssize_t n = nghttp2_session_mem_recv(conn->session, bytes, len);

    if (n == NGHTTP2_ERR_BAD_CLIENT_MAGIC) {
        if (is_http1(bytes, len))
            (void)put_out(conn, (const uint8_t *)http1_answer, sizeof http1_answer - 1);
        grpc_conn_close(conn);
        return false;
    }
    if (n < 0) {
        conn->server->stats.floods_total += n == NGHTTP2_ERR_FLOODED;
        conn->doomed = true; /* whatever it has to say is said first */
    }
    grpc_conn_mark(conn);
    return !conn->doomed;
}

static void feed(struct grpc_conn *conn, const uint8_t *bytes, size_t len) {
    grpc_filter_take(&conn->filter, bytes, len, feed_session, conn);
    for (; !conn->closing && conn->filter.dropped > 0; conn->filter.dropped--)
        grpc_session_count_empty(conn);
}

static void feed_tls(struct grpc_conn *conn, const uint8_t *bytes, size_t len) {
    int n;

    grpc_tls_feed(conn->tls, bytes, len);
    while ((n = grpc_tls_read(conn->tls, conn->server->plain, sizeof conn->server->plain)) > 0) {
        feed(conn, conn->server->plain, (size_t)n);
        if (conn->closing)
            return;
    }
    /* The handshake's own bytes, or an alert; where a write is under way they go with the next. */
    if ((!conn->unwritten && !transmit_tls(conn)) || n < 0)
        grpc_conn_close(conn);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf) {
    struct grpc_conn *conn = handle->data;

    (void)suggested;
    *buf = uv_buf_init((char *)conn->server->in, sizeof conn->server->in);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf) {
    struct grpc_conn *conn = stream->data;

    if (n < 0) {
        grpc_conn_close(conn);
        return;
    }
    if (n == 0 || conn->doomed)
        return;
    conn->heard_ms = uv_now(conn->server->loop);
    conn->pinged_ms = 0;
    if (conn->tls)
        feed_tls(conn, (const uint8_t *)buf->base, (size_t)n);
    else
        feed(conn, (const uint8_t *)buf->base, (size_t)n);
}

/* ---- GOAWAY ---- */

void grpc_conn_notice(struct grpc_conn *conn, bool for_age) {
    if (conn->notice_ms || conn->closing)
        return;
    conn->notice_ms = uv_now(conn->server->loop);
    conn->notice_for_age = for_age;
    nghttp2_submit_shutdown_notice(conn->session); /* on_frame_sent() goes on */
    grpc_conn_mark(conn);
}

void grpc_conn_goaway(struct grpc_conn *conn) {
    if (conn->goaway_sent)
        return;
    conn->goaway_sent = true;
    nghttp2_submit_goaway(conn->session, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(conn->session), NGHTTP2_NO_ERROR,
                          NULL, 0);
    grpc_conn_mark(conn);
}

void grpc_conn_doom(struct grpc_conn *conn, uint32_t code, const char *why) {
    if (conn->doomed)
        return;
    conn->doomed = true;
    conn->server->stats.floods_total++;
    nghttp2_submit_goaway(conn->session, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(conn->session), code,
                          (const uint8_t *)why, strlen(why));
    grpc_conn_mark(conn);
}

/* ---- life ---- */

static void on_closed(uv_handle_t *handle) {
    struct grpc_conn *conn = handle->data;
    struct grpc_server *server = conn->server;

    free(conn->unwritten);
    free(conn);
    grpc_part_closed(server);
}

/* nghttp2_session_del() tells nobody of the streams that end with it: their calls are ended here. */
void grpc_conn_close(struct grpc_conn *conn) {
    struct grpc_server *server = conn->server;

    if (conn->closing)
        return;
    take_off_dirty(conn);
    conn->closing = true;
    while (conn->calls)
        grpc_call_free(conn->calls);
    nghttp2_session_del(conn->session);
    conn->session = NULL;
    if (conn->tls && !conn->unwritten) {
        grpc_tls_bye(conn->tls);
        (void)transmit_tls(conn);
    }
    grpc_tls_link_free(conn->tls);
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        server->conns = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    server->n_conns--;
    uv_close(&conn->io.handle, on_closed);
}

/* In 9/10 to 11/10 of the age, so that connections made together do not end together. */
static uint64_t age_limit(struct grpc_server *server, uint64_t now_ms) {
    uint64_t age_ms = server->config.max_age_ms;

    if (age_ms == 0)
        return 0;
    server->jitter = server->jitter * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return now_ms + age_ms - age_ms / 10 + (server->jitter >> 33) % (age_ms / 5 + 1);
}

static int attach(struct grpc_conn *conn, enum grpc_listener kind, int fd) {
    uv_loop_t *loop = conn->server->loop;
    int code;

    if (kind == GRPC_UNIX) {
        uv_pipe_init(loop, &conn->io.pipe, 0);
        return uv_pipe_open(&conn->io.pipe, fd);
    }
    uv_tcp_init(loop, &conn->io.tcp);
    code = uv_tcp_open(&conn->io.tcp, fd);
    if (code == 0)
        uv_tcp_nodelay(&conn->io.tcp, 1); /* what is to be sent together is gathered here */
    return code;
}

bool grpc_conn_open(struct grpc_server *server, enum grpc_listener kind, int fd) {
    struct grpc_conn *conn = allocate(1, sizeof *conn);
    uint64_t now_ms = uv_now(server->loop);
    int code;

    conn->server = server;
    conn->accepted_ms = conn->heard_ms = conn->pings_at_ms = now_ms;
    conn->age_limit_ms = age_limit(server, now_ms);
    conn->pings = GRPC_PING_BURST;
    code = attach(conn, kind, fd);
    conn->io.handle.data = conn;
    server->open_parts++;
    if (code != 0 || uv_read_start(&conn->io.stream, on_alloc, on_read) != 0) {
        if (code != 0)
            close(fd);
        conn->closing = true;
        uv_close(&conn->io.handle, on_closed);
        return false;
    }
    if (kind == GRPC_TCP && server->tls)
        conn->tls = grpc_tls_link_new(server->tls);
    conn->next = server->conns;
    if (conn->next)
        conn->next->prev = conn;
    server->conns = conn;
    server->n_conns++;
    server->stats.connections_total++;
    /* Our SETTINGS wait until the client has shown that it speaks HTTP/2. */
    grpc_filter_init(&conn->filter);
    grpc_session_begin(conn);
    return true;
}
