#include "common/http_server.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/acceptor.h"
#include "common/allocate.h"
#include "common/http_guard.h"
#include "common/http_peers.h"

#define PUMP_TURNS 16  /* before the loop's other handles have their turn */
#define SILENT_TURNS 4 /* without any sign of progress, before a pause of ... */
#define SILENT_MS 5
#define SWALLOW_BYTES (1024u * 1024u) /* of a body over the limit, so as to answer it */

struct http_exchange {
    struct http_server *server;
    struct http_peer *peer;
    struct MHD_Connection *connection; /* set at the handler's first call */
    const char *method;
    const char *bad_target; /* why the request target was refused; NULL: it was not */
    char *target_text;
    struct http_target target;
    char *body;
    size_t body_len, body_room, dropped_bytes;
    bool handled, suspended;
    struct MHD_Response *response; /* until it is queued */
    unsigned status;
    void *user;
};

struct http_server {
    uv_loop_t *loop;
    struct http_server_config config;
    struct MHD_Daemon *daemon;
    struct acceptor acceptor;
    uv_poll_t daemon_poll;
    uv_timer_t pump_timer;
    uv_idle_t pump_again;
    unsigned open_parts;
    struct http_peers peers;
    unsigned busy;
    bool progress; /* libmicrohttpd has called one of our functions */
    bool draining, closing;
    struct http_server_stats stats;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- running libmicrohttpd ---- */

static void on_pump_timer(uv_timer_t *timer);
static void on_pump_again(uv_idle_t *idle);

/* In the loop's next turn.  Not by a timer of 0 ms: one that is started again from its own callback
 * runs again in the same turn, and nothing else ever would. */
static void pump_soon(struct http_server *server) {
    uv_idle_start(&server->pump_again, on_pump_again);
}

/* After every readable event, timer, resume or new connection, and never from inside a handler.
 * A time-out of 0 means that there is more to do, of which no descriptor will tell.
 * But libmicrohttpd 0.9.75 also says 0 for ever while a client fills its buffer with a chunk's
 * size or extension that does not end: what goes round without effect is asked less often (events
 * of other connections wake us all the same), until http_peers.c cuts it off. */
static void pump(struct http_server *server) {
    MHD_UNSIGNED_LONG_LONG ms = 0;
    int silent = 0;

    uv_timer_stop(&server->pump_timer);
    for (int turn = 0; turn < PUMP_TURNS && silent < SILENT_TURNS; turn++) {
        server->progress = false;
        MHD_run(server->daemon);
        if (MHD_get_timeout(server->daemon, &ms) != MHD_YES)
            return;
        if (ms > 0)
            break;
        silent = server->progress ? 0 : silent + 1;
    }
    if (ms == 0 && silent < SILENT_TURNS)
        pump_soon(server);
    else
        uv_timer_start(&server->pump_timer, on_pump_timer, ms ? ms : SILENT_MS, 0);
}

static void on_pump_timer(uv_timer_t *timer) {
    pump(timer->data);
}

static void on_pump_again(uv_idle_t *idle) {
    uv_idle_stop(idle);
    pump(idle->data);
}

static void on_daemon_readable(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    pump(poll->data);
}

/* ---- answers ---- */

/* reason: of our own making, without quotes. */
static void answer_error(struct http_exchange *exchange, unsigned status, const char *code,
                         const char *reason) {
    char body[256];
    int len = snprintf(body, sizeof body, "{\"error\":{\"code\":\"%s\",\"message\":\"%s\"}}", code,
                       reason);
    const struct http_response response = {
        .status = status,
        .content_type = "application/json",
        .body = body,
        .body_len = (size_t)len,
    };

    assert(len > 0 && (size_t)len < sizeof body);
    http_reply(exchange, &response);
}

static void answer_too_large(struct http_exchange *exchange) {
    char message[80];

    snprintf(message, sizeof message, "the body is larger than %zu bytes",
             exchange->server->config.max_body_bytes);
    answer_error(exchange, MHD_HTTP_CONTENT_TOO_LARGE, "INVALID_ARGUMENT", message);
}

void http_reply(struct http_exchange *exchange, const struct http_response *response) {
    struct http_server *server = exchange->server;
    struct MHD_Response *made;

    assert(!exchange->response);
    if (response->release)
        made = MHD_create_response_from_buffer_with_free_callback(
            response->body_len, response->body, response->release);
    else
        made = MHD_create_response_from_buffer(response->body_len, response->body,
                                               MHD_RESPMEM_MUST_COPY);
    if (!made)
        abort(); /* no memory: as allocate.h */
    MHD_add_response_header(made, MHD_HTTP_HEADER_CONTENT_TYPE, response->content_type);
    for (const char *const *header = response->headers; header && *header; header += 2)
        MHD_add_response_header(made, header[0], header[1]);
    if (server->draining)
        MHD_add_response_header(made, MHD_HTTP_HEADER_CONNECTION, "close");
    exchange->response = made;
    exchange->status = response->status;
    if (exchange->suspended) {
        exchange->suspended = false;
        MHD_resume_connection(exchange->connection);
        pump_soon(server);
    }
}

static enum MHD_Result send_answer(struct http_exchange *exchange) {
    enum MHD_Result result = MHD_queue_response(exchange->connection, exchange->status,
                                                exchange->response);

