#include "worker/dispenser.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/mutant.h"
#include "common/records.h"

#define RETRY_MS 1000 /* what a refusal advises */

enum knowledge {
    UNREAD,
    ABSENT,
    PRESENT,
    BROKEN /* there, and not to be understood: failure says why */
};

enum request { NONE, READ, GRANT };

enum { ANSWER_SEQ, ANSWER_META, ANSWER_CEIL, ANSWERS };

struct block {
    uint64_t first, count;
};

/* What is held of one shard. */
struct stock {
    struct block *blocks; /* the oldest first */
    size_t n, room;
    uint64_t held;            /* in all of them */
    uint64_t waiting;         /* values that callers wait for */
    uint64_t amount;          /* blocks to ask for; 0: never asked yet */
    uint64_t granted_boot_ms; /* the last grant */
    bool active;              /* something was taken since, or asked for */
};

struct dispenser {
    struct dispenser_config config;
    char name[SEQUENCE_NAME_MAX + 1];
    char key[KEY_MAX];

    enum knowledge known;
    struct sequence record; /* when PRESENT ... */
    char *value;            /* ... and as it stands in etcd, as far as we know */
    uint64_t absent_boot_ms;
    bool must_read;       /* before anything is rested on it */
    char went_back[160];  /* the record is older than one that we know; "" if not */
    unsigned eras;        /* of the cluster, when last looked at */
    struct stock *stocks; /* record.n_shards of them */
    size_t n_stocks, turn;

    struct error failure; /* STATUS_OK: the last answer was good */
    uint64_t retry_boot_ms, backoff_ms;

    /* The transaction under way. */
    enum request request;
    struct etcd_txn txn;
    struct etcd_compare compares[3];
    struct etcd_op then, otherwise[ANSWERS];
    struct sequence sent;
    char *sent_value, *sent_meta;
    char pace[CEILING_TEXT_MAX];
    struct sequence_grant grant;
    size_t shard;
    unsigned sent_eras;
    uint64_t sent_serial; /* of the record as it was known then; 0: it was not */

    bool changed;
    uint64_t issued_total, granted_total, lost_total, grants_total;
};

/* ---- the cluster ---- */

void dispenser_cluster_init(struct dispenser_cluster *cluster) {
    *cluster = (struct dispenser_cluster){.meta_reason = "meta was not read yet"};
    dispenser_cluster_judge(cluster, "");
}

void dispenser_cluster_done(struct dispenser_cluster *cluster) {
    free(cluster->meta);
    cluster->meta = NULL;
}

static void read_meta(struct dispenser_cluster *cluster, const char *value, size_t len) {
    struct error err;
    struct meta meta;

    if (!value) {
        snprintf(cluster->meta_reason, sizeof cluster->meta_reason, "meta is missing");
        return;
    }
    if (meta_parse(value, len, &meta, &err) != STATUS_OK) {
        snprintf(cluster->meta_reason, sizeof cluster->meta_reason, "%.250s", err.message);
        return;
    }
    cluster->halted = cluster->era[0] && strcmp(cluster->era, meta.era) != 0 &&
                      !meta_earlier_era(&meta, cluster->era);
    if (cluster->halted) {
        snprintf(cluster->meta_reason, sizeof cluster->meta_reason, "meta is of a foreign era");
        return;
    }
    if (strcmp(cluster->era, meta.era) != 0) {
        cluster->eras++;
        memcpy(cluster->era, meta.era, sizeof cluster->era);
    }
    if (meta.mode == META_FROZEN) {
        snprintf(cluster->meta_reason, sizeof cluster->meta_reason, "frozen: %s", meta.reason);
        return;
    }
    cluster->meta = allocate_copy(value, len);
    cluster->meta_reason[0] = '\0';
}

bool dispenser_cluster_meta(struct dispenser_cluster *cluster, const char *value, size_t len) {
    if (value && cluster->meta && strlen(cluster->meta) == len &&
        memcmp(cluster->meta, value, len) == 0)
        return false;
    dispenser_cluster_done(cluster);
    read_meta(cluster, value, len);
    return true;
}

void dispenser_cluster_judge(struct dispenser_cluster *cluster, const char *doubt) {
    snprintf(cluster->reason, sizeof cluster->reason, "%s",
             doubt[0] ? doubt : cluster->meta_reason);
}

/* ---- life ---- */

