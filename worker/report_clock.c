#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fields.h"
#include "worker/report.h"

#define NS_PER_MS INT64_C(1000000)

/* How far the clock is behind what some machine ID has issued; 0 when it is not. */
static uint64_t behind_ms(const struct report *report) {
    int64_t now_ms = report->now.effective_ns / NS_PER_MS;
    uint64_t most = 0;

    for (size_t i = 0; i < report->view->n_machines; i++) {
        const struct view_machine *machine = &report->view->machines[i];
        uint64_t newest_ms = atomic_load_explicit(&machine->gauges->newest_ms,
                                                  memory_order_relaxed);

        /* Above the horizon that it started from: something was issued. */
        if (newest_ms > machine->hold.used_up_ms && (int64_t)newest_ms > now_ms &&
            newest_ms - (uint64_t)now_ms > most)
            most = newest_ms - (uint64_t)now_ms;
    }
    return most;
}

const char *report_clock_state(const struct report *report) {
    if (report->now.refuses)
        return "refusing";
    if (report->now.coasting)
        return "coasting";
    if (report->now.slewing)
        return "slewing";
    return behind_ms(report) > 0 ? "behind" : "normal";
}

/* The loop that answers sees a step before the thread that looks for one does: who asks meanwhile must
 * not take this clock for a witness. */
bool report_clock_wants_confirmation(const struct report *report) {
    return report->now.coasting || report->view->clock.wants_confirmation;
}

static int64_t offset_ns(const struct report *report) {
    return report->now.effective_ns - report->now.wall_ns;
}

static void say_coasting(const struct report *report, char *out, size_t size) {
    const struct view_clock *clock = &report->view->clock;
    double ahead_s = (double)-offset_ns(report) / 1e9;

    if (report->view->standalone)
        snprintf(out, size,
                 "the wall clock was stepped %.3f s ahead; more than %" PRIu64
                 " ms are not taken over until a restart",
                 ahead_s, clock->max_alone_step_ms);
    else if (clock->alone)
        snprintf(out, size,
                 "the wall clock was stepped %.3f s ahead; more than %" PRIu64
                 " ms are not taken over before snowfleetctl clock accept",
                 ahead_s, clock->max_alone_step_ms);
    else
        snprintf(
            out, size,
            "the wall clock was stepped %.3f s ahead; waiting until the coordinator, two peers "
            "(%u so far) or snowfleetctl clock accept confirm it",
            ahead_s, clock->agree);
}

void report_clock_reason(const struct report *report, char *out, size_t size) {
    const struct effective_limits *limits = &report->view->clock.limits;
    uint64_t behind = behind_ms(report);

    out[0] = '\0';
    if (report->now.refuses && !report->now.knows_error)
        snprintf(out, size, "the clock's error is not known: %s",
                 report->view->clock.claim.reason[0] ? report->view->clock.claim.reason
                                                     : "it was stepped");
    else if (report->now.refuses)
        snprintf(out, size, "the clock may be %.3f ms off, above --max-clock-error of %.3f ms",
                 (double)report->now.error_ns / 1e6, (double)limits->max_error_ns / 1e6);
    else if (report->now.coasting)
        say_coasting(report, out, size);
    else if (report->now.slewing)
        snprintf(out, size, "the wall clock was stepped back and has %.3f s to catch up",
                 (double)offset_ns(report) / 1e9);
    else if (behind > 0)
        snprintf(out, size, "the clock is %" PRIu64 " ms behind the last ID", behind);
}

