#include "worker/rpc_args.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/decimal.h"
#include "common/grpc_message.h"
#include "common/snowflake.h"
#include "snowfleet/v1/ids.pb-c.h"
#include "worker/render.h"

#define STREAM_BATCH_COUNT 1000u /* of one message, unless the client says otherwise */

/* ---- requests ---- */

static bool refuse_message(struct service_error *err, const char *name) {
    *err = (struct service_error){.code = "INTERNAL"};
    snprintf(err->message, sizeof err->message, "the request is no snowfleet.v1.%s", name);
    return false;
}

static bool set_kind(struct rpc_ids_args *args, const char *kind, struct service_error *err) {
    return !kind[0] || ids_args_set(&args->ids, "kind", kind, strlen(kind), false, err);
}

static bool set_count(const char *name, uint32_t count, uint32_t *out, struct service_error *err) {
    if (count < 1 || count > SERVICE_COUNT_MAX)
        return args_refuse(err, name, "%s must be 1..%u, got %" PRIu32, name, SERVICE_COUNT_MAX,
                           count);
    *out = count;
    return true;
}

static bool set_form(struct rpc_ids_args *args, Snowfleet__V1__Form form,
                     struct service_error *err) {
    switch (form) {
    case SNOWFLEET__V1__FORM__FORM_UNSPECIFIED:
    case SNOWFLEET__V1__FORM__FORM_IDS: args->form = RPC_IDS; return true;
    case SNOWFLEET__V1__FORM__FORM_RANGES: args->form = RPC_RANGES; return true;
    case SNOWFLEET__V1__FORM__FORM_TEXT: args->form = RPC_TEXT; return true;
    default: break;
    }
    return args_refuse(err, "form", "form must be FORM_IDS, FORM_RANGES or FORM_TEXT, got %d",
                       (int)form);
}

bool rpc_next_args(const uint8_t *bytes, size_t len, struct rpc_ids_args *args,
                   struct service_error *err) {
    Snowfleet__V1__NextRequest *request;
    bool ok;

    *args = (struct rpc_ids_args){.form = RPC_IDS};
    ids_args_init(&args->ids);
    if (len == 0)
        return true; /* as most clients ask */
    request = snowfleet__v1__next_request__unpack(NULL, len, bytes);
    if (!request)
        return refuse_message(err, "NextRequest");
    args->ids.claim = request->claim;
    args->ids.commit_wait = request->commit_wait;
    ok = set_kind(args, request->kind, err);
    snowfleet__v1__next_request__free_unpacked(request, NULL);
    return ok;
}

bool rpc_batch_args(const uint8_t *bytes, size_t len, struct rpc_ids_args *args,
                    struct service_error *err) {
    Snowfleet__V1__NextBatchRequest *request = snowfleet__v1__next_batch_request__unpack(NULL, len,
                                                                                         bytes);
    bool ok;

    if (!request)
        return refuse_message(err, "NextBatchRequest");
    *args = (struct rpc_ids_args){.form = RPC_IDS};
    ids_args_init(&args->ids);
    args->ids.claim = request->claim;
    args->ids.commit_wait = request->commit_wait;
    ok = set_kind(args, request->kind, err) &&
         set_count("count", request->count, &args->ids.count, err) &&
         set_form(args, request->form, err);
    snowfleet__v1__next_batch_request__free_unpacked(request, NULL);
    return ok;
}

bool rpc_stream_args(const uint8_t *bytes, size_t len, struct rpc_ids_args *args,
                     struct service_error *err) {
    Snowfleet__V1__StreamRequest *request = snowfleet__v1__stream_request__unpack(NULL, len, bytes);
    bool ok;

    if (!request)
        return refuse_message(err, "StreamRequest");
    *args = (struct rpc_ids_args){.form = RPC_IDS};
    ids_args_init(&args->ids);
    args->ids.claim = request->claim;
    args->ids.commit_wait = request->commit_wait;
    args->endless = request->count == 0;
    args->left = request->count;
    args->ids.count = STREAM_BATCH_COUNT;
    ok = set_kind(args, request->kind, err) &&
         (request->batch_count == 0 ||
          set_count("batch_count", request->batch_count, &args->ids.count, err)) &&
         set_form(args, request->form, err);
    snowfleet__v1__stream_request__free_unpacked(request, NULL);
    return ok;
}

static bool read_number(int64_t number, int64_t *id, struct service_error *err) {
    if (number < 0)
        return args_refuse(err, "number", "number must be 0..%" PRId64 ", got %" PRId64, INT64_MAX,
                           number);
    *id = number;
    return true;
}

bool rpc_decode_args(const uint8_t *bytes, size_t len, int64_t *id, struct service_error *err) {
    Snowfleet__V1__DecodeRequest *request = snowfleet__v1__decode_request__unpack(NULL, len, bytes);
    bool ok;

    if (!request)
        return refuse_message(err, "DecodeRequest");
    switch (request->id_case) {
    case SNOWFLEET__V1__DECODE_REQUEST__ID_NUMBER:
        ok = read_number(request->number, id, err);
        break;
    case SNOWFLEET__V1__DECODE_REQUEST__ID_TEXT:
        ok = decode_args_id(request->text, strlen(request->text), id, err);
        break;
    default: ok = args_refuse(err, "id", "id is missing: number or text"); break;
    }
    snowfleet__v1__decode_request__free_unpacked(request, NULL);
    return ok;
}

