/* dispenser.h - [pure] state machine of one sequence, as one worker process gives its values: what it
 * holds, what to ask of etcd, and what the answer means.
 *
 * It is told what came back and asked what to do next, as a hold is (common/hold.h).  Values come out of
 * blocks that were granted by a transaction that compared meta and the exact record; a block counts as
 * granted when etcd has said so, and never otherwise: one whose outcome is unknown is left alone, and the
 * record is read before the next is asked for.  What is held is forgotten when the record has another
 * layout, or the cluster another era.
 *
 * Blocks are asked for before they are needed: when half of the last grant is used.  A grant that lasted less
 * than DISPENSER_SHORT_MS makes the next one twice as large; one that lasted for longer than
 * DISPENSER_LONG_MS halves it.  So what is held follows the rate, and a sequence that nobody asks for holds
 * what it has. */
#ifndef SNOWFLEET_WORKER_DISPENSER_H
#define SNOWFLEET_WORKER_DISPENSER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/etcd.h"
#include "common/keys.h"
#include "common/sequence.h"
#include "worker/service.h"

#define DISPENSER_SHORT_MS 1000u
#define DISPENSER_LONG_MS 10000u
/* A grant is not made larger than this for the sake of the rate. */
#define DISPENSER_GRANT_MAX 1000000u

/* What holds for all sequences of the process. */
struct dispenser_cluster {
    char *meta;                 /* the value that grants compare; NULL: there are no grants */
    char reason[256];           /* why there are none; "" when there are */
    bool halted;                /* what is held is not to be issued either */
    unsigned eras;              /* counts eras: what was held before the last change is forgotten */
    char era[HEX128_CHARS + 1]; /* "" before meta was read */
    char meta_reason[256];      /* the reason as far as meta is concerned */
};
void dispenser_cluster_init(struct dispenser_cluster *cluster);
void dispenser_cluster_done(struct dispenser_cluster *cluster);
/* meta as read or watched; value NULL: the key is gone.  Returns whether that was news. */
bool dispenser_cluster_meta(struct dispenser_cluster *cluster, const char *value, size_t len);
/* Why etcd's history is not to be rested on; "": it is.  To be said after each of the above too. */
void dispenser_cluster_judge(struct dispenser_cluster *cluster, const char *doubt);

struct dispenser_config {
    const struct keys *keys; /* outlives it */
    const char *name;        /* of the sequence; copied */
    uint64_t retry_min_ms, retry_max_ms;
};

struct dispenser;
struct dispenser *dispenser_new(const struct dispenser_config *config);
void dispenser_free(struct dispenser *dispenser);
const char *dispenser_name(const struct dispenser *dispenser);

/* Takes ids->want values into ids->runs, all of them or none:
 *   SERVICE_DONE    they are there
 *   SERVICE_WAIT    to be tried again after dispenser_changed()
 *   SERVICE_FAILED  err says why */
enum service_outcome dispenser_take(struct dispenser *dispenser,
                                    const struct dispenser_cluster *cluster,
                                    struct service_ids *ids, struct service_error *err);

/* What to send now; NULL: nothing, and *wake_boot_ms says when to ask again at the latest (UINT64_MAX: when
 * something has happened).  One transaction is under way at a time; it lives until it is answered. */
const struct etcd_txn *dispenser_next(struct dispenser *dispenser,
                                      const struct dispenser_cluster *cluster, struct instant now,
                                      uint64_t *wake_boot_ms);
/* Would dispenser_next() have something to send, as far as this sequence is concerned? */
bool dispenser_wants(const struct dispenser *dispenser);
/* Its outcome; err is NULL on success.  An answer that is not to be believed is STATUS_UNKNOWN. */
void dispenser_answered(struct dispenser *dispenser, const struct dispenser_cluster *cluster,
                        struct instant now, const struct error *err,
                        const struct etcd_txn_result *result);
/* The watch showed the record; value NULL: it showed none. */
void dispenser_seen(struct dispenser *dispenser, const char *value, size_t len);

/* Has something happened that callers may wait for?  Says so once: all of them ask again then. */
bool dispenser_changed(struct dispenser *dispenser);
/* Since when etcd is known to have no such sequence; 0: it has, or that is not known. */
uint64_t dispenser_absent_boot_ms(const struct dispenser *dispenser);

struct dispenser_view {
    bool known; /* the record was read; else only name and reason count */
    char name[SEQUENCE_NAME_MAX + 1];
    enum sequence_mode mode;
    size_t n_shards;
    uint64_t layout, block;
    uint64_t top;  /* at or above this nothing is known to have been granted, to anybody */
    uint64_t held; /* granted, and not issued yet: what a crash loses */
    uint64_t issued_total, granted_total;
    uint64_t lost_total;   /* granted, or perhaps, and never issued */
    uint64_t grants_total; /* transactions that were confirmed */
    char reason[200];      /* why nothing is granted; "" when all is well */
};
void dispenser_look(const struct dispenser *dispenser, const struct dispenser_cluster *cluster,
                    struct dispenser_view *view);

#endif
