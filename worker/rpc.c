#include "worker/rpc_internal.h"

#include <stdlib.h>

#include "common/allocate.h"
#include "snowfleet/v1/clock.pb-c.h"
#include "worker/report.h"

uint64_t rpc_now_ms(const struct rpc *rpc) {
    return clock_now(rpc->config.clock).wall_ms;
}

void rpc_refuse(struct grpc_call *call, const struct service_error *err) {
    enum grpc_code code = grpc_code_of(err->code);

    grpc_finish(call, code, err->message,
                code == GRPC_UNAVAILABLE && err->retry_after_ms ? (int64_t)err->retry_after_ms
                                                                : GRPC_NO_RETRY);
}

/* ---- the clock ---- */

static char *text_of(const char *text) {
    return (char *)(uintptr_t)text; /* it is packed, and not written to */
}

static void probe(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len) {
    struct rpc *rpc = arg;
    struct effective_now received = clock_board_now(rpc->config.clock_board);
    Snowfleet__V1__ProbeResponse response = SNOWFLEET__V1__PROBE_RESPONSE__INIT;
    struct worker_view view;
    struct report report = {.view = &view};
    struct report_probe said;
    uint8_t *framed;
    size_t framed_len;

    (void)bytes, (void)len; /* a message without fields: whatever it holds is unknown */
    view_read(rpc->config.board, &view);
    report.now = clock_board_now(rpc->config.clock_board);
    report_probe(&report, received.wall_ns, &said);
    response.receive_ns = said.receive_ns;
    response.transmit_ns = said.transmit_ns;
    response.boot_ns = said.boot_ns;
    response.max_error_ns = said.knows_max_error ? said.max_error_ns : INT64_MAX;
    response.synchronized = said.synchronized;
    response.source = text_of(said.source);
    response.daemon = text_of(said.daemon);
    response.trusted = said.trusted;
    response.reason = text_of(said.distrust);
    if (said.knows_frequency) {
        response.rate_case = SNOWFLEET__V1__PROBE_RESPONSE__RATE_FREQUENCY_PPB;
        response.frequency_ppb = said.frequency_ppb;
    }
    response.strategy = text_of(said.strategy);
    response.clock_state = text_of(said.clock_state);
    response.effective_minus_wall_ms = said.effective_minus_wall_ms;
    response.wants_confirmation = said.wants_confirmation;
    response.state = text_of(said.state);
    framed = rpc_pack(&response.base, &framed_len);
    grpc_answer(call, framed, framed_len);
}

/* ---- methods ---- */

/* Health is open, as /livez and /readyz are: probes bring no token. */
static const struct grpc_method methods[] = {
    {.path = "/snowfleet.v1.IdService/Next", .message = rpc_next},
    {.path = "/snowfleet.v1.IdService/NextBatch", .message = rpc_next_batch},
    {.path = "/snowfleet.v1.IdService/Stream", .message = rpc_stream},
    {.path = "/snowfleet.v1.IdService/Decode", .message = rpc_decode},
    {.path = "/snowfleet.v1.IdService/Encode", .message = rpc_encode},
    {.path = "/snowfleet.v1.ClockService/Probe", .message = probe},
    {.path = "/grpc.health.v1.Health/Check", .open = true, .message = rpc_check},
    {.path = "/grpc.health.v1.Health/Watch",
     .open = true,
     .background = true,
     .message = rpc_watch},
    {.path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
     .background = true,
     .client_streams = true,
     .message = rpc_reflect,
     .half_closed = rpc_reflect_end},
    {.path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
     .background = true,
     .client_streams = true,
     .message = rpc_reflect,
     .half_closed = rpc_reflect_end},
};

static bool authenticate(void *arg, const char *authorization) {
    struct rpc *rpc = arg;

    return tokens_accept(rpc->config.tokens, authorization);
}

/* ---- life ---- */

enum status rpc_new(uv_loop_t *loop, const struct rpc_config *config, struct rpc **rpc,
                    struct error *err) {
    struct rpc *made = allocate(1, sizeof *made);
    const struct grpc_server_config server = {
        .max_connections = config->max_connections,
        .request_timeout_ms = config->request_timeout_ms,
        .max_age_ms = config->max_age_ms,
        .methods = methods,
        .n_methods = sizeof methods / sizeof methods[0],
        .authenticate = config->tokens ? authenticate : NULL,
        .arg = made,
    };

    made->config = *config;
    made->reflection = reflection_new();
    if (grpc_server_new(loop, &server, &made->server, err) != STATUS_OK) {
        reflection_free(made->reflection);
        free(made);
        return err->status;
    }
    *rpc = made;
    return STATUS_OK;
}

struct grpc_server *rpc_server(struct rpc *rpc) {
    return rpc->server;
}

void rpc_set_tokens(struct rpc *rpc, const struct tokens *tokens) {
    rpc->config.tokens = tokens;
}

void rpc_set_codec(struct rpc *rpc, struct public_codec *codec) {
    rpc->config.codec = codec;
}

void rpc_drain(struct rpc *rpc) {
    rpc->draining = true;
    rpc_look(rpc);
    rpc_end_streams(rpc);
    grpc_server_drain(rpc->server);
}

void rpc_end(struct rpc *rpc) {
    grpc_server_end_calls(rpc->server, "this worker is shutting down");
}

static void on_closed(void *arg) {
    struct rpc *rpc = arg;

    reflection_free(rpc->reflection);
    free(rpc);
}

void rpc_close(struct rpc *rpc) {
    if (rpc)
        grpc_server_close(rpc->server, on_closed, rpc);
}
