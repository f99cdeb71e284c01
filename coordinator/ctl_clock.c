/* snowfleetctl clock: confirms a worker's clock after a step forward. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/decimal.h"
#include "common/fields.h"
#include "common/quote.h"
#include "coordinator/ctl.h"
#include "coordinator/ctl_order.h"
#include "coordinator/ctl_output.h"
#include "coordinator/ctl_session.h"
#include "coordinator/report.h"

static const struct option options[] = {
    {.name = "for",
     .type = OPTION_DURATION,
     .offset = offsetof(struct ctl_values, for_ms),
     .argument = "DURATION",
     .fallback = "1m",
     .min = 1000,
     .max = 3600000,
     .help =
         "How long the order stands, by this machine's clock.  A worker acts on it when the order "
         "comes after the step, and only while its own clock is not past that time."},
    {.name = NULL},
};

/* The later of two orders counts. */
static bool add_clock_ok(void *arg, struct assign *assign) {
    uint64_t until_ms = *(const uint64_t *)arg;
    bool there = assign->clock_ok_until_ms >= until_ms;

    if (!there)
        assign->clock_ok_until_ms = until_ms;
    return !there;
}

static void show(const struct ctl_values *values, const char *instance, const char *identity,
                 uint64_t until_ms) {
    json_t *object = json_object();
    char until[32];

    time_format(until_ms, until);
    fields_put(object, "identity", report_text(identity));
    fields_put(object, "instance", json_string(instance));
    if (values->output == CTL_JSON) {
        fields_put(object, "clock_ok_until_ms", report_wide(until_ms));
        output_json(object);
    } else {
        fields_put(object, "clock accepted until", json_string(until));
        output_facts(object);
        json_decref(object);
    }
}

static enum status accept_clock(struct ctl_session *session, const struct ctl_values *values,
                                const char *name, struct error *err) {
    char instance[HEX128_CHARS + 1], identity[RECORD_IDENTITY_MAX + 1];
    uint64_t until_ms = clock_now(&session->clock).wall_ms + values->for_ms;
    enum ctl_ordered ordered;
    const struct member *member;

    if (ctl_read_initialised(session, err) != STATUS_OK ||
        !(member = ctl_find_worker(session, name, err)))
        return err->status;
    memcpy(instance, member->instance, sizeof instance);
    memcpy(identity, member->node.identity, sizeof identity);
    if (ctl_order(session, instance, add_clock_ok, &until_ms, &ordered, err) != STATUS_OK)
        return err->status;
    if (ordered == CTL_ORDERED_NOBODY)
        return error_set(err, STATUS_NOT_FOUND, "the worker is gone: its lease has ended");
    show(values, instance, identity, until_ms);
    return STATUS_OK;
}

static int run(const struct ctl_values *values, char *const *operands, struct error *err) {
    struct ctl_session session;
    char quoted[QUOTE_SIZE];
    enum status status;

    if (strcmp(operands[0], "accept") != 0) {
        error_set(err, STATUS_INVALID, "must be clock accept WORKER, got %s",
                  quote(operands[0], strlen(operands[0]), quoted));
        return CTL_USAGE;
    }
    if (ctl_open(&session, values, err) != STATUS_OK)
        return CTL_USAGE;
    status = accept_clock(&session, values, operands[1], err);
    ctl_close(&session);
    return status == STATUS_OK ? CTL_DONE : CTL_FAILED;
}

const struct ctl_command ctl_clock = {
    .name = "clock",
    .operands = "accept WORKER",
    .n_operands = 2,
    .summary =
        "Confirms a worker's clock after a step that neither the leader nor its peers confirm.",
    .options = options,
    .run = run,
};
