/* random.h - randomness from the kernel.
 *
 * Nothing is kept back in the process, so nothing can be given out twice after a fork().
 * Thread-safe. */
#ifndef SNOWFLEET_COMMON_RANDOM_H
#define SNOWFLEET_COMMON_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* Fills buf[len].  Waits only while a booting machine has no randomness yet.  STATUS_SYSTEM: the
 * kernel gives none (a sandbox forbids getrandom); buf is then not to be used. */
enum status random_bytes(void *buf, size_t len, struct error *err);

/* The same for those that have no use for a failure: they end the process with a message, since
 * a name that is not random may be somebody else's.  A program that would rather say so itself
 * calls random_bytes() once at its start. */
void random_hex128(char out[static 33]); /* 128 bits as 32 lower-case hex digits and a NUL */
uint64_t random_u64(void);

#endif
