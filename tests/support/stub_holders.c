/* stub_holders.c - holds many machine IDs in one process, to see what a whole cluster's worth of them
 * does to one etcd.  Each is a real hold (common/hold.h), carried out by the worker's own holder.c;
 * only the serving loop is a stand-in, which issues nothing.
 *
 * It takes the free slots in order.  What it does it logs under the subject "stub":
 *   "progress"    each second until all are held
 *   "held"        all are held; how long that took
 *   "extensions"  from then on, for every --report: how many, a second, and how long they took
 * SIGUSR1 hands back the machine ID --release; SIGTERM all of them, and the program ends: 0 when
 * nothing of it is left in etcd. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "common/allocate.h"
#include "common/etcd_http.h"
#include "common/etcd_options.h"
#include "common/log.h"
#include "common/options_load.h"
#include "common/random.h"
#include "common/registry.h"
#include "worker/holder.h"

#define PROGRAM "stub_holders"
#define TICK_MS 20u
#define AT_ONCE 64u /* claims, or releases, under way at a time: what descriptors allow */
#define CLIENTS_MAX 16u
#define RELEASE_TIMEOUT_MS 20000u
#define READ_AGAIN_MS 500u

struct values {
    struct shared_options shared;
    uint64_t holders, clients, window_ms, lease_ttl_ms, keepalive_interval_ms, spread_ms, report_ms;
    uint64_t release;
};
#define FIELD(name) offsetof(struct values, name)

static const struct option own_options[] = {
    {.name = "holders",
     .type = OPTION_NUMBER,
     .offset = FIELD(holders),
     .argument = "N",
     .fallback = "1024",
     .min = 1,
     .max = MACHINE_IDS,
     .help = "How many machine IDs to hold."},
    {.name = "clients",
     .type = OPTION_NUMBER,
     .offset = FIELD(clients),
     .argument = "N",
     .fallback = "4",
     .min = 1,
     .max = CLIENTS_MAX,
     .help = "How many clients of etcd share the work."},
    {.name = "window",
     .type = OPTION_DURATION,
     .offset = FIELD(window_ms),
     .argument = "DURATION",
     .fallback = "60s",
     .min = 1000,
     .max = 3600000,
     .help = "As the worker's."},
    {.name = "lease-ttl",
     .type = OPTION_DURATION,
     .offset = FIELD(lease_ttl_ms),
     .argument = "DURATION",
     .fallback = "15s",
     .min = 2000,
     .max = 600000,
     .help = "As the worker's."},
    {.name = "keepalive-interval",
     .type = OPTION_DURATION,
     .offset = FIELD(keepalive_interval_ms),
     .argument = "DURATION",
     .fallback = "5s",
     .min = 500,
     .max = 300000,
     .help = "As the worker's."},
    {.name = "spread",
     .type = OPTION_DURATION,
     .offset = FIELD(spread_ms),
     .argument = "DURATION",
     .fallback = "0s",
     .min = 0,
     .max = 3600000,
     .help = "Over how long the first claims are spread, and with them the extensions."},
    {.name = "report",
     .type = OPTION_DURATION,
     .offset = FIELD(report_ms),
     .argument = "DURATION",
     .fallback = "60s",
     .min = 1000,
     .max = 3600000,
     .help = "How long each report's extensions are counted."},
    {.name = "release",
     .type = OPTION_NUMBER,
     .offset = FIELD(release),
     .argument = "N",
     .fallback = "0",
     .max = MACHINE_IDS - 1,
     .help = "What SIGUSR1 hands back."},
    {.name = NULL},
};
static const struct option *const tables[] = {own_options, etcd_options, log_options, NULL};
static const struct option_set options = {
    .program = PROGRAM,
    .usage = "[OPTION]...",
    .summary = "Holds many machine IDs in one process, for tests.",
    .tables = tables,
    .extra_environment = known_environment,
};

/* The stand-in for a serving loop: it may issue up to the limit and never does. */
struct serving {
    struct stub_holder *owner;
    uint64_t limit_ms;
};

struct stub_holder {
    struct stub *stub;
    struct serving serving;
    struct etcd etcd; /* one of the clients */
    struct history history;
    struct holder *holder;
    bool releasing;
    /* The transaction under way: a hold has one at a time. */
    etcd_txn_fn *done;
    void *done_arg;
    int64_t sent_ns;
};

struct free_slot {
    uint16_t machine_id;
    struct horizon horizon;
};

