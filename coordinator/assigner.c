#include "coordinator/assigner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/log.h"
#include "coordinator/placement.h"

#define RETRY_MS 1000u      /* after etcd gave no good answer */
#define SETTLE_MS 2000u     /* so long an answer waits for the clocks of others who just came */
#define ASK_AGAIN_MS 10000u /* for what somebody has to put right first */
#define CONFIRM_MS 60000u   /* so long a clock that was stepped counts as confirmed */

struct assigner {
    struct assigner_config config;
    struct placement placement;
    struct assigner_stats stats;
    struct log_repeat trouble;
};

/* An assignment on its way. */
struct errand {
    struct assigner *assigner;
    struct member *member;
    char key[KEY_MAX];
    char *value;
    bool for_clock; /* refused because of the worker's clock */
    bool confirms;  /* it orders that the worker's clock is right, and answers nothing */
};

struct assigner *assigner_new(const struct assigner_config *config) {
    struct assigner *assigner = allocate(1, sizeof *assigner);

    assigner->config = *config;
    return assigner;
}

void assigner_free(struct assigner *assigner) {
    free(assigner);
}

const struct assigner_stats *assigner_stats(const struct assigner *assigner) {
    return &assigner->stats;
}

void assigner_saw_own(struct assigner *assigner, uint16_t machine_id) {
    const struct slot *slot = &assigner->config.cluster->registry.slots[machine_id];

    if (slot->held && slot->own.identity[0])
        placement_claimed(&assigner->placement, machine_id, &slot->own);
}

/* ---- what to answer ---- */

/* What node records tell of claims that nobody here has seen. */
static void recall_holders(struct assigner *assigner) {
    const struct cluster *cluster = assigner->config.cluster;

    for (size_t i = 0; i < cluster->n_members; i++) {
        const struct node *node = &cluster->members[i]->node;

        for (size_t k = 0; k < node->n_held; k++)
            placement_recall(&assigner->placement, node->held[k], node->identity);
    }
}

/* The promises that stand: answers to requests that are still open, and those on their way. */
static void collect_promises(struct assigner *assigner) {
    const struct cluster *cluster = assigner->config.cluster;

    placement_clear_promises(&assigner->placement);
    for (size_t i = 0; i < cluster->n_members; i++) {
        const struct member *member = cluster->members[i];
        const struct assign *promise = member->assigning ? &member->offered : &member->assign;

        if (member->has_node && member->node.missing > 0 &&
            promise->attempt == member->node.attempt)
            placement_promise(&assigner->placement, member->instance, promise->machine_ids,
                              promise->n_machine_ids);
    }
}

static void refuse(struct assign *assign, uint64_t retry_after_ms, const char *reason) {
    snprintf(assign->refused, sizeof assign->refused, "%s", reason);
    assign->retry_after_ms = retry_after_ms;
}

/* Certainly too far from three clocks that agree?  Then *assign says so. */
static bool refuse_clock(const struct assigner *assigner, const struct member *member,
                         struct assign *assign) {
    uint64_t allowed_ms = assigner->config.cluster->meta.max_offset_ms;
    struct consensus consensus = clocks_consensus(assigner->config.clocks, allowed_ms);
    struct skew skew;
    char reason[RECORD_REASON_MAX];

    if (!clocks_skew(assigner->config.clocks, member, &skew) ||
        !consensus_refuses(&consensus, &skew, (int64_t)allowed_ms * 1000000))
        return false;
    skew = consensus_offset(&consensus, &skew);
    snprintf(reason, sizeof reason,
             "the clock is %+.3f ms (within %.3f ms) from the fleet's, %" PRIu64 " ms are allowed",
             (double)skew.offset_ns / 1e6, (double)skew.bound_ns / 1e6, allowed_ms);
    refuse(assign, ASK_AGAIN_MS, reason);
    return true;
}

static void choose(struct assigner *assigner, const struct member *member, struct assign *assign) {
    const struct cluster *cluster = assigner->config.cluster;
    struct placement_answer answer;

    recall_holders(assigner);
    collect_promises(assigner);
    placement_choose(&assigner->placement, &cluster->registry, &cluster->meta, member->instance,
                     &member->node, clock_now(&assigner->config.clock).wall_ms, &answer);
    if (answer.n == 0) {
        refuse(assign, answer.retry_after_ms, answer.refused);
        return;
    }
    assign->n_machine_ids = answer.n;
    memcpy(assign->machine_ids, answer.machine_ids, answer.n * sizeof answer.machine_ids[0]);
}

/* ---- and how it is written ---- */

