#include "coordinator/web.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/decimal.h"
#include "common/fields.h"
#include "common/quote.h"
#include "coordinator/fleet.h"
#include "coordinator/metrics.h"
#include "coordinator/openapi.h"
#include "coordinator/report.h"

#define JSON "application/json"
#define FLEET_AGE_MS 1000u
#define METRICS "text/plain; version=0.0.4; charset=utf-8"

static void reply(struct http_exchange *exchange, unsigned status, const char *content_type,
                  char *body, const char *const *headers) {
    const struct http_response response = {.status = status,
                                           .content_type = content_type,
                                           .body = body,
                                           .body_len = strlen(body),
                                           .release = free,
                                           .headers = headers};

    http_reply(exchange, &response);
}

static void reply_json(struct http_exchange *exchange, unsigned status, json_t *object,
                       const char *const *headers) {
    reply(exchange, status, JSON, fields_spell(object, NULL), headers);
}

/* retry_after_ms above 0: 503, and when to come again. */
static void reply_error(struct http_exchange *exchange, unsigned status, const char *code,
                        const char *message, const char *field, uint64_t retry_after_ms,
                        const char *allow) {
    json_t *object = json_object(), *error = json_object();
    const char *headers[] = {NULL, NULL, NULL};

    fields_put(error, "code", json_string(code));
    fields_put(error, "message", fields_from_label(message));
    if (field)
        fields_put(error, "field", fields_from_label(field));
    if (retry_after_ms > 0) {
        fields_put(error, "retry_after_ms", fields_from_number(retry_after_ms));
        headers[0] = "Retry-After";
        headers[1] = "1";
    } else if (allow) {
        headers[0] = "Allow";
        headers[1] = allow;
    }
    fields_put(object, "error", error);
    reply_json(exchange, status, object, headers);
}

static void handle_live(struct web *web, struct http_exchange *exchange) {
    json_t *object = json_object();

    (void)web; /* that this runs is all there is to know: there is one loop */
    fields_put(object, "live", json_true());
    reply_json(exchange, 200, object, NULL);
}

/* Ready: it could assign, now or as soon as it leads. */
static void handle_ready(struct web *web, struct http_exchange *exchange) {
    enum election_state state = election_state(web->election);
    json_t *object;

    if (state == ELECTION_NO_LEASE || state == ELECTION_RESIGNED) {
        reply_error(exchange, 503, "UNAVAILABLE",
                    state == ELECTION_RESIGNED ? "stopping" : "no lease in etcd", NULL, 1000, NULL);
        return;
    }
    if (web->trouble[0]) {
        reply_error(exchange, 503, "UNAVAILABLE", web->trouble, NULL, 1000, NULL);
        return;
    }
    object = json_object();
    fields_put(object, "ready", json_true());
    fields_put(object, "leader", json_boolean(election_leads(web->election)));
    reply_json(exchange, 200, object, NULL);
}

static void handle_status(struct web *web, struct http_exchange *exchange) {
    json_t *object = report_status(web->cluster, web->cluster_name, clock_now(&web->clock).wall_ms);
    json_t *self = json_object();

    fields_put(self, "instance", json_string(web->instance));
    fields_put(self, "leads", json_boolean(election_leads(web->election)));
    fields_put(self, "state", json_string(election_state_name(election_state(web->election))));
    fields_put(self, "trouble", report_text(web->trouble));
    fields_put(self, "ceiling_alarm",
               report_text(ceiling_alarm_text(raiser_stats(web->raiser)->alarm)));
    fields_put(self, "version", json_string(SNOWFLEET_VERSION));
    fields_put(object, "self", self);
    reply_json(exchange, 200, object, NULL);
}

static void handle_skew(struct web *web, struct http_exchange *exchange) {
    struct survey survey;

    if (!web->cluster->has_meta) {
        reply_error(exchange, 503, "UNAVAILABLE",
                    web->trouble[0] ? web->trouble : "meta has not been read yet", NULL, 1000,
                    NULL);
        return;
    }
    clocks_survey(web->clocks, &survey);
    reply_json(exchange, 200,
               survey_json(&survey, web->cluster, web->cluster_name, clock_now(&web->clock).wall_ms,
                           web->instance),
               NULL);
    survey_done(&survey);
}

struct history_query {
    uint64_t since_ms;
    char field[QUOTE_SIZE]; /* the argument that is wrong; "" */
    struct error err;
};