struct stub {
    const struct values *values;
    struct clock clock;
    struct keys keys;
    struct own self;
    uv_loop_t loop;
    uv_timer_t tick;
    uv_signal_t on_term, on_int, on_usr1;
    struct etcd_http *clients[CLIENTS_MAX];
    size_t n_clients, n_open;
    char *meta, *ceil; /* as watched; NULL: absent */
    size_t meta_len, ceil_len;

    struct stub_holder holders[MACHINE_IDS];
    size_t n_started;
    uint64_t began_boot_ms, told_boot_ms;
    bool all_held;

    struct free_slot free[MACHINE_IDS]; /* in order; those before next_free are taken */
    size_t n_free, next_free;
    bool reading;
    uint64_t read_boot_ms; /* not before */

    uint64_t *took_us; /* of the extensions since the last report */
    size_t n_took, room;
    uint64_t failures; /* transactions since then that were not answered */

    bool ending, closing;
    uint64_t ending_boot_ms;
};

static struct instant now_of(const struct stub *stub) {
    return clock_now(&stub->clock);
}

/* ---- the stand-in ---- */

void serving_order(struct serving *serving, const struct serving_order *order) {
    uint64_t now_ms;

    switch (order->kind) {
    case SERVING_INSTALL: serving->limit_ms = order->install.limit_ms; break;
    case SERVING_RAISE: serving->limit_ms = order->limit_ms; break;
    case SERVING_CLOSE: /* as if it had issued until this moment */
        now_ms = now_of(serving->owner->stub).wall_ms;
        holder_closed(serving->owner->holder,
                      now_ms < serving->limit_ms ? now_ms : serving->limit_ms);
        break;
    case SERVING_DROP:
    case SERVING_TOKENS:
    case SERVING_TLS:
    case SERVING_CODEC:
    case SERVING_CLOCK:
    case SERVING_SEQUENCES:
    case SERVING_DRAIN: break;
    }
}

/* ---- etcd, with a stopwatch on the transactions ---- */

static int64_t boot_ns(const struct stub *stub) {
    return clock_now_ns(&stub->clock).boot_ns;
}

static void note_extension(struct stub *stub, int64_t took_ns) {
    if (stub->n_took == stub->room) {
        stub->room = stub->room ? 2 * stub->room : 4096;
        stub->took_us = reallocate(stub->took_us, stub->room * sizeof *stub->took_us);
    }
    stub->took_us[stub->n_took++] = (uint64_t)took_ns / 1000;
}

static void on_txn(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct stub_holder *owner = arg;
    int64_t took_ns = boot_ns(owner->stub) - owner->sent_ns;
    struct hold_view before, after;

    owner->stub->failures += err != NULL;
    holder_look(owner->holder, &before);
    owner->done(owner->done_arg, err, result); /* may send the next one */
    holder_look(owner->holder, &after);
    if (after.extensions_total > before.extensions_total)
        note_extension(owner->stub, took_ns);
}

static void timed_txn(void *self, const struct etcd_txn *txn, etcd_txn_fn *done, void *arg) {
    struct stub_holder *owner = self;

    owner->done = done;
    owner->done_arg = arg;
    owner->sent_ns = boot_ns(owner->stub);
    owner->etcd.txn(owner->etcd.self, txn, on_txn, owner);
}

static void lease_grant(void *self, int64_t lease_id, int64_t ttl_s, etcd_lease_fn *done,
                        void *arg) {
    struct stub_holder *owner = self;

    owner->etcd.lease_grant(owner->etcd.self, lease_id, ttl_s, done, arg);
}

static void lease_keepalive(void *self, int64_t lease_id, etcd_lease_fn *done, void *arg) {
    struct stub_holder *owner = self;

    owner->etcd.lease_keepalive(owner->etcd.self, lease_id, done, arg);
}

static void lease_revoke(void *self, int64_t lease_id, etcd_lease_fn *done, void *arg) {
    struct stub_holder *owner = self;

    owner->etcd.lease_revoke(owner->etcd.self, lease_id, done, arg);
}

/* ---- meta and ceil ---- */

static void keep_text(char **kept, size_t *kept_len, const char *text, size_t len) {
    free(*kept);
    *kept = text ? allocate_copy(text, len) : NULL;
    *kept_len = len;
}

static void on_events(void *arg, const struct etcd_event *events, size_t n) {
    struct stub *stub = arg;

    for (size_t i = 0; i < n; i++) {
        const struct etcd_event *event = &events[i];
        const char *value = event->kind == ETCD_EVENT_PUT ? event->value : NULL;

        if (event->kind == ETCD_EVENT_RESET)
            continue;
        if (strcmp(event->key, stub->keys.meta) == 0) {
            keep_text(&stub->meta, &stub->meta_len, value, event->value_len);
            for (size_t k = 0; k < stub->n_started; k++)
                holder_meta(stub->holders[k].holder, stub->meta, stub->meta_len);
        } else if (value) {
            keep_text(&stub->ceil, &stub->ceil_len, value, event->value_len);
            for (size_t k = 0; k < stub->n_started; k++)
                holder_ceiling(stub->holders[k].holder, stub->ceil, stub->ceil_len);
        }
    }
}

