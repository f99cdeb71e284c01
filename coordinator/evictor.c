#include "coordinator/evictor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/log.h"
#include "coordinator/presence.h"
#include "coordinator/reclaim.h"

#define LOOK_MS 1000u       /* all slots are looked at that often */
#define AT_A_TIME 4u        /* holders asked, or evicted, at the same time */
#define TIMEOUT_MS 2000u    /* of a holder's answer */
#define ASK_AGAIN_MS 10000u /* a holder that was not evicted */

struct evictor {
    struct evictor_config config;
    uint64_t next_look_boot_ms;
    uint64_t not_before_boot_ms[MACHINE_IDS]; /* of the next question */
    bool busy[MACHINE_IDS];
    unsigned n_busy;
    struct evictor_stats stats;
    struct log_repeat trouble;
};

/* One holder that is being dealt with. */
struct eviction {
    struct evictor *evictor;
    uint16_t machine_id;
    struct own own;
    char *own_value; /* as it was when the holder was asked, and so the horizon */
    struct horizon horizon;
    char reason[160]; /* what came of asking */
};

struct evictor *evictor_new(const struct evictor_config *config) {
    struct evictor *evictor = allocate(1, sizeof *evictor);

    evictor->config = *config;
    return evictor;
}

void evictor_free(struct evictor *evictor) {
    free(evictor);
}

const struct evictor_stats *evictor_stats(const struct evictor *evictor) {
    return &evictor->stats;
}

static uint64_t boot_now(const struct evictor *evictor) {
    return clock_now(&evictor->config.clock).boot_ms;
}

static struct reclaim judge(const struct evictor *evictor, uint16_t machine_id, uint64_t quiet_ms,
                            enum presence presence) {
    const struct cluster *cluster = evictor->config.cluster;
    const struct slot *slot = &cluster->registry.slots[machine_id];
    struct instant now = clock_now(&evictor->config.clock);

    return reclaim_judge(&cluster->registry, &cluster->meta, machine_id, quiet_ms, now.wall_ms,
                         now.boot_ms - slot->horizon_changed_boot_ms, presence);
}

static bool may_act(const struct evictor *evictor) {
    const struct cluster *cluster = evictor->config.cluster;

    return cluster->has_meta && cluster->meta.mode == META_OPEN &&
           election_leads(evictor->config.election);
}

static void finish(struct eviction *eviction) {
    struct evictor *evictor = eviction->evictor;

    evictor->busy[eviction->machine_id] = false;
    evictor->n_busy--;
    evictor->not_before_boot_ms[eviction->machine_id] = boot_now(evictor) + ASK_AGAIN_MS;
    free(eviction->own_value);
    free(eviction);
}

/* ---- taking it back ---- */

static void evicted(struct eviction *eviction, uint64_t now) {
    struct evictor *evictor = eviction->evictor;

    evictor->stats.evicted_total++;
    log_repeat_ended(&evictor->trouble, now, "evict", "evicts again");
    log_warn(
        "evict", "took a machine ID back from a stuck holder",
        LOG_INT("machine_id", eviction->machine_id), LOG_STR("identity", eviction->own.identity),
        LOG_STR("instance", eviction->own.instance), LOG_STR("claim", eviction->own.claim),
        LOG_STR("reason", eviction->reason), LOG_U64("horizon_ms", eviction->horizon.horizon_ms));
}

enum { READ_LEADER, READ_OWN, READ_HOR, READS };

/* The compare failed: somebody else leads, or the holder is back, or gone by itself. */
static void take_in(struct eviction *eviction, const char *const keys[READS],
                    const struct etcd_txn_result *result, uint64_t now) {
    struct evictor *evictor = eviction->evictor;
    const struct etcd_op_result *leader = &result->results[READ_LEADER];

    if (leader->n_kvs == 0 ||
        strcmp(leader->kvs[0].value, election_value(evictor->config.election)) != 0)
        election_doubt(evictor->config.election);
    for (size_t i = READ_OWN; i < READS; i++) {
        const struct etcd_kv *kv = result->results[i].n_kvs ? result->results[i].kvs : NULL;

        cluster_apply(evictor->config.cluster, keys[i], kv ? kv->value : NULL,
                      kv ? kv->value_len : 0, kv ? kv->lease : 0, now);
    }
}

static void on_deleted(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct eviction *eviction = arg;
    struct evictor *evictor = eviction->evictor;
    struct cluster *cluster = evictor->config.cluster;
    uint64_t now = boot_now(evictor);
    char own[KEY_MAX], hor[KEY_MAX];

    keys_own(&cluster->keys, eviction->machine_id, own);
    keys_hor(&cluster->keys, eviction->machine_id, hor);
    if (err) {
        /* Of unknown outcome it may be: then the watch shows it. */
        if (err->status != STATUS_CANCELLED)
            log_repeat_failed(&evictor->trouble, now, "evict", "cannot evict", err->message);
    } else if (result->succeeded) {
        cluster_apply(cluster, own, NULL, 0, 0, now);
        evicted(eviction, now);
    } else {
        take_in(eviction, (const char *const[READS]){cluster->keys.leader, own, hor}, result, now);
    }
    finish(eviction);
}

