/* state_record.h - [pure] what a state file holds: its records, their bytes, and which of the two
 * is to be believed.  state_file.h does the reading and writing.
 *
 * A file is two blocks of STATE_RECORD_BYTES, each a whole record.  Both are written with every
 * change, one after the other, so at any moment at least one of them is whole, and that one covers
 * every ID issued so far.
 *
 * A block, numbers in little-endian order:
 *     0  "snowfleet-state\n"
 *    16  u32  format, 1
 *    20  u32  kind
 *    24  u64  sequence, 1..: counts the writes
 *    32  the fields, as state_record.c lists them, then zeros
 *  4092  u32  CRC-32 of all bytes before it
 * Equal records are equal bytes; whatever is spelt otherwise is not valid. */
#ifndef SNOWFLEET_COMMON_STATE_RECORD_H
#define SNOWFLEET_COMMON_STATE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/keys.h"
#include "common/records.h"
#include "common/status.h"

#define STATE_RECORD_BYTES 4096u
#define STATE_RECORDS 2u
#define STATE_FILE_BYTES (STATE_RECORDS * STATE_RECORD_BYTES)
#define STATE_SEQUENCE_MAX ((uint64_t)INT64_MAX) /* a write each ms would get there in 292 My */
#define STATE_HOST_MAX 80                        /* characters of a host's name for itself */

enum state_kind {
    STATE_STANDALONE = 1, /* the horizon of a worker without etcd: uniqueness rests on it */
    STATE_CLUSTER = 2     /* what a worker knew of etcd: evidence for `recover`, and no more */
};

/* Cluster: a machine ID that this host has held, with the highest timestamps it may have used. */
struct state_machine {
    uint16_t machine_id;
    char claim[HEX128_CHARS + 1]; /* "": still being claimed */
    uint64_t granted_ms;          /* the highest horizon that etcd is known to have had */
    uint64_t pending_ms;          /* the highest of the values of unknown outcome; 0: none */
};

struct state_record {
    uint64_t sequence;
    enum state_kind kind;
    char host[STATE_HOST_MAX + 1]; /* who wrote it: state_host() */
    uint64_t epoch_ms;

    /* Standalone, else 0. */
    uint16_t machine_id; /* the last one; the horizon stands for all */
    uint64_t horizon_ms; /* the highest timestamp that may have been used: epoch..its end */

    /* Cluster, else "" and 0. */
    char cluster[KEYS_CLUSTER_MAX + 1];
    char era[HEX128_CHARS + 1];
    char earlier_eras[RECORD_EARLIER_ERAS_MAX][HEX128_CHARS + 1];
    size_t n_earlier_eras;
    uint16_t first_machine_id, last_machine_id;
    bool reserved[MACHINE_IDS];
    uint64_t revision; /* the highest that etcd has shown in this era */
    struct state_machine machines[RECORD_MACHINES_MAX]; /* those held now first, then former ones */
    size_t n_machines;
};

/* Spells a record whose fields are within their ranges. */
void state_record_encode(const struct state_record *record,
                         unsigned char bytes[static STATE_RECORD_BYTES]);
/* Reads one of len bytes, of which a record needs STATE_RECORD_BYTES.  On failure *record stays as
 * it was and err says why:
 *   STATUS_PROTOCOL  no valid record: torn, damaged, or never written
 *   STATUS_REFUSED   written by a newer program */
enum status state_record_decode(const unsigned char *bytes, size_t len, struct state_record *record,
                                struct error *err);
/* Takes the valid record with the highest sequence of a file's first len bytes, and says at which
 * index it stands.  Refuses what decode refuses, when neither is valid, and when two records of one
 * sequence differ; a record of a newer program is refused even beside a valid one. */
enum status state_record_choose(const unsigned char *bytes, size_t len, struct state_record *record,
                                size_t *index, struct error *err);

/* Puts what is known of a machine ID in front.  For a machine ID that is there already granted_ms
 * never falls.  When there is no room the last one goes. */
void state_record_note(struct state_record *record, const struct state_machine *machine);

#endif