/* ---- slots ---- */

enum { READ_HOR, READ_OWN, READS };

static void on_read(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct stub *stub = arg;
    struct registry *registry = allocate(1, sizeof *registry);
    struct instant now = now_of(stub);
    struct error ignored;
    struct meta meta;

    stub->reading = false;
    stub->read_boot_ms = now.boot_ms + READ_AGAIN_MS;
    registry_init(registry);
    if (err || !stub->meta || meta_parse(stub->meta, stub->meta_len, &meta, &ignored) != STATUS_OK)
        goto out;
    for (size_t op = 0; op < READS; op++)
        for (size_t i = 0; i < result->results[op].n_kvs; i++) {
            const struct etcd_kv *kv = &result->results[op].kvs[i];

            registry_apply(registry, &stub->keys, kv->key, kv->value, kv->value_len, kv->lease,
                           now.boot_ms);
        }
    stub->n_free = stub->next_free = 0;
    for (unsigned id = 0; id < MACHINE_IDS; id++)
        if (registry_state(registry, &meta, meta.quiet_time_ms, (uint16_t)id, now.wall_ms) ==
            SLOT_FREE)
            stub->free[stub->n_free++] = (struct free_slot){.machine_id = (uint16_t)id,
                                                            .horizon = registry->slots[id].horizon};
out:
    registry_done(registry);
    free(registry);
}

static void read_slots(struct stub *stub) {
    const struct etcd etcd = etcd_http_interface(stub->clients[0]);
    const struct etcd_op ops[READS] = {
        [READ_HOR] = {.kind = ETCD_RANGE, .key = stub->keys.hor, .range_end = stub->keys.hor_end},
        [READ_OWN] = {.kind = ETCD_RANGE, .key = stub->keys.own, .range_end = stub->keys.own_end}};

    stub->reading = true;
    etcd.txn(etcd.self, &(struct etcd_txn){.then = ops, .n_then = READS}, on_read, stub);
}

/* A slot that a claim of ours is under way for can come up again; that claim fails and costs
 * nothing. */
static void offer(struct stub *stub, struct stub_holder *owner) {
    char hor[HORIZON_TEXT_MAX];
    struct error err;

    while (stub->next_free < stub->n_free) {
        const struct free_slot *slot = &stub->free[stub->next_free];
        enum status status;

        horizon_format(&slot->horizon, hor);
        status = holder_offer(owner->holder, slot->machine_id, hor, strlen(hor), &err);
        if (status == STATUS_UNAVAILABLE)
            return; /* no meta yet, or frozen: the same one later */
        stub->next_free++;
        if (status == STATUS_OK)
            return;
    }
    if (!stub->reading && now_of(stub).boot_ms >= stub->read_boot_ms)
        read_slots(stub);
}

/* ---- holders ---- */

static void random_for_hold(void *arg, void *bytes, size_t n) {
    struct error err;

    (void)arg;
    if (random_bytes(bytes, n, &err) != STATUS_OK)
        abort();
}

static void on_changed(void *arg) {
    (void)arg; /* the tick looks */
}

static void start_holder(struct stub *stub) {
    struct stub_holder *owner = &stub->holders[stub->n_started];
    const struct values *values = stub->values;
    const struct holder_config config = {
        .loop = &stub->loop,
        .clock = stub->clock,
        .etcd = {.txn = timed_txn,
                 .lease_grant = lease_grant,
                 .lease_keepalive = lease_keepalive,
                 .lease_revoke = lease_revoke,
                 .self = owner},
        .hold = {.keys = &stub->keys,
                 .self = &stub->self,
                 .window_ms = values->window_ms,
                 .claim_ahead_ms = 5000,
                 .lease_ttl_s = values->lease_ttl_ms / 1000,
                 .keepalive_interval_ms = values->keepalive_interval_ms,
                 .retry_min_ms = 100,
                 .retry_max_ms = 2000,
                 .random = random_for_hold},
        .serving = &owner->serving,
        .history = &owner->history,
        .changed = on_changed};

    owner->stub = stub;
    owner->serving.owner = owner;
    owner->etcd = etcd_http_interface(stub->clients[stub->n_started % stub->n_clients]);
    owner->holder = holder_new(&config);
    if (stub->meta)
        holder_meta(owner->holder, stub->meta, stub->meta_len);
    if (stub->ceil)
        holder_ceiling(owner->holder, stub->ceil, stub->ceil_len);
    stub->n_started++;
}

