#include "coordinator/clocks.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/allocate.h"
#include "common/prober.h"

/* Who answers at once is asked with few others, since every exchange makes those beside it slower, and
 * their bounds wider.  Who is far away mostly waits: many of these at a time are no more work, and with
 * few the round would take longer than what it found counts (1,000 workers of 100 ms, nine exchanges
 * each: 16 at a time are 56 s).  The first exchange of each, which does not count, spreads those that
 * were sent together: from then on each answer comes when it is due to be read.  Those who were silent
 * last time, and may be again until the time-out, must not keep the others waiting. */
static const unsigned at_a_time[] = {[MEMBER_NEAR] = 16, [MEMBER_SILENT] = 48, [MEMBER_FAR] = 128};
static_assert(CLOCKS_NEAR_AT_A_TIME == 16 + 48 && CLOCKS_FAR_AT_A_TIME == 128,
              "as told in clocks.h");
/* From a round trip of twice that. */
#define FAR_BOUND_NS INT64_C(5000000)
/* One that was never asked before, and is not done after that time, is far: a near one that waits for
 * 47 others takes 70 ms. */
#define FAR_AFTER_MS 200u
/* So many far ones begin together, and then none for a while: one whose bound was wide only because the
 * machine was busy is found to be near again. */
#define FAR_TOGETHER 16u
#define FAR_PAUSE_MS 50u

#define NS_PER_MS 1000000

struct clocks {
    struct clocks_config config;
    struct clock_watch watch;
    unsigned asking[MEMBER_FAR + 1];
    unsigned far_together; /* begun since ... */
    uint64_t far_begun_boot_ms;
    int64_t frequency_ppb; /* by which our own kernel corrects its clock */
    struct clocks_stats stats;
};

struct question {
    struct clocks *clocks;
    struct member *member;
};

struct clocks *clocks_new(const struct clocks_config *config) {
    struct clocks *clocks = allocate(1, sizeof *clocks);

    clocks->config = *config;
    clocks->frequency_ppb = CLOCK_FREQUENCY_UNKNOWN_PPB;
    return clocks;
}

void clocks_free(struct clocks *clocks) {
    free(clocks);
}

const struct clocks_stats *clocks_stats(const struct clocks *clocks) {
    return &clocks->stats;
}

int64_t clocks_rate_ppb(const struct clocks *clocks) {
    return TRACK_RATE_PPB + llabs(clocks->frequency_ppb);
}

static int64_t rate_ppb(const struct clocks *clocks, const struct member *member) {
    return clocks_rate_ppb(clocks) + llabs(member->reading.claim.frequency_ppb);
}

static void count(struct clocks *clocks, const struct clock_reading *reading) {
    struct clocks_stats *stats = &clocks->stats;

    stats->probes_total++;
    stats->failures_total += !reading->heard;
    stats->exchanges_total += reading->exchanges;
    stats->dropped_total += reading->dropped;
    stats->cold_total += reading->cold;
}

/* One that does not answer has still said what it said of itself. */
static void note(struct member *member, const struct clock_reading *reading) {
    struct clock_reading last = member->reading;

    member->reading = *reading;
    if (reading->exchanges > 0)
        return;
    member->reading.synchronized = last.synchronized;
    member->reading.knows_error = last.knows_error;
    member->reading.max_error_ns = last.max_error_ns;
    member->reading.claim = last.claim;
}

/* Takes in what the member's clock said. */
static void take(struct clocks *clocks, struct member *member) {
    const struct clock_reading *reading = &member->reading;

    if (reading->exchanges > 0 && clock_watch_step(&member->clock, reading->peer) != 0) {
        clocks->stats.steps_total++;
        track_reset(&member->track);
    }
    if (!reading->heard)
        return;
    member->heard_boot_ms = reading->boot_ms;
    if (!track_add(&member->track, &(struct track_sample){reading->skew, reading->sent_boot_ns},
                   rate_ppb(clocks, member)))
        clocks->stats.contradictions_total++;
}

