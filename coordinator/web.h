/* web.h - the coordinator over HTTP: /livez, /readyz, /metrics, /v1/status, /v1/skew/history,
 * /v1/openapi.json.  It only shows; who wants to change anything needs etcd's rights. */
#ifndef SNOWFLEET_COORDINATOR_WEB_H
#define SNOWFLEET_COORDINATOR_WEB_H

#include "common/clock.h"
#include "common/etcd_http.h"
#include "common/http_server.h"
#include "coordinator/assigner.h"
#include "coordinator/cluster.h"
#include "coordinator/election.h"
#include "coordinator/evictor.h"
#include "coordinator/skew_history.h"
#include "coordinator/raiser.h"
#include "coordinator/rollback.h"

/* All of it is the caller's. */
struct web {
    struct clock clock;
    const char *cluster_name;
    const char *instance;
    const struct cluster *cluster;
    const struct clocks *clocks;
    const struct election *election;
    const struct assigner *assigner;
    const struct evictor *evictor;
    const struct raiser *raiser;
    const struct rollback *rollback;
    const struct skew_history *history;
    const struct etcd_http *etcd;
    const char *trouble; /* why nothing can be assigned; "" when all is well */
};

/* For http_server_config.handle; arg is the struct web. */
void web_handle(void *arg, struct http_exchange *exchange);

#endif
