/* snowfleetctl skew: asks every worker's clock and says how far they are apart.  Needs no
 * coordinator. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/decimal.h"
#include "common/fields.h"
#include "coordinator/consensus.h"
#include "coordinator/ctl.h"
#include "coordinator/ctl_output.h"
#include "coordinator/ctl_session.h"
#include "common/prober.h"
#include "coordinator/report.h"

#define SCHEMA 1
#define TIMEOUT_MS 2000u
#define AT_A_TIME 16u

static const struct option options[] = {{.name = NULL}};

struct node_skew {
    const struct member *member;
    bool has_machine_id;
    uint16_t machine_id; /* the lowest that it holds */
    struct clock_reading reading;
    struct skew_facts facts;
    enum skew_verdict verdict;
};

struct survey {
    struct ctl_session *session;
    struct node_skew *nodes;
    size_t n, n_begun, n_heard;
    unsigned asking;
    bool done; /* all have been asked */

    struct consensus consensus;
    struct skew_distance fleet;
    bool incomplete;
};

/* ---- asking ---- */

struct question {
    struct survey *survey;
    struct node_skew *node;
};

static void ask_next(struct survey *survey);

static void on_probed(void *arg, const struct clock_reading *reading) {
    struct question *question = arg;
    struct survey *survey = question->survey;

    question->node->reading = *reading;
    free(question);
    survey->asking--;
    ask_next(survey);
}

static void ask_next(struct survey *survey) {
    struct ctl_session *session = survey->session;

    while (survey->n_begun < survey->n && survey->asking < AT_A_TIME) {
        struct node_skew *node = &survey->nodes[survey->n_begun++];
        struct question *question;

        if (!node->member->node.addresses.http[0]) {
            snprintf(node->reading.reason, sizeof node->reading.reason, "no HTTP address");
            continue;
        }
        question = allocate(1, sizeof *question);
        *question = (struct question){survey, node};
        survey->asking++;
        probe_clock(session->client, session->clock, node->member->node.addresses.http, TIMEOUT_MS,
                    on_probed, question);
    }
    survey->done = survey->n_begun == survey->n && survey->asking == 0;
}

static void ask_all(struct survey *survey) {
    const struct cluster *cluster = survey->session->cluster;

    survey->nodes = allocate(cluster->n_members, sizeof *survey->nodes);
    for (size_t i = 0; i < cluster->n_members; i++) {
        if (cluster->members[i]->has_node)
            survey->nodes[survey->n++].member = cluster->members[i];
    }
    ask_next(survey);
    ctl_wait(survey->session, &survey->done);
}

/* ---- judging ---- */

static void compare_clocks(struct survey *survey) {
    struct skew *heard = allocate(survey->n, sizeof *heard);

    for (size_t i = 0; i < survey->n; i++) {
        if (survey->nodes[i].reading.heard)
            heard[survey->n_heard++] = survey->nodes[i].reading.skew;
    }
    survey->incomplete = survey->n_heard < survey->n || survey->n == 0;
    survey->consensus = consensus_find(
        heard, survey->n_heard, (int64_t)survey->session->cluster->meta.max_offset_ms * 1000000);
    survey->fleet = skew_fleet(heard, survey->n_heard);
    free(heard);
}

/* The machine IDs that it holds: the lowest, and how far the least of their horizons is ahead. */
static void look_at_slots(const struct survey *survey, struct node_skew *node, uint64_t now_ms) {
    const struct cluster *cluster = survey->session->cluster;
    uint16_t held[MACHINE_IDS];
    size_t n = report_held_by(cluster, node->member->instance, held);

    for (size_t i = 0; i < n; i++) {
        const struct slot *slot = &cluster->registry.slots[held[i]];
        int64_t lead_ms;

        if (!slot->has_horizon || slot->horizon.horizon_ms > INT64_MAX / 2)
            continue;
        lead_ms = (int64_t)slot->horizon.horizon_ms - (int64_t)now_ms;
        if (!node->facts.has_horizon || lead_ms < node->facts.horizon_lead_ms)
            node->facts.horizon_lead_ms = lead_ms;
        node->facts.has_horizon = true;
    }
    node->has_machine_id = n > 0;
    node->machine_id = n > 0 ? held[0] : 0;
}

