/* evidence.h - what a worker of a fleet knows of etcd, kept in a state file for `snowfleetctl
 * recover` and for the next start.  Uniqueness does not rest on it: a write that fails is logged
 * once, and the service goes on.
 *
 * On the control loop's thread; the disk is waited for by a thread of libuv's pool, so that a sick
 * one holds up neither the extensions nor the IDs. */
#ifndef SNOWFLEET_WORKER_EVIDENCE_H
#define SNOWFLEET_WORKER_EVIDENCE_H

#include <uv.h>

#include "common/clock.h"
#include "common/state_file.h"

struct evidence;

/* Takes over file, which holds *record. */
struct evidence *evidence_new(uv_loop_t *loop, const struct clock *clock, struct state_file *file,
                              const struct state_record *record);
/* When the loop has ended: a write under way keeps it running.  NULL is let pass. */
void evidence_free(struct evidence *evidence);

/* The record as it was last noted, or read at the start. */
const struct state_record *evidence_record(const struct evidence *evidence);
/* What is to be on disk, as soon as may be.  Copied; a record that differs in its sequence and
 * revision only is not worth a write. */
void evidence_note(struct evidence *evidence, const struct state_record *record);

#endif
