#include "worker/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS INT64_C(1000000)

static uint64_t load(_Atomic uint64_t *gauge) {
    return atomic_load_explicit(gauge, memory_order_relaxed);
}

/* What stands before the samples of one metric. */
static void head(FILE *out, const char *name, const char *type, const char *help) {
    fprintf(out, "# HELP snowfleet_%s %s\n# TYPE snowfleet_%s %s\n", name, help, name, type);
}

/* A metric with one sample and no label. */
static void counter(FILE *out, const char *name, uint64_t value, const char *help) {
    head(out, name, "counter", help);
    fprintf(out, "snowfleet_%s %" PRIu64 "\n", name, value);
}

static void gauge(FILE *out, const char *name, double value, const char *help) {
    head(out, name, "gauge", help);
    fprintf(out, "snowfleet_%s %.15g\n", name, value);
}

static void write_worker(FILE *out, const struct report *report, uint64_t wall_ms) {
    enum worker_state state = view_state(report->view, wall_ms);

    head(out, "build_info", "gauge", "What this is; always 1.");
    fprintf(out, "snowfleet_build_info{version=\"%s\"} 1\n", SNOWFLEET_VERSION);
    head(out, "worker_state", "gauge", "1 for the state that the worker is in, 0 for the others.");
    for (int i = WORKER_STARTING; i <= WORKER_HALTED; i++)
        fprintf(out, "snowfleet_worker_state{state=\"%s\"} %d\n",
                worker_state_name((enum worker_state)i), i == (int)state);
    gauge(out, "runway_seconds", (double)view_runway_ms(report->view, wall_ms) / 1e3,
          "How long Snowflakes can still be issued if etcd does not answer any more.");
}

/* One sample for each machine ID that the worker has to do with. */
static void write_machines(FILE *out, const struct report *report, uint64_t wall_ms) {
    const struct worker_view *view = report->view;
    static const struct {
        const char *name, *help;
        size_t offset;
    } counters[] = {
        {"extensions_total", "Extensions of the horizon that etcd confirmed.",
         offsetof(struct hold_view, extensions_total)},
        {"claims_total", "Claims of a machine ID that succeeded.",
         offsetof(struct hold_view, claims_total)},
        {"resumes_total", "Claims that went on with a machine ID whose lease was lost.",
         offsetof(struct hold_view, resumes_total)},
        {"lost_total", "Machine IDs lost to another holder.",
         offsetof(struct hold_view, lost_total)},
        {"unknown_total", "Transactions whose outcome had to be read back.",
         offsetof(struct hold_view, unknown_total)},
    };

    head(out, "machine_runway_seconds", "gauge", "How far the granted time reaches beyond now.");
    for (size_t i = 0; i < view->n_machines; i++) {
        const struct hold_view *hold = &view->machines[i].hold;

        if (hold->has_generation)
            fprintf(out, "snowfleet_machine_runway_seconds{loop=\"%zu\",machine_id=\"%u\"} %.15g\n",
                    i, hold->machine_id, ((double)hold->limit_ms - (double)wall_ms) / 1e3);
    }
    for (size_t c = 0; c < sizeof counters / sizeof counters[0]; c++) {
        char name[48];

        snprintf(name, sizeof name, "hold_%s", counters[c].name);
        head(out, name, "counter", counters[c].help);
        for (size_t i = 0; i < view->n_machines; i++) {
            const char *hold = (const char *)&view->machines[i].hold;

            fprintf(out, "snowfleet_%s{loop=\"%zu\"} %" PRIu64 "\n", name, i,
                    *(const uint64_t *)(const void *)(hold + counters[c].offset));
        }
    }
}

static void write_grpc_calls(FILE *out, const struct report *report) {
    head(out, "grpc_calls_total", "counter", "gRPC calls ended, by status code.");
    for (size_t code = 0; code < GRPC_CODES; code++) {
        uint64_t sum = 0;

        for (size_t i = 0; i < report->n_loops; i++)
            sum += load(&report->loops[i].grpc_calls_total[code]);
        fprintf(out, "snowfleet_grpc_calls_total{code=\"%s\"} %" PRIu64 "\n",
                grpc_code_name((enum grpc_code)code), sum);
    }
}

