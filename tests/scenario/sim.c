#include "tests/scenario/sim.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/records.h"
#include "common/snowflake.h"
#include "tests/scenario/sim_node.h"
#include "tests/scenario/sim_recover.h"

#define NODES_MAX 4
#define MACHINES_MAX 3
#define HOUR_MS INT64_C(3600000)

enum fault {
    FAULT_KILL,
    FAULT_PAUSE,
    FAULT_STEP,
    FAULT_RATE,
    FAULT_LEASE,   /* the lease of a claim ends early */
    FAULT_EVICT,   /* own/ is deleted */
    FAULT_OWN,     /* somebody writes own/ by hand, and takes it away again */
    FAULT_RECLAIM, /* reclaim --force: the order to give up, and own/ deleted */
    FAULT_RELEASE, /* SIGTERM */
    FAULT_META,    /* rewritten: frozen, thawed, floor raised, unknown fields */
    FAULT_CEILING, /* raised, or left low */
    FAULT_ABSENT,  /* meta or a hor key goes away for a while */
    FAULT_ERA,     /* meta shows a foreign era for a while */
    FAULT_OUTAGE,
    FAULT_SPACE,
    FAULT_STALE, /* what stale reads show is renewed */
    FAULT_SNAPSHOT,
    FAULT_RESTORE, /* the documented way: frozen at once, and snowfleetctl recover follows */
    FAULTS
};

struct sim {
    struct sim_stage stage;
    struct sim_node nodes[NODES_MAX];
    unsigned n_nodes;
    unsigned weights[FAULTS]; /* how often each fault comes, against the others */
    uint64_t fault_every_us;
    bool calm; /* no more faults */
    bool ends; /* the epoch does, within the schedule */
    uint64_t window_us;
    uint64_t lease_us;
    struct fake_snapshot *snapshot;
    struct sim_recovery recovery;
    char *hidden_meta; /* while it is absent or foreign */
    char *hidden_hor[MACHINES_MAX];
    uint64_t faults, restores;
};

/* ---- keys as an operator or the coordinator writes them ---- */

/* As one of the nodes sees it; another may see it otherwise. */
static uint64_t wall_ms(struct sim *sim) {
    return fake_clock_now(&sim->nodes[fake_below(&sim->stage.world, sim->n_nodes)].clock).wall_ms;
}

static void write_ceiling(struct sim *sim, uint64_t ceiling_ms) {
    char text[CEILING_TEXT_MAX];

    ceiling_format(ceiling_ms, text);
    fake_etcd_put(sim->stage.etcd, sim->stage.keys.ceil, text, 0);
}

static void read_meta(const char *text, struct meta *meta) {
    struct error err;
    enum status status = meta_parse(text, strlen(text), meta, &err);

    assert(status == STATUS_OK);
    (void)status;
}

static void write_meta(struct sim *sim, const struct meta *meta, const char *before) {
    char *text = meta_format(meta, before);

    assert(text);
    fake_etcd_put(sim->stage.etcd, sim->stage.keys.meta, text, 0);
    free(text);
}

static const char *meta_text(struct sim *sim) {
    const struct etcd_kv *kv = fake_etcd_get(sim->stage.etcd, sim->stage.keys.meta);

    return kv ? kv->value : NULL;
}

static void new_era(struct sim *sim, char era[static HEX128_CHARS + 1]) {
    unsigned char bits[16];

    fake_random_bytes(&sim->stage.world, bits, sizeof(bits));
    hex128_format(bits, era);
}

static uint16_t some_machine(struct sim *sim) {
    return (uint16_t)fake_between(&sim->stage.world, sim->stage.first_machine_id,
                                  sim->stage.last_machine_id);
}

static struct sim_node *some_node(struct sim *sim) {
    return &sim->nodes[fake_below(&sim->stage.world, sim->n_nodes)];
}

