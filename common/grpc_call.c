#include "common/grpc_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"

#define POOL_MAX 1024u

#define NV(n, v, flags)                                                                            \
    ((nghttp2_nv){(uint8_t *)(uintptr_t)(n), (uint8_t *)(uintptr_t)(v), strlen(n), strlen(v),      \
                  NGHTTP2_NV_FLAG_NO_COPY_NAME | (flags)})
#define NV_FIXED(n, v) NV(n, v, NGHTTP2_NV_FLAG_NO_COPY_VALUE)

/* ---- life ---- */

static void on_pooled_closed(uv_handle_t *handle) {
    struct grpc_call *call = handle->data;

    grpc_part_closed(call->user);
    free(call);
}

/* A call's timer is made once and stays with it, so only here a call costs a turn of the loop. */
static void discard(struct grpc_server *server, struct grpc_call *call) {
    call->user = server;
    uv_close((uv_handle_t *)&call->deadline, on_pooled_closed);
}

struct grpc_call *grpc_call_new(struct grpc_conn *conn, int32_t stream_id) {
    struct grpc_server *server = conn->server;
    struct grpc_call *call = server->pool;

    if (call) {
        server->pool = call->next;
        server->pooled--;
        memset(call, 0, offsetof(struct grpc_call, deadline));
        call->user = NULL;
        call->ended = call->sent = NULL;
    } else {
        call = allocate(1, sizeof *call);
        uv_timer_init(server->loop, &call->deadline);
        call->deadline.data = call;
        server->open_parts++;
    }
    call->conn = conn;
    call->stream_id = stream_id;
    call->began_ms = uv_now(server->loop);
    call->retry_ms = GRPC_NO_RETRY;
    grpc_reader_init(&call->reader, GRPC_MESSAGE_BYTES);
    call->next = conn->calls;
    if (call->next)
        call->next->prev = call;
    conn->calls = call;
    return call;
}

/* Bytes of messages that are not whole yet, and of answers that are not read yet: more, or fewer. */
static void more_partial(struct grpc_conn *conn, size_t bytes) {
    conn->partial_bytes += bytes;
    conn->server->partial_bytes += bytes;
}

static void less_partial(struct grpc_conn *conn, size_t bytes) {
    conn->partial_bytes -= bytes;
    conn->server->partial_bytes -= bytes;
}

static void more_unread(struct grpc_conn *conn, size_t bytes) {
    conn->unread_bytes += bytes;
    conn->server->unread_bytes += bytes;
}

static void less_unread(struct grpc_conn *conn, size_t bytes) {
    conn->unread_bytes -= bytes;
    conn->server->unread_bytes -= bytes;
}

static void free_reader(struct grpc_call *call) {
    less_partial(call->conn, grpc_reader_bytes(&call->reader));
    grpc_reader_free(&call->reader);
}

/* The handler has no part in it any more. */
static void let_go(struct grpc_call *call) {
    if (call->over)
        return;
    call->over = true;
    if (call->ended)
        call->ended(call->user);
}

static bool counts_as_busy(const struct grpc_call *call) {
    return call->judged && call->method && !call->method->background;
}

static void take_off_sent(struct grpc_server *server, const struct grpc_call *call) {
    struct grpc_call **at = &server->sent;

    while (*at != call)
        at = &(*at)->next_sent;
    *at = call->next_sent;
}

void grpc_call_free(struct grpc_call *call) {
    struct grpc_conn *conn = call->conn;
    struct grpc_server *server = conn->server;

    if (!call->finished && call->judged)
        server->stats.calls_total[GRPC_CANCELLED]++;
    let_go(call);
    uv_timer_stop(&call->deadline);
    if (counts_as_busy(call))
        server->busy--;
    if (call->in_sent)
        take_off_sent(server, call);
    free_reader(call);
    less_unread(conn, call->out_len - call->out_at);
    free(call->out);
    free(call->path);
    free(call->message);
    if (call->prev)
        call->prev->next = call->next;
    else
        conn->calls = call->next;
    if (call->next)
        call->next->prev = call->prev;
    if (server->pooled < POOL_MAX && !server->closing) {
        call->next = server->pool;
        server->pool = call;
        server->pooled++;
    } else {
        discard(server, call);
    }
}

void grpc_call_pool_close(struct grpc_server *server) {
    while (server->pool) {
        struct grpc_call *call = server->pool;

        server->pool = call->next;
        discard(server, call);
    }
}

/* ---- answers ---- */

