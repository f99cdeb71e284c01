#include "coordinator/report.h"

#include <string.h>

#include "common/fields.h"

json_t *report_wide(uint64_t value) {
    return fields_from_wide(value);
}

json_t *report_ms(int64_t ns) {
    return json_real((double)(ns / 1000) / 1000.0);
}

json_t *report_text(const char *text) {
    return text[0] ? fields_from_label(text) : json_null();
}

size_t report_held_by(const struct cluster *cluster, const char *instance,
                      uint16_t machine_ids[static MACHINE_IDS]) {
    size_t n = 0;

    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        const struct slot *slot = &cluster->registry.slots[id];

        if (slot->held && strcmp(slot->own.instance, instance) == 0)
            machine_ids[n++] = (uint16_t)id;
    }
    return n;
}

int64_t report_ceiling_lead_s(const struct cluster *cluster, uint64_t now_ms) {
    if (cluster->ceil_ms >= now_ms)
        return (int64_t)((cluster->ceil_ms - now_ms) / 1000);
    return -(int64_t)((now_ms - cluster->ceil_ms) / 1000);
}

static json_t *slots(const struct cluster *cluster, uint64_t now_ms) {
    struct registry_counts counts;
    json_t *object;

    if (!cluster->has_meta)
        return json_null();
    object = json_object();
    registry_count(&cluster->registry, &cluster->meta, cluster->meta.quiet_time_ms, now_ms,
                   &counts);
    fields_put(object, "held", fields_from_number(counts.held));
    fields_put(object, "cooling", fields_from_number(counts.cooling));
    fields_put(object, "free", fields_from_number(counts.free));
    fields_put(object, "ahead", fields_from_number(counts.ahead));
    fields_put(object, "reserved", fields_from_number(counts.reserved));
    fields_put(object, "absent", fields_from_number(counts.absent));
    return object;
}

/* How many workers have the keys of this fingerprint. */
static size_t count_keys(const struct cluster *cluster, const char *fingerprint) {
    size_t n = 0;

    for (size_t i = 0; i < cluster->n_members; i++)
        n += cluster->members[i]->has_node &&
             strcmp(cluster->members[i]->node.public_key_fingerprint, fingerprint) == 0;
    return n;
}

struct report_keys report_keys(const struct cluster *cluster) {
    struct report_keys keys = {.some = false};
    const char *counted = ""; /* most often there is but one set of keys: it is counted once */
    size_t most = 0;

    for (size_t i = 0; i < cluster->n_members; i++) {
        const struct member *member = cluster->members[i];
        const char *fingerprint = member->node.public_key_fingerprint;
        size_t n;

        if (!member->has_node || !fingerprint[0] || strcmp(fingerprint, counted) == 0)
            continue;
        keys.some = true;
        counted = fingerprint;
        n = count_keys(cluster, fingerprint);
        if (n > most)
            keys.usual = fingerprint;
        else if (n == most && keys.usual && strcmp(keys.usual, fingerprint) != 0)
            keys.usual = NULL;
        most = n > most ? n : most;
    }
    return keys;
}

bool report_keys_differ(const struct report_keys *keys, const struct node *node) {
    return keys->some && (!keys->usual || strcmp(keys->usual, node->public_key_fingerprint) != 0);
}

static json_t *worker(const struct cluster *cluster, const struct report_keys *keys,
                      const struct member *member) {
    uint16_t held[MACHINE_IDS];
    size_t n = report_held_by(cluster, member->instance, held);
    json_t *object = json_object(), *machine_ids = json_array();

    for (size_t i = 0; i < n; i++)
        fields_append(machine_ids, fields_from_number(held[i]));
    fields_put(object, "instance", json_string(member->instance));
    fields_put(object, "identity", report_text(member->node.identity));
    fields_put(object, "http", report_text(member->node.addresses.http));
    fields_put(object, "version", report_text(member->node.version));
    fields_put(object, "machine_ids", machine_ids);
    fields_put(object, "missing", fields_from_number(member->node.missing));
    fields_put(object, "refused", report_text(member->assign.refused));
    fields_put(object, "public_key_fingerprint", report_text(member->node.public_key_fingerprint));
    fields_put(object, "public_keys_differ", json_boolean(report_keys_differ(keys, &member->node)));
    return object;
}

