#include "worker/api.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/quote.h"
#include "worker/args.h"
#include "worker/facts.h"
#include "worker/openapi.h"
#include "worker/render.h"
#include "worker/report.h"

#define NS_PER_MS INT64_C(1000000)

#define JSON "application/json"
#define TEXT "text/plain; charset=utf-8"
#define METRICS "text/plain; version=0.0.4; charset=utf-8"

#define DECODE_PREFIX "/v1/decode/"
#define ENCODE_PREFIX "/v1/encode/"

enum method { METHOD_GET = 1, METHOD_HEAD = 2, METHOD_POST = 4 };

/* One request, as its route sees it. */
struct request {
    struct api *api;
    struct http_exchange *exchange;
    struct effective_now received; /* read once, before anything else */
};

static uint64_t wall_ms(const struct request *request) {
    int64_t ns = request->received.effective_ns;

    return ns > 0 ? (uint64_t)(ns / NS_PER_MS) : 0;
}

/* ---- answers ---- */

/* body is handed over.  Nothing of ours may be cached: IDs least of all. */
static void reply(struct http_exchange *exchange, unsigned status, const char *type, char *body,
                  size_t len) {
    static const char *const headers[] = {"Cache-Control", "no-store", NULL};
    const struct http_response response = {
        .status = status,
        .content_type = type,
        .body = body,
        .body_len = len,
        .release = free,
        .headers = headers,
    };

    http_reply(exchange, &response);
}

/* The same for a failure: 503 says when to try again, 405 what would be allowed, 401 what is missing. */
static void reply_failure(struct http_exchange *exchange, unsigned status, char *body, size_t len,
                          uint64_t retry_after_ms, const char *allow) {
    char seconds[24];
    const char *headers[] = {"Cache-Control", "no-store", NULL, NULL, NULL};
    const struct http_response response = {
        .status = status,
        .content_type = JSON,
        .body = body,
        .body_len = len,
        .release = free,
        .headers = headers,
    };

    if (status == 503) {
        snprintf(seconds, sizeof seconds, "%" PRIu64, (retry_after_ms + 999) / 1000);
        headers[2] = "Retry-After";
        headers[3] = seconds;
    } else if (status == 405) {
        headers[2] = "Allow";
        headers[3] = allow;
    } else if (status == 401) {
        headers[2] = "WWW-Authenticate";
        headers[3] = "Bearer";
    }
    http_reply(exchange, &response);
}

static unsigned status_of(const struct service_error *err) {
    static const struct {
        const char *code;
        unsigned status;
    } rows[] = {
        {"INVALID_ARGUMENT", 400}, {"FAILED_PRECONDITION", 400}, {"NOT_FOUND", 404},
        {"UNIMPLEMENTED", 405},    {"UNAVAILABLE", 503},         {"CANCELLED", 503},
        {"UNAUTHENTICATED", 401},  {"OUT_OF_RANGE", 400},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(err->code, rows[i].code) == 0)
            return rows[i].status;
    }
    return 500;
}

static void reply_error(struct http_exchange *exchange, const struct service_error *err,
                        const char *allow) {
    size_t len;
    char *body = render_error(err, &len);

    reply_failure(exchange, status_of(err), body, len, err->retry_after_ms, allow);
}

/* ---- IDs ---- */

struct ids_call {
    struct park_call park; /* first: a pointer to the one is a pointer to the other */
    struct api *api;
    struct http_exchange *exchange;
    bool claim, text;
};

static void on_ids(struct park_call *park_call, enum service_outcome outcome,
                   const struct service_error *err) {
    struct ids_call *call = (struct ids_call *)park_call;
    struct service_error why;
    char *body;
    size_t len;

    if (outcome == SERVICE_DONE) {
        park_call->ids.codec = call->api->codec;
        body = call->text ? render_ids_text(&park_call->ids, &len)
                          : render_ids_json(&park_call->ids, call->claim, &len);
        reply(call->exchange, 200, call->text ? TEXT : JSON, body, len);
    } else {
        why = *err;
        if (id_kind_is_snowflake(park_call->ids.kind))
            facts_add_reason(call->api->board, &why);
        reply_error(call->exchange, &why, NULL);
    }
    service_ids_free(&park_call->ids);
    free(call);
}

