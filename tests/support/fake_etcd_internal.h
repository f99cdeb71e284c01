/* fake_etcd_internal.h - what the files of the fake etcd share; nobody else includes it.
 *
 *   fake_store.c    keys and values, as they stand at one moment
 *   fake_etcd.c     the server: transactions, leases, faults
 *   fake_network.c  what lies between it and its clients: requests, answers, watches */
#ifndef SNOWFLEET_TESTS_FAKE_ETCD_INTERNAL_H
#define SNOWFLEET_TESTS_FAKE_ETCD_INTERNAL_H

#include <assert.h>
#include <stdlib.h>

#include "tests/support/fake_etcd.h"

/* Room for one more element of a list. */
#define FAKE_GROW(list, n, room)                                                                   \
    do {                                                                                           \
        if ((n) == (room)) {                                                                       \
            (room) = (room) ? (room)*2 : 16;                                                       \
            (list) = realloc((list), (room) * sizeof(*(list)));                                    \
            assert(list);                                                                          \
        }                                                                                          \
    } while (0)

struct fake_store {
    struct etcd_kv *kvs; /* in order of keys */
    size_t n, room;
    int64_t revision;
};

struct fake_lease {
    int64_t id;
    int64_t ttl_s;
    uint64_t ends_us;
};

struct fake_leases {
    struct fake_lease *list;
    size_t n, room;
};

/* What watches still have to be told. */
struct fake_change {
    enum etcd_event_kind kind;
    char *key;
    char *value;
    int64_t revision;
    int64_t lease;
};

enum fake_request_kind { TXN, GRANT, KEEPALIVE, REVOKE };

struct fake_request {
    uint64_t id;
    struct fake_etcd_client *client; /* NULL once nobody waits for it any more */
    enum fake_request_kind kind;
    struct etcd_txn *txn;
    int64_t lease_id;
    int64_t ttl_s;
    union {
        etcd_txn_fn *txn;
        etcd_lease_fn *lease;
    } done;
    void *arg;
    unsigned copies; /* on their way to the server */
    unsigned silent; /* of these, so many arrive before the one that answers */
    bool answered;   /* the client has an answer waiting in its socket */
    enum status status;
    struct etcd_txn_result *result;
};

struct etcd_watch {
    uint64_t id;
    struct fake_etcd_client *client; /* NULL once stopped */
    struct etcd_key_range ranges[ETCD_WATCH_MAX_RANGES];
    size_t n_ranges;
    etcd_watch_fn *on_events;
    void *arg;
    bool reset;  /* the next batch tells all */
    size_t next; /* the first change not told yet */
    bool notice; /* a batch is on its way */
};

struct fake_etcd_client {
    struct fake_etcd *etcd;
    const struct fake_link *link;
    uint64_t paused_until_us;
    bool dead;
};

struct fake_etcd {
    struct fake_world *world;
    struct fake_store now, older;
    bool remembers;
    struct fake_leases leases;
    uint64_t lease_second_us;
    uint64_t outage_until_us;
    bool full;
    struct fake_change *changes;
    size_t n_changes, changes_room;
    struct fake_request **requests;
    size_t n_requests, requests_room;
    struct etcd_watch **watches;
    size_t n_watches, watches_room;
    struct fake_etcd_client **clients;
    size_t n_clients, clients_room;
    uint64_t next_id;
    fake_etcd_change_fn *on_change;
    void *on_change_arg;
};

struct fake_snapshot {
    struct fake_store store;
    struct fake_leases leases;
};

/* ---- fake_store.c ---- */

char *fake_copy_text(const char *text); /* NULL stays NULL */
void fake_free_text(const char *text);
bool fake_in_range(const char *key, const char *start, const char *end);
void fake_store_clear(struct fake_store *store);
void fake_store_copy(struct fake_store *to, const struct fake_store *from);
/* The first key at or after key. */
size_t fake_store_seek(const struct fake_store *store, const char *key);
struct etcd_kv *fake_store_find(const struct fake_store *store, const char *key);
bool fake_store_holds(const struct fake_store *store, const struct etcd_compare *compare);
void fake_store_read(const struct fake_store *store, const struct etcd_op *op,
                     struct etcd_op_result *result);

/* ---- fake_etcd.c ---- */

bool fake_in_outage(const struct fake_etcd *etcd);
struct fake_lease *fake_lease_find(const struct fake_etcd *etcd, int64_t id);
void fake_lease_end(struct fake_etcd *etcd, struct fake_lease *lease);
void fake_lease_renew(struct fake_etcd *etcd, struct fake_lease *lease);

/* ---- fake_network.c ---- */

/* There is something to tell: it goes on its way. */
void fake_watch_notice(struct etcd_watch *watch);
void fake_watch_free(struct etcd_watch *watch);
void fake_request_free(struct fake_request *request);

#endif