struct dispenser *dispenser_new(const struct dispenser_config *config) {
    struct dispenser *d = allocate(1, sizeof *d);

    d->config = *config;
    snprintf(d->name, sizeof d->name, "%s", config->name);
    keys_seq(config->keys, d->name, d->key);
    return d;
}

static void free_stocks(struct dispenser *d) {
    for (size_t i = 0; i < d->n_stocks; i++) {
        d->lost_total += d->stocks[i].held;
        free(d->stocks[i].blocks);
    }
    free(d->stocks);
    d->stocks = NULL;
    d->n_stocks = 0;
    d->turn = 0;
}

void dispenser_free(struct dispenser *d) {
    if (!d)
        return;
    free_stocks(d);
    free(d->value);
    free(d->sent_value);
    free(d->sent_meta);
    free(d);
}

const char *dispenser_name(const struct dispenser *d) {
    return d->name;
}

bool dispenser_changed(struct dispenser *d) {
    bool changed = d->changed;

    d->changed = false;
    for (size_t i = 0; changed && i < d->n_stocks; i++)
        d->stocks[i].waiting = 0; /* they ask again */
    return changed;
}

uint64_t dispenser_absent_boot_ms(const struct dispenser *d) {
    return d->known == ABSENT && d->request == NONE ? d->absent_boot_ms : 0;
}

/* ---- what is known of the record ---- */

static void set_value(struct dispenser *d, const char *value, size_t len) {
    char *copy = allocate_copy(value, len);

    free(d->value);
    d->value = copy;
}

/* Values of another layout must not be issued: the record says that all of them lie below those to come, and
 * whoever made it may count on that. */
static void adopt(struct dispenser *d, const struct sequence *record, const char *value,
                  size_t len) {
    if (d->known != PRESENT || d->record.layout != record->layout || record->dropped) {
        free_stocks(d);
        d->n_stocks = record->n_shards;
        d->stocks = allocate(d->n_stocks, sizeof *d->stocks);
    }
    d->known = PRESENT;
    d->record = *record;
    set_value(d, value, len);
}

/* Can b have come after a, by those who keep the rules? */
static bool follows(const struct sequence *a, const struct sequence *b) {
    return b->serial > a->serial && b->layout >= a->layout && sequence_top(b) >= sequence_top(a);
}

static void note_era(struct dispenser *d, const struct dispenser_cluster *cluster) {
    if (d->eras == cluster->eras)
        return;
    d->eras = cluster->eras;
    free_stocks(d);
    d->known = UNREAD;
    d->went_back[0] = '\0';
    d->must_read = true;
}

static void fail(struct dispenser *d, struct instant now, const struct error *err) {
    d->failure = *err;
    d->backoff_ms = d->backoff_ms ? d->backoff_ms * 2 : d->config.retry_min_ms;
    if (d->backoff_ms > d->config.retry_max_ms)
        d->backoff_ms = d->config.retry_max_ms;
    d->retry_boot_ms = now.boot_ms + d->backoff_ms;
}

static void recovered(struct dispenser *d) {
    d->failure.status = STATUS_OK;
    d->backoff_ms = 0;
    d->retry_boot_ms = 0;
}

/* ---- giving ---- */

static enum service_outcome refuse(struct service_error *err, const char *code, const char *field) {
    err->code = code;
    err->field = field;
    err->retry_after_ms = strcmp(code, "UNAVAILABLE") == 0 ? RETRY_MS : 0;
    return SERVICE_FAILED;
}

static enum service_outcome unavailable(const struct dispenser *d, const char *reason,
                                        struct service_error *err) {
    snprintf(err->message, sizeof err->message, "sequence %s: %.120s", d->name, reason);
    refuse(err, "UNAVAILABLE", NULL);
    if (d->failure.status == STATUS_BUSY && d->backoff_ms > 0)
        err->retry_after_ms = d->backoff_ms;
    return SERVICE_FAILED;
}

/* "" when it could be granted. */
static const char *why_not(const struct dispenser *d, const struct dispenser_cluster *cluster) {
    if (d->went_back[0])
        return d->went_back;
    if (cluster->reason[0])
        return cluster->reason;
    return d->failure.status != STATUS_OK ? d->failure.message : "";
}

