/* snowfleetctl status: the cluster at a glance. */
#include <stdio.h>

#include "common/fields.h"
#include "coordinator/ctl.h"
#include "coordinator/ctl_output.h"
#include "coordinator/ctl_session.h"
#include "coordinator/report.h"

static const struct option options[] = {{.name = NULL}};

static const struct output_column workers[] = {
    {"identity", "WORKER", false},
    {"machine_ids", "MACHINE IDS", true},
    {"missing", "MISSING", true},
    {"http", "HTTP", false},
    {"version", "VERSION", false},
    {"refused", "REFUSED", false},
    {"public_key_fingerprint", "PUBLIC KEYS", false},
};

static const struct output_column coordinators[] = {
    {"instance", "COORDINATOR", false},
    {"http", "HTTP", false},
    {"leader", "LEADER", false},
};

/* Whoever has other keys for public IDs than most. */
static void note_public_keys(const json_t *status) {
    json_t *worker;
    size_t i;

    json_array_foreach(json_object_get(status, "workers"), i, worker) {
        const char *identity = json_string_value(json_object_get(worker, "identity"));
        const char *fingerprint = json_string_value(
            json_object_get(worker, "public_key_fingerprint"));

        if (!json_is_true(json_object_get(worker, "public_keys_differ")))
            continue;
        printf("\n%s has %s keys for public IDs%s: --public-key-file must hold the same on every "
               "worker\n",
               identity ? identity : "a worker", fingerprint ? "other" : "no",
               fingerprint ? " than the rest" : ", and the rest has");
    }
}

static void print(const json_t *status) {
    const json_t *slots = json_object_get(status, "slots");

    output_facts(status);
    if (json_is_object(slots)) {
        puts("\nmachine IDs:");
        output_facts(slots);
    }
    if (json_array_size(json_object_get(status, "coordinators")) > 0) {
        putchar('\n');
        output_table(coordinators, sizeof coordinators / sizeof coordinators[0],
                     json_object_get(status, "coordinators"));
    }
    if (json_array_size(json_object_get(status, "workers")) > 0) {
        putchar('\n');
        output_table(workers, sizeof workers / sizeof workers[0],
                     json_object_get(status, "workers"));
        note_public_keys(status);
    }
}

static int run(const struct ctl_values *values, char *const *operands, struct error *err) {
    struct ctl_session session;
    enum status status;
    json_t *shown;

    (void)operands;
    if (ctl_open(&session, values, err) != STATUS_OK)
        return CTL_USAGE;
    status = ctl_read_initialised(&session, err);
    /* Without meta there is something to see all the same, if etcd was read. */
    if (session.cluster->complete) {
        shown = report_status(session.cluster, session.cluster_name,
                              clock_now(&session.clock).wall_ms);
        if (values->output == CTL_JSON) {
            output_json(shown);
        } else {
            print(shown);
            json_decref(shown);
        }
    }
    ctl_close(&session);
    return status == STATUS_OK ? CTL_DONE : CTL_FAILED;
}

const struct ctl_command ctl_status = {
    .name = "status",
    .operands = "",
    .summary = "Shows the cluster: mode, leader, workers, machine IDs by state, ceiling.",
    .options = options,
    .run = run,
};
