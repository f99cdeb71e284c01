/* id128_source.h - where a process takes its UUIDs and ULIDs from.
 *
 * One source a process, used by all its threads and transports: a generator for each kind, each
 * behind a mutex of its own, so that UUIDv7 and ULID strictly increase over all of them.  Needs no
 * machine ID and no etcd.  A child of fork() must not use its parent's source for UUIDv7 and ULID:
 * their counters would go on in both (the random bytes would differ; see random_pool.h). */
#ifndef SNOWFLEET_COMMON_ID128_SOURCE_H
#define SNOWFLEET_COMMON_ID128_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "common/id128.h"
#include "common/random_pool.h"
#include "common/status.h"

enum id128_kind { ID128_UUIDV4, ID128_UUIDV7, ID128_ULID, ID128_KINDS };

struct id128_source;

/* random is random_bytes() but in tests.  NULL on failure. */
struct id128_source *id128_source_new(random_source_fn *random, struct error *err);
void id128_source_free(struct id128_source *source);

/* Takes want (1..) IDs into ids[], in order, dated now_ms or later; *have says how many it took,
 * whatever the status:
 *   STATUS_OK          all of them
 *   STATUS_BUSY        the rest has to wait for the next millisecond
 *   STATUS_CLOCK_RANGE 48 bits do not hold the time
 *   STATUS_SYSTEM      the kernel gives no randomness; err says why */
enum status id128_source_take(struct id128_source *source, enum id128_kind kind, uint64_t now_ms,
                              struct id128 *ids, size_t want, size_t *have, struct error *err);

/* How far the newest UUIDv7 or ULID is dated ahead of now_ms, since the clock went back; 0: not at
 * all. */
uint64_t id128_source_ahead_ms(struct id128_source *source, enum id128_kind kind, uint64_t now_ms);

#endif
