/* view.h - what the control thread tells the serving threads about the worker as a whole: the
 * facts behind /v1/status, /livez, /readyz and /metrics.
 *
 * The control thread publishes a whole view, serving threads copy it: thread-safe. */
#ifndef SNOWFLEET_WORKER_VIEW_H
#define SNOWFLEET_WORKER_VIEW_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/grpc_message.h"
#include "common/hold.h"
#include "common/id_kind.h"
#include "common/effective_clock.h"
#include "common/records.h"
#include "worker/clock_claim.h"

enum worker_state {
    WORKER_STARTING, /* not yet heard of etcd, when there is one */
    WORKER_CLAIMING, /* no machine ID usable yet */
    WORKER_SERVING,  /* at least one machine ID serves */
    WORKER_STARVED,  /* holds machine IDs, and every limit is past */
    WORKER_DRAINING, /* told to stop */
    WORKER_HALTED    /* meta names a foreign era */
};
const char *worker_state_name(enum worker_state state);

/* A loop that has not turned for this long is stuck: /livez says 503. */
#define WORKER_STUCK_MS 10000u

/* What a serving loop lets others see of it, each field by itself; relaxed atomics. */
struct loop_gauges {
    _Atomic uint64_t turned_boot_ms; /* when the loop last turned */
    _Atomic uint64_t limit_ms;       /* it may issue up to then; 0: it has no generation */
    _Atomic uint64_t last_issued_ms; /* Unix ms of the newest ID; 0: none */
    _Atomic uint64_t newest_ms; /* of the present generation: IDs come above it; 0: there is none */
    _Atomic uint64_t issued_total; /* Snowflakes, in whatever form */
    _Atomic uint64_t kind_issued_total[ID_KINDS];
    _Atomic uint64_t parked; /* callers that wait for the next millisecond */
    _Atomic uint64_t http_connections;
    _Atomic uint64_t http_connections_total;
    _Atomic uint64_t http_refused_connections_total; /* above the limit */
    _Atomic uint64_t http_accept_failures_total;     /* no descriptors left */
    _Atomic uint64_t http_requests_total;
    _Atomic uint64_t http_guard_refusals_total;  /* ambiguous framing and its like */
    _Atomic uint64_t http_timeouts_total;        /* too slow, and cut */
    _Atomic uint64_t http_unauthenticated_total; /* without a bearer token that is known */
    _Atomic uint64_t grpc_connections;
    _Atomic uint64_t grpc_connections_total;
    _Atomic uint64_t grpc_refused_connections_total; /* above the limit */
    _Atomic uint64_t grpc_accept_failures_total;     /* no descriptors left */
    _Atomic uint64_t grpc_floods_total;              /* connections ended for what they sent */
    _Atomic uint64_t grpc_calls_total[GRPC_CODES];   /* ended, by status code */
};

/* Does that loop serve Snowflakes, as far as one knows from outside, if need be after a wait for the
 * clock of at most max_backward_wait_ms? */
bool view_loop_serves(const struct loop_gauges *gauges, uint64_t now_ms,
                      uint64_t max_backward_wait_ms);

struct view_machine {
    struct hold_view hold;
    struct loop_gauges *gauges; /* of the loop that owns it */
};

/* The effective clock, but for what shows at the moment of asking (clock_board.h). */
struct view_clock {
    struct effective_limits limits;
    uint64_t max_alone_step_ms;
    struct clock_claim claim;
    uint64_t steps_total;
    int64_t last_step_ns;
    uint64_t rotations_total;
    bool wants_confirmation; /* of the coordinator, peers or an operator */
    bool alone;              /* no other worker is registered, as far as was asked */
    unsigned agree;          /* peers that confirm it so far */
};

struct worker_view {
    enum worker_state state;
    char reason[256]; /* why not SERVING, for people; "" when it serves */
    char instance[HEX128_CHARS + 1];
    char identity[RECORD_IDENTITY_MAX + 1];
    char cluster[KEYS_CLUSTER_MAX + 1];
    bool standalone; /* no etcd, hence no cluster, meta or lease */
    uint64_t standalone_epoch_ms;
    bool has_meta;    /* meta was seen, now or earlier */
    struct meta meta; /* when has_meta: the last that was seen */
    uint64_t window_ms;
    uint64_t lease_ttl_s;
    char public_key_fingerprint[PUBLIC_FINGERPRINT_CHARS + 1]; /* "": no keys */
    unsigned public_key_version;                               /* of the one that encodes */
    bool rollback;                                             /* etcd's history went back */
    size_t n_machines;
    struct view_machine machines[RECORD_MACHINES_MAX];
    /* The link to etcd. */
    char etcd_endpoint[256];
    char etcd_error[256]; /* "" when the last request was answered */
    uint64_t etcd_requests_total, etcd_request_us, etcd_failures_total, etcd_unknown_total;
    struct view_clock clock;
    uint64_t published_boot_ms; /* set by view_publish: the control loop turned then */
};

struct view_board {
    pthread_mutex_t mutex;
    struct worker_view view;
};
/* What is known before the control thread has looked at anything: a request may come as early. */
void view_init(struct worker_view *view);
void view_board_init(struct view_board *board);
void view_board_done(struct view_board *board);
void view_publish(struct view_board *board, const struct worker_view *view, uint64_t boot_ms);
void view_read(struct view_board *board, struct worker_view *view);

/* The state of one machine as /v1/status shows it: CLAIMING, SERVING, STARVED or CLOSED. */
const char *view_machine_state(const struct view_machine *machine, uint64_t now_ms);
/* The worker's state from its machines, so that it is right at the moment of asking and not at
 * that of publishing: a SERVING worker whose limits are past is STARVED. */
enum worker_state view_state(const struct worker_view *view, uint64_t now_ms);
/* How long Snowflakes can still be issued without etcd, of the longest of its machines, in ms. */
uint64_t view_runway_ms(const struct worker_view *view, uint64_t now_ms);

#endif
