#include "worker/sequences.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/log.h"

#define ABSENT_KEPT_MS 1000u /* a name that etcd does not know is asked for again after that */

struct entry {
    struct sequences *sequences;
    struct dispenser *dispenser;
    struct history_mark mark; /* of the transaction under way */
    bool busy;                /* there is one */
    struct log_repeat trouble;
};

struct sequences {
    struct sequences_config config;
    uv_async_t wake;
    uv_timer_t timer;

    pthread_mutex_t mutex; /* of all that follows */
    bool ended;
    bool woken; /* wake is on its way */
    struct dispenser_cluster cluster;
    struct entry **entries; /* in order of names */
    size_t n_entries, room;
};

/* ---- the table ---- */

/* Where name is, or would be. */
static size_t find(const struct sequences *s, const char *name, bool *found) {
    size_t low = 0, high = s->n_entries;

    *found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(dispenser_name(s->entries[middle]->dispenser), name);

        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct entry *insert(struct sequences *s, size_t at, const char *name) {
    const struct dispenser_config config = {.keys = s->config.keys,
                                            .name = name,
                                            .retry_min_ms = s->config.retry_min_ms,
                                            .retry_max_ms = s->config.retry_max_ms};
    struct entry *entry = allocate(1, sizeof *entry);

    if (s->n_entries == s->room) {
        s->room = s->room ? s->room * 2 : 16;
        s->entries = reallocate(s->entries, s->room * sizeof *s->entries);
    }
    entry->sequences = s;
    entry->dispenser = dispenser_new(&config);
    memmove(s->entries + at + 1, s->entries + at, (s->n_entries - at) * sizeof *s->entries);
    s->entries[at] = entry;
    s->n_entries++;
    return entry;
}

static void free_entry(struct entry *entry) {
    dispenser_free(entry->dispenser);
    free(entry);
}

static void forget_absent(struct sequences *s, struct instant now) {
    size_t kept = 0;

    for (size_t i = 0; i < s->n_entries; i++) {
        struct entry *entry = s->entries[i];
        uint64_t absent_boot_ms = dispenser_absent_boot_ms(entry->dispenser);

        if (!entry->busy && absent_boot_ms && now.boot_ms > absent_boot_ms + ABSENT_KEPT_MS)
            free_entry(entry);
        else
            s->entries[kept++] = entry;
    }
    s->n_entries = kept;
}

/* ---- serving threads ---- */

static enum service_outcome refuse(struct service_error *err, const char *message) {
    *err = (struct service_error){.code = "UNAVAILABLE", .retry_after_ms = 1000};
    snprintf(err->message, sizeof err->message, "%s", message);
    return SERVICE_FAILED;
}

static void wake(struct sequences *s) {
    if (!s->woken && !s->ended) {
        s->woken = true;
        uv_async_send(&s->wake);
    }
}

static size_t count_unknown(const struct sequences *s) {
    struct dispenser_view view;
    size_t n = 0;

    for (size_t i = 0; i < s->n_entries; i++) {
        dispenser_look(s->entries[i]->dispenser, &s->cluster, &view);
        n += !view.known;
    }
    return n;
}

static enum service_outcome take(struct sequences *s, struct service_ids *ids,
                                 struct service_error *err) {
    enum service_outcome outcome;
    bool found;
    size_t at = find(s, ids->sequence, &found);

    if (!found) {
        if (s->ended)
            return refuse(err, "this worker is shutting down");
        if (s->n_entries >= SEQUENCES_MAX + SEQUENCES_UNKNOWN_MAX ||
            count_unknown(s) >= SEQUENCES_UNKNOWN_MAX) {
            wake(s); /* to look which can be forgotten */
            return refuse(err, "too many sequences are asked for that are not known here");
        }
        insert(s, at, ids->sequence);
    }
    outcome = dispenser_take(s->entries[at]->dispenser, &s->cluster, ids, err);
    if (outcome == SERVICE_WAIT && s->ended)
        return refuse(err, "this worker is shutting down");
    if (dispenser_wants(s->entries[at]->dispenser))
        wake(s);
    return outcome;
}

enum service_outcome sequences_take(void *sequences, struct service_ids *ids,
                                    struct service_error *err) {
    struct sequences *s = sequences;
    enum service_outcome outcome;

    pthread_mutex_lock(&s->mutex);
    outcome = take(s, ids, err);
    pthread_mutex_unlock(&s->mutex);
    return outcome;
}

size_t sequences_look(struct sequences *s, struct dispenser_view **views) {
    size_t n = 0;

    pthread_mutex_lock(&s->mutex);
    *views = allocate(s->n_entries, sizeof **views);
    for (size_t i = 0; i < s->n_entries; i++) {
        dispenser_look(s->entries[i]->dispenser, &s->cluster, &(*views)[n]);
        n += (*views)[n].known ||
             (*views)[n].granted_total > 0; /* else clients may have made it up */
    }
    pthread_mutex_unlock(&s->mutex);
    return n;
}

/* ---- the control thread ---- */

static void pump(struct sequences *s);

static void judge(struct sequences *s) {
    const struct history *history = s->config.history;
    char doubt[sizeof s->cluster.reason] = "";

    if (history->alarm[0])
        snprintf(doubt, sizeof doubt, "rollback: %s: run snowfleetctl recover", history->alarm);
    else if (!history_trusted(history))
        snprintf(doubt, sizeof doubt, "etcd's history is in doubt");
    dispenser_cluster_judge(&s->cluster, doubt);
}

static void log_trouble(struct entry *entry, struct instant now, const struct error *err) {
    if (err)
        log_repeat_failed(&entry->trouble, now.boot_ms, "sequence", "etcd does not answer as asked",
                          err->message);
    else
        log_repeat_ended(&entry->trouble, now.boot_ms, "sequence", "etcd answers again");
}

static void on_answered(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    static const struct error doubted = {.status = STATUS_UNKNOWN,
                                         .message = "etcd's history is in doubt"};
    struct entry *entry = arg;
    struct sequences *s = entry->sequences;
    struct instant now = clock_now(&s->config.clock);
    const struct etcd_op_result *meta = NULL;

    if (err && err->status == STATUS_CANCELLED)
        return;
    if (!err && !history_answered(s->config.history, &entry->mark, result->revision))
        err = &doubted;
    pthread_mutex_lock(&s->mutex);
    judge(s);
    entry->busy = false;
    dispenser_answered(entry->dispenser, &s->cluster, now, err, err ? NULL : result);
    pthread_mutex_unlock(&s->mutex);
    log_trouble(entry, now, err);
    if (!err && !result->succeeded)
        meta = &result->results[1];
    if (meta)
        s->config.meta_read(s->config.arg, meta->n_kvs ? meta->kvs[0].value : NULL,
                            meta->n_kvs ? meta->kvs[0].value_len : 0);
    pump(s);
}

static void on_timer(uv_timer_t *timer) {
    pump(timer->data);
}

/* The client calls nobody back from inside of txn(). */
static bool ask(struct sequences *s, struct instant now, uint64_t *wake_boot_ms) {
    bool changed = false;

    for (size_t i = 0; i < s->n_entries; i++) {
        struct entry *entry = s->entries[i];
        uint64_t boot_ms;
        const struct etcd_txn *txn = dispenser_next(entry->dispenser, &s->cluster, now, &boot_ms);

        if (txn) {
            entry->busy = true;
            entry->mark = history_mark(s->config.history);
            s->config.etcd.txn(s->config.etcd.self, txn, on_answered, entry);
        }
        if (boot_ms < *wake_boot_ms)
            *wake_boot_ms = boot_ms;
        changed = dispenser_changed(entry->dispenser) || changed;
    }
    return changed;
}

static void pump(struct sequences *s) {
    struct instant now = clock_now(&s->config.clock);
    uint64_t wake_boot_ms = UINT64_MAX;
    bool changed;

    pthread_mutex_lock(&s->mutex);
    if (s->ended) {
        pthread_mutex_unlock(&s->mutex);
        return;
    }
    judge(s);
    forget_absent(s, now);
    changed = ask(s, now, &wake_boot_ms);
    pthread_mutex_unlock(&s->mutex);
    if (wake_boot_ms != UINT64_MAX)
        uv_timer_start(&s->timer, on_timer,
                       wake_boot_ms > now.boot_ms ? wake_boot_ms - now.boot_ms : 0, 0);
    if (changed)
        s->config.changed(s->config.arg);
}

static void on_wake(uv_async_t *async) {
    struct sequences *s = async->data;

    pthread_mutex_lock(&s->mutex);
    s->woken = false;
    pthread_mutex_unlock(&s->mutex);
    pump(s);
}

/* Those who wait are to hear of it. */
static void tell_all(struct sequences *s) {
    s->config.changed(s->config.arg);
    pump(s);
}

void sequences_meta(struct sequences *s, const char *value, size_t len) {
    bool news;

    pthread_mutex_lock(&s->mutex);
    news = dispenser_cluster_meta(&s->cluster, value, len);
    judge(s);
    pthread_mutex_unlock(&s->mutex);
    if (news)
        tell_all(s);
}

void sequences_seen(struct sequences *s, const char *key, const char *value, size_t len) {
    const char *name = keys_seq_name(s->config.keys, key);
    bool found;
    size_t at;

    if (!name)
        return;
    pthread_mutex_lock(&s->mutex);
    at = find(s, name, &found);
    if (found)
        dispenser_seen(s->entries[at]->dispenser, value, len);
    pthread_mutex_unlock(&s->mutex);
    if (found)
        pump(s);
}

void sequences_doubt(struct sequences *s) {
    pthread_mutex_lock(&s->mutex);
    for (size_t i = 0; i < s->n_entries; i++)
        dispenser_seen(s->entries[i]->dispenser, NULL, 0);
    pthread_mutex_unlock(&s->mutex);
    pump(s);
}

void sequences_kick(struct sequences *s) {
    bool before, after;

    pthread_mutex_lock(&s->mutex);
    before = s->cluster.reason[0];
    judge(s);
    after = s->cluster.reason[0];
    pthread_mutex_unlock(&s->mutex);
    if (before != after)
        tell_all(s);
}

/* ---- life ---- */

struct sequences *sequences_new(const struct sequences_config *config) {
    struct sequences *s = allocate_unforked(sizeof *s); /* it holds what is to be given once */

    s->config = *config;
    pthread_mutex_init(&s->mutex, NULL);
    dispenser_cluster_init(&s->cluster);
    judge(s);
    uv_async_init(config->loop, &s->wake, on_wake);
    uv_timer_init(config->loop, &s->timer);
    s->wake.data = s->timer.data = s;
    return s;
}

void sequences_end(struct sequences *s) {
    bool ended;

    if (!s)
        return;
    pthread_mutex_lock(&s->mutex);
    ended = s->ended;
    s->ended = true;
    pthread_mutex_unlock(&s->mutex);
    if (ended)
        return;
    uv_close((uv_handle_t *)&s->wake, NULL);
    uv_close((uv_handle_t *)&s->timer, NULL);
}

void sequences_free(struct sequences *s) {
    if (!s)
        return;
    for (size_t i = 0; i < s->n_entries; i++)
        free_entry(s->entries[i]);
    free(s->entries);
    dispenser_cluster_done(&s->cluster);
    pthread_mutex_destroy(&s->mutex);
    free_unforked(s, sizeof *s);
}
