/* api.h - the worker's HTTP interface: what each path and method means.
 *
 * One for each serving loop, on its thread only. */
#ifndef SNOWFLEET_WORKER_API_H
#define SNOWFLEET_WORKER_API_H

#include <stdbool.h>
#include <stddef.h>

#include "common/clock.h"
#include "common/http_server.h"
#include "common/id128_source.h"
#include "common/public_id.h"
#include "common/tokens.h"
#include "worker/clock_board.h"
#include "worker/park.h"
#include "worker/sequences.h"
#include "worker/service.h"
#include "worker/view.h"

struct api {
    const struct clock_board *clock_board;
    struct service *service;
    struct id128_source *source; /* of UUIDs and ULIDs */
    struct sequences *sequences; /* NULL: there are none */
    struct park *park;
    struct view_board *board;
    struct loop_gauges *all_gauges; /* of all loops of the worker */
    size_t n_loops;
    struct public_codec *codec;  /* NULL: no public IDs */
    const struct tokens *tokens; /* what all but /livez and /readyz need; NULL: nothing */
    uint64_t unauthenticated_total;
    bool draining; /* /readyz says no, everything else goes on */
};

/* The handler of http_server.h; arg is a struct api. */
void api_handle(void *arg, struct http_exchange *exchange);

#endif
