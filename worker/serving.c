#include "worker/serving.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "common/allocate.h"
#include "common/http_server.h"
#include "worker/api.h"
#include "worker/lend.h"
#include "worker/park.h"
#include "worker/rpc.h"
#include "worker/service.h"

#define TICK_MS 1000             /* for /livez; well below WORKER_STUCK_MS */
#define REQUEST_TIMEOUT_MS 10000 /* the defaults of serving_config */
#define IDLE_TIMEOUT_MS 75000    /* above the 60 s of common proxies, so that they close first */
#define MAX_BODY_BYTES (64u * 1024u)
#define MAX_HEADER_BYTES (16u * 1024u)
/* The last answers are given this long to be written when the thread ends. */
#define END_LOOK_MS 5
#define END_MAX_MS 500

/* An order on its way to the loop, or a call from another loop, or back. */
struct letter {
    struct serving_order order; /* when lent is NULL */
    struct lent *lent;
    struct letter *next;
};

struct serving {
    struct serving_config config;
    pthread_t thread;

    /* Shared with other threads. */
    pthread_mutex_t mutex;        /* of the mailbox and of stop */
    struct letter *first, **last; /* a queue; *last is where the next one goes */
    bool stop;
    uv_async_t wake;
    _Atomic unsigned busy;

    /* The loop's own. */
    uv_loop_t loop;
    uv_timer_t tick, end;
    uv_prepare_t publish;
    struct service service;
    struct park *park;
    struct lend *lend; /* NULL: there is no other loop */
    struct api api;
    struct tokens *tokens;      /* NULL: clients need none */
    struct public_codec *codec; /* NULL: no public IDs */
    struct http_server *http;
    struct rpc *rpc;    /* NULL: no gRPC */
    uint64_t end_by_ms; /* by the loop's clock */
};

static const struct service_error shutting_down = {
    .code = "UNAVAILABLE",
    .message = "this worker is shutting down",
    .retry_after_ms = 1000,
};

/* ---- what others see ---- */

static void store(_Atomic uint64_t *gauge, uint64_t value) {
    atomic_store_explicit(gauge, value, memory_order_relaxed);
}

static void publish_grpc(struct loop_gauges *gauges, const struct grpc_server *server) {
    struct grpc_server_stats stats;

    grpc_server_stats(server, &stats);
    store(&gauges->grpc_connections, stats.connections);
    store(&gauges->grpc_connections_total, stats.connections_total);
    store(&gauges->grpc_refused_connections_total, stats.refused_connections_total);
    store(&gauges->grpc_accept_failures_total, stats.accept_failures_total);
    store(&gauges->grpc_floods_total, stats.floods_total);
    for (size_t code = 0; code < GRPC_CODES; code++)
        store(&gauges->grpc_calls_total[code], stats.calls_total[code]);
}

static unsigned count_busy(const struct serving *serving) {
    return http_server_busy(serving->http) +
           (serving->rpc ? grpc_server_busy(rpc_server(serving->rpc)) : 0);
}

/* Runs in every turn of the loop. */
static void on_publish(uv_prepare_t *handle) {
    struct serving *serving = handle->data;
    struct loop_gauges *gauges = serving->config.gauges;
    struct http_server_stats stats;

    http_server_stats(serving->http, &stats);
    if (serving->service.issued_total > 0 && !serving->service.fresh)
        store(&gauges->last_issued_ms, serving->service.generation.ids.last_wall_ms);
    store(&gauges->newest_ms,
          serving->service.serving ? serving->service.generation.ids.last_wall_ms : 0);
    /* Released: who reads it also sees all that came before, the other loops among it. */
    atomic_store_explicit(&gauges->limit_ms,
                          serving->service.serving && serving->end_by_ms == 0
                              ? serving->service.generation.ids.limit_ms
                              : 0,
                          memory_order_release);
    store(&gauges->issued_total, serving->service.issued_total);
    for (int kind = 0; kind < ID_KINDS; kind++)
        store(&gauges->kind_issued_total[kind], serving->service.kind_issued_total[kind]);
    store(&gauges->parked, park_waiting(serving->park));
    store(&gauges->http_connections, stats.connections);
    store(&gauges->http_connections_total, stats.connections_total);
    store(&gauges->http_refused_connections_total, stats.refused_connections_total);
    store(&gauges->http_accept_failures_total, stats.accept_failures_total);
    store(&gauges->http_requests_total, stats.requests_total);
    store(&gauges->http_guard_refusals_total, stats.guard_refusals_total);
    store(&gauges->http_timeouts_total, stats.timeouts_total);
    store(&gauges->http_unauthenticated_total, serving->api.unauthenticated_total);
    if (serving->rpc)
        publish_grpc(gauges, rpc_server(serving->rpc));
    atomic_store_explicit(&serving->busy, count_busy(serving), memory_order_relaxed);
}

