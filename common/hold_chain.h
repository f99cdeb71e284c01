/* hold_chain.h - [pure] what a holder knows of V(hor): the chain of values that are its own.
 *
 * A chain keeps the last value that it knows written and those that may have been written since
 * (pending).  A value joins pending before it is sent; pending is emptied only when one of its
 * values, or a later write, is confirmed.  The chain starts at its CLAIM and ends at the first
 * foreign V(hor).
 *
 * Only this process writes values with its claims, and it writes n + 1 only after n, so a value
 * under the current claim with n + 1 is an extension (or the release) of its own, whichever of
 * several tries it was. */
#ifndef SNOWFLEET_COMMON_HOLD_CHAIN_H
#define SNOWFLEET_COMMON_HOLD_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/keys.h"

#define CHAIN_CLAIMS_MAX 32  /* claims of unknown outcome; then no more are sent */
#define CHAIN_HISTORY_MAX 32 /* earlier claims of the chain, to tell an old value of our own */

struct chain_claim {
    struct horizon value;
    uint64_t h0;   /* a first claim's: its generation starts above it */
    int64_t lease; /* 0: revoked since, so it cannot keep the slot even if it lands */
};
struct chain {
    struct horizon known; /* last value known written, or the foreign one a first claim starts at */
    bool
        extension_pending; /* (known.claim, known.n + 1) may have been written, with a horizon of */
    uint64_t extension_min_ms, extension_max_ms; /* this range */
    struct chain_claim claims[CHAIN_CLAIMS_MAX]; /* claims that may have been written */
    size_t n_claims;
    char history[CHAIN_HISTORY_MAX][HEX128_CHARS + 1];
    size_t n_history; /* counts on; the newest are kept */
};

/* Starts a chain at V(hor) as read, which a first claim compares with. */
void chain_start(struct chain *chain, const struct horizon *found);
bool chain_pending(const struct chain *chain);
/* Room for another claim? */
bool chain_has_room(const struct chain *chain);
void chain_add_extension(struct chain *chain, uint64_t horizon_ms);
void chain_add_claim(struct chain *chain, const struct horizon *value, uint64_t h0, int64_t lease);
/* The newest claim was surely never sent. */
void chain_forget_claim(struct chain *chain);

enum chain_match {
    CHAIN_KNOWN,     /* the last value known: nothing since has landed so far */
    CHAIN_EXTENSION, /* a pending extension or release */
    CHAIN_CLAIM,     /* a pending claim: *index into claims */
    CHAIN_OLDER,     /* an older value of the chain: etcd went back in time */
    CHAIN_FOREIGN
};
enum chain_match chain_match(const struct chain *chain, const struct horizon *seen, size_t *index);

/* V(hor) is confirmed to be value, of our own: pending is emptied. */
void chain_confirm(struct chain *chain, const struct horizon *value);

#endif
