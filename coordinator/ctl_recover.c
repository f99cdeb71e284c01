/* snowfleetctl recover: the way back after etcd lost some of its history, or all of it.
 *
 * The order counts.  Meta is frozen first, so that nothing is claimed or extended any more; then what
 * etcd still has and what workers and state files know is put together; then each slot's horizon is
 * raised to what is known of its machine ID, each sequence above what can have been granted; and last meta is opened in a new era with a floor above
 * whatever nobody could tell.  Each write compares the frozen meta, of which no two are equal: when
 * two recover at a time, the one that froze later wins, and the other one ends.
 *
 * A horizon is raised under a claim drawn here, n 1.  No chain that still lives somewhere holds a value
 * with that claim, known or pending, so none can take what stands there now for its own; and n above 0
 * says that the slot was used, should meta be lost once more. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/decimal.h"
#include "common/fields.h"
#include "common/quote.h"
#include "common/random.h"
#include "common/snowflake.h"
#include "coordinator/ctl.h"
#include "coordinator/ctl_fence.h"
#include "coordinator/ctl_meta.h"
#include "coordinator/ctl_output.h"
#include "coordinator/ctl_session.h"
#include "coordinator/ctl_witness.h"
#include "coordinator/recover.h"
#include "coordinator/report.h"

#define CEILING_LEAD_MS (UINT64_C(24) * 3600000) /* until a coordinator raises it */
#define KEYS_AT_A_TIME 100u                      /* etcd takes 128 compares */
#define ATTEMPTS 20u                             /* while etcd does not answer */

static const struct option options[] = {
    {.name = "dry-run",
     .type = OPTION_BOOL,
     .offset = offsetof(struct ctl_values, dry_run),
     .help = "Shows what would be done and for how long claims would wait, and writes nothing."},
    {.name = "yes",
     .type = OPTION_BOOL,
     .offset = offsetof(struct ctl_values, yes),
     .help = "Does it.  One of --dry-run and --yes must be given."},
    {.name = "force",
     .type = OPTION_BOOL,
     .offset = offsetof(struct ctl_values, force),
     .help =
         "Goes on although workers that etcd names have not been heard.  An ID of theirs can come "
         "twice only if their clocks were ahead by more than the allowed offset."},
    {.name = "floor",
     .type = OPTION_TIME,
     .offset = offsetof(struct ctl_values, floor_ms),
     .given_offset = offsetof(struct ctl_values, floor_given),
     .argument = "TIME",
     .max = RECORD_WALL_MAX_MS,
     .help = "Evidence of one's own: no ID carries a later time.  It stands for the workers that "
             "have not been heard."},
    {.name = "state-file",
     .type = OPTION_STRING,
     .offset = offsetof(struct ctl_values, state_files),
     .argument = "FILE,...",
     .help =
         "State files of workers, or copies of them, separated by commas: what they tell counts "
         "like what workers tell."},
    {.name = "epoch",
     .type = OPTION_TIME,
     .offset = offsetof(struct ctl_values, epoch_ms),
     .given_offset = offsetof(struct ctl_values, epoch_given),
     .argument = "TIME",
     .max = RECORD_WALL_MAX_MS,
     .help = "What timestamp 0 stood for.  Only where meta is gone and nobody else knows."},
    {.name = "machine-id-range",
     .type = OPTION_RANGE,
     .offset = offsetof(struct ctl_values, machine_ids),
     .given_offset = offsetof(struct ctl_values, machine_ids_given),
     .argument = "A-B",
     .max = SNOWFLAKE_MACHINE_ID_MAX,
     .help = "The machine IDs of this cluster, where nobody knows or two contradict each other."},
    {.name = "reserved",
     .type = OPTION_STRING,
     .offset = offsetof(struct ctl_values, reserved),
     .argument = "LIST",
     .help = "Machine IDs never to be given out, as in 0,7,100-199, or none; likewise."},
    {.name = "earlier-era",
     .type = OPTION_STRING,
     .offset = offsetof(struct ctl_values, earlier_eras),
     .argument = "ERA,...",
     .help =
         "Eras that workers may still live in, separated by commas, beside those that are known: "
         "a worker of an era that is not named issues nothing until it is restarted."},
    {.name = "max-window",
     .type = OPTION_DURATION,
     .offset = offsetof(struct ctl_values, max_window_ms),
     .given_offset = offsetof(struct ctl_values, max_window_given),
     .argument = "DURATION",
     .min = 1000,
     .max = RECORD_MAX_WINDOW_MAX_MS,
     .help = "As it was set at init.  Only where meta is gone, together with the next two: nobody "
             "else knows them."},
    {.name = "quiet-time",
     .type = OPTION_DURATION,
     .offset = offsetof(struct ctl_values, quiet_time_ms),
     .given_offset = offsetof(struct ctl_values, quiet_time_given),
     .argument = "DURATION",
     .max = RECORD_QUIET_TIME_MAX_MS,
     .help = "Likewise."},
    {.name = "max-offset",
     .type = OPTION_DURATION,
     .offset = offsetof(struct ctl_values, max_offset_ms),
     .given_offset = offsetof(struct ctl_values, max_offset_given),
     .argument = "DURATION",
     .min = 1,
     .max = RECORD_MAX_OFFSET_MAX_MS,
     .help = "Likewise."},
    {.name = NULL},
};

