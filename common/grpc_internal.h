/* grpc_internal.h - what the files of the gRPC server share; nobody else includes it.
 *
 *   grpc_server.c   the server: listeners, limits that take time, drain, end
 *   grpc_conn.c     one connection: bytes in, bytes out, TLS between
 *   grpc_session.c  what nghttp2 calls: headers, messages, floods
 *   grpc_call.c     one call: its judgement, its answer, its end */
#ifndef SNOWFLEET_COMMON_GRPC_INTERNAL_H
#define SNOWFLEET_COMMON_GRPC_INTERNAL_H

#include <nghttp2/nghttp2.h>

#include "common/acceptor.h"
#include "common/grpc_filter.h"
#include "common/grpc_server.h"

#define GRPC_OUT_BYTES (64u * 1024u)   /* gathered before it is written */
#define GRPC_CHUNK_BYTES (32u * 1024u) /* more than nghttp2 hands out at once */

struct grpc_call {
    struct grpc_conn *conn;        /* NULL: not in use */
    struct grpc_call *prev, *next; /* of the connection; next alone: of the pool */
    struct grpc_call *next_sent;
    int32_t stream_id;
    const struct grpc_method *method; /* NULL: the path names none */
    uint64_t began_ms;                /* by the loop's clock */
    uint64_t finished_ms;

    /* The request. */
    char *path; /* of an unknown method, cut */
    size_t header_bytes;
    uint64_t timeout_ms;
    bool post, grpc, authentic, authorization_seen, has_timeout, bad_timeout, other_encoding;
    bool judged;      /* its headers were all here */
    bool has_message; /* its only message is whole, in reader */
    bool client_done; /* END_STREAM */
    struct grpc_reader reader;

    /* The answer. */
    bool over;      /* the handler has no part in it any more */
    bool submitted; /* its headers are with nghttp2 */
    bool finished;  /* code and message say how */
    bool deferred;  /* nghttp2 waits for more */
    bool in_sent;
    enum grpc_code code;
    char *message; /* percent-encoded; NULL: none */
    int64_t retry_ms;
    const char *http_status; /* of what is no gRPC: "415"; else NULL */
    uint8_t *out;
    size_t out_len, out_at, out_room;

    uv_timer_t deadline;
    void *user;
    void (*ended)(void *user);
    void (*sent)(void *user);
};

struct grpc_conn {
    struct grpc_server *server;
    struct grpc_conn *prev, *next;
    struct grpc_conn *next_dirty;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } io;
    uv_write_t write;
    uint8_t *unwritten; /* what write is at work on; NULL: nothing */
    uint64_t writing_since_ms;
    struct grpc_filter filter;
    nghttp2_session *session;
    struct grpc_tls_link *tls; /* NULL: none */
    struct grpc_call *calls;
    size_t partial_bytes, unread_bytes;
    uint64_t accepted_ms, heard_ms, pinged_ms;
    uint64_t age_limit_ms; /* by the loop's clock; 0: none */
    uint64_t notice_ms;    /* GOAWAY's first half was sent; 0: not */
    bool notice_for_age, goaway_sent;
    bool greeted, dirty, doomed, closing, spoke_http1;
    uint64_t pings_at_ms;
    unsigned pings, empty_frames;
};

struct grpc_server {
    uv_loop_t *loop;
    struct grpc_server_config config;
    struct grpc_tls *tls;
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    struct grpc_listen {
        struct acceptor acceptor;
        struct grpc_server *server;
        enum grpc_listener kind;
    } listeners[GRPC_LISTENERS];
    uv_timer_t sweep;
    uv_prepare_t before_poll;
    uv_check_t after_poll;
    uv_idle_t again;
    unsigned open_parts;
    struct grpc_conn *conns;
    struct grpc_conn *dirty, **dirty_end; /* a queue; *dirty_end is where the next one goes */
    struct grpc_call *sent;               /* to be told, after the flush */
    struct grpc_call *pool;
    unsigned pooled, n_conns, n_dirty, busy;
    size_t partial_bytes, unread_bytes; /* of all connections */
    bool draining, closing;
    uint64_t jitter;
    struct grpc_server_stats stats;
    void (*closed)(void *arg);
    void *closed_arg;
    uint8_t in[GRPC_OUT_BYTES], plain[GRPC_OUT_BYTES], out[GRPC_OUT_BYTES + GRPC_CHUNK_BYTES];
};

/* ---- grpc_server.c ---- */
void grpc_part_closed(struct grpc_server *server);

/* ---- grpc_conn.c ---- */
/* Takes fd; false when it cannot be used, and it is closed then. */
bool grpc_conn_open(struct grpc_server *server, enum grpc_listener kind, int fd);
/* Something is to be written, or the connection is to be looked at; not from nghttp2's send. */
void grpc_conn_mark(struct grpc_conn *conn);
/* Writes what is due on all marked connections, and tells handlers what was sent. */
void grpc_flush(struct grpc_server *server);
void grpc_conn_close(struct grpc_conn *conn);
/* The first half of GOAWAY; the second follows when the client has answered. */
void grpc_conn_notice(struct grpc_conn *conn, bool for_age);
void grpc_conn_goaway(struct grpc_conn *conn);
/* Ends a connection that misbehaves, with GOAWAY. */
void grpc_conn_doom(struct grpc_conn *conn, uint32_t code, const char *why);

/* ---- grpc_session.c ---- */
enum status grpc_session_prepare(struct grpc_server *server, struct error *err);
void grpc_session_begin(struct grpc_conn *conn);

/* A frame that brings no call further. */
void grpc_session_count_empty(struct grpc_conn *conn);

/* ---- grpc_call.c ---- */
struct grpc_call *grpc_call_new(struct grpc_conn *conn, int32_t stream_id);
/* From the end of its stream or of its connection. */
void grpc_call_free(struct grpc_call *call);
/* Its headers are all here. */
void grpc_call_judge(struct grpc_call *call);
void grpc_call_data(struct grpc_call *call, const uint8_t *bytes, size_t len);
/* The client has sent all. */
void grpc_call_client_done(struct grpc_call *call);
/* Ends it over the handler's head. */
void grpc_call_stop(struct grpc_call *call, enum grpc_code code, const char *message,
                    int64_t retry_ms);
void grpc_call_pool_close(struct grpc_server *server);

#endif