static void initialise(struct sim *sim, uint64_t start_ms) {
    static const char nobody[] = "00000000000000000000000000000000";
    const struct sim_stage *stage = &sim->stage;
    struct meta meta = {
        .format = RECORD_FORMAT,
        .serial = 1,
        .floor_ms = SNOWFLAKE_EPOCH_MS,
        .epoch_ms = SNOWFLAKE_EPOCH_MS,
        .first_machine_id = stage->first_machine_id,
        .last_machine_id = stage->last_machine_id,
        .max_window_ms = stage->config.window_ms,
        .quiet_time_ms = stage->config.window_ms,
        .max_offset_ms = 500,
        .mode = META_OPEN,
    };
    struct horizon horizon = {.horizon_ms = SNOWFLAKE_EPOCH_MS};
    char text[HORIZON_TEXT_MAX], key[KEY_MAX];
    uint16_t i;

    memcpy(horizon.claim, nobody, sizeof(horizon.claim));
    horizon_format(&horizon, text);
    for (i = stage->first_machine_id; i <= stage->last_machine_id; i++) {
        keys_hor(&stage->keys, i, key);
        fake_etcd_put(stage->etcd, key, text, 0);
    }
    write_ceiling(sim, start_ms + (uint64_t)HOUR_MS);
    new_era(sim, meta.era);
    write_meta(sim, &meta, NULL);
}

/* ---- faults ---- */

static void on_restart(void *arg, uint64_t tag) {
    struct sim *sim = arg;

    if (!sim->nodes[tag].alive)
        sim_node_start(&sim->nodes[tag], &sim->stage, (unsigned)tag);
}

static void restart_later(struct sim *sim, const struct sim_node *node) {
    fake_world_at(&sim->stage.world,
                  sim->stage.world.now_us + fake_below(&sim->stage.world, sim->window_us),
                  on_restart, sim, (uint64_t)(node - sim->nodes));
}

static void fault_kill(struct sim *sim) {
    struct sim_node *node = some_node(sim);

    sim_node_kill(node);
    restart_later(sim, node);
}

static void fault_pause(struct sim *sim) {
    struct fake_world *world = &sim->stage.world;
    struct sim_node *node = some_node(sim);

    if (node->alive)
        sim_node_pause(node, world->now_us +
                                 fake_below(world, fake_chance(world, 500)
                                                       ? sim->window_us / 2
                                                       : 2 * (sim->window_us + sim->lease_us)));
}

static void fault_step(struct sim *sim) {
    static const int64_t sizes_ms[] = {1, 2, 10, 50, 200, 1000, 10000, HOUR_MS};
    struct fake_world *world = &sim->stage.world;
    struct sim_node *node = some_node(sim);
    int64_t size_ms = sizes_ms[fake_below(world, fake_chance(world, 900) ? 5 : 8)];
    int64_t ms = fake_chance(world, 500) ? size_ms : -size_ms;

    fake_clock_step(&node->clock, ms);
    if (node->alive)
        sim_node_clock_changed(node);
}

static void fault_rate(struct sim *sim) {
    struct fake_world *world = &sim->stage.world;
    int64_t most_ppm = fake_chance(world, 700) ? 500 : 300000;

    fake_clock_rate(&some_node(sim)->clock,
                    (int64_t)fake_below(world, (uint64_t)(2 * most_ppm)) - most_ppm);
}

static const struct etcd_kv *some_own(struct sim *sim, char key[static KEY_MAX],
                                      uint16_t *machine_id) {
    *machine_id = some_machine(sim);
    keys_own(&sim->stage.keys, *machine_id, key);
    return fake_etcd_get(sim->stage.etcd, key);
}

static void fault_lease(struct sim *sim) {
    char key[KEY_MAX];
    uint16_t machine_id;
    const struct etcd_kv *own = some_own(sim, key, &machine_id);

    if (own && own->lease)
        fake_etcd_revoke(sim->stage.etcd, own->lease);
}

