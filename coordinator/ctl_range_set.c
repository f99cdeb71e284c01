/* snowfleetctl range-set: which machine IDs this cluster gives out. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/decimal.h"
#include "common/fields.h"
#include "coordinator/ctl.h"
#include "coordinator/ctl_meta.h"
#include "coordinator/ctl_output.h"
#include "coordinator/ctl_session.h"
#include "coordinator/report.h"

#define KEYS_AT_A_TIME 100u /* etcd takes 128 compares */
#define RUNS_MAX 120u       /* of machine IDs taken out at once: one compare for each */

static const struct option options[] = {
    {.name = "reserved",
     .type = OPTION_STRING,
     .offset = offsetof(struct ctl_values, reserved),
     .argument = "LIST",
     .help =
         "Machine IDs never to be given out, as in 0,7,100-199, or none.  Without it those that "
         "are reserved stay so."},
    {.name = NULL},
};

struct range_set {
    const struct ctl_values *values;
    uint16_t first, last;
    struct ctl_meta_change change;
    struct etcd_compare guards[RUNS_MAX];
    char guard_keys[RUNS_MAX][2][KEY_MAX];
    unsigned n_added, n_taken_out, n_created;
    bool out[MACHINE_IDS]; /* those taken out ... */
    uint64_t until_ms;     /* ... and the highest of their horizons; 0: none */
};

static enum status apply(const struct range_set *set, struct meta *meta, struct error *err) {
    const char *list = set->values->reserved;

    meta->first_machine_id = set->first;
    meta->last_machine_id = set->last;
    if (list) {
        memset(meta->reserved, 0, sizeof meta->reserved);
        if (strcmp(list, "none") != 0)
            return ctl_meta_reserve(meta, list, err);
        return STATUS_OK;
    }
    for (unsigned id = set->first; id <= set->last; id++) {
        if (!meta->reserved[id])
            return STATUS_OK;
    }
    return error_set(err, STATUS_REFUSED, "all of %u-%u is reserved: --reserved says otherwise",
                     set->first, set->last);
}

/* ---- taking out ---- */

static bool taken_out(const struct meta *before, const struct meta *after, unsigned id) {
    return meta_usable(before, (uint16_t)id) && !meta_usable(after, (uint16_t)id);
}

static enum status refuse_held(const struct cluster *cluster, const struct meta *after,
                               struct error *err) {
    char ids[64] = "";
    size_t n = 0, len = 0;

    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        if (!taken_out(&cluster->meta, after, id) || !cluster->registry.slots[id].held)
            continue;
        if (len < sizeof ids - 8)
            len += (size_t)snprintf(ids + len, sizeof ids - len, "%s%u", n > 0 ? ", " : "", id);
        n++;
    }
    if (n == 0)
        return STATUS_OK;
    return error_set(err, STATUS_REFUSED,
                     "%zu machine ID%s still held would be taken out (%s): release the workers, or "
                     "reclaim, first",
                     n, n == 1 ? "" : "s", ids);
}

/* That none of those taken out is claimed until meta is written; after that no claim of theirs can
 * pass, since each compares meta. */
static enum status guard(struct range_set *set, const struct ctl_session *session,
                         const struct meta *after, struct error *err) {
    const struct meta *before = &session->cluster->meta;
    const struct keys *keys = &session->keys;
    unsigned id = 0, end;
    size_t n = 0;

    while (id < MACHINE_IDS) {
        for (end = id; end < MACHINE_IDS && taken_out(before, after, end); end++)
            ;
        if (end > id) {
            if (n == RUNS_MAX)
                return error_set(err, STATUS_REFUSED,
                                 "takes out more than %u separate runs of machine IDs: do it in "
                                 "several steps",
                                 RUNS_MAX);
            keys_own(keys, (uint16_t)id, set->guard_keys[n][0]);
            if (end < MACHINE_IDS)
                keys_own(keys, (uint16_t)end, set->guard_keys[n][1]);
            else
                snprintf(set->guard_keys[n][1], KEY_MAX, "%s", keys->own_end);
            set->guards[n] = (struct etcd_compare){.kind = ETCD_ABSENT,
                                                   .key = set->guard_keys[n][0],
                                                   .range_end = set->guard_keys[n][1]};
            n++;
        }
        id = end + 1;
    }
    set->change.guards = set->guards;
    set->change.n_guards = n;
    return STATUS_OK;
}

static void count(struct range_set *set, const struct cluster *cluster, const struct meta *after) {
    set->n_added = set->n_taken_out = 0;
    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        set->out[id] = taken_out(&cluster->meta, after, id);
        set->n_added += taken_out(after, &cluster->meta, id);
        set->n_taken_out += set->out[id];
    }
}

/* Read when meta is written: no horizon of theirs rises any more. */
static void find_until(struct range_set *set, const struct cluster *cluster) {
    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        const struct slot *slot = &cluster->registry.slots[id];

        if (set->out[id] && slot->has_horizon && slot->horizon.horizon_ms > set->until_ms)
            set->until_ms = slot->horizon.horizon_ms;
    }
}

/* ---- creating ---- */

static void take_outcome(void *arg, const struct etcd_txn_result *result) {
    *(bool *)arg = result->succeeded;
}

