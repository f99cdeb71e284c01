/* snowfleetctl range: the smallest and the largest ID of a span of time, to look for in a
 * database.  It is arithmetic, so it works without etcd too. */
#include <stddef.h>
#include <stdio.h>

#include "common/decimal.h"
#include "common/fields.h"
#include "common/id_kind.h"
#include "common/snowflake.h"
#include "common/ulid.h"
#include "common/uuid.h"
#include "coordinator/ctl.h"
#include "coordinator/ctl_output.h"
#include "coordinator/ctl_session.h"

enum { KIND_SNOWFLAKE, KIND_UUIDV7, KIND_ULID };
static const char *const kinds[] = {"snowflake", "uuidv7", "ulid", NULL};

static const struct option options[] = {
    {.name = "kind",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct ctl_values, kind),
     .argument = "snowflake|uuidv7|ulid",
     .fallback = "snowflake",
     .choices = kinds,
     .help = "What kind of ID."},
    {.name = "from",
     .type = OPTION_TIME,
     .offset = offsetof(struct ctl_values, from_ms),
     .given_offset = offsetof(struct ctl_values, from_given),
     .argument = "TIME",
     .max = RECORD_WALL_MAX_MS,
     .help = "The first ms, as in 2025-06-01T00:00:00Z.  Required."},
    {.name = "to",
     .type = OPTION_TIME,
     .offset = offsetof(struct ctl_values, to_ms),
     .given_offset = offsetof(struct ctl_values, to_given),
     .argument = "TIME",
     .max = RECORD_WALL_MAX_MS,
     .help = "The last ms, which still belongs to it.  Required."},
    {.name = "epoch",
     .type = OPTION_TIME,
     .offset = offsetof(struct ctl_values, epoch_ms),
     .given_offset = offsetof(struct ctl_values, epoch_given),
     .argument = "TIME",
     .max = RECORD_WALL_MAX_MS,
     .help = "What timestamp 0 stands for.  With it etcd is not asked; without it: the cluster's, "
             "or 2024-01-01T00:00:00Z when that cannot be had."},
    {.name = NULL},
};

/* A bound must lie within the time that IDs of this epoch can carry. */
static enum status bound(const char *name, uint64_t wall_ms, uint64_t epoch_ms, int64_t *smallest,
                         int64_t *largest, struct error *err) {
    char first[32], last[32];

    if (snowflake_range(wall_ms, epoch_ms, smallest, largest) == STATUS_OK)
        return STATUS_OK;
    time_format(epoch_ms, first);
    time_format(snowflake_end_ms(epoch_ms), last);
    return error_set(err, STATUS_INVALID, "--%s: must be %s..%s, which IDs can carry", name, first,
                     last);
}

static void show(const struct ctl_values *values, const char *smallest, const char *largest) {
    json_t *object = json_object();
    char from[32], to[32];

    time_format(values->from_ms, from);
    time_format(values->to_ms, to);
    fields_put(object, "from", json_string(from));
    fields_put(object, "to", json_string(to));
    fields_put(object, "smallest", json_string(smallest));
    fields_put(object, "largest", json_string(largest));
    output_object(object, values->output == CTL_JSON);
}

static void show_wide(const struct ctl_values *values) {
    char smallest_text[ID_TEXT_MAX + 1], largest_text[ID_TEXT_MAX + 1];
    struct id128 smallest, largest, unused;
    enum id_kind kind = ID_ULID;

    if (values->kind == KIND_UUIDV7) {
        kind = ID_UUIDV7;
        uuid7_range(values->from_ms, &smallest, &unused);
        uuid7_range(values->to_ms, &unused, &largest);
    } else {
        ulid_range(values->from_ms, &smallest, &unused);
        ulid_range(values->to_ms, &unused, &largest);
    }
    id_kind_format(kind, &smallest, smallest_text);
    id_kind_format(kind, &largest, largest_text);
    show(values, smallest_text, largest_text);
}

static int run(const struct ctl_values *values, char *const *operands, struct error *err) {
    uint64_t epoch_ms = values->epoch_ms;
    char smallest_text[DECIMAL_U64_MAX_CHARS + 1], largest_text[DECIMAL_U64_MAX_CHARS + 1];
    int64_t smallest, largest, unused;
    struct ctl_session session;

    (void)operands;
    if (!values->from_given || !values->to_given) {
        error_set(err, STATUS_INVALID, "--%s: is missing", values->from_given ? "to" : "from");
        return CTL_USAGE;
    }
    if (values->from_ms > values->to_ms) {
        error_set(err, STATUS_INVALID, "--from: is later than --to");
        return CTL_USAGE;
    }
    if (values->kind != KIND_SNOWFLAKE) {
        if (values->epoch_given) {
            error_set(err, STATUS_INVALID, "--epoch: is of Snowflakes only");
            return CTL_USAGE;
        }
        show_wide(values);
        return CTL_DONE;
    }
    if (!values->epoch_given) {
        if (ctl_open(&session, values, err) != STATUS_OK)
            return CTL_USAGE;
        ctl_read_epoch(&session, &epoch_ms);
        ctl_close(&session);
    }
    if (bound("from", values->from_ms, epoch_ms, &smallest, &unused, err) != STATUS_OK ||
        bound("to", values->to_ms, epoch_ms, &unused, &largest, err) != STATUS_OK)
        return CTL_USAGE;
    smallest_text[decimal_format((uint64_t)smallest, smallest_text)] = '\0';
    largest_text[decimal_format((uint64_t)largest, largest_text)] = '\0';
    show(values, smallest_text, largest_text);
    return CTL_DONE;
}

const struct ctl_command ctl_range = {
    .name = "range",
    .operands = "",
    .summary = "Prints the smallest and the largest ID of a span of time.",
    .options = options,
    .run = run,
};