static void read_history_argument(void *arg, const char *name, struct http_text value) {
    struct history_query *query = arg;

    if (query->field[0])
        return;
    if (strcmp(name, "since") != 0)
        error_set(&query->err, STATUS_INVALID, "there is no such argument");
    else if (value.twice)
        error_set(&query->err, STATUS_INVALID, "given twice");
    else if (decimal_parse(value.text, value.len, 0, RECORD_WALL_MAX_MS, &query->since_ms,
                           &query->err) == STATUS_OK)
        return;
    quote(name, strlen(name), query->field);
}

static void handle_history(struct web *web, struct http_exchange *exchange) {
    struct instant now = clock_now(&web->clock);
    struct history_query query = {.since_ms = 0};
    char message[QUOTE_SIZE + sizeof query.err.message + 8];
    char *body;
    size_t len;

    http_query_visit(exchange, read_history_argument, &query);
    if (query.field[0]) {
        snprintf(message, sizeof message, "%s %s", query.field, query.err.message);
        reply_error(exchange, 400, "INVALID_ARGUMENT", message, query.field, 0, NULL);
        return;
    }
    body = skew_history_spell(web->history, now.wall_ms, now.boot_ms, query.since_ms, &len);
    reply(exchange, 200, JSON, body, NULL);
}

static char *make_fleet(const struct web *web, struct instant now) {
    const struct etcd_http_stats *etcd = etcd_http_stats(web->etcd);
    const struct cluster *cluster = web->cluster;
    struct fleet_view view = {
        .cluster = cluster,
        .cluster_name = web->cluster_name,
        .now = now,
        .boot_ns = clock_now_ns(&web->clock).boot_ns,
        .instance = web->instance,
        .leads = election_leads(web->election),
        .state = election_state_name(election_state(web->election)),
        .trouble = web->trouble,
        .ceiling_alarm = ceiling_alarm_text(raiser_stats(web->raiser)->alarm),
        .etcd_endpoint = etcd->endpoint,
        .etcd_error = etcd->failures_in_row > 0 ? etcd->last_error.message : "",
    };

    if (cluster->has_meta)
        view.consensus = clocks_consensus(web->clocks, cluster->meta.max_offset_ms);
    return fields_spell(fleet_report(&view), NULL);
}

static void handle_fleet(struct web *web, struct http_exchange *exchange) {
    static const char *const headers[] = {"Cache-Control", "no-store", "X-Content-Type-Options",
                                          "nosniff", NULL};
    struct instant now = clock_now(&web->clock);

    if (!web->fleet || now.boot_ms - web->fleet_boot_ms >= FLEET_AGE_MS) {
        char *text = make_fleet(web, now);

        body_free(web->fleet);
        web->fleet = body_new(text, strlen(text), false);
        web->fleet_boot_ms = now.boot_ms;
        free(text);
    }
    body_reply(web->fleet, exchange, JSON, headers);
}

static void handle_page(struct web *web, struct http_exchange *exchange) {
    page_reply(web->page, exchange);
}

void web_done(struct web *web) {
    body_free(web->fleet);
    web->fleet = NULL;
}

static void handle_openapi(struct web *web, struct http_exchange *exchange) {
    (void)web;
    reply(exchange, 200, JSON, allocate_copy(coordinator_openapi, coordinator_openapi_len), NULL);
}

static void handle_metrics(struct web *web, struct http_exchange *exchange) {
    reply(exchange, 200, METRICS, metrics_spell(web), NULL);
}

/* ---- routes ---- */

typedef void handler(struct web *web, struct http_exchange *exchange);

static const struct {
    const char *path;
    handler *handle;
} routes[] = {
    {"/livez", handle_live},
    {"/readyz", handle_ready},
    {"/metrics", handle_metrics},
    {"/v1/openapi.json", handle_openapi},
    {"/v1/status", handle_status},
    {"/v1/skew", handle_skew},
    {"/v1/skew/history", handle_history},
    {"/v1/fleet", handle_fleet},
};

static handler *find_handler(const char *path) {
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (strcmp(path, routes[i].path) == 0)
            return routes[i].handle;
    }
    return page_has(path) ? handle_page : NULL;
}

void web_handle(void *arg, struct http_exchange *exchange) {
    const char *path = http_path(exchange), *method = http_method(exchange);
    char quoted[QUOTE_SIZE], message[QUOTE_SIZE + 40];
    handler *handle = find_handler(path);

    if (!handle) {
        snprintf(message, sizeof message, "there is no %s", quote(path, strlen(path), quoted));
        reply_error(exchange, 404, "NOT_FOUND", message, NULL, 0, NULL);
    } else if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0) {
        handle(arg, exchange);
    } else {
        snprintf(message, sizeof message, "%s takes GET and HEAD", path);
        reply_error(exchange, 405, "UNIMPLEMENTED", message, NULL, 0, "GET, HEAD");
    }
}
