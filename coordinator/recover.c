#include "coordinator/recover.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fields.h"
#include "common/mutant.h"

static uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* ---- what a worker says ---- */

static enum status check_claim(const char *text, struct error *err) {
    if (text[0] == '\0' || hex128_valid(text))
        return STATUS_OK;
    return error_set(err, STATUS_PROTOCOL, "must be 32 lower-case hex digits");
}

static enum status check_instance(const char *text, struct error *err) {
    if (hex128_valid(text))
        return STATUS_OK;
    return error_set(err, STATUS_PROTOCOL, "must be 32 lower-case hex digits");
}

static enum status check_cluster(const char *text, struct error *err) {
    return fields_check_label(text, KEYS_CLUSTER_MAX + 1, err);
}

static void read_machine(struct fields *fields, uint64_t ahead_ms, struct recover_source *source) {
    struct recover_slot slot = {.claim = ""};
    uint64_t machine_id = 0, horizon_ms = 0, limit_ms = 0, last_ms = 0, pending = 0;
    bool says_how_far = fields_has(fields, "pending_horizon_ms");

    if (json_is_null(json_object_get(fields->object, "machine_id")))
        return; /* it looks for one */
    fields_number(fields, "machine_id", 0, MACHINE_IDS - 1, &machine_id);
    fields_text(fields, "claim", check_claim, slot.claim);
    fields_wide(fields, "horizon_ms", RECORD_WALL_MAX_MS, &horizon_ms);
    fields_wide(fields, "limit_ms", RECORD_WALL_MAX_MS, &limit_ms);
    fields_wide(fields, "last_issued_ms", RECORD_WALL_MAX_MS, &last_ms);
    fields_number(fields, "pending", 0, INT64_MAX, &pending);
    slot.machine_id = (uint16_t)machine_id;
    slot.until_ms = max_u64(max_u64(horizon_ms, limit_ms), last_ms);
    if (says_how_far)
        fields_wide(fields, "pending_horizon_ms", RECORD_WALL_MAX_MS, &ahead_ms);
    if (pending > 0 || says_how_far)
        slot.until_ms = max_u64(slot.until_ms, ahead_ms);
    source->slots[source->n_slots++] = slot;
}

static enum status check_name(const char *text, struct error *err) {
    return sequence_name_check(text, strlen(text), err);
}

/* Workers of before sequences show none, and one that has not read the record no top. */
static void read_sequences(struct fields *fields, struct recover_source *source) {
    const json_t *list;

    if (!fields_has(fields, "sequences"))
        return;
    list = fields_list(fields, "sequences", SEQUENCES_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct recover_sequence *sequence = &source->sequences[source->n_sequences++];
        char element[FIELDS_NAME_MAX];
        struct fields inner = fields_enter(fields, fields_element("sequences", i, element),
                                           json_array_get(list, i));

        fields_text(&inner, "name", check_name, sequence->name);
        if (fields_has(&inner, "top"))
            fields_wide(&inner, "top", SEQUENCE_NEXT_MAX, &sequence->top);
        fields_leave(fields, &inner);
    }
}

/* Its part of meta is spelt as in etcd, so it is read as that is; what a worker does not show is
 * filled with what cannot be wrong. */
static void read_meta(struct fields *fields, struct recover_source *source) {
    static const char *const names[] = {"era", "earlier_eras", "epoch_ms", "machine_id_range",
                                        "reserved"};
    json_t *record = json_object();
    struct error err;
    char *text;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (fields_has(fields, names[i])) /* else it is missed as it is in etcd */
            fields_put(record, names[i], json_incref(json_object_get(fields->object, names[i])));
    }
    fields_put(record, "format", fields_from_number(RECORD_FORMAT));
    fields_put(record, "serial", fields_from_wide(1));
    if (fields_has(fields, "epoch_ms"))
        fields_put(record, "floor_ms", json_incref(json_object_get(fields->object, "epoch_ms")));
    fields_put(record, "max_window_ms", fields_from_number(1));
    fields_put(record, "quiet_time_ms", fields_from_number(0));
    fields_put(record, "max_offset_ms", fields_from_number(1));
    fields_put(record, "mode", json_string("FROZEN"));
    fields_put(record, "if_needed", json_false());
    text = fields_spell(record, NULL);
    source->knows_meta = meta_parse(text, strlen(text), &source->meta, &err) == STATUS_OK;
    if (!source->knows_meta)
        fields_fail(fields, err.status, "era", err.message);
    free(text);
}

