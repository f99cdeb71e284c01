/* prober.h - asks a worker's clock for its time: eight exchanges over one warm connection, of which
 * the one with the least delay counts.
 *
 * An exchange during which our own clock was stepped is dropped; what a slew moved widens the
 * bound. */
#ifndef SNOWFLEET_COMMON_PROBER_H
#define SNOWFLEET_COMMON_PROBER_H

#include <stdint.h>

#include "common/clock.h"
#include "common/http_client.h"
#include "common/skew.h"

/* reading->heard is false when not a single exchange succeeded; reason says why.  Runs once, from
 * the loop, also when the client is closed. */
typedef void probe_fn(void *arg, const struct clock_reading *reading);

/* address: "host:port", copied.  timeout_ms: of one exchange; the first that fails ends the probe,
 * with what was heard until then. */
void probe_clock(struct http_client *client, struct clock clock, const char *address,
                 uint64_t timeout_ms, probe_fn *done, void *arg);

#endif
