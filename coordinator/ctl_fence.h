/* ctl_fence.h - part of snowfleetctl recover: sequences, while meta is frozen. */
#ifndef SNOWFLEET_COORDINATOR_CTL_FENCE_H
#define SNOWFLEET_COORDINATOR_CTL_FENCE_H

#include "coordinator/ctl_session.h"
#include "coordinator/recover.h"

/* Moves each sequence that etcd knows above all that can have been granted by those whose history was lost
 * (sequence_fence()).  frozen is the meta that stands meanwhile; NULL: only counts, for a dry run.
 * Says on stderr which sequences are damaged, and left alone, and which ones workers know and etcd does
 * not.  *n: how many were fenced, or would be. */
enum status ctl_fence_sequences(struct ctl_session *session,
                                const struct recover_evidence *evidence, const char *frozen,
                                unsigned *n, struct error *err);

#endif