static void fault_evict(struct sim *sim) {
    char key[KEY_MAX];
    uint16_t machine_id;

    if (some_own(sim, key, &machine_id))
        fake_etcd_delete(sim->stage.etcd, key);
}

static void on_evict(void *arg, uint64_t tag) {
    struct sim *sim = arg;
    char key[KEY_MAX];

    keys_own(&sim->stage.keys, (uint16_t)tag, key);
    fake_etcd_delete(sim->stage.etcd, key);
}

static uint64_t a_while(struct sim *sim) {
    return sim->stage.world.now_us + fake_below(&sim->stage.world, 2 * sim->window_us);
}

static void fault_own(struct sim *sim) {
    char key[KEY_MAX];
    uint16_t machine_id;

    some_own(sim, key, &machine_id);
    fake_etcd_put(sim->stage.etcd, key, "by hand", 0);
    fake_world_at(&sim->stage.world, a_while(sim), on_evict, sim, machine_id);
}

static void fault_reclaim(struct sim *sim) {
    struct fake_world *world = &sim->stage.world;
    char key[KEY_MAX], assign_key[KEY_MAX];
    uint16_t machine_id;
    const struct etcd_kv *kv = some_own(sim, key, &machine_id);
    struct assign assign = {.n_give_up = 1};
    struct own own;
    struct error err;
    char *text;

    if (!kv || own_parse(kv->value, kv->value_len, &own, &err) != STATUS_OK)
        return;
    assign.give_up[0].machine_id = machine_id;
    memcpy(assign.give_up[0].claim, own.claim, sizeof(own.claim));
    text = assign_format(&assign, NULL);
    assert(text);
    keys_assign(&sim->stage.keys, own.instance, assign_key);
    fake_etcd_put(sim->stage.etcd, assign_key, text, 0);
    free(text);
    fake_world_at(world, world->now_us + fake_below(world, 5000), on_evict, sim, machine_id);
}

static void fault_release(struct sim *sim) {
    struct sim_node *node = some_node(sim);

    if (node->alive)
        sim_node_release(node);
}

/* Never lowered, and never past the end of the epoch. */
static void raise_floor(struct meta *meta, uint64_t floor_ms) {
    if (floor_ms > snowflake_end_ms(meta->epoch_ms))
        floor_ms = snowflake_end_ms(meta->epoch_ms);
    if (floor_ms > meta->floor_ms)
        meta->floor_ms = floor_ms;
}

static void fault_meta(struct sim *sim) {
    struct fake_world *world = &sim->stage.world;
    const char *before = meta_text(sim);
    struct meta meta;
    uint64_t floor_ms;
    char *text;

    if (!before || sim->hidden_meta || sim_recover_active(&sim->recovery))
        return;
    read_meta(before, &meta);
    meta.serial++;
    switch (fake_below(world, 4)) {
    case 0: meta.mode = META_FROZEN; break;
    case 1:
        floor_ms = wall_ms(sim) + fake_below(world, sim->stage.config.window_ms);
        raise_floor(&meta, floor_ms);
        break;
    default: meta.mode = META_OPEN;
    }
    text = meta_format(&meta, before);
    assert(text);
    if (fake_chance(world, 200) && !strstr(text, "x_later")) {
        char *wider = NULL;
        int n = asprintf(&wider, "{\"x_later\":[%" PRIu64 "],%s", meta.serial, text + 1);

        assert(n > 0);
        (void)n;
        free(text);
        text = wider;
    }
    fake_etcd_put(sim->stage.etcd, sim->stage.keys.meta, text, 0);
    free(text);
}

/* What the next extension will ask for, more or less: low ceilings are the interesting ones. */
static void fault_ceiling(struct sim *sim) {
    struct fake_world *world = &sim->stage.world;
    uint64_t lead_ms = fake_chance(world, 500) ? 2 * sim->stage.config.window_ms
                                               : (uint64_t)HOUR_MS;

    write_ceiling(sim, wall_ms(sim) + fake_below(world, lead_ms));
}

