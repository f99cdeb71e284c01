/* serving.h - one serving thread: an event loop that owns one generation, hence one machine ID,
 * with its HTTP and gRPC servers and the queue of callers parked until the next millisecond.
 *
 * The control thread orders, the loop obeys in order.  No lock is taken on the way of a request for
 * Snowflakes. */
#ifndef SNOWFLEET_WORKER_SERVING_H
#define SNOWFLEET_WORKER_SERVING_H

#include <stdint.h>

#include "common/clock.h"
#include "common/grpc_tls.h"
#include "common/hold.h"
#include "common/id128_source.h"
#include "common/public_id.h"
#include "common/snowflake.h"
#include "common/status.h"
#include "common/tokens.h"
#include "worker/clock_board.h"
#include "worker/sequences.h"
#include "worker/view.h"

struct serving;

struct serving_config {
    struct clock clock;              /* that of clock_board */
    struct clock_board *clock_board; /* outlives the thread */
    struct id128_source *source;     /* of UUIDs and ULIDs; outlives the thread */
    struct sequences *sequences;     /* likewise; NULL: there are none */
    int http_fd;                     /* a listening socket, shared by all serving threads */
    int grpc_fd, unix_fd;           /* the same for gRPC, over TCP and on a Unix socket; -1: none */
    struct grpc_tls *grpc_tls;      /* for TCP; NULL: none.  The loop takes a count of its own */
    uint64_t max_connection_age_ms; /* of gRPC; 0: no limit */
    unsigned max_connections;       /* of this loop, for HTTP, and as many for gRPC */
    uint64_t request_timeout_ms;    /* of a whole HTTP request, and of a whole answer; 0: 10 s */
    uint64_t idle_timeout_ms;       /* of a kept-alive HTTP connection; 0: 75 s */
    uint64_t max_backward_wait_ms;
    uint64_t max_commit_wait_ms; /* 0: nobody is let wait */
    enum snowflake_start start;
    const struct tokens *tokens;    /* those that clients need, copied; NULL: none is needed */
    struct public_codec *codec;     /* for public IDs, handed over once it runs; NULL: none */
    struct view_board *board;       /* outlives the thread */
    struct loop_gauges *gauges;     /* of this loop; outlives the thread */
    struct loop_gauges *all_gauges; /* of all loops of the worker, for /livez */
    size_t n_loops;
    /* Loop i, once its gauges say that it serves: a request that this one cannot serve goes there.  From
     * any serving thread; not called when n_loops is 1. */
    struct serving *(*peer)(void *arg, size_t i);
    /* Answers SERVING_CLOSE.  Runs on the serving thread: pass it on to your own. */
    void (*closed)(void *arg, uint64_t last_ms);
    void *arg;
};

enum status serving_start(const struct serving_config *config, struct serving **serving,
                          struct error *err);

enum serving_order_kind {
    SERVING_INSTALL,
    SERVING_RAISE,
    SERVING_TOKENS,
    SERVING_TLS,
    SERVING_CODEC,
    SERVING_DROP,
    SERVING_CLOCK, /* the effective clock was moved: look whether parked callers can be served */
    SERVING_SEQUENCES, /* callers that wait for values may ask again */
    SERVING_CLOSE,     /* close the generation and call closed() with its last */
    SERVING_DRAIN      /* not ready; "Connection: close" on every answer */
};
struct serving_order {
    enum serving_order_kind kind;
    struct hold_install install;      /* INSTALL */
    char claim[HOLD_CLAIM_CHARS + 1]; /* RAISE */
    uint64_t limit_ms;                /* RAISE */
    struct tokens *tokens;            /* TOKENS: allocated, and handed over */
    struct public_codec *codec;       /* CODEC: handed over */
    struct grpc_tls *grpc_tls;        /* TLS: with a count that is handed over */
};
/* Queues an order: from any thread; orders are carried out in the order in which they came. */
void serving_order(struct serving *serving, const struct serving_order *order);

/* Requests under way, and parked ones; from any thread. */
unsigned serving_busy(struct serving *serving);

/* Ends the thread, answering parked callers with 503 first, and joins it. */
void serving_stop(struct serving *serving);
/* When all loops that may lend to one another are stopped. */
void serving_free(struct serving *serving);

#endif