static void on_probed(void *arg, const struct clock_reading *reading) {
    struct question *question = arg;
    struct clocks *clocks = question->clocks;
    struct member *member = question->member;

    clocks->asking[member->probing_as]--;
    member->probing = false;
    note(member, reading);
    member->probed_attempt = member->probing_attempt;
    count(clocks, reading);
    /* Our own clock was stepped since it was asked: then this is of another clock. */
    if (clock_watch_step(&clocks->watch, clock_now_ns(&clocks->config.clock)) != 0)
        clocks_void(clocks);
    else
        take(clocks, member);
    clocks->config.measured(clocks->config.arg, member);
    member->busy--;
    cluster_release(clocks->config.cluster, member);
    free(question);
}

/* What is to be expected of it, by the last time. */
static enum member_path path_of(const struct member *member) {
    if (!member->reading.heard)
        return MEMBER_SILENT;
    return member->reading.skew.bound_ns < FAR_BOUND_NS ? MEMBER_NEAR : MEMBER_FAR;
}

static bool has_room(const struct clocks *clocks, enum member_path path, uint64_t now) {
    if (path != MEMBER_FAR)
        return clocks->asking[path] < at_a_time[path];
    return clocks->asking[path] < clocks->config.far_at_a_time &&
           (clocks->far_together < FAR_TOGETHER || now - clocks->far_begun_boot_ms >= FAR_PAUSE_MS);
}

static void begin(struct clocks *clocks, enum member_path path, uint64_t now) {
    clocks->asking[path]++;
    if (path != MEMBER_FAR)
        return;
    if (now - clocks->far_begun_boot_ms >= FAR_PAUSE_MS) {
        clocks->far_begun_boot_ms = now;
        clocks->far_together = 0;
    }
    clocks->far_together++;
}

static void start(struct clocks *clocks, struct member *member, uint64_t now) {
    struct question *question = allocate(1, sizeof *question);

    *question = (struct question){clocks, member};
    member->probe_wanted = false;
    member->probing_attempt = member->node.attempt;
    member->probing_as = path_of(member);
    begin(clocks, member->probing_as, now);
    member->probing = true;
    member->probing_boot_ms = now;
    member->busy++;
    probe_clock(clocks->config.client, clocks->config.clock, member->node.addresses.http,
                clocks->config.timeout_ms, on_probed, question);
}

static bool has_address(const struct member *member) {
    return member->node.addresses.http[0] != '\0';
}

static void note_no_address(struct member *member, uint64_t now) {
    member->probe_wanted = false;
    member->reading = (struct clock_reading){.boot_ms = now, .reason = "no HTTP address"};
    member->probed_attempt = member->probing_attempt = member->node.attempt;
}

static bool due(const struct clocks *clocks, const struct member *member, uint64_t now) {
    if (!member->has_node || member->probing)
        return false;
    return member->probe_wanted || member->reading.boot_ms == 0 ||
           now - member->reading.boot_ms >= clocks->config.probe_interval_ms;
}

static bool goes_before(const struct member *member, const struct member *other) {
    if (member->probe_wanted != other->probe_wanted)
        return member->probe_wanted;
    return member->reading.boot_ms < other->reading.boot_ms;
}

/* Whoever waits longest goes first: in any fixed order those in front are due again before those at
 * the end had their turn, which then never comes. */
static struct member *next(const struct clocks *clocks, enum member_path path, uint64_t now) {
    const struct cluster *cluster = clocks->config.cluster;
    struct member *best = NULL;

    for (size_t i = 0; i < cluster->n_members; i++) {
        struct member *member = cluster->members[i];

        if (due(clocks, member, now) && has_address(member) && path_of(member) == path &&
            (!best || goes_before(member, best)))
            best = member;
    }
    return best;
}

/* Those that were never asked make room for others, once they are known to take long. */
static void find_far(struct clocks *clocks, uint64_t now) {
    const struct cluster *cluster = clocks->config.cluster;

    for (size_t i = 0; i < cluster->n_members; i++) {
        struct member *member = cluster->members[i];

        if (clocks->asking[MEMBER_FAR] >= clocks->config.far_at_a_time)
            return;
        if (member->probing && member->probing_as == MEMBER_SILENT &&
            member->reading.boot_ms == 0 && now - member->probing_boot_ms >= FAR_AFTER_MS) {
            clocks->asking[MEMBER_SILENT]--;
            clocks->asking[MEMBER_FAR]++;
            member->probing_as = MEMBER_FAR;
        }
    }
}