static void log_answer(const struct member *member) {
    const struct assign *answer = &member->offered;
    char machine_ids[RECORD_MACHINES_MAX * 5 + 1] = "";
    size_t len = 0;

    if (answer->refused[0]) {
        /* It asks again and again: only the first of a row is news. */
        log_write(member->assign.refused[0] ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARN, "assign", "refused",
                  (const struct log_field[]){LOG_STR("identity", member->node.identity),
                                             LOG_STR("instance", member->instance),
                                             LOG_STR("reason", answer->refused),
                                             LOG_INT("retry_after_ms", answer->retry_after_ms)},
                  4);
        return;
    }
    for (size_t i = 0; i < answer->n_machine_ids; i++)
        len += (size_t)snprintf(machine_ids + len, sizeof machine_ids - len, "%s%u", i ? "," : "",
                                answer->machine_ids[i]);
    log_info("assign", "assigned", LOG_STR("machine_ids", machine_ids),
             LOG_STR("identity", member->node.identity), LOG_STR("instance", member->instance),
             LOG_U64("attempt", answer->attempt));
}

static void count(struct assigner *assigner, const struct errand *errand) {
    if (!errand->member->offered.refused[0])
        assigner->stats.assigned_total++;
    else
        assigner->stats.refused_total++;
    if (errand->for_clock)
        assigner->stats.skew_refused_total++;
}

/* The compare failed: we lead no longer, or somebody else wrote an order meanwhile. */
static void take_in(struct assigner *assigner, const struct errand *errand,
                    const struct etcd_txn_result *result, uint64_t boot_ms) {
    const struct etcd_op_result *leader = &result->results[0], *assign = &result->results[1];
    const char *mine = election_value(assigner->config.election);

    if (leader->n_kvs == 0 || strcmp(leader->kvs[0].value, mine) != 0)
        election_doubt(assigner->config.election);
    if (assign->n_kvs)
        cluster_apply(assigner->config.cluster, errand->key, assign->kvs[0].value,
                      assign->kvs[0].value_len, assign->kvs[0].lease, boot_ms);
    else
        cluster_apply(assigner->config.cluster, errand->key, NULL, 0, 0, boot_ms);
}

static void on_written(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct errand *errand = arg;
    struct assigner *assigner = errand->assigner;
    struct cluster *cluster = assigner->config.cluster;
    struct member *member = errand->member;
    uint64_t now = clock_now(&assigner->config.clock).boot_ms;

    if (err) {
        /* Unknown, or the worker's lease is gone: the watch or the next try's compare tells. */
        member->not_before_boot_ms = now + RETRY_MS;
        if (err->status != STATUS_NOT_FOUND && err->status != STATUS_CANCELLED)
            log_repeat_failed(&assigner->trouble, now, "assign", "cannot answer", err->message);
    } else if (result->succeeded) {
        log_repeat_ended(&assigner->trouble, now, "assign", "answers again");
        if (errand->confirms) {
            member->clock_confirmed = true;
            assigner->stats.clocks_confirmed_total++;
        } else {
            log_answer(member);
            count(assigner, errand);
        }
        cluster_apply(cluster, errand->key, errand->value, strlen(errand->value), member->lease,
                      now);
    } else {
        take_in(assigner, errand, result, now);
    }
    member->assigning = false;
    member->busy--;
    cluster_release(cluster, member);
    free(errand->value);
    free(errand);
}

static void write_assign(struct assigner *assigner, struct member *member, bool for_clock,
                         bool confirms) {
    const struct etcd *etcd = &assigner->config.etcd;
    const struct keys *keys = &assigner->config.cluster->keys;
    struct errand *errand = allocate(1, sizeof *errand);
    struct etcd_compare compares[2];
    struct etcd_op put, reads[2];

    *errand = (struct errand){
        .assigner = assigner, .member = member, .for_clock = for_clock, .confirms = confirms};
    errand->value = assign_format(&member->offered, member->assign_value);
    keys_assign(keys, member->instance, errand->key);
    compares[0] = (struct etcd_compare){.kind = ETCD_VALUE_EQUAL,
                                        .key = keys->leader,
                                        .value = election_value(assigner->config.election)};
    compares[1] = (struct etcd_compare){.kind = member->assign_value ? ETCD_VALUE_EQUAL
                                                                     : ETCD_ABSENT,
                                        .key = errand->key,
                                        .value = member->assign_value};
    /* With the worker's own lease: it goes with the worker, and fails when that is gone. */
    put = (struct etcd_op){
        .kind = ETCD_PUT, .key = errand->key, .value = errand->value, .lease = member->lease};
    reads[0] = (struct etcd_op){.kind = ETCD_RANGE, .key = keys->leader};
    reads[1] = (struct etcd_op){.kind = ETCD_RANGE, .key = errand->key};
    member->assigning = true;
    member->busy++;
    etcd->txn(etcd->self,
              &(struct etcd_txn){.compares = compares,
                                 .n_compares = 2,
                                 .then = &put,
                                 .n_then = 1,
                                 .otherwise = reads,
                                 .n_otherwise = 2},
              on_written, errand);
}

static void answer(struct assigner *assigner, struct member *member) {
    const struct meta *meta = &assigner->config.cluster->meta;
    struct assign *assign = &member->offered;
    bool for_clock = false;

    *assign = member->assign; /* orders stay */
    assign->attempt = member->node.attempt;
    assign->n_machine_ids = 0;
    assign->refused[0] = '\0';
    assign->retry_after_ms = 0;
    if (meta->mode == META_FROZEN) {
        char reason[RECORD_REASON_MAX];

        snprintf(reason, sizeof reason, "frozen: %.100s", meta->reason);
        refuse(assign, ASK_AGAIN_MS, reason);
    } else {
        for_clock = refuse_clock(assigner, member, assign);
        if (!for_clock)
            choose(assigner, member, assign);
    }
    write_assign(assigner, member, for_clock, false);
}

