/* recover.h - [pure] what is still known of a cluster after etcd lost some of its history: the
 * evidence of workers and of their state files, and the meta that follows from it.
 *
 * Nothing is defaulted.  Where two of those that know something contradict each other, both are
 * named and nothing is done, unless the operator says which it is. */
#ifndef SNOWFLEET_COORDINATOR_RECOVER_H
#define SNOWFLEET_COORDINATOR_RECOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/keys.h"
#include "common/records.h"
#include "common/sequence.h"
#include "common/state_record.h"
#include "common/status.h"

#define RECOVER_NAME_MAX 128

/* A machine ID that somebody holds or held. */
struct recover_slot {
    uint16_t machine_id;
    char claim[HEX128_CHARS + 1]; /* "": being claimed */
    uint64_t until_ms;            /* no ID of it that was issued so far carries a later time */
};

/* A sequence that a worker gives values of. */
struct recover_sequence {
    char name[SEQUENCE_NAME_MAX + 1];
    uint64_t top; /* nothing at or above it was granted, as far as that worker knows */
};

/* What one worker or one state file says. */
struct recover_source {
    char name[RECOVER_NAME_MAX];     /* for messages */
    char instance[HEX128_CHARS + 1]; /* of a worker; "" for a file */
    char cluster[KEYS_CLUSTER_MAX + 1];
    bool knows_meta; /* else a worker that has never read it */
    struct meta
        meta; /* era, earlier eras, epoch, range and reserved; the rest counts for nothing */
    struct recover_slot slots[RECORD_MACHINES_MAX];
    size_t n_slots;
    struct recover_sequence sequences[SEQUENCES_MAX]; /* none in a state file */
    size_t n_sequences;
};

/* Reads a worker's /v1/status.  A write of unknown outcome counts as the most that it can have asked
 * for: as it says, or, of one that does not say it yet, a window ahead of its clock.  STATUS_PROTOCOL: no such answer; *source is of no use. */
enum status recover_from_status(const char *text, size_t len, const char *name,
                                struct recover_source *source, struct error *err);
/* STATUS_REFUSED: the record of a standalone worker, which has no cluster. */
enum status recover_from_record(const struct state_record *record, const char *name,
                                struct recover_source *source, struct error *err);

/* What the operator says on the command line. */
struct recover_orders {
    bool has_epoch, has_range, has_reserved, has_limits;
    struct meta meta; /* what of it was said; has_limits: the three of max_window_ms on; and the
                         earlier eras, of which there may be none */
};

/* All of it together. */
struct recover_evidence {
    uint64_t until_ms[MACHINE_IDS]; /* 0: nothing is known */
    struct meta meta;               /* as settled so far */
    bool has_epoch, has_range, has_reserved, has_limits;
    char epoch_from[RECOVER_NAME_MAX]; /* who said so first */
    char range_from[RECOVER_NAME_MAX];
    char reserved_from[RECOVER_NAME_MAX];
    /* All eras that somebody names, the newest that is known among them first. */
    char eras[RECORD_EARLIER_ERAS_MAX][HEX128_CHARS + 1];
    size_t n_eras;
    struct recover_sequence sequences[SEQUENCES_MAX];
    size_t n_sequences;
};

/* found: the meta that etcd still has; NULL when it is gone.  STATUS_REFUSED: the orders contradict
 * it where it cannot be changed. */
enum status recover_begin(struct recover_evidence *evidence, const struct recover_orders *orders,
                          const struct meta *found, struct error *err);
/* STATUS_REFUSED names the contradiction; *evidence is of no use then. */
enum status recover_add(struct recover_evidence *evidence, const struct recover_source *source,
                        const char *cluster, struct error *err);
/* Is everything known that a meta consists of?  STATUS_REFUSED names what is missing. */
enum status recover_complete(const struct recover_evidence *evidence, struct error *err);

/* The frozen meta that stands while recover works: *meta, all zero when there was none, with what
 * the evidence adds.  Its era is one that workers live in, so that they serve to their limits. */
enum status recover_freeze(const struct recover_evidence *evidence, const char *reason,
                           struct meta *meta, struct error *err);
/* And the one after it: of a new era, with a floor that no window granted before now_ms reaches, if
 * its holder's clock is within the allowed offset; open, and marked like one of `init --if-needed`.  floor_ms: at least so high. */
enum status recover_open(const struct recover_evidence *evidence, const char *era, uint64_t now_ms,
                         uint64_t floor_ms, struct meta *meta, struct error *err);

/* The highest top that anybody knows of a sequence; 0: nobody knows it. */
uint64_t recover_sequence(const struct recover_evidence *evidence, const char *name);
/* What hor of a machine ID has to be at least, once all is known; 0: it is not given out. */
uint64_t recover_horizon(const struct recover_evidence *evidence, uint16_t machine_id);
/* The highest evidence for machine IDs that are not given out: for them the floor has to do. */
uint64_t recover_unplaced(const struct recover_evidence *evidence);

#endif