struct recovery {
    struct ctl_session *session;
    const struct ctl_values *values;
    struct recover_orders orders;
    struct recover_evidence evidence;

    struct ctl_witnesses witnesses;

    struct meta old;  /* all zero: gone */
    struct meta meta; /* the one being made */
    char *frozen;     /* its text while frozen; NULL before */
    char era[HEX128_CHARS + 1], claim[HEX128_CHARS + 1];
    unsigned n_raised, n_created, n_fenced;
};

/* ---- reading ---- */

static void take_all(void *arg, const struct etcd_txn_result *result) {
    struct ctl_session *session = arg;

    cluster_read(session->cluster, &result->results[0], clock_now(&session->clock).boot_ms);
}

/* Everything, by way of the log: a deletion of what never exists keeps etcd from answering out of a
 * member's own, perhaps stale state. */
static enum status read_logged(struct ctl_session *session, struct error *err) {
    char end[KEY_MAX], absent[KEY_MAX];
    const struct etcd_op ops[] = {
        {.kind = ETCD_RANGE, .key = session->keys.prefix, .range_end = end},
        {.kind = ETCD_DELETE, .key = absent},
    };

    keys_absent(&session->keys, absent);
    etcd_prefix_end(session->keys.prefix, end, sizeof end);
    if (ctl_txn(session, &(struct etcd_txn){.then = ops, .n_then = 2}, take_all, session, err) !=
        STATUS_OK)
        return error_context(err, "etcd");
    if (session->cluster->meta_value && !session->cluster->has_meta) {
        *err = session->cluster->meta_error;
        return error_context(err,
                             "cannot be read and must be repaired, or deleted to go on without");
    }
    return STATUS_OK;
}

/* ---- what is known ---- */

static enum status judge_unheard(const struct recovery *recovery, struct error *err) {
    const struct ctl_values *values = recovery->values;
    size_t n_unheard = recovery->witnesses.n - recovery->witnesses.n_heard;

    if (n_unheard == 0 || values->force || values->floor_given)
        return STATUS_OK;
    return error_set(
        err, STATUS_REFUSED,
        "%zu of %zu workers that etcd names have not been heard: bring them back, give "
        "their state files, or say --force or --floor",
        n_unheard, recovery->witnesses.n);
}

/* Reads etcd and asks everyone.  What was learnt before is kept. */
static enum status survey(struct recovery *recovery, struct error *err) {
    if (read_logged(recovery->session, err) != STATUS_OK ||
        ctl_witnesses_hear(&recovery->witnesses, recovery->values->state_files, err) != STATUS_OK)
        return err->status;
    return recover_complete(&recovery->evidence, err);
}

/* ---- writing ---- */

static void take_outcome(void *arg, const struct etcd_txn_result *result) {
    *(bool *)arg = result->succeeded;
}

/* Writes meta where it is still before (NULL: absent).  Whether it was written is read back whenever
 * that is not certain. */
