#include "coordinator/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/fields.h"
#include "coordinator/report.h"

#define SCHEMA 1
#define NS_PER_MS INT64_C(1000000)

/* ---- who holds what ---- */

struct holding {
    const char *instance;
    uint16_t machine_id;
};

static int by_instance(const void *a, const void *b) {
    const struct holding *left = a, *right = b;
    int order = strcmp(left->instance, right->instance);

    return order ? order : (int)left->machine_id - (int)right->machine_id;
}

static size_t list_holdings(const struct cluster *cluster,
                            struct holding holdings[static MACHINE_IDS]) {
    size_t n = 0;

    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        const struct slot *slot = &cluster->registry.slots[id];

        if (slot->held)
            holdings[n++] = (struct holding){slot->own.instance, (uint16_t)id};
    }
    qsort(holdings, n, sizeof *holdings, by_instance);
    return n;
}

/* The first of the holdings that is not before instance. */
static size_t first_of(const struct holding *holdings, size_t n, const char *instance) {
    size_t low = 0, high = n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(holdings[middle].instance, instance) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void find_machine_ids(struct fleet *fleet) {
    struct holding holdings[MACHINE_IDS];
    size_t n = list_holdings(fleet->view->cluster, holdings);

    fleet->machine_ids = allocate(n + 1, sizeof *fleet->machine_ids);
    for (size_t i = 0; i < n; i++)
        fleet->machine_ids[i] = holdings[i].machine_id;
    for (size_t i = 0; i < fleet->n_workers; i++) {
        struct fleet_worker *worker = &fleet->workers[i];
        size_t first = first_of(holdings, n, worker->member->instance), end = first;

        while (end < n && strcmp(holdings[end].instance, worker->member->instance) == 0)
            end++;
        worker->machine_ids = fleet->machine_ids + first;
        worker->n_machine_ids = end - first;
    }
}

/* ---- judging ---- */

/* A horizon beyond that is no time at all. */
static bool has_lead(const struct slot *slot) {
    return slot->has_horizon && slot->horizon.horizon_ms <= INT64_MAX / 2;
}

static int64_t lead_ms(const struct fleet *fleet, const struct slot *slot) {
    return (int64_t)slot->horizon.horizon_ms - (int64_t)fleet->consensus_ms;
}

bool fleet_is_stuck(const struct fleet *fleet, const struct slot *slot) {
    return slot->held && slot->has_horizon && slot->horizon.horizon_ms < fleet->consensus_ms;
}

static bool heard_lately(const struct fleet_view *view, const struct member *member) {
    return member->reading.heard && view->now.boot_ms - member->reading.boot_ms <= 30000;
}

static void judge(struct fleet *fleet, struct fleet_worker *worker) {
    const struct fleet_view *view = fleet->view;
    const struct clock_reading *reading = &worker->member->reading;
    struct skew_facts *facts = &worker->facts, judged;

    facts->heard = heard_lately(view, worker->member);
    facts->heard = facts->heard &&
                   track_at(&worker->member->track, view->boot_ns, TRACK_RATE_PPB, &worker->skew);
    facts->has_offset = facts->heard && view->consensus.found;
    if (facts->has_offset)
        facts->skew = consensus_offset(&view->consensus, &worker->skew);
    facts->synchronized = reading->synchronized;
    facts->claimed_error_ns = reading->max_error_ns;
    for (size_t i = 0; i < worker->n_machine_ids; i++) {
        const struct slot *slot = &view->cluster->registry.slots[worker->machine_ids[i]];

        if (!has_lead(slot))
            continue;
        if (!facts->has_horizon || lead_ms(fleet, slot) < facts->horizon_lead_ms)
            facts->horizon_lead_ms = lead_ms(fleet, slot);
        facts->has_horizon = true;
    }
    /* Without a majority the offset is shown, and nobody is accused by it. */
    judged = *facts;
    judged.has_offset = facts->has_offset && view->consensus.majority;
    worker->verdict = skew_judge(&judged);
}

static int rank(const struct fleet_worker *worker) {
    static const int ranks[] = {
        [SKEW_CRIT] = 0, [SKEW_UNKNOWN] = 1, [SKEW_WARN] = 2, [SKEW_OK] = 3};

    return ranks[worker->verdict];
}

static int worst_first(const void *a, const void *b) {
    const struct fleet_worker *left = a, *right = b;
    int order;

    if (rank(left) != rank(right))
        return rank(left) - rank(right);
    order = strcmp(left->member->node.identity, right->member->node.identity);
    return order ? order : strcmp(left->member->instance, right->member->instance);
}

/* How far the clocks are apart, whoever is right; our own is {0, 0}. */
static struct skew_distance measure_distance(const struct fleet *fleet) {
    struct skew *clocks = allocate(fleet->n_heard + 1, sizeof *clocks);
    struct skew_distance distance;
    size_t n = 1;

    for (size_t i = 0; i < fleet->n_workers; i++) {
        if (fleet->workers[i].facts.heard)
            clocks[n++] = fleet->workers[i].skew;
    }
    distance = skew_fleet(clocks, n);
    free(clocks);
    return distance;
}

void fleet_init(struct fleet *fleet, const struct fleet_view *view) {
    const struct cluster *cluster = view->cluster;

    *fleet = (struct fleet){.view = view, .consensus_ms = view->now.wall_ms};
    if (view->consensus.majority)
        fleet->consensus_ms = (uint64_t)((int64_t)view->now.wall_ms +
                                         view->consensus.reference_ns / NS_PER_MS);
    fleet->workers = allocate(cluster->n_members + 1, sizeof *fleet->workers);
    for (size_t i = 0; i < cluster->n_members; i++) {
        if (cluster->members[i]->has_node)
            fleet->workers[fleet->n_workers++].member = cluster->members[i];
    }
    find_machine_ids(fleet);
    for (size_t i = 0; i < fleet->n_workers; i++) {
        judge(fleet, &fleet->workers[i]);
        fleet->n_heard += fleet->workers[i].facts.heard;
    }
    fleet->distance = measure_distance(fleet);
    qsort(fleet->workers, fleet->n_workers, sizeof *fleet->workers, worst_first);
}

void fleet_done(struct fleet *fleet) {
    free(fleet->workers);
    free(fleet->machine_ids);
}

/* ---- showing ---- */

static json_t *or_null(bool known, json_t *value) {
    if (known)
        return value;
    json_decref(value);
    return json_null();
}

static json_t *spell_worker(const struct fleet *fleet, const struct fleet_worker *worker) {
    const struct member *member = worker->member;
    const struct skew_facts *facts = &worker->facts;
    const struct pulse_reading *pulse = &member->pulse;
    uint64_t now = fleet->view->now.boot_ms;
    bool pulses = facts->heard && pulse->heard;
    json_t *object = json_object(), *machine_ids = json_array();

    for (size_t i = 0; i < worker->n_machine_ids; i++)
        fields_append(machine_ids, fields_from_number(worker->machine_ids[i]));
    fields_put(object, "identity", report_text(member->node.identity));
    fields_put(object, "instance", json_string(member->instance));
    fields_put(object, "http", report_text(member->node.addresses.http));
    fields_put(object, "version", report_text(member->node.version));
    fields_put(object, "machine_ids", machine_ids);
    fields_put(object, "missing", fields_from_number(member->node.missing));
    fields_put(object, "refused", report_text(member->assign.refused));
    fields_put(object, "state", or_null(pulses, report_text(pulse->said.state)));
    fields_put(object, "reason", or_null(pulses, report_text(pulse->said.reason)));
    fields_put(object, "runway_ms",
               or_null(facts->has_horizon, json_integer(facts->horizon_lead_ms)));
    fields_put(object, "rate_per_s",
               or_null(pulses && pulse->has_rate, json_real(pulse->rate_per_s)));
    fields_put(object, "issued_total", or_null(pulses, report_wide(pulse->said.issued_total)));
    fields_put(object, "heard", json_boolean(facts->heard));
    fields_put(object, "heard_ms_ago",
               or_null(facts->heard, fields_from_number(now - member->reading.boot_ms)));
    fields_put(object, "not_heard_because",
               or_null(!facts->heard, report_text(member->reading.reason)));
    fields_put(object, "offset_ms", or_null(facts->has_offset, report_ms(facts->skew.offset_ns)));
    fields_put(object, "bound_ms", or_null(facts->has_offset, report_ms(facts->skew.bound_ns)));
    fields_put(object, "claimed_error_ms",
               or_null(facts->heard && facts->synchronized && worker->member->reading.knows_error,
                       report_ms(facts->claimed_error_ns)));
    fields_put(object, "synchronized", or_null(facts->heard, json_boolean(facts->synchronized)));
    fields_put(object, "verdict", json_string(skew_verdict_name(worker->verdict)));
    return object;
}

static const char *state_of(const struct fleet *fleet, uint16_t id) {
    const struct cluster *cluster = fleet->view->cluster;
    const struct meta *meta = &cluster->meta;
    const struct slot *slot = &cluster->registry.slots[id];

    if (slot->held)
        return fleet_is_stuck(fleet, slot) ? "STUCK" : "HELD";
    if (!cluster->has_meta)
        return "UNKNOWN";
    if (id < meta->first_machine_id || id > meta->last_machine_id)
        return "OUT_OF_RANGE";
    return slot_state_name(
        registry_state(&cluster->registry, meta, meta->quiet_time_ms, id, fleet->consensus_ms));
}

/* One machine ID, or the first of a run of equal ones. */
static json_t *spell_slot(const struct fleet *fleet, uint16_t id, const char *state) {
    const struct cluster *cluster = fleet->view->cluster;
    const struct slot *slot = &cluster->registry.slots[id];
    json_t *object = json_object();

    fields_put(object, "first", fields_from_number(id));
    fields_put(object, "last", fields_from_number(id));
    fields_put(object, "state", json_string(state));
    if (slot->held) {
        fields_put(object, "identity", report_text(slot->own.identity));
        fields_put(object, "instance", report_text(slot->own.instance));
        fields_put(object, "runway_ms",
                   has_lead(slot) ? json_integer(lead_ms(fleet, slot)) : json_null());
    } else if (strcmp(state, "COOLING") == 0 || strcmp(state, "AHEAD") == 0) {
        uint64_t usable_in_ms = registry_usable_in_ms(&cluster->registry, &cluster->meta,
                                                      cluster->meta.quiet_time_ms, id,
                                                      fleet->consensus_ms);

        fields_put(object, "usable_in_ms",
                   or_null(usable_in_ms <= INT64_MAX,
                           fields_from_number(usable_in_ms <= INT64_MAX ? usable_in_ms : 0)));
    }
    return object;
}

/* Equal but for the machine IDs themselves. */
static bool continues(json_t *run, json_t *next) {
    bool same = true;
    const char *name;
    json_t *value;

    json_object_foreach(next, name, value) {
        if (strcmp(name, "first") != 0 && strcmp(name, "last") != 0)
            same = same && json_equal(json_object_get(run, name), value);
    }
    return same && json_object_size(run) == json_object_size(next);
}

/* All 1,024 machine IDs, neighbours of which nothing different can be said taken together. */
static json_t *spell_machines(const struct fleet *fleet) {
    json_t *runs = json_array(), *run = NULL;

    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        json_t *next = spell_slot(fleet, (uint16_t)id, state_of(fleet, (uint16_t)id));

        if (run && continues(run, next)) {
            fields_put(run, "last", fields_from_number(id));
            json_decref(next);
        } else {
            fields_append(runs, next);
            run = next; /* the list's */
        }
    }
    return runs;
}