static void show_meta(struct sim *sim) {
    if (!sim->hidden_meta)
        return;
    fake_etcd_put(sim->stage.etcd, sim->stage.keys.meta, sim->hidden_meta, 0);
    free(sim->hidden_meta);
    sim->hidden_meta = NULL;
}

static void show_horizon(struct sim *sim, size_t i) {
    char key[KEY_MAX];

    if (!sim->hidden_hor[i])
        return;
    keys_hor(&sim->stage.keys, (uint16_t)(sim->stage.first_machine_id + i), key);
    fake_etcd_put(sim->stage.etcd, key, sim->hidden_hor[i], 0);
    free(sim->hidden_hor[i]);
    sim->hidden_hor[i] = NULL;
}

static void on_show_meta(void *arg, uint64_t tag) {
    (void)tag;
    show_meta(arg);
}

static void on_show_horizon(void *arg, uint64_t tag) {
    show_horizon(arg, tag);
}

static void fault_absent(struct sim *sim) {
    struct fake_world *world = &sim->stage.world;
    uint16_t machine_id = some_machine(sim);
    size_t i = (size_t)(machine_id - sim->stage.first_machine_id);
    const struct etcd_kv *kv;
    char key[KEY_MAX];

    if (fake_chance(world, 500)) {
        if (!meta_text(sim) || sim->hidden_meta || sim_recover_active(&sim->recovery))
            return;
        sim->hidden_meta = strdup(meta_text(sim));
        fake_etcd_delete(sim->stage.etcd, sim->stage.keys.meta);
        fake_world_at(world, a_while(sim), on_show_meta, sim, 0);
        return;
    }
    keys_hor(&sim->stage.keys, machine_id, key);
    kv = fake_etcd_get(sim->stage.etcd, key);
    if (!kv || sim->hidden_hor[i] || sim_recover_active(&sim->recovery))
        return;
    sim->hidden_hor[i] = strdup(kv->value);
    fake_etcd_delete(sim->stage.etcd, key);
    fake_world_at(world, a_while(sim), on_show_horizon, sim, i);
}

static void fault_era(struct sim *sim) {
    struct meta meta;

    if (!meta_text(sim) || sim->hidden_meta || sim_recover_active(&sim->recovery))
        return;
    sim->hidden_meta = strdup(meta_text(sim));
    read_meta(sim->hidden_meta, &meta);
    meta.n_earlier_eras = 0;
    meta.serial++;
    new_era(sim, meta.era);
    write_meta(sim, &meta, NULL);
    fake_world_at(&sim->stage.world, a_while(sim), on_show_meta, sim, 0);
}

static void fault_outage(struct sim *sim) {
    fake_etcd_outage(sim->stage.etcd, a_while(sim));
}

static void on_space(void *arg, uint64_t tag) {
    struct sim *sim = arg;

    (void)tag;
    fake_etcd_no_space(sim->stage.etcd, false);
}

static void fault_space(struct sim *sim) {
    fake_etcd_no_space(sim->stage.etcd, true);
    fake_world_at(&sim->stage.world, a_while(sim), on_space, sim, 0);
}

static bool keys_hidden(const struct sim *sim) {
    size_t i;

    if (sim_recover_active(&sim->recovery))
        return true;
    for (i = 0; i < MACHINES_MAX; i++)
        if (sim->hidden_hor[i])
            return true;
    return sim->hidden_meta != NULL;
}

static void fault_snapshot(struct sim *sim) {
    if (keys_hidden(sim))
        return;
    fake_snapshot_free(sim->snapshot);
    sim->snapshot = fake_etcd_snapshot(sim->stage.etcd);
}

static void fault_restore(struct sim *sim) {
    if (sim->snapshot && !keys_hidden(sim) && sim_recover_start(&sim->recovery, sim->snapshot))
        sim->restores++;
}

