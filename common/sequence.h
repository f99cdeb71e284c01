/* sequence.h - [pure] the record of a named sequence, seq/<name>, and its arithmetic.
 *
 * A sequence gives the values of 0..SEQUENCE_VALUE_MAX, each once.  Workers are granted some of them at a
 * time by a transaction that compares the exact record and writes the one after it, so no value is granted
 * twice; what is granted and not issued is lost.  With n shards, shard k gives every n-th value from its
 * own first one on; the values of the shards never meet.
 *
 *   {"format":1,"serial":"7","state":"OPEN","mode":"stride","layout":"2","block":1000,"max_rate":1000000,
 *    "pace_ms":"1767225600000","next":["4000","2","3"]}
 *
 * Nothing in it ever falls: not the serial, not the layout, not the highest of what was granted, and the
 * pace only by `set --next` and recover after a clock was far ahead.  So a record that was dropped stays, and a
 * sequence of that name that is made anew goes on above it.
 *
 * The pace bounds what can have been granted while nobody kept a record of it: a grant of n values moves
 * pace_ms on by n / max_rate from the later of itself and now, and never further than SEQUENCE_BURST_MS
 * beyond now.  From a copy of the record, however old, follows how far the sequence can have come since
 * (sequence_fence()).  That is what recover rests on, so max_rate is fixed once the sequence is made. */
#ifndef SNOWFLEET_COMMON_SEQUENCE_H
#define SNOWFLEET_COMMON_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

#define SEQUENCE_FORMAT 1
#define SEQUENCE_NAME_MAX 64u   /* characters: a-z A-Z 0-9 . _ - */
#define SEQUENCES_MAX 1000u     /* of one cluster, dropped ones among them */
#define SEQUENCE_SHARDS_MAX 64u /* of one sequence */
#define SEQUENCE_VALUE_MAX ((uint64_t)INT64_MAX)
#define SEQUENCE_NEXT_MAX (SEQUENCE_VALUE_MAX + SEQUENCE_SHARDS_MAX)
#define SEQUENCE_BLOCK_MAX 1000000u
#define SEQUENCE_BLOCK_DEFAULT 1000u
#define SEQUENCE_RATE_MAX 1000000000u
#define SEQUENCE_RATE_DEFAULT 1000000u
#define SEQUENCE_BURST_MS UINT64_C(10000)
#define SEQUENCE_BURST_S (SEQUENCE_BURST_MS / 1000)

enum sequence_mode { SEQUENCE_BLOCK, SEQUENCE_STRIDE };
const char *sequence_mode_name(enum sequence_mode mode);

struct sequence {
    uint64_t serial; /* raised by every write; 1.. */
    bool dropped;    /* nothing is granted any more */
    enum sequence_mode mode;
    uint64_t
        layout; /* raised by what makes workers forget what they hold: reshard, set, drop, recover */
    uint64_t block;    /* values that are granted at a time, or a multiple of it */
    uint64_t max_rate; /* values a second, of all workers together; block is at most 10 s of it */
    uint64_t pace_ms;  /* Unix ms; see above */
    size_t n_shards;   /* 1.. ; 1 in block mode */
    uint64_t next[SEQUENCE_SHARDS_MAX]; /* of each shard the next value to grant; above
                                           SEQUENCE_VALUE_MAX: exhausted */
};

/* STATUS_INVALID: what a name must be, and what it is. */
enum status sequence_name_check(const char *name, size_t len, struct error *err);

/* As the records of records.h: STATUS_PROTOCOL, or STATUS_REFUSED for a higher format. */
enum status sequence_parse(const char *text, size_t len, struct sequence *sequence,
                           struct error *err);
/* What sequence_parse() will say of it: for whoever makes one from options. */
enum status sequence_check(const struct sequence *sequence, struct error *err);
/* before: the text that it replaces, whose unknown fields are kept; NULL for a first write. */
char *sequence_format(const struct sequence *sequence, const char *before);

/* Whether found is sent, or became of it by grants alone: of a write of unknown outcome, whether it arrived.
 * Serial and layout alone do not tell: a grant, or another operator, raises them as well. */
bool sequence_follows(const struct sequence *found, const struct sequence *sent);

/* What was never granted lies at or above this, whatever the shard. */
uint64_t sequence_top(const struct sequence *sequence);
/* How many values that shard has still to grant. */
uint64_t sequence_left(const struct sequence *sequence, size_t shard);

/* The values first, first + step, ... of which there are count. */
struct sequence_grant {
    uint64_t first, count, step;
};
/* Grants up to blocks (1..) blocks of a shard at now_ms and makes *sequence the record to be written.  On
 * any other status both stay as they were:
 *   STATUS_STARVED      that shard is exhausted
 *   STATUS_BUSY         max_rate allows it only in *wait_ms
 *   STATUS_CLOCK_RANGE  there are no such times */
enum status sequence_grant(struct sequence *sequence, size_t shard, uint64_t blocks,
                           uint64_t now_ms, struct sequence_grant *grant, uint64_t *wait_ms);

/* Changes, each of which makes *sequence the record to be written.
 *
 * Begins a new layout of n_shards shards whose first value is base or above: base is at least
 * sequence_top().  What lies beyond SEQUENCE_VALUE_MAX is exhausted. */
void sequence_rebase(struct sequence *sequence, uint64_t base, size_t n_shards);
/* The same, above everything granted.  Counts as a grant of one value; statuses as of sequence_grant(), but
 * for STATUS_STARVED. */
enum status sequence_reshard(struct sequence *sequence, size_t n_shards, uint64_t now_ms,
                             uint64_t *wait_ms);
/* Above all that can have been granted until until_ms by those who went on from this record, of which
 * this may be an old copy, other fences among them; and above evidence (a value that is known not to have
 * been passed; 0: none).  Whoever granted had a clock that was no later than until_ms.  It uses up the burst:
 * grants go on when clocks have passed until_ms.
 * A pace that is further ahead than such clocks make it shows that one was; then nobody can tell how far the
 * sequence came, and it is dropped: who makes it anew has to say where it starts. */
void sequence_fence(struct sequence *sequence, uint64_t until_ms, uint64_t evidence);

#endif
