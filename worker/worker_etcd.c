#include "worker/worker_internal.h"

#include <string.h>

/* ---- what etcd tells ---- */

void worker_key(struct worker *worker, const char *key, const char *value, size_t len) {
    char assign_key[KEY_MAX], node_key[KEY_MAX];
    struct error ignored;

    worker->heard = true;
    keys_assign(&worker->keys, worker->self.instance, assign_key);
    keys_node(&worker->keys, worker->self.instance, node_key);
    if (strcmp(key, worker->keys.meta) == 0) {
        bool had_meta = worker->has_meta, knew_meta = worker->knows_meta;

        worker->has_meta = value && meta_parse(value, len, &worker->meta, &ignored) == STATUS_OK;
        worker->knows_meta = worker->knows_meta || worker->has_meta;
        if (worker->has_meta)
            worker_history_meta(worker, knew_meta);
        if (worker->has_meta && !had_meta)
            seek_resume(&worker->seek); /* what it paused for may be over */
        for (size_t i = 0; i < worker->n_slots; i++)
            holder_meta(worker->slots[i].holder, value, len);
        sequences_meta(worker->sequences, value, len);
    } else if (strcmp(key, worker->keys.ceil) == 0) {
        for (size_t i = 0; i < worker->n_slots; i++)
            holder_ceiling(worker->slots[i].holder, value, len);
    } else if (strcmp(key, assign_key) == 0 && value) {
        worker_assigned(worker, value, len);
    } else if (strcmp(key, node_key) == 0) {
        registration_seen(worker->registration, value, len);
    } else {
        sequences_seen(worker->sequences, key, value, len);
    }
}

static void on_events(void *arg, const struct etcd_event *events, size_t n) {
    struct worker *worker = arg;
    bool reset = n > 0 && events[0].kind == ETCD_EVENT_RESET, meta_there = false,
         node_there = false;
    char node_key[KEY_MAX];

    keys_node(&worker->keys, worker->self.instance, node_key);
    for (size_t i = 0; i < n; i++) {
        const struct etcd_event *event = &events[i];

        if (event->kind == ETCD_EVENT_RESET)
            continue;
        if (strcmp(event->key, worker->keys.meta) == 0)
            meta_there = event->kind == ETCD_EVENT_PUT;
        if (strcmp(event->key, node_key) == 0)
            node_there = event->kind == ETCD_EVENT_PUT;
        worker_key(worker, event->key, event->kind == ETCD_EVENT_PUT ? event->value : NULL,
                   event->value_len);
    }
    if (reset && !meta_there)
        worker_key(worker, worker->keys.meta, NULL, 0);
    if (reset && !node_there)
        worker_key(worker, node_key, NULL, 0);
    if (reset)
        sequences_doubt(worker->sequences);
    worker_changed(worker);
}

enum { POLL_META, POLL_CEIL, POLL_ASSIGN, POLL_NODE, POLLS };

static void on_polled(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct worker *worker = arg;

    worker->polling = false;
    if (err)
        return;
    if (!history_answered(&worker->history, &worker->polling_mark, result->revision)) {
        worker_changed(worker); /* a fence reads again what it says */
        return;
    }
    for (size_t i = 0; i < POLLS; i++)
        if (result->results[i].n_kvs > 0)
            worker_key(worker, result->results[i].kvs[0].key, result->results[i].kvs[0].value,
                       result->results[i].kvs[0].value_len);
        else if (i == POLL_META)
            worker_key(worker, worker->keys.meta, NULL, 0);
        else if (i == POLL_NODE)
            registration_seen(worker->registration, NULL, 0);
    worker_changed(worker);
}

/* The watch is a hint; this is what a silent one cannot hide. */
void worker_poll_etcd(struct worker *worker, struct instant now) {
    char assign_key[KEY_MAX], node_key[KEY_MAX];
    struct etcd_op ops[POLLS] = {[POLL_META] = {.kind = ETCD_RANGE, .key = worker->keys.meta},
                                 [POLL_CEIL] = {.kind = ETCD_RANGE, .key = worker->keys.ceil},
                                 [POLL_ASSIGN] = {.kind = ETCD_RANGE, .key = assign_key},
                                 [POLL_NODE] = {.kind = ETCD_RANGE, .key = node_key}};
    struct etcd_txn txn = {.then = ops, .n_then = POLLS};

    keys_assign(&worker->keys, worker->self.instance, assign_key);
    keys_node(&worker->keys, worker->self.instance, node_key);
    worker->polling = true;
    worker->polled_boot_ms = now.boot_ms;
    worker->polling_mark = history_mark(&worker->history);
    worker->etcd.txn(worker->etcd.self, &txn, on_polled, worker);
}

/* ---- start ---- */

static void start_watch(struct worker *worker) {
    char assign_key[KEY_MAX], node_key[KEY_MAX];
    struct etcd_key_range ranges[] = {{.key = worker->keys.meta},
                                      {.key = worker->keys.ceil},
                                      {.key = assign_key},
                                      {.key = node_key},
                                      {.key = worker->keys.seq, .range_end = worker->keys.seq_end}};

    keys_node(&worker->keys, worker->self.instance, node_key);
    keys_assign(&worker->keys, worker->self.instance, assign_key);
    worker->watch = worker->etcd.watch(worker->etcd.self, ranges, sizeof ranges / sizeof ranges[0],
                                       on_events, worker);
}

/* On the control thread. */
static void on_sequences(void *arg) {
    struct worker *worker = arg;
    struct serving_order order = {.kind = SERVING_SEQUENCES};

    for (size_t i = 0; i < worker->n_slots; i++)
        serving_order(worker->slots[i].serving, &order);
}

static void on_meta_read(void *arg, const char *value, size_t len) {
    struct worker *worker = arg;

    worker_key(worker, worker->keys.meta, value, len);
    worker_changed(worker);
}

void worker_open_sequences(struct worker *worker) {
    const struct sequences_config config = {.loop = &worker->loop,
                                            .clock = worker->timing.clock,
                                            .etcd = worker->etcd,
                                            .keys = &worker->keys,
                                            .history = &worker->history,
                                            .retry_min_ms = WORKER_RETRY_MIN_MS,
                                            .retry_max_ms = WORKER_RETRY_MAX_MS,
                                            .changed = on_sequences,
                                            .meta_read = on_meta_read,
                                            .arg = worker};

    worker->sequences = sequences_new(&config);
}

void worker_start_etcd(struct worker *worker) {
    const struct worker_config *config = worker->config;
    const struct registration_config registration = {
        .loop = &worker->loop,
        .clock = worker->timing.clock,
        .etcd = worker->etcd,
        .keys = &worker->keys,
        .instance = worker->self.instance,
        .lease_ttl_s = config->lease_ttl_ms / 1000,
        .keepalive_interval_ms = config->keepalive_interval_ms,
        .retry_min_ms = WORKER_RETRY_MIN_MS,
        .retry_max_ms = WORKER_RETRY_MAX_MS,
        .changed = worker_changed,
        .arg = worker};

    seek_init(&worker->seek, config->assign_wait_ms, WORKER_RETRY_MIN_MS, WORKER_RETRY_MAX_MS);
    worker->registration = registration_new(&registration);
    start_watch(worker);
}
