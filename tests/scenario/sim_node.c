#include "tests/scenario/sim_node.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/records.h"
#include "common/snowflake.h"

#define NS_PER_MS INT64_C(1000000)
#define REQUEST_TRIES_MAX 20 /* then the client has gone */

static void pump(struct sim_node *node);
static void on_seek(void *arg, uint64_t tag);
static void on_request(void *arg, uint64_t tag);

/* ---- trace ---- */

void sim_trace(const struct sim_stage *stage, const struct sim_node *node, const char *format,
               ...) {
    va_list args;

    if (!stage->trace)
        return;
    fprintf(stage->trace, "%9.3f ", (double)stage->world.now_us / 1000);
    if (node)
        fprintf(stage->trace, "node %u.%zu %" PRIu64 " ", node->index, node->process,
                fake_clock_now(&node->clock).wall_ms);
    va_start(args, format);
    vfprintf(stage->trace, format, args);
    va_end(args);
    fputc('\n', stage->trace);
}

static const char *without_prefix(const struct sim_stage *stage, const char *key) {
    size_t n = strlen(stage->keys.prefix);

    return strncmp(key, stage->keys.prefix, n) ? key : key + n;
}

static void trace_ops(const struct sim_stage *stage, const char *part, const struct etcd_op *ops,
                      size_t n) {
    static const char *const names[] = {"put", "get", "delete"};
    size_t i;

    fprintf(stage->trace, " %s", part);
    for (i = 0; i < n; i++) {
        fprintf(stage->trace, " %s %s", names[ops[i].kind], without_prefix(stage, ops[i].key));
        if (ops[i].kind == ETCD_PUT)
            fprintf(stage->trace, "=%.70s", ops[i].value);
    }
}

static void trace_txn(const struct sim_node *node, const struct etcd_txn *txn) {
    static const char *const signs[] = {"=", ">", " absent"};
    const struct sim_stage *stage = node->stage;
    size_t i;

    if (!stage->trace)
        return;
    sim_trace(stage, node, "sends txn");
    fprintf(stage->trace, "             if");
    for (i = 0; i < txn->n_compares; i++)
        fprintf(stage->trace, " %s%s%.70s", without_prefix(stage, txn->compares[i].key),
                signs[txn->compares[i].kind], txn->compares[i].value ? txn->compares[i].value : "");
    trace_ops(stage, "then", txn->then, txn->n_then);
    fputc('\n', stage->trace);
}

static void trace_answer(const struct sim_node *node, const struct error *err,
                         const struct etcd_txn_result *result) {
    const struct sim_stage *stage = node->stage;
    size_t i, j;

    if (!stage->trace)
        return;
    if (err) {
        sim_trace(stage, node, "is answered %s", err->message);
        return;
    }
    sim_trace(stage, node, "is answered %s", result->succeeded ? "then" : "else");
    for (i = 0; i < result->n_results; i++)
        for (j = 0; j < result->results[i].n_kvs; j++)
            fprintf(stage->trace, "             %s=%.90s\n",
                    without_prefix(stage, result->results[i].kvs[j].key),
                    result->results[i].kvs[j].value);
}

/* ---- events ---- */

/* Whether an event of the world still concerns this process and can happen now; if the process is
 * paused, it happens later. */
static bool concerns(struct sim_node *node, uint64_t life, fake_event_fn *again) {
    struct fake_world *world = &node->stage->world;

    if (!node->alive || node->life != life)
        return false;
    if (world->now_us >= node->paused_until_us)
        return true;
    fake_world_at(world, node->paused_until_us, again, node, life);
    return false;
}

static void after(struct sim_node *node, uint64_t us, fake_event_fn *fn) {
    fake_world_at(&node->stage->world, node->stage->world.now_us + us, fn, node, node->life);
}

/* ---- the effective clock ---- */

static struct instant_ns physical(const struct sim_node *node) {
    struct instant now = fake_clock_now(&node->clock);

    return (struct instant_ns){.wall_ns = (int64_t)now.wall_ms * NS_PER_MS,
                               .boot_ns = (int64_t)now.boot_ms * NS_PER_MS};
}