static void delete_own(struct eviction *eviction) {
    struct evictor *evictor = eviction->evictor;
    const struct etcd *etcd = &evictor->config.etcd;
    const struct keys *keys = &evictor->config.cluster->keys;
    char own[KEY_MAX], hor[KEY_MAX], horizon[HORIZON_TEXT_MAX];
    struct etcd_op delete = {.kind = ETCD_DELETE, .key = own};
    struct etcd_op reads[READS] = {[READ_LEADER] = {.kind = ETCD_RANGE, .key = keys->leader},
                                   [READ_OWN] = {.kind = ETCD_RANGE, .key = own},
                                   [READ_HOR] = {.kind = ETCD_RANGE, .key = hor}};
    struct etcd_compare compares[] = {
        {.kind = ETCD_VALUE_EQUAL,
         .key = keys->leader,
         .value = election_value(evictor->config.election)},
        {.kind = ETCD_VALUE_EQUAL, .key = own, .value = eviction->own_value},
        {.kind = ETCD_VALUE_EQUAL, .key = hor, .value = horizon},
    };

    keys_own(keys, eviction->machine_id, own);
    keys_hor(keys, eviction->machine_id, hor);
    horizon_format(&eviction->horizon, horizon);
    etcd->txn(etcd->self,
              &(struct etcd_txn){.compares = compares,
                                 .n_compares = sizeof compares / sizeof compares[0],
                                 .then = &delete,
                                 .n_then = 1,
                                 .otherwise = reads,
                                 .n_otherwise = READS},
              on_deleted, eviction);
}

/* ---- asking ---- */

static void on_asked(void *arg, enum presence presence, const char *reason) {
    struct eviction *eviction = arg;
    struct evictor *evictor = eviction->evictor;
    const struct cluster *cluster = evictor->config.cluster;
    const struct slot *slot = &cluster->registry.slots[eviction->machine_id];
    uint64_t quiet_ms;

    snprintf(eviction->reason, sizeof eviction->reason, "%s",
             presence == PRESENCE_NOT ? "it answers that it does not hold it" : reason);
    /* While it was asked, much can have changed. */
    if (presence == PRESENCE_NOT_ASKED || !may_act(evictor) || !slot->held ||
        strcmp(slot->own_value, eviction->own_value) != 0 ||
        !horizon_equal(&slot->horizon, &eviction->horizon)) {
        finish(eviction);
        return;
    }
    quiet_ms = reclaim_quiet_ms(&cluster->registry, &cluster->meta,
                                clock_now(&evictor->config.clock).wall_ms);
    if (judge(evictor, eviction->machine_id, quiet_ms, presence).verdict == RECLAIM_STUCK)
        delete_own(eviction);
    else
        finish(eviction);
}

static void start(struct evictor *evictor, uint16_t machine_id) {
    const struct slot *slot = &evictor->config.cluster->registry.slots[machine_id];
    struct eviction *eviction = allocate(1, sizeof *eviction);

    eviction->evictor = evictor;
    eviction->machine_id = machine_id;
    eviction->own = slot->own;
    eviction->own_value = allocate_copy(slot->own_value, strlen(slot->own_value));
    eviction->horizon = slot->horizon;
    evictor->busy[machine_id] = true;
    evictor->n_busy++;
    presence_ask(evictor->config.client, &eviction->own, TIMEOUT_MS, on_asked, eviction);
}

void evictor_tick(struct evictor *evictor) {
    const struct cluster *cluster = evictor->config.cluster;
    struct instant now = clock_now(&evictor->config.clock);
    uint64_t quiet_ms;

    if (now.boot_ms < evictor->next_look_boot_ms || !may_act(evictor))
        return;
    evictor->next_look_boot_ms = now.boot_ms + LOOK_MS;
    quiet_ms = reclaim_quiet_ms(&cluster->registry, &cluster->meta, now.wall_ms);
    for (unsigned id = 0; id < MACHINE_IDS && evictor->n_busy < AT_A_TIME; id++) {
        if (!cluster->registry.slots[id].held || evictor->busy[id] ||
            now.boot_ms < evictor->not_before_boot_ms[id])
            continue;
        if (judge(evictor, (uint16_t)id, quiet_ms, PRESENCE_NOT_ASKED).must_ask)
            start(evictor, (uint16_t)id);
    }
}
