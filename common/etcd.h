/* etcd.h - the few etcd operations we rely on, as an interface.
 *
 * The real one is etcd_http.c; tests/support/fake_etcd.c keeps the same contract.
 *
 * Each call returns at once.  done() runs exactly once, from the event loop, never from inside
 * the call; when the client is closed first, it runs with STATUS_CANCELLED.  What is passed in is
 * copied.  err and results are the client's and live until done() returns; err is NULL on success.
 *
 * What a failure says of a write (txn, grant, revoke):
 *   STATUS_UNKNOWN, STATUS_CANCELLED   it may have been applied, or may be applied later still
 *   any other                          it was not applied and never will be
 * A txn whose compare fails may still have been applied by an earlier copy of its own, since
 * networks repeat and etcd may be reached twice.  So look at what the otherwise-part read, first,
 * always.
 *
 * Not thread-safe: one client for each event loop. */
#ifndef SNOWFLEET_COMMON_ETCD_H
#define SNOWFLEET_COMMON_ETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* A key as etcd holds it.  key and value are NUL-terminated copies; a value may hold NUL bytes of
 * its own, so value_len counts. */
struct etcd_kv {
    char *key;
    char *value;
    size_t value_len;
    int64_t create_revision; /* 1.. */
    int64_t mod_revision;    /* 1.. */
    int64_t lease;           /* 0: none */
};

enum etcd_compare_kind {
    ETCD_VALUE_EQUAL,   /* false when the key is absent */
    ETCD_VALUE_GREATER, /* the stored value sorts after the one given; false when absent */
    ETCD_ABSENT,        /* create_revision is 0; with range_end: no key of the range exists */
    ETCD_NONE_SINCE     /* no key of the range was created after that revision */
};
struct etcd_compare {
    enum etcd_compare_kind kind;
    const char *key;
    const char *value;     /* of the first two */
    const char *range_end; /* of the last two: NULL for the one key; etcd_prefix_end() */
    int64_t revision;      /* ETCD_NONE_SINCE only.  A restored etcd uses revisions again, so no
                              promise may rest on it */
};

enum etcd_op_kind { ETCD_PUT, ETCD_RANGE, ETCD_DELETE };
struct etcd_op {
    enum etcd_op_kind kind;
    const char *key;
    const char *range_end; /* range and delete: NULL for the one key; etcd_prefix_end() */
    const char *value;     /* put */
    int64_t lease;         /* put: 0 for none */
    int64_t limit;         /* range: 0 for all */
    bool keys_only;        /* range */
    int64_t revision;      /* range: as it was then, 0 for now.  One that was compacted, or is still
                              to come, fails the whole transaction with STATUS_INVALID */
};

#define ETCD_TXN_MAX_OPS 128 /* etcd's own limit, for each of the three lists */

/* Runs compares and, if all hold, then's operations, else otherwise's.  Atomic.  The branch taken
 * must not be empty: etcd answers an empty branch from local, possibly stale state. */
struct etcd_txn {
    const struct etcd_compare *compares;
    size_t n_compares;
    const struct etcd_op *then;
    size_t n_then;
    const struct etcd_op *otherwise;
    size_t n_otherwise;
};

struct etcd_op_result {
    struct etcd_kv *kvs; /* range: what was read, in order of keys */
    size_t n_kvs;
    int64_t count; /* range: all matches, also beyond limit; delete: how many went */
};
struct etcd_txn_result {
    bool succeeded;
    int64_t revision;               /* of the store when it answered */
    struct etcd_op_result *results; /* one for each operation of the branch taken */
    size_t n_results;
};
typedef void etcd_txn_fn(void *arg, const struct error *err, const struct etcd_txn_result *result);

/* lease_id and ttl_s are etcd's answer: a TTL below etcd's minimum comes back raised. */
typedef void etcd_lease_fn(void *arg, const struct error *err, int64_t lease_id, int64_t ttl_s);

enum etcd_event_kind {
    ETCD_EVENT_RESET, /* the watch starts, or starts again after a gap (a broken connection whose
                         revision was compacted): all keys as they are now come as one batch that
                         begins with this event, and whatever is not among them is gone */
    ETCD_EVENT_PUT,
    ETCD_EVENT_DELETE /* deleted, or its lease ended */
};
struct etcd_event {
    enum etcd_event_kind kind;
    const char *key;   /* NULL for reset */
    const char *value; /* put only */
    size_t value_len;
    int64_t mod_revision;
    int64_t lease;
};
/* Called with one or more events at a time; those of one range are in order, those of different
 * ranges may interleave.  An event may come twice. */
typedef void etcd_watch_fn(void *arg, const struct etcd_event *events, size_t n);

struct etcd_key_range {
    const char *key;
    const char *range_end; /* NULL: the one key */
};
#define ETCD_WATCH_MAX_RANGES 8

struct etcd_watch; /* one running watch, the client's */

struct etcd {
    void (*txn)(void *self, const struct etcd_txn *txn, etcd_txn_fn *done, void *arg);
    /* lease_id 1..INT64_MAX, drawn at random by the caller.  STATUS_EXISTS: that ID is in use,
     * perhaps by the first copy of this very call. */
    void (*lease_grant)(void *self, int64_t lease_id, int64_t ttl_s, etcd_lease_fn *done,
                        void *arg);
    /* STATUS_NOT_FOUND: the lease is gone for good.  Success proves that the lease exists, not
     * that a key still does. */
    void (*lease_keepalive)(void *self, int64_t lease_id, etcd_lease_fn *done, void *arg);
    /* STATUS_NOT_FOUND: it was gone already. */
    void (*lease_revoke)(void *self, int64_t lease_id, etcd_lease_fn *done, void *arg);
    /* Starts with ETCD_EVENT_RESET and keeps itself alive until stopped, whatever happens to
     * endpoints and connections.  A watch is a hint: it may be late, so poll at a slow rate too.
     * on_events is never called from inside this call, nor after watch_stop(). */
    struct etcd_watch *(*watch)(void *self, const struct etcd_key_range *ranges, size_t n_ranges,
                                etcd_watch_fn *on_events, void *arg);
    void (*watch_stop)(void *self, struct etcd_watch *watch);
    void *self;
};

/* The end of the range of all keys that begin with prefix, to end[size].  prefix is not empty and
 * not all 0xff bytes; size is at least strlen(prefix) + 1. */
void etcd_prefix_end(const char *prefix, char *end, size_t size);

#endif
