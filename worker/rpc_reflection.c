#include "worker/rpc_internal.h"

void rpc_reflect(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len) {
    struct rpc *rpc = arg;
    size_t answer_len;
    uint8_t *answer = reflection_answer(rpc->reflection, bytes, len, &answer_len);

    if (answer)
        (void)grpc_send(call, answer, answer_len); /* nothing here belongs to the call */
    else
        grpc_finish(call, GRPC_INTERNAL,
                    "the request is no grpc.reflection.v1.ServerReflectionRequest", GRPC_NO_RETRY);
}

void rpc_reflect_end(void *arg, struct grpc_call *call) {
    (void)arg;
    grpc_finish(call, GRPC_OK, NULL, GRPC_NO_RETRY);
}
