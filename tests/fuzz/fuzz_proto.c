/* Every message that crosses the wire, as bytes from anywhere; and what the interface makes of
 * requests, whose answers must be readable.  The first byte chooses. */
#include <stdbool.h>
#include <stdlib.h>

#include "common/grpc_message.h"
#include "descriptors.pb-c.h"
#include "grpc/health/v1/health.pb-c.h"
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "grpc/reflection/v1alpha/reflection.pb-c.h"
#include "snowfleet/v1/clock.pb-c.h"
#include "snowfleet/v1/ids.pb-c.h"
#include "worker/reflection.h"
#include "worker/rpc_args.h"

static void require(int holds) {
    if (!holds)
        abort();
}

static const ProtobufCMessageDescriptor *const types[] = {
    &snowfleet__v1__next_request__descriptor,
    &snowfleet__v1__next_response__descriptor,
    &snowfleet__v1__next_batch_request__descriptor,
    &snowfleet__v1__next_batch_response__descriptor,
    &snowfleet__v1__id_range__descriptor,
    &snowfleet__v1__stream_request__descriptor,
    &snowfleet__v1__decode_request__descriptor,
    &snowfleet__v1__decode_response__descriptor,
    &snowfleet__v1__encode_request__descriptor,
    &snowfleet__v1__encode_response__descriptor,
    &snowfleet__v1__interval__descriptor,
    &snowfleet__v1__probe_request__descriptor,
    &snowfleet__v1__probe_response__descriptor,
    &grpc__health__v1__health_check_request__descriptor,
    &grpc__health__v1__health_check_response__descriptor,
    &grpc__reflection__v1__server_reflection_request__descriptor,
    &grpc__reflection__v1__server_reflection_response__descriptor,
    &grpc__reflection__v1__extension_request__descriptor,
    &grpc__reflection__v1__file_descriptor_response__descriptor,
    &grpc__reflection__v1__extension_number_response__descriptor,
    &grpc__reflection__v1__list_service_response__descriptor,
    &grpc__reflection__v1__service_response__descriptor,
    &grpc__reflection__v1__error_response__descriptor,
    &grpc__reflection__v1alpha__server_reflection_request__descriptor,
    &grpc__reflection__v1alpha__server_reflection_response__descriptor,
    &grpc__reflection__v1alpha__extension_request__descriptor,
    &grpc__reflection__v1alpha__file_descriptor_response__descriptor,
    &grpc__reflection__v1alpha__extension_number_response__descriptor,
    &grpc__reflection__v1alpha__list_service_response__descriptor,
    &grpc__reflection__v1alpha__service_response__descriptor,
    &grpc__reflection__v1alpha__error_response__descriptor,
};
#define TYPES (sizeof types / sizeof types[0])

/* Nothing that was read is ever written again: protobuf-c does not keep unknown fields under odd
 * tags as they were. */
static bool readable(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t len) {
    ProtobufCMessage *message = protobuf_c_message_unpack(type, NULL, len, bytes);

    if (!message)
        return false;
    protobuf_c_message_free_unpacked(message, NULL);
    return true;
}

static void require_refusal(const struct service_error *err) {
    require(grpc_code_of(err->code) != GRPC_UNKNOWN && err->message[0]);
}

static void requests(const uint8_t *bytes, size_t len) {
    struct rpc_ids_args args;
    struct service_error err;
    struct id_value id = {.number = -1};

    if (rpc_next_args(bytes, len, &args, &err))
        require(args.ids.count == 1);
    else
        require_refusal(&err);
    if (rpc_batch_args(bytes, len, &args, &err))
        require(args.ids.count >= 1 && args.ids.count <= SERVICE_COUNT_MAX &&
                args.form <= RPC_TEXT);
    else
        require_refusal(&err);
    if (rpc_stream_args(bytes, len, &args, &err))
        require(args.ids.count >= 1 && args.ids.count <= SERVICE_COUNT_MAX &&
                args.endless == (args.left == 0));
    else
        require_refusal(&err);
    if (rpc_decode_args(bytes, len, &id, &err))
        require(id.number >= 0);
    else
        require_refusal(&err);
    id.number = -1;
    if (rpc_encode_args(bytes, len, &id, &err))
        require(id.number >= 0);
    else
        require_refusal(&err);
}

static void reflect(const uint8_t *bytes, size_t len) {
    static struct reflection *reflection;
    size_t answer_len;
    uint8_t *answer;

    if (!reflection)
        reflection = reflection_new();
    answer = reflection_answer(reflection, bytes, len, &answer_len);
    if (!answer)
        return;
    require(readable(&grpc__reflection__v1__server_reflection_response__descriptor,
                     answer + GRPC_PREFIX_BYTES, answer_len - GRPC_PREFIX_BYTES));
    free(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len) {
    size_t which;

    if (len == 0)
        return 0;
    which = bytes[0] % (TYPES + 2);
    if (which < TYPES)
        readable(types[which], bytes + 1, len - 1);
    else if (which == TYPES)
        requests(bytes + 1, len - 1);
    else
        reflect(bytes + 1, len - 1);
    return 0;
}
