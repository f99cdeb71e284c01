#include "worker/keeper.h"

#include <string.h>

#include "common/allocate.h"
#include "common/log.h"
#include "common/random.h"
#include "worker/standalone.h"

/* A write that keeps the control loop for so long is worth a word. */
#define SLOW_WRITE_MS 500u

struct keeper {
    struct keeper_config config;
    struct standalone machine;
    struct state_record record;
    uv_timer_t *timer; /* the loop's once closed */
    enum hold_phase seen;
    struct log_repeat slow;
};

static struct instant now_of(const struct keeper *keeper) {
    return clock_now(&keeper->config.clock);
}

static void write_horizon(struct keeper *keeper, uint64_t horizon_ms) {
    uint64_t began_ms = now_of(keeper).boot_ms, ended_ms;
    struct error err;
    enum status status;

    keeper->record.horizon_ms = horizon_ms;
    status = state_file_write(keeper->config.file, &keeper->record, &err);
    standalone_written(&keeper->machine, status == STATUS_OK);
    ended_ms = now_of(keeper).boot_ms;
    if (status != STATUS_OK)
        keeper->config.failed(keeper->config.arg, &err);
    else if (ended_ms - began_ms >= SLOW_WRITE_MS)
        log_repeat_failed(&keeper->slow, ended_ms, "state", "the disk is slow",
                          "a write of the state file took more than 500 ms");
    else
        log_repeat_ended(&keeper->slow, ended_ms, "state", "the disk is fast enough again");
}

static void order(struct keeper *keeper, enum serving_order_kind kind,
                  const struct standalone_act *act) {
    struct serving_order order = {.kind = kind, .install = act->install, .limit_ms = act->limit_ms};

    memcpy(order.claim, keeper->machine.claim, sizeof order.claim);
    serving_order(keeper->config.serving, &order);
}

static void carry_out(struct keeper *keeper, const struct standalone_act *act) {
    switch (act->kind) {
    case STANDALONE_WRITE: write_horizon(keeper, act->horizon_ms); break;
    case STANDALONE_INSTALL: order(keeper, SERVING_INSTALL, act); break;
    case STANDALONE_RAISE: order(keeper, SERVING_RAISE, act); break;
    case STANDALONE_CLOSE: order(keeper, SERVING_CLOSE, act); break;
    case STANDALONE_NOTHING: break;
    }
}

/* Each move once, with both names. */
static void log_move(struct keeper *keeper, struct instant now) {
    const struct standalone *machine = &keeper->machine;

    if (machine->phase == keeper->seen)
        return;
    log_info("standalone", "moved", LOG_STR("from", hold_phase_name(keeper->seen)),
             LOG_STR("to", hold_phase_name(machine->phase)),
             LOG_INT("machine_id", machine->machine_id), LOG_STR("claim", machine->claim),
             LOG_U64("horizon_ms", machine->stored_ms));
    keeper->seen = machine->phase;
    if (machine->phase == HOLD_OPEN && now.wall_ms <= machine->h0)
        log_warn("standalone", "waiting until the clock is past what the last run may have used",
                 LOG_U64("horizon_ms", machine->h0),
                 LOG_INT("wait_ms", machine->h0 - now.wall_ms + 1));
}

static void on_timer(uv_timer_t *timer) {
    struct keeper *keeper = timer->data;
    struct standalone_act act;
    struct instant now;

    do { /* a write takes time */
        now = now_of(keeper);
        standalone_next(&keeper->machine, now, &act);
        carry_out(keeper, &act);
        log_move(keeper, now);
    } while (act.kind != STANDALONE_NOTHING);
    uv_timer_start(keeper->timer, on_timer, act.wake_boot_ms - now.boot_ms, 0);
    keeper->config.changed(keeper->config.arg);
}

struct keeper *keeper_new(const struct keeper_config *config) {
    struct keeper *keeper = allocate(1, sizeof *keeper);
    char claim[HOLD_CLAIM_CHARS + 1];

    keeper->config = *config;
    keeper->record = *config->record;
    keeper->record.machine_id = config->machine_id;
    memcpy(keeper->record.host, config->host, strlen(config->host) + 1);
    random_hex128(claim);
    standalone_init(&keeper->machine, config->machine_id, claim, config->record->epoch_ms,
                    config->window_ms, config->record->horizon_ms);
    keeper->seen = keeper->machine.phase;
    keeper->timer = allocate(1, sizeof *keeper->timer);
    uv_timer_init(config->loop, keeper->timer);
    keeper->timer->data = keeper;
    keeper_kick(keeper);
    return keeper;
}

static void free_handle(uv_handle_t *handle) {
    free(handle);
}

void keeper_free(struct keeper *keeper) {
    if (!keeper)
        return;
    uv_close((uv_handle_t *)keeper->timer, free_handle);
    free(keeper);
}

/* What comes from outside is acted upon from the loop, so that callers are not called back. */
void keeper_kick(struct keeper *keeper) {
    uv_timer_start(keeper->timer, on_timer, 0, 0);
}

void keeper_release(struct keeper *keeper) {
    standalone_release(&keeper->machine);
    keeper_kick(keeper);
}

void keeper_closed(struct keeper *keeper, uint64_t last_ms) {
    standalone_closed(&keeper->machine, last_ms);
    keeper_kick(keeper);
}

bool keeper_gone(const struct keeper *keeper) {
    return standalone_gone(&keeper->machine);
}

void keeper_look(const struct keeper *keeper, struct hold_view *view) {
    standalone_look(&keeper->machine, now_of(keeper), view);
}