void clocks_void(struct clocks *clocks) {
    struct cluster *cluster = clocks->config.cluster;

    clocks->stats.own_steps_total++;
    for (size_t i = 0; i < cluster->n_members; i++) {
        cluster->members[i]->reading = (struct clock_reading){
            .heard = false, .reason = "the asker's own clock was stepped"};
        track_reset(&cluster->members[i]->track);
    }
}

void clocks_tick(struct clocks *clocks) {
    struct cluster *cluster = clocks->config.cluster;
    struct instant_ns now_ns = clock_now_ns(&clocks->config.clock);
    uint64_t now = clock_now(&clocks->config.clock).boot_ms;
    struct clock_quality quality;
    struct error unknown;

    if (clock_watch_step(&clocks->watch, now_ns) != 0)
        clocks_void(clocks);
    if (clocks->config.clock.quality &&
        clock_quality(&clocks->config.clock, &quality, &unknown) == STATUS_OK)
        clocks->frequency_ppb = quality.frequency_ppb;
    find_far(clocks, now);
    for (size_t i = 0; i < cluster->n_members; i++) {
        if (due(clocks, cluster->members[i], now) && !has_address(cluster->members[i]))
            note_no_address(cluster->members[i], now);
    }
    for (enum member_path path = MEMBER_NEAR; path <= MEMBER_FAR; path++) {
        struct member *member;

        while (has_room(clocks, path, now) && (member = next(clocks, path, now)))
            start(clocks, member, now);
    }
}

void clocks_ask(struct clocks *clocks, struct member *member) {
    uint64_t now = clock_now(&clocks->config.clock).boot_ms;

    if (member->probing)
        return;
    member->probe_wanted = true;
    if (!has_address(member))
        note_no_address(member, now);
    else if (has_room(clocks, path_of(member), now))
        start(clocks, member, now);
}

void clocks_ask_all(struct clocks *clocks) {
    struct cluster *cluster = clocks->config.cluster;

    for (size_t i = 0; i < cluster->n_members; i++)
        cluster->members[i]->probe_wanted = cluster->members[i]->has_node;
    clocks_tick(clocks);
}

bool clocks_idle(const struct clocks *clocks) {
    const struct cluster *cluster = clocks->config.cluster;

    for (size_t i = 0; i < cluster->n_members; i++) {
        const struct member *member = cluster->members[i];

        if (member->probing || (member->has_node && member->probe_wanted))
            return false;
    }
    return true;
}

static bool asked_lately(const struct member *member, uint64_t now) {
    return member->reading.boot_ms != 0 && now - member->reading.boot_ms <= CLOCKS_FRESH_MS;
}

bool clocks_all_asked(const struct clocks *clocks) {
    const struct cluster *cluster = clocks->config.cluster;
    uint64_t now = clock_now(&clocks->config.clock).boot_ms;

    for (size_t i = 0; i < cluster->n_members; i++) {
        if (cluster->members[i]->has_node && !asked_lately(cluster->members[i], now))
            return false;
    }
    return true;
}

bool clocks_skew(const struct clocks *clocks, const struct member *member, struct skew *skew) {
    struct instant_ns now = clock_now_ns(&clocks->config.clock);

    return member->heard_boot_ms != 0 &&
           (uint64_t)(now.boot_ns / NS_PER_MS) - member->heard_boot_ms <= CLOCKS_FRESH_MS &&
           track_at(&member->track, now.boot_ns, rate_ppb(clocks, member), skew);
}

struct consensus clocks_consensus(const struct clocks *clocks, uint64_t allowed_ms) {
    const struct cluster *cluster = clocks->config.cluster;
    struct skew *heard = allocate(cluster->n_members + 1, sizeof *heard);
    struct consensus consensus;
    size_t n = 1; /* our own, {0, 0} */

    for (size_t i = 0; i < cluster->n_members; i++) {
        const struct member *member = cluster->members[i];

        if (member->has_node && clocks_skew(clocks, member, &heard[n]))
            n++;
    }
    consensus = consensus_find(heard, n, (int64_t)allowed_ms * NS_PER_MS);
    free(heard);
    return consensus;
}

void clocks_survey(const struct clocks *clocks, struct survey *survey) {
    survey_take(survey, clocks->config.cluster,
                &(struct survey_config){.now = clock_now_ns(&clocks->config.clock),
                                        .fresh_ms = CLOCKS_FRESH_MS,
                                        .rate_ppb = clocks_rate_ppb(clocks),
                                        .own = true});
}
