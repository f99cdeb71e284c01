/* random_pool.h - the kernel's randomness a page at a time, for those that need much of it in small
 * pieces: a call of the kernel for each 16 bytes costs more than making a UUID of them.
 *
 * What was given out is wiped from the pool.  A child of fork() finds the pool empty (the kernel
 * does that: MADV_WIPEONFORK), so the two never give the same bytes.  Not thread-safe. */
#ifndef SNOWFLEET_COMMON_RANDOM_POOL_H
#define SNOWFLEET_COMMON_RANDOM_POOL_H

#include <stddef.h>

#include "common/status.h"

/* Where its bytes come from: random_bytes(), or what a test puts in its place. */
typedef enum status random_source_fn(void *buf, size_t len, struct error *err);

struct random_pool;

/* NULL when the system has no such page; err says why. */
struct random_pool *random_pool_new(random_source_fn *source, struct error *err);
void random_pool_free(struct random_pool *pool);

/* Fills buf[len], len 1..RANDOM_POOL_TAKE_MAX.  On failure, that of the source, buf is not to be
 * used; the next call asks the source again. */
#define RANDOM_POOL_TAKE_MAX 64u
enum status random_pool_take(struct random_pool *pool, void *buf, size_t len, struct error *err);

#endif
