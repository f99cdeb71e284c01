#include "tests/scenario/oracle.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/records.h"
#include "common/snowflake.h"

#define NONE SIZE_MAX

/* A claim that etcd has taken. */
struct claim {
    char claim[HEX128_CHARS + 1];
    char era[HEX128_CHARS + 1];
    uint16_t machine_id;
    uint64_t h0_ms;      /* max(horizon, floor) as it truly was */
    uint64_t granted_ms; /* the highest horizon that etcd has stored for it */
    size_t before;       /* the claim that V(hor) had before; NONE */
    size_t process;      /* the one that ordered its installation; NONE so far */
};

/* The chain of a process, as its serving loop lives it. */
struct process {
    size_t claim; /* installed last; NONE */
    uint64_t h0_ms;
    bool has_last;
    uint64_t last_ms;
    uint16_t last_sequence;
    bool closed;
    uint64_t closed_ms;
};

/* IDs of one millisecond, taken at once. */
struct run {
    uint64_t timestamp_ms;
    uint16_t machine_id;
    uint16_t sequence;
    uint32_t count;
    size_t process;
    size_t next; /* another run in the same place of the table; NONE */
};

struct oracle {
    struct fake_etcd *etcd;
    const struct keys *keys;
    bool duplicates_only;
    char violation[512];
    struct claim *claims;
    size_t n_claims, claims_room;
    struct process *processes;
    size_t n_processes, processes_room;
    struct run *runs;
    size_t n_runs, runs_room;
    size_t *table; /* of runs, by machine ID and timestamp */
    size_t table_size;
    struct horizon horizons[MACHINE_IDS]; /* as last stored: a key taken away keeps it */
    struct meta meta;                     /* as last stored and readable */
    uint64_t highest_ms;
    struct oracle_counts counts;
};

#define GROW(list, n, room)                                                                        \
    do {                                                                                           \
        if ((n) == (room)) {                                                                       \
            (room) = (room) ? (room)*2 : 64;                                                       \
            (list) = realloc((list), (room) * sizeof(*(list)));                                    \
            assert(list);                                                                          \
        }                                                                                          \
    } while (0)

static void __attribute__((format(printf, 2, 3)))
violated(struct oracle *oracle, const char *format, ...) {
    va_list args;

    if (oracle->violation[0])
        return;
    va_start(args, format);
    vsnprintf(oracle->violation, sizeof(oracle->violation), format, args);
    va_end(args);
}

/* For all rules but the promise itself. */
#define EXPECT(oracle, holds, ...)                                                                 \
    do {                                                                                           \
        if (!(oracle)->duplicates_only && !(holds))                                                \
            violated((oracle), __VA_ARGS__);                                                       \
    } while (0)

static size_t claim_find(const struct oracle *oracle, const char *claim) {
    size_t i = oracle->n_claims;

    while (i-- > 0)
        if (!strcmp(oracle->claims[i].claim, claim))
            return i;
    return NONE;
}

/* ---- etcd ---- */

static bool compares(const struct etcd_txn *txn, const char *key, const char *value) {
    size_t i;

    for (i = 0; i < txn->n_compares; i++)
        if (txn->compares[i].kind == ETCD_VALUE_EQUAL && !strcmp(txn->compares[i].key, key) &&
            !strcmp(txn->compares[i].value, value))
            return true;
    return false;
}

static bool does(const struct etcd_txn *txn, enum etcd_op_kind kind, const char *key) {
    size_t i;

    for (i = 0; i < txn->n_then; i++)
        if (txn->then[i].kind == kind && !strcmp(txn->then[i].key, key))
            return true;
    return false;
}

static void expect_growth_allowed(struct oracle *oracle, const char *what, uint64_t horizon_ms) {
    const struct etcd_kv *meta = fake_etcd_get(oracle->etcd, oracle->keys->meta);
    const struct etcd_kv *ceil = fake_etcd_get(oracle->etcd, oracle->keys->ceil);
    uint64_t ceiling_ms = 0;

    EXPECT(oracle, meta && oracle->meta.mode == META_OPEN, "I6: %s while meta is %s", what,
           meta ? "FROZEN" : "absent");
    EXPECT(oracle,
           ceil && ceiling_parse(ceil->value, ceil->value_len, &ceiling_ms) &&
               horizon_ms < ceiling_ms,
           "%s to %" PRIu64 ", the ceiling is %" PRIu64, what, horizon_ms, ceiling_ms);
}

