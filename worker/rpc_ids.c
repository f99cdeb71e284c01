#include "worker/rpc_internal.h"

#include <stdlib.h>

#include "common/allocate.h"
#include "worker/facts.h"

/* ---- Next, NextBatch ---- */

struct ids_call {
    struct park_call park; /* first: a pointer to the one is a pointer to the other */
    struct rpc *rpc;
    struct grpc_call *call;
    struct rpc_ids_args args;
    uint8_t *(*message)(const struct service_ids *ids, const struct rpc_ids_args *args,
                        size_t *len);
};

static void free_ids_call(struct ids_call *ids) {
    service_ids_free(&ids->park.ids);
    free(ids);
}

/* What the service said, with what the control thread knows of it. */
static void refuse(struct rpc *rpc, struct grpc_call *call, enum id_kind kind,
                   const struct service_error *err) {
    struct service_error why = *err;

    if (id_kind_is_snowflake(kind))
        facts_add_reason(rpc->config.board, &why);
    rpc_refuse(call, &why);
}

static void on_ids(struct park_call *park, enum service_outcome outcome,
                   const struct service_error *err) {
    struct ids_call *ids = (struct ids_call *)park;

    if (outcome == SERVICE_DONE) {
        uint8_t *framed;
        size_t len;

        park->ids.codec = ids->rpc->config.codec;
        framed = ids->message(&park->ids, &ids->args, &len);
        grpc_answer(ids->call, framed, len);
    } else {
        refuse(ids->rpc, ids->call, park->ids.kind, err);
    }
    free_ids_call(ids);
}

/* The client gave up while the call was parked. */
static void on_ids_ended(void *user) {
    struct ids_call *ids = user;

    park_leave(ids->rpc->config.park, &ids->park);
    free_ids_call(ids);
}

static struct ids_call *new_ids_call(struct rpc *rpc, struct grpc_call *call) {
    struct ids_call *ids = allocate(1, sizeof *ids);

    ids->park.done = on_ids;
    ids->rpc = rpc;
    ids->call = call;
    grpc_call_set(call, ids, on_ids_ended, NULL);
    return ids;
}

static void take_ids(struct ids_call *ids) {
    ids_args_fill(&ids->args.ids, &ids->park.ids);
    ids->park.commit_wait = ids->args.ids.commit_wait;
    park_take(ids->rpc->config.park, rpc_now_ms(ids->rpc), &ids->park);
}

/* Does this worker have what the kind needs? */
static bool may_give(const struct rpc *rpc, const struct rpc_ids_args *args,
                     struct service_error *err) {
    return args->ids.kind != ID_PUBLIC || public_args_check(rpc->config.codec, err);
}

void rpc_next(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len) {
    struct rpc_ids_args args;
    struct service_error err;
    struct ids_call *ids;

    if (!rpc_next_args(bytes, len, &args, &err) || !may_give(arg, &args, &err)) {
        rpc_refuse(call, &err);
        return;
    }
    ids = new_ids_call(arg, call);
    ids->args = args;
    ids->message = rpc_next_message;
    take_ids(ids);
}

void rpc_next_batch(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len) {
    struct rpc_ids_args args;
    struct service_error err;
    struct ids_call *ids;

    if (!rpc_batch_args(bytes, len, &args, &err) || !may_give(arg, &args, &err)) {
        rpc_refuse(call, &err);
        return;
    }
    ids = new_ids_call(arg, call);
    ids->args = args;
    ids->message = rpc_batch_message;
    take_ids(ids);
}

/* ---- Stream ---- */

struct rpc_stream {
    struct park_call park; /* first: a pointer to the one is a pointer to the other */
    struct rpc_stream *prev, *next;
    struct rpc *rpc;
    struct grpc_call *call;
    struct rpc_ids_args args;
};

static void free_stream(struct rpc_stream *stream) {
    if (stream->prev)
        stream->prev->next = stream->next;
    else
        stream->rpc->streams = stream->next;
    if (stream->next)
        stream->next->prev = stream->prev;
    service_ids_free(&stream->park.ids);
    free(stream);
}

static void leave_park(struct rpc_stream *stream) {
    park_leave(stream->rpc->config.park, &stream->park);
}