/* As any thread sees it, whether or not the control thread has looked since a step. */
static struct effective_now effective_of(const struct sim_node *node) {
    return effective_clock_at(&node->effective, physical(node));
}

static struct instant now_of(const struct sim_node *node) {
    struct effective_now now = effective_of(node);

    return (struct instant){.wall_ms = (uint64_t)(now.effective_ns / NS_PER_MS),
                            .boot_ms = (uint64_t)(now.boot_ns / NS_PER_MS)};
}

/* The first true time at which the effective clock reads that much, if it goes on as it does. */
static uint64_t when_effective(const struct sim_node *node, uint64_t effective_ms) {
    struct effective_clock then = node->effective;
    int64_t boot_ns;

    effective_clock_look(&then, physical(node));
    boot_ns = effective_clock_when(&then, (int64_t)effective_ms * NS_PER_MS);
    return fake_clock_when_boot(
        &node->clock, boot_ns > 0 ? (uint64_t)((boot_ns + NS_PER_MS - 1) / NS_PER_MS) : 0);
}

/* The control thread looks.  How good its clock is it hears from elsewhere, or not. */
static void look_at_clock(struct sim_node *node) {
    struct fake_world *world = &node->stage->world;

    effective_clock_look(&node->effective, physical(node));
    if (node->stage->certain)
        effective_clock_tell_error(&node->effective, true, 0);
    else if (node->effective.limits.strategy == CLOCK_BOUNDED && fake_chance(world, 200))
        effective_clock_tell_error(&node->effective, !fake_chance(world, 100),
                                   (int64_t)fake_below(world, 12) * NS_PER_MS);
}

/* ---- the serving thread ---- */

/* Tells what a take added.  A request starts again when its generation was replaced. */
static void report_runs(struct sim_node *node, const struct service_ids *ids, size_t n_before,
                        int64_t first_before) {
    size_t i = n_before && ids->n_runs >= n_before && ids->runs[0].first == first_before ? n_before
                                                                                         : 0;

    for (; i < ids->n_runs; i++) {
        struct snowflake_parts parts = snowflake_decode(ids->runs[i].first,
                                                        node->service.generation.ids.epoch_ms);

        sim_trace(node->stage, node, "issues %u %" PRIu64 ".%u +%u claim %.8s limit %" PRIu64,
                  parts.machine_id, parts.timestamp_ms, parts.sequence, ids->runs[i].count,
                  node->service.generation.claim, node->service.generation.ids.limit_ms);
        oracle_issued(node->stage->oracle, node->process, &node->service.generation,
                      ids->runs[i].first, ids->runs[i].count);
    }
}

static void tell_service(struct sim_node *node) {
    struct effective_now now = effective_of(node);

    service_tell_clock(
        &node->service,
        &(struct service_clock){.bounded = node->effective.limits.strategy == CLOCK_BOUNDED,
                                .refuses = now.refuses,
                                .knows_error = now.knows_error,
                                .error_ns = now.error_ns,
                                .max_error_ns = node->effective.limits.max_error_ns});
}

static void serve(struct sim_node *node, struct sim_request *request) {
    struct fake_world *world = &node->stage->world;
    size_t n_before = request->ids.n_runs;
    int64_t first_before = n_before ? request->ids.runs[0].first : 0;
    struct service_error err;
    uint64_t wait_until_ms = 0;
    enum service_outcome outcome;

    tell_service(node);
    outcome = service_take(&node->service, now_of(node).wall_ms, &request->ids, &wait_until_ms,
                           &err);

    report_runs(node, &request->ids, n_before, first_before);
    if (outcome == SERVICE_WAIT && ++request->tries < REQUEST_TRIES_MAX) {
        uint64_t at_us = when_effective(node, wait_until_ms);

        if (at_us > world->now_us + 20000)
            at_us = world->now_us + 20000;
        fake_world_at(world, at_us + fake_below(world, 300), on_request, node, node->life);
        return;
    }
    if (outcome == SERVICE_DONE)
        node->served_total++;
    service_ids_free(&request->ids);
    *request = (struct sim_request){0};
}