    MHD_destroy_response(exchange->response);
    exchange->response = NULL;
    http_peer_move(&exchange->server->peers, exchange->peer, HTTP_ANSWERING);
    return result;
}

/* ---- requests ---- */

static struct http_peer *peer_of(struct MHD_Connection *connection) {
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* The request line is here.  What it returns is *exchange_slot of all later calls; on_completed()
 * frees it, whatever becomes of the request. */
static void *on_request_line(void *arg, const char *target, struct MHD_Connection *connection) {
    struct http_server *server = arg;
    struct http_exchange *exchange = malloc(sizeof *exchange);
    struct http_peer *peer = peer_of(connection);

    if (!exchange)
        abort(); /* no memory: as allocate.h */
    server->progress = true;
    /* Not zeroed as a whole: the arguments have room for more than most requests bring. */
    exchange->server = server;
    exchange->peer = peer;
    exchange->connection = NULL;
    exchange->target_text = allocate_copy(target, strlen(target));
    exchange->bad_target = http_target_parse(exchange->target_text, &exchange->target);
    exchange->body = NULL;
    exchange->body_len = exchange->body_room = exchange->dropped_bytes = 0;
    exchange->handled = exchange->suspended = false;
    exchange->response = NULL;
    exchange->user = NULL;
    http_peer_move(&server->peers, peer, HTTP_RECEIVING);
    peer->exchange = exchange;
    return exchange;
}

static enum MHD_Result feed_guard(void *arg, enum MHD_ValueKind kind, const char *name,
                                  size_t name_len, const char *value, size_t value_len) {
    (void)kind;
    http_guard_header(arg, name, name_len, value ? value : "", value ? value_len : 0);
    return MHD_YES;
}

/* The headers are here.  An answer given now closes the connection: right for what is refused. */
static enum MHD_Result begin(struct http_exchange *exchange, const char *version) {
    struct http_guard guard = {0};
    const char *reason = exchange->bad_target;

    if (!reason) {
        MHD_get_connection_values_n(exchange->connection, MHD_HEADER_KIND, feed_guard, &guard);
        reason = http_guard_verdict(&guard, version);
    }
    if (reason) {
        exchange->server->stats.guard_refusals_total++;
        answer_error(exchange, MHD_HTTP_BAD_REQUEST, "INVALID_ARGUMENT", reason);
        return send_answer(exchange);
    }
    if (guard.body_bytes > exchange->server->config.max_body_bytes) {
        answer_too_large(exchange);
        return send_answer(exchange);
    }
    return MHD_YES;
}

/* No answer can be given before the body has ended: what is over the limit is dropped for a while,
 * then the connection is. */
static enum MHD_Result take_body(struct http_exchange *exchange, const char *bytes, size_t len) {
    exchange->peer->body_bytes += len;
    if (len > exchange->server->config.max_body_bytes - exchange->body_len ||
        exchange->dropped_bytes) {
        exchange->dropped_bytes += len;
        return exchange->dropped_bytes <= SWALLOW_BYTES ? MHD_YES : MHD_NO;
    }
    if (exchange->body_len + len > exchange->body_room) {
        exchange->body_room = (exchange->body_len + len) * 2;
        exchange->body = reallocate(exchange->body, exchange->body_room);
    }
    memcpy(exchange->body + exchange->body_len, bytes, len);
    exchange->body_len += len;
    return MHD_YES;
}

static void hand_over(struct http_exchange *exchange) {
    struct http_server *server = exchange->server;

    exchange->handled = true;
    http_peer_move(&server->peers, exchange->peer, HTTP_HANDLED);
    server->busy++;
    server->stats.requests_total++;
    if (exchange->dropped_bytes)
        answer_too_large(exchange);
    else
        server->config.handle(server->config.arg, exchange);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_len, void **exchange_slot) {
    struct http_server *server = arg;
    struct http_exchange *exchange = *exchange_slot;
    enum MHD_Result result;

    (void)url; /* decoded leniently; target has ours */
    server->progress = true;
    if (server->closing)
        return MHD_NO;
    if (!exchange->connection) {
        exchange->connection = connection;
        exchange->method = method;
        return begin(exchange, version);
    }
    if (*upload_len > 0) {
        result = take_body(exchange, upload, *upload_len);
        *upload_len = 0;
        return result;
    }
    if (!exchange->handled) {
        hand_over(exchange);
        if (!exchange->response) {
            exchange->suspended = true;
            MHD_suspend_connection(connection);
            return MHD_YES;
        }
    }
    return send_answer(exchange);
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **exchange_slot,
                         enum MHD_RequestTerminationCode code) {
    struct http_exchange *exchange = *exchange_slot;
    struct http_server *server = arg;
    struct http_peer *peer = exchange->peer;

