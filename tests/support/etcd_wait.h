/* etcd_wait.h - struct etcd for a test that wants to wait: each call runs the loop until its
 * done(), and says how it ended.  One at a time. */
#ifndef SNOWFLEET_TESTS_SUPPORT_ETCD_WAIT_H
#define SNOWFLEET_TESTS_SUPPORT_ETCD_WAIT_H

#include <uv.h>

#include "common/etcd.h"

/* Everything but the status is of the last answer. */
struct etcd_wait {
    uv_loop_t *loop;
    struct etcd etcd;
    unsigned times; /* done() ran */
    enum status status;
    char message[256];
    bool succeeded;
    int64_t revision;
    size_t n_results, n_kvs; /* of the last range of the branch taken */
    int64_t count;
    char key[256], value[256]; /* of that range's first key */
    int64_t lease, mod_revision;
    int64_t lease_id, ttl_s;
};

enum status etcd_wait_txn(struct etcd_wait *wait, const struct etcd_txn *txn);
enum status etcd_wait_put(struct etcd_wait *wait, const char *key, const char *value,
                          int64_t lease);
enum status etcd_wait_delete(struct etcd_wait *wait, const char *key, const char *range_end);
enum status etcd_wait_get(struct etcd_wait *wait, const char *key, const char *range_end);
enum status etcd_wait_grant(struct etcd_wait *wait, int64_t lease_id, int64_t ttl_s);
enum status etcd_wait_keepalive(struct etcd_wait *wait, int64_t lease_id);
enum status etcd_wait_revoke(struct etcd_wait *wait, int64_t lease_id);

/* Pass as done and wait as arg, for calls that a test makes itself. */
void etcd_wait_on_txn(void *wait, const struct error *err, const struct etcd_txn_result *result);
void etcd_wait_on_lease(void *wait, const struct error *err, int64_t lease_id, int64_t ttl_s);

/* What a watch told: its events as text, and what an owner makes of them. */
#define WATCH_VIEW_MAX 4096
struct watch_view {
    char log[8192]; /* "reset a=1 b= | put a=2 | delete a | ", one part for each batch */
    size_t n_resets, n_batches, n_events;
    struct {
        char key[64], value[64];
        int64_t revision;
    } keys[WATCH_VIEW_MAX];
    size_t n_keys;
    bool in_order; /* no key's revision ever fell; between ranges there is no order */
};
void watch_view_init(struct watch_view *view);
void watch_view_on_events(void *view, const struct etcd_event *events, size_t n);
/* NULL when it is not there. */
const char *watch_view_value(const struct watch_view *view, const char *key);

#endif
