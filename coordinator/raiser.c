#include "coordinator/raiser.h"

#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/log.h"

#define SETTLE_MS 5000u /* of a new term: that long the members' clocks may take to answer */
#define RETRY_MS 1000u

struct raiser {
    struct raiser_config config;
    struct ceiling ceiling;
    struct ceiling_decision decision; /* the last that was sent */
    bool sent;                        /* it is not known whether that was written */
    bool asked;                       /* a transaction is outstanding */
    uint64_t term;                    /* counts raiser_begin() */
    uint64_t asked_term;
    uint64_t begun_boot_ms, next_boot_ms;
    struct raiser_stats stats;
    struct log_repeat trouble;
};

struct raiser *raiser_new(const struct raiser_config *config) {
    struct raiser *raiser = allocate(1, sizeof *raiser);

    raiser->config = *config;
    return raiser;
}

void raiser_free(struct raiser *raiser) {
    free(raiser);
}

const struct raiser_stats *raiser_stats(const struct raiser *raiser) {
    return &raiser->stats;
}

void raiser_begin(struct raiser *raiser) {
    raiser->ceiling = (struct ceiling){.based = false};
    raiser->sent = false;
    raiser->term++;
    raiser->begun_boot_ms = clock_now(&raiser->config.clock).boot_ms;
    raiser->next_boot_ms = 0;
}

static void log_alarm(struct raiser *raiser, enum ceiling_alarm alarm) {
    if (alarm == raiser->stats.alarm)
        return;
    raiser->stats.alarm = alarm;
    if (alarm == CEILING_FINE)
        log_info("ceiling", "three clocks agree again", LOG_BOOL("alarm", false));
    else
        log_warn("ceiling", "alarm", LOG_STR("reason", ceiling_alarm_text(alarm)));
}

static void written(struct raiser *raiser) {
    raiser->sent = false;
    raiser->stats.raises_total++;
    log_repeat_ended(&raiser->trouble, clock_now(&raiser->config.clock).boot_ms, "ceiling",
                     "is raised again");
    ceiling_raised(&raiser->ceiling, &raiser->decision);
    raiser->next_boot_ms = clock_now(&raiser->config.clock).boot_ms + raiser->config.interval_ms;
    log_debug("ceiling", "raised", LOG_U64("ceiling_ms", raiser->decision.ceiling_ms));
}

static void on_written(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct raiser *raiser = arg;
    struct cluster *cluster = raiser->config.cluster;
    const char *mine = election_value(raiser->config.election);
    const struct etcd_op_result *leader, *ceil;
    uint64_t now = clock_now(&raiser->config.clock).boot_ms;
    bool same_term = raiser->asked_term == raiser->term;

    raiser->asked = false;
    if (err) {
        if (err->status != STATUS_UNKNOWN)
            raiser->sent = false;
        raiser->next_boot_ms = now + RETRY_MS;
        if (err->status != STATUS_CANCELLED)
            log_repeat_failed(&raiser->trouble, now, "ceiling", "cannot be raised", err->message);
        return;
    }
    if (result->succeeded) {
        char text[CEILING_TEXT_MAX];

        ceiling_format(raiser->decision.ceiling_ms, text);
        cluster_apply(cluster, cluster->keys.ceil, text, strlen(text), 0, now);
        if (same_term)
            written(raiser);
        return;
    }
    leader = &result->results[0];
    ceil = &result->results[1];
    if (leader->n_kvs == 0 || strcmp(leader->kvs[0].value, mine) != 0)
        election_doubt(raiser->config.election);
    cluster_apply(cluster, cluster->keys.ceil, ceil->n_kvs ? ceil->kvs[0].value : NULL,
                  ceil->n_kvs ? ceil->kvs[0].value_len : 0, 0, now);
}

static void write_ceiling(struct raiser *raiser) {
    const struct etcd *etcd = &raiser->config.etcd;
    const struct cluster *cluster = raiser->config.cluster;
    const struct keys *keys = &cluster->keys;
    const struct etcd_compare compares[] = {
        {.kind = ETCD_VALUE_EQUAL,
         .key = keys->leader,
         .value = election_value(raiser->config.election)},
        {.kind = ETCD_VALUE_EQUAL, .key = keys->ceil, .value = cluster->ceil_value},
    };
    const struct etcd_op reads[] = {
        {.kind = ETCD_RANGE, .key = keys->leader},
        {.kind = ETCD_RANGE, .key = keys->ceil},
    };
    char text[CEILING_TEXT_MAX];
    struct etcd_op put = {.kind = ETCD_PUT, .key = keys->ceil, .value = text};

    ceiling_format(raiser->decision.ceiling_ms, text);
    raiser->asked = raiser->sent = true;
    raiser->asked_term = raiser->term;
    etcd->txn(etcd->self,
              &(struct etcd_txn){.compares = compares,
                                 .n_compares = 2,
                                 .then = &put,
                                 .n_then = 1,
                                 .otherwise = reads,
                                 .n_otherwise = 2},
              on_written, raiser);
}

void raiser_tick(struct raiser *raiser) {
    const struct cluster *cluster = raiser->config.cluster;
    struct instant now = clock_now(&raiser->config.clock);
    struct ceiling_decision decision;
    struct consensus consensus;

    if (raiser->asked || now.boot_ms < raiser->next_boot_ms ||
        !election_leads(raiser->config.election))
        return;
    if (!cluster->has_meta || cluster->meta.mode != META_OPEN || !cluster->has_ceil)
        return;
    if (raiser->sent && cluster->ceil_ms == raiser->decision.ceiling_ms) {
        written(raiser); /* it arrived after all */
        return;
    }
    if (!raiser->ceiling.based && now.boot_ms - raiser->begun_boot_ms < SETTLE_MS &&
        !clocks_all_asked(raiser->config.clocks))
        return;
    consensus = clocks_consensus(raiser->config.clocks, cluster->meta.max_offset_ms);
    decision = ceiling_decide(&raiser->ceiling, now, &consensus, cluster->ceil_ms,
                              raiser->config.lead_ms);
    log_alarm(raiser, decision.alarm);
    if (!decision.raise) {
        raiser->next_boot_ms = now.boot_ms + raiser->config.interval_ms;
        return;
    }
    raiser->decision = decision;
    write_ceiling(raiser);
}
