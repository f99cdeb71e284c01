#include "worker/registration.h"

#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/log.h"
#include "common/random.h"

struct registration {
    struct registration_config config;
    char key[KEY_MAX];
    uv_timer_t *timer; /* the loop's once closed */

    int64_t lease;    /* 0: none */
    int64_t granting; /* the lease ID last asked for */
    char *wanted;     /* what the record is to say */
    char *sent;       /* what is being written */
    char *known;      /* what it says, as etcd confirmed; NULL: absent, as far as we know */
    bool busy;        /* a grant or a write is under way */
    bool keeping;
    bool left;
    unsigned revoking; /* revocations that etcd has not answered yet */
    uint64_t keepalive_boot_ms, retry_boot_ms;
    unsigned failures;
    struct log_repeat trouble;
};

static void pump(struct registration *reg);

static uint64_t boot_now(const struct registration *reg) {
    return clock_now(&reg->config.clock).boot_ms;
}

static void set_text(char **slot, const char *text, size_t len) {
    free(*slot);
    *slot = text ? allocate_copy(text, len) : NULL;
}

static void failed(struct registration *reg, const struct error *err) {
    uint64_t now = boot_now(reg);
    uint64_t pause = reg->config.retry_max_ms;

    if (reg->failures < 16 && reg->config.retry_min_ms << reg->failures < pause)
        pause = reg->config.retry_min_ms << reg->failures;
    reg->failures++;
    reg->retry_boot_ms = now + pause - random_u64() % (pause / 4 + 1);
    log_repeat_failed(&reg->trouble, now, "registration", "cannot register", err->message);
}

static void succeeded(struct registration *reg) {
    reg->failures = 0;
    log_repeat_ended(&reg->trouble, boot_now(reg), "registration", "registered");
}

/* If it failed, the lease ends by itself. */
static void on_revoked(void *arg, const struct error *err, int64_t lease_id, int64_t ttl_s) {
    struct registration *reg = arg;

    (void)lease_id, (void)ttl_s;
    reg->revoking--;
    if (!err || err->status != STATUS_CANCELLED)
        reg->config.changed(reg->config.arg);
}

static void revoke_lease(struct registration *reg, int64_t lease_id) {
    reg->revoking++;
    reg->config.etcd.lease_revoke(reg->config.etcd.self, lease_id, on_revoked, reg);
}

static void lease_gone(struct registration *reg) {
    reg->lease = 0;
    set_text(&reg->known, NULL, 0);
}

static void on_granted(void *arg, const struct error *err, int64_t lease_id, int64_t ttl_s) {
    struct registration *reg = arg;

    (void)ttl_s;
    reg->busy = false;
    if (err && err->status == STATUS_CANCELLED)
        return;
    if (err) {
        if (err->status == STATUS_UNKNOWN) /* if it was granted after all, nobody renews it */
            revoke_lease(reg, reg->granting);
        failed(reg, err);
    } else if (reg->left) {
        revoke_lease(reg, lease_id);
    } else {
        reg->lease = lease_id;
        reg->keepalive_boot_ms = boot_now(reg) + reg->config.keepalive_interval_ms;
    }
    pump(reg);
}

static void on_kept(void *arg, const struct error *err, int64_t lease_id, int64_t ttl_s) {
    struct registration *reg = arg;

    (void)ttl_s;
    reg->keeping = false;
    if (err && err->status == STATUS_CANCELLED)
        return;
    if (err && err->status == STATUS_NOT_FOUND && lease_id == reg->lease) {
        log_warn("registration", "the instance's lease is gone", LOG_INT("lease_id", lease_id));
        lease_gone(reg);
    } else if (err) {
        reg->keepalive_boot_ms = boot_now(reg) + reg->config.retry_max_ms / 2;
    }
    pump(reg);
}

static void on_written(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct registration *reg = arg;

    reg->busy = false;
    if (err && err->status == STATUS_CANCELLED)
        return;
    if (err) {
        if (err->status == STATUS_NOT_FOUND)
            lease_gone(reg);
        failed(reg, err);
    } else if (result->succeeded) {
        set_text(&reg->known, reg->sent, strlen(reg->sent));
        succeeded(reg);
    } else {
        /* An older write landed late, or the key went: compare with what is there. */
        const struct etcd_op_result *read = &result->results[0];

        set_text(&reg->known, read->n_kvs ? read->kvs[0].value : NULL,
                 read->n_kvs ? read->kvs[0].value_len : 0);
    }
    pump(reg);
}