/* Parked requests go on; there is nothing to tell whose turn it is. */
static void on_request(void *arg, uint64_t tag) {
    struct sim_node *node = arg;
    size_t i;

    if (!concerns(node, tag, on_request))
        return;
    for (i = 0; i < SIM_PARKED_MAX; i++)
        if (node->requests[i].active)
            serve(node, &node->requests[i]);
}

static void new_request(struct sim_node *node, uint32_t want) {
    size_t i;

    for (i = 0; i < SIM_PARKED_MAX && node->requests[i].active; i++)
        ;
    if (i == SIM_PARKED_MAX)
        return;
    node->requests[i] = (struct sim_request){.active = true, .ids = {.want = want}};
    serve(node, &node->requests[i]);
}

/* A client comes by, and the next one after it. */
static void on_client(void *arg, uint64_t tag) {
    struct sim_node *node = arg;
    struct fake_world *world = &node->stage->world;

    if (!concerns(node, tag, on_client) || !node->stage->request_every_us)
        return;
    new_request(node, fake_chance(world, node->stage->burst)
                          ? (uint32_t)fake_between(world, 4000, SERVICE_COUNT_MAX)
                          : (uint32_t)fake_between(world, 1, 2));
    after(node, fake_below(world, 2 * node->stage->request_every_us), on_client);
}

/* The edges of a grant are where mistakes show: its last millisecond, and that of the next one. */
static void on_edge(void *arg, uint64_t tag) {
    struct sim_node *node = arg;

    if (concerns(node, tag, on_edge))
        new_request(node, fake_chance(&node->stage->world, 300) ? SNOWFLAKE_SEQUENCE_MAX + 1 : 1);
}

static void ask_at(struct sim_node *node, uint64_t wall_ms) {
    uint64_t at_us = when_effective(node, wall_ms);

    if (at_us < node->stage->world.now_us + 1000000)
        fake_world_at(&node->stage->world, at_us + fake_below(&node->stage->world, 900), on_edge,
                      node, node->life);
}

static void on_closed(void *arg, uint64_t tag) {
    struct sim_node *node = arg;

    if (!concerns(node, tag, on_closed))
        return;
    sim_trace(node->stage, node, "hears that the loop closed at %" PRIu64, node->closed_last_ms);
    hold_closed(node->hold, now_of(node), node->closed_last_ms);
    pump(node);
}

static uint64_t order_delay_us(struct sim_node *node) {
    struct fake_world *world = &node->stage->world;

    if (fake_chance(world, node->stage->slow_order))
        return fake_below(world, node->stage->slow_order_us + 1);
    return fake_below(world, 1000);
}

static void carry_out_order(struct sim_node *node, const struct sim_order *order) {
    struct sim_stage *stage = node->stage;

    switch (order->kind) {
    case HOLD_INSTALL:
        sim_trace(stage, node, "loop installs claim %.8s limit %" PRIu64 "%s", order->install.claim,
                  order->install.limit_ms, order->install.continues ? ", continues" : "");
        oracle_installed(stage->oracle, node->process, &order->install);
        service_install(&node->service, &order->install);
        if (!order->install.continues) {
            ask_at(node, order->install.used_up_ms);
            ask_at(node, order->install.used_up_ms + 1);
        }
        ask_at(node, order->install.limit_ms);
        break;
    case HOLD_RAISE:
        sim_trace(stage, node, "loop raises claim %.8s to %" PRIu64, order->claim, order->limit_ms);
        service_raise(&node->service, order->claim, order->limit_ms);
        ask_at(node, order->limit_ms);
        ask_at(node, order->limit_ms + 1);
        break;
    case HOLD_DROP:
        sim_trace(stage, node, "loop drops");
        service_drop(&node->service);
        break;
    case HOLD_CLOSE:
        node->closed_last_ms = service_close(&node->service);
        sim_trace(stage, node, "loop closes at %" PRIu64, node->closed_last_ms);
        oracle_closed(stage->oracle, node->process, node->closed_last_ms);
        after(node, order_delay_us(node), on_closed);
        break;
    default: abort(); /* not an order */
    }
}

