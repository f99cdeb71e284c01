/* ctl_history.h - who held a machine ID and when, as far as etcd's history goes back. */
#ifndef SNOWFLEET_COORDINATOR_CTL_HISTORY_H
#define SNOWFLEET_COORDINATOR_CTL_HISTORY_H

#include <jansson.h>
#include <stdint.h>

#include "coordinator/ctl_session.h"

/* Newest first: {"machine_id","complete","claims":[{"claim","identity","instance","from_ms",
 * "until_ms","ended"}]}; the caller's.  etcd keeps no times, so these are derived from horizons:
 * from_ms is the horizon that came with the claim, less the largest window, but not before the
 * horizon that it found; until_ms is the last horizon, after which it issued nothing (before
 * from_ms: it issued nothing at all).  "ended" is "held", "released" (until_ms is exact), or "gone"
 * (expired, or taken back).  "complete" is false when etcd has compacted what was before. */
enum status ctl_history(struct ctl_session *session, uint16_t machine_id, json_t **history,
                        struct error *err);

#endif
