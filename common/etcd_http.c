#include "common/etcd_http.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/allocate.h"
#include "common/etcd_http_internal.h"
#include "common/etcd_json.h"

enum kind { TXN, GRANT, KEEPALIVE, REVOKE };

/* One call of the interface, with all its tries. */
struct etcd_operation {
    TAILQ_ENTRY(etcd_operation) link; /* among the refusals only */
    struct etcd_http *client;
    enum kind kind;
    bool repeatable; /* doing it twice does no harm */
    bool swallowed;  /* some try may have been carried out, but no answer came */
    int64_t lease_id;
    struct etcd_json_shape shape; /* of a transaction */
    char *body;
    uint64_t deadline_ms; /* uv_hrtime() / 1e6 */
    size_t endpoint;
    size_t tries;
    struct etcd_auth_waiter waiter; /* for a token */
    uint64_t token;                 /* that the last try was sent with */
    bool authenticated_again;       /* because etcd refused the token */
    etcd_txn_fn *txn_done;
    etcd_lease_fn *lease_done;
    void *arg;
    struct error refusal;
};

static const char *const paths[] = {
    [TXN] = "/v3/kv/txn",
    [GRANT] = "/v3/lease/grant",
    [KEEPALIVE] = "/v3/lease/keepalive",
    [REVOKE] = "/v3/lease/revoke",
};

static uint64_t now_ms(void) {
    return uv_hrtime() / 1000000;
}

/* --- endpoints --- */

void etcd_http_note_success(struct etcd_http *client) {
    client->stats.failures_in_row = 0;
}

void etcd_http_note_failure(struct etcd_http *client, size_t endpoint, const struct error *err) {
    client->stats.failures_in_row++;
    client->stats.last_error = *err;
    /* Several requests that fail together leave their endpoint once. */
    if (endpoint != client->current || client->endpoints.n == 1)
        return;
    client->current = (client->current + 1) % client->endpoints.n;
    client->stats.endpoint = client->endpoints.urls[client->current];
    client->stats.endpoint_switches++;
    etcd_watch_follow_all(client);
}

void etcd_http_note_refusal(struct etcd_http *client, const struct error *err) {
    client->stats.failures_in_row++;
    client->stats.last_error = *err;
}

/* --- one operation --- */

static bool is_write(const struct etcd_operation *op) {
    return !op->repeatable;
}

static void end_operation(struct etcd_operation *op, const struct error *err,
                          const struct etcd_txn_result *result, int64_t ttl_s) {
    if (err && err->status == STATUS_UNKNOWN && is_write(op))
        op->client->stats.unknown_outcomes++;
    if (op->kind == TXN)
        op->txn_done(op->arg, err, err ? NULL : result);
    else
        op->lease_done(op->arg, err, op->lease_id, ttl_s);
    free(op->body);
    free(op);
}

/* Reads an answer.  Whatever leaves a write's outcome open is STATUS_UNKNOWN. */
static enum status read_answer(struct etcd_operation *op, const struct http_result *http,
                               struct etcd_txn_result *result, int64_t *ttl_s, struct error *err) {
    const char *body = http->body;
    size_t len = http->body_len;
    enum status status = STATUS_OK;

    if (http->http_status != 200)
        return etcd_json_read_error(http->http_status, body, len, is_write(op), err);
    switch (op->kind) {
    case TXN: status = etcd_json_read_txn(body, len, &op->shape, result, err); break;
    case GRANT: status = etcd_json_read_grant(body, len, op->lease_id, ttl_s, err); break;
    case KEEPALIVE: status = etcd_json_read_keepalive(body, len, op->lease_id, ttl_s, err); break;
    case REVOKE: status = etcd_json_read_revoke(body, len, err); break;
    }
    if (status == STATUS_PROTOCOL && is_write(op))
        status = err->status = STATUS_UNKNOWN;
    return status;
}

/* The status of a try without an answer. */
static enum status without_answer(const struct etcd_operation *op, const struct http_result *http,
                                  enum status status) {
    if (status == STATUS_CANCELLED)
        return STATUS_CANCELLED;
    if (!http->sent)
        return STATUS_UNAVAILABLE;
    if (op->kind == TXN && op->repeatable)
        return STATUS_UNAVAILABLE; /* it only reads */
    return STATUS_UNKNOWN;
}

