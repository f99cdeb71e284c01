/* Three coordinators on a fake etcd, whose network loses, delays, repeats and reorders, with pauses,
 * outages, clock steps, and a leader key that is tampered with.  Time is simulated.
 *
 * After each event: the ceiling never falls; whoever changes anything has compared the exact leader;
 * two never report to lead, unless somebody took the key away from under a leader. */
#include <stdarg.h>

#include "common/log.h"
#include "common/random.h"
#include "coordinator/assigner.h"
#include "coordinator/clocks.h"
#include "coordinator/cluster.h"
#include "coordinator/election.h"
#include "coordinator/raiser.h"
#include "tests/support/check.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_etcd.h"

#define S UINT64_C(1000000) /* in us, the world's time */
#define TTL_S 5u
#define CEILING_INTERVAL_MS 2000u
#define TICK_US 100000u
#define NODES 3u
#define WORKERS 4u
#define WALL_MS UINT64_C(1764547200000)
#define OFF_MAX_MS 20000
#define SCHEDULES 60u
#define SCHEDULE_S 300u
#define RECOVERY_S 90u

struct sim;

struct coordinator {
    struct sim *sim;
    unsigned index;
    struct fake_clock wall;
    int64_t off_ms; /* of the wall clock */
    struct fake_etcd_client *client;
    uint64_t paused_until_us;
    struct cluster *cluster;
    struct election *election;
    struct clocks *clocks;
    struct assigner *assigner;
    struct raiser *raiser;
};

struct sim {
    uint64_t seed;
    struct fake_world world;
    struct fake_etcd *etcd;
    struct fake_link link;
    struct keys keys;
    struct coordinator nodes[NODES];
    struct node workers[WORKERS];
    char instances[WORKERS][HEX128_CHARS + 1];
    uint64_t tampered_us; /* the key was last taken away from under a leader */
    uint64_t ceiling_ms;
    unsigned raises, assignments, elections;
    char violation[256];
};

/* The programs' random numbers come from the seed too: these stand in for random.c. */
static struct fake_world *chance;
enum status random_bytes(void *buf, size_t len, struct error *err) {
    (void)err;
    fake_random_bytes(chance, buf, len);
    return STATUS_OK;
}
uint64_t random_u64(void) {
    return fake_random(chance);
}
void random_hex128(char out[static 33]) {
    unsigned char bytes[16];

    fake_random_bytes(chance, bytes, sizeof bytes);
    hex128_format(bytes, out);
}

static void __attribute__((format(printf, 2, 3)))
violated(struct sim *sim, const char *format, ...) {
    va_list args;

    int len;

    if (sim->violation[0])
        return;
    len = snprintf(sim->violation, sizeof sim->violation,
                   "at %.3f s: ", (double)sim->world.now_us / 1e6);
    va_start(args, format);
    vsnprintf(sim->violation + len, sizeof sim->violation - (size_t)len, format, args);
    va_end(args);
}

/* ---- the rules ---- */

static bool compares(const struct etcd_txn *txn, enum etcd_compare_kind kind, const char *key,
                     const char *value) {
    for (size_t i = 0; i < txn->n_compares; i++) {
        const struct etcd_compare *compare = &txn->compares[i];

        if (compare->kind == kind && strcmp(compare->key, key) == 0 &&
            (!value || strcmp(compare->value, value) == 0))
            return true;
    }
    return false;
}

static bool compares_exactly(const struct etcd_txn *txn, const char *key, const char *before) {
    return before ? compares(txn, ETCD_VALUE_EQUAL, key, before)
                  : compares(txn, ETCD_ABSENT, key, NULL);
}

static void on_change(void *arg, const struct etcd_txn *txn, const char *key, const char *before,
                      const char *after) {
    struct sim *sim = arg;
    const struct etcd_kv *leader = fake_etcd_get(sim->etcd, sim->keys.leader);
    uint64_t ceiling_ms;

    if (!txn)
        return; /* a fault of ours, or the end of a lease */
    if (!compares_exactly(txn, key, before))
        violated(sim, "%s was changed without a compare of its value", key);
    if (strcmp(key, sim->keys.leader) == 0) {
        if (after)
            sim->elections++;
        return;
    }
    if (!leader || !compares(txn, ETCD_VALUE_EQUAL, sim->keys.leader, leader->value))
        violated(sim, "%s was changed without a compare of the leader", key);
    if (strcmp(key, sim->keys.ceil) == 0) {
        if (!ceiling_parse(after, strlen(after), &ceiling_ms) || ceiling_ms <= sim->ceiling_ms)
            violated(sim, "the ceiling went from %s to %s", before, after);
        sim->ceiling_ms = ceiling_ms;
        sim->raises++;
    } else if (keys_instance(sim->keys.assign, key)) {
        sim->assignments++;
    } else {
        violated(sim, "a coordinator changed %s", key);
    }
}