enum status recover_from_status(const char *text, size_t len, const char *name,
                                struct recover_source *source, struct error *err) {
    struct fields fields, clock;
    uint64_t wall_ms = 0, window_ms = 0;
    const json_t *machines;
    json_t *record = fields_open(&fields, "/v1/status", text, len, err);

    *source = (struct recover_source){.knows_meta = false};
    snprintf(source->name, sizeof source->name, "%s", name);
    fields_text(&fields, "instance", check_instance, source->instance);
    fields_text(&fields, "cluster", check_cluster, source->cluster);
    fields_number(&fields, "window_ms", 0, RECORD_MAX_WINDOW_MAX_MS, &window_ms);
    clock = fields_enter(&fields, "clock", json_object_get(record, "clock"));
    fields_wide(&clock, "wall_ms", RECORD_WALL_MAX_MS, &wall_ms);
    fields_leave(&fields, &clock);
    if (fields_has(&fields, "era"))
        read_meta(&fields, source);
    read_sequences(&fields, source);
    machines = fields_list(&fields, "machines", RECORD_MACHINES_MAX);
    for (size_t i = 0; i < json_array_size(machines); i++) {
        char element[FIELDS_NAME_MAX];
        struct fields inner = fields_enter(&fields, fields_element("machines", i, element),
                                           json_array_get(machines, i));

        read_machine(&inner, wall_ms + window_ms, source);
        fields_leave(&fields, &inner);
    }
    json_decref(record);
    return fields.status;
}

/* ---- what a file says ---- */

enum status recover_from_record(const struct state_record *record, const char *name,
                                struct recover_source *source, struct error *err) {
    struct meta *meta = &source->meta;

    if (record->kind != STATE_CLUSTER)
        return error_set(err, STATUS_REFUSED,
                         "%.120s: of a standalone worker, which has no cluster", name);
    *source = (struct recover_source){.knows_meta = true, .n_slots = record->n_machines};
    snprintf(source->name, sizeof source->name, "%s", name);
    memcpy(source->cluster, record->cluster, sizeof source->cluster);
    memcpy(meta->era, record->era, sizeof meta->era);
    memcpy(meta->earlier_eras, record->earlier_eras, sizeof meta->earlier_eras);
    meta->n_earlier_eras = record->n_earlier_eras;
    meta->epoch_ms = record->epoch_ms;
    meta->first_machine_id = record->first_machine_id;
    meta->last_machine_id = record->last_machine_id;
    memcpy(meta->reserved, record->reserved, sizeof meta->reserved);
    for (size_t i = 0; i < record->n_machines; i++) {
        const struct state_machine *machine = &record->machines[i];
        struct recover_slot *slot = &source->slots[i];

        slot->machine_id = machine->machine_id;
        memcpy(slot->claim, machine->claim, sizeof slot->claim);
        slot->until_ms = max_u64(machine->granted_ms, machine->pending_ms);
    }
    return STATUS_OK;
}

/* ---- together ---- */

static bool names_era(const struct recover_evidence *evidence, const char *era) {
    for (size_t i = 0; i < evidence->n_eras; i++) {
        if (strcmp(evidence->eras[i], era) == 0)
            return true;
    }
    return false;
}

static enum status add_era(struct recover_evidence *evidence, const char *era, struct error *err) {
    if (names_era(evidence, era))
        return STATUS_OK;
    if (evidence->n_eras == RECORD_EARLIER_ERAS_MAX)
        return error_set(err, STATUS_REFUSED, "more than %u eras are known",
                         RECORD_EARLIER_ERAS_MAX);
    memcpy(evidence->eras[evidence->n_eras++], era, HEX128_CHARS + 1);
    return STATUS_OK;
}

static enum status add_eras(struct recover_evidence *evidence, const struct meta *meta,
                            struct error *err) {
    char first[HEX128_CHARS + 1];

    /* Whoever counts the first one among the earlier lives in a newer one. */
    if (meta->era[0] && evidence->n_eras > 0 && !names_era(evidence, meta->era) &&
        meta_earlier_era(meta, evidence->eras[0])) {
        memcpy(first, evidence->eras[0], sizeof first);
        memcpy(evidence->eras[0], meta->era, sizeof first);
        if (add_era(evidence, first, err) != STATUS_OK)
            return err->status;
    } else if (meta->era[0] && add_era(evidence, meta->era, err) != STATUS_OK) {
        return err->status;
    }
    for (size_t i = 0; i < meta->n_earlier_eras; i++) {
        if (add_era(evidence, meta->earlier_eras[i], err) != STATUS_OK)
            return err->status;
    }
    return STATUS_OK;
}

static void take_epoch(struct recover_evidence *evidence, const struct meta *meta,
                       const char *from) {
    evidence->has_epoch = true;
    evidence->meta.epoch_ms = meta->epoch_ms;
    snprintf(evidence->epoch_from, sizeof evidence->epoch_from, "%s", from);
}

