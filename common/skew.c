#include "common/skew.h"

#include <assert.h>

#define NS_PER_MS INT64_C(1000000)
#define TIME_MAX_NS (INT64_MAX / 2)

static bool plausible(int64_t time_ns) {
    return time_ns >= 0 && time_ns <= TIME_MAX_NS;
}

bool skew_of_sample(const struct skew_sample *sample, struct skew *skew) {
    int64_t outside, inside, there, back;

    if (!plausible(sample->sent_ns) || !plausible(sample->received_ns) ||
        !plausible(sample->answered_ns) || !plausible(sample->returned_ns))
        return false;
    outside = sample->returned_ns - sample->sent_ns;
    inside = sample->answered_ns - sample->received_ns;
    if (outside < 0 || inside < 0 || outside < inside)
        return false;
    /* Each lies within +-INT64_MAX / 2, so halves can be added.  Halving each cuts off less than
     * 1 ns in all, and halving the delay half a ns: 2 ns more on the bound cover both. */
    there = sample->received_ns - sample->sent_ns;
    back = sample->answered_ns - sample->returned_ns;
    skew->offset_ns = there / 2 + back / 2;
    skew->bound_ns = (outside - inside) / 2 + 2;
    return true;
}

bool skew_best(const struct skew_sample *samples, size_t n, struct skew *best) {
    bool found = false;

    for (size_t i = 0; i < n; i++) {
        struct skew skew;

        if (skew_of_sample(&samples[i], &skew) && (!found || skew.bound_ns < best->bound_ns)) {
            *best = skew;
            found = true;
        }
    }
    return found;
}

/* INT64_MAX stands for everything beyond it. */
static int64_t add_up(int64_t a, int64_t b) {
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

struct skew_distance skew_between(const struct skew *a, const struct skew *b) {
    /* Within +-INT64_MAX, since each offset is within half of that. */
    int64_t difference = a->offset_ns - b->offset_ns;
    int64_t apart = difference < 0 ? -difference : difference;
    int64_t bounds = add_up(a->bound_ns, b->bound_ns);

    assert(a->bound_ns >= 0 && b->bound_ns >= 0);
    return (struct skew_distance){.at_least_ns = apart > bounds ? apart - bounds : 0,
                                  .at_most_ns = add_up(apart, bounds)};
}

struct skew_distance skew_fleet(const struct skew *clocks, size_t n) {
    struct skew_distance most = {0, 0};

    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + 1; j < n; j++) {
            struct skew_distance pair = skew_between(&clocks[i], &clocks[j]);

            if (pair.at_least_ns > most.at_least_ns)
                most.at_least_ns = pair.at_least_ns;
            if (pair.at_most_ns > most.at_most_ns)
                most.at_most_ns = pair.at_most_ns;
        }
    }
    return most;
}

const char *skew_verdict_name(enum skew_verdict verdict) {
    static const char *const names[] = {"OK", "WARN", "CRIT", "UNKNOWN"};

    return names[verdict];
}

static enum skew_verdict above(int64_t value, int64_t warn, int64_t crit) {
    return value > crit ? SKEW_CRIT : value > warn ? SKEW_WARN : SKEW_OK;
}

static enum skew_verdict worse(enum skew_verdict a, enum skew_verdict b) {
    return a > b ? a : b;
}

enum skew_verdict skew_judge_distance(struct skew_distance distance) {
    return above(distance.at_least_ns, 100 * NS_PER_MS, 500 * NS_PER_MS);
}

enum skew_verdict skew_judge(const struct skew_facts *facts) {
    const struct skew reference = {0, 0};
    enum skew_verdict verdict = SKEW_OK;

    if (!facts->heard)
        return SKEW_UNKNOWN;
    if (facts->has_offset)
        verdict = skew_judge_distance(skew_between(&facts->skew, &reference));
    /* Nothing disciplines an unsynchronized clock, so what the kernel claims for it is no bound. */
    if (!facts->synchronized)
        verdict = worse(verdict, SKEW_WARN);
    else if (facts->has_claim)
        verdict = worse(verdict, above(facts->claimed_error_ns, 250 * NS_PER_MS, 1000 * NS_PER_MS));
    if (facts->claim_false)
        verdict = worse(verdict, SKEW_WARN);
    if (facts->has_horizon) {
        if (facts->horizon_lead_ms < 0)
            verdict = SKEW_CRIT;
        else if (facts->horizon_lead_ms < 10000)
            verdict = worse(verdict, SKEW_WARN);
    }
    return verdict;
}

int skew_exit_code(const enum skew_verdict *verdicts, size_t n, bool incomplete) {
    bool crit = false, warn = false;

    for (size_t i = 0; i < n; i++) {
        crit = crit || verdicts[i] == SKEW_CRIT;
        warn = warn || verdicts[i] == SKEW_WARN;
    }
    if (crit)
        return SKEW_EXIT_CRIT;
    if (incomplete)
        return SKEW_EXIT_INCOMPLETE;
    return warn ? SKEW_EXIT_WARN : SKEW_EXIT_OK;
}
