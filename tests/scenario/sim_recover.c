#include "tests/scenario/sim_recover.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/records.h"
#include "common/snowflake.h"

#define STATUS_ROOM 1024
#define CEILING_LEAD_MS UINT64_C(3600000)

static void on_step(void *arg, uint64_t tag);

static const char *value_of(const struct sim_stage *stage, const char *key) {
    const struct etcd_kv *kv = fake_etcd_get(stage->etcd, key);

    return kv ? kv->value : NULL;
}

static void succeed(enum status status, const struct error *err) {
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "recover: %s\n", err->message);
    abort();
}

static void draw_hex(struct sim_stage *stage, char out[static HEX128_CHARS + 1]) {
    unsigned char bits[16];

    fake_random_bytes(&stage->world, bits, sizeof(bits));
    hex128_format(bits, out);
}

/* What /v1/status says, as far as recover reads it.  The eras come by --earlier-era. */
static void spell_status(const struct sim_node *node, const struct hold_view *view,
                         char out[static STATUS_ROOM]) {
    char machine[STATUS_ROOM / 2] = "";

    if (view->has_slot)
        snprintf(machine, sizeof(machine),
                 "{\"machine_id\":%u,\"claim\":\"%s\",\"horizon_ms\":\"%" PRIu64
                 "\",\"limit_ms\":\"%" PRIu64 "\",\"pending\":%u,\"pending_horizon_ms\":\"%" PRIu64
                 "\",\"last_issued_ms\":\"0\"}",
                 view->machine_id, view->claim, view->horizon_ms, view->limit_ms,
                 (unsigned)view->pending, view->pending_ms);
    snprintf(out, STATUS_ROOM,
             "{\"instance\":\"%s\",\"cluster\":\"sim\",\"window_ms\":%" PRIu64
             ",\"clock\":{\"wall_ms\":\"%" PRIu64 "\"},\"machines\":[%s]}",
             node->self.instance, node->stage->config.window_ms,
             fake_clock_now(&node->clock).wall_ms, machine);
}

static void ask(struct sim_recovery *recovery, const struct sim_node *node) {
    struct sim_stage *stage = recovery->stage;
    char text[STATUS_ROOM];
    struct recover_source source;
    struct hold_view view;
    struct error err;

    if (!node->alive || stage->world.now_us < node->paused_until_us ||
        fake_chance(&stage->world, 250)) {
        sim_trace(stage, NULL, "recover does not hear node %u", node->index);
        return;
    }
    sim_node_look(node, &view);
    spell_status(node, &view, text);
    sim_trace(stage, NULL, "recover hears %s", text);
    succeed(recover_from_status(text, strlen(text), "node", &source, &err), &err);
    succeed(recover_add(&recovery->evidence, &source, "sim", &err), &err);
    if (view.has_generation)
        recovery->shown[recovery->n_shown++] = (struct oracle_shown){.process = node->process,
                                                                     .machine_id = view.machine_id};
    assert(recovery->n_shown < SIM_RECOVER_SHOWN_MAX);
}

/* Compares nothing: nobody else writes a hor key that is to be raised in the same moment. */
static void raise_horizons(struct sim_recovery *recovery) {
    struct sim_stage *stage = recovery->stage;
    struct horizon horizon = {.n = 1}, stands;
    char key[KEY_MAX], text[HORIZON_TEXT_MAX];

    draw_hex(stage, horizon.claim);
    for (unsigned id = stage->first_machine_id; id <= stage->last_machine_id; id++) {
        const char *before;

        keys_hor(&stage->keys, (uint16_t)id, key);
        before = value_of(stage, key);
        horizon.horizon_ms = recover_horizon(&recovery->evidence, (uint16_t)id);
        if (before && horizon_parse(before, strlen(before), &stands) &&
            stands.horizon_ms >= horizon.horizon_ms)
            continue;
        horizon_format(&horizon, text);
        sim_trace(stage, NULL, "recover raises %u to %s", id, text);
        fake_etcd_put(stage->etcd, key, text, 0);
    }
    recovery->raised = true;
}

