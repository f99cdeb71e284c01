/* What is wrong with a fleet, in words: what it is, and what it means or asks for. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fields.h"
#include "coordinator/fleet.h"
#include "coordinator/report.h"

#define NAMED_MAX 3 /* of those to whom the same happened */
#define TEXT_MAX 1024
#define DETAIL_MAX 320
#define NS_PER_MS 1e6

struct text {
    char text[TEXT_MAX];
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...) {
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(text->text + text->len, sizeof text->text - text->len, format, args);
    va_end(args);
    if (len > 0)
        text->len += (size_t)len;
    if (text->len >= sizeof text->text)
        text->len = sizeof text->text - 1;
}

/* critical: IDs are not issued, or soon will not be, or a clock is certainly wrong.  warning: it goes
 * on, and somebody should look. */
static void alarm_add(json_t *alarms, const char *severity, const char *text, const char *meaning) {
    json_t *object;

    if (json_array_size(alarms) == FLEET_ALARMS_MAX)
        return;
    object = json_object();
    fields_put(object, "severity", json_string(severity));
    fields_put(object, "text", fields_from_label(text));
    fields_put(object, "meaning", json_string(meaning));
    fields_append(alarms, object);
}

static void spell_duration(double seconds, char text[static 32]) {
    if (seconds < 120)
        snprintf(text, 32, "%.1f s", seconds);
    else if (seconds < 7200)
        snprintf(text, 32, "%.0f min", seconds / 60);
    else if (seconds < 172800)
        snprintf(text, 32, "%.1f h", seconds / 3600);
    else
        snprintf(text, 32, "%.1f days", seconds / 86400);
}

/* ---- what can happen to a worker ---- */

/* Each tells whether it happened to this one, and the detail. */
typedef bool happened_fn(const struct fleet *fleet, const struct fleet_worker *worker,
                         char detail[static DETAIL_MAX]);

static bool is_silent(const struct fleet *fleet, const struct fleet_worker *worker,
                      char detail[static DETAIL_MAX]) {
    const struct clock_reading *reading = &worker->member->reading;

    (void)fleet;
    if (worker->facts.heard || reading->boot_ms == 0)
        return false;
    snprintf(detail, DETAIL_MAX, "%s", reading->reason[0] ? reading->reason : "no answer lately");
    return true;
}

static bool says(const struct fleet_worker *worker, const char *state) {
    const struct pulse_reading *pulse = &worker->member->pulse;

    return worker->facts.heard && pulse->heard && strcmp(pulse->said.state, state) == 0;
}

static bool issues_nothing(const struct fleet *fleet, const struct fleet_worker *worker,
                           char detail[static DETAIL_MAX]) {
    const struct status_reply *said = &worker->member->pulse.said;

    (void)fleet;
    if (!says(worker, "STARVED") && !says(worker, "HALTED"))
        return false;
    snprintf(detail, DETAIL_MAX, "%s%s%s", said->state, said->reason[0] ? ": " : "", said->reason);
    return true;
}

static bool is_refused(const struct fleet *fleet, const struct fleet_worker *worker,
                       char detail[static DETAIL_MAX]) {
    (void)fleet;
    if (!worker->member->assign.refused[0] || worker->member->node.missing == 0)
        return false;
    snprintf(detail, DETAIL_MAX, "%s", worker->member->assign.refused);
    return true;
}

/* What is certain of its distance from the others. */
static enum skew_verdict judge_offset(const struct fleet *fleet,
                                      const struct fleet_worker *worker) {
    const struct skew reference = {0, 0};

    if (!worker->facts.has_offset || !fleet->view->consensus.majority)
        return SKEW_OK;
    return skew_judge_distance(skew_between(&worker->facts.skew, &reference));
}

static void spell_offset(const struct fleet_worker *worker, char detail[static DETAIL_MAX]) {
    const struct skew *skew = &worker->facts.skew;

    snprintf(detail, DETAIL_MAX, "%.3f ms %s, ± %.3f ms",
             (double)llabs(skew->offset_ns) / NS_PER_MS, skew->offset_ns < 0 ? "behind" : "ahead",
             (double)skew->bound_ns / NS_PER_MS);
}

