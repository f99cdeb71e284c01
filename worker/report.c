#include "worker/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fields.h"

#define NS_PER_MS INT64_C(1000000)

static uint64_t now_ms(const struct report *report) {
    return report->now.effective_ns > 0 ? (uint64_t)(report->now.effective_ns / NS_PER_MS) : 0;
}

static uint64_t load(_Atomic uint64_t *gauge) {
    return atomic_load_explicit(gauge, memory_order_relaxed);
}

static char *spell(json_t *object, size_t *len) {
    char *text = fields_spell(object, NULL);

    *len = strlen(text);
    return text;
}

static uint64_t runway_ms(const struct hold_view *hold, uint64_t wall_ms) {
    return hold->has_generation && hold->limit_ms > wall_ms ? hold->limit_ms - wall_ms : 0;
}

static const char *reason_of(const struct report *report, enum worker_state state) {
    if (report->view->reason[0] || state == WORKER_SERVING)
        return report->view->reason;
    switch (state) {
    case WORKER_STARVED: /* it was published before its limit passed */
        return "the time granted is used up";
    case WORKER_CLAIMING: return "no machine ID yet";
    case WORKER_STARTING: return "starting";
    case WORKER_DRAINING: return "told to stop";
    case WORKER_HALTED:
    case WORKER_SERVING: break;
    }
    return "another era";
}

/* ---- status ---- */

static json_t *spell_machine(const struct view_machine *machine, uint64_t wall_ms) {
    const struct hold_view *hold = &machine->hold;
    json_t *object = json_object();

    fields_put(object, "machine_id",
               hold->has_slot ? fields_from_number(hold->machine_id) : json_null());
    fields_put(object, "state", json_string(view_machine_state(machine, wall_ms)));
    fields_put(object, "reason",
               json_string(hold->reason == HOLD_FINE ? "" : hold_reason_name(hold->reason)));
    fields_put(object, "claim", json_string(hold->claim));
    fields_put(object, "horizon_ms", fields_from_wide(hold->horizon_ms));
    fields_put(object, "limit_ms", fields_from_wide(hold->limit_ms));
    fields_put(object, "runway_ms", fields_from_number(runway_ms(hold, wall_ms)));
    fields_put(object, "pending", fields_from_number(hold->pending));
    fields_put(object, "pending_horizon_ms", fields_from_wide(hold->pending_ms));
    fields_put(object, "last_issued_ms", fields_from_wide(load(&machine->gauges->last_issued_ms)));
    fields_put(object, "issued_total", fields_from_wide(load(&machine->gauges->issued_total)));
    return object;
}

/* What recover and the tools read of meta, spelt as in etcd. */
static void put_meta(json_t *object, const struct meta *meta) {
    static const char *const names[] = {"era", "earlier_eras", "epoch_ms", "machine_id_range",
                                        "reserved"};
    json_t *record = meta_json(meta);

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        fields_put(object, names[i], json_incref(json_object_get(record, names[i])));
    json_decref(record);
}

/* The same fields of a worker that belongs to no cluster. */
static void put_no_meta(json_t *object, uint64_t epoch_ms) {
    fields_put(object, "era", json_string(""));
    fields_put(object, "earlier_eras", json_array());
    fields_put(object, "epoch_ms", fields_from_wide(epoch_ms));
    fields_put(object, "machine_id_range", json_string(""));
    fields_put(object, "reserved", json_array());
}

static json_t *spell_etcd(const struct worker_view *view) {
    json_t *object = json_object();

    fields_put(object, "endpoint", fields_from_label(view->etcd_endpoint));
    fields_put(object, "error", fields_from_label(view->etcd_error));
    fields_put(object, "requests_total", fields_from_wide(view->etcd_requests_total));
    fields_put(object, "failures_total", fields_from_wide(view->etcd_failures_total));
    fields_put(object, "unknown_total", fields_from_wide(view->etcd_unknown_total));
    return object;
}

static json_t *spell_sequence(const struct dispenser_view *view) {
    json_t *object = json_object();

    fields_put(object, "name", json_string(view->name));
    fields_put(object, "reason", fields_from_label(view->reason));
    if (view->known) {
        fields_put(object, "mode", json_string(sequence_mode_name(view->mode)));
        fields_put(object, "shards", fields_from_number(view->n_shards));
        fields_put(object, "block", fields_from_number(view->block));
        fields_put(object, "layout", fields_from_wide(view->layout));
        fields_put(object, "top", fields_from_wide(view->top));
    }
    fields_put(object, "held", fields_from_wide(view->held));
    fields_put(object, "issued_total", fields_from_wide(view->issued_total));
    fields_put(object, "granted_total", fields_from_wide(view->granted_total));
    fields_put(object, "lost_total", fields_from_wide(view->lost_total));
    return object;
}