static bool endpoint_failed(enum status status) {
    return status == STATUS_UNAVAILABLE || status == STATUS_UNKNOWN || status == STATUS_PROTOCOL;
}

static void send_operation(struct etcd_operation *op);

static bool may_try_again(const struct etcd_operation *op, enum status status) {
    bool harmless = status == STATUS_UNAVAILABLE || op->repeatable;

    return harmless && !op->client->closing && op->tries < op->client->endpoints.n &&
           now_ms() < op->deadline_ms;
}

/* A try did not succeed: the next one, or the end. */
static void end_try(struct etcd_operation *op, struct error *failure) {
    struct etcd_http *client = op->client;
    enum status status = failure->status;

    if (endpoint_failed(status)) {
        client->stats.failures++;
        etcd_http_note_failure(client, op->endpoint, failure);
        if (may_try_again(op, status)) {
            op->endpoint = (op->endpoint + 1) % client->endpoints.n;
            send_operation(op);
            return;
        }
    } else if (status == STATUS_AUTH || status == STATUS_REFUSED) {
        etcd_http_note_refusal(client, failure);
    } else if (status != STATUS_CANCELLED) {
        etcd_http_note_success(client);
    }
    if (op->kind == KEEPALIVE && op->swallowed && status == STATUS_UNAVAILABLE)
        failure->status = STATUS_UNKNOWN; /* an earlier try may have renewed it */
    end_operation(op, failure, NULL, 0);
}

static void authorize(struct etcd_operation *op);

/* etcd did not accept the token, so it has done nothing.  False: a new one will not help. */
static bool authenticate_again(struct etcd_operation *op, const struct error *failure) {
    struct etcd_auth *auth = op->client->auth;

    if (!auth)
        return false;
    etcd_auth_drop(auth, op->endpoint, op->token, op->authenticated_again ? failure : NULL);
    if (op->authenticated_again)
        return false;
    op->authenticated_again = true;
    authorize(op);
    return true;
}

static void on_answer(void *arg, const struct error *err, const struct http_result *http) {
    struct etcd_operation *op = arg;
    struct etcd_http *client = op->client;
    struct etcd_txn_result result = {0};
    struct error failure;
    int64_t ttl_s = 0;

    client->stats.request_us += http->total_us;
    if (err) {
        op->swallowed = op->swallowed || http->sent;
        failure = *err;
        failure.status = without_answer(op, http, err->status);
    } else if (read_answer(op, http, &result, &ttl_s, &failure) == STATUS_OK) {
        etcd_http_note_success(client);
        end_operation(op, NULL, &result, ttl_s);
        etcd_json_free_txn(&result);
        return;
    } else {
        error_context(&failure, "%s", client->endpoints.urls[op->endpoint]);
    }
    if (failure.status != STATUS_AUTH || !authenticate_again(op, &failure))
        end_try(op, &failure);
}

/* The request goes out. */
static void transmit(struct etcd_operation *op) {
    const char *headers[] = {"Content-Type: application/json", NULL, NULL};
    struct etcd_http *client = op->client;
    uint64_t now = now_ms();
    uint64_t left = op->deadline_ms > now ? op->deadline_ms - now : 1;
    /* While another endpoint is left to try, half of the time is for it. */
    uint64_t share = op->tries < client->endpoints.n ? (left + 1) / 2 : left;
    char url[ETCD_ENDPOINT_MAX + 32];
    struct http_request request = {
        .url = url,
        .headers = headers,
        .body = op->body,
        .body_len = strlen(op->body),
        .timeout_ms = op->repeatable ? share : left,
        .connect_timeout_ms = share,
        .max_bytes = ETCD_JSON_MAX_BYTES,
        .repeatable = op->repeatable,
        .done = on_answer,
        .arg = op,
    };

    snprintf(url, sizeof url, "%s%s", client->endpoints.urls[op->endpoint], paths[op->kind]);
    if (client->auth) {
        headers[1] = etcd_auth_header(client->auth, op->endpoint);
        op->token = etcd_auth_number(client->auth, op->endpoint);
    }
    client->stats.requests++;
    http_client_send(client->http, &request);
}

