/* presence.h - asks a holder's /v1/status whether it still holds its machine ID. */
#ifndef SNOWFLEET_COORDINATOR_PRESENCE_H
#define SNOWFLEET_COORDINATOR_PRESENCE_H

#include <stdint.h>

#include "common/http_client.h"
#include "common/records.h"
#include "coordinator/reclaim.h"

/* reason: why it is SILENT or UNCLEAR, else "".  Runs once, from the loop; when the client is closed
 * first, with PRESENCE_NOT_ASKED. */
typedef void presence_fn(void *arg, enum presence presence, const char *reason);

/* holder is copied; without an HTTP address it counts as SILENT. */
void presence_ask(struct http_client *client, const struct own *holder, uint64_t timeout_ms,
                  presence_fn *done, void *arg);

#endif