static enum status write_meta(struct ctl_session *session, const char *before, const char *text,
                              struct error *err) {
    const char *key = session->keys.meta;
    const struct etcd_compare compare = {
        .kind = before ? ETCD_VALUE_EQUAL : ETCD_ABSENT, .key = key, .value = before};
    const struct etcd_op put = {.kind = ETCD_PUT, .key = key, .value = text};
    const struct etcd_op read = {.kind = ETCD_RANGE, .key = key};

    for (unsigned i = 0; i < ATTEMPTS; i++) {
        const char *stands;
        bool written = false;
        enum status status = ctl_txn(session,
                                     &(struct etcd_txn){.compares = &compare,
                                                        .n_compares = 1,
                                                        .then = &put,
                                                        .n_then = 1,
                                                        .otherwise = &read,
                                                        .n_otherwise = 1},
                                     take_outcome, &written, err);

        if (status != STATUS_OK && status != STATUS_UNKNOWN)
            return error_context(err, "meta");
        if (read_logged(session, err) != STATUS_OK)
            return err->status;
        stands = session->cluster->meta_value;
        if (stands && strcmp(stands, text) == 0)
            return STATUS_OK;
        if (written || !stands != !before || (before && strcmp(stands, before) != 0))
            return error_set(err, STATUS_REFUSED,
                             "somebody else changed meta meanwhile (another recover, perhaps)");
    }
    return error_set(err, STATUS_UNAVAILABLE, "meta: etcd does not answer");
}

static enum status write_frozen(struct recovery *recovery, struct error *err) {
    struct ctl_session *session = recovery->session;
    char nonce[HEX128_CHARS + 1], reason[RECORD_REASON_MAX];
    char *before = session->cluster->meta_value
                       ? allocate_copy(session->cluster->meta_value,
                                       strlen(session->cluster->meta_value))
                       : NULL;
    enum status status;

    random_hex128(nonce);
    snprintf(reason, sizeof reason, RECORD_ROLLBACK_REASON " recover %.8s is at work", nonce);
    recovery->meta = recovery->old;
    status = recover_freeze(&recovery->evidence, reason, &recovery->meta, err);
    if (status == STATUS_OK) {
        recovery->frozen = meta_format(&recovery->meta, before);
        status = write_meta(session, before, recovery->frozen, err);
    }
    free(before);
    return status;
}

/* Raises some of what is too low or absent; *n is how many, 0 when all are as they should be. */
static enum status raise_some(struct recovery *recovery, size_t *n, struct error *err) {
    struct ctl_session *session = recovery->session;
    const struct keys *keys = &session->keys;
    char names[KEYS_AT_A_TIME][KEY_MAX];
    char before[KEYS_AT_A_TIME][HORIZON_TEXT_MAX], after[KEYS_AT_A_TIME][HORIZON_TEXT_MAX];
    struct etcd_compare compares[KEYS_AT_A_TIME + 1];
    struct etcd_op puts[KEYS_AT_A_TIME];
    const struct etcd_op read = {.kind = ETCD_RANGE, .key = keys->meta};
    unsigned raised = 0, created = 0;
    bool written = false;
    enum status status;

