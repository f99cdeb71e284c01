/* hold.h - [pure] state machine of one machine ID being held: claim, extend, resume, release, lost.
 *
 * It says what to send and is told what came back; whoever owns it (worker/holder.c, or the
 * simulator of tests/scenario) carries that out:
 *
 *     something happened -> hold_...(event) -> while (hold_next(hold, now, &act) != HOLD_NOTHING)
 *                                                  carry out act
 *     and hold_next() again at act.wake_boot_ms at the latest
 *
 * At most one transaction is under way for a machine ID, so one hold_answered() for each HOLD_TXN.
 *
 * Why it is safe (the whole argument stands in ARCHITECTURE.md): the slot's stored horizon is
 * never below a limit that anybody may still use, because it only changes by a transaction that
 * compared its exact previous value, and because a limit rises only after etcd confirmed it.  A
 * new holder starts above the stored horizon.  No clock, lease or timing takes part in that.
 *
 * Phases (struct hold.phase) and what moves them:
 *
 *   phase            | means                                   | leaves on
 *   -----------------+-----------------------------------------+-----------------------------------
 *   HOLD_SEEKING     | no slot; wants an offer                  | hold_offer -> CLAIMING
 *   HOLD_CLAIMING    | lease or claim of a first claim under    | ok -> OPEN; refused, given up or
 *                    | way or of unknown outcome; or the floor  | another holder -> SEEKING
 *                    | is ahead                                 |
 *   HOLD_OPEN        | a generation is installed and issues up  | foreign V(hor), other era ->
 *                    | to its limit; extensions and, when own   | SEEKING (LOST) or HALTED;
 *                    | is gone, resuming claims go on beside    | release -> CLOSING
 *   HOLD_CLOSING     | the serving loop is asked to close the   | hold_closed -> RELEASING
 *                    | generation and to hand over its last     |
 *   HOLD_RELEASING   | pending is settled, the release is sent  | done or foreign -> RELEASED, or
 *                    |                                          | SEEKING after a give-up order
 *   HOLD_RELEASED    | gone for good                            | -
 *   HOLD_HALTED      | meta names a foreign era: issues nothing | meta names ours -> SEEKING
 */
#ifndef SNOWFLEET_COMMON_HOLD_H
#define SNOWFLEET_COMMON_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/etcd.h"
#include "common/keys.h"
#include "common/records.h"
#include "common/snowflake.h"

#define HOLD_CLAIM_CHARS HEX128_CHARS

/* What a serving loop issues from.  Replaced whole, never edited into another (but for the limit,
 * which only rises); owned by one loop. */
struct generation {
    char era[HEX128_CHARS + 1];
    char claim[HOLD_CLAIM_CHARS + 1];
    struct snowflake ids; /* epoch, machine ID, last issued, limit */
};

/* The order to install a generation. */
struct hold_install {
    bool continues; /* same chain: go on from the (timestamp, sequence) that stands in the loop */
    char era[HEX128_CHARS + 1];
    char claim[HOLD_CLAIM_CHARS + 1];
    uint16_t machine_id;
    uint64_t epoch_ms;
    uint64_t used_up_ms; /* not continuing: the h0 of the CLAIM; the first timestamp is h0 + 1 */
    uint64_t limit_ms;
};

struct hold_config {
    const struct keys *keys; /* outlives the hold */
    const struct own *self;  /* instance, identity, addresses; its claim is not looked at */
    uint64_t window_ms;      /* how far an extension reaches ahead */
    uint64_t claim_ahead_ms; /* a horizon further ahead than this: another slot */
    uint64_t lease_ttl_s;
    uint64_t keepalive_interval_ms;
    uint64_t retry_min_ms, retry_max_ms; /* pause after a failure, doubled each time, jittered */
    void (*random)(void *arg, void *bytes, size_t n); /* for claims, lease IDs, jitter */
    void *random_arg;
};

enum hold_phase {
    HOLD_SEEKING,
    HOLD_CLAIMING,
    HOLD_OPEN,
    HOLD_CLOSING,
    HOLD_RELEASING,
    HOLD_RELEASED,
    HOLD_HALTED
};
const char *hold_phase_name(enum hold_phase phase);

/* Why it does not do what one would like it to; a word each in /v1/status. */
enum hold_reason {
    HOLD_FINE,
    HOLD_NO_META,     /* "meta missing": absent or unreadable; serve to the limit */
    HOLD_NO_HORIZON,  /* "horizon missing": hor absent or unreadable; likewise */
    HOLD_FROZEN,      /* "frozen": no claims and no extensions */
    HOLD_FLOOR,       /* "floor": claims wait until the floor is past */
    HOLD_AHEAD,       /* "horizon": claimed, and the clock has to pass the old horizon first */
    HOLD_CEILING,     /* "ceiling": the ceiling is not above what an extension would ask for */
    HOLD_WINDOW,      /* "window": --window is above meta's max_window: refuses to claim */
    HOLD_NO_ETCD,     /* "etcd": no answer, or it refuses; see hold_error() */
    HOLD_NO_SPACE,    /* "etcd out of space" */
    HOLD_ROLLBACK,    /* "rollback": an older value of its own came back, or HOLD_WENT_BACK was
                         told; serve to the limit */
    HOLD_FOREIGN_OWN, /* "own key changed": somebody else wrote own/ by hand */
    HOLD_GIVE_UP,     /* "give up": ordered to hand this machine ID back */
    HOLD_FOREIGN_ERA  /* "era" */
};
const char *hold_reason_name(enum hold_reason reason);

