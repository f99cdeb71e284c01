/* hold_internal.h - [pure] what the files of the hold state machine share; nobody else includes it.
 *
 *   hold.c        the moves between phases, and the events that come from outside
 *   hold_read.c   what etcd showed of the slot, and what follows from it
 *   hold_step.c   what to do next, and what the machine looks like from outside */
#ifndef SNOWFLEET_COMMON_HOLD_INTERNAL_H
#define SNOWFLEET_COMMON_HOLD_INTERNAL_H

#include "common/hold.h"
#include "common/hold_chain.h"
#include "common/hold_txn.h"

#define ACTS_MAX 64 /* what one event can ask for at most: a drop, a search, and a chain's leases */

struct hold {
    struct hold_config config;
    enum hold_phase phase;

    /* What etcd says of the cluster. */
    char *meta_text;            /* NULL: absent, unreadable, or not read yet */
    struct meta meta;           /* meta_text parsed, when there is one */
    bool meta_missing;          /* it was looked for and is not there */
    char era[HEX128_CHARS + 1]; /* the era this process lives in; "" before the first meta */
    uint64_t ceiling_ms;        /* UINT64_MAX: not known */
    bool ceiling_missing;       /* it was looked for, and is absent or unreadable: no default */
    enum hold_trust trust;

    /* The slot being claimed or held. */
    uint16_t machine_id;
    struct chain chain;
    uint64_t h0;         /* the first timestamp of the chain is h0 + 1 */
    int64_t lease;       /* own/ hangs on it; 0: none, or revoked */
    int64_t fresh_lease; /* granted for a claim that is not sent yet; 0: none */
    unsigned claim_tries;

    /* The generation in the loop: since OPEN. */
    uint64_t limit_ms; /* as confirmed; the claim is chain.known.claim */
    uint64_t closed_last_ms;
    bool stopping; /* RELEASED comes next, and not SEEKING */
    bool doomed;   /* CLOSING, and lost meanwhile: as soon as the loop has answered */
    bool own_gone; /* V(own) is not there: resume */
    bool own_foreign;
    bool hor_missing;
    bool rollback;
    bool no_gain; /* the ceiling leaves nothing to extend by */
    bool giving_up;

    /* Under way. */
    enum hold_request request;
    bool request_abandoned; /* its answer must not change anything any more */
    struct horizon request_value;
    int64_t granting; /* the lease ID asked for; 0: none */
    int64_t keeping;  /* the lease being renewed; 0: none */
    bool must_read;   /* an outcome is unknown, or a read hinted at a change */
    bool poll;        /* nothing to do but to look again now and then */
    uint64_t retry_boot_ms, keepalive_boot_ms;
    unsigned failures;
    uint64_t jitter_ms; /* of the next extension */
    struct error error;

    struct hold_act acts[ACTS_MAX]; /* to be said, from acts[0] on */
    size_t n_acts;
    struct hold_message message;
    char *own_text; /* in message */

    uint64_t extensions_total, resumes_total, lost_total, unknown_total, claims_total;
};

static inline uint64_t min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static inline bool hold_has_generation(const struct hold *hold) {
    return hold->phase == HOLD_OPEN || hold->phase == HOLD_CLOSING || hold->phase == HOLD_RELEASING;
}

uint64_t hold_draw(struct hold *hold);
uint64_t hold_draw_below(struct hold *hold, uint64_t bound);
struct hold_act *hold_say(struct hold *hold, enum hold_act_kind kind);
/* Pauses before the next request, longer with each failure in a row. */
void hold_failed(struct hold *hold, struct instant now, const struct error *err);
/* There is nothing to do but to see whether things have changed. */
void hold_look_again_later(struct hold *hold, struct instant now);
/* Before any claim: what forbids it, whichever the slot. */
enum status hold_may_claim(const struct hold *hold, struct error *err);
/* Sees to it that no claim of unknown outcome can keep the slot, should it land yet. */
void hold_revoke_claims(struct hold *hold);

/* A first claim that came to nothing. */
void hold_give_slot_back(struct hold *hold);
/* V(hor) is somebody else's: the chain has ended. */
void hold_lose(struct hold *hold);
/* The slot is handed back. */
void hold_slot_released(struct hold *hold);
void hold_close(struct hold *hold);
/* etcd confirmed that the claim at index is written: it owns the slot up to its horizon. */
void hold_opened(struct hold *hold, struct instant now, size_t index);
/* etcd confirmed that an extension (or a release, when closed) is written. */
void hold_extended(struct hold *hold, const struct horizon *value);
void hold_order_raise(struct hold *hold, uint64_t limit_ms);

/* own/NNNN as that claim of ours writes it, allocated. */
char *hold_own_text(const struct hold *hold, const char *claim);
/* What the otherwise-part of any of our transactions, or a read, showed. */
void hold_read(struct hold *hold, struct instant now, const struct etcd_txn_result *result,
               enum hold_request request);

#endif
