/* snowfleetctl decode: takes an ID apart.  It is arithmetic, so it works without etcd too. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/decimal.h"
#include "common/fields.h"
#include "common/snowflake.h"
#include "coordinator/ctl.h"
#include "coordinator/ctl_output.h"
#include "coordinator/ctl_session.h"
#include "coordinator/report.h"

#define FUTURE_MS 1000u /* later than now by more than this is marked */

static const struct option options[] = {
    {.name = "epoch",
     .type = OPTION_TIME,
     .offset = offsetof(struct ctl_values, epoch_ms),
     .given_offset = offsetof(struct ctl_values, epoch_given),
     .argument = "TIME",
     .max = RECORD_WALL_MAX_MS,
     .help = "What timestamp 0 stands for, as in 2024-01-01T00:00:00Z.  With it etcd is not asked; "
             "without it: the cluster's, or 2024-01-01T00:00:00Z when that cannot be had."},
    {.name = NULL},
};

/* The cluster's epoch, and who holds the machine ID now; without etcd the default and nobody.  Fails
 * only when a setting is wrong. */
static enum status ask_etcd(const struct ctl_values *values, uint16_t machine_id,
                            uint64_t *epoch_ms, char *holder, size_t size, struct error *err) {
    struct ctl_session session;

    if (ctl_open(&session, values, err) != STATUS_OK)
        return err->status;
    if (ctl_read_epoch(&session, epoch_ms))
        snprintf(holder, size, "%s", session.cluster->registry.slots[machine_id].own.identity);
    ctl_close(&session);
    return STATUS_OK;
}

static int run(const struct ctl_values *values, char *const *operands, struct error *err) {
    const char *text = operands[0];
    char holder[RECORD_IDENTITY_MAX + 1] = "", time[32], canonical[DECIMAL_U64_MAX_CHARS + 1];
    uint64_t epoch_ms = SNOWFLAKE_EPOCH_MS, number;
    struct clock clock = clock_system();
    struct snowflake_parts parts;
    json_t *object;

    if (decimal_parse(text, strlen(text), 0, INT64_MAX, &number, err) != STATUS_OK) {
        error_context(err, "ID");
        return CTL_USAGE;
    }
    parts = snowflake_decode((int64_t)number, epoch_ms);
    if (values->epoch_given)
        epoch_ms = values->epoch_ms;
    else if (ask_etcd(values, parts.machine_id, &epoch_ms, holder, sizeof holder, err) != STATUS_OK)
        return CTL_USAGE;
    parts = snowflake_decode((int64_t)number, epoch_ms);
    time_format(parts.timestamp_ms, time);
    canonical[decimal_format(number, canonical)] = '\0';
    object = json_object();
    fields_put(object, "kind", json_string("snowflake"));
    fields_put(object, "id", json_string(canonical));
    fields_put(object, "time", json_string(time));
    fields_put(object, "timestamp_ms", report_wide(parts.timestamp_ms));
    fields_put(object, "machine_id", fields_from_number(parts.machine_id));
    fields_put(object, "sequence", fields_from_number(parts.sequence));
    fields_put(object, "future",
               json_boolean(parts.timestamp_ms > clock_now(&clock).wall_ms + FUTURE_MS));
    if (holder[0])
        fields_put(object, "holder", fields_from_label(holder));
    if (values->output == CTL_JSON) {
        output_json(object);
    } else {
        output_facts(object);
        json_decref(object);
    }
    return CTL_DONE;
}

const struct ctl_command ctl_decode = {
    .name = "decode",
    .operands = "ID",
    .n_operands = 1,
    .summary = "Shows the time, machine ID and sequence number of an ID.",
    .options = options,
    .run = run,
};