static void check_leaders(struct sim *sim) {
    unsigned leading = 0;

    for (unsigned i = 0; i < NODES; i++) {
        /* A stopped one reports nothing; when it wakes, its clock has gone on. */
        if (sim->world.now_us >= sim->nodes[i].paused_until_us)
            leading += election_leads(sim->nodes[i].election);
    }
    if (leading > 1 && sim->world.now_us > sim->tampered_us + 2 * TTL_S * S)
        violated(sim, "%u report to lead", leading);
}

/* ---- the coordinators ---- */

static struct instant_ns now_ns(void *self) {
    struct instant now = fake_clock_now(self);

    return (struct instant_ns){.wall_ns = (int64_t)now.wall_ms * 1000000,
                               .boot_ns = (int64_t)now.boot_ms * 1000000};
}

static void on_events(void *arg, const struct etcd_event *events, size_t n) {
    struct coordinator *self = arg;

    cluster_events(self->cluster, events, n, fake_clock_now(&self->wall).boot_ms);
    for (size_t i = 0; i < n; i++)
        election_event(self->election, &events[i]);
    assigner_tick(self->assigner);
}

static void on_moved(void *arg, enum election_state from, enum election_state to,
                     const char *reason) {
    struct coordinator *self = arg;

    (void)from, (void)reason;
    if (to == ELECTION_LEADING)
        raiser_begin(self->raiser);
}

static void on_removed(void *arg, const char *leader_value, const struct error *err) {
    struct coordinator *self = arg;

    (void)leader_value;
    if (!err) /* it may have been a live one that was stopped for long enough to look dead */
        self->sim->tampered_us = self->sim->world.now_us;
}

static void on_trouble(void *arg, const struct error *err) {
    (void)arg, (void)err;
}

static void on_livez(void *arg, uint64_t tag) {
    struct coordinator *self = arg;

    election_livez(self->election, tag);
}

static void ask_livez(void *arg, const char *http_address) {
    struct coordinator *self = arg;
    struct sim *sim = self->sim;
    unsigned port = 0;
    bool alive;

    sscanf(http_address, "10.0.0.1:%u", &port);
    alive = port >= 1 && port <= NODES && sim->world.now_us >= sim->nodes[port - 1].paused_until_us;
    fake_world_at(&sim->world, sim->world.now_us + (alive ? 1000 : 2 * S), on_livez, self, alive);
}

static void on_measured(void *arg, struct member *member) {
    (void)arg, (void)member;
}

static void on_tick(void *arg, uint64_t tag) {
    struct coordinator *self = arg;
    struct sim *sim = self->sim;

    if (sim->world.now_us < self->paused_until_us) {
        fake_world_at(&sim->world, self->paused_until_us, on_tick, self, tag);
        return;
    }
    election_tick(self->election);
    if (election_leads(self->election)) {
        clocks_tick(self->clocks);
        assigner_tick(self->assigner);
        raiser_tick(self->raiser);
    }
    if (sim->world.now_us < tag)
        fake_world_at(&sim->world, sim->world.now_us + TICK_US, on_tick, self, tag);
}

static void start_node(struct sim *sim, unsigned index, uint64_t until_us) {
    struct coordinator *self = &sim->nodes[index];
    const struct clock clock = {.now_ns = now_ns, .self = &self->wall};
    struct election_config election = {.clock = clock,
                                       .keys = &sim->keys,
                                       .ttl_s = TTL_S,
                                       .ceiling_interval_ms = CEILING_INTERVAL_MS,
                                       .moved = on_moved,
                                       .ask_livez = ask_livez,
                                       .trouble = on_trouble,
                                       .removed = on_removed,
                                       .arg = self};
    struct etcd_key_range all = {.key = sim->keys.prefix};
    char end[KEY_MAX];
    struct etcd etcd;

    self->sim = sim;
    self->index = index;
    fake_clock_init(&self->wall, &sim->world, WALL_MS, 1000 * index);
    self->client = fake_etcd_connect(sim->etcd, &sim->link);
    etcd = fake_etcd_interface(self->client);
    election.etcd = etcd;
    random_hex128(election.self.instance);
    snprintf(election.self.addresses.http, sizeof election.self.addresses.http, "10.0.0.1:%u",
             index + 1);
    self->cluster = cluster_new(&sim->keys);
    self->election = election_new(&election);
    self->clocks = clocks_new(&(struct clocks_config){.clock = clock,
                                                      .cluster = self->cluster,
                                                      .probe_interval_ms = 10000,
                                                      .measured = on_measured});
    self->assigner = assigner_new(&(struct assigner_config){.etcd = etcd,
                                                            .clock = clock,
                                                            .cluster = self->cluster,
                                                            .clocks = self->clocks,
                                                            .election = self->election});
    self->raiser = raiser_new(&(struct raiser_config){.etcd = etcd,
                                                      .clock = clock,
                                                      .cluster = self->cluster,
                                                      .clocks = self->clocks,
                                                      .election = self->election,
                                                      .lead_ms = 86400000,
                                                      .interval_ms = CEILING_INTERVAL_MS});
    etcd_prefix_end(sim->keys.prefix, end, sizeof end);
    all.range_end = end;
    etcd.watch(etcd.self, &all, 1, on_events, self);
    on_tick(self, until_us);
}

