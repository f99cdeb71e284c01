#include "coordinator/survey.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/decimal.h"
#include "common/fields.h"
#include "coordinator/report.h"

#define NS_PER_MS INT64_C(1000000)
#define DRIFT_MAX_PPM 1e6 /* more is no clock; and what follows counts in int64_t */
#define NOTE_MAX 160

/* ---- looking ---- */

static void look_at_clock(struct survey_node *node, const struct survey_config *config) {
    const struct member *member = node->member;
    const struct clock_reading *reading = &member->reading;
    uint64_t now_ms = (uint64_t)(config->now.boot_ns / NS_PER_MS);
    struct skew_facts *facts = &node->facts;

    node->ever_heard = member->heard_boot_ms != 0;
    node->heard_ms = node->ever_heard ? now_ms - member->heard_boot_ms : 0;
    facts->heard = node->ever_heard && node->heard_ms <= config->fresh_ms &&
                   track_at(&member->track, config->now.boot_ns,
                            config->rate_ppb + llabs(reading->claim.frequency_ppb), &node->skew);
    if (!facts->heard)
        return;
    node->uncertain = node->skew.bound_ns > SURVEY_UNCERTAIN_NS;
    node->has_drift = track_drift(&member->track, &node->drift);
    facts->synchronized = reading->synchronized;
    facts->has_claim = reading->knows_error;
    facts->claimed_error_ns = reading->max_error_ns;
}

/* The machine IDs that it holds, and how far the least of their horizons is ahead. */
static void look_at_slots(struct survey_node *node, const struct cluster *cluster,
                          uint64_t now_ms) {
    node->n_machine_ids = report_held_by(cluster, node->member->instance, node->machine_ids);
    for (size_t i = 0; i < node->n_machine_ids; i++) {
        const struct slot *slot = &cluster->registry.slots[node->machine_ids[i]];
        int64_t lead_ms;

        if (!slot->has_horizon || slot->horizon.horizon_ms > INT64_MAX / 2)
            continue;
        lead_ms = (int64_t)slot->horizon.horizon_ms - (int64_t)now_ms;
        if (!node->facts.has_horizon || lead_ms < node->facts.horizon_lead_ms)
            node->facts.horizon_lead_ms = lead_ms;
        node->facts.has_horizon = true;
    }
}

static void compare_clocks(struct survey *survey, bool own, int64_t allowed_ns) {
    struct skew *heard = allocate(survey->n + 1, sizeof *heard);

    for (size_t i = 0; i < survey->n; i++) {
        if (survey->nodes[i].facts.heard)
            heard[survey->n_heard++] = survey->nodes[i].skew;
    }
    survey->incomplete = survey->n_heard < survey->n || survey->n == 0;
    survey->fleet = skew_fleet(heard, survey->n_heard);
    heard[survey->n_heard] = (struct skew){0, 0};
    survey->consensus = consensus_find(heard, survey->n_heard + own, allowed_ns);
    free(heard);
}

/* If ours is the clock that drifts, all others seem to: hence from what most agree on. */
static void compare_drifts(struct survey *survey, bool own) {
    struct skew *drifts = allocate(survey->n + 1, sizeof *drifts);
    struct consensus consensus;
    size_t n = 0;

    for (size_t i = 0; i < survey->n; i++) {
        struct survey_node *node = &survey->nodes[i];

        node->has_drift = node->has_drift && node->drift.ppm < DRIFT_MAX_PPM &&
                          node->drift.ppm > -DRIFT_MAX_PPM && node->drift.bound_ppm < DRIFT_MAX_PPM;
        if (node->has_drift) /* in units of 1e-12 */
            drifts[n++] = (struct skew){(int64_t)(node->drift.ppm * 1e6),
                                        (int64_t)(node->drift.bound_ppm * 1e6) + 1};
    }
    drifts[n] = (struct skew){0, 0};
    consensus = consensus_find(drifts, n + own, (int64_t)(DRIFT_MAX_PPM * 1e6));
    free(drifts);
    if (!consensus.majority)
        return;
    for (size_t i = 0; i < survey->n; i++)
        survey->nodes[i].drift.ppm -= (double)consensus.reference_ns / 1e6;
}

/* ---- judging ---- */

/* What a clock says of itself: that its error is no more than so much.  "Unknown" says nothing, and
 * nor does a clock that nothing disciplines. */
