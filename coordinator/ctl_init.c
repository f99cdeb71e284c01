/* snowfleetctl init: makes the keys of a new cluster, or completes an unfinished init. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/decimal.h"
#include "common/fields.h"
#include "common/random.h"
#include "common/snowflake.h"
#include "coordinator/ctl.h"
#include "coordinator/ctl_meta.h"
#include "coordinator/ctl_output.h"
#include "coordinator/ctl_session.h"
#include "coordinator/report.h"

#define CEILING_LEAD_MS (UINT64_C(24) * 3600000) /* until a coordinator raises it */
#define KEYS_AT_A_TIME 100u                      /* etcd takes 128 compares */
#define ATTEMPTS 20u                             /* against others who do the same */

static const struct option options[] = {
    {.name = "new",
     .type = OPTION_BOOL,
     .offset = offsetof(struct ctl_values, is_new),
     .help = "Says that this etcd never served this cluster: IDs may be issued at once."},
    {.name = "if-needed",
     .type = OPTION_BOOL,
     .offset = offsetof(struct ctl_values, if_needed),
     .help = "For automation: does nothing when the cluster is initialised.  Otherwise the first "
             "IDs wait for --max-window and --max-offset to pass, since an empty etcd may be one "
             "that lost its data while workers still serve."},
    {.name = "machine-id-range",
     .type = OPTION_RANGE,
     .offset = offsetof(struct ctl_values, machine_ids),
     .argument = "A-B",
     .fallback = "0-1023",
     .max = SNOWFLAKE_MACHINE_ID_MAX,
     .help = "The machine IDs of this cluster."},
    {.name = "reserved",
     .type = OPTION_STRING,
     .offset = offsetof(struct ctl_values, reserved),
     .argument = "LIST",
     .help = "Machine IDs never to be given out, as in 0,7,100-199."},
    {.name = "epoch",
     .type = OPTION_TIME,
     .offset = offsetof(struct ctl_values, epoch_ms),
     .argument = "TIME",
     .fallback = "2024-01-01T00:00:00Z",
     .max = RECORD_WALL_MAX_MS,
     .help =
         "What timestamp 0 stands for; it can never be changed.  IDs last 69 years from there."},
    {.name = "floor",
     .type = OPTION_TIME,
     .offset = offsetof(struct ctl_values, floor_ms),
     .given_offset = offsetof(struct ctl_values, floor_given),
     .argument = "TIME",
     .max = RECORD_WALL_MAX_MS,
     .help = "No ID carries this time or an earlier one: to start above the IDs of another "
             "generator."},
    {.name = "no-ceiling",
     .type = OPTION_BOOL,
     .offset = offsetof(struct ctl_values, no_ceiling),
     .help = "For fleets that run no coordinator, which would raise the ceiling: without it a "
             "worker whose clock is years ahead is not held back."},
    {.name = "max-window",
     .type = OPTION_DURATION,
     .offset = offsetof(struct ctl_values, max_window_ms),
     .argument = "DURATION",
     .fallback = "60s",
     .min = 1000,
     .max = RECORD_MAX_WINDOW_MAX_MS,
     .help = "The largest --window that a worker may use."},
    {.name = "quiet-time",
     .type = OPTION_DURATION,
     .offset = offsetof(struct ctl_values, quiet_time_ms),
     .argument = "DURATION",
     .fallback = "90s",
     .max = RECORD_QUIET_TIME_MAX_MS,
     .help = "How long a machine ID rests after its horizon has passed, while others are free."},
    {.name = "max-offset",
     .type = OPTION_DURATION,
     .offset = offsetof(struct ctl_values, max_offset_ms),
     .argument = "DURATION",
     .fallback = "500ms",
     .min = 1,
     .max = RECORD_MAX_OFFSET_MAX_MS,
     .help = "How far a worker's clock may be from the fleet's to be given a machine ID."},
    {.name = NULL},
};

/* ---- what is asked for ---- */

/* Reads "A" or "A-B" at text[len]. */
/* The floor of an etcd that may have served before: until then every window that a worker can still
 * hold has passed, whatever clock it goes by. */
