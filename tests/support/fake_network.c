#include <string.h>

#include "tests/support/fake_etcd_internal.h"

/* ---- requests ---- */

static struct etcd_op *copy_ops(const struct etcd_op *ops, size_t n) {
    struct etcd_op *copy = calloc(n + 1, sizeof(*copy));
    size_t i;

    assert(copy);
    for (i = 0; i < n; i++) {
        copy[i] = ops[i];
        copy[i].key = fake_copy_text(ops[i].key);
        copy[i].range_end = fake_copy_text(ops[i].range_end);
        copy[i].value = fake_copy_text(ops[i].value);
    }
    return copy;
}

static struct etcd_txn *copy_txn(const struct etcd_txn *txn) {
    struct etcd_txn *copy = malloc(sizeof(*copy));
    struct etcd_compare *compares = calloc(txn->n_compares + 1, sizeof(*compares));
    size_t i;

    assert(copy && compares);
    for (i = 0; i < txn->n_compares; i++)
        compares[i] = (struct etcd_compare){
            .kind = txn->compares[i].kind,
            .key = fake_copy_text(txn->compares[i].key),
            .value = fake_copy_text(txn->compares[i].value),
            .range_end = fake_copy_text(txn->compares[i].range_end)};
    *copy = *txn;
    copy->compares = compares;
    copy->then = copy_ops(txn->then, txn->n_then);
    copy->otherwise = copy_ops(txn->otherwise, txn->n_otherwise);
    return copy;
}

static void free_ops(const struct etcd_op *ops, size_t n) {
    size_t i;

    for (i = 0; i < n; i++) {
        fake_free_text(ops[i].key);
        fake_free_text(ops[i].range_end);
        fake_free_text(ops[i].value);
    }
    free((void *)(uintptr_t)ops);
}

static void txn_free(struct etcd_txn *txn) {
    size_t i;

    if (!txn)
        return;
    for (i = 0; i < txn->n_compares; i++) {
        fake_free_text(txn->compares[i].key);
        fake_free_text(txn->compares[i].value);
        fake_free_text(txn->compares[i].range_end);
    }
    free((void *)(uintptr_t)txn->compares);
    free_ops(txn->then, txn->n_then);
    free_ops(txn->otherwise, txn->n_otherwise);
    free(txn);
}

void fake_request_free(struct fake_request *request) {
    txn_free(request->txn);
    fake_etcd_result_free(request->result);
    free(request);
}

static struct fake_request *request_find(const struct fake_etcd *etcd, uint64_t id) {
    size_t i;

    for (i = 0; i < etcd->n_requests; i++)
        if (etcd->requests[i]->id == id)
            return etcd->requests[i];
    return NULL;
}

static void request_forget(struct fake_etcd *etcd, struct fake_request *request) {
    size_t i;

    if (request->client || request->copies)
        return;
    for (i = 0; etcd->requests[i] != request; i++)
        ;
    etcd->requests[i] = etcd->requests[--etcd->n_requests];
    fake_request_free(request);
}

static uint64_t delay_us(struct fake_etcd *etcd, const struct fake_link *link) {
    if (fake_chance(etcd->world, link->slow))
        return fake_below(etcd->world, link->slow_max_us + 1);
    return fake_between(etcd->world, link->delay_min_us, link->delay_max_us);
}

static const char *status_message(enum status status) {
    switch (status) {
    case STATUS_UNKNOWN: return "fake etcd: no answer in time";
    case STATUS_UNAVAILABLE: return "fake etcd: connection refused";
    case STATUS_NO_SPACE: return "fake etcd: mvcc: database space exceeded";
    case STATUS_EXISTS: return "fake etcd: lease already exists";
    case STATUS_NOT_FOUND: return "fake etcd: requested lease not found";
    default: return "fake etcd";
    }
}

