#include "coordinator/placement.h"

#include <stdio.h>
#include <string.h>

#include "common/decimal.h"

#define RETRY_MIN_MS 1000u
#define RETRY_MAX_MS 5000u /* a machine ID may be handed back long before it would come free */

void placement_claimed(struct placement *placement, uint16_t machine_id, const struct own *own) {
    memcpy(placement->last_identity[machine_id], own->identity, sizeof own->identity);
}

void placement_recall(struct placement *placement, uint16_t machine_id, const char *identity) {
    char *last = placement->last_identity[machine_id];

    if (last[0] == '\0')
        snprintf(last, sizeof placement->last_identity[machine_id], "%s", identity);
}

void placement_clear_promises(struct placement *placement) {
    memset(placement->promised_to, 0, sizeof placement->promised_to);
}

void placement_promise(struct placement *placement, const char *instance,
                       const uint16_t *machine_ids, size_t n) {
    for (size_t i = 0; i < n; i++)
        snprintf(placement->promised_to[machine_ids[i]], HEX128_CHARS + 1, "%s", instance);
}

static bool listed(const uint16_t *machine_ids, size_t n, uint16_t machine_id) {
    for (size_t i = 0; i < n; i++) {
        if (machine_ids[i] == machine_id)
            return true;
    }
    return false;
}

/* One search: what is asked, by whom, and when. */
struct search {
    const struct placement *placement;
    const struct registry *registry;
    const struct meta *meta;
    const char *instance;
    const struct node *node;
    uint64_t now_ms; /* not before the floor has passed */
    struct placement_answer *answer;
};

static bool eligible(const struct search *search, uint16_t machine_id) {
    const char *promised_to = search->placement->promised_to[machine_id];
    const struct node *node = search->node;

    return !listed(node->refused, node->n_refused, machine_id) &&
           !listed(search->answer->machine_ids, search->answer->n, machine_id) &&
           (promised_to[0] == '\0' || strcmp(promised_to, search->instance) == 0);
}

static bool in_state(const struct search *search, uint16_t machine_id, uint64_t quiet_time_ms,
                     enum slot_state state) {
    return registry_state(search->registry, search->meta, quiet_time_ms, machine_id,
                          search->now_ms) == state;
}

static bool complete(const struct search *search) {
    return search->answer->n >= search->node->missing || search->answer->n == RECORD_MACHINES_MAX;
}

static void take(const struct search *search, uint16_t machine_id) {
    search->answer->machine_ids[search->answer->n++] = machine_id;
}

/* Takes a machine ID that this worker has a reason to prefer. */
static void prefer(const struct search *search, uint16_t machine_id) {
    const char *last = search->placement->last_identity[machine_id];
    /* The quiet time keeps others away; it need not keep away the one who was there before. */
    bool was_there = last[0] == '\0' || strcmp(last, search->node->identity) == 0;

    if (complete(search) || !eligible(search, machine_id))
        return;
    if (in_state(search, machine_id, search->meta->quiet_time_ms, SLOT_FREE) ||
        (was_there && in_state(search, machine_id, 0, SLOT_FREE)))
        take(search, machine_id);
}

/* Takes the FREE machine ID whose horizon is oldest; false when there is none. */
static bool take_oldest(const struct search *search, uint64_t quiet_time_ms) {
    const struct slot *slots = search->registry->slots;
    unsigned oldest = MACHINE_IDS;

    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        if (oldest < MACHINE_IDS &&
            slots[id].horizon.horizon_ms >= slots[oldest].horizon.horizon_ms)
            continue;
        if (eligible(search, (uint16_t)id) &&
            in_state(search, (uint16_t)id, quiet_time_ms, SLOT_FREE))
            oldest = id;
    }
    if (oldest == MACHINE_IDS)
        return false;
    take(search, (uint16_t)oldest);
    return true;
}

/* "no machine ID free: 1024 held, next at ..." */
static void refuse(const struct search *search, uint64_t now_ms) {
    struct placement_answer *answer = search->answer;
    struct registry_counts counts;
    uint64_t soonest = UINT64_MAX;
    char next[32];

    registry_count(search->registry, search->meta, 0, search->now_ms, &counts);
    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        uint64_t wait;

        if (!eligible(search, (uint16_t)id))
            continue;
        wait = registry_usable_in_ms(search->registry, search->meta, 0, (uint16_t)id, now_ms);
        if (wait < soonest)
            soonest = wait;
    }
    if (soonest == UINT64_MAX) {
        snprintf(answer->refused, sizeof answer->refused,
                 "no machine ID free: %u held, all others reserved, refused or promised",
                 counts.held);
        answer->retry_after_ms = RETRY_MAX_MS;
        return;
    }
    time_format(now_ms + soonest, next);
    snprintf(answer->refused, sizeof answer->refused, "no machine ID free: %u held, next at %s",
             counts.held, next);
    answer->retry_after_ms = soonest < RETRY_MIN_MS   ? RETRY_MIN_MS
                             : soonest > RETRY_MAX_MS ? RETRY_MAX_MS
                                                      : soonest;
}

void placement_choose(const struct placement *placement, const struct registry *registry,
                      const struct meta *meta, const char *instance, const struct node *node,
                      uint64_t now_ms, struct placement_answer *answer) {
    const struct search search = {
        .placement = placement,
        .registry = registry,
        .meta = meta,
        .instance = instance,
        .node = node,
        .now_ms = now_ms > meta->floor_ms ? now_ms : meta->floor_ms + 1,
        .answer = answer,
    };

    *answer = (struct placement_answer){.n = 0};
    for (size_t i = 0; i < node->n_wanted; i++)
        prefer(&search, node->wanted[i]);
    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        if (strcmp(placement->last_identity[id], node->identity) == 0)
            prefer(&search, (uint16_t)id);
    }
    while (!complete(&search) && take_oldest(&search, meta->quiet_time_ms))
        ;
    while (!complete(&search) && take_oldest(&search, 0))
        ;
    if (answer->n == 0)
        refuse(&search, now_ms);
}