static void on_order(void *arg, uint64_t tag) {
    struct sim_node *node = arg;
    struct sim_order order;

    if (!concerns(node, tag, on_order))
        return;
    assert(node->n_orders > 0);
    order = node->orders[0];
    node->n_orders--;
    memmove(node->orders, node->orders + 1, node->n_orders * sizeof(*node->orders));
    carry_out_order(node, &order);
}

static void queue_order(struct sim_node *node, const struct hold_act *act) {
    struct fake_world *world = &node->stage->world;
    uint64_t at_us = world->now_us + order_delay_us(node);

    if (at_us < node->last_order_us)
        at_us = node->last_order_us;
    node->last_order_us = at_us;
    if (node->n_orders == node->orders_room) {
        node->orders_room = node->orders_room ? node->orders_room * 2 : 8;
        node->orders = realloc(node->orders, node->orders_room * sizeof(*node->orders));
        assert(node->orders);
    }
    node->orders[node->n_orders] = (struct sim_order){
        .kind = act->kind, .install = act->install, .limit_ms = act->limit_ms};
    memcpy(node->orders[node->n_orders].claim, act->claim, sizeof(act->claim));
    node->n_orders++;
    fake_world_at(world, at_us, on_order, node, node->life);
}

/* A claim that gained nothing, at a low ceiling, has no limit that it may still use. */
static bool exhausted(const struct snowflake *ids) {
    return ids->last_wall_ms > ids->limit_ms ||
           (ids->last_wall_ms == ids->limit_ms && ids->sequence == SNOWFLAKE_SEQUENCE_MAX);
}

static void expect_fenced(const struct sim_node *node, const struct service *service) {
    const struct generation *generation = &service->generation;

    if (service->serving && !exhausted(&generation->ids))
        oracle_live_limit(node->stage->oracle, node->process, generation->era,
                          generation->ids.machine_id, generation->ids.limit_ms);
}

void sim_node_live_limits(const struct sim_node *node) {
    struct service after_orders;
    size_t i;

    if (!node->alive)
        return;
    after_orders = node->service;
    expect_fenced(node, &after_orders);
    for (i = 0; i < node->n_orders; i++) {
        const struct sim_order *order = &node->orders[i];

        if (order->kind == HOLD_INSTALL)
            service_install(&after_orders, &order->install);
        else if (order->kind == HOLD_RAISE)
            service_raise(&after_orders, order->claim, order->limit_ms);
        else if (order->kind == HOLD_DROP)
            service_drop(&after_orders);
        else
            service_close(&after_orders);
        expect_fenced(node, &after_orders);
    }
}

/* ---- the control thread ---- */

static void on_txn(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct sim_node *node = arg;

    trace_answer(node, err, result);
    hold_answered(node->hold, now_of(node), err, result);
    pump(node);
}

static void on_granted(void *arg, const struct error *err, int64_t lease_id, int64_t ttl_s) {
    struct sim_node *node = arg;

    sim_trace(node->stage, node, "lease %" PRIx64 ": %s", (uint64_t)lease_id,
              err ? err->message : "granted");
    hold_granted(node->hold, now_of(node), err, lease_id, ttl_s);
    pump(node);
}

static void on_kept(void *arg, const struct error *err, int64_t lease_id, int64_t ttl_s) {
    struct sim_node *node = arg;

    (void)ttl_s;
    if (err)
        sim_trace(node->stage, node, "lease %" PRIx64 ": %s", (uint64_t)lease_id, err->message);
    hold_kept(node->hold, now_of(node), err, lease_id);
    pump(node);
}

static void on_revoked(void *arg, const struct error *err, int64_t lease_id, int64_t ttl_s) {
    (void)arg;
    (void)err;
    (void)lease_id;
    (void)ttl_s;
}

static enum hold_phase phase_of(const struct sim_node *node) {
    struct hold_view view;

    hold_look(node->hold, now_of(node), &view);
    return view.phase;
}