/* Limits pass, and orders change what is served: those who watch are told. */
static void look(struct serving *serving) {
    if (serving->rpc)
        rpc_look(serving->rpc);
}

static void on_tick(uv_timer_t *timer) {
    struct serving *serving = timer->data;
    struct instant now = clock_now(&serving->config.clock);

    store(&serving->config.gauges->turned_boot_ms, now.boot_ms);
    park_clock_moved(serving->park); /* should it ever come unnoticed */
    park_serve(serving->park, now.wall_ms);
    look(serving);
}

/* ---- the end ---- */

/* Those who wait, here or at another loop. */
static void fail_all(struct serving *serving) {
    park_fail(serving->park, &shutting_down);
    if (serving->lend)
        lend_end(serving->lend, &shutting_down);
}

static void close_all(struct serving *serving) {
    fail_all(serving);
    http_server_close(serving->http, NULL, NULL);
    rpc_close(serving->rpc);
    park_close(serving->park);
    uv_close((uv_handle_t *)&serving->tick, NULL);
    uv_close((uv_handle_t *)&serving->end, NULL);
    uv_close((uv_handle_t *)&serving->publish, NULL);
    uv_close((uv_handle_t *)&serving->wake, NULL);
}

static void on_end(uv_timer_t *timer) {
    struct serving *serving = timer->data;

    fail_all(serving);
    if (count_busy(serving) == 0 || uv_now(&serving->loop) >= serving->end_by_ms)
        close_all(serving);
}

static void begin_end(struct serving *serving) {
    http_server_drain(serving->http);
    fail_all(serving);
    if (serving->rpc)
        rpc_end(serving->rpc);
    serving->end_by_ms = uv_now(&serving->loop) + END_MAX_MS;
    uv_timer_start(&serving->end, on_end, 0, END_LOOK_MS);
}

/* ---- orders ---- */

static void set_tokens(struct serving *serving, struct tokens *tokens) {
    free(serving->tokens);
    serving->tokens = tokens;
    serving->api.tokens = tokens;
    if (serving->rpc)
        rpc_set_tokens(serving->rpc, tokens);
}

static void set_codec(struct serving *serving, struct public_codec *codec) {
    public_codec_free(serving->codec);
    serving->codec = codec;
    serving->api.codec = codec;
    if (serving->rpc)
        rpc_set_codec(serving->rpc, codec);
}

static void set_tls(struct serving *serving, struct grpc_tls *tls) {
    if (serving->rpc)
        grpc_server_set_tls(rpc_server(serving->rpc), tls);
    grpc_tls_unref(tls);
}

static void drain(struct serving *serving) {
    serving->api.draining = true;
    http_server_drain(serving->http);
    if (serving->rpc)
        rpc_drain(serving->rpc);
}

static void carry_out(struct serving *serving, const struct serving_order *order) {
    switch (order->kind) {
    case SERVING_INSTALL: service_install(&serving->service, &order->install); break;
    case SERVING_RAISE: service_raise(&serving->service, order->claim, order->limit_ms); break;
    case SERVING_TOKENS: set_tokens(serving, order->tokens); break;
    case SERVING_DROP: service_drop(&serving->service); break;
    case SERVING_CLOCK: park_clock_moved(serving->park); break;
    case SERVING_SEQUENCES:
        park_serve_sequences(serving->park, clock_now(&serving->config.clock).wall_ms);
        break;
    case SERVING_CLOSE:
        serving->config.closed(serving->config.arg, service_close(&serving->service));
        break;
    case SERVING_CODEC: set_codec(serving, order->codec); break;
    case SERVING_TLS: set_tls(serving, order->grpc_tls); break;
    case SERVING_DRAIN: drain(serving); break;
    }
}