static void on_claim(struct oracle *oracle, uint16_t machine_id, const struct horizon *before,
                     const struct horizon *after) {
    uint64_t floor_ms = oracle->meta.floor_ms;
    uint64_t h0_ms = before->horizon_ms > floor_ms ? before->horizon_ms : floor_ms;
    struct claim *claim;

    EXPECT(oracle, after->n == 1 && after->horizon_ms >= h0_ms,
           "I3: claim %.8s of machine %u stores %" PRIu64 " n %" PRIu64 ", h0 is %" PRIu64,
           after->claim, machine_id, after->horizon_ms, after->n, h0_ms);
    EXPECT(oracle, claim_find(oracle, after->claim) == NONE, "claim %.8s was taken twice",
           after->claim);
    expect_growth_allowed(oracle, "claim", after->horizon_ms);
    GROW(oracle->claims, oracle->n_claims, oracle->claims_room);
    claim = &oracle->claims[oracle->n_claims];
    *claim = (struct claim){.machine_id = machine_id,
                            .h0_ms = h0_ms,
                            .granted_ms = after->horizon_ms,
                            .before = claim_find(oracle, before->claim),
                            .process = NONE};
    memcpy(claim->claim, after->claim, sizeof(claim->claim));
    memcpy(claim->era, oracle->meta.era, sizeof(claim->era));
    oracle->n_claims++;
    oracle->counts.claims++;
}

/* Who holds the claim: the process that ordered its installation, or an earlier one of its chain.
 * A claim that was never installed has issued nothing. */
static size_t claim_process(const struct oracle *oracle, size_t claim) {
    while (claim != NONE && oracle->claims[claim].process == NONE)
        claim = oracle->claims[claim].before;
    return claim == NONE ? NONE : oracle->claims[claim].process;
}

static void on_release(struct oracle *oracle, const struct horizon *before,
                       const struct horizon *after) {
    size_t claim = claim_find(oracle, after->claim);
    size_t process = claim_process(oracle, claim);

    EXPECT(oracle, !strcmp(before->claim, after->claim) && after->n == before->n + 1,
           "I3: release %.8s n %" PRIu64 " over %.8s n %" PRIu64, after->claim, after->n,
           before->claim, before->n);
    EXPECT(oracle, claim != NONE, "I3: release of %.8s, which was never taken", after->claim);
    if (claim != NONE && oracle->claims[claim].process == NONE &&
        after->horizon_ms == oracle->claims[claim].h0_ms) {
        oracle->counts.releases++; /* never installed: it goes straight back */
        return;
    }
    EXPECT(oracle, process != NONE && oracle->processes[process].closed,
           "I3: release of %.8s, which is not closed", after->claim);
    if (process == NONE)
        return;
    EXPECT(oracle, after->horizon_ms == oracle->processes[process].closed_ms,
           "I3: release of %.8s at %" PRIu64 ", its last is %" PRIu64, after->claim,
           after->horizon_ms, oracle->processes[process].closed_ms);
    oracle->counts.releases++;
}

static void on_extension(struct oracle *oracle, const struct horizon *before,
                         const struct horizon *after) {
    size_t claim = claim_find(oracle, after->claim);

    EXPECT(oracle,
           !strcmp(before->claim, after->claim) && after->n == before->n + 1 &&
               after->horizon_ms >= before->horizon_ms,
           "I3: extension %" PRIu64 ":%.8s:%" PRIu64 " over %" PRIu64 ":%.8s:%" PRIu64,
           after->horizon_ms, after->claim, after->n, before->horizon_ms, before->claim, before->n);
    expect_growth_allowed(oracle, "extension", after->horizon_ms);
    EXPECT(oracle, claim != NONE, "I3: extension of %.8s, which was never taken", after->claim);
    if (claim != NONE && oracle->claims[claim].granted_ms < after->horizon_ms)
        oracle->claims[claim].granted_ms = after->horizon_ms;
    oracle->counts.extensions++;
}