static uint64_t find_floor(const struct ctl_values *values, uint64_t now_ms) {
    uint64_t floor_ms = values->epoch_ms;

    if (values->if_needed)
        floor_ms = now_ms + values->max_window_ms + values->max_offset_ms;
    if (values->floor_given && values->floor_ms > floor_ms)
        floor_ms = values->floor_ms;
    return floor_ms;
}

static enum status make_meta(const struct ctl_values *values, uint64_t now_ms, struct meta *meta,
                             struct error *err) {
    char epoch[32], now[32];

    if (values->is_new == values->if_needed)
        return error_set(err, STATUS_INVALID,
                         "say which: --new when this etcd never served this cluster (it starts at "
                         "once), or --if-needed for automation (a first start waits)");
    *meta = (struct meta){.format = RECORD_FORMAT,
                          .serial = 1,
                          .epoch_ms = values->epoch_ms,
                          .floor_ms = find_floor(values, now_ms),
                          .first_machine_id = (uint16_t)values->machine_ids.first,
                          .last_machine_id = (uint16_t)values->machine_ids.last,
                          .max_window_ms = values->max_window_ms,
                          .quiet_time_ms = values->quiet_time_ms,
                          .max_offset_ms = values->max_offset_ms,
                          .mode = META_OPEN,
                          .if_needed = values->if_needed};
    random_hex128(meta->era);
    if (values->epoch_ms > now_ms) {
        time_format(values->epoch_ms, epoch);
        time_format(now_ms, now);
        return error_set(err, STATUS_INVALID, "--epoch: must be at most the present, %s, got %s",
                         now, epoch);
    }
    if (snowflake_end_ms(values->epoch_ms) <= now_ms)
        return error_set(err, STATUS_INVALID, "--epoch: its 69 years are over");
    if (values->floor_given && values->floor_ms < values->epoch_ms)
        return error_set(err, STATUS_INVALID, "--floor: lies before the epoch");
    if (meta->floor_ms >= snowflake_end_ms(values->epoch_ms))
        return error_set(err, STATUS_INVALID, "--floor: lies past the epoch's end");
    if (values->reserved && ctl_meta_reserve(meta, values->reserved, err) != STATUS_OK)
        return err->status;
    return meta_check(meta, err);
}

/* ---- what is there ---- */

/* Keys that only a cluster that served can have, with meta gone. */
static enum status refuse_lost_data(const struct ctl_session *session, struct error *err) {
    const struct cluster *cluster = session->cluster;

    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        const struct slot *slot = &cluster->registry.slots[id];

        if (slot->held || (slot->has_horizon && slot->horizon.n > 0))
            return error_set(err, STATUS_REFUSED,
                             "data was lost: meta is missing, but machine ID %u was claimed; the "
                             "way back is snowfleetctl recover",
                             id);
    }
    return STATUS_OK;
}

/* ---- writing ---- */

static void take_outcome(void *arg, const struct etcd_txn_result *result) {
    *(bool *)arg = result->succeeded;
}

/* A write whose outcome is unknown is no failure here: everything is created only where absent, and
 * the next attempt reads what is there. */
static enum status write_some(struct ctl_session *session, const struct etcd_txn *txn,
                              bool *succeeded, struct error *err) {
    enum status status;

    *succeeded = false;
    status = ctl_txn(session, txn, take_outcome, succeeded, err);
    return status == STATUS_UNKNOWN ? STATUS_OK : status;
}

/* Creates the hor keys that are absent, some at a time.  *complete is false when somebody came in
 * between. */