static bool is_gone(const struct park_call *park_call) {
    return http_client_gone(((const struct ids_call *)park_call)->exchange);
}

/* Arguments of the query, until one is refused. */
struct ids_query {
    struct ids_args *args;
    struct service_error *err;
    bool ok;
};

static void set_ids_arg(void *arg, const char *name, struct http_text value) {
    struct ids_query *query = arg;

    query->ok = query->ok &&
                ids_args_set(query->args, name, value.text, value.len, value.twice, query->err);
}

static bool read_ids_args(const struct http_exchange *exchange, struct ids_args *args,
                          struct service_error *err) {
    struct ids_query query = {.args = args, .err = err, .ok = true};
    size_t len;
    const char *body = http_body(exchange, &len);

    ids_args_init(args);
    http_query_visit(exchange, set_ids_arg, &query);
    return query.ok && ids_args_body(args, body, len, err) && ids_args_check(args, err);
}

static void handle_ids(const struct request *request) {
    struct service_error err;
    struct ids_args args;
    struct ids_call *call;

    if (!read_ids_args(request->exchange, &args, &err) ||
        (args.kind == ID_PUBLIC && !public_args_check(request->api->codec, &err))) {
        reply_error(request->exchange, &err, NULL);
        return;
    }
    call = allocate(1, sizeof *call);
    call->park = (struct park_call){
        .commit_wait = args.commit_wait, .done = on_ids, .gone = is_gone};
    ids_args_fill(&args, &call->park.ids);
    call->api = request->api;
    call->exchange = request->exchange;
    call->claim = args.claim;
    call->text = accept_prefers_text(http_header(request->exchange, "Accept"));
    park_take(request->api->park, wall_ms(request), &call->park);
}

/* ---- decode, encode ---- */

static void decode(const struct request *request, struct id_value *id) {
    const struct api *api = request->api;
    struct facts_decoded decoded;
    struct service_error err;
    char *body;
    size_t len;

    if (!facts_decode(api->board, api->service, api->codec, id, wall_ms(request), &decoded, &err)) {
        reply_error(request->exchange, &err, NULL);
        return;
    }
    body = render_decoded(&decoded.facts, decoded.holder, &len);
    reply(request->exchange, 200, JSON, body, len);
}

static void encode(const struct request *request, struct id_value *id) {
    struct service_error err;
    struct id_facts facts;
    char *body;
    size_t len;

    if (!facts_encode(request->api->codec, id, &facts, &err)) {
        reply_error(request->exchange, &err, NULL);
        return;
    }
    body = render_decoded(&facts, NULL, &len);
    reply(request->exchange, 200, JSON, body, len);
}

/* Arguments of the query, until one is refused. */
struct id_query {
    bool (*read_kind)(const char *value, size_t len, enum id_read *kind, struct service_error *err);
    enum id_read kind;
    struct service_error err; /* code is NULL: all is well */
};

static void set_id_arg(void *arg, const char *name, struct http_text value) {
    struct id_query *query = arg;
    char quoted[QUOTE_SIZE];

    if (query->err.code)
        return;
    if (strcmp(name, "kind") != 0)
        args_refuse(&query->err, NULL, "unknown argument %s; there is kind",
                    quote(name, strlen(name), quoted));
    else if (value.twice)
        args_refuse(&query->err, "kind", "kind is given twice");
    else
        query->read_kind(value.text, value.len, &query->kind, &query->err);
}

/* The ID is what follows the prefix of the path. */
static void handle_id_path(const struct request *request, struct id_query query, const char *prefix,
                           void (*answer)(const struct request *request, struct id_value *id)) {
    const char *text = http_path(request->exchange) + strlen(prefix);
    struct id_value id;

    http_query_visit(request->exchange, set_id_arg, &query);
    if (!query.err.code && decode_args_id(text, strlen(text), query.kind, &id, &query.err))
        answer(request, &id);
    else
        reply_error(request->exchange, &query.err, NULL);
}

static void handle_decode_path(const struct request *request) {
    handle_id_path(request, (struct id_query){.read_kind = decode_args_kind, .kind = ID_READ_ANY},
                   DECODE_PREFIX, decode);
}