/* The client hears how it ended.  It may send again from inside. */
static void request_end(struct fake_request *request, enum status status) {
    struct fake_etcd *etcd = request->client->etcd;
    struct error err, *failure = NULL;

    if (status != STATUS_OK) {
        failure = &err;
        error_set(&err, status, "%s", status_message(status));
    }
    request->client = NULL;
    if (request->kind == TXN)
        request->done.txn(request->arg, failure, status == STATUS_OK ? request->result : NULL);
    else
        request->done.lease(request->arg, failure, request->lease_id, request->ttl_s);
    request_forget(etcd, request);
}

/* Whether the client can take the event now; if it is paused, the event comes again later. */
static bool client_awake(struct fake_etcd_client *client, fake_event_fn *fn, uint64_t tag) {
    struct fake_world *world = client->etcd->world;

    if (world->now_us >= client->paused_until_us)
        return true;
    fake_world_at(world, client->paused_until_us, fn, client->etcd, tag);
    return false;
}

static void on_answer(void *arg, uint64_t tag) {
    struct fake_request *request = request_find(arg, tag);

    if (request && request->client && client_awake(request->client, on_answer, tag))
        request_end(request, request->status);
}

static void on_timeout(void *arg, uint64_t tag) {
    struct fake_request *request = request_find(arg, tag);

    if (request && request->client && client_awake(request->client, on_timeout, tag))
        request_end(request, STATUS_UNKNOWN);
}

static enum status execute_lease(struct fake_etcd *etcd, struct fake_request *request) {
    struct fake_lease *lease = fake_lease_find(etcd, request->lease_id);

    if (request->kind == GRANT) {
        if (etcd->full)
            return STATUS_NO_SPACE;
        if (lease)
            return STATUS_EXISTS;
        fake_etcd_grant(etcd, request->lease_id, request->ttl_s);
        return STATUS_OK;
    }
    if (!lease)
        return STATUS_NOT_FOUND;
    if (request->kind == KEEPALIVE) {
        fake_lease_renew(etcd, lease);
        request->ttl_s = lease->ttl_s;
    } else {
        fake_lease_end(etcd, lease);
    }
    return STATUS_OK;
}

static void on_arrival(void *arg, uint64_t tag) {
    struct fake_etcd *etcd = arg;
    struct fake_request *request = request_find(etcd, tag);
    const struct fake_link *link = request->client ? request->client->link : NULL;
    struct etcd_txn_result *result = NULL;
    enum status status;
    bool answers;

    if (fake_in_outage(etcd) &&
        fake_chance(etcd->world, 500)) { /* it waits in the server's socket */
        fake_world_at(etcd->world, etcd->outage_until_us + fake_below(etcd->world, 5000),
                      on_arrival, etcd, tag);
        return;
    }
    request->copies--;
    answers = link && !request->answered && !request->silent;
    if (request->silent)
        request->silent--;
    if (fake_in_outage(etcd)) {
        request_forget(etcd, request);
        return;
    }
    if (request->kind == TXN)
        status = fake_etcd_execute(etcd, request->txn,
                                   link && fake_chance(etcd->world, link->stale), &result);
    else
        status = execute_lease(etcd, request);
    if (answers && !fake_chance(etcd->world, link->lost_answers)) {
        request->answered = true;
        request->status = status;
        request->result = result;
        fake_world_at(etcd->world, etcd->world->now_us + delay_us(etcd, link), on_answer, etcd,
                      tag);
    } else {
        fake_etcd_result_free(result);
        request_forget(etcd, request);
    }
}

static struct fake_request *request_new(struct fake_etcd_client *client) {
    struct fake_etcd *etcd = client->etcd;
    struct fake_request *request = calloc(1, sizeof(*request));

    assert(request && !client->dead);
    request->id = ++etcd->next_id;
    request->client = client;
    FAKE_GROW(etcd->requests, etcd->n_requests, etcd->requests_room);
    etcd->requests[etcd->n_requests++] = request;
    return request;
}

