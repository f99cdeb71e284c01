/* reflection.h - [pure] which .proto files are served, and what they define: answers to server
 * reflection. */
#ifndef SNOWFLEET_WORKER_REFLECTION_H
#define SNOWFLEET_WORKER_REFLECTION_H

#include <stddef.h>
#include <stdint.h>

struct reflection;

/* Reads the descriptors that are built into the program. */
struct reflection *reflection_new(void);
void reflection_free(struct reflection *reflection); /* NULL is let pass */

/* Answers one ServerReflectionRequest, of version 1 or 1alpha: they are the same on the wire.  The
 * answer is allocated, with GRPC_PREFIX_BYTES of room before it that answer_len counts too; NULL when
 * the bytes are no such request. */
uint8_t *reflection_answer(const struct reflection *reflection, const uint8_t *bytes, size_t len,
                           size_t *answer_len);

#endif