static json_t *spell_self(const struct fleet_view *view) {
    json_t *object = json_object();

    fields_put(object, "instance", json_string(view->instance));
    fields_put(object, "leads", json_boolean(view->leads));
    fields_put(object, "state", json_string(view->state));
    fields_put(object, "version", json_string(SNOWFLEET_VERSION));
    return object;
}

static json_t *spell_leader(const struct cluster *cluster) {
    json_t *object;

    if (!cluster->has_leader)
        return json_null();
    object = json_object();
    fields_put(object, "instance", json_string(cluster->leader.instance));
    fields_put(object, "http", report_text(cluster->leader.addresses.http));
    return object;
}

static json_t *spell_etcd(const struct fleet_view *view) {
    json_t *object = json_object();

    fields_put(object, "reachable", json_boolean(!view->etcd_error[0]));
    fields_put(object, "endpoint", report_text(view->etcd_endpoint));
    fields_put(object, "error", report_text(view->etcd_error));
    return object;
}

static json_t *spell_clocks(const struct fleet *fleet) {
    const struct consensus *consensus = &fleet->view->consensus;
    json_t *object = json_object();

    fields_put(object, "heard", fields_from_number(fleet->n_heard));
    fields_put(object, "agree", fields_from_number(consensus->agree));
    fields_put(object, "majority", json_boolean(consensus->majority));
    fields_put(object, "at_least_ms", report_ms(fleet->distance.at_least_ns));
    fields_put(object, "at_most_ms", report_ms(fleet->distance.at_most_ns));
    return object;
}

