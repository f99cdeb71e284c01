#include "worker/worker_internal.h"

#include <stdio.h>
#include <string.h>

#include "common/decimal.h"
#include "common/supervisor.h"

/* Why a machine ID does not serve, for people. */
static void reason_of(const struct worker *worker, const struct worker_slot *slot,
                      const struct hold_view *view, char *out, size_t size) {
    static const struct error none;
    const struct error *err = slot->holder ? holder_error(slot->holder) : &none;

    out[0] = '\0';
    if (worker->history.alarm[0])
        snprintf(out, size, "rollback: %s: run snowfleetctl recover", worker->history.alarm);
    else if (view->reason == HOLD_NO_META && !err->message[0])
        snprintf(out, size, "meta missing: has snowfleetctl init been run for this cluster?");
    else if (view->reason == HOLD_NO_META && strncmp(err->message, "meta", 4) == 0)
        snprintf(out, size, "%.240s", err->message); /* it is there, and unreadable */
    else if (view->reason == HOLD_WINDOW || view->reason == HOLD_NO_META)
        snprintf(out, size, "%s: %.200s", hold_reason_name(view->reason), err->message);
    else if (view->reason == HOLD_FROZEN)
        snprintf(out, size, "frozen: %s", worker->meta.reason);
    else if (view->phase == HOLD_SEEKING && worker->seek.reason[0])
        snprintf(out, size, "%s", worker->seek.reason);
    else if (view->reason == HOLD_NO_ETCD || (view->reason == HOLD_FINE && err->message[0]))
        snprintf(out, size, "etcd: %.240s", err->message);
    else if (view->reason != HOLD_FINE)
        snprintf(out, size, "%s", hold_reason_name(view->reason));
    else if (view->phase == HOLD_SEEKING)
        snprintf(out, size, "%s",
                 worker->seek.asking ? "waiting for an assignment" : "looking for a machine ID");
    else if (view->phase == HOLD_CLAIMING)
        snprintf(out, size, "claiming machine ID %u", view->machine_id);
}

static enum worker_state base_state(const struct worker *worker, const struct worker_view *view) {
    if (worker->drain != WORKER_RUNNING)
        return WORKER_DRAINING;
    for (size_t i = 0; i < view->n_machines; i++)
        if (view->machines[i].hold.phase == HOLD_HALTED)
            return WORKER_HALTED;
    return worker->heard || worker->config->standalone ? WORKER_CLAIMING : WORKER_STARTING;
}

static void look_at_etcd(const struct worker *worker, struct worker_view *view) {
    const struct etcd_http_stats *stats = etcd_http_stats(worker->etcd_http);

    view->lease_ttl_s = worker->config->lease_ttl_ms / 1000;
    snprintf(view->cluster, sizeof view->cluster, "%s", worker->config->cluster);
    /* Also when it has gone since: recovery asks the workers what it said. */
    view->has_meta = worker->knows_meta;
    if (worker->knows_meta)
        view->meta = worker->meta;
    view->rollback = worker->history.alarm[0] != '\0';
    view->etcd_requests_total = stats->requests;
    view->etcd_request_us = stats->request_us;
    view->etcd_failures_total = stats->failures;
    view->etcd_unknown_total = stats->unknown_outcomes;
    snprintf(view->etcd_endpoint, sizeof view->etcd_endpoint, "%s", stats->endpoint);
    if (stats->failures_in_row > 0)
        snprintf(view->etcd_error, sizeof view->etcd_error, "%s", stats->last_error.message);
}

static void look_at_clock(const struct worker *worker, struct view_clock *view) {
    const struct worker_clock *timing = &worker->timing;

    *view = (struct view_clock){
        .limits = worker->config->clock_limits,
        .max_alone_step_ms = worker->config->max_alone_step_ms,
        .claim = timing->claim,
        .steps_total = timing->effective.steps_total,
        .last_step_ns = timing->effective.last_step_ns,
        .rotations_total = worker->rotation.total,
        .wants_confirmation = worker_clock_wants_confirmation(worker),
        .alone = worker->config->standalone || (timing->peers_known && timing->peers.others == 0),
        .agree = timing->peers_known ? (unsigned)timing->peers.agree : 0,
    };
}

/* A time that no ID can carry is the cause of everything else. */
static bool outside_epoch(const struct worker *worker, uint64_t now_ms, char *out, size_t size) {
    uint64_t epoch_ms;
    char now[32], bound[32];

    if (!worker_epoch(worker, &epoch_ms) ||
        (now_ms >= epoch_ms && now_ms <= snowflake_end_ms(epoch_ms)))
        return false;
    time_format(now_ms, now);
    time_format(now_ms < epoch_ms ? epoch_ms : snowflake_end_ms(epoch_ms), bound);
    snprintf(out, size, "the clock says %s, which is %s %s", now,
             now_ms < epoch_ms ? "before the epoch," : "past the last time that IDs can carry,",
             bound);
    return true;
}

void worker_publish(struct worker *worker) {
    const struct worker_config *config = worker->config;
    struct instant now = worker_now(worker);
    struct worker_view view = {.window_ms = config->window_ms,
                               .standalone = config->standalone,
                               .n_machines = worker->n_slots};

    memcpy(view.instance, worker->self.instance, sizeof view.instance);
    memcpy(view.identity, worker->self.identity, sizeof view.identity);
    look_at_clock(worker, &view.clock);
    view.public_key_version = worker_public_fingerprint(worker, view.public_key_fingerprint);
    if (config->standalone)
        view.standalone_epoch_ms = worker->state.epoch_ms;
    else
        look_at_etcd(worker, &view);
    for (size_t i = 0; i < worker->n_slots; i++) {
        struct worker_slot *slot = &worker->slots[i];
        struct view_machine *machine = &view.machines[i];

        machine->gauges = &worker->gauges[i];
        worker_slot_look(slot, &machine->hold);
        view.rollback = view.rollback || machine->hold.reason == HOLD_ROLLBACK;
        if (!view.reason[0])
            reason_of(worker, slot, &machine->hold, view.reason, sizeof view.reason);
        if (machine->hold.has_generation) {
            slot->has_last = true;
            slot->last_machine_id = machine->hold.machine_id;
        }
    }
    if (!worker->heard && view.etcd_error[0])
        snprintf(view.reason, sizeof view.reason, "etcd: %.240s", view.etcd_error);
    if (worker->failure.status != STATUS_OK)
        snprintf(view.reason, sizeof view.reason, "%.250s", worker->failure.message);
    else if (worker->drain != WORKER_RUNNING)
        snprintf(view.reason, sizeof view.reason, "draining");
    else
        outside_epoch(worker, now.wall_ms, view.reason, sizeof view.reason);
    view.state = base_state(worker, &view);
    worker_note_evidence(worker, &view);
    view_publish(&worker->board, &view, now.boot_ms);
    supervisor_status(view.reason[0] ? view.reason : "serving");
}