static void fault_stale(struct sim *sim) {
    fake_etcd_remember(sim->stage.etcd);
}

static void (*const fault_fns[FAULTS])(struct sim *sim) = {
    [FAULT_KILL] = fault_kill,   [FAULT_PAUSE] = fault_pause,       [FAULT_STEP] = fault_step,
    [FAULT_RATE] = fault_rate,   [FAULT_LEASE] = fault_lease,       [FAULT_EVICT] = fault_evict,
    [FAULT_OWN] = fault_own,     [FAULT_RECLAIM] = fault_reclaim,   [FAULT_RELEASE] = fault_release,
    [FAULT_META] = fault_meta,   [FAULT_CEILING] = fault_ceiling,   [FAULT_ABSENT] = fault_absent,
    [FAULT_ERA] = fault_era,     [FAULT_OUTAGE] = fault_outage,     [FAULT_SPACE] = fault_space,
    [FAULT_STALE] = fault_stale, [FAULT_SNAPSHOT] = fault_snapshot, [FAULT_RESTORE] = fault_restore,
};
static const char *const fault_names[FAULTS] = {
    "kill",        "pause",   "clock step", "clock rate", "lease ends", "evict",
    "own by hand", "reclaim", "release",    "meta",       "ceiling",    "absent",
    "era",         "outage",  "no space",   "stale",      "snapshot",   "restore"};

static void on_fault(void *arg, uint64_t tag) {
    struct sim *sim = arg;
    struct fake_world *world = &sim->stage.world;
    uint64_t total = 0, draw;
    unsigned i;

    (void)tag;
    if (sim->calm)
        return;
    for (i = 0; i < FAULTS; i++)
        total += sim->weights[i];
    if (total) {
        draw = fake_below(world, total);
        for (i = 0; draw >= sim->weights[i]; i++)
            draw -= sim->weights[i];
        sim_trace(&sim->stage, NULL, "FAULT %s", fault_names[i]);
        fault_fns[i](sim);
        sim->faults++;
    }
    fake_world_at(world, world->now_us + fake_below(world, 2 * sim->fault_every_us), on_fault, sim,
                  0);
}

/* Workers that released, or that live in an era which is no more, are started again by whatever
 * supervises them. */
static void on_supervise(void *arg, uint64_t tag) {
    struct sim *sim = arg;
    unsigned i;

    (void)tag;
    for (i = 0; i < sim->n_nodes; i++) {
        struct hold_view view;

        if (!sim->nodes[i].alive)
            continue;
        sim_node_look(&sim->nodes[i], &view);
        if (view.phase == HOLD_RELEASED || (sim->calm && view.phase == HOLD_HALTED)) {
            sim_node_kill(&sim->nodes[i]);
            restart_later(sim, &sim->nodes[i]);
        }
    }
    fake_world_at(&sim->stage.world, sim->stage.world.now_us + sim->window_us / 2, on_supervise,
                  sim, 0);
}

/* ---- one schedule ---- */

static unsigned some_chance(struct fake_world *world, unsigned most) {
    return fake_chance(world, 400) ? 0 : (unsigned)fake_below(world, most + 1);
}

static void node_random(void *arg, void *bytes, size_t n) {
    fake_random_bytes(arg, bytes, n);
}

/* Every seed has a mix of its own: few faults often, or many of all kinds. */
/* A third of the schedules lets every step through, which is the worst that can happen. */
static void choose_clock(struct sim_stage *stage) {
    static const int64_t forward_ms[] = {0, 5, 50, 1000};
    struct fake_world *world = &stage->world;

    stage->clock_limits = (struct effective_limits){
        .strategy = (enum clock_strategy)fake_below(world, 3),
        .max_forward_ns = forward_ms[fake_below(world, 4)] * 1000000,
        .max_offset_ns = (int64_t)fake_below(world, 2000) * 1000000,
        .max_error_ns = 10000000,
        .drift_ppm = 200,
    };
    stage->confirmed = fake_chance(world, 500) ? 800 : 0;
    if (fake_chance(world, 333))
        stage->clock_limits = (struct effective_limits){.strategy = CLOCK_WAIT,
                                                        .max_forward_ns = INT64_MAX / 2};
}