static bool claims(const struct survey_node *node) {
    return node->facts.heard && node->facts.synchronized && node->facts.has_claim;
}

static struct skew claimed_interval(const struct survey_node *node) {
    int64_t reach_ns;

    if (__builtin_add_overflow(node->skew.bound_ns, node->facts.claimed_error_ns, &reach_ns) ||
        reach_ns > INT64_MAX / 4)
        reach_ns = INT64_MAX / 4;
    return (struct skew){node->skew.offset_ns, reach_ns};
}

/* A claim is proven false when the time that most claims allow is not among what it allows, or when
 * three and more clocks agree on a time that it excludes with all that they are allowed. */
static void test_claims(struct survey *survey, int64_t allowed_ns) {
    struct skew *intervals = allocate(survey->n + 1, sizeof *intervals);
    struct consensus_claims claimed;
    size_t n = 0;

    for (size_t i = 0; i < survey->n; i++) {
        if (claims(&survey->nodes[i]))
            intervals[n++] = claimed_interval(&survey->nodes[i]);
    }
    claimed = consensus_of_claims(intervals, n);
    free(intervals);
    for (size_t i = 0; i < survey->n; i++) {
        struct survey_node *node = &survey->nodes[i];
        struct skew interval;

        if (!claims(node))
            continue;
        interval = claimed_interval(node);
        node->claim_false = consensus_disproves(&claimed, &interval) ||
                            consensus_refuses(&survey->consensus, &interval, allowed_ns);
        survey->claims_false += node->claim_false;
    }
}

/* Without a majority nobody is accused; but nobody is said to be right either, when they are
 * certainly apart. */
static void judge(struct survey *survey, struct survey_node *node, int64_t allowed_ns) {
    const struct consensus *consensus = &survey->consensus;
    struct skew_facts *facts = &node->facts;

    facts->has_offset = facts->heard && consensus->majority;
    if (facts->has_offset) {
        const struct skew reference = {0, 0};

        facts->skew = consensus_offset(consensus, &node->skew);
        node->falseticker = skew_between(&facts->skew, &reference).at_least_ns > allowed_ns;
        survey->falsetickers += node->falseticker;
    }
    facts->claim_false = node->claim_false;
    node->verdict = skew_judge(facts);
    if (!consensus->majority && node->verdict != SKEW_CRIT &&
        skew_judge_distance(survey->fleet) != SKEW_OK)
        node->verdict = SKEW_UNKNOWN;
    survey->verdicts[node->verdict]++;
}

static int rank(const struct survey_node *node) {
    static const int ranks[] = {
        [SKEW_CRIT] = 0, [SKEW_UNKNOWN] = 1, [SKEW_WARN] = 2, [SKEW_OK] = 3};

    return ranks[node->verdict];
}

static int worst_first(const void *a, const void *b) {
    const struct survey_node *left = a, *right = b;
    long long left_ns = llabs(left->facts.skew.offset_ns),
              right_ns = llabs(right->facts.skew.offset_ns);
    int order;

    if (rank(left) != rank(right))
        return rank(left) - rank(right);
    if (left_ns != right_ns)
        return left_ns > right_ns ? -1 : 1;
    order = strcmp(left->member->node.identity, right->member->node.identity);
    return order ? order : strcmp(left->member->instance, right->member->instance);
}

/* Horizons are judged by the clocks' consensus, not by this machine's own. */
static uint64_t consensus_ms(const struct survey *survey, int64_t wall_ns) {
    int64_t now_ns = wall_ns;

    if (survey->consensus.majority &&
        __builtin_add_overflow(wall_ns, survey->consensus.reference_ns, &now_ns))
        now_ns = wall_ns;
    return now_ns > 0 ? (uint64_t)(now_ns / NS_PER_MS) : 0;
}

void survey_take(struct survey *survey, const struct cluster *cluster,
                 const struct survey_config *config) {
    int64_t allowed_ns = (int64_t)cluster->meta.max_offset_ms * NS_PER_MS;
    uint64_t now_ms;

    *survey = (struct survey){.nodes = allocate(cluster->n_members + 1, sizeof *survey->nodes)};
    for (size_t i = 0; i < cluster->n_members; i++) {
        if (!cluster->members[i]->has_node)
            continue;
        survey->nodes[survey->n].member = cluster->members[i];
        look_at_clock(&survey->nodes[survey->n++], config);
    }
    compare_clocks(survey, config->own, allowed_ns);
    compare_drifts(survey, config->own);
    test_claims(survey, allowed_ns);
    now_ms = consensus_ms(survey, config->now.wall_ns);
    for (size_t i = 0; i < survey->n; i++) {
        look_at_slots(&survey->nodes[i], cluster, now_ms);
        judge(survey, &survey->nodes[i], allowed_ns);
    }
    qsort(survey->nodes, survey->n, sizeof *survey->nodes, worst_first);
}