static void take_range(struct recover_evidence *evidence, const struct meta *meta,
                       const char *from) {
    evidence->has_range = true;
    evidence->meta.first_machine_id = meta->first_machine_id;
    evidence->meta.last_machine_id = meta->last_machine_id;
    snprintf(evidence->range_from, sizeof evidence->range_from, "%s", from);
}

static void take_reserved(struct recover_evidence *evidence, const struct meta *meta,
                          const char *from) {
    evidence->has_reserved = true;
    memcpy(evidence->meta.reserved, meta->reserved, sizeof meta->reserved);
    snprintf(evidence->reserved_from, sizeof evidence->reserved_from, "%s", from);
}

static void take_limits(struct recover_evidence *evidence, const struct meta *meta) {
    evidence->has_limits = true;
    evidence->meta.max_window_ms = meta->max_window_ms;
    evidence->meta.quiet_time_ms = meta->quiet_time_ms;
    evidence->meta.max_offset_ms = meta->max_offset_ms;
}

#define BY_ORDER "the command line"

enum status recover_begin(struct recover_evidence *evidence, const struct recover_orders *orders,
                          const struct meta *found, struct error *err) {
    *evidence = (struct recover_evidence){.n_eras = 0};
    if (found && orders->has_epoch && orders->meta.epoch_ms != found->epoch_ms)
        return error_set(err, STATUS_REFUSED,
                         "--epoch: contradicts meta, whose epoch can never be "
                         "changed");
    if (found && orders->has_limits &&
        (orders->meta.max_window_ms != found->max_window_ms ||
         orders->meta.quiet_time_ms != found->quiet_time_ms ||
         orders->meta.max_offset_ms != found->max_offset_ms))
        return error_set(err, STATUS_REFUSED,
                         "--max-window, --quiet-time, --max-offset: meta is "
                         "there and says otherwise");
    if (orders->has_epoch)
        take_epoch(evidence, &orders->meta, BY_ORDER);
    if (orders->has_range)
        take_range(evidence, &orders->meta, BY_ORDER);
    if (orders->has_reserved)
        take_reserved(evidence, &orders->meta, BY_ORDER);
    if (orders->has_limits)
        take_limits(evidence, &orders->meta);
    if (found) {
        take_epoch(evidence, found, "meta");
        take_limits(evidence, found);
        if (!orders->has_range)
            take_range(evidence, found, "meta");
        if (!orders->has_reserved)
            take_reserved(evidence, found, "meta");
        if (add_eras(evidence, found, err) != STATUS_OK)
            return err->status;
    }
    return add_eras(evidence, &orders->meta, err);
}

/* Ranges and reserved machine IDs may have changed since the snapshot, and what was taken out may
 * be in use elsewhere now: only a person can tell, who then says so. */
static enum status add_meta(struct recover_evidence *evidence, const struct recover_source *source,
                            struct error *err) {
    const struct meta *known = &evidence->meta, *said = &source->meta;

    if (!evidence->has_epoch)
        take_epoch(evidence, said, source->name);
    if (!evidence->has_range)
        take_range(evidence, said, source->name);
    if (!evidence->has_reserved)
        take_reserved(evidence, said, source->name);
    if (known->epoch_ms != said->epoch_ms)
        return error_set(err, STATUS_REFUSED,
                         "%.70s and %.70s contradict each other about the epoch: one of them "
                         "belongs to another cluster",
                         evidence->epoch_from, source->name);
    if (strcmp(evidence->range_from, BY_ORDER) != 0 &&
        (known->first_machine_id != said->first_machine_id ||
         known->last_machine_id != said->last_machine_id))
        return error_set(err, STATUS_REFUSED,
                         "%.60s says %u-%u and %.60s says %u-%u: --machine-id-range says which",
                         evidence->range_from, known->first_machine_id, known->last_machine_id,
                         source->name, said->first_machine_id, said->last_machine_id);
    if (strcmp(evidence->reserved_from, BY_ORDER) != 0 &&
        memcmp(known->reserved, said->reserved, sizeof known->reserved) != 0)
        return error_set(err, STATUS_REFUSED,
                         "%.70s and %.70s contradict each other about the reserved machine IDs: "
                         "--reserved says which",
                         evidence->reserved_from, source->name);
    return add_eras(evidence, said, err);
}

static void add_sequence(struct recover_evidence *evidence,
                         const struct recover_sequence *sequence) {
    size_t i = 0;

    while (i < evidence->n_sequences && strcmp(evidence->sequences[i].name, sequence->name) != 0)
        i++;
    if (i == SEQUENCES_MAX)
        return; /* there cannot be more: some of them are no more there */
    if (i == evidence->n_sequences)
        evidence->sequences[evidence->n_sequences++] = *sequence;
    evidence->sequences[i].top = max_u64(evidence->sequences[i].top, sequence->top);
}