/* ---- answers ---- */

uint8_t *rpc_pack(const ProtobufCMessage *message, size_t *len) {
    uint8_t *framed;

    *len = GRPC_PREFIX_BYTES + protobuf_c_message_get_packed_size(message);
    framed = malloc(*len);
    if (!framed)
        abort(); /* as allocate(), which would zero it first */
    protobuf_c_message_pack(message, framed + GRPC_PREFIX_BYTES);
    return framed;
}

/* *interval is the caller's to keep until the message is packed; NULL when there is none. */
static Snowfleet__V1__Interval *put_interval(const struct service_ids *ids,
                                             Snowfleet__V1__Interval *interval) {
    snowfleet__v1__interval__init(interval);
    interval->earliest_ms = (int64_t)ids->earliest_ms;
    interval->latest_ms = (int64_t)ids->latest_ms;
    return ids->bounded ? interval : NULL;
}

uint8_t *rpc_next_message(const struct service_ids *ids, const struct rpc_ids_args *args,
                          size_t *len) {
    Snowfleet__V1__NextResponse response = SNOWFLEET__V1__NEXT_RESPONSE__INIT;
    Snowfleet__V1__Interval interval;

    response.interval = put_interval(ids, &interval);
    response.id = ids->runs[0].first;
    if (args->ids.claim)
        response.claim = (char *)(uintptr_t)ids->claim;
    return rpc_pack(&response.base, len);
}

static int64_t *spread(const struct service_ids *ids) {
    int64_t *all = malloc(ids->have * sizeof *all);
    size_t n = 0;

    if (!all)
        abort(); /* as allocate() */
    for (size_t i = 0; i < ids->n_runs; i++)
        for (uint32_t k = 0; k < ids->runs[i].count; k++)
            all[n++] = ids->runs[i].first + k;
    return all;
}

static uint8_t *pack_ids(Snowfleet__V1__NextBatchResponse *response, const struct service_ids *ids,
                         size_t *len) {
    uint8_t *framed;

    response->ids = spread(ids);
    response->n_ids = ids->have;
    framed = rpc_pack(&response->base, len);
    free(response->ids);
    return framed;
}

static uint8_t *pack_ranges(Snowfleet__V1__NextBatchResponse *response,
                            const struct service_ids *ids, size_t *len) {
    Snowfleet__V1__IdRange *ranges = allocate(ids->n_runs, sizeof *ranges);
    uint8_t *framed;

    response->ranges = allocate(ids->n_runs, sizeof *response->ranges);
    response->n_ranges = ids->n_runs;
    for (size_t i = 0; i < ids->n_runs; i++) {
        snowfleet__v1__id_range__init(&ranges[i]);
        ranges[i].first = ids->runs[i].first;
        ranges[i].count = ids->runs[i].count;
        response->ranges[i] = &ranges[i];
    }
    framed = rpc_pack(&response->base, len);
    free(response->ranges);
    free(ranges);
    return framed;
}

static uint8_t *pack_text(Snowfleet__V1__NextBatchResponse *response, const struct service_ids *ids,
                          size_t *len) {
    size_t text_len, n = 0;
    char *text = render_ids_text(ids, &text_len);
    uint8_t *framed;

    response->texts = allocate(ids->have, sizeof *response->texts);
    response->n_texts = ids->have;
    for (char *at = text; n < ids->have; n++) {
        response->texts[n] = at;
        at = strchr(at, '\n');
        *at++ = '\0';
    }
    framed = rpc_pack(&response->base, len);
    free(response->texts);
    free(text);
    return framed;
}

uint8_t *rpc_batch_message(const struct service_ids *ids, const struct rpc_ids_args *args,
                           size_t *len) {
    Snowfleet__V1__NextBatchResponse response = SNOWFLEET__V1__NEXT_BATCH_RESPONSE__INIT;
    Snowfleet__V1__Interval interval;

    response.interval = put_interval(ids, &interval);
    if (args->ids.claim)
        response.claim = (char *)(uintptr_t)ids->claim;
    switch (args->form) {
    case RPC_RANGES: return pack_ranges(&response, ids, len);
    case RPC_TEXT: return pack_text(&response, ids, len);
    case RPC_IDS: break;
    }
    return pack_ids(&response, ids, len);
}

uint8_t *rpc_decode_message(int64_t id, uint64_t epoch_ms, uint64_t now_ms, const char *holder,
                            size_t *len) {
    Snowfleet__V1__DecodeResponse response = SNOWFLEET__V1__DECODE_RESPONSE__INIT;
    struct snowflake_parts parts = snowflake_decode(id, epoch_ms);
    char time[32];

    time_format(parts.timestamp_ms, time);
    response.kind = (char *)(uintptr_t) "snowflake";
    response.number = id;
    response.time = time;
    response.timestamp_ms = (int64_t)parts.timestamp_ms;
    response.machine_id = parts.machine_id;
    response.sequence = parts.sequence;
    response.future = render_is_future(parts.timestamp_ms, now_ms);
    if (holder)
        response.holder = (char *)(uintptr_t)holder;
    return rpc_pack(&response.base, len);
}