static enum service_outcome wait_or_fail(struct dispenser *d,
                                         const struct dispenser_cluster *cluster,
                                         struct service_error *err) {
    const char *reason = why_not(d, cluster);

    return reason[0] ? unavailable(d, reason, err) : SERVICE_WAIT;
}

static enum service_outcome find_shard(const struct dispenser *d, const struct service_ids *ids,
                                       size_t *shard, struct service_error *err) {
    size_t n = d->record.n_shards;

    *shard = ids->has_shard ? ids->shard : 0;
    if (d->record.mode == SEQUENCE_BLOCK && ids->has_shard) {
        snprintf(err->message, sizeof err->message,
                 "sequence %s is in block mode and has no shards, got shard %u", d->name,
                 ids->shard);
        return refuse(err, "INVALID_ARGUMENT", "shard");
    }
    if (d->record.mode == SEQUENCE_STRIDE && (!ids->has_shard || ids->shard >= n)) {
        if (ids->has_shard)
            snprintf(err->message, sizeof err->message,
                     "shard of sequence %s must be 0..%zu, got %u", d->name, n - 1, ids->shard);
        else
            snprintf(err->message, sizeof err->message,
                     "shard is missing: sequence %s is in stride mode, with shards 0..%zu", d->name,
                     n - 1);
        return refuse(err, "INVALID_ARGUMENT", "shard");
    }
    return SERVICE_DONE;
}

static enum service_outcome exhausted(const struct dispenser *d, uint64_t left,
                                      struct service_error *err) {
    if (left == 0)
        snprintf(err->message, sizeof err->message,
                 "sequence %s is exhausted: its last value was granted", d->name);
    else
        snprintf(err->message, sizeof err->message,
                 "sequence %s is exhausted but for %" PRIu64 " value%s", d->name, left,
                 left == 1 ? "" : "s");
    return refuse(err, "OUT_OF_RANGE", "count");
}

static void give(struct dispenser *d, struct stock *stock, struct service_ids *ids) {
    uint64_t left = ids->want;
    size_t used = 0;

    ids->step = (uint32_t)d->record.n_shards;
    while (left > 0) {
        struct block *block = &stock->blocks[used];
        uint64_t count = block->count < left ? block->count : left;

        service_add_run(
            ids, (struct snowflake_run){.first = (int64_t)block->first, .count = (uint32_t)count});
        block->first += count * d->record.n_shards;
        block->count -= count;
        left -= count;
        used += block->count == 0;
    }
    stock->n -= used;
    memmove(stock->blocks, stock->blocks + used, stock->n * sizeof *stock->blocks);
    stock->held -= ids->want;
    stock->active = true;
    d->issued_total += ids->want;
}

enum service_outcome dispenser_take(struct dispenser *d, const struct dispenser_cluster *cluster,
                                    struct service_ids *ids, struct service_error *err) {
    struct stock *stock;
    uint64_t left;
    size_t shard;

    note_era(d, cluster);
    if (cluster->halted)
        return unavailable(d, cluster->meta_reason, err);
    switch (d->known) {
    case UNREAD:
        if (d->failure.status == STATUS_OK)
            return SERVICE_WAIT;
        return unavailable(d, d->failure.message, err);
    case BROKEN: return unavailable(d, d->failure.message, err);
    case ABSENT:
        snprintf(err->message, sizeof err->message, "there is no sequence %s", d->name);
        return refuse(err, "NOT_FOUND", "name");
    case PRESENT: break;
    }
    if (d->record.dropped) {
        snprintf(err->message, sizeof err->message, "sequence %s was dropped", d->name);
        return refuse(err, "NOT_FOUND", "name");
    }
    if (find_shard(d, ids, &shard, err) != SERVICE_DONE)
        return SERVICE_FAILED;
    stock = &d->stocks[shard];
    if (stock->held >= ids->want) {
        give(d, stock, ids);
        return SERVICE_DONE;
    }
    left = sequence_left(&d->record, shard);
    /* The watch may have shown our own grant before its answer comes: it is in neither of the two. */
    if (ids->want - stock->held > left && d->request == GRANT && d->shard == shard)
        return SERVICE_WAIT;
    if (ids->want - stock->held > left)
        return exhausted(d, stock->held + left, err);
    stock->active = true; /* who is refused comes again, and it is to be there then */
    if (wait_or_fail(d, cluster, err) != SERVICE_WAIT)
        return SERVICE_FAILED;
    stock->waiting += ids->want;
    return SERVICE_WAIT;
}