static void on_authorized(void *arg, const struct error *err) {
    struct etcd_operation *op = arg;
    struct error failure;

    if (!err && now_ms() < op->deadline_ms) {
        transmit(op);
        return;
    }
    if (err)
        failure = *err;
    else
        error_set(&failure, STATUS_UNAVAILABLE, "%s: no time left after authenticating",
                  op->client->endpoints.urls[op->endpoint]);
    end_try(op, &failure);
}

/* Sends the request as soon as its endpoint knows who we are. */
static void authorize(struct etcd_operation *op) {
    struct etcd_auth *auth = op->client->auth;

    if (!auth || etcd_auth_ready(auth, op->endpoint))
        transmit(op);
    else
        etcd_auth_wait(auth, op->endpoint, &op->waiter, on_authorized, op);
}

static void send_operation(struct etcd_operation *op) {
    op->tries++;
    authorize(op);
}

static struct etcd_operation *new_operation(struct etcd_http *client, enum kind kind, void *arg) {
    struct etcd_operation *op = allocate(1, sizeof *op);

    op->client = client;
    op->kind = kind;
    op->repeatable = kind == KEEPALIVE;
    op->deadline_ms = now_ms() + client->timeout_ms;
    op->endpoint = client->current;
    op->arg = arg;
    return op;
}

static void on_timer_closed(uv_handle_t *handle) {
    etcd_http_part_closed(handle->data);
}

/* Those there are now: done() may call again. */
static void end_refusals(struct etcd_http *client) {
    struct etcd_refusals refusals = TAILQ_HEAD_INITIALIZER(refusals);
    struct etcd_operation *op;

    TAILQ_CONCAT(&refusals, &client->refusals, link);
    while ((op = TAILQ_FIRST(&refusals))) {
        TAILQ_REMOVE(&refusals, op, link);
        end_operation(op, &op->refusal, NULL, 0);
    }
}

static void on_refusals(uv_timer_t *timer) {
    struct etcd_http *client = timer->data;

    end_refusals(client);
    /* The last part to close but for watches: done() may have called again, and is answered. */
    if (!client->http && TAILQ_EMPTY(&client->refusals))
        uv_close((uv_handle_t *)timer, on_timer_closed);
}

static void refuse(struct etcd_operation *op) {
    TAILQ_INSERT_TAIL(&op->client->refusals, op, link);
    uv_timer_start(&op->client->refusal_timer, on_refusals, 0, 0);
}

/* The first try. */
static void begin_operation(struct etcd_operation *op) {
    if (op->client->closing) {
        error_set(&op->refusal, STATUS_CANCELLED, "the etcd client is closed");
        refuse(op);
    } else {
        send_operation(op);
    }
}

void etcd_http_txn(void *self, const struct etcd_txn *txn, etcd_txn_fn *done, void *arg) {
    struct etcd_http *client = self;
    struct etcd_operation *op = new_operation(client, TXN, arg);

    op->txn_done = done;
    if (etcd_json_write_txn(txn, &op->body, &op->shape, &op->refusal) != STATUS_OK) {
        refuse(op);
        return;
    }
    op->repeatable = op->shape.reads_only;
    begin_operation(op);
}

static void send_lease(void *self, enum kind kind, int64_t lease_id, int64_t ttl_s,
                       etcd_lease_fn *done, void *arg) {
    struct etcd_operation *op = new_operation(self, kind, arg);
    char body[ETCD_JSON_LEASE_BYTES];

    assert(lease_id >= 1);
    op->lease_id = lease_id;
    op->lease_done = done;
    if (kind == GRANT)
        etcd_json_write_grant(lease_id, ttl_s, body);
    else
        etcd_json_write_lease(lease_id, body);
    op->body = allocate_copy(body, strlen(body));
    begin_operation(op);
}