static void submit_trailers(struct grpc_call *call) {
    char code[4], retry[24];
    nghttp2_nv headers[3];
    size_t n = 0;

    snprintf(code, sizeof code, "%d", call->code);
    headers[n++] = NV("grpc-status", code, NGHTTP2_NV_FLAG_NONE);
    if (call->message)
        headers[n++] = NV("grpc-message", call->message, NGHTTP2_NV_FLAG_NONE);
    if (call->retry_ms >= 0) {
        snprintf(retry, sizeof retry, "%" PRId64, call->retry_ms);
        headers[n++] = NV("grpc-retry-pushback-ms", retry, NGHTTP2_NV_FLAG_NONE);
    }
    nghttp2_submit_trailer(call->conn->session, call->stream_id, headers, n);
}

/* All messages so far are with nghttp2. */
static void note_sent(struct grpc_call *call) {
    struct grpc_server *server = call->conn->server;

    free(call->out);
    call->out = NULL;
    call->out_len = call->out_at = call->out_room = 0;
    if (call->over || !call->sent || call->in_sent)
        return;
    call->in_sent = true;
    call->next_sent = server->sent;
    server->sent = call;
}

static ssize_t on_pull(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t room,
                       uint32_t *flags, nghttp2_data_source *source, void *user) {
    struct grpc_call *call = source->ptr;
    size_t n = call->out_len - call->out_at < room ? call->out_len - call->out_at : room;

    (void)session, (void)stream_id, (void)user;
    if (n > 0)
        memcpy(out, call->out + call->out_at, n);
    call->out_at += n;
    less_unread(call->conn, n);
    if (call->out_at < call->out_len)
        return (ssize_t)n;
    if (call->out_len > 0)
        note_sent(call);
    if (call->finished) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        submit_trailers(call);
        return (ssize_t)n;
    }
    if (n > 0)
        return (ssize_t)n;
    call->deferred = true;
    return NGHTTP2_ERR_DEFERRED;
}

static void submit_with_data(struct grpc_call *call) {
    const nghttp2_nv headers[] = {NV_FIXED(":status", "200"),
                                  NV_FIXED("content-type", "application/grpc")};
    const nghttp2_data_provider provider = {.source.ptr = call, .read_callback = on_pull};

    call->submitted = true;
    nghttp2_submit_response(call->conn->session, call->stream_id, headers,
                            sizeof headers / sizeof headers[0], &provider);
}

/* No message was sent: one frame says it all. */
static void submit_status_only(struct grpc_call *call) {
    char code[4], retry[24];
    nghttp2_nv headers[6];
    size_t n = 0;

    snprintf(code, sizeof code, "%d", call->code);
    headers[n++] = NV(":status", call->http_status ? call->http_status : "200",
                      NGHTTP2_NV_FLAG_NO_COPY_VALUE);
    headers[n++] = NV_FIXED("content-type", "application/grpc");
    headers[n++] = NV("grpc-status", code, NGHTTP2_NV_FLAG_NONE);
    if (call->message)
        headers[n++] = NV("grpc-message", call->message, NGHTTP2_NV_FLAG_NONE);
    if (call->retry_ms >= 0) {
        snprintf(retry, sizeof retry, "%" PRId64, call->retry_ms);
        headers[n++] = NV("grpc-retry-pushback-ms", retry, NGHTTP2_NV_FLAG_NONE);
    }
    if (call->other_encoding)
        headers[n++] = NV_FIXED("grpc-accept-encoding", "identity");
    call->submitted = true;
    nghttp2_submit_response(call->conn->session, call->stream_id, headers, n, NULL);
}

static void go_on(struct grpc_call *call) {
    if (call->deferred) {
        call->deferred = false;
        nghttp2_session_resume_data(call->conn->session, call->stream_id);
    }
    grpc_conn_mark(call->conn);
}

static void finish(struct grpc_call *call, enum grpc_code code, const char *message,
                   int64_t retry_ms) {
    char encoded[GRPC_MESSAGE_MAX + 1];

    assert(!call->finished);
    uv_timer_stop(&call->deadline);
    call->over = call->finished = true;
    call->finished_ms = uv_now(call->conn->server->loop);
    call->code = code;
    call->retry_ms = retry_ms;
    if (message && code != GRPC_OK) {
        size_t len = grpc_percent_encode(message, encoded);

        call->message = allocate_copy(encoded, len);
    }
    call->conn->server->stats.calls_total[code]++;
    if (!call->submitted)
        submit_status_only(call);
    go_on(call);
}

/* ---- limits of what is held ---- */