struct hold; /* opaque but for its size: hold_new() allocates */

struct hold *hold_new(const struct hold_config *config);
void hold_free(struct hold *hold);

/* ---- what to do ---- */
enum hold_act_kind {
    HOLD_NOTHING,   /* until wake_boot_ms */
    HOLD_SEEK,      /* find a slot and hold_offer() it; said once for each search */
    HOLD_GRANT,     /* ask for a lease: lease_id, ttl_s; answer with hold_granted() */
    HOLD_KEEPALIVE, /* renew lease_id; answer with hold_kept() */
    HOLD_REVOKE,    /* revoke lease_id; no answer wanted */
    HOLD_TXN,       /* send txn; answer with hold_answered() */
    HOLD_INSTALL,   /* the serving loop installs install */
    HOLD_RAISE,     /* the serving loop raises the limit of claim to limit_ms */
    HOLD_DROP,      /* the serving loop drops its generation */
    HOLD_CLOSE      /* the serving loop closes its generation; answer with hold_closed() */
};
struct hold_act {
    enum hold_act_kind kind;
    uint64_t wake_boot_ms;
    int64_t lease_id;
    uint64_t ttl_s;
    const struct etcd_txn *txn; /* lives until the next call on this hold */
    struct hold_install install;
    char claim[HOLD_CLAIM_CHARS + 1];
    uint64_t limit_ms;
};
/* Takes the next act off the machine.  An act is said once and counts as done when returned. */
enum hold_act_kind hold_next(struct hold *hold, struct instant now, struct hold_act *act);

/* ---- what happened ---- */
/* meta as read or watched; NULL when the key is absent.  An unreadable one counts as absent and
 * leaves its reason in hold_error(). */
void hold_meta(struct hold *hold, struct instant now, const char *value, size_t len);
/* The ceiling as read or watched; NULL when the key is absent.  Only the transaction decides, this is
 * for planning; but a missing or unreadable one means neither claims nor extensions. */
void hold_ceiling(struct hold *hold, struct instant now, const char *value, size_t len);
/* Whether what etcd says can be rested on, as history.h tells: told before hold_answered() too.  While it
 * cannot, the generation serves to its limit; there are no claims, no extensions and no resuming, and
 * an answer counts as none (but while it releases: that only gives back). */
enum hold_trust {
    HOLD_TRUSTED,
    HOLD_DOUBTED,  /* until a fence tells */
    HOLD_WENT_BACK /* until meta names an era that follows ours */
};
void hold_trust(struct hold *hold, enum hold_trust trust);
/* Offers a slot with V(hor) as read.  Only in SEEKING.
 *   STATUS_OK           taken up: CLAIMING
 *   STATUS_REFUSED      horizon too far ahead, out of range, or reserved: offer another one
 *   STATUS_UNAVAILABLE  no claim can be made now (no meta, frozen, window, trust): try again later */
enum status hold_offer(struct hold *hold, struct instant now, uint16_t machine_id,
                       const char *hor_value, size_t len, struct error *err);
void hold_granted(struct hold *hold, struct instant now, const struct error *err, int64_t lease_id,
                  int64_t ttl_s);
void hold_kept(struct hold *hold, struct instant now, const struct error *err, int64_t lease_id);
void hold_answered(struct hold *hold, struct instant now, const struct error *err,
                   const struct etcd_txn_result *result);
/* assign/<instance> names this machine ID and claim in give_up: release, then seek another. */
void hold_give_up(struct hold *hold, struct instant now, uint16_t machine_id, const char *claim);
/* The owner wants out: release and stay RELEASED.  Without a generation: RELEASED at once. */
void hold_release(struct hold *hold, struct instant now);
void hold_closed(struct hold *hold, struct instant now, uint64_t last_ms);

/* ---- what it is ---- */
struct hold_view {
    enum hold_phase phase;
    enum hold_reason reason;
    bool has_generation; /* installed in the loop, perhaps closed */
    bool lost_slot;      /* has_generation, but a claim was needed: resuming */
    uint16_t machine_id; /* of the generation or of the slot being claimed; see has_slot */
    bool has_slot;
    char claim[HOLD_CLAIM_CHARS + 1];
    char era[HEX128_CHARS + 1]; /* the era it lives in; "" before meta was read */
    uint64_t used_up_ms;        /* h0 of the chain */
    uint64_t limit_ms;          /* confirmed by etcd */
    uint64_t horizon_ms;        /* stored, as last known */
    uint64_t ceiling_ms;        /* 0: not known */
    uint64_t pending;           /* values of unknown outcome */
    uint64_t pending_ms;        /* the highest horizon among them; 0: none */
    uint64_t extensions_total, resumes_total, lost_total, unknown_total, claims_total;
};
void hold_look(const struct hold *hold, struct instant now, struct hold_view *view);
/* The last failure, for status and logs; message "" when there was none since the last success. */
const struct error *hold_error(const struct hold *hold);

#endif
