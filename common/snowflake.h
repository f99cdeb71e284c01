/* snowflake.h - the 64-bit ID: 0 | 41 bits of ms since the epoch | 10 bits of machine ID |
 * 12 bits of sequence.  Always positive as an int64_t.
 *
 * A generator is not thread-safe: one for each serving loop, which owns it.
 * Invariant: every (timestamp, sequence) of a generator is above the one before, and every
 * timestamp is at most limit_ms.
 *
 * Source: Twitter's Snowflake (2010), with the machine ID's time fenced by a granted limit. */
#ifndef SNOWFLEET_COMMON_SNOWFLAKE_H
#define SNOWFLEET_COMMON_SNOWFLAKE_H

#include <stdint.h>

#include "common/status.h"

#define SNOWFLAKE_EPOCH_MS UINT64_C(1704067200000) /* 2024-01-01T00:00:00Z, the default epoch */
#define SNOWFLAKE_TIMESTAMP_MAX ((UINT64_C(1) << 41) - 1) /* ms since the epoch, included */
#define SNOWFLAKE_MACHINE_ID_MAX 1023u
#define SNOWFLAKE_SEQUENCE_MAX 4095u

/* Which sequence number a fresh millisecond begins with.  After a full millisecond it is 0 either
 * way, so that under load all 4096 are used. */
enum snowflake_start {
    SNOWFLAKE_START_SPREAD, /* rotates over 0..255: IDs modulo N spread evenly at low rates */
    SNOWFLAKE_START_ZERO    /* the classic reset */
};

struct snowflake {
    uint64_t epoch_ms;     /* Unix ms that timestamp 0 stands for */
    uint64_t last_wall_ms; /* of the newest ID, Unix ms */
    uint64_t limit_ms;     /* no ID may carry a later timestamp: etcd granted us no more */
    uint16_t machine_id;   /* 0..1023, ours for timestamps up to limit_ms */
    uint16_t sequence;     /* of the newest ID within its millisecond */
    uint8_t next_start;    /* where the next fresh millisecond begins, with START_SPREAD */
    enum snowflake_start start;
};

/* A generator whose newest timestamp is used_up_ms with its sequence numbers all used: the first
 * ID is dated used_up_ms + 1 or later.  used_up_ms may be below the epoch by 1 at most. */
void snowflake_init(struct snowflake *gen, uint64_t epoch_ms, uint16_t machine_id,
                    uint64_t used_up_ms, uint64_t limit_ms, enum snowflake_start start);

/* IDs that follow one another, all of one millisecond: first, first + 1, ... first + (count - 1).
 * The last may be INT64_MAX, so first + count is not to be computed. */
struct snowflake_run {
    int64_t first;
    uint32_t count;
};

/* Takes up to want (1..) IDs of one millisecond, as many as it still has, dated now_ms.  On any
 * status but STATUS_OK nothing is taken and *run stays as it was:
 *   STATUS_BUSY        the millisecond last_wall_ms is used up: wait for the next
 *   STATUS_CLOCK_BACK  now_ms is behind last_wall_ms
 *   STATUS_STARVED     now_ms is past limit_ms: extend the horizon first
 *   STATUS_CLOCK_RANGE now_ms is before the epoch, or past the epoch + SNOWFLAKE_TIMESTAMP_MAX */
enum status snowflake_take(struct snowflake *gen, uint64_t now_ms, uint32_t want,
                           struct snowflake_run *run);

/* Takes one. */
enum status snowflake_next(struct snowflake *gen, uint64_t now_ms, int64_t *id);

struct snowflake_parts {
    uint64_t timestamp_ms; /* Unix ms, epoch added */
    uint16_t machine_id;
    uint16_t sequence;
};
/* id is 0..INT64_MAX: every such number is a well-formed ID. */
struct snowflake_parts snowflake_decode(int64_t id, uint64_t epoch_ms);

/* The smallest and the largest ID that can carry the given Unix ms, which lies within the epoch's
 * 2^41 ms; STATUS_CLOCK_RANGE otherwise. */
enum status snowflake_range(uint64_t wall_ms, uint64_t epoch_ms, int64_t *smallest,
                            int64_t *largest);

/* The last Unix ms that IDs of this epoch can carry. */
static inline uint64_t snowflake_end_ms(uint64_t epoch_ms) {
    return epoch_ms + SNOWFLAKE_TIMESTAMP_MAX;
}

#endif