/* Offers what was read, in any order, until one is taken up. */
static bool offer(struct sim_node *node, const struct etcd_op_result *hor,
                  const struct etcd_op_result *own) {
    struct sim_stage *stage = node->stage;
    struct error err;
    size_t first = fake_below(&stage->world, hor->n_kvs + 1), i, j;

    for (i = 0; i < hor->n_kvs; i++) {
        const struct etcd_kv *kv = &hor->kvs[(first + i) % hor->n_kvs];
        uint16_t machine_id, held;
        bool taken = false;
        enum status status;

        if (!keys_machine_id(stage->keys.hor, kv->key, &machine_id))
            continue;
        for (j = 0; j < own->n_kvs; j++)
            taken = taken || (keys_machine_id(stage->keys.own, own->kvs[j].key, &held) &&
                              held == machine_id);
        if (taken && !fake_chance(&stage->world, stage->any_offer))
            continue;
        status = hold_offer(node->hold, now_of(node), machine_id, kv->value, kv->value_len, &err);
        sim_trace(stage, node, "is offered %u at %.20s: %s", machine_id, kv->value,
                  status == STATUS_OK ? "taken up" : err.message);
        if (status == STATUS_OK)
            return true;
        if (status == STATUS_UNAVAILABLE)
            return false;
    }
    return false;
}

/* A watch is only a hint, so whatever is read anyway is looked at too. */
static void hear_meta_and_ceiling(struct sim_node *node, const struct etcd_op_result *meta,
                                  const struct etcd_op_result *ceil) {
    if (meta->n_kvs)
        hold_meta(node->hold, now_of(node), meta->kvs[0].value, meta->kvs[0].value_len);
    else
        hold_meta(node->hold, now_of(node), NULL, 0);
    if (ceil->n_kvs)
        hold_ceiling(node->hold, now_of(node), ceil->kvs[0].value, ceil->kvs[0].value_len);
}

static void on_poll(void *arg, uint64_t tag);

static void on_polled(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct sim_node *node = arg;

    if (!err) {
        hear_meta_and_ceiling(node, &result->results[0], &result->results[1]);
        pump(node);
    }
    after(node, 1000 * node->stage->config.window_ms, on_poll);
}

static void on_poll(void *arg, uint64_t tag) {
    struct sim_node *node = arg;
    const struct etcd_op reads[] = {{.kind = ETCD_RANGE, .key = node->stage->keys.meta},
                                    {.kind = ETCD_RANGE, .key = node->stage->keys.ceil}};
    const struct etcd_txn txn = {.then = reads, .n_then = 2};

    if (concerns(node, tag, on_poll))
        node->etcd.txn(node->etcd.self, &txn, on_polled, node);
}

static void on_slots(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct sim_node *node = arg;

    if (!err)
        hear_meta_and_ceiling(node, &result->results[2], &result->results[3]);
    if (phase_of(node) != HOLD_SEEKING) {
        node->seeking = false;
        pump(node);
        return;
    }
    if (!err && offer(node, &result->results[0], &result->results[1])) {
        node->seeking = false;
        pump(node);
        return;
    }
    pump(node);
    after(node,
          1000 * fake_between(&node->stage->world, node->stage->config.retry_min_ms,
                              node->stage->config.retry_max_ms),
          on_seek);
}

static void on_seek(void *arg, uint64_t tag) {
    struct sim_node *node = arg;
    const struct keys *keys = &node->stage->keys;
    const struct etcd_op reads[] = {
        {.kind = ETCD_RANGE, .key = keys->hor, .range_end = keys->hor_end},
        {.kind = ETCD_RANGE, .key = keys->own, .range_end = keys->own_end},
        {.kind = ETCD_RANGE, .key = keys->meta},
        {.kind = ETCD_RANGE, .key = keys->ceil},
    };
    const struct etcd_txn txn = {.then = reads, .n_then = 4};

    if (!concerns(node, tag, on_seek))
        return;
    if (phase_of(node) != HOLD_SEEKING) {
        node->seeking = false;
        return;
    }
    node->etcd.txn(node->etcd.self, &txn, on_slots, node);
}

static void on_wake(void *arg, uint64_t tag) {
    struct sim_node *node = arg;

    if (concerns(node, tag, on_wake))
        pump(node);
}

