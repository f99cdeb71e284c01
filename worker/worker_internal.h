/* worker_internal.h - what the files of the control thread share; nobody else includes it.
 *
 *   worker.c         start, watch on the clock, drain, end
 *   worker_clock.c   the effective clock: looks at the physical one, judges, has steps confirmed
 *   worker_etcd.c    what etcd tells: the watch, and polls beside it
 *   worker_history.c whether etcd's history went back
 *   worker_grpc.c    gRPC: listeners, TLS and its changes
 *   worker_public.c  the file of keys for public IDs: its opening, and its changes
 *   worker_rotate.c  another machine ID after a large step back
 *   worker_slots.c   finding slots for the holders: the talk with the leader, or choosing alone
 *   worker_state.c   the state file: its opening, and what is noted in it
 *   worker_tokens.c  the file of tokens that clients need: its opening, and its changes
 *   worker_view.c    what the rest of the process and others get to see */
#ifndef SNOWFLEET_WORKER_WORKER_INTERNAL_H
#define SNOWFLEET_WORKER_WORKER_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <uv.h>

#include "common/history.h"
#include "common/keys.h"
#include "common/log.h"
#include "common/public_key_file.h"
#include "common/records.h"
#include "common/registry.h"
#include "common/state_file.h"
#include "common/token_file.h"
#include "worker/clock_board.h"
#include "worker/clock_claim.h"
#include "worker/evidence.h"
#include "worker/holder.h"
#include "worker/keeper.h"
#include "worker/peers.h"
#include "worker/registration.h"
#include "worker/seek.h"
#include "worker/sequences.h"
#include "worker/serving.h"
#include "worker/time_daemon.h"
#include "worker/view.h"
#include "worker/worker.h"

#define WORKER_RETRY_MIN_MS 100u /* pause after a failure towards etcd, doubled each time */
#define WORKER_RETRY_MAX_MS 2000u
#define WORKER_TICK_MS 250u
#define WORKER_GIVEN_UP_MS 60000u /* a machine ID handed back on order is not wanted for so long */
#define WORKER_DRAIN_REQUESTS_MS 1000u
#define WORKER_POLL_MS 30000u     /* meta and assign are read that often beside the watch ... */
#define WORKER_POLL_IDLE_MS 2000u /* ... and that often while nothing is served */

struct worker;

/* One machine ID: the loop that issues from it, and what keeps it: a holder in etcd, or, standalone,
 * a keeper in the state file.  The other one is NULL. */
struct worker_slot {
    struct worker *worker;
    size_t index;
    struct serving *serving;
    struct holder *holder;
    struct keeper *keeper;
    bool has_last; /* it has held last_machine_id, and would like it again */
    uint16_t last_machine_id;
    bool closed; /* under worker.closed_mutex: the loop's answer, not yet passed on */
    uint64_t closed_last_ms;
};

enum worker_drain {
    WORKER_RUNNING,
    WORKER_DRAIN_REQUESTS, /* answering what is under way */
    WORKER_DRAIN_RELEASE,  /* giving the machine IDs back */
    WORKER_DRAIN_LEAVE,    /* and the leases */
    WORKER_DRAIN_ENDING    /* closing everything */
};

/* The effective clock, and what is done to have a step confirmed. */
struct worker_clock {
    struct effective_clock effective;
    struct clock_board board;   /* the same, for all threads ... */
    struct clock clock;         /* ... and for those who need no more than the time */
    struct time_daemon *daemon; /* NULL until the clock is watched */
    struct clock_claim claim;
    int set_fd; /* -1: not made, and set_poll neither */
    uv_poll_t set_poll;

