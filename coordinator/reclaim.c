#include "coordinator/reclaim.h"

#include <stdio.h>

const char *reclaim_verdict_name(enum reclaim_verdict verdict) {
    static const char *const names[RECLAIM_VERDICTS] = {
        [RECLAIM_FREE] = "FREE",     [RECLAIM_COOLING] = "COOLING", [RECLAIM_AHEAD] = "AHEAD",
        [RECLAIM_HELD] = "HELD",     [RECLAIM_STUCK] = "STUCK",     [RECLAIM_RESERVED] = "RESERVED",
        [RECLAIM_ABSENT] = "ABSENT",
    };

    return names[verdict];
}

uint64_t reclaim_quiet_ms(const struct registry *registry, const struct meta *meta,
                          uint64_t now_ms) {
    struct registry_counts counts;

    registry_count(registry, meta, meta->quiet_time_ms, now_ms, &counts);
    return counts.free > 0 ? meta->quiet_time_ms : 0;
}

/* How long until its horizon is past and has stood for the quiet time, if nobody moves it. */
static uint64_t stuck_in_ms(const struct slot *slot, uint64_t quiet_ms, uint64_t now_ms,
                            uint64_t unchanged_ms) {
    uint64_t past_ms = 0, still_ms = unchanged_ms < quiet_ms ? quiet_ms - unchanged_ms : 0;

    if (!slot->has_horizon)
        return UINT64_MAX;
    if (slot->horizon.horizon_ms >= now_ms)
        past_ms = slot->horizon.horizon_ms - now_ms + 1;
    return past_ms > still_ms ? past_ms : still_ms;
}

static void judge_held(const struct slot *slot, uint64_t quiet_ms, uint64_t now_ms,
                       uint64_t unchanged_ms, struct reclaim *reclaim) {
    bool gone = reclaim->presence == PRESENCE_NOT || reclaim->presence == PRESENCE_SILENT;

    reclaim->verdict = RECLAIM_HELD;
    reclaim->stuck_in_ms = stuck_in_ms(slot, quiet_ms, now_ms, unchanged_ms);
    if (reclaim->stuck_in_ms > 0)
        return;
    if (gone)
        reclaim->verdict = RECLAIM_STUCK;
    else
        reclaim->must_ask = reclaim->presence == PRESENCE_NOT_ASKED;
}

struct reclaim reclaim_judge(const struct registry *registry, const struct meta *meta,
                             uint16_t machine_id, uint64_t quiet_ms, uint64_t now_ms,
                             uint64_t unchanged_ms, enum presence presence) {
    struct reclaim reclaim = {
        .presence = presence,
        .usable_in_ms = registry_usable_in_ms(registry, meta, quiet_ms, machine_id, now_ms),
    };

    switch (registry_state(registry, meta, quiet_ms, machine_id, now_ms)) {
    case SLOT_HELD:
        judge_held(&registry->slots[machine_id], quiet_ms, now_ms, unchanged_ms, &reclaim);
        break;
    case SLOT_FREE: reclaim.verdict = RECLAIM_FREE; break;
    case SLOT_COOLING: reclaim.verdict = RECLAIM_COOLING; break;
    case SLOT_AHEAD: reclaim.verdict = RECLAIM_AHEAD; break;
    case SLOT_RESERVED: reclaim.verdict = RECLAIM_RESERVED; break;
    case SLOT_ABSENT: reclaim.verdict = RECLAIM_ABSENT; break;
    }
    return reclaim;
}

/* ---- in words ---- */

static const char *holder(const struct slot *slot) {
    return slot->own.identity[0] ? slot->own.identity : "somebody whose record cannot be read";
}

static const char *doing(enum presence presence) {
    switch (presence) {
    case PRESENCE_THERE: return "which serves it";
    case PRESENCE_NOT: return "which answers that it does not hold it";
    case PRESENCE_SILENT: return "which does not answer";
    case PRESENCE_UNCLEAR: return "whose answer is not a worker's";
    case PRESENCE_NOT_ASKED: break;
    }
    return "which was not asked";
}

static void usable(const struct reclaim *reclaim, char text[static 64]) {
    if (reclaim->usable_in_ms == UINT64_MAX)
        snprintf(text, 64, "not usable after that either");
    else if (reclaim->usable_in_ms == 0)
        snprintf(text, 64, "usable then at once");
    else
        snprintf(text, 64, "usable then in %.1f s", (double)reclaim->usable_in_ms / 1e3);
}

static void explain_held(const struct reclaim *reclaim, const struct slot *slot,
                         char text[static RECLAIM_TEXT_MAX]) {
    char then[64], stuck[64] = "";
    bool counts = reclaim->presence != PRESENCE_THERE && reclaim->stuck_in_ms > 0 &&
                  reclaim->stuck_in_ms != UINT64_MAX;

    usable(reclaim, then);
    if (counts)
        snprintf(stuck, sizeof stuck, "; stuck in %.1f s unless it goes on",
                 (double)reclaim->stuck_in_ms / 1e3);
    snprintf(text, RECLAIM_TEXT_MAX, "held by %s, %s%s; --force takes it, %s", holder(slot),
             doing(reclaim->presence), stuck, then);
}

static void explain_stuck(const struct reclaim *reclaim, const struct slot *slot, uint64_t now_ms,
                          char text[static RECLAIM_TEXT_MAX]) {
    char then[64];

    usable(reclaim, then);
    snprintf(text, RECLAIM_TEXT_MAX,
             "stuck: its horizon passed %.1f s ago, and it still belongs to %s, %s; --yes takes it "
             "back, %s",
             (double)(now_ms - slot->horizon.horizon_ms) / 1e3, holder(slot),
             doing(reclaim->presence), then);
}

void reclaim_explain(const struct reclaim *reclaim, const struct slot *slot, uint64_t now_ms,
                     char text[static RECLAIM_TEXT_MAX]) {
    double seconds = (double)reclaim->usable_in_ms / 1e3;

    switch (reclaim->verdict) {
    case RECLAIM_FREE:
        snprintf(text, RECLAIM_TEXT_MAX, "free: there is nothing to take back");
        break;
    case RECLAIM_COOLING:
        snprintf(text, RECLAIM_TEXT_MAX,
                 "cooling: nobody holds it, it comes free by itself in %.1f s", seconds);
        break;
    case RECLAIM_AHEAD:
        snprintf(text, RECLAIM_TEXT_MAX,
                 "ahead: its horizon lies %.1f s in the future, and it comes free when real time "
                 "passes that; a horizon is never set back",
                 (double)(slot->horizon.horizon_ms - now_ms) / 1e3);
        break;
    case RECLAIM_HELD: explain_held(reclaim, slot, text); break;
    case RECLAIM_STUCK: explain_stuck(reclaim, slot, now_ms, text); break;
    case RECLAIM_RESERVED:
        snprintf(text, RECLAIM_TEXT_MAX, "reserved or out of range: it is not given out");
        break;
    case RECLAIM_ABSENT:
        snprintf(text, RECLAIM_TEXT_MAX,
                 "its horizon is missing or cannot be read: it cannot be used");
        break;
    }
}