/* ---- the rest of the world ---- */

static void put_worker(struct sim *sim, unsigned index) {
    char key[KEY_MAX];
    char *text = node_format(&sim->workers[index]);

    keys_node(&sim->keys, sim->instances[index], key);
    fake_etcd_put(sim->etcd, key, text, 0);
    free(text);
}

static bool answered(const struct sim *sim, unsigned index) {
    const struct etcd_kv *kv;
    struct assign assign;
    struct error err;
    char key[KEY_MAX];

    keys_assign(&sim->keys, sim->instances[index], key);
    kv = fake_etcd_get(sim->etcd, key);
    return kv && assign_parse(kv->value, kv->value_len, &assign, &err) == STATUS_OK &&
           assign.attempt == sim->workers[index].attempt;
}

static void init_cluster(struct sim *sim) {
    struct meta meta = {.format = RECORD_FORMAT,
                        .serial = 1,
                        .epoch_ms = 1704067200000,
                        .floor_ms = 1704067200000,
                        .last_machine_id = 9,
                        .max_window_ms = 60000,
                        .quiet_time_ms = 90000,
                        .max_offset_ms = 500};
    struct horizon untouched = {.horizon_ms = 1704067200000};
    char key[KEY_MAX], text[HORIZON_TEXT_MAX], *record;

    random_hex128(meta.era);
    memset(untouched.claim, '0', HEX128_CHARS);
    horizon_format(&untouched, text);
    for (uint16_t id = 0; id < 10; id++) {
        keys_hor(&sim->keys, id, key);
        fake_etcd_put(sim->etcd, key, text, 0);
    }
    sim->ceiling_ms = WALL_MS;
    ceiling_format(sim->ceiling_ms, text);
    fake_etcd_put(sim->etcd, sim->keys.ceil, text, 0);
    record = meta_format(&meta, NULL);
    fake_etcd_put(sim->etcd, sim->keys.meta, record, 0);
    free(record);
    for (unsigned i = 0; i < WORKERS; i++) {
        random_hex128(sim->instances[i]);
        sim->workers[i] = (struct node){.attempt = 1, .missing = 1};
        snprintf(sim->workers[i].identity, sizeof sim->workers[i].identity, "worker-%u", i);
        put_worker(sim, i);
    }
}

/* By hand, under the very lease that it had. */
static void add_field(struct sim *sim, const struct etcd_kv *leader) {
    char *text = NULL;

    if (!leader || leader->value[0] != '{' ||
        asprintf(&text, "{\"note%" PRIu64 "\":1,%s", fake_below(&sim->world, 1000),
                 leader->value + 1) < 0)
        return;
    fake_etcd_put(sim->etcd, sim->keys.leader, text, leader->lease);
    free(text);
}

static void tamper(struct sim *sim) {
    const struct etcd_kv *leader = fake_etcd_get(sim->etcd, sim->keys.leader);

    sim->tampered_us = sim->world.now_us;
    switch (fake_below(&sim->world, 4)) {
    case 0: fake_etcd_put(sim->etcd, sim->keys.leader, "garbage", 0); break;
    case 1:
        if (leader)
            fake_etcd_delete(sim->etcd, sim->keys.leader);
        break;
    case 2: add_field(sim, leader); break;
    default:
        if (leader && leader->lease)
            fake_etcd_revoke(sim->etcd, leader->lease);
    }
}

static void set_clock(struct coordinator *node, int64_t off_ms) {
    fake_clock_step(&node->wall, off_ms - node->off_ms);
    node->off_ms = off_ms;
}

/* Once a second: something goes wrong, or a worker asks. */
static void on_second(void *arg, uint64_t until_us) {
    struct sim *sim = arg;
    struct fake_world *world = &sim->world;
    struct coordinator *node = &sim->nodes[fake_below(world, NODES)];
    unsigned worker = (unsigned)fake_below(world, WORKERS);

    if (fake_chance(world, 30) && world->now_us >= node->paused_until_us) {
        node->paused_until_us = world->now_us + fake_between(world, S / 2, 30 * S);
        fake_etcd_pause(node->client, node->paused_until_us);
    }
    if (fake_chance(world, 10))
        fake_etcd_outage(sim->etcd, world->now_us + fake_between(world, S / 2, 15 * S));
    if (fake_chance(world, 10))
        tamper(sim);
    if (fake_chance(world, 10))
        set_clock(node, (int64_t)fake_between(world, 0, 2 * OFF_MAX_MS) - OFF_MAX_MS);
    if (fake_chance(world, 200)) {
        sim->workers[worker].attempt++;
        put_worker(sim, worker);
    }
    if (world->now_us + S < until_us)
        fake_world_at(world, world->now_us + S, on_second, sim, until_us);
}