/* ---- a clock that was stepped ---- */

/* The time that all agree on who have no doubt of their own, this worker among them.  Enough are three
 * and more; or the two of us, when there is nobody else to ask. */
static bool agrees(const struct assigner *assigner, const struct member *member,
                   struct consensus *consensus) {
    const struct cluster *cluster = assigner->config.cluster;
    int64_t allowed_ns = (int64_t)cluster->meta.max_offset_ms * 1000000;
    struct skew *heard = allocate(cluster->n_members + 1, sizeof *heard);
    struct skew skew = {0, 0};
    size_t n = 1, others = 0; /* our own */
    bool known = clocks_skew(assigner->config.clocks, member, &skew);

    for (size_t i = 0; i < cluster->n_members; i++) {
        const struct member *other = cluster->members[i];

        if (!other->has_node)
            continue;
        others += other != member;
        if (other == member ||
            (!other->node.clock_unconfirmed && !other->reading.wants_confirmation))
            n += clocks_skew(assigner->config.clocks, other, &heard[n]);
    }
    *consensus = consensus_find(heard, n, allowed_ns);
    free(heard);
    if (!known || !consensus->found)
        return false;
    if (!consensus->firm && (others > 0 || consensus->used != 2 || consensus->agree != 2))
        return false;
    skew = consensus_offset(consensus, &skew);
    return llabs(skew.offset_ns) + skew.bound_ns <= allowed_ns;
}

/* Its clock as it is after the step: asked after we heard of it. */
static bool asked_since(struct assigner *assigner, struct member *member, uint64_t now) {
    uint64_t sent_ms = (uint64_t)(member->reading.sent_boot_ns / 1000000);

    if (member->reading.heard && sent_ms > member->unconfirmed_boot_ms)
        return true;
    if (member->reading.heard || now - member->reading.boot_ms >= RETRY_MS)
        clocks_ask(assigner->config.clocks, member);
    return false;
}

/* A worker whose clock was stepped asks whether its new time is right.  A yes is an order that holds for
 * a while, each time a later one; there is no no. */
static void confirm_clock(struct assigner *assigner, struct member *member) {
    struct instant now = clock_now(&assigner->config.clock);
    struct consensus consensus;
    uint64_t until_ms;
    int64_t now_ms;

    if (!member->node.clock_unconfirmed) {
        member->unconfirmed_boot_ms = 0;
        member->clock_confirmed = false;
        return;
    }
    if (member->unconfirmed_boot_ms == 0)
        member->unconfirmed_boot_ms = now.boot_ms;
    if (member->assigning || now.boot_ms < member->not_before_boot_ms ||
        !asked_since(assigner, member, now.boot_ms) || !agrees(assigner, member, &consensus))
        return;
    now_ms = (int64_t)now.wall_ms + consensus.reference_ns / 1000000;
    if (now_ms < 0 || (uint64_t)now_ms > RECORD_WALL_MAX_MS - CONFIRM_MS)
        return;
    until_ms = (uint64_t)now_ms + CONFIRM_MS;
    if (member->clock_confirmed && member->assign.clock_ok_until_ms + CONFIRM_MS / 2 > until_ms)
        return;
    if (until_ms <= member->assign.clock_ok_until_ms)
        until_ms = member->assign.clock_ok_until_ms + 1;
    if (until_ms > RECORD_WALL_MAX_MS)
        return;
    member->offered = member->assign;
    member->offered.clock_ok_until_ms = until_ms;
    log_info("clock", "confirmed", LOG_STR("identity", member->node.identity),
             LOG_STR("instance", member->instance), LOG_U64("until_ms", until_ms));
    write_assign(assigner, member, false, true);
}

void assigner_consider(struct assigner *assigner, struct member *member) {
    uint64_t now = clock_now(&assigner->config.clock).boot_ms;

    if (member->has_node && assigner->config.cluster->has_meta &&
        election_leads(assigner->config.election))
        confirm_clock(assigner, member);
    if (!member->has_node || member->node.missing == 0 || member->assigning ||
        member->assign.attempt == member->node.attempt || now < member->not_before_boot_ms)
        return;
    if (!assigner->config.cluster->has_meta || !election_leads(assigner->config.election))
        return;
    if (member->probed_attempt != member->node.attempt) {
        clocks_ask(assigner->config.clocks, member);
        return;
    }
    /* A consensus of those that happened to be heard first may not be one of three. */
    if (clocks_all_asked(assigner->config.clocks) || now - member->reading.boot_ms >= SETTLE_MS)
        answer(assigner, member);
}

void assigner_tick(struct assigner *assigner) {
    struct cluster *cluster = assigner->config.cluster;

    for (size_t i = 0; i < cluster->n_members; i++)
        assigner_consider(assigner, cluster->members[i]);
}
