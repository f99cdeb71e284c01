/* The effective clock on the control thread: looks at the physical one, judges, has steps confirmed. */
#include "common/decimal.h"
#include "worker/worker_internal.h"

#define NS_PER_MS INT64_C(1000000)
#define LIFETIME_WARNING_MS                                                                        \
    (UINT64_C(5) * 365 * 24 * 60 * 60 * 1000) /* five years before the end */
#define ORDER_MAX_NS (INT64_C(3600) * 1000000000)
#define PEERS_TIMEOUT_MS 1000u

/* ---- what follows for others ---- */

/* Parked callers wait for a moment that has moved, and holders plan by the clock. */
static void tell_all(struct worker *worker) {
    const struct serving_order look = {.kind = SERVING_CLOCK};

    for (size_t i = 0; i < worker->n_slots; i++) {
        serving_order(worker->slots[i].serving, &look);
        if (worker->slots[i].keeper)
            keeper_kick(worker->slots[i].keeper);
        else
            holder_kick(worker->slots[i].holder);
    }
}

static void log_changes(const struct effective_clock *before, const struct effective_clock *after,
                        int64_t step_ns) {
    if (step_ns != 0)
        log_warn("clock", "the wall clock was stepped", LOG_INT("step_ms", step_ns / NS_PER_MS),
                 LOG_STR("strategy", clock_strategy_name(after->limits.strategy)),
                 LOG_INT("effective_minus_wall_ms", after->offset_ns / NS_PER_MS));
    if (after->coasting && !before->coasting)
        log_warn("clock", "coasting: IDs go on as if the step had not been, until it is confirmed",
                 LOG_INT("ahead_ms", -after->offset_ns / NS_PER_MS));
    if (!after->coasting && before->coasting)
        log_info("clock", "the wall clock counts again",
                 LOG_INT("effective_moved_ms",
                         (after->last.wall_ns + after->offset_ns - before->last.wall_ns -
                          before->offset_ns - (after->last.boot_ns - before->last.boot_ns)) /
                             NS_PER_MS));
    if (after->offset_ns >= NS_PER_MS && before->offset_ns < NS_PER_MS)
        log_warn("clock", "running a sixteenth slower until the wall clock has caught up",
                 LOG_INT("ahead_ms", after->offset_ns / NS_PER_MS));
    if (after->offset_ns < NS_PER_MS && before->offset_ns >= NS_PER_MS && !after->coasting)
        log_info("clock", "the wall clock has caught up",
                 LOG_INT("step_ms", after->last_step_ns / NS_PER_MS));
}

/* ---- confirmation ---- */

static void look(struct worker *worker);

bool worker_clock_wants_confirmation(const struct worker *worker) {
    const struct worker_clock *timing = &worker->timing;

    return timing->effective.coasting ||
           (worker_must_rotate(worker) && timing->confirmed_steps != timing->effective.steps_total);
}

static void confirm(struct worker *worker, const char *by) {
    struct worker_clock *timing = &worker->timing;

    log_info("clock", "the step is confirmed", LOG_STR("by", by),
             LOG_INT("step_ms", timing->effective.last_step_ns / NS_PER_MS));
    timing->confirmed_steps = timing->effective.steps_total;
    effective_clock_confirm(&timing->effective);
}

void worker_clock_ordered(struct worker *worker, uint64_t until_ms) {
    struct worker_clock *timing = &worker->timing;

    if (until_ms == timing->order_until_ms)
        return;
    timing->order_until_ms = until_ms;
    timing->order_boot_ns = clock_now_ns(&worker->config->clock).boot_ns;
    if (until_ms)
        look(worker);
}

/* An order counts for a step that came before it, and until the time that it names, by the very
 * clock that it is about: so it confirms no clock that is further ahead than that. */
static bool order_holds(const struct worker_clock *timing) {
    const struct effective_clock *effective = &timing->effective;

    return timing->order_until_ms && timing->order_boot_ns > effective->last_step_boot_ns &&
           effective->last.boot_ns - timing->order_boot_ns <= ORDER_MAX_NS &&
           effective->last.wall_ns / NS_PER_MS <= (int64_t)timing->order_until_ms;
}