    *n = 0;
    for (unsigned id = 0; id < MACHINE_IDS && *n < KEYS_AT_A_TIME; id++) {
        const struct slot *slot = &session->cluster->registry.slots[id];
        struct horizon horizon = {.horizon_ms = recover_horizon(&recovery->evidence, (uint16_t)id),
                                  .n = 1};

        if (horizon.horizon_ms == 0 ||
            (slot->has_horizon && slot->horizon.horizon_ms >= horizon.horizon_ms))
            continue;
        memcpy(horizon.claim, recovery->claim, sizeof horizon.claim);
        keys_hor(keys, (uint16_t)id, names[*n]);
        horizon_format(&horizon, after[*n]);
        if (slot->has_horizon)
            horizon_format(&slot->horizon, before[*n]);
        compares[*n] = (struct etcd_compare){.kind = slot->has_horizon ? ETCD_VALUE_EQUAL
                                                                       : ETCD_ABSENT,
                                             .key = names[*n],
                                             .value = slot->has_horizon ? before[*n] : NULL};
        puts[*n] = (struct etcd_op){.kind = ETCD_PUT, .key = names[*n], .value = after[*n]};
        raised += slot->has_horizon;
        created += !slot->has_horizon;
        ++*n;
    }
    if (*n == 0)
        return STATUS_OK;
    compares[*n] = (struct etcd_compare){
        .kind = ETCD_VALUE_EQUAL, .key = keys->meta, .value = recovery->frozen};
    status = ctl_txn(session,
                     &(struct etcd_txn){.compares = compares,
                                        .n_compares = *n + 1,
                                        .then = puts,
                                        .n_then = *n,
                                        .otherwise = &read,
                                        .n_otherwise = 1},
                     take_outcome, &written, err);
    recovery->n_raised += written ? raised : 0;
    recovery->n_created += written ? created : 0;
    return status == STATUS_OK || status == STATUS_UNKNOWN ? STATUS_OK
                                                           : error_context(err, "hor keys");
}

static enum status check_frozen(const struct recovery *recovery, struct error *err) {
    const char *stands = recovery->session->cluster->meta_value;

    if (stands && strcmp(stands, recovery->frozen) == 0)
        return STATUS_OK;
    return error_set(err, STATUS_REFUSED,
                     "somebody else changed meta meanwhile (another recover, perhaps)");
}

static enum status raise_horizons(struct recovery *recovery, struct error *err) {
    size_t n = 1;

    for (unsigned i = 0; i < MACHINE_IDS / KEYS_AT_A_TIME + ATTEMPTS && n > 0; i++) {
        if (read_logged(recovery->session, err) != STATUS_OK ||
            check_frozen(recovery, err) != STATUS_OK || raise_some(recovery, &n, err) != STATUS_OK)
            return err->status;
    }
    if (n == 0)
        return STATUS_OK;
    return error_set(err, STATUS_UNAVAILABLE,
                     "horizons cannot be written: a hor key is damaged, or others write too");
}

/* The ceiling is above the floor, or nobody could claim. */
static enum status raise_ceiling(struct recovery *recovery, struct error *err) {
    struct ctl_session *session = recovery->session;
    const struct cluster *cluster = session->cluster;
    uint64_t ceiling_ms = recovery->meta.floor_ms + CEILING_LEAD_MS;
    char text[CEILING_TEXT_MAX];
    const struct etcd_compare compares[] = {
        {.kind = ETCD_VALUE_EQUAL, .key = session->keys.meta, .value = recovery->frozen},
        {.kind = cluster->ceil_value ? ETCD_VALUE_EQUAL : ETCD_ABSENT,
         .key = session->keys.ceil,
         .value = cluster->ceil_value},
    };
    const struct etcd_op put = {.kind = ETCD_PUT, .key = session->keys.ceil, .value = text};
    const struct etcd_op read = {.kind = ETCD_RANGE, .key = session->keys.ceil};
    bool written = false;

    if (cluster->has_ceil && cluster->ceil_ms >= ceiling_ms)
        return STATUS_OK;
    ceiling_format(ceiling_ms, text);
    if (ctl_txn(session,
                &(struct etcd_txn){.compares = compares,
                                   .n_compares = 2,
                                   .then = &put,
                                   .n_then = 1,
                                   .otherwise = &read,
                                   .n_otherwise = 1},
                take_outcome, &written, err) != STATUS_OK)
        return error_context(err, "ceil");
    if (!written)
        return error_set(err, STATUS_UNAVAILABLE, "ceil: somebody else changed it, or meta");
    return STATUS_OK;
}

/* The floor counts from here: no window was granted since meta was frozen. */
static enum status make_open(struct recovery *recovery, struct error *err) {
    const struct ctl_values *values = recovery->values;

    return recover_open(&recovery->evidence, recovery->era,
                        clock_now(&recovery->session->clock).wall_ms,
                        values->floor_given ? values->floor_ms : 0, &recovery->meta, err);
}

static enum status open_meta(struct recovery *recovery, struct error *err) {
    enum status status;
    char *text;