static void choose_mix(struct sim *sim) {
    static const uint64_t windows_ms[] = {20, 50, 100, 200};
    struct sim_stage *stage = &sim->stage;
    struct fake_world *world = &stage->world;
    uint64_t window_ms = windows_ms[fake_below(world, 4)], ttl_s = fake_between(world, 1, 3);
    uint64_t lease_second_ms = fake_between(world, window_ms / 4, window_ms);
    unsigned i;

    sim->n_nodes = (unsigned)fake_between(world, 2, NODES_MAX);
    stage->first_machine_id = (uint16_t)fake_below(world, MACHINE_IDS - MACHINES_MAX);
    stage->last_machine_id = (uint16_t)(stage->first_machine_id +
                                        fake_below(world, fake_chance(world, 600) ? 1 : 3));
    sim->window_us = window_ms * 1000;
    sim->lease_us = ttl_s * lease_second_ms * 1000;
    fake_etcd_lease_second(stage->etcd, lease_second_ms * 1000);
    stage->config = (struct hold_config){
        .keys = &stage->keys,
        .window_ms = window_ms,
        .claim_ahead_ms = fake_chance(world, 500) ? 5000 : window_ms / 2,
        .lease_ttl_s = ttl_s,
        .keepalive_interval_ms = sim->lease_us / 3000 + 1,
        .retry_min_ms = window_ms / 20,
        .retry_max_ms = window_ms / 4,
        .random = node_random,
        .random_arg = world,
    };
    stage->start = fake_chance(world, 800) ? SNOWFLAKE_START_ZERO : SNOWFLAKE_START_SPREAD;
    stage->max_backward_wait_ms = 10;
    choose_clock(stage);
    stage->slow_order = some_chance(world, 200);
    stage->slow_order_us = fake_between(world, sim->window_us / 4, 2 * sim->window_us);
    stage->burst = some_chance(world, 100);
    stage->any_offer = some_chance(world, 300);
    stage->request_every_us = fake_between(world, sim->window_us / 40, sim->window_us / 4);
    stage->link = (struct fake_link){
        .timeout_us = fake_between(world, sim->window_us / 10, sim->window_us / 2),
        .delay_min_us = 50,
        .delay_max_us = fake_between(world, 50, sim->window_us / 20),
        .slow_max_us = fake_between(world, sim->window_us / 4, 2 * sim->window_us),
        .slow = some_chance(world, 200),
        .refused = some_chance(world, 100),
        .lost_requests = some_chance(world, 150),
        .lost_answers = some_chance(world, 200),
        .repeated = some_chance(world, 200),
        .stale = some_chance(world, 500),
        .broken_watch = some_chance(world, 200),
    };
    if (fake_chance(world, 600)) {
        sim->fault_every_us = fake_between(world, sim->window_us / 8, 2 * sim->window_us);
        for (i = 0; i < FAULTS; i++)
            sim->weights[i] = fake_chance(world, 600) ? 0 : (unsigned)fake_between(world, 1, 8);
    } else {
        sim->fault_every_us = fake_between(world, sim->window_us / 16, sim->window_us / 2);
        for (i = 0; i < 3; i++)
            sim->weights[fake_below(world, FAULTS)] = (unsigned)fake_between(world, 1, 4);
    }
    sim->weights[FAULT_RELEASE] += fake_chance(world, 500) ? 2 : 0;
    sim->weights[FAULT_STALE] += stage->link.stale ? 4 : 0;
    if (fake_chance(world, 250)) { /* much is lost that only the floor covers */
        sim->weights[FAULT_RESTORE] += 3;
        sim->weights[FAULT_SNAPSHOT] += 2;
        sim->weights[FAULT_KILL] += 3;
    }
    sim->weights[FAULT_SNAPSHOT] += sim->weights[FAULT_RESTORE] ? 1 : 0;
}

