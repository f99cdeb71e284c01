/* web.h - the coordinator over HTTP: its page, /livez, /readyz, /metrics, /v1/status, /v1/fleet,
 * /v1/skew/history, /v1/openapi.json.  It only shows; who wants to change anything needs etcd's
 * rights. */
#ifndef SNOWFLEET_COORDINATOR_WEB_H
#define SNOWFLEET_COORDINATOR_WEB_H

#include "common/clock.h"
#include "common/etcd_http.h"
#include "common/http_server.h"
#include "coordinator/assigner.h"
#include "coordinator/body.h"
#include "coordinator/cluster.h"
#include "coordinator/election.h"
#include "coordinator/evictor.h"
#include "coordinator/page.h"
#include "coordinator/raiser.h"
#include "coordinator/rollback.h"
#include "coordinator/skew_history.h"

/* All of it is the caller's but the last two. */
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
    const struct page *page;
    /* The answer to /v1/fleet, which is made once a second at most however many look. */
    struct body *fleet;
    uint64_t fleet_boot_ms; /* when it was made */
};

/* Frees what web_handle() made. */
void web_done(struct web *web);

/* For http_server_config.handle; arg is the struct web. */
void web_handle(void *arg, struct http_exchange *exchange);

#endif