static void handle_encode_path(const struct request *request) {
    handle_id_path(request,
                   (struct id_query){.read_kind = encode_args_kind, .kind = ID_READ_SNOWFLAKE},
                   ENCODE_PREFIX, encode);
}

static void handle_decode_body(const struct request *request) {
    struct service_error err;
    size_t len;
    const char *body = http_body(request->exchange, &len);
    struct id_value id;

    if (decode_args_body(body, len, &id, &err))
        decode(request, &id);
    else
        reply_error(request->exchange, &err, NULL);
}

static void handle_encode_body(const struct request *request) {
    struct service_error err;
    size_t len;
    const char *body = http_body(request->exchange, &len);
    struct id_value id;

    if (encode_args_body(body, len, &id, &err))
        encode(request, &id);
    else
        reply_error(request->exchange, &err, NULL);
}

/* ---- reports ---- */

static struct report look(const struct request *request, struct worker_view *view) {
    const struct api *api = request->api;
    struct report report = {
        .view = view,
        .loops = api->all_gauges,
        .n_loops = api->n_loops,
        .now = request->received,
    };

    for (int kind = 0; kind < ID128_KINDS; kind++)
        report.ahead_ms[kind] = id128_source_ahead_ms(api->source, (enum id128_kind)kind,
                                                      wall_ms(request));
    view_read(api->board, view);
    return report;
}

/* What look() does not, since it is asked for often; the views are the caller's to free. */
static struct dispenser_view *look_at_sequences(const struct request *request,
                                                struct report *report) {
    struct dispenser_view *views = NULL;

    if (request->api->sequences)
        report->n_sequences = sequences_look(request->api->sequences, &views);
    report->sequences = views;
    return views;
}

static void handle_status(const struct request *request) {
    struct worker_view view;
    struct report report = look(request, &view);
    struct dispenser_view *sequences = look_at_sequences(request, &report);
    size_t len;
    char *body = report_status(&report, &len);

    free(sequences);
    reply(request->exchange, 200, JSON, body, len);
}

static void handle_clock(const struct request *request) {
    struct worker_view view;
    struct report report = look(request, &view);
    char *body;
    size_t len;

    report.now = clock_board_now(request->api->clock_board);
    body = report_clock(&report, request->received.wall_ns, &len);
    reply(request->exchange, 200, JSON, body, len);
}

static void handle_live(const struct request *request) {
    struct worker_view view;
    struct report report = look(request, &view);
    struct service_error err;

    if (report_live(&report, &err))
        reply(request->exchange, 200, JSON, strdup("{\"live\":true}"), strlen("{\"live\":true}"));
    else
        reply_error(request->exchange, &err, NULL);
}

static void handle_ready(const struct request *request) {
    struct worker_view view;
    struct report report = look(request, &view);
    struct service_error why;
    char *body;
    size_t len;

    park_look(request->api->park);
    if (facts_ready(request->api->board, request->api->service, request->api->draining,
                    wall_ms(request), &view, &why)) {
        body = report_ready(&report, &len);
        reply(request->exchange, 200, JSON, body, len);
    } else {
        body = report_unready(&report, &why, &len);
        reply_failure(request->exchange, 503, body, len, why.retry_after_ms, NULL);
    }
}

static void handle_metrics(const struct request *request) {
    struct worker_view view;
    struct report report = look(request, &view);
    struct dispenser_view *sequences = look_at_sequences(request, &report);
    size_t len;
    char *body = report_metrics(&report, &len);

    free(sequences);
    reply(request->exchange, 200, METRICS, body, len);
}

static void handle_openapi(const struct request *request) {
    reply(request->exchange, 200, JSON, allocate_copy(worker_openapi, worker_openapi_len),
          worker_openapi_len);
}

/* ---- routes ---- */

