/* ctl_session.h - etcd and HTTP for a program that does one thing after the other: each call runs
 * the event loop until it is answered. */
#ifndef SNOWFLEET_COORDINATOR_CTL_SESSION_H
#define SNOWFLEET_COORDINATOR_CTL_SESSION_H

#include <stdint.h>
#include <uv.h>

#include "common/clock.h"
#include "common/etcd.h"
#include "common/http_client.h"
#include "common/keys.h"
#include "coordinator/cluster.h"
#include "coordinator/ctl.h"

struct ctl_session {
    uv_loop_t loop;
    struct clock clock;
    struct keys keys;
    const char *cluster_name;
    uint64_t etcd_timeout_ms;
    struct etcd_http *etcd_http;
    struct etcd etcd;
    struct http_client *client;
    struct cluster *cluster; /* filled by ctl_read() */
};

/* On failure there is nothing to close.  STATUS_INVALID: a setting is wrong. */
enum status ctl_open(struct ctl_session *session, const struct ctl_values *values,
                     struct error *err);
void ctl_close(struct ctl_session *session);

/* Runs the loop until *done. */
void ctl_wait(struct ctl_session *session, const bool *done);

/* Sends txn; take() gets the answer, which lives until it returns. */
enum status ctl_txn(struct ctl_session *session, const struct etcd_txn *txn,
                    void (*take)(void *arg, const struct etcd_txn_result *result), void *arg,
                    struct error *err);
/* Reads all keys of the cluster into session->cluster, at one moment. */
enum status ctl_read(struct ctl_session *session, struct error *err);
/* The same, and fails unless meta is there and can be read. */
enum status ctl_read_initialised(struct ctl_session *session, struct error *err);

/* Reads, for what is arithmetic once the epoch is known.  Without a cluster that can be read *epoch_ms
 * is the default, which is noted on stderr, and false returned. */
bool ctl_read_epoch(struct ctl_session *session, uint64_t *epoch_ms);

/* One GET of a worker, with the token of --worker-token-file; *body is the caller's to free(), NULL on failure. */
enum status ctl_get(struct ctl_session *session, const char *url, uint64_t timeout_ms,
                    long *http_status, char **body, struct error *err);

#endif