static bool is_far_off(const struct fleet *fleet, const struct fleet_worker *worker,
                       char detail[static DETAIL_MAX]) {
    if (judge_offset(fleet, worker) != SKEW_CRIT)
        return false;
    spell_offset(worker, detail);
    return true;
}

static bool is_off(const struct fleet *fleet, const struct fleet_worker *worker,
                   char detail[static DETAIL_MAX]) {
    if (judge_offset(fleet, worker) != SKEW_WARN)
        return false;
    spell_offset(worker, detail);
    return true;
}

static bool claims_an_error(const struct fleet *fleet, const struct fleet_worker *worker,
                            char detail[static DETAIL_MAX]) {
    const struct skew_facts *facts = &worker->facts;

    (void)fleet;
    if (!facts->heard || !facts->synchronized || !worker->member->reading.knows_error ||
        facts->claimed_error_ns <= 250000000)
        return false;
    snprintf(detail, DETAIL_MAX, "up to %.0f ms", (double)facts->claimed_error_ns / NS_PER_MS);
    return true;
}

static bool is_unsynchronized(const struct fleet *fleet, const struct fleet_worker *worker,
                              char detail[static DETAIL_MAX]) {
    (void)fleet;
    detail[0] = '\0';
    return worker->facts.heard && !worker->facts.synchronized;
}

static bool runs_out(const struct fleet *fleet, const struct fleet_worker *worker,
                     char detail[static DETAIL_MAX]) {
    const struct skew_facts *facts = &worker->facts;

    (void)fleet;
    if (!facts->has_horizon || facts->horizon_lead_ms >= 10000 || facts->horizon_lead_ms < 0)
        return false;
    snprintf(detail, DETAIL_MAX, "%.1f s left", (double)facts->horizon_lead_ms / 1000);
    return true;
}

/* what follows "N workers". */
static const struct {
    const char *severity;
    happened_fn *happened;
    const char *one, *many;
    const char *meaning;
} kinds[] = {
    {"critical", issues_nothing, "issues no Snowflakes", "issue no Snowflakes",
     "They answer 503 with a time to come again, and go on by themselves when the reason is gone."},
    {"critical", is_far_off, "has a clock that is certainly more than 500 ms off",
     "have clocks that are certainly more than 500 ms off",
     "Its IDs are unique all the same, but carry wrong times.  Look at that host's time service."},
    {"critical", is_refused, "gets no machine ID", "get no machine ID",
     "The leader said no; they ask again by themselves."},
    {"warning", is_silent, "is registered in etcd and does not answer",
     "are registered in etcd and do not answer",
     "What its clock says is unknown.  If it is gone, its lease ends and its machine ID comes back "
     "by itself."},
    {"warning", runs_out, "has little runway", "have little runway",
     "Without an extension in etcd they stop issuing when it is used up."},
    {"warning", is_off, "has a clock that is certainly more than 100 ms off",
     "have clocks that are certainly more than 100 ms off", "Look at that host's time service."},
    {"warning", claims_an_error, "has a clock that claims an error above 250 ms",
     "have clocks that claim an error above 250 ms", "Look at that host's time service."},
    {"warning", is_unsynchronized, "has a clock that nothing synchronises",
     "have clocks that nothing synchronises",
     "Nothing corrects it when it drifts.  Run chrony, or another time service, on that host."},
};