static json_t *spell_public_keys(const struct worker_view *view) {
    json_t *object;

    if (!view->public_key_fingerprint[0])
        return json_null();
    object = json_object();
    fields_put(object, "fingerprint", json_string(view->public_key_fingerprint));
    fields_put(object, "encodes", fields_from_number(view->public_key_version));
    return object;
}

char *report_status(const struct report *report, size_t *len) {
    const struct worker_view *view = report->view;
    uint64_t wall_ms = now_ms(report);
    enum worker_state state = view_state(view, wall_ms);
    json_t *object = json_object();
    json_t *machines = json_array(), *sequences = json_array();

    fields_put(object, "state", json_string(worker_state_name(state)));
    fields_put(object, "reason", fields_from_label(reason_of(report, state)));
    fields_put(object, "version", json_string(SNOWFLEET_VERSION));
    fields_put(object, "instance", json_string(view->instance));
    fields_put(object, "identity", fields_from_label(view->identity));
    fields_put(object, "cluster", fields_from_label(view->cluster));
    for (size_t i = 0; i < view->n_machines; i++)
        fields_append(machines, spell_machine(&view->machines[i], wall_ms));
    fields_put(object, "machines", machines);
    for (size_t i = 0; i < report->n_sequences; i++)
        fields_append(sequences, spell_sequence(&report->sequences[i]));
    fields_put(object, "sequences", sequences);
    fields_put(object, "runway_ms", fields_from_number(view_runway_ms(view, wall_ms)));
    if (view->has_meta)
        put_meta(object, &view->meta);
    else if (view->standalone)
        put_no_meta(object, view->standalone_epoch_ms);
    fields_put(object, "window_ms", fields_from_number(view->window_ms));
    fields_put(object, "lease_ttl_s", fields_from_number(view->lease_ttl_s));
    fields_put(object, "clock", report_clock_facts(report));
    fields_put(object, "public_keys", spell_public_keys(view));
    fields_put(object, "etcd", spell_etcd(view));
    return spell(object, len);
}

/* ---- probes ---- */

char *report_ready(const struct report *report, size_t *len) {
    json_t *object = json_object();

    fields_put(object, "state",
               json_string(worker_state_name(view_state(report->view, now_ms(report)))));
    return spell(object, len);
}

char *report_unready(const struct report *report, const struct service_error *why, size_t *len) {
    enum worker_state state = view_state(report->view, now_ms(report));
    const char *reason = state == WORKER_SERVING || why->message[0] ? why->message
                                                                    : reason_of(report, state);
    json_t *object = json_object();
    json_t *inner = json_object();
    char refusal[REPORT_REASON_MAX];

    /* Whoever serves only says that it refuses: why, the machine's clock says. */
    if (state == WORKER_SERVING && report->now.refuses) {
        report_clock_reason(report, refusal, sizeof refusal);
        reason = refusal;
    }
    fields_put(inner, "code", json_string("UNAVAILABLE"));
    fields_put(inner, "message", fields_from_label(reason));
    fields_put(inner, "retry_after_ms", fields_from_number(why->retry_after_ms));
    fields_put(object, "error", inner);
    fields_put(object, "state", json_string(worker_state_name(state)));
    fields_put(object, "reason", fields_from_label(reason));
    return spell(object, len);
}

static bool is_stuck(uint64_t turned_boot_ms, uint64_t boot_ms) {
    return turned_boot_ms && boot_ms > turned_boot_ms + WORKER_STUCK_MS;
}

bool report_live(const struct report *report, struct service_error *err) {
    uint64_t boot_ms = (uint64_t)(report->now.boot_ns / NS_PER_MS);

    *err = (struct service_error){.code = "UNAVAILABLE", .retry_after_ms = WORKER_STUCK_MS};
    for (size_t i = 0; i < report->n_loops; i++) {
        if (is_stuck(load(&report->loops[i].turned_boot_ms), boot_ms)) {
            snprintf(err->message, sizeof err->message, "serving loop %zu does not turn", i);
            return false;
        }
    }
    if (is_stuck(report->view->published_boot_ms, boot_ms)) {
        snprintf(err->message, sizeof err->message, "the control loop does not turn");
        return false;
    }
    return true;
}
