/* snowfleetctl machines: each machine ID, its state and its holder. */
#include "common/decimal.h"
#include "common/fields.h"
#include "coordinator/ctl.h"
#include "coordinator/ctl_output.h"
#include "coordinator/ctl_session.h"
#include "coordinator/report.h"

static const struct option options[] = {{.name = NULL}};

static const struct output_column columns[] = {
    {"machine_id", "MACHINE ID", true}, {"state", "STATE", false},
    {"identity", "IDENTITY", false},    {"instance", "INSTANCE", false},
    {"horizon_ms", "HORIZON", false},   {"usable_in_ms", "USABLE IN MS", true},
};

/* People read dates. */
static void date_horizons(json_t *machines) {
    for (size_t i = 0; i < json_array_size(machines); i++) {
        json_t *machine = json_array_get(machines, i);
        uint64_t horizon_ms = 0;
        struct error err;
        struct fields fields = {.object = machine, .err = &err};
        char text[32];

        if (!json_is_string(json_object_get(machine, "horizon_ms")))
            continue;
        fields_wide(&fields, "horizon_ms", UINT64_MAX, &horizon_ms);
        time_format(horizon_ms, text);
        fields_put(machine, "horizon_ms", json_string(text));
    }
}

static int run(const struct ctl_values *values, char *const *operands, struct error *err) {
    struct ctl_session session;
    enum status status;
    json_t *machines;

    (void)operands;
    if (ctl_open(&session, values, err) != STATUS_OK)
        return CTL_USAGE;
    status = ctl_read_initialised(&session, err);
    if (status == STATUS_OK) {
        machines = report_machines(session.cluster, clock_now(&session.clock).wall_ms);
        if (values->output == CTL_JSON) {
            output_json(machines);
        } else {
            date_horizons(machines);
            output_table(columns, sizeof columns / sizeof columns[0], machines);
            json_decref(machines);
        }
    }
    ctl_close(&session);
    return status == STATUS_OK ? CTL_DONE : CTL_FAILED;
}

const struct ctl_command ctl_machines = {
    .name = "machines",
    .operands = "",
    .summary = "Lists the machine IDs: HELD, COOLING, FREE, AHEAD, RESERVED or ABSENT.",
    .options = options,
    .run = run,
};
