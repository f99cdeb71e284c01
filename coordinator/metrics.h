/* metrics.h - what a coordinator shows on /metrics, in Prometheus' text format.
 *
 * Labels are bounded by the fleet: a few fixed words, and for what is told of each worker the machine
 * ID (the lowest that it holds, so at most 1,024 and never two of one) with its identity.  Workers
 * that hold none are counted, not listed; claims, leases and instances are no labels. */
#ifndef SNOWFLEET_COORDINATOR_METRICS_H
#define SNOWFLEET_COORDINATOR_METRICS_H

#include "coordinator/web.h"

/* The caller's to free(). */
char *metrics_spell(const struct web *web);

#endif