json_t *report_clock_facts(const struct report *report) {
    const struct view_clock *clock = &report->view->clock;
    const struct clock_claim *claim = &clock->claim;
    json_t *object = json_object();
    char reason[REPORT_REASON_MAX];

    report_clock_reason(report, reason, sizeof reason);
    fields_put(object, "wall_ms",
               fields_from_wide(
                   report->now.wall_ns > 0 ? (uint64_t)(report->now.wall_ns / NS_PER_MS) : 0));
    fields_put(object, "effective_minus_wall_ms", json_real((double)offset_ns(report) / 1e6));
    fields_put(object, "strategy", json_string(clock_strategy_name(clock->limits.strategy)));
    fields_put(object, "state", json_string(report_clock_state(report)));
    fields_put(object, "reason", fields_from_label(reason));
    fields_put(object, "error_ms",
               report->now.knows_error ? json_real((double)report->now.error_ns / 1e6)
                                       : json_null());
    fields_put(object, "wants_confirmation", json_boolean(report_clock_wants_confirmation(report)));
    fields_put(object, "rotations_total", fields_from_wide(clock->rotations_total));
    fields_put(object, "source", json_string(claim->source));
    fields_put(object, "daemon", json_string(claim->daemon));
    fields_put(object, "synchronized", json_boolean(claim->synchronized));
    fields_put(object, "trusted", json_boolean(claim->trusted));
    fields_put(object, "distrust_reason", fields_from_label(claim->reason));
    fields_put(object, "max_error_ms",
               claim->trusted ? json_real((double)clock_claim_error_at(
                                              claim, clock->limits.drift_ppm, report->now.boot_ns) /
                                          1e6)
                              : json_null());
    fields_put(object, "steps_total", fields_from_wide(clock->steps_total));
    fields_put(object, "last_step_ms", json_real((double)clock->last_step_ns / 1e6));
    return object;
}

bool report_lifetime_s(const struct report *report, double *left_s) {
    const struct worker_view *view = report->view;
    uint64_t epoch_ms = view->standalone ? view->standalone_epoch_ms : view->meta.epoch_ms;

    if (!view->standalone && !view->has_meta)
        return false;
    *left_s = ((double)snowflake_end_ms(epoch_ms) - (double)report->now.effective_ns / 1e6) / 1e3;
    return true;
}

static json_t *wide_signed(int64_t value) {
    char text[24];

    snprintf(text, sizeof text, "%" PRId64, value);
    return json_string(text);
}

void report_probe(const struct report *report, int64_t received_wall_ns,
                  struct report_probe *probe) {
    const struct view_clock *clock = &report->view->clock;
    const struct clock_claim *claim = &clock->claim;
    int64_t effective_ms = report->now.effective_ns / NS_PER_MS;

    *probe = (struct report_probe){
        .receive_ns = received_wall_ns,
        .transmit_ns = report->now.wall_ns,
        .boot_ns = report->now.boot_ns,
        .knows_max_error = claim->trusted,
        .synchronized = claim->synchronized,
        .source = claim->source,
        .daemon = claim->daemon,
        .trusted = claim->trusted,
        .distrust = claim->reason,
        .knows_frequency = claim->knows_frequency,
        .frequency_ppb = claim->frequency_ppb,
        .strategy = clock_strategy_name(clock->limits.strategy),
        .clock_state = report_clock_state(report),
        .effective_minus_wall_ms = (double)offset_ns(report) / 1e6,
        .wants_confirmation = report_clock_wants_confirmation(report),
        .state = worker_state_name(
            view_state(report->view, effective_ms > 0 ? (uint64_t)effective_ms : 0)),
    };
    if (probe->knows_max_error)
        probe->max_error_ns = clock_claim_error_at(claim, clock->limits.drift_ppm,
                                                   report->now.boot_ns);
}

char *report_clock(const struct report *report, int64_t received_wall_ns, size_t *len) {
    json_t *object = json_object();
    struct report_probe probe;
    char *text;

    report_probe(report, received_wall_ns, &probe);
    fields_put(object, "receive_ns", wide_signed(probe.receive_ns));
    fields_put(object, "transmit_ns", wide_signed(probe.transmit_ns));
    fields_put(object, "boot_ns", wide_signed(probe.boot_ns));
    fields_put(object, "max_error_ns",
               probe.knows_max_error ? wide_signed(probe.max_error_ns) : json_null());
    fields_put(object, "synchronized", json_boolean(probe.synchronized));
    fields_put(object, "source", json_string(probe.source));
    fields_put(object, "daemon", json_string(probe.daemon));
    fields_put(object, "trusted", json_boolean(probe.trusted));
    fields_put(object, "reason", fields_from_label(probe.distrust));
    fields_put(object, "frequency_ppb",
               probe.knows_frequency ? json_integer(probe.frequency_ppb) : json_null());
    fields_put(object, "strategy", json_string(probe.strategy));
    fields_put(object, "clock_state", json_string(probe.clock_state));
    fields_put(object, "effective_minus_wall_ms", json_real(probe.effective_minus_wall_ms));
    fields_put(object, "wants_confirmation", json_boolean(probe.wants_confirmation));
    fields_put(object, "state", json_string(probe.state));
    text = fields_spell(object, NULL);
    *len = strlen(text);
    return text;
}