static void run_until(struct sim *sim, uint64_t until_us) {
    while (fake_world_step(&sim->world, until_us) && !sim->violation[0])
        check_leaders(sim);
}

/* Without faults there is one leader, which raises the ceiling and answers all workers. */
static void check_recovery(struct sim *sim) {
    unsigned leading = 0, raises = sim->raises;

    sim->link = (struct fake_link){.timeout_us = 2 * S, .delay_min_us = 100, .delay_max_us = 2000};
    for (unsigned i = 0; i < NODES; i++)
        set_clock(&sim->nodes[i], OFF_MAX_MS); /* the ceiling may be that far ahead */
    run_until(sim, sim->world.now_us + RECOVERY_S * S);
    for (unsigned i = 0; i < NODES; i++)
        leading += election_leads(sim->nodes[i].election);
    if (leading != 1)
        violated(sim, "in the end %u lead", leading);
    if (sim->raises == raises)
        violated(sim, "in the end nobody raises the ceiling");
    for (unsigned i = 0; i < WORKERS; i++) {
        if (!answered(sim, i))
            violated(sim, "in the end worker %u is not answered", i);
    }
}

static void run_schedule(struct sim *sim, uint64_t seed) {
    struct error err;
    uint64_t faults_until_us = SCHEDULE_S * S, until_us = (SCHEDULE_S + RECOVERY_S) * S;

    memset(sim, 0, sizeof *sim);
    sim->seed = seed;
    fake_world_init(&sim->world, seed);
    chance = &sim->world;
    sim->etcd = fake_etcd_new(&sim->world);
    CU_ASSERT_EQUAL_FATAL(keys_init(&sim->keys, "default", &err), STATUS_OK);
    sim->link = (struct fake_link){.timeout_us = 2 * S,
                                   .delay_min_us = 100,
                                   .delay_max_us = 20000,
                                   .slow_max_us = 8 * S,
                                   .slow = (unsigned)fake_below(&sim->world, 50),
                                   .refused = (unsigned)fake_below(&sim->world, 50),
                                   .lost_requests = (unsigned)fake_below(&sim->world, 50),
                                   .lost_answers = (unsigned)fake_below(&sim->world, 50),
                                   .repeated = (unsigned)fake_below(&sim->world, 50),
                                   .broken_watch = (unsigned)fake_below(&sim->world, 20)};
    init_cluster(sim);
    fake_etcd_on_change(sim->etcd, on_change, sim);
    for (unsigned i = 0; i < NODES; i++)
        start_node(sim, i, until_us);
    fake_world_at(&sim->world, 5 * S, on_second, sim, faults_until_us);
    run_until(sim, faults_until_us);
    check_recovery(sim);
    /* The ticks are over: what is outstanding is answered, and then all of it can go. */
    while (fake_world_step(&sim->world, until_us + 60 * S))
        ;
    for (unsigned i = 0; i < NODES; i++) {
        struct coordinator *node = &sim->nodes[i];

        raiser_free(node->raiser);
        assigner_free(node->assigner);
        clocks_free(node->clocks);
        election_free(node->election);
        cluster_free(node->cluster);
    }
    fake_etcd_free(sim->etcd);
    fake_world_done(&sim->world);
}

static void whatever_happens_only_the_leader_acts_and_in_the_end_somebody_leads(void) {
    struct check_random random = check_random_seeded(__func__);
    struct sim *sim = calloc(1, sizeof *sim);
    unsigned long raises = 0, assignments = 0, elections = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(sim);
    log_init("scenario_coordinators", LOG_FORMAT_JSON, LOG_LEVEL_ERROR);
    for (unsigned i = 0; i < SCHEDULES; i++) {
        run_schedule(sim, check_random_u64(&random));
        raises += sim->raises;
        assignments += sim->assignments;
        elections += sim->elections;
        if (sim->violation[0]) {
            printf("schedule %u, %s\n", i, sim->violation);
            CU_FAIL("a rule was broken");
            break;
        }
    }
    printf("%lu elections, %lu raises, %lu assignments\n  ", elections, raises, assignments);
    /* The schedules must have been worth something. */
    CU_ASSERT(elections > SCHEDULES && raises > 20 * SCHEDULES && assignments > 10 * SCHEDULES);
    free(sim);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(whatever_happens_only_the_leader_acts_and_in_the_end_somebody_leads),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"coordinators", NULL, NULL, NULL, NULL, rules})
