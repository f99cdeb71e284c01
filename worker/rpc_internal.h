/* rpc_internal.h - what the files of the gRPC interface share; nobody else includes it.
 *
 *   rpc.c             the table of methods; clock, tokens, life
 *   rpc_ids.c         IdService
 *   rpc_health.c      grpc.health.v1
 *   rpc_reflection.c  server reflection */
#ifndef SNOWFLEET_WORKER_RPC_INTERNAL_H
#define SNOWFLEET_WORKER_RPC_INTERNAL_H

#include "worker/reflection.h"
#include "worker/rpc.h"
#include "worker/rpc_args.h"

struct rpc {
    struct rpc_config config;
    struct grpc_server *server;
    struct reflection *reflection;
    bool draining;
    struct rpc_stream *streams;
    struct rpc_watcher *watchers;
};

uint64_t rpc_now_ms(const struct rpc *rpc);
/* Ends a call with what the service says of it. */
void rpc_refuse(struct grpc_call *call, const struct service_error *err);

/* Handlers: grpc_method.message of grpc_server.h. */
void rpc_next(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len);
void rpc_next_batch(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len);
void rpc_stream(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len);
void rpc_decode(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len);
void rpc_encode(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len);
void rpc_check(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len);
void rpc_watch(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len);
void rpc_reflect(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len);
void rpc_reflect_end(void *arg, struct grpc_call *call);

/* Ends the streams that have no end of their own. */
void rpc_end_streams(struct rpc *rpc);

#endif