json_t *fleet_report(const struct fleet_view *view) {
    const struct cluster *cluster = view->cluster;
    const struct meta *meta = &cluster->meta;
    bool has_meta = cluster->has_meta, frozen = has_meta && meta->mode == META_FROZEN;
    bool has_ceiling = cluster->has_ceil && cluster->ceil_ms != CEILING_NONE;
    json_t *object = json_object(), *workers = json_array();
    struct fleet fleet;

    fleet_init(&fleet, view);
    for (size_t i = 0; i < fleet.n_workers; i++)
        fields_append(workers, spell_worker(&fleet, &fleet.workers[i]));
    fields_put(object, "schema", fields_from_number(SCHEMA));
    fields_put(object, "cluster", json_string(view->cluster_name));
    fields_put(object, "now_ms", report_wide(view->now.wall_ms));
    fields_put(object, "era", or_null(has_meta, json_string(meta->era)));
    fields_put(object, "mode", or_null(has_meta, json_string(frozen ? "FROZEN" : "OPEN")));
    fields_put(object, "self", spell_self(view));
    fields_put(object, "leader", spell_leader(cluster));
    fields_put(object, "etcd", spell_etcd(view));
    fields_put(
        object, "ceiling_lead_s",
        or_null(has_ceiling, json_integer(report_ceiling_lead_s(cluster, fleet.consensus_ms))));
    fields_put(object, "clocks", spell_clocks(&fleet));
    fields_put(object, "alarms", fleet_alarms(&fleet));
    fields_put(object, "machines", spell_machines(&fleet));
    fields_put(object, "workers", workers);
    fleet_done(&fleet);
    return object;
}