static void lease_grant(void *self, int64_t lease_id, int64_t ttl_s, etcd_lease_fn *done,
                        void *arg) {
    send_lease(self, GRANT, lease_id, ttl_s, done, arg);
}

static void lease_keepalive(void *self, int64_t lease_id, etcd_lease_fn *done, void *arg) {
    send_lease(self, KEEPALIVE, lease_id, 0, done, arg);
}

static void lease_revoke(void *self, int64_t lease_id, etcd_lease_fn *done, void *arg) {
    send_lease(self, REVOKE, lease_id, 0, done, arg);
}

static struct etcd_watch *watch(void *self, const struct etcd_key_range *ranges, size_t n_ranges,
                                etcd_watch_fn *on_events, void *arg) {
    return etcd_watch_new(self, ranges, n_ranges, on_events, arg);
}

static void watch_stop(void *self, struct etcd_watch *stopped) {
    (void)self;
    etcd_watch_stop(stopped);
}

/* --- the client --- */

struct etcd etcd_http_interface(struct etcd_http *client) {
    return (struct etcd){
        .txn = etcd_http_txn,
        .lease_grant = lease_grant,
        .lease_keepalive = lease_keepalive,
        .lease_revoke = lease_revoke,
        .watch = watch,
        .watch_stop = watch_stop,
        .self = client,
    };
}

static uint64_t value_or(uint64_t value, uint64_t fallback) {
    return value ? value : fallback;
}

enum status etcd_http_new(uv_loop_t *loop, const struct etcd_http_config *config,
                          struct etcd_http **client, struct error *err) {
    const struct http_config http = {
        .ca_file = config->ca_file,
        .cert_file = config->cert_file,
        .key_file = config->key_file,
    };
    struct etcd_http *made = allocate(1, sizeof *made);

    if (etcd_endpoints_parse(config->endpoints, &made->endpoints, err) != STATUS_OK ||
        etcd_auth_new(made, config, &made->auth, err) != STATUS_OK ||
        http_client_new(loop, &http, &made->http, err) != STATUS_OK) {
        etcd_auth_free(made->auth);
        etcd_endpoints_release(&made->endpoints);
        free(made);
        return err->status;
    }
    made->loop = loop;
    made->timeout_ms = value_or(config->timeout_ms, 2000);
    made->watch_lifetime_ms = value_or(config->watch_lifetime_ms, 60000);
    made->retry_min_ms = value_or(config->retry_min_ms, 100);
    made->retry_max_ms = value_or(config->retry_max_ms, 2000);
    made->stats.endpoint = made->endpoints.urls[0];
    TAILQ_INIT(&made->watches);
    TAILQ_INIT(&made->refusals);
    uv_timer_init(loop, &made->refusal_timer);
    made->refusal_timer.data = made;
    made->open_parts = 2; /* the HTTP client and this timer */
    if (made->auth) {
        etcd_auth_start(made->auth);
        made->open_parts++;
    }
    *client = made;
    return STATUS_OK;
}

void etcd_http_part_closed(struct etcd_http *client) {
    if (--client->open_parts > 0)
        return;
    while (!TAILQ_EMPTY(&client->refusals)) /* of calls made since the timer was closed */
        end_refusals(client);
    etcd_watch_release_all(client);
    etcd_auth_free(client->auth);
    etcd_endpoints_release(&client->endpoints);
    if (client->closed)
        client->closed(client->closed_arg);
    free(client);
}

static void on_http_closed(void *arg) {
    struct etcd_http *client = arg;

    client->http = NULL;
    if (client->auth)
        etcd_auth_close(client->auth);
    uv_timer_start(&client->refusal_timer, on_refusals, 0, 0);
    etcd_http_part_closed(client);
}

void etcd_http_close(struct etcd_http *client, void (*closed)(void *arg), void *arg) {
    assert(!client->closing);
    client->closing = true;
    client->closed = closed;
    client->closed_arg = arg;
    etcd_watch_stop_all(client);
    http_client_close(client->http, on_http_closed, client);
}

const struct etcd_http_stats *etcd_http_stats(const struct etcd_http *client) {
    return &client->stats;
}