static void on_wake(uv_async_t *wake) {
    struct serving *serving = wake->data;
    struct letter *letters;
    bool stop;

    pthread_mutex_lock(&serving->mutex);
    letters = serving->first;
    serving->first = NULL;
    serving->last = &serving->first;
    stop = serving->stop;
    pthread_mutex_unlock(&serving->mutex);

    while (letters) {
        struct letter *letter = letters;

        letters = letter->next;
        if (letter->lent)
            lend_arrived(serving->lend, letter->lent, clock_now(&serving->config.clock).wall_ms);
        else
            carry_out(serving, &letter->order);
        free(letter);
    }
    if (stop && serving->end_by_ms == 0)
        begin_end(serving);
    park_serve(serving->park, clock_now(&serving->config.clock).wall_ms);
    look(serving);
}

/* letter is copied. */
static void post(struct serving *serving, const struct letter *content) {
    struct letter *letter = allocate(1, sizeof *letter);

    *letter = *content;
    pthread_mutex_lock(&serving->mutex);
    *serving->last = letter;
    serving->last = &letter->next;
    pthread_mutex_unlock(&serving->mutex);
    uv_async_send(&serving->wake);
}

void serving_order(struct serving *serving, const struct serving_order *order) {
    post(serving, &(struct letter){.order = *order});
}

/* On this loop's thread, to another one's. */
static void send_lent(void *arg, size_t loop, struct lent *lent) {
    struct serving *serving = arg;

    post(serving->config.peer(serving->config.arg, loop), &(struct letter){.lent = lent});
}

unsigned serving_busy(struct serving *serving) {
    return atomic_load_explicit(&serving->busy, memory_order_relaxed);
}

/* ---- life ---- */

static void *run(void *arg) {
    struct serving *serving = arg;

    uv_run(&serving->loop, UV_RUN_DEFAULT);
    return NULL;
}

static enum status start_rpc(struct serving *serving, struct error *err) {
    const struct serving_config *config = &serving->config;
    const struct rpc_config rpc = {
        .clock = &config->clock,
        .clock_board = config->clock_board,
        .service = &serving->service,
        .park = serving->park,
        .board = config->board,
        .max_connections = config->max_connections,
        .request_timeout_ms = config->request_timeout_ms ? config->request_timeout_ms
                                                         : REQUEST_TIMEOUT_MS,
        .max_age_ms = config->max_connection_age_ms,
        .codec = config->codec,
        .tokens = serving->tokens,
    };
    struct grpc_server *server;

    if (config->grpc_fd < 0 && config->unix_fd < 0)
        return STATUS_OK;
    if (rpc_new(&serving->loop, &rpc, &serving->rpc, err) != STATUS_OK)
        return err->status;
    server = rpc_server(serving->rpc);
    if (config->grpc_tls)
        grpc_server_set_tls(server, config->grpc_tls);
    if (config->grpc_fd >= 0 &&
        grpc_server_listen(server, GRPC_TCP, config->grpc_fd, err) != STATUS_OK)
        return err->status;
    if (config->unix_fd >= 0)
        return grpc_server_listen(server, GRPC_UNIX, config->unix_fd, err);
    return STATUS_OK;
}

static bool ask_another(void *lend, struct park_call *call, uint64_t now_ms) {
    return lend_ask(lend, call, now_ms);
}

static void forget(void *lend, struct park_call *call) {
    lend_forget(lend, call);
}

static void start_lending(struct serving *serving) {
    const struct serving_config *config = &serving->config;
    const struct lend_config lend = {.gauges = config->all_gauges,
                                     .n_loops = config->n_loops,
                                     .self = (size_t)(config->gauges - config->all_gauges),
                                     .park = serving->park,
                                     .max_backward_wait_ms = config->max_backward_wait_ms,
                                     .send = send_lent,
                                     .arg = serving};

    if (config->n_loops < 2)
        return;
    serving->lend = lend_new(&lend);
    park_set_other(serving->park, &(struct park_other){
                                      .take = ask_another, .leave = forget, .arg = serving->lend});
}

static enum status take_wide(void *source, enum id_kind kind, uint64_t now_ms, struct id128 *ids,
                             size_t want, size_t *have, struct error *err) {
    static const enum id128_kind kinds[ID_KINDS] = {
        [ID_UUIDV4] = ID128_UUIDV4, [ID_UUIDV7] = ID128_UUIDV7, [ID_ULID] = ID128_ULID};

    return id128_source_take(source, kinds[kind], now_ms, ids, want, have, err);
}