static void carry_out(struct sim_node *node, const struct hold_act *act) {
    struct sim_stage *stage = node->stage;
    struct etcd *etcd = &node->etcd;

    switch (act->kind) {
    case HOLD_SEEK:
        if (!node->seeking)
            after(node, 0, on_seek);
        node->seeking = true;
        break;
    case HOLD_GRANT:
        etcd->lease_grant(etcd->self, act->lease_id, (int64_t)act->ttl_s, on_granted, node);
        break;
    case HOLD_KEEPALIVE: etcd->lease_keepalive(etcd->self, act->lease_id, on_kept, node); break;
    case HOLD_REVOKE:
        sim_trace(stage, node, "revokes lease %" PRIx64, (uint64_t)act->lease_id);
        etcd->lease_revoke(etcd->self, act->lease_id, on_revoked, node);
        break;
    case HOLD_TXN:
        trace_txn(node, act->txn);
        etcd->txn(etcd->self, act->txn, on_txn, node);
        break;
    case HOLD_INSTALL:
        sim_trace(stage, node, "orders claim %.8s limit %" PRIu64 "%s", act->install.claim,
                  act->install.limit_ms, act->install.continues ? ", continues" : "");
        oracle_order_install(stage->oracle, node->process, &act->install);
        queue_order(node, act);
        break;
    case HOLD_RAISE:
        oracle_order_raise(stage->oracle, node->process, act->claim, act->limit_ms);
        queue_order(node, act);
        break;
    case HOLD_DROP:
    case HOLD_CLOSE:
        sim_trace(stage, node, "orders %s", act->kind == HOLD_DROP ? "drop" : "close");
        queue_order(node, act);
        break;
    case HOLD_NOTHING: break;
    }
}

static void pump(struct sim_node *node) {
    struct fake_world *world = &node->stage->world;
    struct hold_act act;
    uint64_t at_us;

    look_at_clock(node);
    while (hold_next(node->hold, now_of(node), &act) != HOLD_NOTHING)
        carry_out(node, &act);
    at_us = fake_clock_when_boot(&node->clock, act.wake_boot_ms) + fake_below(world, 200);
    if (node->wake_us <= world->now_us || at_us < node->wake_us) {
        node->wake_us = at_us;
        fake_world_at(world, at_us, on_wake, node, node->life);
    }
}

static void hear_orders(struct sim_node *node, const char *value, size_t len) {
    struct assign assign;
    struct error err;
    size_t i;

    if (assign_parse(value, len, &assign, &err) != STATUS_OK)
        return;
    for (i = 0; i < assign.n_give_up; i++)
        hold_give_up(node->hold, now_of(node), assign.give_up[i].machine_id,
                     assign.give_up[i].claim);
}

static void on_watch(void *arg, const struct etcd_event *events, size_t n) {
    struct sim_node *node = arg;
    const struct keys *keys = &node->stage->keys;
    bool reset = events[0].kind == ETCD_EVENT_RESET, has_meta = false;
    size_t i;

    for (i = 0; i < n; i++) {
        const struct etcd_event *event = &events[i];

        if (event->kind == ETCD_EVENT_RESET)
            continue;
        if (!strcmp(event->key, keys->meta)) {
            has_meta = true;
            sim_trace(node->stage, node, "sees meta %.60s", event->value ? event->value : "absent");
            hold_meta(node->hold, now_of(node), event->value, event->value_len);
        } else if (!strcmp(event->key, keys->ceil)) {
            hold_ceiling(node->hold, now_of(node), event->value, event->value_len);
        } else if (event->value) {
            hear_orders(node, event->value, event->value_len);
        }
    }
    if (reset && !has_meta)
        hold_meta(node->hold, now_of(node), NULL, 0);
    pump(node);
}

/* ---- life ---- */

