/* report.h - [pure] what an operator sees of a worker: status, readiness, metrics.
 *
 * Texts are allocated, to be released with free(); *len is without the NUL that they end in. */
#ifndef SNOWFLEET_WORKER_REPORT_H
#define SNOWFLEET_WORKER_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/effective_clock.h"
#include "common/id128_source.h"
#include "worker/dispenser.h"
#include "worker/service.h"
#include "worker/view.h"

/* What is looked at when somebody asks. */
struct report {
    const struct worker_view *view;
    struct loop_gauges *loops; /* of all serving loops */
    size_t n_loops;
    struct effective_now now;
    const struct dispenser_view *sequences;
    size_t n_sequences;
    uint64_t ahead_ms[ID128_KINDS]; /* how far the newest UUIDv7 and ULID are ahead of the clock */
};

/* /v1/status: design.md 7.1. */
char *report_status(const struct report *report, size_t *len);
/* /readyz when ready; when not, with the reason that this loop cannot serve. */
char *report_ready(const struct report *report, size_t *len);
char *report_unready(const struct report *report, const struct service_error *why, size_t *len);
/* /metrics, Prometheus' text format 0.0.4. */
char *report_metrics(const struct report *report, size_t *len);

/* /livez: does the control loop turn, and every serving loop?  If not, err says which one. */
bool report_live(const struct report *report, struct service_error *err);

/* What a probe is told, whichever way it came: GET /v1/clock or ClockService.Probe.  Times are of the
 * physical clock; what is not known is said to be so, and 0 then.  Texts live as long as the view. */
struct report_probe {
    int64_t receive_ns, transmit_ns; /* Unix time: asked, answered */
    int64_t boot_ns;                 /* with transmit_ns */
    bool knows_max_error;            /* somebody vouches for it */
    int64_t max_error_ns;
    bool synchronized;
    const char *source; /* as all of these, of the claim (clock_claim.h) */
    const char *daemon;
    bool trusted;
    const char *distrust; /* why not trusted; "" */
    bool knows_frequency;
    int64_t frequency_ppb;
    const char *strategy;    /* "wait", "offset", "bounded" */
    const char *clock_state; /* report_clock_state() */
    double effective_minus_wall_ms;
    bool wants_confirmation;
    const char *state; /* of the worker: worker_state_name() */
};
/* received_wall_ns: when it was asked; report->now: when it is answered. */
void report_probe(const struct report *report, int64_t received_wall_ns,
                  struct report_probe *probe);
/* /v1/clock */
char *report_clock(const struct report *report, int64_t received_wall_ns, size_t *len);
/* The `clock` of /v1/status. */
json_t *report_clock_facts(const struct report *report);
/* "normal", "coasting", "slewing", "behind" or "refusing"; and why, "" when normal. */
const char *report_clock_state(const struct report *report);
/* A step is not confirmed, by what is known this very moment. */
bool report_clock_wants_confirmation(const struct report *report);
#define REPORT_REASON_MAX 256
void report_clock_reason(const struct report *report, char *out, size_t size);
/* Seconds until the last time that IDs can carry, below 0 past it; false: the epoch is not known. */
bool report_lifetime_s(const struct report *report, double *left_s);

#endif