static void add_worker_alarms(json_t *alarms, const struct fleet *fleet, const char *severity) {
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        struct text names = {.len = 0}, text = {.len = 0};
        char detail[DETAIL_MAX];
        size_t n = 0;

        if (strcmp(kinds[kind].severity, severity) != 0)
            continue;
        for (size_t i = 0; i < fleet->n_workers; i++) {
            const struct node *node = &fleet->workers[i].member->node;

            if (!kinds[kind].happened(fleet, &fleet->workers[i], detail))
                continue;
            if (++n > NAMED_MAX)
                continue;
            add(&names, "%s%.80s", n > 1 ? ", " : "",
                node->identity[0] ? node->identity : fleet->workers[i].member->instance);
            if (detail[0])
                add(&names, " (%.200s)", detail);
        }
        if (n == 0)
            continue;
        add(&text, "%zu worker%s %s: %s", n, n == 1 ? "" : "s",
            n == 1 ? kinds[kind].one : kinds[kind].many, names.text);
        if (n > NAMED_MAX)
            add(&text, " and %zu more", n - NAMED_MAX);
        alarm_add(alarms, severity, text.text, kinds[kind].meaning);
    }
}

/* ---- what can happen to the cluster ---- */

static void add_etcd(json_t *alarms, const struct fleet_view *view) {
    struct text text = {.len = 0};

    if (!view->etcd_error[0])
        return;
    add(&text, "etcd does not answer this coordinator: %.300s", view->etcd_error);
    alarm_add(alarms, "critical", text.text,
              "Workers serve to the end of their windows.  What this page shows of machine IDs may "
              "be old.");
}

static void add_trouble(json_t *alarms, const struct fleet_view *view) {
    const struct cluster *cluster = view->cluster;
    struct text text = {.len = 0};

    if (!view->trouble[0])
        return;
    add(&text, "No machine ID can be claimed or extended: %.300s", view->trouble);
    if (cluster->has_meta && cluster->meta.mode == META_FROZEN &&
        strncmp(cluster->meta.reason, RECORD_ROLLBACK_REASON, strlen(RECORD_ROLLBACK_REASON)) != 0)
        alarm_add(
            alarms, "critical", text.text,
            "Workers serve to the end of their windows and stop.  snowfleetctl thaw ends it.");
    else
        alarm_add(
            alarms, "critical", text.text,
            "Workers serve to the end of their windows and stop.  deploy/README.md has what to "
            "do.");
}

static void add_leader(json_t *alarms, const struct fleet_view *view) {
    if (view->cluster->complete && !view->cluster->has_leader)
        alarm_add(alarms, "warning", "No coordinator leads",
                  "Workers go on, and choose machine IDs by themselves.  If no leader appears, "
                  "start a coordinator: without one the ceiling stays where it is.");
}

static void add_ceiling(json_t *alarms, const struct fleet *fleet) {
    const struct fleet_view *view = fleet->view;
    const struct cluster *cluster = view->cluster;
    struct text text = {.len = 0};
    char duration[32];
    int64_t lead_s;

    if (view->ceiling_alarm[0]) {
        add(&text, "The ceiling: %s", view->ceiling_alarm);
        alarm_add(alarms, "warning", text.text,
                  "It rests on fewer clocks than it should: one that is wrong could move it.");
    }
    if (!cluster->has_ceil || cluster->ceil_ms == CEILING_NONE)
        return;
    lead_s = report_ceiling_lead_s(cluster, fleet->consensus_ms);
    if (lead_s >= 3600)
        return;
    text.len = 0;
    spell_duration((double)llabs(lead_s), duration);
    if (lead_s > 0)
        add(&text, "The ceiling is only %s ahead", duration);
    else
        add(&text, "The ceiling was reached %s ago", duration);
    alarm_add(alarms, lead_s < 300 ? "critical" : "warning", text.text,
              "No timestamp may pass it.  A coordinator that leads raises it: see its log.");
}

