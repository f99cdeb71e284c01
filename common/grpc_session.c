#include "common/grpc_internal.h"

#include <string.h>

#include "common/allocate.h"

#define PATH_SHOWN 128 /* characters of an unknown method in the message */

/* ---- floods ---- */

/* Every frame that brings no call further counts, until an answer of ours sets it back. */
void grpc_session_count_empty(struct grpc_conn *conn) {
    if (++conn->empty_frames > GRPC_EMPTY_FRAMES)
        grpc_conn_doom(conn, NGHTTP2_ENHANCE_YOUR_CALM, "too_many_empty_frames");
}

static void count_ping(struct grpc_conn *conn) {
    uint64_t now_ms = uv_now(conn->server->loop);
    uint64_t earned = (now_ms - conn->pings_at_ms) / GRPC_PING_INTERVAL_MS;

    conn->pings_at_ms += earned * GRPC_PING_INTERVAL_MS;
    conn->pings = earned > GRPC_PING_BURST - conn->pings ? GRPC_PING_BURST
                                                         : conn->pings + (unsigned)earned;
    if (conn->pings == 0)
        grpc_conn_doom(conn, NGHTTP2_ENHANCE_YOUR_CALM, "too_many_pings");
    else
        conn->pings--;
}

/* ---- headers ---- */

static bool is(const uint8_t *text, size_t len, const char *expected) {
    return len == strlen(expected) && memcmp(text, expected, len) == 0;
}

static void find_method(struct grpc_call *call, const uint8_t *path, size_t len) {
    const struct grpc_server_config *config = &call->conn->server->config;

    for (size_t i = 0; i < config->n_methods; i++) {
        if (is(path, len, config->methods[i].path)) {
            call->method = &config->methods[i];
            return;
        }
    }
    call->path = allocate_copy((const char *)path, len < PATH_SHOWN ? len : PATH_SHOWN);
}

/* Given twice it is ambiguous, and none is known. */
static void check_authorization(struct grpc_call *call, const char *value) {
    const struct grpc_server_config *config = &call->conn->server->config;

    call->authentic = !call->authorization_seen && config->authenticate &&
                      config->authenticate(config->arg, value);
    call->authorization_seen = true;
}

/* nghttp2 has checked the pseudo-headers and that values hold no NUL; they end in one. */
static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user) {
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)flags, (void)user;
    if (!call || call->judged)
        return 0;
    call->header_bytes += name_len + value_len + 32;
    if (call->header_bytes > GRPC_HEADER_FLOOD_BYTES) {
        grpc_conn_doom(call->conn, NGHTTP2_ENHANCE_YOUR_CALM, "too_many_headers");
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* the rest is not even looked at */
    }
    switch (name_len) {
    case 5:
        if (memcmp(name, ":path", 5) == 0 && !call->method && !call->path)
            find_method(call, value, value_len);
        break;
    case 7:
        if (memcmp(name, ":method", 7) == 0)
            call->post = is(value, value_len, "POST");
        break;
    case 12:
        if (memcmp(name, "content-type", 12) == 0) {
            call->grpc = grpc_content_type((const char *)value, value_len);
        } else if (memcmp(name, "grpc-timeout", 12) == 0) {
            call->bad_timeout |= call->has_timeout ||
                                 !grpc_timeout_parse((const char *)value, value_len,
                                                     &call->timeout_ms);
            call->has_timeout = true;
        }
        break;
    case 13:
        if (memcmp(name, "authorization", 13) == 0)
            check_authorization(call, (const char *)value);
        else if (memcmp(name, "grpc-encoding", 13) == 0)
            call->other_encoding = !is(value, value_len, "identity");
        break;
    default: break;
    }
    return 0;
}

/* ---- frames ---- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    struct grpc_conn *conn = user;

    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        nghttp2_session_set_stream_user_data(session, frame->hd.stream_id,
                                             grpc_call_new(conn, frame->hd.stream_id));
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes,
                   size_t len, void *user) {
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);

    (void)flags, (void)user;
    if (call)
        grpc_call_data(call, bytes, len);
    return 0;
}

static void on_stream_frame(struct grpc_conn *conn, const nghttp2_frame *frame) {
    struct grpc_call *call = nghttp2_session_get_stream_user_data(conn->session,
                                                                  frame->hd.stream_id);

    if (!call)
        return;
    if (frame->hd.type == NGHTTP2_HEADERS && !call->judged)
        grpc_call_judge(call);
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        grpc_call_client_done(call);
    else if (frame->hd.type == NGHTTP2_DATA && frame->hd.length == 0)
        grpc_session_count_empty(conn);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    struct grpc_conn *conn = user;

    (void)session;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA: on_stream_frame(conn, frame); break;
    case NGHTTP2_PING:
        if (!(frame->hd.flags & NGHTTP2_FLAG_ACK))
            count_ping(conn);
        else if (conn->notice_ms)
            grpc_conn_goaway(conn);
        break;
    case NGHTTP2_SETTINGS:
        conn->greeted = true;
        grpc_session_count_empty(conn);
        break;
    case NGHTTP2_WINDOW_UPDATE:
    case NGHTTP2_RST_STREAM: break; /* the one costs nothing, the other has a limit of its own */
    default: grpc_session_count_empty(conn); break;
    }
    return 0;
}

static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    struct grpc_conn *conn = user;

    /* When the answer to this ping is here the client knows: what it sent before is still taken. */
    if (frame->hd.type == NGHTTP2_GOAWAY && conn->notice_ms && !conn->goaway_sent)
        nghttp2_submit_ping(session, NGHTTP2_FLAG_NONE, NULL);
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    /* Pings come with traffic: clients measure the way by them. */
    conn->pings = GRPC_PING_BURST;
    conn->empty_frames = 0;
    /* The answer is out before the request is: the client need not send the rest. */
    if (frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
        nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0)
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                  NGHTTP2_NO_ERROR);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
                           void *user) {
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);

    (void)error_code, (void)user;
    if (call)
        grpc_call_free(call);
    return 0;
}

/* ---- life ---- */

enum status grpc_session_prepare(struct grpc_server *server, struct error *err) {
    if (nghttp2_session_callbacks_new(&server->callbacks) != 0 ||
        nghttp2_option_new(&server->option) != 0)
        return error_set(err, STATUS_SYSTEM, "gRPC server: no memory");
    nghttp2_session_callbacks_set_on_begin_headers_callback(server->callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(server->callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(server->callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(server->callbacks, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(server->callbacks, on_frame_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(server->callbacks, on_stream_close);
    nghttp2_option_set_no_closed_streams(server->option, 1);
    nghttp2_option_set_stream_reset_rate_limit(server->option, GRPC_RESET_BURST, GRPC_RESET_PER_S);
    /* Acknowledgements that the client does not read; nghttp2's own limits on CONTINUATION frames (8)
     * and on entries of one SETTINGS frame (32) stay. */
    nghttp2_option_set_max_outbound_ack(server->option, 100);
    return STATUS_OK;
}

void grpc_session_begin(struct grpc_conn *conn) {
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GRPC_STREAMS_MAX},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, GRPC_HEADER_BYTES},
    };
    struct grpc_server *server = conn->server;

    if (nghttp2_session_server_new2(&conn->session, server->callbacks, conn, server->option) != 0)
        abort(); /* no memory: as allocate.h */
    nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings,
                            sizeof settings / sizeof settings[0]);
}
