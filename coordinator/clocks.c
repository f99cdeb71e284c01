#include "coordinator/clocks.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/allocate.h"
#include "common/prober.h"

#define AT_A_TIME 16u

struct clocks {
    struct clocks_config config;
    struct clock_watch watch;
    unsigned asking;
    int64_t rate_ppb; /* by how much two clocks may drift apart */
};

struct question {
    struct clocks *clocks;
    struct member *member;
};

struct clocks *clocks_new(const struct clocks_config *config) {
    struct clocks *clocks = allocate(1, sizeof *clocks);

    clocks->config = *config;
    clocks->rate_ppb = TRACK_RATE_PPB;
    return clocks;
}

void clocks_free(struct clocks *clocks) {
    free(clocks);
}

static void on_probed(void *arg, const struct clock_reading *reading) {
    struct question *question = arg;
    struct clocks *clocks = question->clocks;
    struct member *member = question->member;

    clocks->asking--;
    member->probing = false;
    member->reading = *reading;
    if (reading->heard)
        track_add(&member->track,
                  &(struct track_sample){reading->skew, (int64_t)reading->boot_ms * 1000000},
                  clocks->rate_ppb);
    member->probed_attempt = member->probing_attempt;
    clocks->config.measured(clocks->config.arg, member);
    member->busy--;
    cluster_release(clocks->config.cluster, member);
    free(question);
}

static void start(struct clocks *clocks, struct member *member) {
    struct question *question;

    member->probe_wanted = false;
    member->probing_attempt = member->node.attempt;
    if (!member->node.addresses.http[0]) {
        member->reading = (struct clock_reading){
            .boot_ms = clock_now(&clocks->config.clock).boot_ms, .reason = "no HTTP address"};
        member->probed_attempt = member->probing_attempt;
        return;
    }
    question = allocate(1, sizeof *question);
    *question = (struct question){clocks, member};
    clocks->asking++;
    member->probing = true;
    member->busy++;
    probe_clock(clocks->config.client, clocks->config.clock, member->node.addresses.http,
                CLOCKS_TIMEOUT_MS, on_probed, question);
}

static bool due(const struct clocks *clocks, const struct member *member, uint64_t now) {
    if (!member->has_node || member->probing)
        return false;
    return member->probe_wanted || member->reading.boot_ms == 0 ||
           now - member->reading.boot_ms >= clocks->config.probe_interval_ms;
}

void clocks_tick(struct clocks *clocks) {
    struct cluster *cluster = clocks->config.cluster;
    struct instant_ns now_ns = clock_now_ns(&clocks->config.clock);
    uint64_t now = clock_now(&clocks->config.clock).boot_ms;

    if (clock_watch_step(&clocks->watch, now_ns) != 0) {
        for (size_t i = 0; i < cluster->n_members; i++) {
            cluster->members[i]->reading = (struct clock_reading){.heard = false};
            track_reset(&cluster->members[i]->track);
        }
    }
    for (size_t i = 0; i < cluster->n_members && clocks->asking < AT_A_TIME; i++) {
        if (due(clocks, cluster->members[i], now))
            start(clocks, cluster->members[i]);
    }
}

void clocks_ask(struct clocks *clocks, struct member *member) {
    if (member->probing)
        return;
    member->probe_wanted = true;
    if (clocks->asking < AT_A_TIME)
        start(clocks, member);
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

    return member->reading.heard && asked_lately(member, (uint64_t)(now.boot_ns / 1000000)) &&
           track_at(&member->track, now.boot_ns, clocks->rate_ppb, skew);
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
    consensus = consensus_find(heard, n, (int64_t)allowed_ms * 1000000);
    free(heard);
    return consensus;
}
