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

static bool set_kind(struct rpc_ids_args *args, const char *kind, const char *name, bool has_shard,
                     uint32_t shard, struct service_error *err) {
    if (kind[0] && !ids_args_set(&args->ids, "kind", kind, strlen(kind), false, err))
        return false;
    if (name[0] && !ids_args_set(&args->ids, "name", name, strlen(name), false, err))
        return false;
    if (has_shard && shard >= SEQUENCE_SHARDS_MAX)
        return args_refuse(err, "shard", "shard must be 0..%u, got %" PRIu32,
                           SEQUENCE_SHARDS_MAX - 1, shard);
    args->ids.has_shard = has_shard;
    args->ids.shard = (uint16_t)shard;
    return ids_args_check(&args->ids, err);
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
    if (id_kind_is_text(args->ids.kind) &&
        (form == SNOWFLEET__V1__FORM__FORM_IDS || form == SNOWFLEET__V1__FORM__FORM_RANGES))
        return args_refuse(err, "form", "form must be FORM_TEXT for kind %s, got %d",
                           id_kind_name(args->ids.kind), (int)form);
    switch (form) {
    case SNOWFLEET__V1__FORM__FORM_UNSPECIFIED:
        args->form = id_kind_is_text(args->ids.kind) ? RPC_TEXT : RPC_IDS;
        return true;
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
    ok = set_kind(args, request->kind, request->name, request->part_case != 0, request->shard, err);
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
    ok = set_kind(args, request->kind, request->name, request->part_case != 0, request->shard,
                  err) &&
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
    ok = set_kind(args, request->kind, request->name, request->part_case != 0, request->shard,
                  err) &&
         (request->batch_count == 0 ||
          set_count("batch_count", request->batch_count, &args->ids.count, err)) &&
         set_form(args, request->form, err);
    snowfleet__v1__stream_request__free_unpacked(request, NULL);
    return ok;
}

static bool read_number(int64_t number, enum id_read kind, struct id_value *id,
                        struct service_error *err) {
    if (kind != ID_READ_ANY && kind != ID_READ_SNOWFLAKE && kind != ID_READ_SEQUENCE)
        return args_refuse(err, "kind",
                           "kind must be snowflake or sequence with a number; others are text");
    if (number < 0)
        return args_refuse(err, "number", "number must be 0..%" PRId64 ", got %" PRId64, INT64_MAX,
                           number);
    *id = (struct id_value){.kind = kind == ID_READ_SEQUENCE ? kind : ID_READ_SNOWFLAKE,
                            .ambiguous = kind == ID_READ_ANY,
                            .number = number};
    return true;
}

static bool read_id(const Snowfleet__V1__DecodeRequest *request, struct id_value *id,
                    struct service_error *err) {
    enum id_read kind = ID_READ_ANY;

    if (request->kind[0] && !decode_args_kind(request->kind, strlen(request->kind), &kind, err))
        return false;
    switch (request->id_case) {
    case SNOWFLEET__V1__DECODE_REQUEST__ID_NUMBER:
        return read_number(request->number, kind, id, err);
    case SNOWFLEET__V1__DECODE_REQUEST__ID_TEXT:
        return decode_args_id(request->text, strlen(request->text), kind, id, err);
    default: return args_refuse(err, "id", "id is missing: number or text");
    }
}

bool rpc_decode_args(const uint8_t *bytes, size_t len, struct id_value *id,
                     struct service_error *err) {
    Snowfleet__V1__DecodeRequest *request = snowfleet__v1__decode_request__unpack(NULL, len, bytes);
    bool ok;

    if (!request)
        return refuse_message(err, "DecodeRequest");
    ok = read_id(request, id, err);
    snowfleet__v1__decode_request__free_unpacked(request, NULL);
    return ok;
}

static bool read_encode(const Snowfleet__V1__EncodeRequest *request, struct id_value *id,
                        struct service_error *err) {
    enum id_read kind = ID_READ_SNOWFLAKE;

    return (!request->kind[0] ||
            encode_args_kind(request->kind, strlen(request->kind), &kind, err)) &&
           read_number(request->number, kind, id, err);
}

bool rpc_encode_args(const uint8_t *bytes, size_t len, struct id_value *id,
                     struct service_error *err) {
    Snowfleet__V1__EncodeRequest *request = snowfleet__v1__encode_request__unpack(NULL, len, bytes);
    bool ok;

    if (!request)
        return refuse_message(err, "EncodeRequest");
    ok = read_encode(request, id, err);
    snowfleet__v1__encode_request__free_unpacked(request, NULL);
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
    char text[ID_TEXT_MAX + 1];

    if (id_kind_wide(ids->kind)) {
        id_kind_format(ids->kind, &ids->wide[0], text);
        response.text = text;
        return rpc_pack(&response.base, len);
    }
    response.interval = put_interval(ids, &interval);
    if (ids->kind == ID_PUBLIC) {
        public_id_encode(ids->codec, PUBLIC_OF_SNOWFLAKE, ids->runs[0].first, text);
        response.text = text;
    } else {
        response.id = ids->runs[0].first;
    }
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
            all[n++] = (int64_t)service_run_id(ids, i, k);
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
        ranges[i].step = ids->step > 1 ? ids->step : 0;
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
        at = memchr(at, '\n', (size_t)(text + text_len - at));
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

uint8_t *rpc_decode_message(const struct id_facts *facts, const char *holder, size_t *len) {
    Snowfleet__V1__DecodeResponse response = SNOWFLEET__V1__DECODE_RESPONSE__INIT;
    static const char *const fits[] = {"snowflake", "sequence"};
    char time[32];

    response.kind = (char *)(uintptr_t)facts->kind;
    response.number = facts->number;
    if (facts->ambiguous) {
        response.ambiguous = (char **)(uintptr_t)fits;
        response.n_ambiguous = sizeof fits / sizeof *fits;
    }
    if (facts->of)
        response.of = (char *)(uintptr_t)facts->of;
    response.key_version = facts->key_version;
    response.text = (char *)(uintptr_t)facts->text;
    response.version = facts->version;
    if (facts->note)
        response.note = (char *)(uintptr_t)facts->note;
    if (facts->has_time) {
        time_format(facts->timestamp_ms, time);
        response.time = time;
        response.timestamp_ms = (int64_t)facts->timestamp_ms;
    }
    response.machine_id = facts->machine_id;
    response.sequence = facts->sequence;
    response.future = facts->future;
    if (holder)
        response.holder = (char *)(uintptr_t)holder;
    return rpc_pack(&response.base, len);
}

uint8_t *rpc_encode_message(const struct id_facts *facts, size_t *len) {
    Snowfleet__V1__EncodeResponse response = SNOWFLEET__V1__ENCODE_RESPONSE__INIT;

    response.text = (char *)(uintptr_t)facts->text;
    response.key_version = facts->key_version;
    return rpc_pack(&response.base, len);
}
