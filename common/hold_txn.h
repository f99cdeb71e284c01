/* hold_txn.h - [pure] the transactions of the hold protocol, spelt out.
 *
 * Every one ends in the same otherwise-part, HOLD_READS ranges in this order, so that whatever
 * fails tells all there is to know.  Each goes through etcd's log (it holds a put or a delete in
 * one of its lists), so that no answer is stale, but for the plain read. */
#ifndef SNOWFLEET_COMMON_HOLD_TXN_H
#define SNOWFLEET_COMMON_HOLD_TXN_H

#include "common/etcd.h"
#include "common/keys.h"

enum hold_request {
    HOLD_REQUEST_NONE,
    HOLD_REQUEST_CLAIM,
    HOLD_REQUEST_EXTEND,
    HOLD_REQUEST_RELEASE,
    HOLD_REQUEST_READ,      /* after an unknown outcome: ordered behind every write before it */
    HOLD_REQUEST_READ_PLAIN /* to see whether things have changed: may be stale, costs no log entry */
};

enum hold_read { HOLD_READ_OWN, HOLD_READ_HOR, HOLD_READ_META, HOLD_READ_CEIL, HOLD_READ_ASSIGN };
#define HOLD_READS 5

struct hold_txn_params {
    const struct keys *keys;
    const char *instance;
    uint16_t machine_id;
    const char *meta;     /* V(meta) as known: claim, extend */
    const char *own;      /* the value to put (claim) or to compare with (extend, release) */
    struct horizon known; /* V(hor) to compare with */
    struct horizon next;  /* V(hor) to write */
    int64_t lease;        /* claim */
};

/* A transaction with room for its texts; txn points into it and into params' strings. */
struct hold_message {
    struct etcd_txn txn;
    struct etcd_compare compares[4];
    struct etcd_op then[3];
    struct etcd_op otherwise[HOLD_READS];
    char own_key[KEY_MAX], hor_key[KEY_MAX], assign_key[KEY_MAX];
    char known[HORIZON_TEXT_MAX], next[HORIZON_TEXT_MAX], ceiling[CEILING_TEXT_MAX];
};
void hold_txn_build(struct hold_message *message, enum hold_request request,
                    const struct hold_txn_params *params);

#endif