static void on_horizon(struct oracle *oracle, const struct etcd_txn *txn, const char *key,
                       uint16_t machine_id, const char *before, const char *after) {
    struct horizon old, new;
    char own[KEY_MAX];

    if (after) {
        if (!horizon_parse(after, strlen(after), &new)) {
            violated(oracle, "V(hor) of machine %u becomes %s", machine_id, after);
            return;
        }
        oracle->horizons[machine_id] = new;
        if (new.horizon_ms > oracle->highest_ms)
            oracle->highest_ms = new.horizon_ms;
    }
    if (!txn)
        return;
    if (!before || !after) {
        EXPECT(oracle, false, "I6: a transaction %s hor of machine %u",
               after ? "creates" : "deletes", machine_id);
        return;
    }
    EXPECT(oracle, compares(txn, key, before),
           "I3: V(hor) of machine %u changes from %s to %s without comparing it", machine_id,
           before, after);
    if (!horizon_parse(before, strlen(before), &old))
        return;
    keys_own(oracle->keys, machine_id, own);
    if (does(txn, ETCD_PUT, own))
        on_claim(oracle, machine_id, &old, &new);
    else if (does(txn, ETCD_DELETE, own))
        on_release(oracle, &old, &new);
    else
        on_extension(oracle, &old, &new);
}

static void on_change(void *arg, const struct etcd_txn *txn, const char *key, const char *before,
                      const char *after) {
    struct oracle *oracle = arg;
    struct error err;
    struct meta meta;
    uint16_t machine_id;

    if (keys_machine_id(oracle->keys->hor, key, &machine_id))
        on_horizon(oracle, txn, key, machine_id, before, after);
    else if (after && !strcmp(key, oracle->keys->meta) &&
             meta_parse(after, strlen(after), &meta, &err) == STATUS_OK)
        oracle->meta = meta;
}

/* ---- processes ---- */

size_t oracle_process(struct oracle *oracle) {
    GROW(oracle->processes, oracle->n_processes, oracle->processes_room);
    oracle->processes[oracle->n_processes] = (struct process){.claim = NONE};
    return oracle->n_processes++;
}

static void expect_granted(struct oracle *oracle, size_t process, const char *claim,
                           uint64_t limit_ms) {
    size_t at = claim_find(oracle, claim);

    EXPECT(oracle, at != NONE, "I5: process %zu uses claim %.8s, which etcd has not taken", process,
           claim);
    EXPECT(oracle, at == NONE || limit_ms <= oracle->claims[at].granted_ms,
           "I5: process %zu raises its limit to %" PRIu64 ", etcd has stored %" PRIu64, process,
           limit_ms, at == NONE ? 0 : oracle->claims[at].granted_ms);
}

void oracle_order_install(struct oracle *oracle, size_t process,
                          const struct hold_install *install) {
    size_t claim = claim_find(oracle, install->claim);

    expect_granted(oracle, process, install->claim, install->limit_ms);
    if (claim == NONE)
        return;
    EXPECT(oracle, !strcmp(install->era, oracle->claims[claim].era),
           "ERA: process %zu installs claim %.8s under era %.8s", process, install->claim,
           install->era);
    EXPECT(oracle, install->machine_id == oracle->claims[claim].machine_id,
           "process %zu installs claim %.8s on machine %u", process, install->claim,
           install->machine_id);
    EXPECT(oracle, oracle->claims[claim].process == NONE, "claim %.8s is installed twice",
           install->claim);
    oracle->claims[claim].process = process;
    if (install->continues)
        return; /* looked at when the loop carries it out */
    EXPECT(oracle, install->used_up_ms >= oracle->claims[claim].h0_ms,
           "I1: process %zu starts claim %.8s above %" PRIu64 ", its h0 is %" PRIu64, process,
           install->claim, install->used_up_ms, oracle->claims[claim].h0_ms);
}

void oracle_order_raise(struct oracle *oracle, size_t process, const char *claim,
                        uint64_t limit_ms) {
    expect_granted(oracle, process, claim, limit_ms);
}

/* Does the chain of claims that ends in claim go back to from without a foreign one? */
static bool continues_chain(const struct oracle *oracle, size_t claim, size_t from) {
    while (claim != NONE && claim != from) {
        if (oracle->claims[claim].process != NONE &&
            oracle->claims[claim].process != oracle->claims[from].process)
            return false;
        claim = oracle->claims[claim].before;
    }
    return claim == from;
}