/* Counters of the serving loops, whichever loop answers the scrape. */
static void write_loops(FILE *out, const struct report *report) {
    static const struct {
        const char *name, *type, *help;
        size_t offset;
    } rows[] = {
        {"parked_requests", "gauge", "Callers that wait for the next millisecond.",
         offsetof(struct loop_gauges, parked)},
        {"http_connections", "gauge", "Open HTTP connections.",
         offsetof(struct loop_gauges, http_connections)},
        {"http_connections_total", "counter", "HTTP connections accepted.",
         offsetof(struct loop_gauges, http_connections_total)},
        {"http_refused_connections_total", "counter",
         "Connections refused above --max-connections.",
         offsetof(struct loop_gauges, http_refused_connections_total)},
        {"http_accept_failures_total", "counter",
         "Times that no descriptor was left to accept with.",
         offsetof(struct loop_gauges, http_accept_failures_total)},
        {"http_requests_total", "counter", "HTTP requests handled.",
         offsetof(struct loop_gauges, http_requests_total)},
        {"http_guard_refusals_total", "counter",
         "Requests refused for ambiguous framing or target.",
         offsetof(struct loop_gauges, http_guard_refusals_total)},
        {"http_timeouts_total", "counter", "Requests and answers that were too slow, and cut.",
         offsetof(struct loop_gauges, http_timeouts_total)},
        {"http_unauthenticated_total", "counter",
         "Requests refused for want of a bearer token that is known.",
         offsetof(struct loop_gauges, http_unauthenticated_total)},
        {"grpc_connections", "gauge", "Open gRPC connections.",
         offsetof(struct loop_gauges, grpc_connections)},
        {"grpc_connections_total", "counter", "gRPC connections accepted.",
         offsetof(struct loop_gauges, grpc_connections_total)},
        {"grpc_refused_connections_total", "counter",
         "gRPC connections closed at once, above --max-connections.",
         offsetof(struct loop_gauges, grpc_refused_connections_total)},
        {"grpc_accept_failures_total", "counter",
         "gRPC connections not accepted for want of descriptors, tried again later.",
         offsetof(struct loop_gauges, grpc_accept_failures_total)},
        {"grpc_floods_total", "counter",
         "gRPC connections ended for what they sent: pings, resets, frames without content.",
         offsetof(struct loop_gauges, grpc_floods_total)},
    };

    head(out, "ids_issued_total", "counter", "IDs issued, by the kind that was asked for.");
    for (int kind = 0; kind < ID_KINDS; kind++)
        for (size_t i = 0; i < report->n_loops; i++)
            fprintf(out, "snowfleet_ids_issued_total{kind=\"%s\",loop=\"%zu\"} %" PRIu64 "\n",
                    id_kind_name((enum id_kind)kind), i,
                    load(&report->loops[i].kind_issued_total[kind]));
    head(out, "id_clock_ahead_seconds", "gauge",
         "How far the newest ID of that kind is dated ahead of the clock, since it went back.");
    fprintf(out, "snowfleet_id_clock_ahead_seconds{kind=\"uuidv7\"} %.15g\n",
            (double)report->ahead_ms[ID128_UUIDV7] / 1e3);
    fprintf(out, "snowfleet_id_clock_ahead_seconds{kind=\"ulid\"} %.15g\n",
            (double)report->ahead_ms[ID128_ULID] / 1e3);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        uint64_t sum = 0;

        for (size_t i = 0; i < report->n_loops; i++)
            sum += load((_Atomic uint64_t *)(void *)((char *)&report->loops[i] + rows[r].offset));
        head(out, rows[r].name, rows[r].type, rows[r].help);
        fprintf(out, "snowfleet_%s %" PRIu64 "\n", rows[r].name, sum);
    }
    write_grpc_calls(out, report);
}

