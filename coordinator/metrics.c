#include "coordinator/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "coordinator/report.h"

static void head(FILE *out, const char *name, const char *type, const char *help) {
    fprintf(out, "# HELP snowfleet_%s %s\n# TYPE snowfleet_%s %s\n", name, help, name, type);
}

static void counter(FILE *out, const char *name, uint64_t value, const char *help) {
    head(out, name, "counter", help);
    fprintf(out, "snowfleet_%s %" PRIu64 "\n", name, value);
}

static void gauge(FILE *out, const char *name, int64_t value, const char *help) {
    head(out, name, "gauge", help);
    fprintf(out, "snowfleet_%s %" PRId64 "\n", name, value);
}

static void write_cluster(FILE *out, const struct web *web, uint64_t now_ms) {
    const struct cluster *cluster = web->cluster;
    struct registry_counts slots;
    int64_t workers = 0;

    for (size_t i = 0; i < cluster->n_members; i++)
        workers += cluster->members[i]->has_node;
    gauge(out, "cluster_workers", workers, "Workers registered in etcd.");
    gauge(out, "cluster_open", cluster->has_meta && cluster->meta.mode == META_OPEN,
          "1 when machine IDs may be claimed; 0 when meta is missing or frozen.");
    if (cluster->has_ceil && cluster->ceil_ms != CEILING_NONE)
        gauge(out, "ceiling_lead_seconds", report_ceiling_lead_s(cluster, now_ms),
              "How far horizons may still rise without a coordinator.");
    if (!cluster->has_meta)
        return;
    registry_count(&cluster->registry, &cluster->meta, cluster->meta.quiet_time_ms, now_ms, &slots);
    head(out, "slots", "gauge", "Machine IDs by state.");
    fprintf(out,
            "snowfleet_slots{state=\"held\"} %u\nsnowfleet_slots{state=\"cooling\"} %u\n"
            "snowfleet_slots{state=\"free\"} %u\nsnowfleet_slots{state=\"ahead\"} %u\n"
            "snowfleet_slots{state=\"reserved\"} %u\nsnowfleet_slots{state=\"absent\"} %u\n",
            slots.held, slots.cooling, slots.free, slots.ahead, slots.reserved, slots.absent);
}

static void write_self(FILE *out, const struct web *web) {
    const struct assigner_stats *assigner = assigner_stats(web->assigner);
    const struct raiser_stats *raiser = raiser_stats(web->raiser);
    const struct etcd_http_stats *etcd = etcd_http_stats(web->etcd);

    head(out, "build_info", "gauge", "What this is; always 1.");
    fprintf(out, "snowfleet_build_info{version=\"%s\"} 1\n", SNOWFLEET_VERSION);
    gauge(out, "leader", election_leads(web->election), "1 when this coordinator leads.");
    counter(out, "assignments_total", assigner->assigned_total,
            "Requests answered with machine IDs.");
    counter(out, "assignments_refused_total", assigner->refused_total,
            "Requests for machine IDs that were refused.");
    counter(out, "assignments_refused_for_clock_total", assigner->skew_refused_total,
            "Of these: because of the worker's clock.");
    counter(out, "clock_confirmations_total", assigner->clocks_confirmed_total,
            "Orders that a worker's clock, which was stepped, is right.");
    counter(out, "evictions_total", evictor_stats(web->evictor)->evicted_total,
            "Machine IDs taken back from stuck holders.");
    counter(out, "ceiling_raises_total", raiser->raises_total, "Raises of the ceiling.");
    gauge(out, "ceiling_alarm", raiser->alarm != CEILING_FINE,
          "1 when the ceiling does not rest on three clocks that agree.");
    gauge(out, "rollback", rollback_alarm(web->rollback)[0] != '\0',
          "1 after etcd's history went back, until snowfleetctl recover has made a new era.");
    gauge(out, "etcd_reachable", etcd->failures_in_row == 0, "1 when etcd's last answer was good.");
    counter(out, "etcd_requests_total", etcd->requests, "Requests to etcd.");
    head(out, "etcd_request_seconds_total", "counter", "Time that requests to etcd took.");
    fprintf(out, "snowfleet_etcd_request_seconds_total %.6f\n", (double)etcd->request_us / 1e6);
    counter(out, "etcd_failures_total", etcd->failures, "Requests to etcd that failed.");
    counter(out, "etcd_unknown_total", etcd->unknown_outcomes,
            "Writes to etcd whose outcome is unknown.");
}

static void seconds(FILE *out, const char *name, int64_t ns, const char *help) {
    head(out, name, "gauge", help);
    fprintf(out, "snowfleet_%s %.9f\n", name, (double)ns / 1e9);
}

/* One sample for each worker that holds a machine ID; identities need no escaping (records.h). */
static void each(FILE *out, const struct survey *survey, const char *name, const char *help,
                 bool (*value)(const struct survey_node *node, double *number)) {
    head(out, name, "gauge", help);
    for (size_t i = 0; i < survey->n; i++) {
        const struct survey_node *node = &survey->nodes[i];
        double number;

        if (node->n_machine_ids > 0 && value(node, &number))
            fprintf(out, "snowfleet_%s{machine_id=\"%u\",node=\"%s\"} %.9g\n", name,
                    node->machine_ids[0], node->member->node.identity, number);
    }
}