void oracle_installed(struct oracle *oracle, size_t process, const struct hold_install *install) {
    struct process *self = &oracle->processes[process];
    size_t claim = claim_find(oracle, install->claim);

    if (install->continues && self->claim != NONE && claim != NONE) {
        EXPECT(oracle, continues_chain(oracle, claim, self->claim),
               "RESUME: process %zu goes on under claim %.8s, which does not follow its %.8s",
               process, install->claim, oracle->claims[self->claim].claim);
    } else {
        self->h0_ms = claim == NONE ? install->used_up_ms : oracle->claims[claim].h0_ms;
        self->has_last = false;
    }
    self->claim = claim;
    self->closed = false;
}

void oracle_closed(struct oracle *oracle, size_t process, uint64_t last_ms) {
    struct process *self = &oracle->processes[process];

    EXPECT(oracle, !self->has_last || last_ms >= self->last_ms,
           "process %zu hands over %" PRIu64 ", its last is %" PRIu64, process, last_ms,
           self->last_ms);
    self->closed = true;
    self->closed_ms = last_ms;
}

/* ---- IDs ---- */

static size_t table_place(const struct oracle *oracle, uint16_t machine_id, uint64_t timestamp_ms) {
    uint64_t mixed = (timestamp_ms * MACHINE_IDS + machine_id) * UINT64_C(0x9e3779b97f4a7c15);

    return (size_t)(mixed >> 32) & (oracle->table_size - 1);
}

static void table_grow(struct oracle *oracle) {
    size_t i;

    oracle->table_size *= 2;
    oracle->table = realloc(oracle->table, oracle->table_size * sizeof(*oracle->table));
    assert(oracle->table);
    memset(oracle->table, 0xff, oracle->table_size * sizeof(*oracle->table)); /* NONE */
    for (i = 0; i < oracle->n_runs; i++) {
        size_t place = table_place(oracle, oracle->runs[i].machine_id,
                                   oracle->runs[i].timestamp_ms);

        oracle->runs[i].next = oracle->table[place];
        oracle->table[place] = i;
    }
}

static void check_not_issued(struct oracle *oracle, const struct run *run) {
    size_t i = oracle->table[table_place(oracle, run->machine_id, run->timestamp_ms)];

    for (; i != NONE; i = oracle->runs[i].next) {
        const struct run *other = &oracle->runs[i];

        if (other->machine_id == run->machine_id && other->timestamp_ms == run->timestamp_ms &&
            other->sequence < run->sequence + run->count &&
            run->sequence < other->sequence + other->count)
            violated(oracle,
                     "DUPLICATE: machine %u, %" PRIu64 ", sequence %u..%u by process %zu, and "
                     "%u..%u by process %zu",
                     run->machine_id, run->timestamp_ms, other->sequence,
                     other->sequence + other->count - 1, other->process, run->sequence,
                     run->sequence + run->count - 1, run->process);
    }
}

void oracle_issued(struct oracle *oracle, size_t process, const struct generation *generation,
                   int64_t first, uint32_t count) {
    struct process *self = &oracle->processes[process];
    struct snowflake_parts parts = snowflake_decode(first, generation->ids.epoch_ms);
    struct run run = {.timestamp_ms = parts.timestamp_ms,
                      .machine_id = parts.machine_id,
                      .sequence = parts.sequence,
                      .count = count,
                      .process = process};
    size_t claim = claim_find(oracle, generation->claim), place;

    check_not_issued(oracle, &run);
    EXPECT(oracle,
           parts.machine_id == generation->ids.machine_id &&
               parts.sequence + count <= SNOWFLAKE_SEQUENCE_MAX + 1,
           "process %zu issues %u from machine %u, %" PRIu64 ", sequence %u", process, count,
           parts.machine_id, parts.timestamp_ms, parts.sequence);
    EXPECT(oracle, claim != NONE && claim == self->claim,
           "I1: process %zu issues under claim %.8s, which is not the one installed", process,
           generation->claim);
    EXPECT(oracle, parts.timestamp_ms > self->h0_ms,
           "I1: process %zu issues %" PRIu64 ", h0 is %" PRIu64, process, parts.timestamp_ms,
           self->h0_ms);
    EXPECT(oracle, claim == NONE || parts.timestamp_ms <= oracle->claims[claim].granted_ms,
           "I1: process %zu issues %" PRIu64 ", etcd has granted %" PRIu64, process,
           parts.timestamp_ms, claim == NONE ? 0 : oracle->claims[claim].granted_ms);
    EXPECT(oracle, !self->closed, "process %zu issues %" PRIu64 " after it was closed", process,
           parts.timestamp_ms);
    EXPECT(oracle,
           !self->has_last || parts.timestamp_ms > self->last_ms ||
               (parts.timestamp_ms == self->last_ms && parts.sequence > self->last_sequence),
           "I4: process %zu issues %" PRIu64 ".%u after %" PRIu64 ".%u", process,
           parts.timestamp_ms, parts.sequence, self->last_ms, self->last_sequence);
    self->has_last = true;
    self->last_ms = parts.timestamp_ms;
    self->last_sequence = (uint16_t)(parts.sequence + count - 1);

    GROW(oracle->runs, oracle->n_runs, oracle->runs_room);
    if (oracle->n_runs >= oracle->table_size)
        table_grow(oracle);
    place = table_place(oracle, run.machine_id, run.timestamp_ms);
    run.next = oracle->table[place];
    oracle->runs[oracle->n_runs] = run;
    oracle->table[place] = oracle->n_runs++;
    oracle->counts.ids += count;
}