    (void)connection;
    (void)code;
    server->progress = true;
    if (exchange->handled)
        server->busy--;
    if (exchange->response)
        MHD_destroy_response(exchange->response);
    free(exchange->target_text);
    free(exchange->body);
    free(exchange);
    *exchange_slot = NULL;
    peer->exchange = NULL;
    http_peer_move(&server->peers, peer, HTTP_IDLE);
}

/* ---- connections ---- */

static void on_connection(void *arg, struct MHD_Connection *connection, void **peer_slot,
                          enum MHD_ConnectionNotificationCode code) {
    struct http_server *server = arg;

    server->progress = true;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *peer_slot = http_peer_new(
            &server->peers,
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
            connection);
        server->stats.connections_total++;
    } else {
        http_peer_free(&server->peers, *peer_slot);
        *peer_slot = NULL;
    }
}

/* Has libmicrohttpd close a connection whose time is over.  It does not look at the socket while its
 * buffer is full, so its own time-out, which is for silence, has to follow. */
static void cut_connection(void *connection, int fd) {
    shutdown(fd, SHUT_RDWR);
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 1u);
}

/* At its own limit libmicrohttpd would leave clients hanging, the liveness probe among them. */
static const char refusal[] =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
    "Content-Length: 87\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
    "{\"error\":{\"code\":\"UNAVAILABLE\",\"message\":\"too many connections\",\"retry_after_ms\":1000}}";

static bool take_connection(void *arg, int fd, const struct sockaddr *from, socklen_t from_len) {
    struct http_server *server = arg;

    if (server->peers.count >= server->config.max_connections)
        return false;
    /* On failure it closes fd. */
    MHD_add_connection(server->daemon, fd, from, from_len);
    return true;
}

static void on_connections_taken(void *arg) {
    pump(arg);
}

/* ---- life ---- */

static void on_part_closed(void *arg) {
    struct http_server *server = arg;

    if (--server->open_parts > 0)
        return;
    if (server->closed)
        server->closed(server->closed_arg);
    free(server);
}

static void on_handle_closed(uv_handle_t *handle) {
    on_part_closed(handle->data);
}

/* handle: a uv_..._t, which begins with the fields of a uv_handle_t. */
static void open_handle(struct http_server *server, void *handle) {
    ((uv_handle_t *)handle)->data = server;
    server->open_parts++;
}

static void close_handle(void *handle) {
    if (((uv_handle_t *)handle)->data) /* else it was never opened */
        uv_close(handle, on_handle_closed);
}

static enum status start(struct http_server *server, int listen_fd, struct error *err) {
    const struct http_server_config *config = &server->config;
    const struct acceptor_config accepting = {
        .listen_fd = listen_fd,
        .take = take_connection,
        .taken = on_connections_taken,
        .arg = server,
        .refusal = refusal,
    };
    const union MHD_DaemonInfo *info;

    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL,
        on_request, server, MHD_OPTION_URI_LOG_CALLBACK, on_request_line, server,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, server,
        /* Ours is the limit that counts; those about to be closed are above it for a moment. */
        MHD_OPTION_CONNECTION_LIMIT, config->max_connections + 16,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, config->max_header_bytes, MHD_OPTION_CONNECTION_TIMEOUT,
        0u, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    if (!server->daemon)
        return error_set(err, STATUS_SYSTEM, "HTTP server: %s", strerror(errno));
    info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info || uv_poll_init(server->loop, &server->daemon_poll, info->epoll_fd) != 0)
        return error_set(err, STATUS_SYSTEM, "HTTP server: its epoll descriptor has no place");
    open_handle(server, &server->daemon_poll);
    uv_poll_start(&server->daemon_poll, UV_READABLE, on_daemon_readable);
    if (acceptor_init(&server->acceptor, server->loop, &accepting, err) != STATUS_OK)
        return error_context(err, "HTTP server");
    server->open_parts++;
    return STATUS_OK;
}

