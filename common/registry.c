#include "common/registry.h"

#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"

const char *slot_state_name(enum slot_state state) {
    switch (state) {
    case SLOT_ABSENT: return "ABSENT";
    case SLOT_RESERVED: return "RESERVED";
    case SLOT_HELD: return "HELD";
    case SLOT_FREE: return "FREE";
    case SLOT_COOLING: return "COOLING";
    case SLOT_AHEAD: return "AHEAD";
    }
    return "?";
}

void registry_init(struct registry *registry) {
    memset(registry, 0, sizeof *registry);
}

static void forget_own(struct slot *slot) {
    free(slot->own_value);
    slot->own_value = NULL;
    slot->own = (struct own){.claim = ""};
    slot->own_lease = 0;
    slot->held = false;
}

void registry_done(struct registry *registry) {
    size_t i;

    for (i = 0; i < MACHINE_IDS; i++)
        forget_own(&registry->slots[i]);
}

static void apply_horizon(struct slot *slot, const char *value, size_t len, uint64_t boot_ms) {
    struct horizon horizon = {.horizon_ms = 0};
    bool readable = value && horizon_parse(value, len, &horizon);

    slot->horizon_applied = true;
    if (readable == slot->has_horizon && horizon_equal(&horizon, &slot->horizon))
        return;
    slot->has_horizon = readable;
    slot->horizon = horizon;
    slot->horizon_changed_boot_ms = boot_ms;
}

static void apply_own(struct slot *slot, const char *value, size_t len, int64_t lease) {
    struct error unreadable; /* it still shows that the slot is held */

    slot->own_applied = true;
    forget_own(slot);
    if (!value)
        return;
    slot->held = true;
    slot->own_value = allocate_copy(value, len);
    slot->own_lease = lease;
    own_parse(value, len, &slot->own, &unreadable);
}

void registry_apply(struct registry *registry, const struct keys *keys, const char *key,
                    const char *value, size_t value_len, int64_t lease, uint64_t boot_ms) {
    uint16_t machine_id;

    if (keys_machine_id(keys->hor, key, &machine_id))
        apply_horizon(&registry->slots[machine_id], value, value_len, boot_ms);
    else if (keys_machine_id(keys->own, key, &machine_id))
        apply_own(&registry->slots[machine_id], value, value_len, lease);
}

void registry_reset_begin(struct registry *registry) {
    size_t i;

    for (i = 0; i < MACHINE_IDS; i++)
        registry->slots[i].horizon_applied = registry->slots[i].own_applied = false;
}

void registry_reset_end(struct registry *registry, uint64_t boot_ms) {
    size_t i;

    for (i = 0; i < MACHINE_IDS; i++) {
        struct slot *slot = &registry->slots[i];

        if (!slot->horizon_applied)
            apply_horizon(slot, NULL, 0, boot_ms);
        if (!slot->own_applied)
            forget_own(slot);
    }
}

/* A horizon may be any number: sums stop at the largest. */
static uint64_t add(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* The slot is free once real time is past this. */
static uint64_t free_after_ms(const struct slot *slot, const struct meta *meta,
                              uint64_t quiet_time_ms) {
    uint64_t quiet_ms = add(slot->horizon.horizon_ms, quiet_time_ms);

    return quiet_ms > meta->floor_ms ? quiet_ms : meta->floor_ms;
}

enum slot_state registry_state(const struct registry *registry, const struct meta *meta,
                               uint64_t quiet_time_ms, uint16_t machine_id, uint64_t now_ms) {
    const struct slot *slot = &registry->slots[machine_id];

    if (slot->held)
        return SLOT_HELD;
    if (!meta_usable(meta, machine_id))
        return SLOT_RESERVED;
    if (!slot->has_horizon)
        return SLOT_ABSENT;
    if (free_after_ms(slot, meta, quiet_time_ms) < now_ms)
        return SLOT_FREE;
    if (slot->horizon.horizon_ms > add(now_ms, meta->max_window_ms))
        return SLOT_AHEAD;
    return SLOT_COOLING;
}

uint64_t registry_usable_in_ms(const struct registry *registry, const struct meta *meta,
                               uint64_t quiet_time_ms, uint16_t machine_id, uint64_t now_ms) {
    const struct slot *slot = &registry->slots[machine_id];
    uint64_t after_ms = free_after_ms(slot, meta, quiet_time_ms);

    if (!meta_usable(meta, machine_id) || !slot->has_horizon || after_ms == UINT64_MAX)
        return UINT64_MAX;
    return after_ms < now_ms ? 0 : after_ms - now_ms + 1;
}

void registry_count(const struct registry *registry, const struct meta *meta,
                    uint64_t quiet_time_ms, uint64_t now_ms, struct registry_counts *counts) {
    uint16_t id;

    *counts = (struct registry_counts){.held = 0};
    for (id = 0; id < MACHINE_IDS; id++) {
        switch (registry_state(registry, meta, quiet_time_ms, id, now_ms)) {
        case SLOT_ABSENT: counts->absent++; break;
        case SLOT_RESERVED: counts->reserved++; break;
        case SLOT_HELD: counts->held++; break;
        case SLOT_FREE: counts->free++; break;
        case SLOT_COOLING: counts->cooling++; break;
        case SLOT_AHEAD: counts->ahead++; break;
        }
    }
}
