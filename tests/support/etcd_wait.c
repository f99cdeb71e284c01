#include "tests/support/etcd_wait.h"

#include <stdio.h>
#include <string.h>

void etcd_wait_on_txn(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct etcd_wait *wait = arg;
    size_t i;

    wait->times++;
    wait->status = err ? err->status : STATUS_OK;
    snprintf(wait->message, sizeof wait->message, "%s", err ? err->message : "");
    if (err)
        return;
    wait->succeeded = result->succeeded;
    wait->revision = result->revision;
    wait->n_results = result->n_results;
    wait->n_kvs = 0;
    wait->count = 0;
    for (i = 0; i < result->n_results; i++) {
        const struct etcd_op_result *range = &result->results[i];

        wait->n_kvs = range->n_kvs;
        wait->count = range->count;
        if (range->n_kvs == 0)
            continue;
        snprintf(wait->key, sizeof wait->key, "%s", range->kvs[0].key);
        snprintf(wait->value, sizeof wait->value, "%s", range->kvs[0].value);
        wait->lease = range->kvs[0].lease;
        wait->mod_revision = range->kvs[0].mod_revision;
    }
}

void etcd_wait_on_lease(void *arg, const struct error *err, int64_t lease_id, int64_t ttl_s) {
    struct etcd_wait *wait = arg;

    wait->times++;
    wait->status = err ? err->status : STATUS_OK;
    snprintf(wait->message, sizeof wait->message, "%s", err ? err->message : "");
    wait->lease_id = lease_id;
    wait->ttl_s = ttl_s;
}

static void on_tick(uv_timer_t *timer) {
    (void)timer; /* only wakes the loop: see ctl_wait() */
}

/* The client has a time-out of its own; a test that hangs here is ended by the test runner. */
static enum status run(struct etcd_wait *wait) {
    uv_timer_t tick;

    uv_timer_init(wait->loop, &tick);
    uv_timer_start(&tick, on_tick, 5, 5);
    while (wait->times == 0)
        uv_run(wait->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&tick, NULL);
    uv_run(wait->loop, UV_RUN_NOWAIT); /* the handle is on our stack */
    return wait->status;
}

enum status etcd_wait_txn(struct etcd_wait *wait, const struct etcd_txn *txn) {
    wait->times = 0;
    wait->etcd.txn(wait->etcd.self, txn, etcd_wait_on_txn, wait);
    return run(wait);
}

static enum status run_op(struct etcd_wait *wait, const struct etcd_op *op) {
    return etcd_wait_txn(wait, &(struct etcd_txn){.then = op, .n_then = 1});
}

enum status etcd_wait_put(struct etcd_wait *wait, const char *key, const char *value,
                          int64_t lease) {
    return run_op(wait,
                  &(struct etcd_op){.kind = ETCD_PUT, .key = key, .value = value, .lease = lease});
}

enum status etcd_wait_delete(struct etcd_wait *wait, const char *key, const char *range_end) {
    return run_op(wait, &(struct etcd_op){.kind = ETCD_DELETE, .key = key, .range_end = range_end});
}

enum status etcd_wait_get(struct etcd_wait *wait, const char *key, const char *range_end) {
    return run_op(wait, &(struct etcd_op){.kind = ETCD_RANGE, .key = key, .range_end = range_end});
}

enum status etcd_wait_grant(struct etcd_wait *wait, int64_t lease_id, int64_t ttl_s) {
    wait->times = 0;
    wait->etcd.lease_grant(wait->etcd.self, lease_id, ttl_s, etcd_wait_on_lease, wait);
    return run(wait);
}

enum status etcd_wait_keepalive(struct etcd_wait *wait, int64_t lease_id) {
    wait->times = 0;
    wait->etcd.lease_keepalive(wait->etcd.self, lease_id, etcd_wait_on_lease, wait);
    return run(wait);
}

enum status etcd_wait_revoke(struct etcd_wait *wait, int64_t lease_id) {
    wait->times = 0;
    wait->etcd.lease_revoke(wait->etcd.self, lease_id, etcd_wait_on_lease, wait);
    return run(wait);
}

/* --- watches --- */

void watch_view_init(struct watch_view *view) {
    memset(view, 0, sizeof *view);
    view->in_order = true;
}

static size_t find(const struct watch_view *view, const char *key) {
    size_t i = 0;

    while (i < view->n_keys && strcmp(view->keys[i].key, key) != 0)
        i++;
    return i;
}

const char *watch_view_value(const struct watch_view *view, const char *key) {
    size_t i = find(view, key);

    return i < view->n_keys ? view->keys[i].value : NULL;
}

static void note(struct watch_view *view, const char *text) {
    size_t len = strlen(view->log);

    snprintf(view->log + len, sizeof view->log - len, "%s", text);
}

static void take(struct watch_view *view, const struct etcd_event *event) {
    char text[160] = "reset ";
    size_t i;

    switch (event->kind) {
    case ETCD_EVENT_RESET:
        view->n_resets++;
        view->n_keys = 0;
        break;
    case ETCD_EVENT_PUT:
        i = find(view, event->key);
        if (i == view->n_keys && view->n_keys < WATCH_VIEW_MAX)
            view->keys[view->n_keys++].revision = 0;
        if (event->mod_revision < view->keys[i].revision)
            view->in_order = false;
        view->keys[i].revision = event->mod_revision;
        snprintf(view->keys[i].key, sizeof view->keys[i].key, "%s", event->key);
        snprintf(view->keys[i].value, sizeof view->keys[i].value, "%s", event->value);
        snprintf(text, sizeof text, "%.60s=%.60s ", event->key, event->value);
        break;
    case ETCD_EVENT_DELETE:
        i = find(view, event->key);
        if (i < view->n_keys)
            view->keys[i] = view->keys[--view->n_keys];
        snprintf(text, sizeof text, "-%.60s ", event->key);
        break;
    }
    note(view, text);
}

void watch_view_on_events(void *arg, const struct etcd_event *events, size_t n) {
    struct watch_view *view = arg;
    size_t i;

    view->n_batches++;
    view->n_events += n;
    for (i = 0; i < n; i++)
        take(view, &events[i]);
    note(view, "| ");
}