static enum status write_horizons(struct ctl_session *session, const struct meta *meta,
                                  bool *complete, struct error *err) {
    const struct keys *keys = &session->keys;
    struct horizon untouched = {.horizon_ms = meta->epoch_ms};
    char names[KEYS_AT_A_TIME][KEY_MAX], text[HORIZON_TEXT_MAX];
    struct etcd_compare compares[KEYS_AT_A_TIME + 1];
    struct etcd_op puts[KEYS_AT_A_TIME];
    const struct etcd_op read = {.kind = ETCD_RANGE, .key = keys->meta};
    unsigned id = meta->first_machine_id;

    memset(untouched.claim, '0', HEX128_CHARS);
    horizon_format(&untouched, text);
    *complete = true;
    while (*complete && id <= meta->last_machine_id) {
        size_t n = 0;

        for (; id <= meta->last_machine_id && n < KEYS_AT_A_TIME; id++) {
            const struct slot *slot = &session->cluster->registry.slots[id];

            if (slot->has_horizon || meta->reserved[id])
                continue;
            keys_hor(keys, (uint16_t)id, names[n]);
            compares[n] = (struct etcd_compare){.kind = ETCD_ABSENT, .key = names[n]};
            puts[n] = (struct etcd_op){.kind = ETCD_PUT, .key = names[n], .value = text};
            n++;
        }
        if (n == 0)
            break;
        compares[n] = (struct etcd_compare){.kind = ETCD_ABSENT, .key = keys->meta};
        if (write_some(session,
                       &(struct etcd_txn){.compares = compares,
                                          .n_compares = n + 1,
                                          .then = puts,
                                          .n_then = n,
                                          .otherwise = &read,
                                          .n_otherwise = 1},
                       complete, err) != STATUS_OK)
            return error_context(err, "hor keys");
    }
    return STATUS_OK;
}

/* Creates ceil, or raises what an unfinished init left. */
static enum status write_ceiling(struct ctl_session *session, const struct ctl_values *values,
                                 const struct meta *meta, bool *complete, struct error *err) {
    const struct cluster *cluster = session->cluster;
    const struct keys *keys = &session->keys;
    uint64_t now_ms = clock_now(&session->clock).wall_ms;
    uint64_t ceiling_ms = (meta->floor_ms > now_ms ? meta->floor_ms : now_ms) + CEILING_LEAD_MS;
    char text[CEILING_TEXT_MAX];
    const struct etcd_compare compares[] = {
        {.kind = ETCD_ABSENT, .key = keys->meta},
        {.kind = cluster->ceil_value ? ETCD_VALUE_EQUAL : ETCD_ABSENT,
         .key = keys->ceil,
         .value = cluster->ceil_value},
    };
    const struct etcd_op put = {.kind = ETCD_PUT, .key = keys->ceil, .value = text};
    const struct etcd_op read = {.kind = ETCD_RANGE, .key = keys->meta};

    if (values->no_ceiling)
        ceiling_ms = CEILING_NONE;
    *complete = true;
    if (cluster->has_ceil && cluster->ceil_ms >= ceiling_ms)
        return STATUS_OK;
    ceiling_format(ceiling_ms, text);
    if (write_some(session,
                   &(struct etcd_txn){.compares = compares,
                                      .n_compares = 2,
                                      .then = &put,
                                      .n_then = 1,
                                      .otherwise = &read,
                                      .n_otherwise = 1},
                   complete, err) != STATUS_OK)
        return error_context(err, "ceil");
    return STATUS_OK;
}

static enum status write_meta(struct ctl_session *session, const char *text, bool *complete,
                              struct error *err) {
    const struct keys *keys = &session->keys;
    const struct etcd_compare absent = {.kind = ETCD_ABSENT, .key = keys->meta};
    const struct etcd_op put = {.kind = ETCD_PUT, .key = keys->meta, .value = text};
    const struct etcd_op read = {.kind = ETCD_RANGE, .key = keys->meta};

    if (write_some(session,
                   &(struct etcd_txn){.compares = &absent,
                                      .n_compares = 1,
                                      .then = &put,
                                      .n_then = 1,
                                      .otherwise = &read,
                                      .n_otherwise = 1},
                   complete, err) != STATUS_OK)
        return error_context(err, "meta");
    return STATUS_OK;
}

/* One round after ctl_read() has shown that meta is absent.  The floor counts from here: no window
 * can have been granted since. */