static bool alone_may_take(const struct worker *worker) {
    const struct effective_clock *effective = &worker->timing.effective;
    int64_t step_ns = effective->coasting ? -effective->offset_ns : -effective->last_jump_ns;

    return step_ns / NS_PER_MS <= (int64_t)worker->config->max_alone_step_ms;
}

static void on_peers(void *arg, const struct peers_answer *answer) {
    struct worker *worker = arg;
    struct worker_clock *timing = &worker->timing;

    if (worker->drain != WORKER_RUNNING || timing->asked_steps != timing->effective.steps_total)
        return; /* what was asked about is over */
    timing->peers_known = !answer->failure;
    timing->peers = *answer;
    timing->peers.failure = NULL; /* lives no longer than this call */
    if (worker_clock_wants_confirmation(worker) && timing->peers_known)
        look(worker);
}

static void ask_peers(struct worker *worker) {
    struct worker_clock *timing = &worker->timing;
    uint64_t boot_ms = (uint64_t)(timing->effective.last.boot_ns / NS_PER_MS);

    if (!timing->asker || !worker->has_meta ||
        (timing->asked_steps == timing->effective.steps_total &&
         boot_ms - timing->asked_boot_ms < worker->config->confirm_interval_ms))
        return;
    if (timing->asked_steps != timing->effective.steps_total)
        timing->peers_known = false;
    timing->asked_steps = timing->effective.steps_total;
    timing->asked_boot_ms = boot_ms;
    peers_ask(timing->asker, worker->meta.max_offset_ms);
}

static void seek_confirmation(struct worker *worker) {
    struct worker_clock *timing = &worker->timing;
    bool fresh = timing->peers_known && timing->asked_steps == timing->effective.steps_total;

    if (!worker_clock_wants_confirmation(worker))
        return;
    if (order_holds(timing))
        confirm(worker, "order");
    else if (fresh && timing->peers.agree >= PEERS_QUORUM)
        confirm(worker, "peers");
    else if ((worker->config->standalone || (fresh && timing->peers.others == 0)) &&
             alone_may_take(worker))
        confirm(worker, "being alone");
    else
        ask_peers(worker);
}

/* ---- the look ---- */

static bool refuses(const struct effective_clock *clock) {
    return effective_clock_at(clock, clock->last).refuses;
}

static void read_claim(struct worker *worker) {
    struct worker_clock *timing = &worker->timing;
    int64_t boot_ns = timing->effective.last.boot_ns, asked_boot_ns;
    struct clock_quality quality;
    struct chrony_tracking tracking;
    struct error ignored;

    /* chronyd's word from before a step is of another clock. */
    if (timing->daemon && time_daemon_chrony(timing->daemon, &tracking, &asked_boot_ns) &&
        asked_boot_ns > timing->effective.last_step_boot_ns)
        clock_claim_chrony(&timing->claim, &tracking, asked_boot_ns);
    else if (clock_quality(&worker->config->clock, &quality, &ignored) == STATUS_OK)
        clock_claim_kernel(&timing->claim, &quality,
                           timing->daemon ? time_daemon_other(timing->daemon) : "", boot_ns);
    else
        clock_claim_kernel(&timing->claim, NULL, "", boot_ns);
    effective_clock_tell_error(
        &timing->effective, timing->claim.trusted,
        clock_claim_error_at(&timing->claim, timing->effective.limits.drift_ppm, boot_ns));
}

/* Until everything that was issued is past again. */
static void note_going_back(struct worker *worker, int64_t step_ns) {
    struct worker_rotation *rotation = &worker->rotation;

    if (step_ns != 0 && worker->timing.effective.last_jump_ns < 0)
        rotation->went_back = true;
    else if (rotation->went_back && !worker_is_behind(worker))
        rotation->went_back = false;
}

