/* fake_etcd.h - an etcd in memory, and the network between it and its clients.
 *
 * The server executes each transaction at one moment, as the real one does.  The network may lose,
 * delay, repeat and reorder what passes through it, in both directions, by chance and as the link
 * of each client says.  Everything happens as an event of the world. */
#ifndef SNOWFLEET_TESTS_FAKE_ETCD_H
#define SNOWFLEET_TESTS_FAKE_ETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/etcd.h"
#include "tests/support/fake_world.h"

struct fake_etcd;
struct fake_etcd_client;

/* How one client's requests fare.  All zero but timeout_us: at once and always. */
struct fake_link {
    uint64_t timeout_us;                 /* without an answer for so long: STATUS_UNKNOWN */
    uint64_t delay_min_us, delay_max_us; /* each way */
    uint64_t slow_max_us;                /* a slow message takes up to this */
    /* Of a thousand messages, how many are ... */
    unsigned slow;
    unsigned refused;       /* STATUS_UNAVAILABLE, without any effect */
    unsigned lost_requests; /* never executed */
    unsigned lost_answers;  /* executed, and the client does not hear of it */
    unsigned repeated;      /* executed twice, perhaps the second copy first; one of them answers */
    unsigned stale; /* answered from an older state where etcd may do so (fake_etcd_remember) */
    unsigned broken_watch; /* a watch starts again instead of showing one change */
};

struct fake_etcd *fake_etcd_new(struct fake_world *world);
/* Frees its clients too.  No done() is called any more. */
void fake_etcd_free(struct fake_etcd *etcd);

/* ---- clients ---- */
/* One connection of one process; *link is read at each message and outlives the client. */
struct fake_etcd_client *fake_etcd_connect(struct fake_etcd *etcd, const struct fake_link *link);
struct etcd fake_etcd_interface(struct fake_etcd_client *client);
/* The process dies: it hears nothing any more; what it has sent is still on its way. */
void fake_etcd_kill(struct fake_etcd_client *client);
/* The process is stopped until then.  What comes meanwhile waits in its socket. */
void fake_etcd_pause(struct fake_etcd_client *client, uint64_t until_us);

/* ---- faults of the server ---- */
/* No quorum until then: a request is refused, vanishes, or is executed after all when it is back;
 * no lease ends meanwhile, and each has its whole TTL again afterwards, as after an election. */
void fake_etcd_outage(struct fake_etcd *etcd, uint64_t until_us);
/* The alarm: transactions with a put in any list and lease grants fail with STATUS_NO_SPACE. */
void fake_etcd_no_space(struct fake_etcd *etcd, bool full);
/* The state as it is now becomes the older state that stale reads show. */
void fake_etcd_remember(struct fake_etcd *etcd);
/* How long a second of a TTL lasts, 1,000,000 unless set: a simulation with short windows makes
 * it shorter. */
void fake_etcd_lease_second(struct fake_etcd *etcd, uint64_t us);

struct fake_snapshot;
struct fake_snapshot *fake_etcd_snapshot(const struct fake_etcd *etcd);
/* Keys, leases and revision become those of the snapshot; leases have their whole TTL again.
 * Watches start again. */
void fake_etcd_restore(struct fake_etcd *etcd, const struct fake_snapshot *snapshot);
void fake_snapshot_free(struct fake_snapshot *snapshot);

/* ---- the true state, without network ---- */
/* NULL when absent; valid until the next change. */
const struct etcd_kv *fake_etcd_get(const struct fake_etcd *etcd, const char *key);
void fake_etcd_put(struct fake_etcd *etcd, const char *key, const char *value, int64_t lease);
void fake_etcd_delete(struct fake_etcd *etcd, const char *key);
void fake_etcd_grant(struct fake_etcd *etcd, int64_t lease_id, int64_t ttl_s); /* not in use yet */
void fake_etcd_revoke(struct fake_etcd *etcd, int64_t lease_id);
size_t fake_etcd_leases(const struct fake_etcd *etcd); /* how many there are */
/* Executes txn at once.  There is no history: a range at any other revision than the present one was
 * compacted.  STATUS_OK: *result is the caller's, fake_etcd_result_free(). */
enum status fake_etcd_execute(struct fake_etcd *etcd, const struct etcd_txn *txn, bool stale,
                              struct etcd_txn_result **result);
void fake_etcd_result_free(struct etcd_txn_result *result);

/* Called before each change of a key.  txn is NULL when no transaction does it (a fault, a lease's
 * end, the functions above); before and after are NULL when the key is absent.  A restore tells
 * all that it brings back, with before NULL. */
typedef void fake_etcd_change_fn(void *arg, const struct etcd_txn *txn, const char *key,
                                 const char *before, const char *after);
void fake_etcd_on_change(struct fake_etcd *etcd, fake_etcd_change_fn *fn, void *arg);

#endif