/* Creates up to KEYS_AT_A_TIME hor keys that are absent, from *id on, while meta is as read. */
static enum status create_some(struct range_set *set, struct ctl_session *session,
                               const struct meta *after, unsigned *id, struct error *err) {
    const struct cluster *cluster = session->cluster;
    struct horizon untouched = {.horizon_ms = after->epoch_ms > after->floor_ms ? after->epoch_ms
                                                                                : after->floor_ms};
    char names[KEYS_AT_A_TIME][KEY_MAX], text[HORIZON_TEXT_MAX];
    struct etcd_compare compares[KEYS_AT_A_TIME + 1];
    struct etcd_op puts[KEYS_AT_A_TIME];
    const struct etcd_op read = {.kind = ETCD_RANGE, .key = session->keys.meta};
    bool created = false;
    enum status status;
    size_t n = 0;

    memset(untouched.claim, '0', HEX128_CHARS);
    horizon_format(&untouched, text);
    for (; *id <= after->last_machine_id && n < KEYS_AT_A_TIME; ++*id) {
        if (cluster->registry.slots[*id].has_horizon || after->reserved[*id])
            continue;
        keys_hor(&session->keys, (uint16_t)*id, names[n]);
        compares[n] = (struct etcd_compare){.kind = ETCD_ABSENT, .key = names[n]};
        puts[n] = (struct etcd_op){.kind = ETCD_PUT, .key = names[n], .value = text};
        n++;
    }
    if (n == 0)
        return STATUS_OK;
    compares[n] = (struct etcd_compare){
        .kind = ETCD_VALUE_EQUAL, .key = session->keys.meta, .value = cluster->meta_value};
    status = ctl_txn(session,
                     &(struct etcd_txn){.compares = compares,
                                        .n_compares = n + 1,
                                        .then = puts,
                                        .n_then = n,
                                        .otherwise = &read,
                                        .n_otherwise = 1},
                     take_outcome, &created, err);
    if (status != STATUS_OK)
        return error_context(err, "hor keys");
    if (!created)
        return error_set(err, STATUS_UNKNOWN, "hor keys: somebody came between");
    set->n_created += (unsigned)n;
    return STATUS_OK;
}

/* ---- all of it ---- */

static enum status edit(void *arg, struct ctl_session *session, struct meta *meta,
                        struct error *err) {
    struct range_set *set = arg;
    const struct cluster *cluster = session->cluster;
    unsigned id = set->first;

    if (ctl_meta_rolled_back(meta))
        return error_set(err, STATUS_REFUSED,
                         "frozen because etcd's history went back: snowfleetctl recover comes "
                         "first");
    if (apply(set, meta, err) != STATUS_OK)
        return err->status;
    count(set, cluster, meta);
    if (set->first == cluster->meta.first_machine_id &&
        set->last == cluster->meta.last_machine_id &&
        memcmp(meta->reserved, cluster->meta.reserved, sizeof meta->reserved) == 0)
        return error_set(err, STATUS_EXISTS, "as it is");
    if (refuse_held(cluster, meta, err) != STATUS_OK || guard(set, session, meta, err) != STATUS_OK)
        return err->status;
    while (id <= set->last) {
        if (create_some(set, session, meta, &id, err) != STATUS_OK)
            return err->status;
    }
    return STATUS_OK;
}

static void show(const struct ctl_session *session, const struct ctl_values *values,
                 const struct range_set *set, bool written) {
    const struct meta *meta = &session->cluster->meta;
    json_t *record = meta_json(meta), *object = json_object();
    char until[32] = "";

    if (set->until_ms > 0)
        time_format(set->until_ms, until);
    fields_put(object, "cluster", json_string(session->cluster_name));
    fields_put(object, "changed", json_boolean(written));
    fields_put(object, "machine_id_range",
               json_incref(json_object_get(record, "machine_id_range")));
    fields_put(object, "reserved", json_incref(json_object_get(record, "reserved")));
    fields_put(object, "added", fields_from_number(set->n_added));
    fields_put(object, "taken_out", fields_from_number(set->n_taken_out));
    fields_put(object, "created", fields_from_number(set->n_created));
    if (values->output == CTL_JSON) {
        fields_put(object, "taken_out_until_ms",
                   set->until_ms > 0 ? report_wide(set->until_ms) : json_null());
        output_json(object);
    } else {
        output_facts(object);
        json_decref(object);
        if (set->until_ms > clock_now(&session->clock).wall_ms)
            printf("IDs of machine IDs taken out may still be issued until %s: use them nowhere "
                   "else before\n",
                   until);
    }
    json_decref(record);
}

static int run(const struct ctl_values *values, char *const *operands, struct error *err) {
    struct range_set set = {.values = values};
    struct ctl_session session;
    struct meta probe = {.format = RECORD_FORMAT};
    enum status status;
    bool written;

    if (machine_id_range_parse(operands[0], strlen(operands[0]), &set.first, &set.last, err) !=
        STATUS_OK) {
        error_context(err, "A-B");
        return CTL_USAGE;
    }
    if (values->reserved && apply(&set, &probe, err) != STATUS_OK)
        return CTL_USAGE;
    if (ctl_open(&session, values, err) != STATUS_OK)
        return CTL_USAGE;
    set.change.edit = edit;
    set.change.arg = &set;
    status = ctl_meta_change(&session, &set.change, &written, err);
    if (status == STATUS_OK && set.n_taken_out > 0) {
        status = ctl_read_initialised(&session, err);
        find_until(&set, session.cluster);
    }
    if (status == STATUS_OK)
        show(&session, values, &set, written);
    ctl_close(&session);
    return status == STATUS_OK ? CTL_DONE : CTL_FAILED;
}

const struct ctl_command ctl_range_set = {
    .name = "range-set",
    .operands = "A-B",
    .n_operands = 1,
    .summary = "Sets which machine IDs are given out; one that is held is not taken out.",
    .options = options,
    .run = run,
};
