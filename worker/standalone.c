#include "worker/standalone.h"

#include <assert.h>
#include <string.h>

/* It looks again so often, whatever it waits for. */
#define LOOK_MS 1000u

static uint64_t min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

void standalone_init(struct standalone *machine, uint16_t machine_id, const char *claim,
                     uint64_t epoch_ms, uint64_t window_ms, uint64_t stored_ms) {
    assert(stored_ms >= epoch_ms);
    *machine = (struct standalone){.machine_id = machine_id,
                                   .epoch_ms = epoch_ms,
                                   .window_ms = window_ms,
                                   .phase = HOLD_CLAIMING,
                                   .stored_ms = stored_ms,
                                   .h0 = stored_ms};
    memcpy(machine->claim, claim, sizeof machine->claim);
}

/* How far a window may reach now; never below what is stored. */
static uint64_t reach_ms(const struct standalone *machine, struct instant now) {
    uint64_t reach = min_u64(now.wall_ms + machine->window_ms, snowflake_end_ms(machine->epoch_ms));

    return max_u64(machine->stored_ms, reach);
}

static uint64_t extend_at_left_ms(const struct standalone *machine) {
    return machine->window_ms * 2 / 3;
}

static bool extension_due(const struct standalone *machine, struct instant now) {
    return machine->limit_ms < now.wall_ms + extend_at_left_ms(machine);
}

static enum standalone_act_kind write_horizon(struct standalone *machine, uint64_t horizon_ms,
                                              struct standalone_act *act) {
    machine->writing_ms = horizon_ms;
    act->horizon_ms = horizon_ms;
    return STANDALONE_WRITE;
}

static enum standalone_act_kind install(struct standalone *machine, struct standalone_act *act) {
    machine->to_install = false;
    act->install = (struct hold_install){.machine_id = machine->machine_id,
                                         .epoch_ms = machine->epoch_ms,
                                         .used_up_ms = machine->h0,
                                         .limit_ms = machine->limit_ms};
    memcpy(act->install.claim, machine->claim, sizeof act->install.claim);
    return STANDALONE_INSTALL;
}

static enum standalone_act_kind step_open(struct standalone *machine, struct instant now,
                                          struct standalone_act *act) {
    uint64_t horizon_ms = reach_ms(machine, now);

    if (machine->to_install)
        return install(machine, act);
    if (machine->to_raise) {
        machine->to_raise = false;
        act->limit_ms = machine->limit_ms;
        return STANDALONE_RAISE;
    }
    if (machine->stopping) {
        machine->phase = HOLD_CLOSING;
        return STANDALONE_CLOSE;
    }
    if (extension_due(machine, now) && horizon_ms > machine->limit_ms)
        return write_horizon(machine, horizon_ms, act);
    return STANDALONE_NOTHING;
}

static enum standalone_act_kind step(struct standalone *machine, struct instant now,
                                     struct standalone_act *act) {
    if (machine->failed || machine->writing_ms)
        return STANDALONE_NOTHING;
    if (machine->phase == HOLD_CLAIMING)
        return write_horizon(machine, reach_ms(machine, now), act);
    if (machine->phase == HOLD_OPEN)
        return step_open(machine, now, act);
    if (machine->phase == HOLD_RELEASING)
        return write_horizon(machine, machine->last_ms, act);
    return STANDALONE_NOTHING;
}

/* A step of the wall clock is an event of its own. */
static uint64_t wake_boot_ms(const struct standalone *machine, struct instant now) {
    uint64_t wake = LOOK_MS;

    if (machine->phase == HOLD_OPEN && !extension_due(machine, now))
        wake = min_u64(wake, machine->limit_ms - now.wall_ms - extend_at_left_ms(machine) + 1);
    return now.boot_ms + wake;
}

enum standalone_act_kind standalone_next(struct standalone *machine, struct instant now,
                                         struct standalone_act *act) {
    memset(act, 0, sizeof *act);
    act->kind = step(machine, now, act);
    if (act->kind == STANDALONE_NOTHING)
        act->wake_boot_ms = wake_boot_ms(machine, now);
    return act->kind;
}

void standalone_written(struct standalone *machine, bool ok) {
    assert(machine->writing_ms && !machine->failed);
    if (!ok) {
        machine->failed = true;
        return;
    }
    machine->stored_ms = machine->writing_ms;
    machine->writing_ms = 0;
    if (machine->phase == HOLD_RELEASING) {
        machine->phase = HOLD_RELEASED;
        return;
    }
    machine->limit_ms = machine->stored_ms;
    machine->to_install = machine->phase == HOLD_CLAIMING;
    machine->to_raise = machine->phase == HOLD_OPEN;
    machine->extensions_total += machine->phase == HOLD_OPEN;
    machine->phase = HOLD_OPEN;
}

void standalone_release(struct standalone *machine) {
    machine->stopping = true;
    /* Nothing was written or issued: the horizon stays. */
    if (machine->phase == HOLD_CLAIMING && !machine->writing_ms)
        machine->phase = HOLD_RELEASED;
}

void standalone_closed(struct standalone *machine, uint64_t last_ms) {
    assert(machine->phase == HOLD_CLOSING);
    assert(last_ms >= machine->h0 && last_ms <= machine->limit_ms);
    machine->last_ms = last_ms;
    machine->phase = HOLD_RELEASING;
}

bool standalone_gone(const struct standalone *machine) {
    return machine->failed || machine->phase == HOLD_RELEASED;
}

void standalone_look(const struct standalone *machine, struct instant now, struct hold_view *view) {
    memset(view, 0, sizeof *view);
    view->phase = machine->phase;
    view->has_slot = true;
    view->machine_id = machine->machine_id;
    view->horizon_ms = machine->stored_ms;
    view->pending = machine->writing_ms != 0;
    view->extensions_total = machine->extensions_total;
    if (machine->phase == HOLD_CLAIMING || machine->phase == HOLD_RELEASED)
        return;
    view->has_generation = true;
    memcpy(view->claim, machine->claim, sizeof view->claim);
    view->used_up_ms = machine->h0;
    view->limit_ms = machine->limit_ms;
    view->claims_total = 1;
    if (machine->phase == HOLD_OPEN && now.wall_ms <= machine->h0)
        view->reason = HOLD_AHEAD;
}
