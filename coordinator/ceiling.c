#include "coordinator/ceiling.h"

#include <assert.h>

#include "common/keys.h"

const char *ceiling_alarm_text(enum ceiling_alarm alarm) {
    switch (alarm) {
    case CEILING_FINE: return "";
    case CEILING_FEW_CLOCKS:
        return "fewer than three clocks agree: the ceiling rests on what few say";
    case CEILING_HELD_BACK:
        return "the clocks ran ahead of the boot time: the ceiling follows slowly";
    }
    return "";
}

/* The time on a clock that is offset_ns from ours; before 1970 and past the last ceiling it stops. */
static uint64_t time_there(uint64_t wall_ms, int64_t offset_ns) {
    int64_t offset_ms = offset_ns / 1000000;
    uint64_t apart = offset_ms < 0 ? (uint64_t)-offset_ms : (uint64_t)offset_ms;

    if (offset_ms < 0)
        return wall_ms > apart ? wall_ms - apart : 0;
    return wall_ms < CEILING_NONE - apart ? wall_ms + apart : CEILING_NONE;
}

struct ceiling_decision ceiling_decide(const struct ceiling *ceiling, struct instant now,
                                       const struct consensus *clocks, uint64_t stored_ms,
                                       uint64_t lead_ms) {
    struct ceiling_decision decision = {.raise = false};
    bool all_agree = clocks->agree == clocks->used;
    uint64_t consensus_ms;

    if (!clocks->found)
        return decision;
    /* When few clocks disagree, the one furthest behind: a ceiling that is too low is noticed a
     * whole lead before it hurts, one that is too high cannot be taken back. */
    consensus_ms = time_there(now.wall_ms, clocks->firm || all_agree ? clocks->reference_ns
                                                                     : clocks->earliest_ns);
    if (!clocks->firm)
        decision.alarm = CEILING_FEW_CLOCKS;
    if (ceiling->based && (ceiling->firm || !clocks->firm)) {
        uint64_t passed, most;

        assert(now.boot_ms >= ceiling->boot_ms);
        passed = now.boot_ms - ceiling->boot_ms;
        most = ceiling->consensus_ms + passed + CEILING_SLACK_MS;
        if (consensus_ms > most) {
            consensus_ms = most;
            decision.alarm = CEILING_HELD_BACK;
        }
    }
    decision.basis = (struct ceiling){.based = true,
                                      .firm = ceiling->firm || clocks->firm,
                                      .consensus_ms = consensus_ms,
                                      .boot_ms = now.boot_ms};
    decision.ceiling_ms = consensus_ms < CEILING_NONE - lead_ms ? consensus_ms + lead_ms
                                                                : CEILING_NONE - 1;
    decision.raise = decision.ceiling_ms > stored_ms;
    return decision;
}

void ceiling_raised(struct ceiling *ceiling, const struct ceiling_decision *decision) {
    assert(decision->raise);
    *ceiling = decision->basis;
}
