/* pulse.h - what each worker is doing: asks its /v1/status now and then, for whoever looks at the
 * fleet.  Nothing is decided by it.
 *
 * Only workers whose clock was heard are asked, so that those that are gone cost one wait and not
 * two. */
#ifndef SNOWFLEET_COORDINATOR_PULSE_H
#define SNOWFLEET_COORDINATOR_PULSE_H

#include <stdint.h>

#include "common/clock.h"
#include "common/http_client.h"
#include "coordinator/cluster.h"

struct pulse;

struct pulse_config {
    struct http_client *client; /* outlives the requests */
    struct clock clock;
    struct cluster *cluster; /* the caller's; member.pulse is written here */
    uint64_t interval_ms;    /* between two questions to one worker */
};
struct pulse *pulse_new(const struct pulse_config *config);
/* After the client was closed. */
void pulse_free(struct pulse *pulse);

/* Asks whom it is time to ask, a few at a time. */
void pulse_tick(struct pulse *pulse);

#endif