static void check(struct sim *sim) {
    unsigned i;

    for (i = 0; i < sim->n_nodes; i++)
        sim_node_live_limits(&sim->nodes[i]);
}

static void run_until(struct sim *sim, uint64_t until_us) {
    while (!oracle_violation(sim->stage.oracle) && fake_world_step(&sim->stage.world, until_us))
        check(sim);
}

/* As the leader evicts a holder that shows no life: no lease will ever end this one. */
static void evict_if_permanent(struct sim *sim, uint16_t machine_id) {
    const struct etcd_kv *own;
    char key[KEY_MAX];

    keys_own(&sim->stage.keys, machine_id, key);
    own = fake_etcd_get(sim->stage.etcd, key);
    if (own && !own->lease)
        fake_etcd_delete(sim->stage.etcd, key);
}

/* The faults end.  Time passes until no horizon and no floor is ahead of any clock. */
static void calm_down(struct sim *sim) {
    struct sim_stage *stage = &sim->stage;
    struct fake_world *world = &stage->world;
    struct meta meta;
    uint64_t latest_ms = oracle_highest_ms(stage->oracle);
    size_t i;

    sim_trace(stage, NULL, "CALM");
    sim->calm = true;
    stage->link = (struct fake_link){
        .timeout_us = stage->link.timeout_us, .delay_min_us = 50, .delay_max_us = 200};
    stage->slow_order = stage->any_offer = 0;
    stage->certain = true;
    stage->request_every_us = sim->window_us / 4;
    fake_etcd_outage(stage->etcd, 0);
    fake_etcd_no_space(stage->etcd, false);
    sim_recover_finish(&sim->recovery);
    show_meta(sim);
    for (i = 0; i < MACHINES_MAX; i++)
        show_horizon(sim, i);
    for (i = stage->first_machine_id; i <= stage->last_machine_id; i++)
        evict_if_permanent(sim, (uint16_t)i);
    read_meta(meta_text(sim), &meta);
    meta.mode = META_OPEN;
    meta.serial++;
    write_meta(sim, &meta, meta_text(sim));
    if (meta.floor_ms > latest_ms)
        latest_ms = meta.floor_ms;
    for (i = 0; i < sim->n_nodes; i++) {
        uint64_t now_ms = fake_clock_now(&sim->nodes[i].clock).wall_ms;

        latest_ms = now_ms > latest_ms ? now_ms : latest_ms;
    }
    write_ceiling(sim, latest_ms + (uint64_t)HOUR_MS);
    for (i = 0; i < sim->n_nodes; i++) {
        struct sim_node *node = &sim->nodes[i];

        fake_clock_rate(&node->clock, 0);
        fake_clock_step(&node->clock, (int64_t)(latest_ms - fake_clock_now(&node->clock).wall_ms));
        if (node->alive) {
            sim_node_pause(node, world->now_us);
            sim_node_accept_clock(node);
            sim_node_clock_changed(node);
        }
    }
}

static void expect_service(struct sim *sim, const struct sim_options *options,
                           struct sim_result *result) {
    struct sim_stage *stage = &sim->stage;
    unsigned slots = stage->last_machine_id - stage->first_machine_id + 1u;
    unsigned expected = sim->n_nodes < slots ? sim->n_nodes : slots, serving = 0, i;
    uint64_t served_before[NODES_MAX] = {0};

    for (i = 0; i < sim->n_nodes; i++)
        served_before[i] = sim->nodes[i].served_total;
    run_until(sim, stage->world.now_us + 2 * sim->window_us);
    for (i = 0; i < sim->n_nodes; i++)
        serving += sim->nodes[i].alive && sim->nodes[i].served_total > served_before[i];
    if (oracle_violation(stage->oracle) || options->duplicates_only || sim->ends)
        return;
    if (serving < expected)
        snprintf(result->violation, sizeof(result->violation),
                 "LIVENESS: %u of %u workers serve, %u machine IDs", serving, sim->n_nodes, slots);
    else if (fake_etcd_leases(stage->etcd) > 2 * sim->n_nodes)
        snprintf(result->violation, sizeof(result->violation), "LEASES: %zu of %u workers",
                 fake_etcd_leases(stage->etcd), sim->n_nodes);
}