static void write_sequences(FILE *out, const struct report *report) {
    static const struct {
        const char *name, *type, *help;
        size_t offset;
    } rows[] = {
        {"sequence_held_values", "gauge", "Values granted and not issued yet: what a crash loses.",
         offsetof(struct dispenser_view, held)},
        {"sequence_issued_values_total", "counter", "Values issued.",
         offsetof(struct dispenser_view, issued_total)},
        {"sequence_granted_values_total", "counter", "Values granted by etcd.",
         offsetof(struct dispenser_view, granted_total)},
        {"sequence_lost_values_total", "counter",
         "Values granted, or perhaps, that will never be issued.",
         offsetof(struct dispenser_view, lost_total)},
        {"sequence_grants_total", "counter", "Grants confirmed by etcd.",
         offsetof(struct dispenser_view, grants_total)},
    };

    for (size_t r = 0; r < sizeof rows / sizeof rows[0] && report->n_sequences > 0; r++) {
        head(out, rows[r].name, rows[r].type, rows[r].help);
        for (size_t i = 0; i < report->n_sequences; i++) {
            const char *view = (const char *)&report->sequences[i];

            fprintf(out, "snowfleet_%s{name=\"%s\"} %" PRIu64 "\n", rows[r].name,
                    report->sequences[i].name,
                    *(const uint64_t *)(const void *)(view + rows[r].offset));
        }
    }
}

static void write_etcd(FILE *out, const struct worker_view *view) {
    gauge(out, "rollback", view->rollback,
          "1 after etcd's history went back, until snowfleetctl recover has made a new era.");
    gauge(out, "etcd_reachable", view->etcd_error[0] ? 0 : 1,
          "1 when etcd's last answer was good.");
    counter(out, "etcd_requests_total", view->etcd_requests_total, "Requests to etcd.");
    head(out, "etcd_request_seconds_total", "counter", "Time that requests to etcd took.");
    fprintf(out, "snowfleet_etcd_request_seconds_total %.6f\n",
            (double)view->etcd_request_us / 1e6);
    counter(out, "etcd_failures_total", view->etcd_failures_total, "Requests to etcd that failed.");
    counter(out, "etcd_unknown_total", view->etcd_unknown_total,
            "Writes to etcd whose outcome is unknown.");
}

static void write_clock(FILE *out, const struct report *report) {
    static const char *const states[] = {"normal", "coasting", "slewing", "behind", "refusing"};
    const struct view_clock *clock = &report->view->clock;
    const char *state = report_clock_state(report);
    double left_s;

    counter(out, "clock_steps_total", clock->steps_total, "Steps of the wall clock.");
    gauge(out, "clock_last_step_seconds", (double)clock->last_step_ns / 1e9,
          "The last step of the wall clock, positive forward.");
    counter(out, "clock_rotations_total", clock->rotations_total,
            "Machine IDs exchanged for another after a step back.");
    head(out, "clock_state", "gauge",
         "1 for the state that the effective clock is in, 0 for the others.");
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        fprintf(out, "snowfleet_clock_state{state=\"%s\"} %d\n", states[i],
                strcmp(states[i], state) == 0);
    gauge(out, "clock_effective_minus_wall_seconds",
          (double)(report->now.effective_ns - report->now.wall_ns) / 1e9,
          "How far the clock that dates IDs is ahead of the wall clock.");
    gauge(out, "clock_wants_confirmation", report_clock_wants_confirmation(report),
          "1 while a step waits to be confirmed.");
    gauge(out, "clock_synchronized", clock->claim.synchronized,
          "1 when the clock is said to be synchronised.");
    gauge(out, "clock_error_trusted", clock->claim.trusted,
          "1 when the bound on the clock's error can be trusted; else there is none.");
    if (clock->claim.trusted)
        gauge(out, "clock_max_error_seconds",
              (double)clock_claim_error_at(&clock->claim, clock->limits.drift_ppm,
                                           report->now.boot_ns) /
                  1e9,
              "The bound on the error of the wall clock.");
    if (report_lifetime_s(report, &left_s))
        gauge(out, "epoch_left_seconds", left_s,
              "How long until the last time that IDs of this epoch can carry.");
}

char *report_metrics(const struct report *report, size_t *len) {
    uint64_t wall_ms = report->now.effective_ns > 0
                           ? (uint64_t)(report->now.effective_ns / NS_PER_MS)
                           : 0;
    char *text = NULL;
    FILE *out = open_memstream(&text, len);

    if (!out)
        abort();
    write_worker(out, report, wall_ms);
    write_machines(out, report, wall_ms);
    write_loops(out, report);
    write_sequences(out, report);
    if (!report->view->standalone)
        write_etcd(out, report->view);
    write_clock(out, report);
    if (fclose(out) != 0)
        abort();
    return text;
}