static void request_send(struct fake_request *request) {
    struct fake_etcd_client *client = request->client;
    struct fake_etcd *etcd = client->etcd;
    struct fake_world *world = etcd->world;
    const struct fake_link *link = client->link;
    unsigned copies = 1, i;

    if (fake_chance(world, link->refused) || (fake_in_outage(etcd) && fake_chance(world, 500))) {
        request->answered = true;
        request->status = STATUS_UNAVAILABLE;
        fake_world_at(world, world->now_us + delay_us(etcd, link), on_answer, etcd, request->id);
        return;
    }
    if (fake_chance(world, link->repeated)) {
        copies = 2;
        request->silent = fake_chance(world, 700) ? 1 : 0;
    }
    for (i = 0; i < copies; i++) {
        if (fake_chance(world, link->lost_requests))
            continue;
        request->copies++;
        fake_world_at(world, world->now_us + delay_us(etcd, link), on_arrival, etcd, request->id);
    }
    fake_world_at(world, world->now_us + link->timeout_us, on_timeout, etcd, request->id);
}

static void client_txn(void *self, const struct etcd_txn *txn, etcd_txn_fn *done, void *arg) {
    struct fake_request *request = request_new(self);

    request->kind = TXN;
    request->txn = copy_txn(txn);
    request->done.txn = done;
    request->arg = arg;
    request_send(request);
}

static void lease_request(struct fake_etcd_client *client, enum fake_request_kind kind,
                          int64_t lease_id, int64_t ttl_s, etcd_lease_fn *done, void *arg) {
    struct fake_request *request = request_new(client);

    assert(lease_id > 0);
    request->kind = kind;
    request->lease_id = lease_id;
    request->ttl_s = ttl_s;
    request->done.lease = done;
    request->arg = arg;
    request_send(request);
}

static void client_grant(void *self, int64_t lease_id, int64_t ttl_s, etcd_lease_fn *done,
                         void *arg) {
    lease_request(self, GRANT, lease_id, ttl_s, done, arg);
}

static void client_keepalive(void *self, int64_t lease_id, etcd_lease_fn *done, void *arg) {
    lease_request(self, KEEPALIVE, lease_id, 0, done, arg);
}

static void client_revoke(void *self, int64_t lease_id, etcd_lease_fn *done, void *arg) {
    lease_request(self, REVOKE, lease_id, 0, done, arg);
}

/* ---- watches ---- */

static bool watched(const struct etcd_watch *watch, const char *key) {
    size_t i;

    for (i = 0; i < watch->n_ranges; i++)
        if (fake_in_range(key, watch->ranges[i].key, watch->ranges[i].range_end))
            return true;
    return false;
}

static struct etcd_watch *watch_find(const struct fake_etcd *etcd, uint64_t id) {
    size_t i;

    for (i = 0; i < etcd->n_watches; i++)
        if (etcd->watches[i]->id == id && etcd->watches[i]->client)
            return etcd->watches[i];
    return NULL;
}

static void on_batch(void *arg, uint64_t tag) {
    struct fake_etcd *etcd = arg;
    struct etcd_watch *watch = watch_find(etcd, tag);
    struct etcd_event *events;
    size_t n = 0, i, all;

    if (!watch || !client_awake(watch->client, on_batch, tag))
        return;
    watch->notice = false;
    if (fake_in_outage(etcd)) {
        watch->reset = true;
        fake_watch_notice(watch);
        return;
    }
    all = watch->reset ? etcd->now.n + 1 : etcd->n_changes - watch->next;
    events = calloc(all + 1, sizeof(*events));
    assert(events);
    if (watch->reset) {
        events[n++].kind = ETCD_EVENT_RESET;
        for (i = 0; i < etcd->now.n; i++) {
            const struct etcd_kv *kv = &etcd->now.kvs[i];

            if (watched(watch, kv->key))
                events[n++] = (struct etcd_event){.kind = ETCD_EVENT_PUT,
                                                  .key = kv->key,
                                                  .value = kv->value,
                                                  .value_len = kv->value_len,
                                                  .mod_revision = kv->mod_revision,
                                                  .lease = kv->lease};
        }
    } else {
        for (i = watch->next; i < etcd->n_changes; i++) {
            const struct fake_change *change = &etcd->changes[i];

            if (watched(watch, change->key))
                events[n++] = (struct etcd_event){.kind = change->kind,
                                                  .key = change->key,
                                                  .value = change->value,
                                                  .value_len = change->value ? strlen(change->value)
                                                                             : 0,
                                                  .mod_revision = change->revision,
                                                  .lease = change->lease};
        }
    }
    watch->reset = false;
    watch->next = etcd->n_changes;
    if (n)
        watch->on_events(watch->arg, events, n);
    free(events);
}