static enum status start_parts(struct serving *serving, struct error *err) {
    const struct serving_config *config = &serving->config;
    const struct http_server_config http = {
        .max_connections = config->max_connections,
        .max_body_bytes = MAX_BODY_BYTES,
        .max_header_bytes = MAX_HEADER_BYTES,
        .request_timeout_ms = config->request_timeout_ms ? config->request_timeout_ms
                                                         : REQUEST_TIMEOUT_MS,
        .idle_timeout_ms = config->idle_timeout_ms ? config->idle_timeout_ms : IDLE_TIMEOUT_MS,
        .handle = api_handle,
        .arg = &serving->api,
    };

    service_init(&serving->service, config->max_backward_wait_ms, config->start);
    serving->service.wide = (struct service_wide){.take = take_wide, .source = config->source};
    if (config->sequences)
        serving->service.sequences = (struct service_sequences){.take = sequences_take,
                                                                .table = config->sequences};
    if (park_new(&serving->loop, config->clock_board, &serving->service, config->max_commit_wait_ms,
                 &serving->park, err) != STATUS_OK)
        return err->status;
    start_lending(serving);
    serving->api = (struct api){
        .clock_board = config->clock_board,
        .service = &serving->service,
        .source = config->source,
        .sequences = config->sequences,
        .park = serving->park,
        .board = config->board,
        .all_gauges = config->all_gauges,
        .n_loops = config->n_loops,
        .codec = config->codec,
    };
    if (config->tokens) {
        set_tokens(serving, allocate(1, sizeof *serving->tokens));
        *serving->tokens = *config->tokens;
    }
    if (start_rpc(serving, err) == STATUS_OK &&
        http_server_new(&serving->loop, config->http_fd, &http, &serving->http, err) == STATUS_OK)
        return STATUS_OK;
    rpc_close(serving->rpc);
    park_close(serving->park);
    uv_run(&serving->loop, UV_RUN_DEFAULT); /* until all are closed */
    return err->status;
}

static void start_handles(struct serving *serving) {
    uv_async_init(&serving->loop, &serving->wake, on_wake);
    uv_timer_init(&serving->loop, &serving->tick);
    uv_timer_init(&serving->loop, &serving->end);
    uv_prepare_init(&serving->loop, &serving->publish);
    serving->wake.data = serving->tick.data = serving->end.data = serving->publish.data = serving;
    uv_timer_start(&serving->tick, on_tick, 0, TICK_MS);
    uv_prepare_start(&serving->publish, on_publish);
}

/* Signals are the main thread's, and one that nobody waits for must not end a write here. */
static int start_thread(struct serving *serving) {
    sigset_t all, before;
    int code;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(&serving->thread, NULL, run, serving);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0)
        pthread_setname_np(serving->thread, "serving");
    return code;
}

void serving_free(struct serving *serving) {
    uv_loop_close(&serving->loop);
    pthread_mutex_destroy(&serving->mutex);
    while (serving->first) {
        struct letter *letter = serving->first;

        serving->first = letter->next;
        free(letter->order.tokens);
        public_codec_free(letter->order.codec);
        grpc_tls_unref(letter->order.grpc_tls);
        if (letter->lent)
            lent_free(letter->lent);
        free(letter);
    }
    lend_free(serving->lend);
    free(serving->tokens);
    public_codec_free(serving->codec);
    free_unforked(serving, sizeof *serving);
}

enum status serving_start(const struct serving_config *config, struct serving **serving,
                          struct error *err) {
    struct serving *made = allocate_unforked(sizeof *made); /* it holds the generator */
    int code;

    made->config = *config;
    made->last = &made->first;
    pthread_mutex_init(&made->mutex, NULL);
    code = uv_loop_init(&made->loop);
    if (code != 0) {
        pthread_mutex_destroy(&made->mutex);
        free_unforked(made, sizeof *made);
        return error_set(err, STATUS_SYSTEM, "serving loop: %s", uv_strerror(code));
    }
    if (start_parts(made, err) != STATUS_OK)
        goto failed;
    start_handles(made);
    made->codec = config->codec;
    code = start_thread(made);
    if (code != 0) {
        error_set(err, STATUS_SYSTEM, "serving thread: %s", strerror(code));
        made->codec = NULL; /* the caller's still */
        close_all(made);
        uv_run(&made->loop, UV_RUN_DEFAULT);
        goto failed;
    }
    *serving = made;
    return STATUS_OK;
failed:
    serving_free(made);
    return err->status;
}

void serving_stop(struct serving *serving) {
    pthread_mutex_lock(&serving->mutex);
    serving->stop = true;
    pthread_mutex_unlock(&serving->mutex);
    uv_async_send(&serving->wake);
    pthread_join(serving->thread, NULL);
}