/* ---- asking ---- */

static struct etcd_op range(const char *key) {
    return (struct etcd_op){.kind = ETCD_RANGE, .key = key};
}

static void begin(struct dispenser *d, enum request request) {
    d->request = request;
    d->sent_eras = d->eras;
    d->sent_serial = d->known == PRESENT ? d->record.serial : 0;
    d->otherwise[ANSWER_SEQ] = range(d->key);
    d->otherwise[ANSWER_META] = range(d->config.keys->meta);
    d->otherwise[ANSWER_CEIL] = range(d->config.keys->ceil);
    d->txn = (struct etcd_txn){.compares = d->compares,
                               .then = &d->then,
                               .n_then = 1,
                               .otherwise = d->otherwise,
                               .n_otherwise = ANSWERS};
}

/* The delete is never done: a key that is absent has no value.  It stands there so that etcd answers in the
 * order of its log. */
static const struct etcd_txn *build_read(struct dispenser *d) {
    begin(d, READ);
    d->compares[0] = (struct etcd_compare){.kind = ETCD_ABSENT, .key = d->key};
    d->compares[1] = (struct etcd_compare){.kind = ETCD_VALUE_EQUAL, .key = d->key, .value = "0"};
    d->txn.n_compares = 2;
    d->then = (struct etcd_op){.kind = ETCD_DELETE, .key = d->key};
    return &d->txn;
}

static const struct etcd_txn *build_grant(struct dispenser *d,
                                          const struct dispenser_cluster *cluster) {
    begin(d, GRANT);
    free(d->sent_value);
    free(d->sent_meta);
    d->sent_value = sequence_format(&d->sent, d->value);
    d->sent_meta = allocate_copy(cluster->meta, strlen(cluster->meta));
    ceiling_format(d->sent.pace_ms, d->pace);
    d->compares[0] = (struct etcd_compare){
        .kind = ETCD_VALUE_EQUAL, .key = d->config.keys->meta, .value = d->sent_meta};
    /* One clock that is a year ahead would have everybody wait for it. */
    d->compares[1] = (struct etcd_compare){
        .kind = ETCD_VALUE_GREATER, .key = d->config.keys->ceil, .value = d->pace};
    d->compares[2] = (struct etcd_compare){
        .kind = ETCD_VALUE_EQUAL, .key = d->key, .value = d->value};
    d->txn.n_compares = MUTANT(SEQUENCE_WITHOUT_COMPARE) ? 2 : 3;
    d->then = (struct etcd_op){.kind = ETCD_PUT, .key = d->key, .value = d->sent_value};
    return &d->txn;
}

static bool needs(const struct dispenser *d, const struct stock *stock) {
    return stock->waiting > stock->held ||
           (stock->active && stock->held <= stock->amount * d->record.block / 2);
}

bool dispenser_wants(const struct dispenser *d) {
    bool wants = d->must_read || d->known == UNREAD || d->known == BROKEN;

    for (size_t i = 0; i < d->n_stocks && !wants; i++)
        wants = needs(d, &d->stocks[i]);
    return wants && d->request == NONE;
}

/* How many blocks: what is waited for, or what the rate asks for. */
static uint64_t choose_amount(const struct dispenser *d, struct stock *stock, struct instant now) {
    uint64_t lasted_ms = now.boot_ms - stock->granted_boot_ms, block = d->record.block;
    uint64_t most = DISPENSER_GRANT_MAX / block > 1 ? DISPENSER_GRANT_MAX / block : 1;
    uint64_t missing = stock->waiting > stock->held ? stock->waiting - stock->held : 0;
    uint64_t amount = stock->amount ? stock->amount : 1;

    if (stock->amount && lasted_ms < DISPENSER_SHORT_MS)
        amount *= 2;
    else if (stock->amount)
        amount = lasted_ms / DISPENSER_LONG_MS > 20 ? 1 : amount >> lasted_ms / DISPENSER_LONG_MS;
    if (amount > most)
        amount = most;
    stock->amount = amount ? amount : 1;
    missing = (missing + block - 1) / block;
    return missing > stock->amount ? missing : stock->amount;
}