/* Guarded by what stood there before, so that a write that lands late cannot replace a newer one. */
static void write_record(struct registration *reg) {
    struct etcd_compare compare = {
        .kind = reg->known ? ETCD_VALUE_EQUAL : ETCD_ABSENT, .key = reg->key, .value = reg->known};
    struct etcd_op put = {
        .kind = ETCD_PUT, .key = reg->key, .value = reg->wanted, .lease = reg->lease};
    struct etcd_op get = {.kind = ETCD_RANGE, .key = reg->key};
    struct etcd_txn txn = {.compares = &compare,
                           .n_compares = 1,
                           .then = &put,
                           .n_then = 1,
                           .otherwise = &get,
                           .n_otherwise = 1};

    reg->busy = true;
    set_text(&reg->sent, reg->wanted, strlen(reg->wanted));
    reg->config.etcd.txn(reg->config.etcd.self, &txn, on_written, reg);
}

static bool must_write(const struct registration *reg) {
    return reg->wanted && (!reg->known || strcmp(reg->known, reg->wanted) != 0);
}

static void on_timer(uv_timer_t *timer) {
    pump(timer->data);
}

/* Answers pump by themselves; the timer is for what nobody answers. */
static void sleep_until_due(struct registration *reg, uint64_t now) {
    uint64_t due = UINT64_MAX;

    if (!reg->busy && reg->retry_boot_ms > now)
        due = reg->retry_boot_ms;
    if (reg->lease && !reg->keeping && reg->keepalive_boot_ms < due)
        due = reg->keepalive_boot_ms;
    if (due != UINT64_MAX)
        uv_timer_start(reg->timer, on_timer, due > now ? due - now : 1, 0);
}

static void pump(struct registration *reg) {
    const struct etcd *etcd = &reg->config.etcd;
    uint64_t now = boot_now(reg);

    if (reg->left)
        return;
    if (!reg->busy && now >= reg->retry_boot_ms) {
        if (!reg->lease) {
            reg->busy = true;
            reg->granting = (int64_t)(random_u64() >> 1 | 1);
            etcd->lease_grant(etcd->self, reg->granting, (int64_t)reg->config.lease_ttl_s,
                              on_granted, reg);
        } else if (must_write(reg)) {
            write_record(reg);
        }
    }
    if (reg->lease && !reg->keeping && now >= reg->keepalive_boot_ms) {
        reg->keeping = true;
        reg->keepalive_boot_ms = now + reg->config.keepalive_interval_ms;
        etcd->lease_keepalive(etcd->self, reg->lease, on_kept, reg);
    }
    sleep_until_due(reg, now);
}

struct registration *registration_new(const struct registration_config *config) {
    struct registration *reg = allocate(1, sizeof *reg);

    reg->config = *config;
    keys_node(config->keys, config->instance, reg->key);
    reg->timer = allocate(1, sizeof *reg->timer);
    uv_timer_init(config->loop, reg->timer);
    reg->timer->data = reg;
    pump(reg);
    return reg;
}

void registration_set(struct registration *reg, const char *node_value) {
    set_text(&reg->wanted, node_value, strlen(node_value));
    pump(reg);
}

/* News may be old: then the write finds that out by its compare. */
void registration_seen(struct registration *reg, const char *value, size_t len) {
    if (reg->left || reg->busy || !reg->known)
        return;
    if (value && strlen(reg->known) == len && memcmp(reg->known, value, len) == 0)
        return;
    set_text(&reg->known, value, len);
    pump(reg);
}

void registration_leave(struct registration *reg) {
    reg->left = true;
    uv_timer_stop(reg->timer);
    if (reg->lease)
        revoke_lease(reg, reg->lease);
    reg->lease = 0;
}

bool registration_left(const struct registration *reg) {
    return reg->left && reg->revoking == 0;
}

static void free_handle(uv_handle_t *handle) {
    free(handle);
}

void registration_free(struct registration *reg) {
    if (!reg)
        return;
    uv_close((uv_handle_t *)reg->timer, free_handle);
    free(reg->wanted);
    free(reg->sent);
    free(reg->known);
    free(reg);
}