enum status recover_add(struct recover_evidence *evidence, const struct recover_source *source,
                        const char *cluster, struct error *err) {
    if (strcmp(source->cluster, cluster) != 0)
        return error_set(err, STATUS_REFUSED, "%.120s: belongs to cluster %s, not %s", source->name,
                         source->cluster, cluster);
    if (source->knows_meta && add_meta(evidence, source, err) != STATUS_OK)
        return err->status;
    for (size_t i = 0; i < source->n_slots; i++) {
        const struct recover_slot *slot = &source->slots[i];

        evidence->until_ms[slot->machine_id] = max_u64(evidence->until_ms[slot->machine_id],
                                                       slot->until_ms);
    }
    for (size_t i = 0; i < source->n_sequences; i++)
        add_sequence(evidence, &source->sequences[i]);
    return STATUS_OK;
}

uint64_t recover_sequence(const struct recover_evidence *evidence, const char *name) {
    for (size_t i = 0; i < evidence->n_sequences; i++)
        if (strcmp(evidence->sequences[i].name, name) == 0)
            return evidence->sequences[i].top;
    return 0;
}

enum status recover_complete(const struct recover_evidence *evidence, struct error *err) {
    if (evidence->has_epoch && evidence->has_range && evidence->has_reserved &&
        evidence->has_limits && evidence->n_eras > 0)
        return STATUS_OK;
    return error_set(
        err, STATUS_REFUSED, "meta is gone, and nobody says:%s%s%s%s%s",
        evidence->has_epoch ? "" : " --epoch", evidence->has_range ? "" : " --machine-id-range",
        evidence->has_reserved ? "" : " --reserved (LIST or none)",
        evidence->n_eras > 0 ? "" : " --earlier-era",
        evidence->has_limits ? "" : " --max-window, --quiet-time and --max-offset (all three)");
}

/* ---- what follows ---- */

enum status recover_freeze(const struct recover_evidence *evidence, const char *reason,
                           struct meta *meta, struct error *err) {
    const struct meta *known = &evidence->meta;

    if (recover_complete(evidence, err) != STATUS_OK)
        return err->status;
    if (!meta->era[0]) {
        *meta = (struct meta){.format = RECORD_FORMAT, .floor_ms = known->epoch_ms};
        meta->epoch_ms = known->epoch_ms;
        meta->max_window_ms = known->max_window_ms;
        meta->quiet_time_ms = known->quiet_time_ms;
        meta->max_offset_ms = known->max_offset_ms;
        meta->first_machine_id = known->first_machine_id;
        meta->last_machine_id = known->last_machine_id;
        memcpy(meta->reserved, known->reserved, sizeof meta->reserved);
        memcpy(meta->era, evidence->eras[0], sizeof meta->era);
        meta->n_earlier_eras = evidence->n_eras - 1;
        memcpy(meta->earlier_eras, evidence->eras[1],
               meta->n_earlier_eras * sizeof meta->earlier_eras[0]);
    }
    meta->serial++;
    meta->mode = META_FROZEN;
    snprintf(meta->reason, sizeof meta->reason, "%s", reason);
    return meta_check(meta, err);
}

enum status recover_open(const struct recover_evidence *evidence, const char *era, uint64_t now_ms,
                         uint64_t floor_ms, struct meta *meta, struct error *err) {
    const struct meta *known = &evidence->meta;

    meta->first_machine_id = known->first_machine_id;
    meta->last_machine_id = known->last_machine_id;
    memcpy(meta->reserved, known->reserved, sizeof meta->reserved);
    meta->n_earlier_eras = evidence->n_eras;
    memcpy(meta->earlier_eras, evidence->eras, sizeof meta->earlier_eras);
    memcpy(meta->era, era, sizeof meta->era);
    if (!MUTANT(RECOVER_WITHOUT_FLOOR))
        meta->floor_ms = max_u64(meta->floor_ms,
                                 now_ms + meta->max_window_ms + meta->max_offset_ms);
    meta->floor_ms = max_u64(meta->floor_ms, floor_ms);
    meta->floor_ms = max_u64(meta->floor_ms, recover_unplaced(evidence));
    meta->if_needed = true; /* what the lost history held may be made anew */
    meta->mode = META_OPEN;
    meta->reason[0] = '\0';
    return meta_check(meta, err);
}

uint64_t recover_horizon(const struct recover_evidence *evidence, uint16_t machine_id) {
    if (!meta_usable(&evidence->meta, machine_id))
        return 0;
    return max_u64(evidence->meta.epoch_ms, evidence->until_ms[machine_id]);
}

uint64_t recover_unplaced(const struct recover_evidence *evidence) {
    uint64_t highest = 0;

    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        if (!meta_usable(&evidence->meta, (uint16_t)id))
            highest = max_u64(highest, evidence->until_ms[id]);
    }
    return highest;
}