static void look(struct worker *worker) {
    struct worker_clock *timing = &worker->timing;
    struct effective_clock before = timing->effective;
    int64_t step_ns = effective_clock_look(&timing->effective,
                                           clock_now_ns(&worker->config->clock));
    bool moved, refused = refuses(&before);

    note_going_back(worker, step_ns);
    if (worker->drain == WORKER_RUNNING)
        seek_confirmation(worker);
    time_daemon_tick(timing->daemon, step_ns != 0);
    read_claim(worker); /* of the clock that counts now */
    moved = step_ns != 0 || before.coasting != timing->effective.coasting ||
            refused != refuses(&timing->effective);
    log_changes(&before, &timing->effective, step_ns);
    clock_board_publish(&timing->board, &timing->effective);
    if (moved) {
        tell_all(worker);
        worker_changed(worker);
    }
    if (timing->confirmed_steps == timing->effective.steps_total && worker_must_rotate(worker))
        worker_rotate(worker);
}

static void on_set(uv_poll_t *poll, int status, int events) {
    struct worker *worker = poll->data;

    (void)status, (void)events;
    if (clock_set_read(&worker->config->clock, worker->timing.set_fd))
        look(worker);
}

bool worker_epoch(const struct worker *worker, uint64_t *epoch_ms) {
    if (worker->config->standalone)
        *epoch_ms = worker->state.epoch_ms;
    else if (worker->knows_meta)
        *epoch_ms = worker->meta.epoch_ms;
    else
        return false;
    return true;
}

/* Once, when the end of the epoch is in sight. */
static void watch_lifetime(struct worker *worker) {
    uint64_t now_ms = worker_now(worker).wall_ms, epoch_ms, end_ms;
    char end[32];

    if (worker->timing.warned_of_end || !worker_epoch(worker, &epoch_ms))
        return;
    end_ms = snowflake_end_ms(epoch_ms);
    if (now_ms + LIFETIME_WARNING_MS < end_ms)
        return;
    worker->timing.warned_of_end = true;
    time_format(end_ms, end);
    log_warn("clock", "IDs of this epoch end within five years", LOG_STR("end", end),
             LOG_INT("days_left", now_ms < end_ms ? (end_ms - now_ms) / 86400000 : 0));
}

void worker_tick_clock(struct worker *worker) {
    look(worker);
    watch_lifetime(worker);
}

/* ---- start and end ---- */

void worker_init_clock(struct worker *worker) {
    const struct worker_config *config = worker->config;
    struct worker_clock *timing = &worker->timing;

    timing->set_fd = -1;
    effective_clock_init(&timing->effective, &config->clock_limits);
    effective_clock_look(&timing->effective, clock_now_ns(&config->clock));
    read_claim(worker);
    clock_board_init(&timing->board, &config->clock, &timing->effective);
    timing->clock = clock_board_clock(&timing->board);
}

enum status worker_watch_clock(struct worker *worker, struct error *err) {
    struct worker_clock *timing = &worker->timing;

    if (time_daemon_new(&worker->loop, &worker->config->clock, worker->config->chrony_port,
                        &timing->daemon, err) != STATUS_OK)
        return err->status;
    if (clock_set_open(&worker->config->clock, &timing->set_fd, err) != STATUS_OK)
        return err->status;
    uv_poll_init(&worker->loop, &timing->set_poll, timing->set_fd);
    timing->set_poll.data = worker;
    uv_poll_start(&timing->set_poll, UV_READABLE, on_set);
    look(worker);
    return STATUS_OK;
}

enum status worker_open_peers(struct worker *worker, struct error *err) {
    const struct http_config http = {.max_active = PEERS_ASKED_MAX,
                                     .max_connections = PEERS_ASKED_MAX};
    struct peers_config config = {.clock = worker->config->clock,
                                  .etcd = worker->etcd,
                                  .keys = &worker->keys,
                                  .instance = worker->self.instance,
                                  .timeout_ms = PEERS_TIMEOUT_MS,
                                  .done = on_peers,
                                  .arg = worker};

    if (http_client_new(&worker->loop, &http, &worker->timing.client, err) != STATUS_OK)
        return err->status;
    config.client = worker->timing.client;
    worker->timing.asker = peers_new(&config);
    worker_authorize_peers(worker);
    return STATUS_OK;
}

/* Peers ask for the tokens that we ask for. */
void worker_authorize_peers(struct worker *worker) {
    if (worker->timing.client && worker->tokens)
        http_client_authorize(worker->timing.client, token_file_header(worker->tokens));
}