/* The clock of recover is as wrong as it may be: its floor reaches just what it has to. */
static void open_meta(struct sim_recovery *recovery) {
    struct sim_stage *stage = recovery->stage;
    struct meta *meta = &recovery->meta;
    uint64_t unheard_ms = oracle_unshown_ms(stage->oracle, recovery->shown, recovery->n_shown,
                                            recovery->restored);
    uint64_t reach_ms = meta->max_window_ms + meta->max_offset_ms;
    uint64_t now_ms = unheard_ms > meta->epoch_ms + reach_ms ? unheard_ms - reach_ms
                                                             : meta->epoch_ms;
    char era[HEX128_CHARS + 1], ceiling[CEILING_TEXT_MAX];
    struct error err;
    char *text;

    draw_hex(stage, era);
    now_ms += fake_chance(&stage->world, 500) ? 0 : fake_below(&stage->world, meta->max_window_ms);
    /* A floor beyond the end of the epoch is refused. */
    if (now_ms > snowflake_end_ms(meta->epoch_ms) - reach_ms)
        now_ms = snowflake_end_ms(meta->epoch_ms) - reach_ms;
    succeed(recover_open(&recovery->evidence, era, now_ms, 0, meta, &err), &err);
    meta->serial++;
    ceiling_format(meta->floor_ms + CEILING_LEAD_MS, ceiling);
    fake_etcd_put(stage->etcd, stage->keys.ceil, ceiling, 0);
    text = meta_format(meta, recovery->frozen);
    sim_trace(stage, NULL, "recover opens at floor %" PRIu64, meta->floor_ms);
    fake_etcd_put(stage->etcd, stage->keys.meta, text, 0);
    free(text);
    free(recovery->frozen);
    recovery->frozen = NULL;
    recovery->step = 0;
}

static void next_step(struct sim_recovery *recovery) {
    if (recovery->step <= recovery->n_nodes)
        ask(recovery, &recovery->nodes[recovery->step++ - 1]);
    else if (!recovery->raised)
        raise_horizons(recovery);
    else
        open_meta(recovery);
}

static void later(struct sim_recovery *recovery) {
    struct fake_world *world = &recovery->stage->world;

    fake_world_at(world, world->now_us + fake_below(world, recovery->every_us), on_step, recovery,
                  0);
}

static void on_step(void *arg, uint64_t tag) {
    struct sim_recovery *recovery = arg;

    (void)tag;
    if (!sim_recover_active(recovery))
        return;
    next_step(recovery);
    if (sim_recover_active(recovery))
        later(recovery);
}

static void read_restored(struct sim_recovery *recovery) {
    struct sim_stage *stage = recovery->stage;

    for (unsigned id = stage->first_machine_id; id <= stage->last_machine_id; id++) {
        struct horizon horizon;
        char key[KEY_MAX];
        const char *text;

        keys_hor(&stage->keys, (uint16_t)id, key);
        text = value_of(stage, key);
        recovery->restored[id] = text && horizon_parse(text, strlen(text), &horizon)
                                     ? horizon.horizon_ms
                                     : 0;
    }
}

bool sim_recover_active(const struct sim_recovery *recovery) {
    return recovery->step > 0;
}

bool sim_recover_start(struct sim_recovery *recovery, const struct fake_snapshot *snapshot) {
    struct sim_stage *stage = recovery->stage;
    struct recover_orders orders = {.has_epoch = false};
    const char *text = value_of(stage, stage->keys.meta);
    struct meta found, *lost = &orders.meta;
    struct error err;

    assert(text && !sim_recover_active(recovery));
    succeed(meta_parse(text, strlen(text), lost, &err), &err);
    if (lost->n_earlier_eras + 2 > RECORD_EARLIER_ERAS_MAX)
        return false;
    fake_etcd_restore(stage->etcd, snapshot);
    text = value_of(stage, stage->keys.meta);
    succeed(meta_parse(text, strlen(text), &found, &err), &err);
    succeed(recover_begin(&recovery->evidence, &orders, &found, &err), &err);
    recovery->meta = found;
    succeed(recover_freeze(&recovery->evidence, RECORD_ROLLBACK_REASON " recover", &recovery->meta,
                           &err),
            &err);
    recovery->frozen = meta_format(&recovery->meta, text);
    fake_etcd_put(stage->etcd, stage->keys.meta, recovery->frozen, 0);
    read_restored(recovery);
    recovery->n_shown = 0;
    recovery->raised = false;
    recovery->step = 1;
    later(recovery);
    return true;
}

void sim_recover_finish(struct sim_recovery *recovery) {
    while (sim_recover_active(recovery))
        next_step(recovery);
}
