#include "worker/worker_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/http_server.h"
#include "common/random.h"

/* ---- what etcd tells ---- */

void worker_key(struct worker *worker, const char *key, const char *value, size_t len) {
    char assign_key[KEY_MAX];
    struct error ignored;

    worker->heard = true;
    keys_assign(&worker->keys, worker->self.instance, assign_key);
    if (strcmp(key, worker->keys.meta) == 0) {
        bool had_meta = worker->has_meta;

        worker->has_meta = value && meta_parse(value, len, &worker->meta, &ignored) == STATUS_OK;
        if (worker->has_meta && !had_meta)
            seek_resume(&worker->seek); /* what it paused for may be over */
        for (size_t i = 0; i < worker->n_slots; i++)
            holder_meta(worker->slots[i].holder, value, len);
    } else if (strcmp(key, worker->keys.ceil) == 0) {
        for (size_t i = 0; i < worker->n_slots; i++)
            holder_ceiling(worker->slots[i].holder, value, len);
    } else if (strcmp(key, assign_key) == 0 && value) {
        worker_assigned(worker, value, len);
    }
}

static void on_events(void *arg, const struct etcd_event *events, size_t n) {
    struct worker *worker = arg;
    bool reset = n > 0 && events[0].kind == ETCD_EVENT_RESET, meta_there = false;

    for (size_t i = 0; i < n; i++) {
        const struct etcd_event *event = &events[i];

        if (event->kind == ETCD_EVENT_RESET)
            continue;
        if (strcmp(event->key, worker->keys.meta) == 0)
            meta_there = event->kind == ETCD_EVENT_PUT;
        worker_key(worker, event->key, event->kind == ETCD_EVENT_PUT ? event->value : NULL,
                   event->value_len);
    }
    if (reset && !meta_there)
        worker_key(worker, worker->keys.meta, NULL, 0);
    worker_changed(worker);
}

enum { POLL_META, POLL_CEIL, POLL_ASSIGN, POLLS };

static void on_polled(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct worker *worker = arg;

    worker->polling = false;
    if (err)
        return;
    for (size_t i = 0; i < POLLS; i++)
        if (result->results[i].n_kvs > 0)
            worker_key(worker, result->results[i].kvs[0].key, result->results[i].kvs[0].value,
                       result->results[i].kvs[0].value_len);
        else if (i == POLL_META)
            worker_key(worker, worker->keys.meta, NULL, 0);
    worker_changed(worker);
}

/* The watch is a hint; this is what a silent one cannot hide. */
static void poll_etcd(struct worker *worker, struct instant now) {
    char assign_key[KEY_MAX];
    struct etcd_op ops[POLLS] = {[POLL_META] = {.kind = ETCD_RANGE, .key = worker->keys.meta},
                                 [POLL_CEIL] = {.kind = ETCD_RANGE, .key = worker->keys.ceil},
                                 [POLL_ASSIGN] = {.kind = ETCD_RANGE, .key = assign_key}};
    struct etcd_txn txn = {.then = ops, .n_then = POLLS};

    keys_assign(&worker->keys, worker->self.instance, assign_key);
    worker->polling = true;
    worker->polled_boot_ms = now.boot_ms;
    worker->etcd.txn(worker->etcd.self, &txn, on_polled, worker);
}

/* ---- drain ---- */

static void free_holders(struct worker *worker) {
    for (size_t i = 0; i < worker->n_slots; i++)
        holder_free(worker->slots[i].holder);
    registration_free(worker->registration);
}

static void close_handle(uv_handle_t *handle) {
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void on_etcd_closed(void *arg) {
    struct worker *worker = arg;

    free_holders(worker);
    close_handle((uv_handle_t *)&worker->tick);
    close_handle((uv_handle_t *)&worker->review);
    close_handle((uv_handle_t *)&worker->deadline);
    close_handle((uv_handle_t *)&worker->on_term);
    close_handle((uv_handle_t *)&worker->on_int);
    close_handle((uv_handle_t *)&worker->closed_async);
    if (worker->step_fd >= 0)
        close_handle((uv_handle_t *)&worker->step_poll);
}

static bool all_gone(const struct worker *worker) {
    for (size_t i = 0; i < worker->n_slots; i++)
        if (!holder_gone(worker->slots[i].holder))
            return false;
    return true;
}

static void end(struct worker *worker) {
    uint64_t took_ms = worker_now(worker).boot_ms - worker->drain_began_boot_ms;

    if (worker->drain == WORKER_DRAIN_ENDING)
        return;
    worker->drain = WORKER_DRAIN_ENDING;
    if (all_gone(worker))
        log_info("worker", "drained: machine IDs released", LOG_INT("took_ms", took_ms));
    else
        log_warn("worker", "drained: not all machine IDs released, their leases will expire",
                 LOG_INT("took_ms", took_ms));
    etcd_http_close(worker->etcd_http, on_etcd_closed, worker);
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
            holder_release(worker->slots[i].holder);
    }
    if (worker->drain == WORKER_DRAIN_RELEASE && all_gone(worker)) {
        worker->drain = WORKER_DRAIN_LEAVE;
        registration_leave(worker->registration);
    }
    if (worker->drain == WORKER_DRAIN_LEAVE && registration_left(worker->registration))
        end(worker);
}