    recovery->meta.serial++;
    text = meta_format(&recovery->meta, recovery->frozen);
    status = write_meta(recovery->session, recovery->frozen, text, err);
    free(text);
    return status;
}

/* ---- all of it ---- */

static enum status carry_out(struct recovery *recovery, struct error *err) {
    if (write_frozen(recovery, err) != STATUS_OK || survey(recovery, err) != STATUS_OK ||
        judge_unheard(recovery, err) != STATUS_OK ||
        ctl_fence_sequences(recovery->session, &recovery->evidence, recovery->frozen,
                            &recovery->n_fenced, err) != STATUS_OK ||
        raise_horizons(recovery, err) != STATUS_OK || make_open(recovery, err) != STATUS_OK ||
        raise_ceiling(recovery, err) != STATUS_OK || open_meta(recovery, err) != STATUS_OK)
        return err->status;
    return STATUS_OK;
}

/* What raise_horizons() would do. */
static void count_horizons(struct recovery *recovery) {
    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        const struct slot *slot = &recovery->session->cluster->registry.slots[id];
        uint64_t until_ms = recover_horizon(&recovery->evidence, (uint16_t)id);

        if (until_ms > 0 && !slot->has_horizon)
            recovery->n_created++;
        else if (until_ms > 0 && slot->horizon.horizon_ms < until_ms)
            recovery->n_raised++;
    }
}

static enum status try_out(struct recovery *recovery, struct error *err) {
    recovery->meta = recovery->old;
    if (recover_freeze(&recovery->evidence, RECORD_ROLLBACK_REASON, &recovery->meta, err) !=
            STATUS_OK ||
        make_open(recovery, err) != STATUS_OK)
        return err->status;
    count_horizons(recovery);
    return ctl_fence_sequences(recovery->session, &recovery->evidence, NULL, &recovery->n_fenced,
                               err);
}

/* What refuses is found out before anything is written. */
static enum status work(struct recovery *recovery, struct error *err) {
    const struct cluster *cluster = recovery->session->cluster;

    if (read_logged(recovery->session, err) != STATUS_OK)
        return err->status;
    if (cluster->has_meta)
        recovery->old = cluster->meta;
    if (recover_begin(&recovery->evidence, &recovery->orders,
                      cluster->has_meta ? &cluster->meta : NULL, err) != STATUS_OK ||
        survey(recovery, err) != STATUS_OK)
        return err->status;
    ctl_witnesses_note(&recovery->witnesses);
    if (judge_unheard(recovery, err) != STATUS_OK)
        return err->status;
    return recovery->values->dry_run ? try_out(recovery, err) : carry_out(recovery, err);
}

static void show(const struct recovery *recovery) {
    const struct ctl_values *values = recovery->values;
    const struct meta *meta = &recovery->meta;
    uint64_t now_ms = clock_now(&recovery->session->clock).wall_ms;
    uint64_t wait_ms = meta->floor_ms > now_ms ? meta->floor_ms - now_ms : 0;
    bool json = values->output == CTL_JSON, found = recovery->old.era[0] != '\0';
    json_t *object = json_object();
    char floor[32], old_floor[32] = "";

    time_format(meta->floor_ms, floor);
    if (found)
        time_format(recovery->old.floor_ms, old_floor);
    fields_put(object, "cluster", json_string(recovery->session->cluster_name));
    fields_put(object, "dry_run", json_boolean(values->dry_run));
    fields_put(object, "old_era", report_text(recovery->old.era));
    fields_put(object, "new_era", json_string(meta->era));
    fields_put(object, "old_floor_ms",
               !found ? json_null()
               : json ? report_wide(recovery->old.floor_ms)
                      : json_string(old_floor));
    fields_put(object, "floor_ms", json ? report_wide(meta->floor_ms) : json_string(floor));
    fields_put(object, "wait_ms", fields_from_number(wait_ms));
    fields_put(object, "raised", fields_from_number(recovery->n_raised));
    fields_put(object, "created", fields_from_number(recovery->n_created));
    fields_put(object, "sequences", fields_from_number(recovery->n_fenced));
    fields_put(object, "heard", fields_from_number(recovery->witnesses.n_heard));
    fields_put(object, "unheard", ctl_witnesses_unheard(&recovery->witnesses));
    if (json) {
        output_json(object);
        return;
    }
    output_facts(object);
    json_decref(object);
    if (values->dry_run)
        printf("nothing was written; with --yes, under another era, claims wait %" PRIu64
               " s from then\n",
               (wait_ms + 999) / 1000);
    else
        printf("recovered: the first IDs can be issued in %" PRIu64
               " s, when the floor has passed\n",
               (wait_ms + 999) / 1000);
}