enum status http_server_new(uv_loop_t *loop, int listen_fd, const struct http_server_config *config,
                            struct http_server **server, struct error *err) {
    struct http_server *made = allocate(1, sizeof *made);

    made->loop = loop;
    made->config = *config;
    http_peers_init(&made->peers, loop, config->request_timeout_ms, config->idle_timeout_ms,
                    cut_connection);
    made->open_parts++;
    uv_timer_init(loop, &made->pump_timer);
    open_handle(made, &made->pump_timer);
    uv_idle_init(loop, &made->pump_again);
    open_handle(made, &made->pump_again);
    if (start(made, listen_fd, err) != STATUS_OK) {
        http_server_close(made, NULL, NULL);
        return err->status;
    }
    *server = made;
    return STATUS_OK;
}

void http_server_drain(struct http_server *server) {
    if (server->draining)
        return;
    server->draining = true;
    http_peers_drain(&server->peers);
}

static void resume_parked(struct http_server *server) {
    for (struct http_peer *peer = server->peers.first; peer; peer = peer->next) {
        if (peer->exchange && peer->exchange->suspended) {
            peer->exchange->suspended = false;
            MHD_resume_connection(peer->exchange->connection);
        }
    }
}

void http_server_close(struct http_server *server, void (*closed)(void *arg), void *arg) {
    server->closing = true;
    server->closed = closed;
    server->closed_arg = arg;
    if (server->daemon) {
        /* libmicrohttpd aborts when it is stopped with a suspended connection. */
        acceptor_stop(&server->acceptor);
        resume_parked(server);
        pump(server);
        if (server->daemon_poll.data)
            uv_poll_stop(&server->daemon_poll);
        MHD_stop_daemon(server->daemon); /* closes that descriptor */
    }
    close_handle(&server->daemon_poll);
    if (server->acceptor.opened)
        acceptor_close(&server->acceptor, on_part_closed);
    close_handle(&server->pump_timer);
    close_handle(&server->pump_again);
    server->peers.timer.data = server; /* it has nothing to sweep any more */
    close_handle(&server->peers.timer);
}

unsigned http_server_busy(const struct http_server *server) {
    return server->busy;
}

void http_server_stats(const struct http_server *server, struct http_server_stats *stats) {
    *stats = server->stats;
    stats->refused_connections_total = server->acceptor.refused_total;
    stats->accept_failures_total = server->acceptor.failures_total;
    stats->connections = server->peers.count;
    stats->timeouts_total = server->peers.timeouts_total;
}

/* ---- what a handler may ask ---- */

const char *http_method(const struct http_exchange *exchange) {
    return exchange->method;
}

const char *http_path(const struct http_exchange *exchange) {
    return exchange->target.path;
}

bool http_query(const struct http_exchange *exchange, const char *name, struct http_text *value) {
    for (size_t i = 0; i < exchange->target.n_args; i++) {
        if (strcmp(exchange->target.args[i].name, name) == 0) {
            *value = exchange->target.args[i].value;
            return true;
        }
    }
    return false;
}

void http_query_visit(const struct http_exchange *exchange,
                      void (*visit)(void *arg, const char *name, struct http_text value),
                      void *arg) {
    for (size_t i = 0; i < exchange->target.n_args; i++)
        visit(arg, exchange->target.args[i].name, exchange->target.args[i].value);
}

const char *http_header(const struct http_exchange *exchange, const char *name) {
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

const char *http_body(const struct http_exchange *exchange, size_t *len) {
    *len = exchange->body_len;
    return exchange->body ? exchange->body : "";
}

bool http_client_gone(const struct http_exchange *exchange) {
    struct pollfd poll_fd = {.fd = exchange->peer->fd, .events = POLLRDHUP};

    return poll(&poll_fd, 1, 0) > 0;
}

void http_exchange_set(struct http_exchange *exchange, void *user) {
    exchange->user = user;
}

void *http_exchange_get(const struct http_exchange *exchange) {
    return exchange->user;
}