static void on_stream_ended(void *user) {
    leave_park(user);
    free_stream(user);
}

static void on_batch(struct park_call *park, enum service_outcome outcome,
                     const struct service_error *err) {
    struct rpc_stream *stream = (struct rpc_stream *)park;
    uint8_t *framed;
    size_t len;

    if (outcome != SERVICE_DONE) {
        refuse(stream->rpc, stream->call, park->ids.kind, err);
        free_stream(stream);
        return;
    }
    park->ids.codec = stream->rpc->config.codec;
    framed = rpc_batch_message(&park->ids, &stream->args, &len);
    stream->args.left -= stream->args.endless ? 0 : park->ids.have;
    service_ids_free(&park->ids);
    if (!grpc_send(stream->call, framed, len))
        free_stream(stream);
    /* else on_batch_sent() goes on */
}

static void take_batch(struct rpc_stream *stream) {
    uint32_t want = stream->args.ids.count;

    if (!stream->args.endless && want > stream->args.left)
        want = (uint32_t)stream->args.left;
    ids_args_fill(&stream->args.ids, &stream->park.ids);
    stream->park.ids.want = want;
    stream->park.commit_wait = stream->args.ids.commit_wait;
    park_take(stream->rpc->config.park, rpc_now_ms(stream->rpc), &stream->park);
}

/* The client has room for more. */
static void on_batch_sent(void *user) {
    struct rpc_stream *stream = user;

    if (stream->args.endless || stream->args.left > 0) {
        take_batch(stream);
        return;
    }
    grpc_finish(stream->call, GRPC_OK, NULL, GRPC_NO_RETRY);
    free_stream(stream);
}

static void end_stream(struct rpc_stream *stream) {
    leave_park(stream);
    grpc_finish(stream->call, GRPC_UNAVAILABLE, "this worker is shutting down", 0);
    free_stream(stream);
}

void rpc_end_streams(struct rpc *rpc) {
    struct rpc_stream *next;

    for (struct rpc_stream *stream = rpc->streams; stream; stream = next) {
        next = stream->next;
        if (stream->args.endless)
            end_stream(stream);
    }
}

void rpc_stream(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len) {
    struct rpc *rpc = arg;
    struct rpc_ids_args args;
    struct service_error err;
    struct rpc_stream *stream;

    if (!rpc_stream_args(bytes, len, &args, &err) || !may_give(rpc, &args, &err)) {
        rpc_refuse(call, &err);
        return;
    }
    stream = allocate(1, sizeof *stream);
    stream->park.done = on_batch;
    stream->rpc = rpc;
    stream->call = call;
    stream->args = args;
    stream->next = rpc->streams;
    if (stream->next)
        stream->next->prev = stream;
    rpc->streams = stream;
    grpc_call_set(call, stream, on_stream_ended, on_batch_sent);
    if (rpc->draining && args.endless)
        end_stream(stream);
    else
        take_batch(stream);
}

/* ---- Decode, Encode ---- */

void rpc_decode(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len) {
    const struct rpc_config *config = &((struct rpc *)arg)->config;
    struct facts_decoded decoded;
    struct service_error err;
    struct id_value id;
    uint8_t *framed;
    size_t framed_len;

    if (!rpc_decode_args(bytes, len, &id, &err) ||
        !facts_decode(config->board, config->service, config->codec, &id, rpc_now_ms(arg), &decoded,
                      &err)) {
        rpc_refuse(call, &err);
        return;
    }
    framed = rpc_decode_message(&decoded.facts, decoded.holder, &framed_len);
    grpc_answer(call, framed, framed_len);
}

void rpc_encode(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len) {
    const struct rpc_config *config = &((struct rpc *)arg)->config;
    struct service_error err;
    struct id_facts facts;
    struct id_value id;
    uint8_t *framed;
    size_t framed_len;

    if (!rpc_encode_args(bytes, len, &id, &err) ||
        !facts_encode(config->codec, &id, &facts, &err)) {
        rpc_refuse(call, &err);
        return;
    }
    framed = rpc_encode_message(&facts, &framed_len);
    grpc_answer(call, framed, framed_len);
}
