#include "worker/worker_internal.h"

#include <stdio.h>
#include <string.h>

/* Why a machine ID does not serve, for people. */
static void reason_of(const struct worker *worker, const struct worker_slot *slot,
                      const struct hold_view *view, char *out, size_t size) {
    const struct error *err = holder_error(slot->holder);

    out[0] = '\0';
    if (view->reason == HOLD_NO_META && !err->message[0])
        snprintf(out, size, "meta missing: has snowfleetctl init been run for this cluster?");
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
    return worker->heard ? WORKER_CLAIMING : WORKER_STARTING;
}

void worker_publish(struct worker *worker) {
    const struct etcd_http_stats *stats = etcd_http_stats(worker->etcd_http);
    const struct worker_config *config = worker->config;
    struct instant now = worker_now(worker);
    struct worker_view view = {.window_ms = config->window_ms,
                               .lease_ttl_s = config->lease_ttl_ms / 1000,
                               .has_meta = worker->has_meta,
                               .n_machines = worker->n_slots,
                               .etcd_requests_total = stats->requests,
                               .etcd_failures_total = stats->failures,
                               .etcd_unknown_total = stats->unknown_outcomes,
                               .clock_steps_total = worker->clock_steps_total,
                               .last_step_ns = worker->last_step_ns};

    memcpy(view.instance, worker->self.instance, sizeof view.instance);
    memcpy(view.identity, worker->self.identity, sizeof view.identity);
    snprintf(view.cluster, sizeof view.cluster, "%s", config->cluster);
    if (worker->has_meta)
        view.meta = worker->meta;
    snprintf(view.etcd_endpoint, sizeof view.etcd_endpoint, "%s", stats->endpoint);
    if (stats->failures_in_row > 0)
        snprintf(view.etcd_error, sizeof view.etcd_error, "%s", stats->last_error.message);
    for (size_t i = 0; i < worker->n_slots; i++) {
        struct worker_slot *slot = &worker->slots[i];
        struct view_machine *machine = &view.machines[i];

        machine->gauges = &worker->gauges[i];
        holder_look(slot->holder, &machine->hold);
        if (!view.reason[0])
            reason_of(worker, slot, &machine->hold, view.reason, sizeof view.reason);
        if (machine->hold.has_generation) {
            slot->has_last = true;
            slot->last_machine_id = machine->hold.machine_id;
        }
    }
    if (!worker->heard && view.etcd_error[0])
        snprintf(view.reason, sizeof view.reason, "etcd: %.240s", view.etcd_error);
    if (worker->drain != WORKER_RUNNING)
        snprintf(view.reason, sizeof view.reason, "draining");
    view.state = base_state(worker, &view);
    view_publish(&worker->board, &view, now.boot_ms);
}
