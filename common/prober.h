/* prober.h - asks a worker's clock for its time: eight exchanges over one warm connection, of which
 * the one with the least delay counts.
 *
 * One more goes before them, which warms the connection and shows where the other's clocks stand.
 * Wall minus boot time is watched at both ends all through: a step drops the exchange and all before
 * it; what is too little for a step widens the bound, and so does what two clocks may gain on each
 * other (200 ppm) while an exchange lasts.  A server that closes its connections gets four
 * exchanges, each over a new one. */
#ifndef SNOWFLEET_COMMON_PROBER_H
#define SNOWFLEET_COMMON_PROBER_H

#include <stdint.h>

#include "common/clock.h"
#include "common/http_client.h"
#include "common/skew.h"

/* reading->heard is false when not a single exchange counts; reason says why.  Runs once, from
 * the loop, also when the client is closed. */
typedef void probe_fn(void *arg, const struct clock_reading *reading);

/* address: "host:port", copied.  timeout_ms: of one exchange; the first that fails ends the probe,
 * with what was heard until then. */
void probe_clock(struct http_client *client, struct clock clock, const char *address,
                 uint64_t timeout_ms, probe_fn *done, void *arg);

#endif