/* max_rate, or a clock, forbids it for now. */
static void put_off(struct dispenser *d, struct instant now, enum status status, uint64_t wait_ms) {
    struct error err;

    if (status == STATUS_BUSY)
        error_set(&err, status,
                  "no more than %" PRIu64 " values a second (max_rate), or this clock is behind",
                  d->record.max_rate);
    else
        error_set(&err, status, "the clock is past all times that can be written");
    fail(d, now, &err);
    if (status == STATUS_BUSY) {
        d->backoff_ms = wait_ms < d->config.retry_max_ms ? wait_ms : d->config.retry_max_ms;
        d->retry_boot_ms = now.boot_ms + d->backoff_ms;
    }
    d->changed = true;
}

static const struct etcd_txn *
try_grant(struct dispenser *d, const struct dispenser_cluster *cluster, struct instant now) {
    for (size_t i = 0; i < d->n_stocks; i++) {
        size_t shard = (d->turn + i) % d->n_stocks;
        struct stock *stock = &d->stocks[shard];
        uint64_t wait_ms = 0;
        enum status status;

        if (!needs(d, stock))
            continue;
        d->sent = d->record;
        status = sequence_grant(&d->sent, shard, choose_amount(d, stock, now), now.wall_ms,
                                &d->grant, &wait_ms);
        if (status == STATUS_OK) {
            d->shard = shard;
            d->turn = shard + 1;
            return build_grant(d, cluster);
        }
        if (status == STATUS_STARVED) {
            d->changed = d->changed || stock->waiting > 0;
            stock->active = false;
            continue;
        }
        put_off(d, now, status, wait_ms);
        return NULL;
    }
    return NULL;
}

const struct etcd_txn *dispenser_next(struct dispenser *d, const struct dispenser_cluster *cluster,
                                      struct instant now, uint64_t *wake_boot_ms) {
    const struct etcd_txn *txn = NULL;

    note_era(d, cluster);
    *wake_boot_ms = UINT64_MAX;
    if (d->request != NONE)
        return NULL;
    if (now.boot_ms >= d->retry_boot_ms) {
        if (d->must_read || d->known == UNREAD || d->known == BROKEN)
            return build_read(d);
        if (d->known == PRESENT && !d->record.dropped && !d->went_back[0] && !cluster->reason[0])
            txn = try_grant(d, cluster, now);
    }
    if (!txn && d->retry_boot_ms > now.boot_ms)
        *wake_boot_ms = d->retry_boot_ms;
    return txn;
}

/* ---- answers ---- */

static void put_block(struct dispenser *d, struct instant now) {
    struct stock *stock = &d->stocks[d->shard];
    struct block *last = stock->n ? &stock->blocks[stock->n - 1] : NULL;

    if (last && last->first + last->count * d->record.n_shards == d->grant.first) {
        last->count += d->grant.count;
    } else {
        if (stock->n == stock->room) {
            stock->room = stock->room ? stock->room * 2 : 4;
            stock->blocks = reallocate(stock->blocks, stock->room * sizeof *stock->blocks);
        }
        stock->blocks[stock->n++] = (struct block){d->grant.first, d->grant.count};
    }
    stock->held += d->grant.count;
    stock->active = false;
    stock->granted_boot_ms = now.boot_ms;
}

/* The record may have gone on since: the watch is not slower than the answer. */
static void granted(struct dispenser *d, struct instant now) {
    recovered(d);
    d->granted_total += d->grant.count;
    d->grants_total++;
    if (d->sent_eras != d->eras || d->known != PRESENT || d->record.layout != d->sent.layout ||
        d->record.dropped) {
        d->lost_total += d->grant.count;
        return;
    }
    if (d->record.serial < d->sent.serial) {
        d->record = d->sent;
        set_value(d, d->sent_value, strlen(d->sent_value));
    }
    put_block(d, now);
}

static void look_back(struct dispenser *d, const struct sequence *record) {
    snprintf(d->went_back, sizeof d->went_back,
             "its record went back in etcd (serial %" PRIu64 " after %" PRIu64
             "): nothing is granted until snowfleetctl recover has run",
             record->serial, d->record.serial);
}