/* Without a majority nobody is accused; but nobody is said to be right either, when they are
 * certainly apart. */
static void judge(struct survey *survey, struct node_skew *node) {
    struct skew_facts *facts = &node->facts;

    facts->heard = node->reading.heard;
    facts->has_offset = facts->heard && survey->consensus.majority;
    if (facts->has_offset)
        facts->skew = consensus_offset(&survey->consensus, &node->reading.skew);
    facts->synchronized = node->reading.synchronized;
    facts->claimed_error_ns = node->reading.max_error_ns;
    node->verdict = skew_judge(facts);
    if (!survey->consensus.majority && node->verdict != SKEW_CRIT &&
        skew_judge_distance(survey->fleet) != SKEW_OK)
        node->verdict = SKEW_UNKNOWN;
}

static int rank(const struct node_skew *node) {
    static const int ranks[] = {
        [SKEW_CRIT] = 0, [SKEW_UNKNOWN] = 1, [SKEW_WARN] = 2, [SKEW_OK] = 3};

    return ranks[node->verdict];
}

static int worst_first(const void *a, const void *b) {
    const struct node_skew *left = a, *right = b;
    long long left_ns = llabs(left->facts.skew.offset_ns),
              right_ns = llabs(right->facts.skew.offset_ns);

    if (rank(left) != rank(right))
        return rank(left) - rank(right);
    if (left_ns != right_ns)
        return left_ns > right_ns ? -1 : 1;
    return strcmp(left->member->node.identity, right->member->node.identity);
}

static void judge_all(struct survey *survey, uint64_t measured_ms) {
    /* Horizons are judged by the clocks' consensus, not by this machine's own. */
    uint64_t now_ms = measured_ms;

    if (survey->consensus.majority)
        now_ms = (uint64_t)((int64_t)measured_ms + survey->consensus.reference_ns / 1000000);
    for (size_t i = 0; i < survey->n; i++) {
        look_at_slots(survey, &survey->nodes[i], now_ms);
        judge(survey, &survey->nodes[i]);
    }
    qsort(survey->nodes, survey->n, sizeof *survey->nodes, worst_first);
}

/* ---- showing ---- */

static const struct output_column columns[] = {
    {"identity", "WORKER", false},
    {"machine_id", "MACHINE ID", true},
    {"offset_ms", "OFFSET MS", true},
    {"bound_ms", "BOUND MS", true},
    {"claimed_error_ms", "CLAIMED MS", true},
    {"synchronized", "SYNCHRONIZED", false},
    {"verdict", "VERDICT", false},
    {"reason", "REASON", false},
};

static json_t *show_node(const struct node_skew *node) {
    const struct skew_facts *facts = &node->facts;
    bool heard = facts->heard;
    json_t *object = json_object();

    fields_put(object, "identity", report_text(node->member->node.identity));
    fields_put(object, "machine_id",
               node->has_machine_id ? fields_from_number(node->machine_id) : json_null());
    fields_put(object, "offset_ms",
               facts->has_offset ? report_ms(facts->skew.offset_ns) : json_null());
    fields_put(object, "bound_ms", heard ? report_ms(node->reading.skew.bound_ns) : json_null());
    fields_put(object, "claimed_error_ms",
               heard ? report_ms(facts->claimed_error_ns) : json_null());
    fields_put(object, "synchronized", heard ? json_boolean(facts->synchronized) : json_null());
    fields_put(object, "verdict", json_string(skew_verdict_name(node->verdict)));
    fields_put(object, "reason", report_text(heard ? "" : node->reading.reason));
    return object;
}

