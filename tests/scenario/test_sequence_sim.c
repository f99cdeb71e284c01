/* The promise of sequences under random schedules: workers over a network that loses, delays and repeats,
 * that are killed and paused; an operator who reshards, sets, drops and creates; freezes; and an etcd that is
 * restored from a snapshot and recovered.  An oracle sees all that is written and all that is given:
 *   no value is given twice
 *   what is given was granted to somebody, by a write of the record that went through
 *   the record never falls, but by a restore, and nobody says so without one
 *
 *   test_sequence_sim [--expect-violation]     TEST_SEED=N repeats one schedule */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#include "common/records.h"
#include "common/sequence.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_etcd.h"
#include "worker/dispenser.h"

#define NODES 3
#define NAMES 2
#define START_MS UINT64_C(1767225600000)
#define LENGTH_US UINT64_C(60000000)
#define MS UINT64_C(1000)
#define OFFSET_MS 500
#define SCHEDULES 60
#define SECONDS 20
#define GIVEN_ROOM (1u << 21) /* a power of two */

static const char *const names[NAMES] = {"blocks", "strides"};

struct interval {
    uint64_t first, count, step;
};

struct sim;
struct sim_worker {
    struct sim *sim;
    unsigned index;
    uint64_t life; /* counts processes: events of an earlier one do not concern it */
    struct fake_link link;
    struct fake_clock clock;
    struct fake_etcd_client *client;
    struct etcd etcd;
    struct dispenser_cluster cluster;
    struct dispenser *dispensers[NAMES];
    uint64_t paused_until_us;
};

/* One transaction on its way back. */
struct ask {
    LIST_ENTRY(ask) link;
    struct sim_worker *node;
    uint64_t life;
    size_t name;
};

struct sim {
    struct fake_world world;
    struct fake_etcd *etcd;
    struct keys keys;
    struct sim_worker nodes[NODES];
    struct fake_snapshot *snapshot;
    LIST_HEAD(ask_list, ask) asks; /* that are not answered yet */
    bool restoring;
    char violation[200];

    uint64_t *given[NAMES]; /* hash sets; 0: free (1 is added to each value) */
    size_t n_given[NAMES];
    struct interval *granted[NAMES];
    size_t n_granted[NAMES], room_granted[NAMES];
    uint64_t restores, reshards, unknown;
};

static void violate(struct sim *sim, const char *what, const char *name, uint64_t value) {
    if (!sim->violation[0])
        snprintf(sim->violation, sizeof sim->violation, "%s: %s %" PRIu64 " at %.3f s", what, name,
                 value, (double)sim->world.now_us / 1e6);
}

/* ---- the oracle ---- */

