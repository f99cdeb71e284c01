/* rpc.h - the worker's gRPC interface: what each method means.
 *
 * One for each serving loop, on its thread only.  The requests mean what they mean over HTTP (api.h). */
#ifndef SNOWFLEET_WORKER_RPC_H
#define SNOWFLEET_WORKER_RPC_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/clock.h"
#include "common/grpc_server.h"
#include "common/public_id.h"
#include "common/tokens.h"
#include "worker/clock_board.h"
#include "worker/park.h"
#include "worker/service.h"
#include "worker/view.h"

struct rpc;

struct rpc_config {
    const struct clock *clock; /* that of clock_board; these outlive it */
    const struct clock_board *clock_board;
    struct service *service;
    struct park *park;
    struct view_board *board;
    unsigned max_connections;
    uint64_t request_timeout_ms, max_age_ms;
    struct public_codec *codec;  /* NULL: no public IDs, for good */
    const struct tokens *tokens; /* what clients need; NULL: nothing, for good */
};
enum status rpc_new(uv_loop_t *loop, const struct rpc_config *config, struct rpc **rpc,
                    struct error *err);
/* The transport: where it listens, TLS, what goes on. */
struct grpc_server *rpc_server(struct rpc *rpc);

/* Other tokens; only where there were some. */
void rpc_set_tokens(struct rpc *rpc, const struct tokens *tokens);
/* Other keys for public IDs; only where there were some. */
void rpc_set_codec(struct rpc *rpc, struct public_codec *codec);
/* Something may have changed that Health.Watch tells of. */
void rpc_look(struct rpc *rpc);
/* Not serving from now on; clients are asked to go elsewhere, and streams without end do end. */
void rpc_drain(struct rpc *rpc);
/* Ends all calls. */
void rpc_end(struct rpc *rpc);
/* Closes everything, from the loop.  NULL is let pass. */
void rpc_close(struct rpc *rpc);

#endif
