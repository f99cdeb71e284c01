#include "worker/worker_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/daemon_main.h"
#include "common/http_server.h"
#include "common/random.h"
#include "common/supervisor.h"

/* ---- drain ---- */

static void free_holders(struct worker *worker) {
    for (size_t i = 0; i < worker->n_slots; i++) {
        holder_free(worker->slots[i].holder);
        keeper_free(worker->slots[i].keeper);
    }
    sequences_end(worker->sequences);
    registration_free(worker->registration);
}

static void close_handle(uv_handle_t *handle) {
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void close_handles(void *arg) {
    struct worker *worker = arg;

    peers_free(worker->timing.asker);
    close_handle((uv_handle_t *)&worker->on_term);
    close_handle((uv_handle_t *)&worker->on_int);
    daemon_ends();
    close_handle((uv_handle_t *)&worker->closed_async);
    time_daemon_close(worker->timing.daemon);
}

/* What calls etcd goes with the client, before the loop turns again. */
static void on_etcd_closed(void *arg) {
    struct worker *worker = arg;

    free_holders(worker);
    if (worker->timing.client)
        http_client_close(worker->timing.client, close_handles, worker);
    else
        close_handles(worker);
}

/* Everything on the loop, so that it ends.  First what would begin something new. */
static void close_all(struct worker *worker) {
    worker->drain = WORKER_DRAIN_ENDING;
    close_handle((uv_handle_t *)&worker->tick);
    close_handle((uv_handle_t *)&worker->review);
    close_handle((uv_handle_t *)&worker->deadline);
    if (worker->timing.set_fd >= 0)
        close_handle((uv_handle_t *)&worker->timing.set_poll);
    if (worker->etcd_http)
        etcd_http_close(worker->etcd_http, on_etcd_closed, worker);
    else
        on_etcd_closed(worker);
}

static bool all_gone(const struct worker *worker) {
    for (size_t i = 0; i < worker->n_slots; i++) {
        const struct worker_slot *slot = &worker->slots[i];

        if (slot->keeper ? !keeper_gone(slot->keeper) : !holder_gone(slot->holder))
            return false;
    }
    return true;
}

static void end(struct worker *worker) {
    uint64_t took_ms = worker_now(worker).boot_ms - worker->drain_began_boot_ms;

    if (worker->drain == WORKER_DRAIN_ENDING)
        return;
    if (worker->failure.status != STATUS_OK)
        log_warn("worker", "drained: the machine ID keeps its horizon",
                 LOG_INT("took_ms", took_ms));
    else if (all_gone(worker))
        log_info("worker", "drained: machine IDs released", LOG_INT("took_ms", took_ms));
    else
        log_warn("worker", "drained: not all machine IDs released, their leases will expire",
                 LOG_INT("took_ms", took_ms));
    close_all(worker);
}

static bool any_busy(const struct worker *worker) {
    for (size_t i = 0; i < worker->n_slots; i++)
        if (serving_busy(worker->slots[i].serving) > 0)
            return true;
    return false;
}

static void on_deadline(uv_timer_t *timer) {
    end(timer->data);
}

static void release(struct worker_slot *slot) {
    if (slot->keeper)
        keeper_release(slot->keeper);
    else
        holder_release(slot->holder);
}

/* Requests first, until none is under way for a moment; then the machine IDs; then the leases.  New
 * requests are answered until the machine IDs go, so a client that does not let up must not keep
 * the worker: the first stage is short, and at most half of the time. */
static void drain_on(struct worker *worker) {
    struct instant now = worker_now(worker);
    uint64_t spent_ms = now.boot_ms - worker->drain_began_boot_ms;

    if (worker->drain == WORKER_DRAIN_REQUESTS &&
        (!any_busy(worker) || spent_ms >= WORKER_DRAIN_REQUESTS_MS ||
         spent_ms >= worker->config->drain_timeout_ms / 2)) {
        worker->drain = WORKER_DRAIN_RELEASE;
        for (size_t i = 0; i < worker->n_slots; i++)
            release(&worker->slots[i]);
    }
    if (worker->drain == WORKER_DRAIN_RELEASE && all_gone(worker)) {
        worker->drain = WORKER_DRAIN_LEAVE;
        if (worker->registration)
            registration_leave(worker->registration);
    }
    if (worker->drain == WORKER_DRAIN_LEAVE &&
        (!worker->registration || registration_left(worker->registration)))
        end(worker);
}

void worker_start_drain(struct worker *worker, const char *why) {
    struct serving_order order = {.kind = SERVING_DRAIN};

    if (worker->drain != WORKER_RUNNING)
        return;
    log_info("worker", "draining", LOG_STR("reason", why),
             LOG_INT("drain_timeout_ms", worker->config->drain_timeout_ms));
    supervisor_stopping();
    worker->drain = WORKER_DRAIN_REQUESTS;
    worker->drain_began_boot_ms = worker_now(worker).boot_ms;
    worker_publish(worker); /* not ready, before anything else */
    for (size_t i = 0; i < worker->n_slots; i++)
        serving_order(worker->slots[i].serving, &order);
    /* What is left of the time-out is for closing. */
    uv_timer_start(&worker->deadline, on_deadline, worker->config->drain_timeout_ms * 7 / 8, 0);
    worker_changed(worker);
}

static void on_signal(uv_signal_t *signal, int number) {
    worker_start_drain(signal->data, number == SIGTERM ? "SIGTERM" : "SIGINT");
}

/* The state file cannot be written: nothing of what was granted is unsafe to use, but there will be
 * no more of it, and another process may find out what is wrong. */
static void on_failed(void *arg, const struct error *err) {
    struct worker *worker = arg;

    worker->failure = *err;
    log_error("state", "the state file cannot be written: ending", LOG_STR("reason", err->message));
    worker_start_drain(worker, "the state file cannot be written");
}

/* ---- the loop ---- */

/* Of etcd: the search for slots and the record of what is wanted. */
static void seek_and_tell(struct worker *worker) {
    char *text;

    worker_look_at_history(worker, worker_now(worker));
    sequences_kick(worker->sequences);
    worker_search(worker);
    text = worker_node_text(worker);
    registration_set(worker->registration, text);
    free(text);
}

static void review(struct worker *worker) {
    if (worker->drain == WORKER_DRAIN_ENDING)
        return;
    if (worker->drain != WORKER_RUNNING)
        drain_on(worker);
    else if (worker->registration)
        seek_and_tell(worker);
    if (worker->drain != WORKER_DRAIN_ENDING)
        worker_publish(worker);
}

static void on_review(uv_timer_t *timer) {
    review(timer->data);
}

void worker_changed(void *arg) {
    struct worker *worker = arg;

    if (worker->drain != WORKER_DRAIN_ENDING)
        uv_timer_start(&worker->review, on_review, 0, 0);
}

static bool serves(const struct worker *worker) {
    struct instant now = worker_now(worker);

    for (size_t i = 0; i < worker->n_slots; i++) {
        struct hold_view view;

        worker_slot_look(&worker->slots[i], &view);
        if (view.phase != HOLD_OPEN || view.limit_ms < now.wall_ms)
            return false;
    }
    return true;
}

/* As /livez, which a loop that is stuck cannot answer. */
static bool loops_turn(const struct worker *worker, struct instant now) {
    for (size_t i = 0; i < worker->n_slots; i++) {
        uint64_t turned_boot_ms = atomic_load_explicit(&worker->gauges[i].turned_boot_ms,
                                                       memory_order_relaxed);

        if (turned_boot_ms && now.boot_ms > turned_boot_ms + WORKER_STUCK_MS)
            return false;
    }
    return true;
}

static void on_tick(uv_timer_t *timer) {
    struct worker *worker = timer->data;
    struct instant now = worker_now(worker);
    uint64_t period_ms = serves(worker) ? WORKER_POLL_MS : WORKER_POLL_IDLE_MS;

    if (loops_turn(worker, now))
        supervisor_alive(now.boot_ms);
    worker_tick_clock(worker);
    worker_look_at_tokens(worker, now);
    worker_look_at_public_keys(worker, now);
    worker_look_at_tls(worker, now);
    if (worker->etcd_http && !worker->polling && now.boot_ms - worker->polled_boot_ms >= period_ms)
        worker_poll_etcd(worker, now);
    review(worker);
}

/* On the serving thread. */
static void on_closed(void *arg, uint64_t last_ms) {
    struct worker_slot *slot = arg;

    pthread_mutex_lock(&slot->worker->closed_mutex);
    slot->closed = true;
    slot->closed_last_ms = last_ms;
    pthread_mutex_unlock(&slot->worker->closed_mutex);
    uv_async_send(&slot->worker->closed_async);
}

static void on_closed_async(uv_async_t *async) {
    struct worker *worker = async->data;

    for (size_t i = 0; i < worker->n_slots; i++) {
        struct worker_slot *slot = &worker->slots[i];
        bool closed;
        uint64_t last_ms;

        pthread_mutex_lock(&worker->closed_mutex);
        closed = slot->closed;
        last_ms = slot->closed_last_ms;
        slot->closed = false;
        pthread_mutex_unlock(&worker->closed_mutex);
        if (!closed || worker->drain == WORKER_DRAIN_ENDING)
            continue;
        if (slot->keeper)
            keeper_closed(slot->keeper, last_ms);
        else
            holder_closed(slot->holder, last_ms);
    }
}

/* ---- start and end ---- */

static void random_for_hold(void *arg, void *bytes, size_t n) {
    struct error err;

    (void)arg;
    if (random_bytes(bytes, n, &err) != STATUS_OK)
        abort(); /* a claim that is not random may be somebody else's */
}

static enum status host_name(char *out, size_t size, struct error *err) {
    if (gethostname(out, size - 1) != 0)
        return error_set(err, STATUS_SYSTEM, "host name: %s", strerror(errno));
    out[size - 1] = '\0';
    return STATUS_OK;
}

/* The address that others reach this listener by: the host as advertised, the port as bound. */
static enum status advertise(const struct worker_config *config, const char *bound, char *out,
                             size_t size, struct error *err) {
    const char *colon = strrchr(bound, ':');
    size_t host_len = (size_t)(colon - bound);
    char host[RECORD_IDENTITY_MAX + 1];
    bool any = strncmp(bound, "0.0.0.0:", 8) == 0 || strncmp(bound, "[::]:", 5) == 0;

    if (config->advertise) {
        bool bare_v6 = strchr(config->advertise, ':') && config->advertise[0] != '[';

        snprintf(out, size, "%s%s%s%s", bare_v6 ? "[" : "", config->advertise, bare_v6 ? "]" : "",
                 colon);
    } else if (any) {
        if (host_name(host, sizeof host, err) != STATUS_OK)
            return err->status;
        snprintf(out, size, "%s%s", host, colon);
    } else {
        snprintf(out, size, "%.*s%s", (int)host_len, bound, colon);
    }
    return STATUS_OK;
}

static enum status name_self(struct worker *worker, const char *bound, struct error *err) {
    const struct worker_config *config = worker->config;
    struct own *self = &worker->self;

    random_hex128(self->instance);
    if (config->identity)
        snprintf(self->identity, sizeof self->identity, "%s", config->identity);
    else if (host_name(self->identity, sizeof self->identity, err) != STATUS_OK)
        return err->status;
    if (identity_check(self->identity, err) != STATUS_OK)
        return error_context(err, "--identity");
    if (advertise(config, bound, self->addresses.http, sizeof self->addresses.http, err) !=
            STATUS_OK ||
        address_check(self->addresses.http, err) != STATUS_OK)
        return error_context(err, "--advertise");
    if (worker->grpc_fd >= 0 && (advertise(config, worker->grpc_bound, self->addresses.grpc,
                                           sizeof self->addresses.grpc, err) != STATUS_OK ||
                                 address_check(self->addresses.grpc, err) != STATUS_OK))
        return error_context(err, "--advertise");
    return STATUS_OK;
}

static struct holder *start_holder(struct worker_slot *slot) {
    struct worker *worker = slot->worker;
    const struct worker_config *config = worker->config;
    const struct holder_config holder = {
        .loop = &worker->loop,
        .clock = worker->timing.clock,
        .etcd = worker->etcd,
        .hold = {.keys = &worker->keys,
                 .self = &worker->self,
                 .window_ms = config->window_ms,
                 .claim_ahead_ms = config->claim_ahead_ms,
                 .lease_ttl_s = config->lease_ttl_ms / 1000,
                 .keepalive_interval_ms = config->keepalive_interval_ms,
                 .retry_min_ms = WORKER_RETRY_MIN_MS,
                 .retry_max_ms = WORKER_RETRY_MAX_MS,
                 .random = random_for_hold},
        .serving = slot->serving,
        .history = &worker->history,
        .changed = worker_changed,
        .arg = worker};

    return holder_new(&holder);
}

static struct keeper *start_keeper(struct worker_slot *slot) {
    struct worker *worker = slot->worker;
    const struct worker_config *config = worker->config;
    const struct keeper_config keeper = {.loop = &worker->loop,
                                         .clock = worker->timing.clock,
                                         .file = worker->state_file,
                                         .record = &worker->state,
                                         .host = worker->host,
                                         .machine_id = config->machine_id ? *config->machine_id : 0,
                                         .window_ms = config->window_ms,
                                         .serving = slot->serving,
                                         .changed = worker_changed,
                                         .failed = on_failed,
                                         .arg = worker};

    return keeper_new(&keeper);
}

static struct serving *find_loop(void *arg, size_t i) {
    const struct worker_slot *slot = arg;

    return slot->worker->slots[i].serving;
}

static enum status start_slot(struct worker *worker, int http_fd, struct error *err) {
    const struct worker_config *config = worker->config;
    struct worker_slot *slot = &worker->slots[worker->n_slots];
    struct serving_config serving = {.clock = worker->timing.clock,
                                     .clock_board = &worker->timing.board,
                                     .source = worker->source,
                                     .sequences = worker->sequences,
                                     .http_fd = http_fd,
                                     .grpc_fd = worker->grpc_fd,
                                     .unix_fd = worker->unix_fd,
                                     .grpc_tls = worker->grpc_tls,
                                     .max_connection_age_ms = config->max_connection_age_ms,
                                     .max_connections = config->max_connections,
                                     .max_backward_wait_ms = config->max_backward_wait_ms,
                                     .max_commit_wait_ms = config->max_commit_wait_ms,
                                     .start = config->start,
                                     .tokens = worker->tokens ? token_file_tokens(worker->tokens)
                                                              : NULL,
                                     .board = &worker->board,
                                     .gauges = &worker->gauges[worker->n_slots],
                                     .all_gauges = worker->gauges,
                                     .n_loops = config->machine_ids,
                                     .peer = find_loop,
                                     .closed = on_closed,
                                     .arg = slot};
    slot->worker = worker;
    slot->index = worker->n_slots;
    if (worker_public_codec(worker, &serving.codec, err) != STATUS_OK)
        return err->status;
    if (serving_start(&serving, &slot->serving, err) != STATUS_OK) {
        public_codec_free(serving.codec);
        return err->status;
    }
    if (config->standalone)
        slot->keeper = start_keeper(slot);
    else
        slot->holder = start_holder(slot);
    worker->n_slots++;
    return STATUS_OK;
}

static void init_handles(struct worker *worker) {
    uv_loop_t *loop = &worker->loop;

    uv_timer_init(loop, &worker->tick);
    uv_timer_init(loop, &worker->review);
    uv_timer_init(loop, &worker->deadline);
    uv_signal_init(loop, &worker->on_term);
    uv_signal_init(loop, &worker->on_int);
    uv_async_init(loop, &worker->closed_async, on_closed_async);
    worker->tick.data = worker->review.data = worker->deadline.data = worker;
    worker->on_term.data = worker->on_int.data = worker->closed_async.data = worker;
    uv_signal_start(&worker->on_term, on_signal, SIGTERM);
    uv_signal_start(&worker->on_int, on_signal, SIGINT);
}

static enum status start(struct worker *worker, int http_fd, struct error *err) {
    if (worker_watch_clock(worker, err) != STATUS_OK)
        return err->status;
    if (worker->etcd_http)
        worker_open_sequences(worker);
    while (worker->n_slots < worker->config->machine_ids)
        if (start_slot(worker, http_fd, err) != STATUS_OK)
            return err->status;
    worker_want_former(worker);
    if (worker->etcd_http)
        worker_start_etcd(worker);
    uv_timer_start(&worker->tick, on_tick, 0, WORKER_TICK_MS);
    return STATUS_OK;
}

/* Does not connect yet. */
static enum status open_etcd(struct worker *worker, struct error *err) {
    const struct worker_config *config = worker->config;

    if (config->standalone)
        return STATUS_OK;
    if (etcd_http_new(&worker->loop, &config->etcd, &worker->etcd_http, err) != STATUS_OK)
        return err->status;
    worker->etcd = etcd_http_interface(worker->etcd_http);
    return worker_open_peers(worker, err);
}

enum status worker_run(const struct worker_config *config, struct error *err) {
    struct worker *worker = calloc(1, sizeof *worker);
    char bound[RECORD_ADDRESS_MAX];
    enum status status;
    int http_fd = -1, code;

    if (!worker)
        abort();
    code = uv_loop_init(&worker->loop);
    if (code != 0) {
        free(worker);
        return error_set(err, STATUS_SYSTEM, "event loop: %s", uv_strerror(code));
    }
    worker->config = config;
    worker->grpc_fd = worker->unix_fd = -1;
    worker_init_clock(worker);
    view_board_init(&worker->board);
    pthread_mutex_init(&worker->closed_mutex, NULL);
    worker->source = id128_source_new(random_bytes, err);
    status = worker->source ? keys_init(&worker->keys, config->cluster, err) : err->status;
    if (status != STATUS_OK)
        goto out;
    status = worker_open_tokens(worker, err);
    if (status != STATUS_OK)
        goto out;
    status = worker_open_public_keys(worker, err);
    if (status != STATUS_OK)
        goto out;
    status = http_listen(config->http_listen, &http_fd, bound, sizeof bound, err);
    if (status != STATUS_OK) {
        error_context(err, "--http-listen");
        goto out;
    }
    status = worker_open_grpc(worker, err);
    if (status != STATUS_OK)
        goto out;
    status = name_self(worker, bound, err);
    if (status != STATUS_OK)
        goto out;
    status = worker_open_state(worker, err);
    if (status != STATUS_OK)
        goto out;
    status = open_etcd(worker, err);
    if (status != STATUS_OK)
        goto out;
    init_handles(worker);
    status = start(worker, http_fd, err);
    if (status == STATUS_OK) {
        worker_tell_grpc(worker);
        log_info("http", "listening", LOG_STR("address", bound),
                 LOG_STR("instance", worker->self.instance),
                 LOG_STR("identity", worker->self.identity));
        supervisor_ready();
    } else {
        close_all(worker);
    }
    uv_run(&worker->loop, UV_RUN_DEFAULT);
    if (status == STATUS_OK && worker->failure.status != STATUS_OK) {
        *err = worker->failure;
        status = err->status;
    }
out:
    for (size_t i = 0; i < worker->n_slots; i++)
        serving_stop(worker->slots[i].serving);
    for (size_t i = 0; i < worker->n_slots; i++)
        serving_free(worker->slots[i].serving);
    if (http_fd >= 0)
        close(http_fd);
    worker_close_grpc(worker);
    if (worker->timing.set_fd >= 0)
        close(worker->timing.set_fd);
    uv_loop_close(&worker->loop);
    evidence_free(worker->evidence);
    state_file_close(worker->state_file);
    token_file_close(worker->tokens);
    public_key_file_close(worker->public_keys);
    pthread_mutex_destroy(&worker->closed_mutex);
    view_board_done(&worker->board);
    id128_source_free(worker->source);
    sequences_free(worker->sequences);
    free(worker);
    return status;
}