void survey_done(struct survey *survey) {
    free(survey->nodes);
    *survey = (struct survey){.nodes = NULL};
}

int survey_exit_code(const struct survey *survey) {
    enum skew_verdict *verdicts = allocate(survey->n + 1, sizeof *verdicts);
    int code;

    for (size_t i = 0; i < survey->n; i++)
        verdicts[i] = survey->nodes[i].verdict;
    verdicts[survey->n] = survey->consensus.majority ? SKEW_OK : skew_judge_distance(survey->fleet);
    code = skew_exit_code(verdicts, survey->n + 1, survey->incomplete);
    free(verdicts);
    return code;
}

/* ---- telling ---- */

static void note(json_t *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(json_t *notes, const char *format, ...) {
    char text[NOTE_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fields_append(notes, fields_from_label(text));
}

/* What a person ought to know of it, in words. */
static json_t *notes_of(const struct survey_node *node) {
    const struct skew_facts *facts = &node->facts;
    const struct clock_reading *reading = &node->member->reading;
    double offset_ms = (double)facts->skew.offset_ns / 1e6;
    double bound_ms = (double)node->skew.bound_ns / 1e6;
    json_t *notes = json_array();

    if (!facts->heard)
        note(notes, "not heard: %s", reading->reason[0] ? reading->reason : "not asked yet");
    if (facts->has_offset &&
        skew_judge_distance(skew_between(&facts->skew, &(struct skew){0, 0})) != SKEW_OK)
        note(notes, "%.3f ms %s the fleet", offset_ms < 0 ? -offset_ms : offset_ms,
             offset_ms < 0 ? "behind" : "ahead of");
    if (node->uncertain)
        note(notes, "uncertain: a slow path hides up to %.0f ms either way", bound_ms);
    if (node->claim_false)
        note(notes, "it claims to be within %.3f ms, which is proven false",
             (double)facts->claimed_error_ns / 1e6);
    if (facts->heard && !facts->synchronized)
        note(notes, "its clock is not synchronized");
    if (facts->heard && !reading->claim.trusted && reading->claim.distrust[0])
        note(notes, "its bound is not to be trusted: %s", reading->claim.distrust);
    if (facts->has_horizon && facts->horizon_lead_ms < 0)
        note(notes, "its horizon ended %" PRId64 " ms ago", -facts->horizon_lead_ms);
    else if (facts->has_horizon && facts->horizon_lead_ms < 10000)
        note(notes, "its horizon ends in %" PRId64 " ms", facts->horizon_lead_ms);
    return notes;
}

static const char *state_of(const struct survey_node *node) {
    const struct clock_reading *reading = &node->member->reading;

    if (node->facts.heard && reading->claim.state[0])
        return reading->claim.state;
    if (!node->facts.heard)
        return "UNKNOWN";
    if (node->n_machine_ids == 0)
        return "CLAIMING";
    return node->facts.horizon_lead_ms < 0 ? "STARVED" : "SERVING";
}

/* Three digits after the point. */
static json_t *real(double value) {
    return json_real(value > -1e12 && value < 1e12 ? nearbyint(value * 1000) / 1000 : value);
}

/* A bound is never shown smaller than it is. */
static json_t *bound_ms(int64_t ns) {
    return report_ms(ns < INT64_MAX - 999 ? ns + 999 : ns);
}

static json_t *node_json(const struct survey_node *node) {
    const struct skew_facts *facts = &node->facts;
    const struct clock_reading *reading = &node->member->reading;
    bool heard = facts->heard;
    json_t *object = json_object(), *machine_ids = json_array();

    for (size_t i = 0; i < node->n_machine_ids; i++)
        fields_append(machine_ids, fields_from_number(node->machine_ids[i]));
    fields_put(object, "identity", report_text(node->member->node.identity));
    fields_put(object, "instance", json_string(node->member->instance));
    fields_put(object, "machine_id",
               node->n_machine_ids ? fields_from_number(node->machine_ids[0]) : json_null());
    fields_put(object, "machine_ids", machine_ids);
    fields_put(object, "state", json_string(state_of(node)));
    fields_put(object, "offset_ms",
               facts->has_offset ? report_ms(facts->skew.offset_ns) : json_null());
    fields_put(object, "bound_ms", heard ? bound_ms(node->skew.bound_ns) : json_null());
    fields_put(object, "uncertain", json_boolean(node->uncertain));
    fields_put(object, "claimed_error_ms",
               heard && facts->has_claim ? report_ms(facts->claimed_error_ns) : json_null());
    fields_put(object, "source", report_text(heard ? reading->claim.source : ""));
    fields_put(object, "trusted", heard ? json_boolean(reading->claim.trusted) : json_null());
    fields_put(object, "synchronized", heard ? json_boolean(facts->synchronized) : json_null());
    fields_put(object, "drift_ppm", node->has_drift ? real(node->drift.ppm) : json_null());
    fields_put(object, "drift_bound_ppm",
               node->has_drift ? real(node->drift.bound_ppm) : json_null());
    fields_put(object, "effective_minus_wall_ms",
               heard && reading->claim.has_effective ? real(reading->claim.effective_minus_wall_ms)
                                                     : json_null());
    fields_put(object, "horizon_lead_ms",
               facts->has_horizon ? json_integer(facts->horizon_lead_ms) : json_null());
    fields_put(object, "heard_ms",
               node->ever_heard ? fields_from_number(node->heard_ms) : json_null());
    fields_put(object, "falseticker", json_boolean(node->falseticker));
    fields_put(object, "claim_false", json_boolean(node->claim_false));
    fields_put(object, "verdict", json_string(skew_verdict_name(node->verdict)));
    fields_put(object, "reason",
               report_text(heard                ? ""
                           : reading->reason[0] ? reading->reason
                                                : "not asked yet"));
    fields_put(object, "notes", notes_of(node));
    return object;
}

static json_t *reference_json(const struct survey *survey) {
    json_t *reference;

    if (!survey->consensus.majority)
        return json_null();
    reference = json_object();
    fields_put(reference, "agreeing", fields_from_number(survey->consensus.agree));
    fields_put(reference, "clocks", fields_from_number(survey->consensus.used));
    fields_put(reference, "from_here_ms", report_ms(survey->consensus.reference_ns));
    return reference;
}

static json_t *fleet_json(const struct survey *survey) {
    json_t *fleet;

    if (survey->n_heard < 2)
        return json_null();
    fleet = json_object();
    fields_put(fleet, "at_least", report_ms(survey->fleet.at_least_ns));
    fields_put(fleet, "at_most", bound_ms(survey->fleet.at_most_ns));
    return fleet;
}

json_t *survey_json(const struct survey *survey, const struct cluster *cluster, const char *name,
                    uint64_t now_ms, const char *by) {
    static const char *const shared[] = {"era",   "mode",       "leader",
                                         "slots", "ceiling_ms", "ceiling_lead_s"};
    json_t *object = json_object(), *nodes = json_array(), *verdicts = json_object();
    json_t *status = report_status(cluster, name, now_ms);
    char measured[32];

    time_format(now_ms, measured);
    for (size_t i = 0; i < survey->n; i++)
        fields_append(nodes, node_json(&survey->nodes[i]));
    for (int i = SKEW_OK; i <= SKEW_UNKNOWN; i++)
        fields_put(verdicts, skew_verdict_name((enum skew_verdict)i),
                   fields_from_number(survey->verdicts[i]));
    fields_put(object, "schema", fields_from_number(SURVEY_SCHEMA));
    fields_put(object, "cluster", json_string(name));
    fields_put(object, "measured_at", json_string(measured));
    fields_put(object, "measured_by", json_string(by));
    fields_put(object, "reference", reference_json(survey));
    fields_put(object, "nodes", nodes);
    fields_put(object, "heard", fields_from_number(survey->n_heard));
    fields_put(object, "verdicts", verdicts);
    fields_put(object, "fleet_skew_ms", fleet_json(survey));
    fields_put(object, "incomplete", json_boolean(survey->incomplete));
    fields_put(object, "exit_code", json_integer(survey_exit_code(survey)));
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++)
        fields_put(object, shared[i], json_incref(json_object_get(status, shared[i])));
    json_decref(status);
    return object;
}