/* One batch is on its way at a time, so changes come in order. */
void fake_watch_notice(struct etcd_watch *watch) {
    struct fake_etcd *etcd = watch->client->etcd;
    uint64_t at_us = etcd->world->now_us;

    if (watch->notice)
        return;
    watch->notice = true;
    if (fake_in_outage(etcd))
        at_us = etcd->outage_until_us;
    if (fake_chance(etcd->world, watch->client->link->broken_watch))
        watch->reset = true;
    fake_world_at(etcd->world, at_us + delay_us(etcd, watch->client->link), on_batch, etcd,
                  watch->id);
}

static struct etcd_watch *client_watch(void *self, const struct etcd_key_range *ranges,
                                       size_t n_ranges, etcd_watch_fn *on_events, void *arg) {
    struct fake_etcd_client *client = self;
    struct fake_etcd *etcd = client->etcd;
    struct etcd_watch *watch = calloc(1, sizeof(*watch));
    size_t i;

    assert(watch && n_ranges > 0 && n_ranges <= ETCD_WATCH_MAX_RANGES);
    watch->id = ++etcd->next_id;
    watch->client = client;
    watch->on_events = on_events;
    watch->arg = arg;
    watch->reset = true;
    watch->n_ranges = n_ranges;
    for (i = 0; i < n_ranges; i++) {
        watch->ranges[i].key = fake_copy_text(ranges[i].key);
        watch->ranges[i].range_end = fake_copy_text(ranges[i].range_end);
    }
    FAKE_GROW(etcd->watches, etcd->n_watches, etcd->watches_room);
    etcd->watches[etcd->n_watches++] = watch;
    fake_watch_notice(watch);
    return watch;
}

static void client_watch_stop(void *self, struct etcd_watch *watch) {
    (void)self;
    watch->client = NULL;
}

void fake_watch_free(struct etcd_watch *watch) {
    size_t i;

    for (i = 0; i < watch->n_ranges; i++) {
        fake_free_text(watch->ranges[i].key);
        fake_free_text(watch->ranges[i].range_end);
    }
    free(watch);
}

/* ---- clients ---- */

struct fake_etcd_client *fake_etcd_connect(struct fake_etcd *etcd, const struct fake_link *link) {
    struct fake_etcd_client *client = calloc(1, sizeof(*client));

    assert(client && link->delay_min_us <= link->delay_max_us);
    client->etcd = etcd;
    client->link = link;
    FAKE_GROW(etcd->clients, etcd->n_clients, etcd->clients_room);
    etcd->clients[etcd->n_clients++] = client;
    return client;
}

struct etcd fake_etcd_interface(struct fake_etcd_client *client) {
    return (struct etcd){.txn = client_txn,
                         .lease_grant = client_grant,
                         .lease_keepalive = client_keepalive,
                         .lease_revoke = client_revoke,
                         .watch = client_watch,
                         .watch_stop = client_watch_stop,
                         .self = client};
}

void fake_etcd_kill(struct fake_etcd_client *client) {
    struct fake_etcd *etcd = client->etcd;
    size_t i = etcd->n_requests;

    client->dead = true;
    while (i-- > 0) { /* backwards: a forgotten one is replaced by the last, seen already */
        struct fake_request *request = etcd->requests[i];

        if (request->client == client) {
            request->client = NULL;
            request_forget(etcd, request);
        }
    }
    for (i = 0; i < etcd->n_watches; i++)
        if (etcd->watches[i]->client == client)
            etcd->watches[i]->client = NULL;
}

void fake_etcd_pause(struct fake_etcd_client *client, uint64_t until_us) {
    client->paused_until_us = until_us;
}