static const char unread_here[] = "answers on this connection are not read yet";
static const char unread_in_all[] = "answers are not read yet, some of them on this connection";
static const char partial_here[] = "messages on this connection are not whole yet";
static const char partial_in_all[] = "messages are not whole yet, some of them on this connection";

/* Where the server as a whole holds too much, connections that have read everything go on. */
static bool may_hold_more(const struct grpc_conn *conn) {
    return conn->unread_bytes == 0 || conn->server->unread_bytes <= GRPC_UNREAD_ALL_BYTES;
}

static void exhaust(struct grpc_call *call, unsigned limit, const char *of_what) {
    char message[120];

    snprintf(message, sizeof message, "more than %u bytes of %s", limit, of_what);
    finish(call, GRPC_RESOURCE_EXHAUSTED, message, GRPC_NO_RETRY);
}

static void stop_exhausted(struct grpc_call *call, unsigned limit, const char *of_what) {
    let_go(call);
    exhaust(call, limit, of_what);
}

/* ---- what handlers say ---- */

void grpc_call_set(struct grpc_call *call, void *user, void (*ended)(void *user),
                   void (*sent)(void *user)) {
    call->user = user;
    call->ended = ended;
    call->sent = sent;
}

void *grpc_call_get(const struct grpc_call *call) {
    return call->user;
}

bool grpc_send(struct grpc_call *call, uint8_t *framed, size_t len) {
    assert(!call->over && len >= GRPC_PREFIX_BYTES);
    if (!may_hold_more(call->conn)) {
        free(framed);
        exhaust(call, GRPC_UNREAD_ALL_BYTES, unread_in_all);
        return false;
    }
    grpc_prefix_write(framed, len - GRPC_PREFIX_BYTES);
    more_unread(call->conn, len);
    if (!call->out) {
        call->out = framed;
        call->out_at = 0;
        call->out_len = call->out_room = len;
    } else {
        if (call->out_len + len > call->out_room) {
            call->out_room = (call->out_len + len) * 2;
            call->out = reallocate(call->out, call->out_room);
        }
        memcpy(call->out + call->out_len, framed, len);
        call->out_len += len;
        free(framed);
    }
    if (!call->submitted)
        submit_with_data(call);
    go_on(call);
    return true;
}

void grpc_finish(struct grpc_call *call, enum grpc_code code, const char *message,
                 int64_t retry_ms) {
    assert(!call->over);
    finish(call, code, message, retry_ms);
}

void grpc_answer(struct grpc_call *call, uint8_t *framed, size_t len) {
    if (grpc_send(call, framed, len))
        grpc_finish(call, GRPC_OK, NULL, GRPC_NO_RETRY);
}

void grpc_call_stop(struct grpc_call *call, enum grpc_code code, const char *message,
                    int64_t retry_ms) {
    if (call->finished)
        return;
    let_go(call);
    finish(call, code, message, retry_ms);
}

/* ---- requests ---- */

static void on_deadline(uv_timer_t *timer) {
    grpc_call_stop(timer->data, GRPC_DEADLINE_EXCEEDED, "the deadline has passed", GRPC_NO_RETRY);
}

/* What is no gRPC, as the protocol's mapping to HTTP has it. */
static void refuse_http(struct grpc_call *call, const char *http_status, const char *message) {
    call->http_status = http_status;
    grpc_call_stop(call, GRPC_INTERNAL, message, GRPC_NO_RETRY);
}

static void refuse_unknown(struct grpc_call *call) {
    char message[200];

    snprintf(message, sizeof message, "there is no method %s", call->path ? call->path : "");
    grpc_call_stop(call, GRPC_UNIMPLEMENTED, message, GRPC_NO_RETRY);
}

static void check_access(struct grpc_call *call) {
    if (!call->conn->server->config.authenticate || call->authentic)
        return;
    grpc_call_stop(call, GRPC_UNAUTHENTICATED,
                   call->authorization_seen
                       ? "this is not a bearer token that is known here"
                       : "a bearer token is needed: authorization: Bearer TOKEN",
                   GRPC_NO_RETRY);
}

