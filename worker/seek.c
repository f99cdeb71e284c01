#include "worker/seek.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void seek_init(struct seek *seek, uint64_t assign_wait_ms, uint64_t retry_min_ms,
               uint64_t retry_max_ms) {
    memset(seek, 0, sizeof *seek);
    seek->assign_wait_ms = assign_wait_ms;
    seek->retry_min_ms = retry_min_ms;
    seek->retry_max_ms = retry_max_ms;
}

static void ask(struct seek *seek, struct instant now) {
    seek->attempt++;
    seek->asked_boot_ms = now.boot_ms;
    seek->asking = true;
    seek->n_candidates = 0;
}

void seek_need(struct seek *seek, struct instant now, unsigned missing) {
    bool more = missing > seek->missing;

    seek->missing = missing;
    if (more && !seek->alone)
        ask(seek, now);
}

void seek_settled(struct seek *seek) {
    seek->missing = 0;
    seek->asking = seek->alone = false;
    seek->n_candidates = 0;
    seek->failures = 0;
    seek->reason[0] = '\0';
    memset(seek->refused, 0, sizeof seek->refused);
}

void seek_assigned(struct seek *seek, struct instant now, const struct assign *assign) {
    if (!seek->asking || assign->attempt != seek->attempt)
        return;
    seek->asking = false;
    seek->alone = false;
    if (assign->n_machine_ids == 0) {
        seek->retry_boot_ms = now.boot_ms + (assign->retry_after_ms ? assign->retry_after_ms
                                                                    : seek->retry_max_ms);
        snprintf(seek->reason, sizeof seek->reason, "%s",
                 assign->refused[0] ? assign->refused : "the coordinator assigned nothing");
        memset(seek->refused, 0, sizeof seek->refused); /* what was unusable may be usable then */
        return;
    }
    seek->reason[0] = '\0';
    seek->n_candidates = assign->n_machine_ids;
    memcpy(seek->candidates, assign->machine_ids,
           assign->n_machine_ids * sizeof seek->candidates[0]);
}

void seek_suggest(struct seek *seek, uint16_t machine_id) {
    if (seek->n_candidates < RECORD_MACHINES_MAX)
        seek->candidates[seek->n_candidates++] = machine_id;
}

static void forget_candidate(struct seek *seek, uint16_t machine_id) {
    for (size_t i = 0; i < seek->n_candidates; i++)
        if (seek->candidates[i] == machine_id) {
            seek->n_candidates--;
            memmove(&seek->candidates[i], &seek->candidates[i + 1],
                    (seek->n_candidates - i) * sizeof seek->candidates[0]);
            return;
        }
}

void seek_unusable(struct seek *seek, uint16_t machine_id) {
    seek->refused[machine_id] = true;
    forget_candidate(seek, machine_id);
}

void seek_found(struct seek *seek, uint16_t machine_id) {
    forget_candidate(seek, machine_id);
    seek->failures = 0;
    seek->reason[0] = '\0';
}

void seek_pause(struct seek *seek, struct instant now, const char *reason) {
    uint64_t pause = seek->retry_max_ms;

    if (seek->failures < 16 && seek->retry_min_ms << seek->failures < pause)
        pause = seek->retry_min_ms << seek->failures;
    seek->failures++;
    seek->retry_boot_ms = now.boot_ms + pause;
    snprintf(seek->reason, sizeof seek->reason, "%s", reason);
}

void seek_resume(struct seek *seek) {
    seek->retry_boot_ms = 0;
    seek->failures = 0;
}

enum seek_move seek_next(struct seek *seek, struct instant now, uint16_t *machine_id,
                         uint64_t *wake_boot_ms) {
    *wake_boot_ms = now.boot_ms + 1000;
    if (seek->missing == 0)
        return SEEK_WAIT;
    if (now.boot_ms < seek->retry_boot_ms) {
        *wake_boot_ms = seek->retry_boot_ms;
        return SEEK_WAIT;
    }
    if (seek->n_candidates > 0) {
        *machine_id = seek->candidates[0];
        return SEEK_TRY;
    }
    if (seek->alone)
        return SEEK_CHOOSE;
    if (!seek->asking)
        ask(seek, now); /* what was assigned is used up, or the time to ask again has come */
    if (now.boot_ms - seek->asked_boot_ms < seek->assign_wait_ms) {
        *wake_boot_ms = seek->asked_boot_ms + seek->assign_wait_ms;
        return SEEK_WAIT;
    }
    seek->alone = true;
    return SEEK_CHOOSE;
}

static bool usable(const struct seek *seek, const struct registry *registry,
                   const struct meta *meta, uint64_t quiet_ms, uint16_t machine_id,
                   uint64_t now_ms) {
    return !seek->refused[machine_id] &&
           registry_state(registry, meta, quiet_ms, machine_id, now_ms) == SLOT_FREE;
}

/* Picks by the bits among those that are free under that quiet time. */
static bool pick(const struct seek *seek, const struct registry *registry, const struct meta *meta,
                 uint64_t quiet_ms, const uint16_t *wanted, size_t n_wanted, uint64_t random_bits,
                 uint64_t now_ms, uint16_t *machine_id) {
    uint16_t free_ones[MACHINE_IDS];
    size_t n = 0;

    for (size_t i = 0; i < n_wanted; i++)
        if (usable(seek, registry, meta, quiet_ms, wanted[i], now_ms)) {
            *machine_id = wanted[i];
            return true;
        }
    for (unsigned id = 0; id < MACHINE_IDS; id++)
        if (usable(seek, registry, meta, quiet_ms, (uint16_t)id, now_ms))
            free_ones[n++] = (uint16_t)id;
    if (n == 0)
        return false;
    *machine_id = free_ones[random_bits % n];
    return true;
}

bool seek_choose(struct seek *seek, struct instant now, const struct registry *registry,
                 const struct meta *meta, const uint16_t *wanted, size_t n_wanted,
                 uint64_t random_bits, uint16_t *machine_id) {
    struct registry_counts counts;
    struct meta unfenced = *meta;
    uint64_t soonest_ms = UINT64_MAX;
    char reason[RECORD_REASON_MAX];

    unfenced.floor_ms =
        0; /* a floor ahead is waited for on a slot, and is no reason to refuse it */
    if (pick(seek, registry, &unfenced, meta->quiet_time_ms, wanted, n_wanted, random_bits,
             now.wall_ms, machine_id) ||
        pick(seek, registry, &unfenced, 0, wanted, n_wanted, random_bits, now.wall_ms, machine_id))
        return true;
    registry_count(registry, meta, 0, now.wall_ms, &counts);
    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        uint64_t usable_ms = registry_usable_in_ms(registry, meta, 0, (uint16_t)id, now.wall_ms);

        if (usable_ms < soonest_ms)
            soonest_ms = usable_ms;
    }
    if (soonest_ms == UINT64_MAX)
        snprintf(reason, sizeof reason, "no machine ID free: %u held, and no other", counts.held);
    else
        snprintf(reason, sizeof reason, "no machine ID free: %u held, next in %" PRIu64 " ms",
                 counts.held, soonest_ms);
    memset(seek->refused, 0, sizeof seek->refused); /* what was unusable may be usable by then */
    seek_pause(seek, now, reason);
    return false;
}
