/* registration.h - node/<instance>: the worker's own record in etcd, under a lease of its own.
 *
 * Says that the worker is alive and what it asks for.  It proves nothing about IDs, and losing it
 * costs nothing but a new one: the record is written again under a new lease by itself. */
#ifndef SNOWFLEET_WORKER_REGISTRATION_H
#define SNOWFLEET_WORKER_REGISTRATION_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/clock.h"
#include "common/etcd.h"
#include "common/keys.h"

struct registration;

struct registration_config {
    uv_loop_t *loop;
    struct clock clock;
    struct etcd etcd;
    const struct keys *keys; /* outlives the registration */
    const char *instance;    /* likewise */
    uint64_t lease_ttl_s;
    uint64_t keepalive_interval_ms;
    uint64_t retry_min_ms, retry_max_ms;
    void (*changed)(void *arg); /* registration_left() may have become true */
    void *arg;
};

struct registration *registration_new(const struct registration_config *config);
/* What the record is to say, as soon as may be.  Copied; nothing is written when it says so
 * already. */
void registration_set(struct registration *registration, const char *node_value);
/* What the record says, as watched or read; NULL: it is absent.  Somebody else may have deleted or changed
 * it: then it is written again. */
void registration_seen(struct registration *registration, const char *value, size_t len);
/* Revokes the lease, so that the record goes, and writes nothing more. */
void registration_leave(struct registration *registration);
/* Has etcd answered that? */
bool registration_left(const struct registration *registration);
/* After the etcd client is closed: no call is outstanding any more. */
void registration_free(struct registration *registration);

#endif
