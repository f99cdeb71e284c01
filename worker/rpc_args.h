/* rpc_args.h - [pure] what gRPC clients ask of IdService, and the messages that answer them.
 *
 * On failure a reader returns false and *err says why.  Messages are allocated, with
 * GRPC_PREFIX_BYTES of room before them that len counts too: what grpc_send() takes. */
#ifndef SNOWFLEET_WORKER_RPC_ARGS_H
#define SNOWFLEET_WORKER_RPC_ARGS_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/args.h"
#include "worker/service.h"

enum rpc_form { RPC_IDS, RPC_RANGES, RPC_TEXT };

struct rpc_ids_args {
    struct ids_args ids; /* count: of one message */
    enum rpc_form form;
    bool endless;  /* a stream until it is cancelled */
    uint64_t left; /* a stream that is not: how many are still to come */
};

bool rpc_next_args(const uint8_t *bytes, size_t len, struct rpc_ids_args *args,
                   struct service_error *err);
bool rpc_batch_args(const uint8_t *bytes, size_t len, struct rpc_ids_args *args,
                    struct service_error *err);
bool rpc_stream_args(const uint8_t *bytes, size_t len, struct rpc_ids_args *args,
                     struct service_error *err);
bool rpc_decode_args(const uint8_t *bytes, size_t len, struct id_value *id,
                     struct service_error *err);
bool rpc_encode_args(const uint8_t *bytes, size_t len, struct id_value *id,
                     struct service_error *err);

/* Any message, framed. */
uint8_t *rpc_pack(const ProtobufCMessage *message, size_t *len);

/* NextResponse with the one ID there is; NextBatchResponse. */
uint8_t *rpc_next_message(const struct service_ids *ids, const struct rpc_ids_args *args,
                          size_t *len);
uint8_t *rpc_batch_message(const struct service_ids *ids, const struct rpc_ids_args *args,
                           size_t *len);
/* DecodeResponse; holder: NULL when not known.  EncodeResponse. */
uint8_t *rpc_decode_message(const struct id_facts *facts, const char *holder, size_t *len);
uint8_t *rpc_encode_message(const struct id_facts *facts, size_t *len);

#endif
