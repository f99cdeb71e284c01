/* snowfleetctl release: tells a worker to hand its machine IDs back and to end. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/fields.h"
#include "coordinator/ctl.h"
#include "coordinator/ctl_order.h"
#include "coordinator/ctl_output.h"
#include "coordinator/ctl_session.h"
#include "coordinator/report.h"

static const struct option options[] = {{.name = NULL}};

static bool add_drain(void *arg, struct assign *assign) {
    bool there = assign->drain;

    (void)arg;
    assign->drain = true;
    return !there;
}

static void show(const struct ctl_session *session, const struct ctl_values *values,
                 const char *instance, const char *identity, bool now) {
    uint16_t held[MACHINE_IDS];
    size_t n = report_held_by(session->cluster, instance, held);
    json_t *object = json_object(), *machine_ids = json_array();

    for (size_t i = 0; i < n; i++)
        fields_append(machine_ids, fields_from_number(held[i]));
    fields_put(object, "identity", report_text(identity));
    fields_put(object, "instance", json_string(instance));
    fields_put(object, "machine_ids", machine_ids);
    fields_put(object, "changed", json_boolean(now));
    if (values->output == CTL_JSON) {
        output_json(object);
        return;
    }
    output_facts(object);
    json_decref(object);
    puts(now ? "ordered to hand back its machine IDs and to end, as on SIGTERM"
             : "had been ordered to end already: nothing done");
}

static int run(const struct ctl_values *values, char *const *operands, struct error *err) {
    char instance[HEX128_CHARS + 1], identity[RECORD_IDENTITY_MAX + 1];
    const struct member *member = NULL;
    struct ctl_session session;
    enum ctl_ordered ordered = CTL_ORDERED_NOBODY;
    enum status status;

    if (ctl_open(&session, values, err) != STATUS_OK)
        return CTL_USAGE;
    status = ctl_read_initialised(&session, err);
    if (status == STATUS_OK && !(member = ctl_find_worker(&session, operands[0], err)))
        status = err->status;
    if (member) {
        memcpy(instance, member->instance, sizeof instance);
        memcpy(identity, member->node.identity, sizeof identity);
        status = ctl_order(&session, instance, add_drain, NULL, &ordered, err);
    }
    if (status == STATUS_OK && ordered == CTL_ORDERED_NOBODY)
        status = error_set(err, STATUS_NOT_FOUND, "the worker is gone: its lease has ended");
    if (status == STATUS_OK)
        show(&session, values, instance, identity, ordered == CTL_ORDERED);
    ctl_close(&session);
    return status == STATUS_OK ? CTL_DONE : CTL_FAILED;
}

const struct ctl_command ctl_release = {
    .name = "release",
    .operands = "WORKER",
    .n_operands = 1,
    .summary = "Tells a worker, by identity or instance, to hand its machine IDs back and to end.",
    .options = options,
    .run = run,
};