static bool offset_of(const struct survey_node *node, double *number) {
    *number = (double)node->facts.skew.offset_ns / 1e9;
    return node->facts.has_offset;
}

static bool bound_of(const struct survey_node *node, double *number) {
    *number = (double)node->skew.bound_ns / 1e9;
    return node->facts.heard;
}

static bool drift_of(const struct survey_node *node, double *number) {
    *number = node->drift.ppm / 1e6;
    return node->facts.heard && node->has_drift;
}

static bool claimed_of(const struct survey_node *node, double *number) {
    *number = (double)node->facts.claimed_error_ns / 1e9;
    return node->facts.heard && node->facts.has_claim;
}

static bool verdict_of(const struct survey_node *node, double *number) {
    *number = (double)node->verdict;
    return true;
}

static void write_survey(FILE *out, const struct survey *survey) {
    const struct consensus *consensus = &survey->consensus;

    gauge(out, "consensus_clocks", (int64_t)consensus->agree,
          "Clocks that agree within the allowed offset, this coordinator's own among them.");
    gauge(out, "consensus_firm", consensus->firm,
          "1 when three and more clocks, and most of those heard, agree.");
    head(out, "skew_nodes", "gauge", "Workers by the verdict on their clocks.");
    for (int i = SKEW_OK; i <= SKEW_UNKNOWN; i++)
        fprintf(out, "snowfleet_skew_nodes{verdict=\"%s\"} %zu\n",
                skew_verdict_name((enum skew_verdict)i), survey->verdicts[i]);
    gauge(out, "skew_falsetickers", (int64_t)survey->falsetickers,
          "Workers whose clock is certainly further from the consensus than is allowed.");
    gauge(out, "skew_claims_false", (int64_t)survey->claims_false,
          "Workers whose own bound on their clock's error is proven false.");
    seconds(out, "skew_fleet_at_least_seconds", survey->fleet.at_least_ns,
            "By how much two workers' clocks differ for certain.");
    seconds(out, "skew_fleet_at_most_seconds", survey->fleet.at_most_ns,
            "By how much any two workers' clocks differ at most.");
    if (consensus->majority)
        seconds(out, "skew_own_offset_seconds", -consensus->reference_ns,
                "This coordinator's own clock from the consensus, positive: ahead.");
    each(out, survey, "node_offset_seconds",
         "A worker's clock from the consensus, positive: ahead; within node_offset_bound_seconds.",
         offset_of);
    each(out, survey, "node_offset_bound_seconds", "How far off node_offset_seconds may be.",
         bound_of);
    each(out, survey, "node_drift_ratio", "Drift of a worker's clock, as a fraction of time.",
         drift_of);
    each(out, survey, "node_claimed_error_seconds", "The bound that a worker claims for its clock.",
         claimed_of);
    each(out, survey, "node_verdict", "0 OK, 1 WARN, 2 CRIT, 3 UNKNOWN.", verdict_of);
}

static void write_probes(FILE *out, const struct web *web) {
    const struct clocks_stats *stats = clocks_stats(web->clocks);

    counter(out, "probes_total", stats->probes_total, "Times that a worker's clock was asked.");
    counter(out, "probe_failures_total", stats->failures_total,
            "Of these: nothing was learnt of the clock.");
    counter(out, "probe_exchanges_total", stats->exchanges_total, "Questions that were answered.");
    counter(out, "probe_dropped_total", stats->dropped_total,
            "Of these: dropped, since a clock was stepped meanwhile.");
    counter(out, "probe_cold_total", stats->cold_total,
            "Of these: over a connection that was not warm.");
    counter(out, "probe_contradictions_total", stats->contradictions_total,
            "Samples that exclude those before: a clock moves faster than 200 ppm.");
    counter(out, "worker_clock_steps_total", stats->steps_total,
            "Steps of workers' clocks that the probes saw.");
    counter(out, "clock_steps_total", stats->own_steps_total,
            "Steps of this coordinator's wall clock.");
    gauge(out, "skew_history_nodes", (int64_t)skew_history_nodes(web->history),
          "Workers of which there is a history.");
    counter(out, "skew_history_refused_total", skew_history_refused_total(web->history),
            "Points that were not kept, since there are more workers than there is room for.");
}

char *metrics_spell(const struct web *web) {
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    if (!out)
        abort();
    write_self(out, web);
    write_probes(out, web);
    if (web->cluster->has_meta) {
        struct survey survey;

        clocks_survey(web->clocks, &survey);
        write_survey(out, &survey);
        survey_done(&survey);
    }
    write_cluster(out, web, clock_now(&web->clock).wall_ms);
    if (fclose(out) != 0)
        abort();
    return text;
}