static json_t *show(const struct survey *survey, uint64_t measured_ms) {
    json_t *object = json_object(), *nodes = json_array(), *reference = json_null();
    json_t *fleet = json_null();
    char measured[32];

    time_format(measured_ms, measured);
    for (size_t i = 0; i < survey->n; i++)
        fields_append(nodes, show_node(&survey->nodes[i]));
    if (survey->consensus.majority) {
        reference = json_object();
        fields_put(reference, "agreeing", fields_from_number(survey->consensus.agree));
        fields_put(reference, "heard", fields_from_number(survey->n_heard));
        fields_put(reference, "from_here_ms", report_ms(survey->consensus.reference_ns));
    }
    if (survey->n_heard > 1) {
        fleet = json_object();
        fields_put(fleet, "at_least", report_ms(survey->fleet.at_least_ns));
        fields_put(fleet, "at_most", report_ms(survey->fleet.at_most_ns));
    }
    fields_put(object, "schema", fields_from_number(SCHEMA));
    fields_put(object, "measured_at", json_string(measured));
    fields_put(object, "reference", reference);
    fields_put(object, "nodes", nodes);
    fields_put(object, "fleet_skew_ms", fleet);
    fields_put(object, "incomplete", json_boolean(survey->incomplete));
    return object;
}

/* What the table cannot say, in a sentence or two. */
static void summarise(const struct survey *survey) {
    double at_least = (double)survey->fleet.at_least_ns / 1e6;
    double at_most = (double)survey->fleet.at_most_ns / 1e6;

    if (survey->n == 0)
        puts("no worker is registered");
    else if (survey->n_heard < survey->n)
        printf("incomplete: %zu of %zu workers did not answer\n", survey->n - survey->n_heard,
               survey->n);
    if (survey->n_heard < 2)
        return;
    if (survey->n_heard == 2)
        printf("they differ by %.3f to %.3f ms; two clocks cannot say which of them is wrong\n",
               at_least, at_most);
    else if (!survey->consensus.majority)
        printf("they differ by %.3f to %.3f ms; no majority agrees, so none is taken for right\n",
               at_least, at_most);
    else
        printf("%zu of %zu agree; any two differ by at most %.3f ms, the worst by at least %.3f "
               "ms\n",
               survey->consensus.agree, survey->n_heard, at_most, at_least);
}

static int exit_code(const struct survey *survey) {
    enum skew_verdict *verdicts = allocate(survey->n + 1, sizeof *verdicts);
    int code;

    for (size_t i = 0; i < survey->n; i++)
        verdicts[i] = survey->nodes[i].verdict;
    verdicts[survey->n] = survey->consensus.majority ? SKEW_OK : skew_judge_distance(survey->fleet);
    code = skew_exit_code(verdicts, survey->n + 1, survey->incomplete);
    free(verdicts);
    return code;
}

static int report(struct ctl_session *session, const struct ctl_values *values) {
    struct survey survey = {.session = session};
    uint64_t measured_ms;
    json_t *shown;
    int code;

    ask_all(&survey);
    measured_ms = clock_now(&session->clock).wall_ms;
    compare_clocks(&survey);
    judge_all(&survey, measured_ms);
    shown = show(&survey, measured_ms);
    if (values->output == CTL_JSON) {
        output_json(shown);
    } else {
        output_table(columns, sizeof columns / sizeof columns[0], json_object_get(shown, "nodes"));
        summarise(&survey);
        json_decref(shown);
    }
    code = exit_code(&survey);
    free(survey.nodes);
    return code;
}

static int run(const struct ctl_values *values, char *const *operands, struct error *err) {
    struct ctl_session session;
    int code = SKEW_EXIT_INCOMPLETE;

    (void)operands;
    if (ctl_open(&session, values, err) != STATUS_OK)
        return CTL_USAGE;
    if (ctl_read_initialised(&session, err) == STATUS_OK)
        code = report(&session, values);
    else
        ctl_note("%s", err->message);
    ctl_close(&session);
    return code;
}

const struct ctl_command ctl_skew = {
    .name = "skew",
    .operands = "",
    .summary = "Measures how far the workers' clocks are apart, with bounds.",
    .options = options,
    .run = run,
};
