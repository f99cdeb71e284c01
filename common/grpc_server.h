/* grpc_server.h - gRPC on one event loop: a thin layer over nghttp2.
 *
 * It does HTTP/2's connections and streams, gRPC's framing, deadlines, cancellation and status, and
 * the limits that a slow, greedy or hostile client cannot stretch; what a method means is its
 * handler's.  Everything runs on the loop's thread; nothing here is thread-safe.  Several servers
 * (one a loop) may serve one listening socket. */
#ifndef SNOWFLEET_COMMON_GRPC_SERVER_H
#define SNOWFLEET_COMMON_GRPC_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/grpc_message.h"
#include "common/grpc_tls.h"
#include "common/status.h"

#define GRPC_MESSAGE_BYTES (16u * 1024u) /* the longest message that is taken */
#define GRPC_HEADER_BYTES                                                                          \
    (16u * 1024u)             /* all headers of a call, each with 32 more, as HTTP/2 counts */
#define GRPC_STREAMS_MAX 100u /* calls at once on one connection */
/* Of messages not whole yet: on one connection; and on all together, above which a connection may have
 * no more than one message of them. */
#define GRPC_PARTIAL_BYTES (256u * 1024u)
#define GRPC_PARTIAL_ALL_BYTES (16u * 1024u * 1024u)
/* Of answers that clients have not read: on one connection, before its next call is refused (calls under
 * way are answered); and on all together, above which only connections that have read everything get
 * another answer. */
#define GRPC_UNREAD_BYTES (1024u * 1024u)
#define GRPC_UNREAD_ALL_BYTES (64u * 1024u * 1024u)
/* A client that pings keeps its connection as long as it sends no more than this many PINGs at once
 * and one for each interval after that; an answer of ours sets the count back. */
#define GRPC_PING_BURST 20u
#define GRPC_PING_INTERVAL_MS 1000u
/* Headers of one call, above which its connection is ended: a few bytes can stand for thousands. */
#define GRPC_HEADER_FLOOD_BYTES (4u * GRPC_HEADER_BYTES)
/* Cancelled calls: as many at once, and so many a second after that; then GOAWAY. */
#define GRPC_RESET_BURST 1000u
#define GRPC_RESET_PER_S 200u
/* Frames in a row that bring no call any further: SETTINGS, PRIORITY, empty DATA and their like. */
#define GRPC_EMPTY_FRAMES 1000u
/* A connection that is silent for so long is pinged, and closed when the answer does not come. */
#define GRPC_SILENT_MS 60000u
#define GRPC_SILENT_WAIT_MS 20000u
/* When a connection has reached its age, calls on it are given so long to end by themselves. */
#define GRPC_AGE_GRACE_MS 10000u

struct grpc_server;
struct grpc_call; /* one call; the server's */

struct grpc_method {
    const char *path;    /* "/snowfleet.v1.IdService/Next" */
    bool open;           /* needs no authentication */
    bool background;     /* grpc_server_busy() does not count it */
    bool client_streams; /* the client may send any number of messages; else exactly one */
    /* A message is here, and unless client_streams it is all that the client sends.  bytes live until
     * it returns.  Answers with grpc_send() and grpc_finish(), at once or later. */
    void (*message)(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len);
    /* client_streams: the client has sent its last. */
    void (*half_closed)(void *arg, struct grpc_call *call);
};

struct grpc_server_config {
    unsigned max_connections;    /* above it new ones are closed at once */
    uint64_t request_timeout_ms; /* for the greeting, for a request to be whole, for an answer to be
                                    taken; not for a stream that a client reads slowly */
    uint64_t max_age_ms;         /* of a connection, give or take a tenth; 0: no limit */
    const struct grpc_method *methods;
    size_t n_methods;
    /* authorization: that metadata's value, NULL without; NULL for the function: nobody is asked. */
    bool (*authenticate)(void *arg, const char *authorization);
    void *arg; /* of authenticate and of the methods */
};

enum status grpc_server_new(uv_loop_t *loop, const struct grpc_server_config *config,
                            struct grpc_server **server, struct error *err);

enum grpc_listener { GRPC_TCP, GRPC_UNIX, GRPC_LISTENERS };
/* Takes connections from listen_fd, which stays the caller's; one of each kind at most. */
enum status grpc_server_listen(struct grpc_server *server, enum grpc_listener kind, int listen_fd,
                               struct error *err);
/* New TCP connections are under TLS from now on; it takes a reference of its own. */
void grpc_server_set_tls(struct grpc_server *server, struct grpc_tls *tls);

/* Asks the clients to go elsewhere (GOAWAY): what has begun is still answered.  New connections are
 * still taken, so that health can be asked to the end. */
void grpc_server_drain(struct grpc_server *server);
/* Ends all calls with UNAVAILABLE. */
void grpc_server_end_calls(struct grpc_server *server, const char *why);
/* Calls under way, but those of background methods; answers that are not written yet; while draining,
 * connections whose clients do not know of it yet. */
unsigned grpc_server_busy(const struct grpc_server *server);
/* Ends everything.  closed() (or NULL) runs from the loop when the memory is free. */
void grpc_server_close(struct grpc_server *server, void (*closed)(void *arg), void *arg);

struct grpc_server_stats {
    uint64_t connections_total, refused_connections_total, accept_failures_total;
    uint64_t floods_total; /* connections ended for what they sent */
    uint64_t calls_total[GRPC_CODES];
    unsigned connections;
};
void grpc_server_stats(const struct grpc_server *server, struct grpc_server_stats *stats);

/* ---- for handlers ---- */

/* What a handler keeps with its call.  ended() runs when the call is over without the handler's doing
 * (the client cancelled or is gone, the deadline passed, the server ends): the call is dead then.
 * sent() runs each time that all messages so far were handed to the transport; a handler that sends
 * many waits for it, and so keeps to the client's pace.  Either may be NULL; neither runs from inside
 * grpc_send() or grpc_finish(). */
void grpc_call_set(struct grpc_call *call, void *user, void (*ended)(void *user),
                   void (*sent)(void *user));
void *grpc_call_get(const struct grpc_call *call);

/* Sends a message.  framed is allocated, begins with GRPC_PREFIX_BYTES that this function fills, and
 * is handed over; len counts them too.  false: it was not sent, since clients leave too much unread, and
 * the call has ended with RESOURCE_EXHAUSTED and is dead. */
bool grpc_send(struct grpc_call *call, uint8_t *framed, size_t len);

#define GRPC_NO_RETRY (-1) /* retry_ms: nothing is said about trying again */
/* Ends the call; it is dead afterwards.  message is for people, in UTF-8, and copied; NULL: none.
 * retry_ms: how long a client should wait before it tries again. */
void grpc_finish(struct grpc_call *call, enum grpc_code code, const char *message,
                 int64_t retry_ms);
/* Sends the only message and ends the call well. */
void grpc_answer(struct grpc_call *call, uint8_t *framed, size_t len);

#endif