    uint64_t order_until_ms; /* assign/<instance>: clock_ok_until_ms, 0 none ... */
    int64_t order_boot_ns;   /* ... and when that value was first seen */
    struct http_client *client;
    struct peers *asker;      /* NULL: standalone */
    uint64_t asked_steps;     /* steps_total when peers were last asked ... */
    uint64_t asked_boot_ms;   /* ... and when */
    uint64_t confirmed_steps; /* steps_total when the last step was confirmed */
    bool peers_known;         /* and they have answered that */
    struct peers_answer peers;
    bool warned_of_end;
};

/* Another machine ID when the clock went back too far to wait. */
struct worker_rotation {
    bool went_back; /* by a step, and not caught up since */
    bool reading;   /* what is free */
    uint64_t retry_boot_ms;
    uint64_t last_boot_ms;                   /* of the last one; 0: none so far */
    uint16_t suggested[RECORD_MACHINES_MAX]; /* seen to be free, for the slots that were given up */
    size_t n_suggested;
    uint64_t total;
    struct log_repeat none_free;
};

struct worker {
    const struct worker_config *config;
    struct keys keys;
    struct own self; /* instance, identity, addresses */
    uv_loop_t loop;

    /* The state file; "" and NULL without one. */
    char host[STATE_HOST_MAX + 1];
    struct state_file *state_file; /* standalone */
    struct state_record state;     /* as it was at the start */
    struct evidence *evidence;     /* with etcd */

    struct token_file *tokens;           /* NULL: clients need none */
    struct public_key_file *public_keys; /* NULL: no public IDs */

    /* gRPC; -1 and NULL without. */
    int grpc_fd, unix_fd;
    char grpc_bound[RECORD_ADDRESS_MAX];
    struct grpc_tls *grpc_tls;
    uint64_t tls_seen, tls_looked_boot_ms;
    struct log_repeat tls_trouble;

    /* Of etcd; NULL and unused when standalone. */
    struct etcd_http *etcd_http;
    struct etcd etcd;
    struct etcd_watch *watch;
    struct history history;
    bool fencing; /* a fence is under way */
    struct history_mark fence_mark;
    uint64_t fenced_boot_ms; /* when it was sent; 0: never */
    struct registration *registration;
    bool refused; /* the last answer to a request for machine IDs was a no */
    struct seek seek;
    bool reading; /* a read for the search is under way */
    struct history_mark reading_mark;
    enum seek_move reading_for;
    uint16_t reading_id;
    uint64_t given_up_until_boot_ms[MACHINE_IDS]; /* ordered to give it up: not taken before */

    bool has_meta;   /* it is there now, and meta is what it says */
    bool knows_meta; /* it was there once: meta is the last that was seen */
    struct meta meta;
    bool heard; /* etcd has answered since the start */

    struct worker_slot slots[RECORD_MACHINES_MAX];
    size_t n_slots;
    struct loop_gauges gauges[RECORD_MACHINES_MAX];
    struct id128_source *source; /* of UUIDs and ULIDs: one for all loops */
    struct sequences *sequences; /* likewise; NULL when standalone */
    struct view_board board;

    uv_timer_t tick, review, deadline;
    uv_signal_t on_term, on_int;
    uv_async_t closed_async;
    pthread_mutex_t closed_mutex;
    struct worker_clock timing;
    struct worker_rotation rotation;
    uint64_t polled_boot_ms;
    bool polling;
    struct history_mark polling_mark;

    enum worker_drain drain;
    uint64_t drain_began_boot_ms;
    struct error failure; /* what it ends with; STATUS_OK when all is well */
};

/* By the effective clock. */
static inline struct instant worker_now(const struct worker *worker) {
    return clock_now(&worker->timing.clock);
}

static inline void worker_slot_look(const struct worker_slot *slot, struct hold_view *view) {
    if (slot->keeper)
        keeper_look(slot->keeper, view);
    else
        holder_look(slot->holder, view);
}

/* Something has changed: review the search, the node record and the view, from the loop. */
void worker_changed(void *worker);
/* Ends in good order: requests, machine IDs, leases.  Once begun it goes on whatever else comes. */
void worker_start_drain(struct worker *worker, const char *why);

