/* registry.h - [pure] each slot's state: held, cooling, free, ahead or reserved; by whom.
 *
 * States are derived from the keys and the reader's clock, never stored. */
#ifndef SNOWFLEET_COMMON_REGISTRY_H
#define SNOWFLEET_COMMON_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/etcd.h"
#include "common/keys.h"
#include "common/records.h"

/* When several fit: HELD before RESERVED before ABSENT before the rest, so that a machine ID in use
 * is shown as such whatever else is wrong with it. */
enum slot_state {
    SLOT_ABSENT,   /* in range, but no hor key, or one that cannot be read: unusable */
    SLOT_RESERVED, /* out of range, or reserved */
    SLOT_HELD,     /* own exists */
    SLOT_FREE,     /* own gone, horizon + quiet time < now, floor < now */
    SLOT_COOLING,  /* own gone, not yet FREE */
    SLOT_AHEAD     /* own gone, horizon > now + max_window: usable when real time passes it; never
                      "reset" */
};
const char *slot_state_name(enum slot_state state); /* "HELD" */

struct slot {
    bool has_horizon; /* hor/NNNN exists and is well formed */
    struct horizon horizon;
    bool held;       /* own/NNNN exists, readable or not */
    struct own own;  /* empty strings when unreadable */
    char *own_value; /* as stored, allocated; NULL when not held */
    int64_t own_lease;
    uint64_t horizon_changed_boot_ms;  /* when this reader first saw this horizon value */
    bool horizon_applied, own_applied; /* since registry_reset_begin() */
};

/* Some 900 KiB: better not on a stack. */
struct registry {
    struct slot slots[MACHINE_IDS];
};

void registry_init(struct registry *registry);
void registry_done(struct registry *registry);
/* Takes in one key that was read or watched; keys that are neither hor/ nor own/ of a machine ID
 * are ignored.  value NULL: the key is gone.  boot_ms is now. */
void registry_apply(struct registry *registry, const struct keys *keys, const char *key,
                    const char *value, size_t value_len, int64_t lease, uint64_t boot_ms);
/* Around all keys as they are now, as ETCD_EVENT_RESET announces them: what is not applied between
 * the two is gone.  Until the end nothing else changes, and what comes again unchanged keeps its
 * horizon_changed_boot_ms. */
void registry_reset_begin(struct registry *registry);
void registry_reset_end(struct registry *registry, uint64_t boot_ms);

/* quiet_time_ms is given beside meta because it shrinks under pressure. */
enum slot_state registry_state(const struct registry *registry, const struct meta *meta,
                               uint64_t quiet_time_ms, uint16_t machine_id, uint64_t now_ms);
/* How long until the slot is FREE if nobody renews it: 0 now; UINT64_MAX when it cannot become
 * free by itself (reserved, out of range, no horizon).  For a held slot: as if its own key went
 * now. */
uint64_t registry_usable_in_ms(const struct registry *registry, const struct meta *meta,
                               uint64_t quiet_time_ms, uint16_t machine_id, uint64_t now_ms);

struct registry_counts {
    unsigned held, cooling, free, ahead, reserved, absent;
};
void registry_count(const struct registry *registry, const struct meta *meta,
                    uint64_t quiet_time_ms, uint64_t now_ms, struct registry_counts *counts);

#endif
