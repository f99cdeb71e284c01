#include "coordinator/consensus.h"

#include <assert.h>
#include <stdlib.h>

#include "common/allocate.h"

/* Offsets of more than 73 years are left out, so that sums below cannot overflow. */
#define OFFSET_MAX_NS (INT64_MAX / 4)

struct edge {
    int64_t at_ns;
    int opens; /* 1: an interval begins here; -1: it ends here */
};

static int compare_edges(const void *a, const void *b) {
    const struct edge *left = a, *right = b;

    if (left->at_ns != right->at_ns)
        return left->at_ns < right->at_ns ? -1 : 1;
    return right->opens - left->opens; /* touching intervals share the point */
}

/* What most intervals share: how many, and from the first such point to the last one. */
struct shared {
    size_t most;
    int64_t first_ns, last_ns;
};

static struct shared sweep(const struct skew *clocks, size_t n, int64_t widening_ns,
                           struct edge *edges) {
    struct shared shared = {0, 0, 0};
    size_t open = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t reach = clocks[i].bound_ns + widening_ns;

        edges[2 * i] = (struct edge){clocks[i].offset_ns - reach, 1};
        edges[2 * i + 1] = (struct edge){clocks[i].offset_ns + reach, -1};
    }
    qsort(edges, 2 * n, sizeof edges[0], compare_edges);
    for (size_t i = 0; i < 2 * n; i++) {
        if (edges[i].opens > 0) {
            open++;
            if (open > shared.most) {
                shared.most = open;
                shared.first_ns = edges[i].at_ns;
            }
        } else {
            if (open == shared.most)
                shared.last_ns = edges[i].at_ns;
            open--;
        }
    }
    return shared;
}

/* Several places shared by equally many count as one, from the first to the last: they are near
 * each other, since any two majorities have a clock in common. */
static int64_t find_reference(const struct skew *clocks, size_t n) {
    struct edge *edges = allocate(2 * n, sizeof *edges);
    size_t majority = n / 2 + 1;
    int64_t too_little = -1, enough = 2 * OFFSET_MAX_NS; /* then all of them meet */
    struct shared shared;

    while (enough - too_little > 1) {
        int64_t middle = too_little + (enough - too_little) / 2;

        if (sweep(clocks, n, middle, edges).most >= majority)
            enough = middle;
        else
            too_little = middle;
    }
    shared = sweep(clocks, n, enough, edges);
    free(edges);
    return shared.first_ns + (shared.last_ns - shared.first_ns) / 2;
}

static bool usable(const struct skew *clock, int64_t allowed_ns) {
    return clock->bound_ns <= allowed_ns && clock->offset_ns <= OFFSET_MAX_NS &&
           clock->offset_ns >= -OFFSET_MAX_NS;
}

struct consensus consensus_find(const struct skew *clocks, size_t n, int64_t allowed_ns) {
    struct consensus consensus = {.found = false};
    struct skew *used = allocate(n, sizeof *used);

    assert(allowed_ns >= 0 && allowed_ns <= OFFSET_MAX_NS / 4);
    for (size_t i = 0; i < n; i++) {
        if (!usable(&clocks[i], allowed_ns))
            continue;
        if (consensus.used == 0 || clocks[i].offset_ns < consensus.earliest_ns)
            consensus.earliest_ns = clocks[i].offset_ns;
        used[consensus.used++] = clocks[i];
    }
    if (consensus.used > 0) {
        consensus.found = true;
        consensus.reference_ns = find_reference(used, consensus.used);
        for (size_t i = 0; i < consensus.used; i++) {
            struct skew from_reference = consensus_offset(&consensus, &used[i]);

            if (llabs(from_reference.offset_ns) + from_reference.bound_ns <= allowed_ns)
                consensus.agree++;
        }
        consensus.majority = consensus.used >= CONSENSUS_QUORUM &&
                             consensus.agree * 2 > consensus.used;
        consensus.firm = consensus.majority && consensus.agree >= CONSENSUS_QUORUM;
    }
    free(used);
    return consensus;
}

struct skew consensus_offset(const struct consensus *consensus, const struct skew *clock) {
    return (struct skew){.offset_ns = clock->offset_ns - consensus->reference_ns,
                         .bound_ns = clock->bound_ns};
}

bool consensus_refuses(const struct consensus *consensus, const struct skew *clock,
                       int64_t allowed_ns) {
    const struct skew reference = {consensus->reference_ns, 0};

    return consensus->firm && skew_between(clock, &reference).at_least_ns > allowed_ns;
}

struct consensus_claims consensus_of_claims(const struct skew *claims, size_t n) {
    struct consensus_claims most = {.found = false};
    struct edge *edges;
    struct shared shared;

    if (n < CONSENSUS_QUORUM)
        return most;
    edges = allocate(2 * n, sizeof *edges);
    shared = sweep(claims, n, 0, edges);
    free(edges);
    if (shared.most <= n / 2)
        return most;
    return (struct consensus_claims){true, shared.first_ns, shared.last_ns};
}

bool consensus_disproves(const struct consensus_claims *most, const struct skew *claim) {
    return most->found && (claim->offset_ns - claim->bound_ns > most->latest_ns ||
                           claim->offset_ns + claim->bound_ns < most->earliest_ns);
}