void sim_node_start(struct sim_node *node, struct sim_stage *stage, unsigned index) {
    unsigned char bits[16];
    char assign_key[KEY_MAX];
    struct hold_config config = stage->config;

    assert(!node->alive);
    node->stage = stage;
    node->index = index;
    node->alive = true;
    node->life++;
    node->process = oracle_process(stage->oracle);
    node->paused_until_us = 0;
    node->wake_us = 0;
    node->seeking = false;
    node->last_order_us = 0;
    node->served_total = 0;
    fake_random_bytes(&stage->world, bits, sizeof(bits));
    hex128_format(bits, node->self.instance);
    snprintf(node->self.identity, sizeof(node->self.identity), "node-%u", index);
    service_init(&node->service, stage->max_backward_wait_ms, stage->start);
    effective_clock_init(&node->effective, &stage->clock_limits);
    look_at_clock(node); /* a process believes the first reading that it takes */
    config.self = &node->self;
    node->hold = hold_new(&config);
    node->client = fake_etcd_connect(stage->etcd, &stage->link);
    node->etcd = fake_etcd_interface(node->client);
    keys_assign(&stage->keys, node->self.instance, assign_key);
    sim_trace(stage, node, "starts as instance %.8s", node->self.instance);
    node->etcd.watch(node->etcd.self,
                     (const struct etcd_key_range[]){
                         {.key = stage->keys.meta}, {.key = stage->keys.ceil}, {.key = assign_key}},
                     3, on_watch, node);
    after(node, 0, on_wake);
    after(node, 0, on_poll);
    after(node, 0, on_client);
}

void sim_node_kill(struct sim_node *node) {
    struct hold_view view;
    size_t i;

    if (!node->alive)
        return;
    sim_trace(node->stage, node, "is killed");
    sim_node_look(node, &view);
    node->lost_total += view.lost_total;
    node->unknown_total += view.unknown_total;
    node->resumes_total += view.resumes_total;
    node->alive = false;
    fake_etcd_kill(node->client);
    hold_free(node->hold);
    node->hold = NULL;
    for (i = 0; i < SIM_PARKED_MAX; i++) {
        if (node->requests[i].active)
            service_ids_free(&node->requests[i].ids);
        node->requests[i] = (struct sim_request){0};
    }
    free(node->orders);
    node->orders = NULL;
    node->n_orders = node->orders_room = 0;
}

void sim_node_pause(struct sim_node *node, uint64_t until_us) {
    sim_trace(node->stage, node, "is paused until %9.3f", (double)until_us / 1000);
    node->paused_until_us = until_us;
    fake_etcd_pause(node->client, until_us);
}

static void on_term(void *arg, uint64_t tag) {
    struct sim_node *node = arg;

    if (!concerns(node, tag, on_term))
        return;
    sim_trace(node->stage, node, "is told to release");
    hold_release(node->hold, now_of(node));
    pump(node);
}

void sim_node_release(struct sim_node *node) {
    after(node, 0, on_term);
}

void sim_node_accept_clock(struct sim_node *node) {
    effective_clock_look(&node->effective, physical(node));
    effective_clock_confirm(&node->effective);
}

/* The fleet confirms the new time: it is taken over, and a machine ID whose IDs are ahead of it is
 * given up for another one. */
static void on_confirmed(void *arg, uint64_t tag) {
    struct sim_node *node = arg;
    struct hold_view view;

    if (!concerns(node, tag, on_confirmed))
        return;
    effective_clock_look(&node->effective, physical(node));
    effective_clock_confirm(&node->effective);
    sim_node_look(node, &view);
    sim_trace(node->stage, node, "has its clock confirmed");
    if (view.phase == HOLD_OPEN && node->service.serving &&
        node->service.generation.ids.last_wall_ms > now_of(node).wall_ms)
        hold_give_up(node->hold, now_of(node), view.machine_id, view.claim);
    pump(node);
}

void sim_node_clock_changed(struct sim_node *node) {
    struct fake_world *world = &node->stage->world;

    sim_trace(node->stage, node, "clock changed");
    after(node, fake_below(world, 2000), on_wake);
    if (fake_chance(world, node->stage->confirmed))
        after(node, fake_below(world, 2000 * node->stage->config.window_ms), on_confirmed);
}

void sim_node_look(const struct sim_node *node, struct hold_view *view) {
    hold_look(node->hold, now_of(node), view);
}