struct route {
    const char *path;
    bool prefix; /* path is how it begins */
    bool open;   /* needs no bearer token */
    unsigned allowed;
    const char *allow; /* the same in words */
    bool takes_args;   /* query arguments are its own to judge, or harmless */
    void (*handle)(const struct request *request);
};
#define READ_ONLY METHOD_GET | METHOD_HEAD, "GET, HEAD"
static const struct route routes[] = {
    {"/v1/ids", false, false, METHOD_GET | METHOD_POST, "GET, POST", true, handle_ids},
    {DECODE_PREFIX, true, false, READ_ONLY, true, handle_decode_path},
    {"/v1/decode", false, false, METHOD_POST, "POST", false, handle_decode_body},
    {ENCODE_PREFIX, true, false, READ_ONLY, true, handle_encode_path},
    {"/v1/encode", false, false, METHOD_POST, "POST", false, handle_encode_body},
    {"/v1/clock", false, false, READ_ONLY, false, handle_clock},
    {"/v1/openapi.json", false, false, READ_ONLY, false, handle_openapi},
    {"/v1/status", false, false, READ_ONLY, false, handle_status},
    {"/livez", false, true, READ_ONLY, true, handle_live},
    {"/readyz", false, true, READ_ONLY, true, handle_ready},
    {"/metrics", false, false, READ_ONLY, true, handle_metrics},
};

static const struct route *find_route(const char *path) {
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        const struct route *route = &routes[i];

        if (route->prefix ? strncmp(path, route->path, strlen(route->path)) == 0
                          : strcmp(path, route->path) == 0)
            return route;
    }
    return NULL;
}

/* 0 for a method that none of the routes knows. */
static unsigned read_method(const char *method) {
    if (strcmp(method, "GET") == 0)
        return METHOD_GET;
    if (strcmp(method, "HEAD") == 0)
        return METHOD_HEAD;
    return strcmp(method, "POST") == 0 ? METHOD_POST : 0;
}

static void refuse_arg(void *arg, const char *name, struct http_text value) {
    struct service_error *err = arg;
    char quoted[QUOTE_SIZE];

    (void)value;
    if (!err->code)
        args_refuse(err, NULL, "unknown argument %s; there is none here",
                    quote(name, strlen(name), quoted));
}

/* What is not open tells nothing to those without a token, not even that it is not there. */
static bool may_pass(const struct api *api, const struct http_exchange *exchange,
                     const struct route *route, struct service_error *err) {
    const char *authorization;

    if (!api->tokens || (route && route->open))
        return true;
    authorization = http_header(exchange, "Authorization");
    if (tokens_accept(api->tokens, authorization))
        return true;
    *err = (struct service_error){.code = "UNAUTHENTICATED"};
    snprintf(err->message, sizeof err->message, "%s",
             authorization ? "this is not a bearer token that is known here"
                           : "a bearer token is needed: Authorization: Bearer TOKEN");
    return false;
}

/* May the request go on to its route (NULL: there is none)?  If not, err says why. */
static bool check(const struct http_exchange *exchange, const struct route *route, unsigned method,
                  struct service_error *err) {
    char quoted[QUOTE_SIZE];
    const char *text = http_path(exchange);
    size_t len;

    *err = (struct service_error){0};
    if (!route) {
        err->code = "NOT_FOUND";
        snprintf(err->message, sizeof err->message, "there is no %s",
                 quote(text, strlen(text), quoted));
        return false;
    }
    if (!(route->allowed & method)) {
        text = http_method(exchange);
        err->code = "UNIMPLEMENTED";
        snprintf(err->message, sizeof err->message, "%s does not take %s; it takes %s", route->path,
                 quote(text, strlen(text), quoted), route->allow);
        return false;
    }
    http_body(exchange, &len);
    if (method != METHOD_POST && len > 0)
        return args_refuse(err, "body", "a %s takes no body", http_method(exchange));
    if (!route->takes_args)
        http_query_visit(exchange, refuse_arg, err);
    return !err->code;
}

void api_handle(void *arg, struct http_exchange *exchange) {
    struct api *api = arg;
    const struct request request = {
        .api = api,
        .exchange = exchange,
        .received = clock_board_now(api->clock_board),
    };
    const struct route *route = find_route(http_path(exchange));
    struct service_error err;

    if (!may_pass(api, exchange, route, &err)) {
        api->unauthenticated_total++;
        reply_error(exchange, &err, NULL);
    } else if (check(exchange, route, read_method(http_method(exchange)), &err)) {
        route->handle(&request);
    } else {
        reply_error(exchange, &err, route ? route->allow : NULL);
    }
}