static void release(struct stub_holder *owner) {
    owner->releasing = true;
    holder_release(owner->holder);
}

struct tally {
    size_t held, claiming, releasing, gone;
    uint64_t lost;
};

/* Looks at all of them, and gives those that look for a slot one. */
static struct tally look(struct stub *stub) {
    struct tally tally = {0};

    for (size_t i = 0; i < stub->n_started; i++) {
        struct stub_holder *owner = &stub->holders[i];
        struct hold_view view;

        if (!stub->ending && stub->meta && holder_seeking(owner->holder))
            offer(stub, owner);
        holder_look(owner->holder, &view);
        tally.held += view.phase == HOLD_OPEN;
        tally.claiming += view.phase == HOLD_CLAIMING || view.phase == HOLD_SEEKING;
        tally.gone += holder_gone(owner->holder);
        tally.releasing += owner->releasing && !holder_gone(owner->holder);
        tally.lost += view.lost_total;
    }
    return tally;
}

/* ---- reports ---- */

static int compare_u64(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

static uint64_t percentile(const struct stub *stub, size_t per_cent) {
    return stub->n_took ? stub->took_us[(stub->n_took - 1) * per_cent / 100] : 0;
}

static void report(struct stub *stub, const struct tally *tally, uint64_t now_boot_ms) {
    uint64_t span_ms = now_boot_ms - stub->told_boot_ms;

    if (stub->n_took > 0)
        qsort(stub->took_us, stub->n_took, sizeof *stub->took_us, compare_u64);
    log_info("stub", "extensions", LOG_INT("held", tally->held), LOG_INT("span_ms", span_ms),
             LOG_INT("extensions", stub->n_took),
             LOG_INT("per_1000_s", stub->n_took * UINT64_C(1000000) / span_ms),
             LOG_INT("p50_us", percentile(stub, 50)), LOG_INT("p99_us", percentile(stub, 99)),
             LOG_INT("max_us", percentile(stub, 100)), LOG_INT("failures", stub->failures),
             LOG_INT("lost", tally->lost));
    stub->told_boot_ms = now_boot_ms;
    stub->n_took = 0;
    stub->failures = 0;
}

static void tell(struct stub *stub, const struct tally *tally, uint64_t now_boot_ms) {
    if (!stub->all_held && tally->held == stub->values->holders) {
        stub->all_held = true;
        stub->told_boot_ms = now_boot_ms;
        stub->n_took = 0;
        log_info("stub", "held", LOG_INT("held", tally->held),
                 LOG_INT("took_ms", now_boot_ms - stub->began_boot_ms));
    } else if (!stub->all_held && now_boot_ms - stub->told_boot_ms >= 1000) {
        stub->told_boot_ms = now_boot_ms;
        log_info("stub", "progress", LOG_INT("held", tally->held));
    } else if (stub->all_held && now_boot_ms - stub->told_boot_ms >= stub->values->report_ms) {
        report(stub, tally, now_boot_ms);
    }
}

/* ---- the loop ---- */

static void on_client_closed(void *arg) {
    struct stub *stub = arg;

    if (--stub->n_open > 0)
        return;
    for (size_t i = 0; i < stub->n_started; i++)
        holder_free(stub->holders[i].holder);
    uv_close((uv_handle_t *)&stub->tick, NULL);
    uv_close((uv_handle_t *)&stub->on_term, NULL);
    uv_close((uv_handle_t *)&stub->on_int, NULL);
    uv_close((uv_handle_t *)&stub->on_usr1, NULL);
}

static void close_clients(struct stub *stub) {
    stub->closing = true;
    stub->n_open = stub->n_clients;
    for (size_t i = 0; i < stub->n_clients; i++)
        etcd_http_close(stub->clients[i], on_client_closed, stub);
}

static void end(struct stub *stub, const struct tally *tally, uint64_t now_boot_ms) {
    size_t under_way = tally->releasing;

    for (size_t i = 0; i < stub->n_started && under_way < AT_ONCE; i++)
        if (!stub->holders[i].releasing) {
            release(&stub->holders[i]);
            under_way++;
        }
    if (tally->gone == stub->n_started || now_boot_ms - stub->ending_boot_ms >= RELEASE_TIMEOUT_MS)
        close_clients(stub);
}

static void on_tick(uv_timer_t *timer) {
    struct stub *stub = timer->data;
    const struct values *values = stub->values;
    uint64_t now_boot_ms = now_of(stub).boot_ms;
    struct tally tally;

    if (stub->closing)
        return;
    tally = look(stub);
    if (stub->ending) {
        end(stub, &tally, now_boot_ms);
        return;
    }
    for (size_t claiming = tally.claiming;
         stub->n_started < values->holders && claiming < AT_ONCE &&
         now_boot_ms - stub->began_boot_ms >= stub->n_started * values->spread_ms / values->holders;
         claiming++)
        start_holder(stub);
    tell(stub, &tally, now_boot_ms);
}

static void on_stop(uv_signal_t *signal, int number) {
    struct stub *stub = signal->data;

    (void)number;
    stub->ending = true;
    stub->ending_boot_ms = now_of(stub).boot_ms;
}

static void on_release(uv_signal_t *signal, int number) {
    struct stub *stub = signal->data;

    (void)number;
    for (size_t i = 0; i < stub->n_started; i++) {
        struct hold_view view;

        holder_look(stub->holders[i].holder, &view);
        if (view.phase == HOLD_OPEN && view.machine_id == stub->values->release)
            release(&stub->holders[i]);
    }
}

static void listen_for(struct stub *stub, uv_signal_t *signal, int number, uv_signal_cb act) {
    uv_signal_init(&stub->loop, signal);
    signal->data = stub;
    uv_signal_start(signal, act, number);
}

static enum status start(struct stub *stub, struct error *err) {
    const struct etcd_key_range ranges[] = {{.key = stub->keys.meta}, {.key = stub->keys.ceil}};
    struct etcd_http_config config;
    struct etcd etcd;

    if (etcd_options_config(&stub->values->shared, &config, err) != STATUS_OK)
        return err->status;
    while (stub->n_clients < stub->values->clients) {
        if (etcd_http_new(&stub->loop, &config, &stub->clients[stub->n_clients], err) != STATUS_OK)
            return err->status;
        stub->n_clients++;
    }
    etcd = etcd_http_interface(stub->clients[0]);
    etcd.watch(etcd.self, ranges, sizeof ranges / sizeof ranges[0], on_events, stub);
    listen_for(stub, &stub->on_term, SIGTERM, on_stop);
    listen_for(stub, &stub->on_int, SIGINT, on_stop);
    listen_for(stub, &stub->on_usr1, SIGUSR1, on_release);
    stub->began_boot_ms = stub->told_boot_ms = now_of(stub).boot_ms;
    uv_timer_init(&stub->loop, &stub->tick);
    stub->tick.data = stub;
    uv_timer_start(&stub->tick, on_tick, 0, TICK_MS);
    return STATUS_OK;
}

/* All of them gone from etcd? */
static enum status run(const struct values *values, bool *clean, struct error *err) {
    struct stub *stub = allocate(1, sizeof *stub);
    enum status status;

    stub->values = values;
    stub->clock = clock_system();
    uv_loop_init(&stub->loop);
    random_hex128(stub->self.instance);
    strcpy(stub->self.identity, "test/" PROGRAM);
    strcpy(stub->self.addresses.http, "127.0.0.1:1"); /* where nobody is */
    status = keys_init(&stub->keys, values->shared.cluster, err);
    if (status == STATUS_OK)
        status = start(stub, err);
    if (status == STATUS_OK) {
        uv_run(&stub->loop, UV_RUN_DEFAULT);
        *clean = now_of(stub).boot_ms - stub->ending_boot_ms < RELEASE_TIMEOUT_MS;
    }
    uv_loop_close(&stub->loop);
    free(stub->meta);
    free(stub->ceil);
    free(stub->took_us);
    free(stub);
    return status;
}

int main(int argc, char **argv) {
    extern char **environ;
    struct values values = {0};
    struct options_result result = {0};
    struct error err = {.status = STATUS_OK};
    bool clean = false;
    int code = EXIT_SUCCESS;

    if (options_load(&options, argc, argv, environ, &values, &result, &err) != STATUS_OK) {
        fprintf(stderr, PROGRAM ": %s\n", err.message);
        return EXIT_FAILURE;
    }
    if (result.help) {
        options_help(&options, stdout);
        return EXIT_SUCCESS;
    }
    log_init(PROGRAM, (enum log_format)values.shared.log_format,
             (enum log_level)values.shared.log_level);
    if (run(&values, &clean, &err) != STATUS_OK) {
        fprintf(stderr, PROGRAM ": %s\n", err.message);
        code = EXIT_FAILURE;
    } else if (!clean) {
        fputs(PROGRAM ": not all machine IDs could be handed back\n", stderr);
        code = EXIT_FAILURE;
    }
    options_free(&options, &values);
    return code;
}