static bool add_given(struct sim *sim, size_t name, uint64_t value) {
    size_t at = (size_t)(value * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (GIVEN_ROOM - 1);

    for (; sim->given[name][at]; at = (at + 1) & (GIVEN_ROOM - 1))
        if (sim->given[name][at] == value + 1)
            return false;
    sim->given[name][at] = value + 1;
    if (++sim->n_given[name] > GIVEN_ROOM / 2)
        abort(); /* the schedule is too long for the set */
    return true;
}

static bool was_granted(const struct sim *sim, size_t name, uint64_t value) {
    for (size_t i = sim->n_granted[name]; i-- > 0;) {
        const struct interval *interval = &sim->granted[name][i];

        if (value >= interval->first && (value - interval->first) % interval->step == 0 &&
            (value - interval->first) / interval->step < interval->count)
            return true;
    }
    return false;
}

static void note_grant(struct sim *sim, size_t name, struct interval interval) {
    if (sim->n_granted[name] == sim->room_granted[name]) {
        sim->room_granted[name] = sim->room_granted[name] ? sim->room_granted[name] * 2 : 64;
        sim->granted[name] = realloc(sim->granted[name],
                                     sim->room_granted[name] * sizeof *sim->granted[name]);
        if (!sim->granted[name])
            abort();
    }
    sim->granted[name][sim->n_granted[name]++] = interval;
}

static void on_change(void *arg, const struct etcd_txn *txn, const char *key, const char *before,
                      const char *after) {
    struct sim *sim = arg;
    const char *name = keys_seq_name(&sim->keys, key);
    size_t which = name && strcmp(name, names[1]) == 0;
    struct sequence old, new;
    struct error err;

    (void)txn;
    if (!name || sim->restoring || !before)
        return;
    if (!after || sequence_parse(before, strlen(before), &old, &err) != STATUS_OK ||
        sequence_parse(after, strlen(after), &new, &err) != STATUS_OK) {
        violate(sim, "not a record any more", name, 0);
        return;
    }
    if (new.serial <= old.serial || new.layout < old.layout ||
        sequence_top(&new) < sequence_top(&old))
        violate(sim, "the record fell", name, sequence_top(&new));
    if (new.layout != old.layout)
        return;
    for (size_t i = 0; i < new.n_shards; i++)
        if (new.next[i] > old.next[i])
            note_grant(sim, which,
                       (struct interval){.first = old.next[i],
                                         .count = (new.next[i] - old.next[i]) / new.n_shards,
                                         .step = new.n_shards});
}

/* ---- workers ---- */

static struct ask *ask_of(struct sim_worker *node, size_t name) {
    struct ask *ask = calloc(1, sizeof *ask);

    if (!ask)
        abort();
    *ask = (struct ask){.node = node, .life = node->life, .name = name};
    LIST_INSERT_HEAD(&node->sim->asks, ask, link);
    return ask;
}

static void pump(struct sim_worker *node);

static void on_answer(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct ask *ask = arg;
    struct sim_worker *node = ask->node;

    node->sim->unknown += err && err->status == STATUS_UNKNOWN;
    if (ask->life == node->life) {
        dispenser_answered(node->dispensers[ask->name], &node->cluster,
                           fake_clock_now(&node->clock), err, result);
        if (!err && !result->succeeded) {
            const struct etcd_op_result *meta = &result->results[1];

            dispenser_cluster_meta(&node->cluster, meta->n_kvs ? meta->kvs[0].value : NULL,
                                   meta->n_kvs ? meta->kvs[0].value_len : 0);
            dispenser_cluster_judge(&node->cluster, "");
        }
        pump(node);
    }
    LIST_REMOVE(ask, link);
    free(ask);
}

static void pump(struct sim_worker *node) {
    for (size_t i = 0; i < NAMES; i++) {
        uint64_t wake_boot_ms;
        const struct etcd_txn *txn = dispenser_next(node->dispensers[i], &node->cluster,
                                                    fake_clock_now(&node->clock), &wake_boot_ms);

        if (txn)
            node->etcd.txn(node->etcd.self, txn, on_answer, ask_of(node, i));
        dispenser_changed(node->dispensers[i]);
    }
}

static void take(struct sim_worker *node, size_t name) {
    struct sim *sim = node->sim;
    struct service_ids ids = {.kind = ID_SEQUENCE,
                              .want = 1 + (uint32_t)fake_below(&sim->world, 12),
                              .has_shard = name == 1,
                              .shard = (uint16_t)fake_below(&sim->world, 4)};
    struct service_error err = {.code = NULL};

    if (dispenser_take(node->dispensers[name], &node->cluster, &ids, &err) == SERVICE_DONE) {
        if (ids.have != ids.want)
            violate(sim, "another number than was asked for", names[name], ids.have);
        for (size_t i = 0; i < ids.n_runs; i++)
            for (uint32_t k = 0; k < ids.runs[i].count; k++) {
                uint64_t value = service_run_id(&ids, i, k);

                if (!was_granted(sim, name, value))
                    violate(sim, "given and never granted", names[name], value);
                if (!add_given(sim, name, value))
                    violate(sim, "given twice", names[name], value);
            }
    }
    service_ids_free(&ids);
}

/* A hint that may be late, as the watch is. */
static void show(struct sim_worker *node) {
    struct sim *sim = node->sim;
    const struct etcd_kv *meta = fake_etcd_get(sim->etcd, sim->keys.meta);

    dispenser_cluster_meta(&node->cluster, meta->value, meta->value_len);
    dispenser_cluster_judge(&node->cluster, "");
    for (size_t i = 0; i < NAMES; i++) {
        char key[KEY_MAX];
        const struct etcd_kv *kv;

        keys_seq(&sim->keys, names[i], key);
        kv = fake_etcd_get(sim->etcd, key);
        dispenser_seen(node->dispensers[i], kv->value, kv->value_len);
    }
}

static void on_tick(void *arg, uint64_t life) {
    struct sim_worker *node = arg;
    struct sim *sim = node->sim;

    if (life != node->life)
        return;
    if (sim->world.now_us >= node->paused_until_us) {
        if (fake_chance(&sim->world, 30))
            show(node);
        for (uint64_t n = fake_below(&sim->world, 4); n > 0; n--)
            take(node, fake_below(&sim->world, NAMES));
        pump(node);
    }
    fake_world_at(&sim->world, sim->world.now_us + fake_between(&sim->world, 5 * MS, 25 * MS),
                  on_tick, node, life);
}

static void stop(struct sim_worker *node) {
    for (size_t i = 0; i < NAMES; i++) {
        dispenser_free(node->dispensers[i]);
        node->dispensers[i] = NULL;
    }
    dispenser_cluster_done(&node->cluster);
    node->life++;
}

static void start(struct sim_worker *node) {
    struct sim *sim = node->sim;

    node->client = fake_etcd_connect(sim->etcd, &node->link);
    node->etcd = fake_etcd_interface(node->client);
    node->paused_until_us = 0;
    dispenser_cluster_init(&node->cluster);
    for (size_t i = 0; i < NAMES; i++)
        node->dispensers[i] = dispenser_new(&(struct dispenser_config){
            .keys = &sim->keys, .name = names[i], .retry_min_ms = 20, .retry_max_ms = 400});
    show(node);
    fake_world_at(&sim->world, sim->world.now_us, on_tick, node, node->life);
}

/* ---- operators ---- */

static void put_sequence(struct sim *sim, size_t name, const struct sequence *sequence) {
    char *text = sequence_format(sequence, NULL), key[KEY_MAX];

    keys_seq(&sim->keys, names[name], key);
    fake_etcd_put(sim->etcd, key, text, 0);
    free(text);
}

static void get_sequence(struct sim *sim, size_t name, struct sequence *sequence) {
    char key[KEY_MAX];
    const struct etcd_kv *kv;
    struct error err;

    keys_seq(&sim->keys, names[name], key);
    kv = fake_etcd_get(sim->etcd, key);
    if (!kv || sequence_parse(kv->value, kv->value_len, sequence, &err) != STATUS_OK)
        abort();
}

static void write_meta(struct sim *sim, const struct meta *meta) {
    char *text = meta_format(meta, NULL);

    fake_etcd_put(sim->etcd, sim->keys.meta, text, 0);
    free(text);
}

static void get_meta(struct sim *sim, struct meta *meta) {
    const struct etcd_kv *kv = fake_etcd_get(sim->etcd, sim->keys.meta);
    struct error err;

    if (!kv || meta_parse(kv->value, kv->value_len, meta, &err) != STATUS_OK)
        abort();
}

static uint64_t true_ms(const struct sim *sim) {
    return START_MS + sim->world.now_us / MS;
}

static void change(struct sim *sim) {
    struct sequence sequence;
    struct meta meta;
    uint64_t wait_ms;
    size_t name = fake_below(&sim->world, NAMES);

    get_sequence(sim, name, &sequence);
    switch (fake_below(&sim->world, 5)) {
    case 0:
    case 1:
        get_sequence(sim, 1, &sequence);
        if (sequence_reshard(&sequence, 3 + fake_below(&sim->world, 2), true_ms(sim), &wait_ms) ==
            STATUS_OK) {
            put_sequence(sim, 1, &sequence);
            sim->reshards++;
        }
        break;
    case 2:
        sequence_rebase(&sequence, sequence_top(&sequence) + fake_below(&sim->world, 50),
                        sequence.n_shards);
        put_sequence(sim, name, &sequence);
        break;
    case 3: /* dropped, or made anew above what it was */
        sequence.dropped = !sequence.dropped;
        sequence_rebase(&sequence, sequence_top(&sequence), sequence.n_shards);
        put_sequence(sim, name, &sequence);
        break;
    default:
        get_meta(sim, &meta);
        meta.serial++;
        meta.mode = meta.mode == META_OPEN ? META_FROZEN : META_OPEN;
        write_meta(sim, &meta);
    }
}

/* Of all workers, or of none: then the rate has to do. */
static uint64_t evidence_of(struct sim *sim, size_t name) {
    uint64_t most = 0;

    for (size_t i = 0; i < NODES; i++) {
        struct dispenser_view view;

        dispenser_look(sim->nodes[i].dispensers[name], &sim->nodes[i].cluster, &view);
        if (view.known && view.top > most)
            most = view.top;
    }
    return most;
}

/* As recover does it: frozen, fenced, a new era. */
static void restore(struct sim *sim) {
    bool heard = fake_chance(&sim->world, 500);
    struct sequence sequence;
    unsigned char bits[16];
    struct meta meta;

    sim->restoring = true;
    fake_etcd_restore(sim->etcd, sim->snapshot);
    for (size_t name = 0; name < NAMES; name++) {
        get_sequence(sim, name, &sequence);
        sequence_fence(&sequence, true_ms(sim) + OFFSET_MS, heard ? evidence_of(sim, name) : 0);
        put_sequence(sim, name, &sequence);
    }
    get_meta(sim, &meta);
    memmove(meta.earlier_eras + 1, meta.earlier_eras,
            sizeof meta.earlier_eras - sizeof meta.earlier_eras[0]);
    memcpy(meta.earlier_eras[0], meta.era, sizeof meta.era);
    meta.n_earlier_eras += meta.n_earlier_eras < RECORD_EARLIER_ERAS_MAX;
    fake_random_bytes(&sim->world, bits, sizeof bits);
    hex128_format(bits, meta.era);
    meta.mode = META_OPEN;
    meta.serial += 1000;
    write_meta(sim, &meta);
    sim->restoring = false;
    fake_snapshot_free(sim->snapshot);
    sim->snapshot = fake_etcd_snapshot(sim->etcd); /* an era is restored into those after it only */
    sim->restores++;
}

static void on_fault(void *arg, uint64_t tag) {
    struct sim *sim = arg;
    struct sim_worker *node = &sim->nodes[fake_below(&sim->world, NODES)];
    uint64_t later_us = sim->world.now_us + fake_between(&sim->world, 50 * MS, 3000 * MS);

    switch (fake_below(&sim->world, 8)) {
    case 0:
        fake_etcd_kill(node->client);
        stop(node);
        start(node);
        break;
    case 1:
        node->paused_until_us = later_us;
        fake_etcd_pause(node->client, later_us);
        break;
    case 2: fake_etcd_outage(sim->etcd, later_us); break;
    case 3: fake_etcd_remember(sim->etcd); break;
    case 4:
        fake_snapshot_free(sim->snapshot);
        sim->snapshot = fake_etcd_snapshot(sim->etcd);
        break;
    case 5:
        if (fake_chance(&sim->world, 300))
            restore(sim);
        break;
    default: change(sim); break;
    }
    fake_world_at(&sim->world, sim->world.now_us + fake_between(&sim->world, 10 * MS, 1500 * MS),
                  on_fault, sim, tag);
}

/* Whatever networks do to answers and hints: only a restore makes the record older. */
static void check_alarms(struct sim *sim) {
    for (size_t i = 0; i < NODES && sim->restores == 0; i++)
        for (size_t name = 0; name < NAMES; name++) {
            struct dispenser_view view;

            dispenser_look(sim->nodes[i].dispensers[name], &sim->nodes[i].cluster, &view);
            if (strstr(view.reason, "went back"))
                violate(sim, "a false alarm", names[name], view.top);
        }
}

/* ---- one schedule ---- */

static void initialise(struct sim *sim) {
    struct meta meta = {.format = RECORD_FORMAT,
                        .serial = 1,
                        .era = "0123456789abcdef0123456789abcdef",
                        .floor_ms = START_MS,
                        .epoch_ms = START_MS,
                        .last_machine_id = 1023,
                        .max_window_ms = 60000,
                        .max_offset_ms = OFFSET_MS,
                        .mode = META_OPEN};
    struct sequence sequence = {.serial = 1,
                                .mode = SEQUENCE_BLOCK,
                                .layout = 1,
                                .block = 1 + fake_below(&sim->world, 30),
                                .max_rate = 2000,
                                .pace_ms = START_MS,
                                .n_shards = 1,
                                .next = {1, 2, 3}};
    char ceil[CEILING_TEXT_MAX];
    struct error err;

    if (keys_init(&sim->keys, "sim", &err) != STATUS_OK)
        abort();
    sim->etcd = fake_etcd_new(&sim->world);
    ceiling_format(START_MS + 86400000, ceil);
    fake_etcd_put(sim->etcd, sim->keys.ceil, ceil, 0);
    write_meta(sim, &meta);
    put_sequence(sim, 0, &sequence);
    sequence.mode = SEQUENCE_STRIDE;
    sequence.n_shards = 3;
    put_sequence(sim, 1, &sequence);
    fake_etcd_on_change(sim->etcd, on_change, sim);
    sim->snapshot = fake_etcd_snapshot(sim->etcd);
}

static void run(uint64_t seed, struct sim *sim) {
    memset(sim, 0, sizeof *sim);
    fake_world_init(&sim->world, seed);
    for (size_t i = 0; i < NAMES; i++) {
        sim->given[i] = calloc(GIVEN_ROOM, sizeof *sim->given[i]);
        if (!sim->given[i])
            abort();
    }
    initialise(sim);
    for (unsigned i = 0; i < NODES; i++) {
        struct sim_worker *node = &sim->nodes[i];

        node->sim = sim;
        node->index = i;
        node->link = (struct fake_link){.timeout_us = 300 * MS,
                                        .delay_max_us = 3 * MS,
                                        .slow_max_us = 700 * MS,
                                        .slow = (unsigned)fake_below(&sim->world, 100),
                                        .refused = (unsigned)fake_below(&sim->world, 50),
                                        .lost_requests = (unsigned)fake_below(&sim->world, 80),
                                        .lost_answers = (unsigned)fake_below(&sim->world, 80),
                                        .repeated = (unsigned)fake_below(&sim->world, 150),
                                        .stale = (unsigned)fake_below(&sim->world, 200)};
        fake_clock_init(&node->clock, &sim->world,
                        START_MS - OFFSET_MS + fake_below(&sim->world, 2 * OFFSET_MS), 1000 * i);
        start(node);
    }
    fake_world_at(&sim->world, 500 * MS, on_fault, sim, 0);
    while (!sim->violation[0] && sim->world.now_us < LENGTH_US)
        fake_world_step(&sim->world, LENGTH_US);
    check_alarms(sim);
}

static void done(struct sim *sim) {
    for (size_t i = 0; i < NODES; i++)
        stop(&sim->nodes[i]);
    fake_etcd_free(sim->etcd);
    fake_snapshot_free(sim->snapshot);
    while (!LIST_EMPTY(&sim->asks)) {
        struct ask *ask = LIST_FIRST(&sim->asks);

        LIST_REMOVE(ask, link);
        free(ask);
    }
    fake_world_done(&sim->world);
    for (size_t i = 0; i < NAMES; i++) {
        free(sim->given[i]);
        free(sim->granted[i]);
    }
}

int main(int argc, char **argv) {
    bool expect_violation = argc > 1 && strcmp(argv[1], "--expect-violation") == 0;
    const char *one = getenv("TEST_SEED");
    uint64_t seed = one ? strtoull(one, NULL, 10) : (uint64_t)time(NULL) * 1000, values = 0,
             restores = 0, reshards = 0, unknown = 0;
    time_t began = time(NULL);
    unsigned i;

    for (i = 0; i < (one ? 1 : SCHEDULES) && time(NULL) - began < SECONDS; i++) {
        static struct sim sim;

        run(seed + i, &sim);
        values += sim.n_given[0] + sim.n_given[1];
        restores += sim.restores;
        reshards += sim.reshards;
        unknown += sim.unknown;
        done(&sim);
        if (sim.violation[0]) {
            printf("%s (repeat with TEST_SEED=%" PRIu64 ")\n", sim.violation, seed + i);
            return expect_violation ? EXIT_SUCCESS : EXIT_FAILURE;
        }
    }
    printf("%u schedules: %" PRIu64 " values, %" PRIu64 " restores, %" PRIu64 " reshards, %" PRIu64
           " unknown outcomes\n",
           i, values, restores, reshards, unknown);
    /* A schedule in which nothing happens shows nothing. */
    if (!one && (values < 10000 || restores == 0 || reshards == 0 || unknown == 0)) {
        printf("too little happened\n");
        return EXIT_FAILURE;
    }
    return expect_violation ? EXIT_FAILURE : EXIT_SUCCESS;
}