static json_t *coordinator(const struct leader *leader, bool leads) {
    json_t *object = json_object();

    fields_put(object, "instance", json_string(leader->instance));
    fields_put(object, "http", report_text(leader->addresses.http));
    fields_put(object, "leader", json_boolean(leads));
    return object;
}

/* Parts of meta, spelt as in etcd; null while there is none. */
static void put_meta(json_t *object, const struct meta *meta, bool has_meta) {
    static const char *const names[] = {"floor_ms", "epoch_ms", "machine_id_range", "reserved"};
    json_t *record = has_meta ? meta_json(meta) : NULL;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        fields_put(object, names[i],
                   has_meta ? json_incref(json_object_get(record, names[i])) : json_null());
    json_decref(record);
}

json_t *report_status(const struct cluster *cluster, const char *name, uint64_t now_ms) {
    const struct meta *meta = &cluster->meta;
    json_t *object = json_object(), *workers = json_array(), *coordinators = json_array();
    struct report_keys keys = report_keys(cluster);
    bool frozen = cluster->has_meta && meta->mode == META_FROZEN;

    for (size_t i = 0; i < cluster->n_members; i++) {
        if (cluster->members[i]->has_node)
            fields_append(workers, worker(cluster, &keys, cluster->members[i]));
    }
    if (cluster->has_leader)
        fields_append(coordinators, coordinator(&cluster->leader, true));
    fields_put(object, "cluster", json_string(name));
    fields_put(object, "era", cluster->has_meta ? json_string(meta->era) : json_null());
    fields_put(object, "mode",
               cluster->has_meta ? json_string(frozen ? "FROZEN" : "OPEN") : json_null());
    fields_put(object, "reason",
               !cluster->has_meta ? report_text(cluster->meta_error.message)
               : frozen           ? report_text(meta->reason)
                                  : json_null());
    put_meta(object, meta, cluster->has_meta);
    fields_put(object, "leader",
               cluster->has_leader ? json_string(cluster->leader.instance) : json_null());
    fields_put(object, "coordinators", coordinators);
    fields_put(object, "workers", workers);
    fields_put(object, "slots", slots(cluster, now_ms));
    fields_put(object, "ceiling_ms",
               cluster->has_ceil ? report_wide(cluster->ceil_ms) : json_null());
    /* Without a ceiling ("no ceiling") there is no lead to speak of either. */
    fields_put(object, "ceiling_lead_s",
               cluster->has_ceil && cluster->ceil_ms != CEILING_NONE
                   ? json_integer(report_ceiling_lead_s(cluster, now_ms))
                   : json_null());
    return object;
}

json_t *report_machines(const struct cluster *cluster, uint64_t now_ms) {
    const struct meta *meta = &cluster->meta;
    json_t *list = json_array();

    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        const struct slot *slot = &cluster->registry.slots[id];
        bool in_range = id >= meta->first_machine_id && id <= meta->last_machine_id;
        uint64_t usable_in_ms = registry_usable_in_ms(&cluster->registry, meta, meta->quiet_time_ms,
                                                      (uint16_t)id, now_ms);
        enum slot_state state = registry_state(&cluster->registry, meta, meta->quiet_time_ms,
                                               (uint16_t)id, now_ms);
        json_t *object;

        if (!in_range && !slot->held)
            continue;
        object = json_object();
        fields_put(object, "machine_id", fields_from_number(id));
        fields_put(object, "state", json_string(slot_state_name(state)));
        fields_put(object, "identity", report_text(slot->own.identity));
        fields_put(object, "instance", report_text(slot->own.instance));
        fields_put(object, "horizon_ms",
                   slot->has_horizon ? report_wide(slot->horizon.horizon_ms) : json_null());
        fields_put(object, "usable_in_ms",
                   usable_in_ms == UINT64_MAX
                       ? json_null()
                       : fields_from_number(usable_in_ms > INT64_MAX ? INT64_MAX : usable_in_ms));
        fields_put(
            object, "stuck",
            json_boolean(slot->held && slot->has_horizon && slot->horizon.horizon_ms < now_ms));
        fields_append(list, object);
    }
    return list;
}