static enum status write_all(struct ctl_session *session, const struct ctl_values *values,
                             struct meta *meta, struct error *err) {
    char *text;
    bool complete = false;
    enum status status = refuse_lost_data(session, err);

    meta->floor_ms = find_floor(values, clock_now(&session->clock).wall_ms);
    text = meta_format(meta, NULL);
    if (status == STATUS_OK)
        status = write_horizons(session, meta, &complete, err);
    if (status == STATUS_OK && complete)
        status = write_ceiling(session, values, meta, &complete, err);
    if (status == STATUS_OK && complete)
        status = write_meta(session, text, &complete, err);
    free(text);
    return status;
}

/* Reads, writes what is missing, and looks again until meta stands.  *created: it is ours. */
static enum status initialise(struct ctl_session *session, const struct ctl_values *values,
                              struct meta *meta, bool *created, struct error *err) {
    const struct cluster *cluster = session->cluster;

    for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (ctl_read(session, err) != STATUS_OK)
            return err->status;
        if (cluster->meta_value) {
            *created = cluster->has_meta && strcmp(cluster->meta.era, meta->era) == 0;
            return STATUS_OK;
        }
        if (write_all(session, values, meta, err) != STATUS_OK)
            return err->status;
    }
    return error_set(err, STATUS_UNAVAILABLE,
                     "not complete after 20 rounds: others write too, or a key is damaged");
}

/* ---- and what came of it ---- */

static void show(const struct ctl_session *session, const struct ctl_values *values, bool created) {
    const struct meta *meta = &session->cluster->meta;
    uint64_t now_ms = clock_now(&session->clock).wall_ms;
    uint64_t wait_ms = meta->floor_ms > now_ms ? meta->floor_ms - now_ms : 0;
    char first_last[16], epoch[32], floor[32];
    json_t *object = json_object();

    if (values->output == CTL_JSON) {
        fields_put(object, "cluster", json_string(session->cluster_name));
        fields_put(object, "created", json_boolean(created));
        fields_put(object, "era", json_string(meta->era));
        fields_put(object, "epoch_ms", report_wide(meta->epoch_ms));
        fields_put(object, "floor_ms", report_wide(meta->floor_ms));
        fields_put(object, "wait_ms", fields_from_number(wait_ms));
        output_json(object);
        return;
    }
    snprintf(first_last, sizeof first_last, "%u-%u", meta->first_machine_id, meta->last_machine_id);
    time_format(meta->epoch_ms, epoch);
    time_format(meta->floor_ms, floor);
    fields_put(object, "cluster", json_string(session->cluster_name));
    fields_put(object, "state",
               json_string(created ? "initialised" : "was initialised already: nothing done"));
    fields_put(object, "era", json_string(meta->era));
    fields_put(object, "machine IDs", json_string(first_last));
    fields_put(object, "epoch", json_string(epoch));
    fields_put(object, "floor", json_string(floor));
    output_facts(object);
    json_decref(object);
    if (wait_ms > 0)
        printf("the first IDs can be issued in %" PRIu64 " s, when the floor has passed\n",
               (wait_ms + 999) / 1000);
}

static int run(const struct ctl_values *values, char *const *operands, struct error *err) {
    struct ctl_session session;
    struct clock clock = clock_system();
    struct meta meta;
    bool created = false;
    enum status status;

    (void)operands;
    if (make_meta(values, clock_now(&clock).wall_ms, &meta, err) != STATUS_OK ||
        ctl_open(&session, values, err) != STATUS_OK)
        return CTL_USAGE;
    status = initialise(&session, values, &meta, &created, err);
    if (status == STATUS_OK && !session.cluster->has_meta)
        status = error_set(err, STATUS_REFUSED, "initialised already, but not readable: %.150s",
                           session.cluster->meta_error.message);
    if (status == STATUS_OK && !created && values->is_new)
        status = error_set(err, STATUS_EXISTS, "cluster %s is initialised already (era %s)",
                           session.cluster_name, session.cluster->meta.era);
    if (status == STATUS_OK)
        show(&session, values, created);
    ctl_close(&session);
    return status == STATUS_OK ? CTL_DONE : CTL_FAILED;
}

const struct ctl_command ctl_init = {
    .name = "init",
    .operands = "",
    .summary = "Makes a new cluster's keys in etcd.",
    .options = options,
    .run = run,
};