static void start_drain(struct worker *worker, const char *why) {
    struct serving_order order = {.kind = SERVING_DRAIN};

    if (worker->drain != WORKER_RUNNING)
        return;
    log_info("worker", "draining", LOG_STR("reason", why),
             LOG_INT("drain_timeout_ms", worker->config->drain_timeout_ms));
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
    start_drain(signal->data, number == SIGTERM ? "SIGTERM" : "SIGINT");
}

/* ---- the loop ---- */

static void review(struct worker *worker) {
    char *text;

    if (worker->drain == WORKER_DRAIN_ENDING)
        return;
    if (worker->drain == WORKER_RUNNING)
        worker_search(worker);
    else
        drain_on(worker);
    if (worker->drain == WORKER_RUNNING) {
        text = worker_node_text(worker);
        registration_set(worker->registration, text);
        free(text);
    }
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

static void look_for_step(struct worker *worker) {
    int64_t step_ns = clock_watch_step(&worker->clock_watch, clock_now_ns(&worker->config->clock));

    if (step_ns == 0)
        return;
    worker->clock_steps_total++;
    worker->last_step_ns = step_ns;
    log_warn("clock", "the wall clock was stepped", LOG_INT("step_ms", step_ns / 1000000));
    for (size_t i = 0; i < worker->n_slots; i++)
        holder_kick(worker->slots[i].holder);
}

static bool serves(const struct worker *worker) {
    struct instant now = worker_now(worker);

    for (size_t i = 0; i < worker->n_slots; i++) {
        struct hold_view view;

        holder_look(worker->slots[i].holder, &view);
        if (view.phase != HOLD_OPEN || view.limit_ms < now.wall_ms)
            return false;
    }
    return true;
}

static void on_tick(uv_timer_t *timer) {
    struct worker *worker = timer->data;
    struct instant now = worker_now(worker);
    uint64_t period_ms = serves(worker) ? WORKER_POLL_MS : WORKER_POLL_IDLE_MS;

    look_for_step(worker);
    if (!worker->polling && now.boot_ms - worker->polled_boot_ms >= period_ms)
        poll_etcd(worker, now);
    review(worker);
}

/* A timer of the far future that the kernel cancels when somebody sets the clock. */
static void arm_step_timer(struct worker *worker) {
    struct itimerspec far = {.it_value = {.tv_sec = INT32_MAX}};

    timerfd_settime(worker->step_fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far, NULL);
}

static void on_step(uv_poll_t *poll, int status, int events) {
    struct worker *worker = poll->data;
    uint64_t expirations;

    (void)status, (void)events;
    if (read(worker->step_fd, &expirations, sizeof expirations) < 0 && errno == ECANCELED)
        look_for_step(worker);
    arm_step_timer(worker);
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
        if (closed && worker->drain != WORKER_DRAIN_ENDING)
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
    return STATUS_OK;
}

static enum status start_slot(struct worker *worker, int http_fd, struct error *err) {
    const struct worker_config *config = worker->config;
    struct worker_slot *slot = &worker->slots[worker->n_slots];
    struct serving_config serving = {.clock = config->clock,
                                     .http_fd = http_fd,
                                     .max_connections = config->max_connections,
                                     .max_backward_wait_ms = config->max_backward_wait_ms,
                                     .start = config->start,
                                     .board = &worker->board,
                                     .gauges = &worker->gauges[worker->n_slots],
                                     .all_gauges = worker->gauges,
                                     .n_loops = config->machine_ids,
                                     .closed = on_closed,
                                     .arg = slot};
    struct holder_config holder = {.loop = &worker->loop,
                                   .clock = config->clock,
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
                                   .changed = worker_changed,
                                   .arg = worker};

    slot->worker = worker;
    slot->index = worker->n_slots;
    if (serving_start(&serving, &slot->serving, err) != STATUS_OK)
        return err->status;
    holder.serving = slot->serving;
    slot->holder = holder_new(&holder);
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

static enum status watch_clock(struct worker *worker, struct error *err) {
    worker->step_fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (worker->step_fd < 0)
        return error_set(err, STATUS_SYSTEM, "timerfd: %s", strerror(errno));
    arm_step_timer(worker);
    uv_poll_init(&worker->loop, &worker->step_poll, worker->step_fd);
    worker->step_poll.data = worker;
    uv_poll_start(&worker->step_poll, UV_READABLE, on_step);
    look_for_step(worker);
    return STATUS_OK;
}

static void start_watch(struct worker *worker) {
    char assign_key[KEY_MAX];
    struct etcd_key_range ranges[] = {
        {.key = worker->keys.meta}, {.key = worker->keys.ceil}, {.key = assign_key}};

    keys_assign(&worker->keys, worker->self.instance, assign_key);
    worker->watch = worker->etcd.watch(worker->etcd.self, ranges, sizeof ranges / sizeof ranges[0],
                                       on_events, worker);
}

static enum status start(struct worker *worker, int http_fd, struct error *err) {
    const struct worker_config *config = worker->config;
    struct registration_config registration = {
        .loop = &worker->loop,
        .clock = config->clock,
        .keys = &worker->keys,
        .instance = worker->self.instance,
        .lease_ttl_s = config->lease_ttl_ms / 1000,
        .keepalive_interval_ms = config->keepalive_interval_ms,
        .retry_min_ms = WORKER_RETRY_MIN_MS,
        .retry_max_ms = WORKER_RETRY_MAX_MS,
        .changed = worker_changed,
        .arg = worker};

    if (watch_clock(worker, err) != STATUS_OK)
        return err->status;
    seek_init(&worker->seek, config->assign_wait_ms, WORKER_RETRY_MIN_MS, WORKER_RETRY_MAX_MS);
    registration.etcd = worker->etcd;
    worker->registration = registration_new(&registration);
    while (worker->n_slots < config->machine_ids)
        if (start_slot(worker, http_fd, err) != STATUS_OK)
            return err->status;
    start_watch(worker);
    uv_timer_start(&worker->tick, on_tick, 0, WORKER_TICK_MS);
    return STATUS_OK;
}

enum status worker_run(const struct worker_config *config, struct error *err) {
    struct worker *worker = calloc(1, sizeof *worker);
    char bound[RECORD_ADDRESS_MAX];
    enum status status;
    int http_fd = -1;

    if (!worker)
        abort();
    worker->config = config;
    worker->step_fd = -1;
    uv_loop_init(&worker->loop);
    view_board_init(&worker->board);
    pthread_mutex_init(&worker->closed_mutex, NULL);
    status = keys_init(&worker->keys, config->cluster, err);
    if (status != STATUS_OK)
        goto out;
    status = http_listen(config->http_listen, &http_fd, bound, sizeof bound, err);
    if (status != STATUS_OK)
        goto out;
    status = name_self(worker, bound, err);
    if (status != STATUS_OK)
        goto out;
    status = etcd_http_new(&worker->loop, &config->etcd, &worker->etcd_http, err);
    if (status != STATUS_OK)
        goto out;
    worker->etcd = etcd_http_interface(worker->etcd_http);
    init_handles(worker);
    status = start(worker, http_fd, err);
    if (status == STATUS_OK)
        log_info("http", "listening", LOG_STR("address", bound),
                 LOG_STR("instance", worker->self.instance),
                 LOG_STR("identity", worker->self.identity));
    else
        etcd_http_close(worker->etcd_http, on_etcd_closed, worker);
    uv_run(&worker->loop, UV_RUN_DEFAULT);
out:
    for (size_t i = 0; i < worker->n_slots; i++)
        serving_stop(worker->slots[i].serving);
    if (http_fd >= 0)
        close(http_fd);
    if (worker->step_fd >= 0)
        close(worker->step_fd);
    uv_loop_close(&worker->loop);
    pthread_mutex_destroy(&worker->closed_mutex);
    view_board_done(&worker->board);
    free(worker);
    return status;
}