void oracle_live_limit(struct oracle *oracle, size_t process, const char *era, uint16_t machine_id,
                       uint64_t limit_ms) {
    uint64_t fence_ms = oracle->horizons[machine_id].horizon_ms;

    /* While recover is at work nobody can claim. */
    if (oracle->meta.mode == META_FROZEN &&
        !strncmp(oracle->meta.reason, RECORD_ROLLBACK_REASON, strlen(RECORD_ROLLBACK_REASON)))
        return;
    /* Under another era every claim starts above the floor too. */
    if (strcmp(era, oracle->meta.era) != 0 && oracle->meta.floor_ms > fence_ms)
        fence_ms = oracle->meta.floor_ms;
    EXPECT(oracle, fence_ms >= limit_ms,
           "I2: machine %u is stored up to %" PRIu64 ", process %zu may issue up to %" PRIu64,
           machine_id, fence_ms, process, limit_ms);
}

/* ---- the outside ---- */

struct oracle *oracle_new(struct fake_etcd *etcd, const struct keys *keys, bool duplicates_only) {
    struct oracle *oracle = calloc(1, sizeof(*oracle));

    assert(oracle);
    oracle->etcd = etcd;
    oracle->keys = keys;
    oracle->duplicates_only = duplicates_only;
    oracle->table_size = 512;
    table_grow(oracle);
    fake_etcd_on_change(etcd, on_change, oracle);
    return oracle;
}

void oracle_free(struct oracle *oracle) {
    if (!oracle)
        return;
    fake_etcd_on_change(oracle->etcd, NULL, NULL);
    free(oracle->claims);
    free(oracle->processes);
    free(oracle->runs);
    free(oracle->table);
    free(oracle);
}

const char *oracle_violation(const struct oracle *oracle) {
    return oracle->violation[0] ? oracle->violation : NULL;
}

uint64_t oracle_highest_ms(const struct oracle *oracle) {
    return oracle->highest_ms;
}

static bool is_shown(const struct oracle *oracle, size_t claim, const struct oracle_shown *shown,
                     size_t n) {
    size_t i;

    for (i = 0; i < n; i++)
        if (shown[i].process == oracle->claims[claim].process &&
            shown[i].machine_id == oracle->claims[claim].machine_id)
            return true;
    return false;
}

uint64_t oracle_unshown_ms(const struct oracle *oracle, const struct oracle_shown *shown, size_t n,
                           const uint64_t restored[static MACHINE_IDS]) {
    uint64_t highest_ms = 0;
    size_t i;

    for (i = 0; i < oracle->n_claims; i++) {
        const struct claim *claim = &oracle->claims[i];

        if (claim->granted_ms > restored[claim->machine_id] && claim->granted_ms > highest_ms &&
            !is_shown(oracle, i, shown, n))
            highest_ms = claim->granted_ms;
    }
    return highest_ms;
}

struct oracle_counts oracle_counts(const struct oracle *oracle) {
    return oracle->counts;
}