static void finish(struct sim *sim, struct sim_result *result) {
    unsigned i;

    for (i = 0; i < sim->n_nodes; i++) {
        sim_node_kill(&sim->nodes[i]);
        result->lost += sim->nodes[i].lost_total;
        result->unknown += sim->nodes[i].unknown_total;
        result->resumes += sim->nodes[i].resumes_total;
    }
    result->events = sim->stage.world.events_total;
    result->faults = sim->faults;
    result->restores = sim->restores;
    result->counts = oracle_counts(sim->stage.oracle);
    if (oracle_violation(sim->stage.oracle))
        snprintf(result->violation, sizeof(result->violation), "%s",
                 oracle_violation(sim->stage.oracle));
    if (result->violation[0])
        sim_trace(&sim->stage, NULL, "VIOLATION %s", result->violation);
    for (i = 0; i < MACHINES_MAX; i++)
        free(sim->hidden_hor[i]);
    free(sim->hidden_meta);
    free(sim->recovery.frozen);
    fake_snapshot_free(sim->snapshot);
    oracle_free(sim->stage.oracle);
    fake_etcd_free(sim->stage.etcd);
    fake_world_done(&sim->stage.world);
}

void sim_run(uint64_t seed, const struct sim_options *options, struct sim_result *result) {
    static struct sim sim;
    struct sim_stage *stage = &sim.stage;
    struct fake_world *world = &stage->world;
    struct error err;
    uint64_t start_ms;
    unsigned i;

    memset(&sim, 0, sizeof(sim));
    *result = (struct sim_result){.violation = ""};
    fake_world_init(world, seed);
    stage->trace = options->trace;
    stage->etcd = fake_etcd_new(world);
    if (keys_init(&stage->keys, "sim", &err) != STATUS_OK)
        abort();
    stage->oracle = oracle_new(stage->etcd, &stage->keys, options->duplicates_only);
    choose_mix(&sim);
    sim.recovery.stage = stage;
    sim.recovery.nodes = sim.nodes;
    sim.recovery.n_nodes = sim.n_nodes;
    sim.recovery.every_us = sim.window_us / 4;
    sim.ends = fake_chance(world, 20);
    start_ms = sim.ends ? snowflake_end_ms(SNOWFLAKE_EPOCH_MS) -
                              fake_below(world, 20 * stage->config.window_ms)
                        : SNOWFLAKE_EPOCH_MS + UINT64_C(1000000000) + fake_below(world, 1000);
    for (i = 0; i < sim.n_nodes; i++) {
        fake_clock_init(&sim.nodes[i].clock, world,
                        start_ms + fake_below(world, fake_chance(world, 800) ? 5 : 1000), 1000);
    }
    initialise(&sim, start_ms);
    for (i = 0; i < sim.n_nodes; i++)
        fake_world_at(world, fake_below(world, sim.window_us), on_restart, &sim, i);
    fake_world_at(world, 0, on_fault, &sim, 0);
    fake_world_at(world, sim.window_us, on_supervise, &sim, 0);

    run_until(&sim, fake_between(world, 6, 20) * sim.window_us);
    if (!oracle_violation(stage->oracle)) {
        calm_down(&sim);
        run_until(&sim, world->now_us + 4 * (sim.window_us + sim.lease_us));
        if (!oracle_violation(stage->oracle))
            expect_service(&sim, options, result);
    }
    finish(&sim, result);
}