void grpc_call_judge(struct grpc_call *call) {
    call->judged = true;
    if (counts_as_busy(call))
        call->conn->server->busy++;
    if (call->header_bytes > GRPC_HEADER_BYTES) {
        call->http_status = "431";
        grpc_call_stop(call, GRPC_RESOURCE_EXHAUSTED, "the headers are larger than 16384 bytes",
                       GRPC_NO_RETRY);
    } else if (!call->grpc) {
        refuse_http(call, "415", "this is no gRPC: content-type must be application/grpc");
    } else if (!call->post) {
        refuse_http(call, "405", "this is no gRPC: the method must be POST");
    }
    /* Without a token nobody is told what there is. */
    if (!call->finished && !(call->method && call->method->open))
        check_access(call);
    if (call->finished)
        return;
    if (!call->method) {
        refuse_unknown(call);
    } else if (call->bad_timeout) {
        grpc_call_stop(call, GRPC_INVALID_ARGUMENT,
                       "grpc-timeout must be 1 to 8 digits and one of H M S m u n", GRPC_NO_RETRY);
    } else if (call->conn->unread_bytes > GRPC_UNREAD_BYTES) {
        stop_exhausted(call, GRPC_UNREAD_BYTES, unread_here);
    } else if (!may_hold_more(call->conn)) {
        stop_exhausted(call, GRPC_UNREAD_ALL_BYTES, unread_in_all);
    } else if (call->has_timeout) {
        uv_timer_start(&call->deadline, on_deadline, call->timeout_ms, 0);
    }
}

static void refuse_message(struct grpc_call *call, enum grpc_read why) {
    char message[120];

    if (why == GRPC_READ_TOO_LARGE) {
        snprintf(message, sizeof message, "a message of %zu bytes is longer than %u",
                 call->reader.len, GRPC_MESSAGE_BYTES);
        grpc_call_stop(call, GRPC_RESOURCE_EXHAUSTED, message, GRPC_NO_RETRY);
    } else if (why == GRPC_READ_COMPRESSED && call->other_encoding) {
        grpc_call_stop(call, GRPC_UNIMPLEMENTED,
                       "the message is compressed; only identity is understood", GRPC_NO_RETRY);
    } else {
        grpc_call_stop(call, GRPC_INTERNAL,
                       why == GRPC_READ_COMPRESSED
                           ? "the message's flag says compressed, and grpc-encoding does not"
                           : "the message's flag is neither 0 nor 1",
                       GRPC_NO_RETRY);
    }
}

static const struct grpc_server_config *config_of(const struct grpc_call *call) {
    return &call->conn->server->config;
}

/* A message is whole.  false when nothing more is to be read. */
static bool take_message(struct grpc_call *call) {
    if (!call->method->client_streams) {
        call->has_message = true;
        return true;
    }
    if (call->conn->unread_bytes > GRPC_UNREAD_BYTES) {
        stop_exhausted(call, GRPC_UNREAD_BYTES, unread_here);
        return false;
    }
    call->method->message(config_of(call)->arg, call, call->reader.message, call->reader.len);
    less_partial(call->conn, grpc_reader_bytes(&call->reader));
    grpc_reader_next(&call->reader);
    return !call->over;
}

void grpc_call_data(struct grpc_call *call, const uint8_t *bytes, size_t len) {
    while (len > 0 && !call->over) {
        size_t before = grpc_reader_bytes(&call->reader);
        enum grpc_read result;

        if (call->has_message) {
            grpc_call_stop(call, GRPC_UNIMPLEMENTED, "the method takes one message, and got more",
                           GRPC_NO_RETRY);
            return;
        }
        result = grpc_reader_take(&call->reader, &bytes, &len);
        more_partial(call->conn, grpc_reader_bytes(&call->reader) - before);
        if (result > GRPC_READ_MESSAGE) {
            refuse_message(call, result);
            return;
        }
        if (call->conn->partial_bytes > GRPC_PARTIAL_BYTES) {
            stop_exhausted(call, GRPC_PARTIAL_BYTES, partial_here);
        } else if (call->conn->partial_bytes > GRPC_MESSAGE_BYTES &&
                   call->conn->server->partial_bytes > GRPC_PARTIAL_ALL_BYTES) {
            stop_exhausted(call, GRPC_PARTIAL_ALL_BYTES, partial_in_all);
        }
        if (!call->over && result == GRPC_READ_MESSAGE && !take_message(call))
            return;
    }
}

void grpc_call_client_done(struct grpc_call *call) {
    call->client_done = true;
    if (call->over)
        return;
    if (grpc_reader_inside(&call->reader) && !call->has_message) {
        grpc_call_stop(call, GRPC_INTERNAL, "the request ended inside a message", GRPC_NO_RETRY);
    } else if (call->method->client_streams) {
        call->method->half_closed(config_of(call)->arg, call);
    } else if (!call->has_message) {
        grpc_call_stop(call, GRPC_UNIMPLEMENTED, "the method takes one message, and got none",
                       GRPC_NO_RETRY);
    } else {
        call->method->message(config_of(call)->arg, call, call->reader.message, call->reader.len);
        free_reader(call);
    }
}