static void add_machine_ids(json_t *alarms, const struct fleet *fleet) {
    const struct cluster *cluster = fleet->view->cluster;
    struct text stuck = {.len = 0}, text = {.len = 0};
    struct registry_counts counts;
    size_t n = 0;

    if (!cluster->has_meta)
        return;
    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        const struct slot *slot = &cluster->registry.slots[id];

        if (!fleet_is_stuck(fleet, slot) || ++n > NAMED_MAX)
            continue;
        add(&stuck, "%s%u (%.80s)", n > 1 ? ", " : "", id,
            slot->own.identity[0] ? slot->own.identity : "unreadable");
    }
    if (n > 0) {
        add(&text, "%zu machine ID%s held although the horizon is past: %s", n,
            n == 1 ? " is" : "s are", stuck.text);
        if (n > NAMED_MAX)
            add(&text, " and %zu more", n - NAMED_MAX);
        alarm_add(alarms, "warning", text.text,
                  "Nothing is issued on them.  The leader takes them back when the holder is gone "
                  "and the quiet time has passed.");
    }
    registry_count(&cluster->registry, &cluster->meta, cluster->meta.quiet_time_ms,
                   fleet->consensus_ms, &counts);
    if (counts.free == 0)
        alarm_add(alarms, "warning", "No machine ID is free",
                  "A new worker waits for one that is cooling.  snowfleetctl range-set makes the "
                  "range larger.");
    if (counts.absent > 0) {
        text.len = 0;
        add(&text, "%u machine ID%s no readable horizon in etcd", counts.absent,
            counts.absent == 1 ? " has" : "s have");
        alarm_add(alarms, "warning", text.text,
                  "They cannot be used.  A key that was lost is a lost history: snowfleetctl "
                  "recover.");
    }
}

static void add_public_keys(json_t *alarms, const struct cluster *cluster) {
    struct report_keys keys = report_keys(cluster);
    struct text named = {.len = 0}, text = {.len = 0};
    size_t n = 0;

    for (size_t i = 0; i < cluster->n_members; i++) {
        const struct member *member = cluster->members[i];

        if (member->has_node && report_keys_differ(&keys, &member->node) && ++n <= NAMED_MAX)
            add(&named, "%s%.80s%s", n > 1 ? ", " : "", member->node.identity,
                member->node.public_key_fingerprint[0] ? "" : " (none)");
    }
    if (n == 0)
        return;
    add(&text, "%zu worker%s other keys for public IDs than the rest: %s", n,
        n == 1 ? " has" : "s have", named.text);
    if (n > NAMED_MAX)
        add(&text, " and %zu more", n - NAMED_MAX);
    alarm_add(alarms, "warning", text.text,
              "What is encoded by the ones may be refused by the others.  --public-key-file must "
              "hold the same keys everywhere.");
}

static void add_clocks(json_t *alarms, const struct fleet *fleet) {
    struct text text = {.len = 0};
    enum skew_verdict verdict = skew_judge_distance(fleet->distance);

    if (fleet->view->consensus.majority || verdict == SKEW_OK)
        return;
    add(&text, "The clocks differ by at least %.0f ms, and too few agree to say which is wrong",
        (double)fleet->distance.at_least_ns / NS_PER_MS);
    alarm_add(
        alarms, verdict == SKEW_CRIT ? "critical" : "warning", text.text,
        "This coordinator's own clock is one of them.  Look at the time service of each host.");
}

/* Those whose severity differs from the one asked for are dropped again. */
static void keep(json_t *alarms, json_t *all, const char *severity) {
    size_t i;
    json_t *alarm;

    json_array_foreach(all, i, alarm) {
        if (strcmp(json_string_value(json_object_get(alarm, "severity")), severity) == 0)
            fields_append(alarms, json_incref(alarm));
    }
}

json_t *fleet_alarms(const struct fleet *fleet) {
    static const char *const severities[] = {"critical", "warning"};
    json_t *alarms = json_array(), *cluster = json_array();

    add_etcd(cluster, fleet->view);
    add_trouble(cluster, fleet->view);
    add_leader(cluster, fleet->view);
    add_ceiling(cluster, fleet);
    add_machine_ids(cluster, fleet);
    add_public_keys(cluster, fleet->view->cluster);
    add_clocks(cluster, fleet);
    for (size_t i = 0; i < sizeof severities / sizeof severities[0]; i++) {
        keep(alarms, cluster, severities[i]);
        add_worker_alarms(alarms, fleet, severities[i]);
    }
    json_decref(cluster);
    return alarms;
}