/* The record as etcd's log has it. */
static void look_at_record(struct dispenser *d, struct instant now, const struct etcd_kv *kv) {
    struct sequence record;
    struct error err;

    d->must_read = false;
    if (!kv) {
        free_stocks(d);
        d->known = ABSENT;
        d->absent_boot_ms = now.boot_ms ? now.boot_ms : 1;
        recovered(d);
        return;
    }
    if (sequence_parse(kv->value, kv->value_len, &record, &err) != STATUS_OK) {
        free_stocks(d);
        d->known = BROKEN;
        fail(d, now, &err);
        return;
    }
    recovered(d);
    if (d->known == PRESENT && strlen(d->value) == kv->value_len &&
        memcmp(d->value, kv->value, kv->value_len) == 0)
        return;
    /* Older than what the watch has shown meanwhile, and no older than what was known when it was asked. */
    if (d->known == PRESENT && record.serial < d->record.serial && record.serial >= d->sent_serial)
        return;
    if (d->known == PRESENT && !follows(&d->record, &record))
        look_back(d, &record);
    else
        adopt(d, &record, kv->value, kv->value_len);
}

/* A grant was refused, and not for the sake of the record: meta, which whoever owns this looks at, or the
 * ceiling. */
static void look_at_ceiling(struct dispenser *d, struct instant now,
                            const struct etcd_op_result *ceil) {
    uint64_t ceiling_ms = 0;
    struct error err;

    if (ceil->n_kvs > 0 && ceiling_parse(ceil->kvs[0].value, ceil->kvs[0].value_len, &ceiling_ms) &&
        ceiling_ms > d->sent.pace_ms)
        return;
    error_set(&err, STATUS_REFUSED,
              "this clock is above the ceiling (ceil), which coordinators raise");
    fail(d, now, &err);
}

void dispenser_answered(struct dispenser *d, const struct dispenser_cluster *cluster,
                        struct instant now, const struct error *err,
                        const struct etcd_txn_result *result) {
    enum request request = d->request;
    uint64_t serial;

    assert(request != NONE);
    note_era(d, cluster);
    d->request = NONE;
    d->changed = true;
    if (err && request == GRANT && err->status == STATUS_UNKNOWN &&
        MUTANT(SEQUENCE_TIMEOUT_IS_SUCCESS)) {
        granted(d, now);
        return;
    }
    if (err) {
        if (request == GRANT &&
            (err->status == STATUS_UNKNOWN || err->status == STATUS_CANCELLED)) {
            d->must_read = true;
            d->lost_total += d->grant.count; /* at most, and never to be issued */
        }
        fail(d, now, err);
        return;
    }
    if (request == GRANT && result->succeeded) {
        granted(d, now);
        return;
    }
    if (d->sent_eras != d->eras)
        return; /* of an era that is over */
    serial = d->known == PRESENT ? d->record.serial : 0;
    look_at_record(
        d, now, result->results[ANSWER_SEQ].n_kvs > 0 ? &result->results[ANSWER_SEQ].kvs[0] : NULL);
    if (request == GRANT && d->known == PRESENT && d->record.serial == serial)
        look_at_ceiling(d, now, &result->results[ANSWER_CEIL]);
}

void dispenser_seen(struct dispenser *d, const char *value, size_t len) {
    struct sequence record;
    struct error unused;

    /* What is not plainly newer may be late; what is there is read when it matters. */
    if (!value || sequence_parse(value, len, &record, &unused) != STATUS_OK ||
        d->known != PRESENT) {
        d->must_read = true;
        return;
    }
    if (!follows(&d->record, &record))
        return;
    d->changed = d->changed || record.layout != d->record.layout || record.dropped;
    adopt(d, &record, value, len);
}

void dispenser_look(const struct dispenser *d, const struct dispenser_cluster *cluster,
                    struct dispenser_view *view) {
    *view = (struct dispenser_view){.known = d->known == PRESENT,
                                    .issued_total = d->issued_total,
                                    .granted_total = d->granted_total,
                                    .lost_total = d->lost_total,
                                    .grants_total = d->grants_total};
    memcpy(view->name, d->name, sizeof view->name);
    snprintf(view->reason, sizeof view->reason, "%.190s", why_not(d, cluster));
    if (!view->known)
        return;
    if (d->record.dropped)
        snprintf(view->reason, sizeof view->reason, "dropped");
    view->mode = d->record.mode;
    view->n_shards = d->record.n_shards;
    view->layout = d->record.layout;
    view->block = d->record.block;
    view->top = sequence_top(&d->record);
    if (d->request == GRANT && sequence_top(&d->sent) > view->top)
        view->top = sequence_top(&d->sent);
    for (size_t i = 0; i < d->n_stocks; i++)
        view->held += d->stocks[i].held;
}
