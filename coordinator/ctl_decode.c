/* snowfleetctl decode: takes an ID apart.  It is arithmetic, so it works without etcd too. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/id_decode.h"
#include "common/snowflake.h"
#include "coordinator/ctl.h"
#include "coordinator/ctl_output.h"
#include "coordinator/ctl_session.h"

/* In the order of enum id_read. */
static const char *const kinds[] = {"any",  "snowflake", "uuid",     "uuidv4", "uuidv7",
                                    "ulid", "public",    "sequence", NULL};

static const struct option options[] = {
    {.name = "kind",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct ctl_values, kind),
     .argument = "any|snowflake|uuid|uuidv4|uuidv7|ulid|public|sequence",
     .fallback = "any",
     .choices = kinds,
     .help = "What it must be; any tells by its looks, and takes a plain number for a Snowflake."},
    CTL_PUBLIC_KEY_FILE("To look behind public IDs"),
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

/* Looks behind a public ID. */
static enum status open_public(const struct ctl_values *values, struct id_value *id,
                               struct error *err) {
    struct public_codec *codec;
    enum status status;

    if (id->kind != ID_READ_PUBLIC)
        return STATUS_OK;
    if (ctl_open_public_keys(values, &codec, err) != STATUS_OK)
        return err->status;
    status = id_open(codec, id, err);
    if (status != STATUS_OK)
        error_context(err, "ID");
    public_codec_free(codec);
    return status;
}

static int run(const struct ctl_values *values, char *const *operands, struct error *err) {
    const char *text = operands[0];
    char holder[RECORD_IDENTITY_MAX + 1] = "";
    uint64_t epoch_ms = values->epoch_given ? values->epoch_ms : SNOWFLAKE_EPOCH_MS;
    struct clock clock = clock_system();
    struct id_facts facts;
    struct id_value id;
    json_t *object;

    if (id_read((enum id_read)values->kind, text, strlen(text), &id, err) != STATUS_OK) {
        error_context(err, "ID");
        return CTL_USAGE;
    }
    if (open_public(values, &id, err) != STATUS_OK)
        return CTL_USAGE;
    if (id_is_snowflake(&id) && !values->epoch_given &&
        ask_etcd(values, snowflake_decode(id.number, epoch_ms).machine_id, &epoch_ms, holder,
                 sizeof holder, err) != STATUS_OK)
        return CTL_USAGE;
    id_decode(&id, epoch_ms, clock_now(&clock).wall_ms, &facts);
    object = id_facts_json(&facts, holder[0] ? holder : NULL);
    output_object(object, values->output == CTL_JSON);
    return CTL_DONE;
}

const struct ctl_command ctl_decode = {
    .name = "decode",
    .operands = "ID",
    .n_operands = 1,
    .summary =
        "Shows what an ID says: its kind, time, a Snowflake's machine ID, what is behind a public ID.",
    .options = options,
    .run = run,
};