/* ---- the command line ---- */

static enum status read_eras(const char *list, struct meta *meta, struct error *err) {
    const char *at = list;
    char quoted[QUOTE_SIZE];

    while (at) {
        size_t len = strcspn(at, ",");
        char *era;

        if (meta->n_earlier_eras == RECORD_EARLIER_ERAS_MAX)
            return error_set(err, STATUS_INVALID, "--earlier-era: at most %u",
                             RECORD_EARLIER_ERAS_MAX);
        era = meta->earlier_eras[meta->n_earlier_eras++];
        snprintf(era, HEX128_CHARS + 1, "%.*s", (int)(len > HEX128_CHARS ? 0 : len), at);
        if (!hex128_valid(era))
            return error_set(err, STATUS_INVALID,
                             "--earlier-era: must be 32 lower-case hex digits each, got %s",
                             quote(at, len, quoted));
        at = at[len] ? at + len + 1 : NULL;
    }
    return STATUS_OK;
}

static enum status read_orders(const struct ctl_values *values, struct recover_orders *orders,
                               struct error *err) {
    unsigned n_limits = 0u + values->max_window_given + values->quiet_time_given +
                        values->max_offset_given;
    struct meta *meta = &orders->meta;

    if (values->dry_run == values->yes)
        return error_set(err, STATUS_INVALID,
                         "say which: --dry-run shows what would be done, --yes does it");
    if (n_limits != 0 && n_limits != 3)
        return error_set(err, STATUS_INVALID,
                         "--max-window, --quiet-time and --max-offset go together");
    orders->has_epoch = values->epoch_given;
    orders->has_range = values->machine_ids_given;
    orders->has_reserved = values->reserved != NULL;
    orders->has_limits = n_limits == 3;
    meta->epoch_ms = values->epoch_ms;
    meta->max_window_ms = values->max_window_ms;
    meta->quiet_time_ms = values->quiet_time_ms;
    meta->max_offset_ms = values->max_offset_ms;
    meta->last_machine_id = SNOWFLAKE_MACHINE_ID_MAX;
    if (orders->has_range) {
        meta->first_machine_id = (uint16_t)values->machine_ids.first;
        meta->last_machine_id = (uint16_t)values->machine_ids.last;
    }
    if (orders->has_reserved && strcmp(values->reserved, "none") != 0 &&
        ctl_meta_reserve(meta, values->reserved, err) != STATUS_OK)
        return err->status;
    return read_eras(values->earlier_eras, meta, err);
}

static int run(const struct ctl_values *values, char *const *operands, struct error *err) {
    struct ctl_session session;
    struct recovery recovery = {.session = &session, .values = values};
    enum status status;

    (void)operands;
    if (read_orders(values, &recovery.orders, err) != STATUS_OK ||
        ctl_open(&session, values, err) != STATUS_OK)
        return CTL_USAGE;
    recovery.witnesses.session = &session;
    recovery.witnesses.evidence = &recovery.evidence;
    random_hex128(recovery.era);
    random_hex128(recovery.claim);
    status = work(&recovery, err);
    if (status == STATUS_OK)
        show(&recovery);
    else if (recovery.frozen)
        ctl_note("unless another recover has won, the cluster stays frozen: run recover again");
    free(recovery.frozen);
    ctl_witnesses_free(&recovery.witnesses);
    ctl_close(&session);
    return status == STATUS_OK ? CTL_DONE : CTL_FAILED;
}

const struct ctl_command ctl_recover = {
    .name = "recover",
    .operands = "",
    .summary = "Starts a new era after etcd was restored from a backup, or lost.",
    .options = options,
    .run = run,
};