/* ---- worker_clock.c ---- */
void worker_init_clock(struct worker *worker);
enum status worker_watch_clock(struct worker *worker, struct error *err);
/* With etcd: who may be asked about the time. */
enum status worker_open_peers(struct worker *worker, struct error *err);
void worker_authorize_peers(struct worker *worker);
void worker_tick_clock(struct worker *worker);
/* assign/<instance> says that the clock is right; 0: no such order. */
void worker_clock_ordered(struct worker *worker, uint64_t until_ms);
bool worker_clock_wants_confirmation(const struct worker *worker);
/* false: not known yet. */
bool worker_epoch(const struct worker *worker, uint64_t *epoch_ms);

/* ---- worker_etcd.c ---- */
/* meta, ceil, assign/<instance> or seq/ as read or watched; value NULL: the key is gone. */
void worker_key(struct worker *worker, const char *key, const char *value, size_t len);
void worker_poll_etcd(struct worker *worker, struct instant now);
void worker_start_etcd(struct worker *worker);
/* Before the serving loops. */
void worker_open_sequences(struct worker *worker);

/* ---- worker_history.c ---- */
/* meta was read or watched; knew_meta: not for the first time. */
void worker_history_meta(struct worker *worker, bool knew_meta);
/* Sends a fence when one is due. */
void worker_look_at_history(struct worker *worker, struct instant now);

/* ---- worker_grpc.c ---- */
/* Listens where the options say, if anywhere. */
enum status worker_open_grpc(struct worker *worker, struct error *err);
void worker_tell_grpc(const struct worker *worker);
/* Tells the serving loops when the files of TLS have changed. */
void worker_look_at_tls(struct worker *worker, struct instant now);
void worker_close_grpc(struct worker *worker);

/* ---- worker_public.c ---- */
/* Opens the file that the options name, if any. */
enum status worker_open_public_keys(struct worker *worker, struct error *err);
/* Makes what one serving loop needs of it; NULL where there is no file. */
enum status worker_public_codec(const struct worker *worker, struct public_codec **codec,
                                struct error *err);
/* Tells the serving loops of new ones. */
void worker_look_at_public_keys(struct worker *worker, struct instant now);
/* Which keys these are: a fingerprint, and the version that encodes; "" and 0 without a file. */
unsigned worker_public_fingerprint(const struct worker *worker,
                                   char fingerprint[static PUBLIC_FINGERPRINT_CHARS + 1]);

/* ---- worker_rotate.c ---- */
/* Is the clock behind what some machine ID has issued? */
bool worker_is_behind(const struct worker *worker);
/* Is some machine ID too far ahead of a clock that was stepped back? */
bool worker_must_rotate(const struct worker *worker);
/* The new time is confirmed: looks for free slots, and gives up what is ahead for them. */
void worker_rotate(struct worker *worker);
/* What was found goes to the search. */
void worker_suggest_slots(struct worker *worker);

/* ---- worker_slots.c ---- */
void worker_search(struct worker *worker);
/* assign/<instance> */
void worker_assigned(struct worker *worker, const char *value, size_t len);
/* What node/<instance> is to say now; allocated. */
char *worker_node_text(const struct worker *worker);

/* ---- worker_state.c ---- */
/* Opens the file that the options name, if any, and refuses what must not be used. */
enum status worker_open_state(struct worker *worker, struct error *err);
/* The machine IDs that the file names become wanted ones. */
void worker_want_former(struct worker *worker);
void worker_note_evidence(struct worker *worker, const struct worker_view *view);

/* ---- worker_tokens.c ---- */
/* Opens the file that the options name, if any. */
enum status worker_open_tokens(struct worker *worker, struct error *err);
/* Tells the serving loops of new ones. */
void worker_look_at_tokens(struct worker *worker, struct instant now);

/* ---- worker_view.c ---- */
void worker_publish(struct worker *worker);

#endif
