/* etcd_auth.h - who we are to etcd: user, password and a token for each endpoint.
 *
 * etcd's simple tokens are known to the member that gave them only, and end when that member
 * restarts or has not seen them for a while.  So each endpoint has a token of its own, asked for
 * when it is first needed; whoever finds it refused drops it and asks again.  Requests that need
 * the same token wait for one authentication.  An etcd without auth says so, and is used without a
 * token until it asks for one.
 *
 * The password is read from its file each time, so that a new one is taken up.  After a failure
 * that reached etcd nobody asks it again for a while, since each try costs it some 100 ms of
 * computing: 500 ms, doubling to 30 s where etcd refused (at once when the file has changed) and to 5 s where
 * it did not answer, less up to a half by chance.
 *
 * A part of etcd_http.c's client; not thread-safe. */
#ifndef SNOWFLEET_COMMON_ETCD_AUTH_H
#define SNOWFLEET_COMMON_ETCD_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/etcd_http.h"
#include "common/status.h"

struct etcd_auth;

/* err is NULL when requests may go out to the endpoint now.  Otherwise:
 *   STATUS_AUTH         who we are is not accepted, or the password file is at fault
 *   STATUS_UNAVAILABLE  no answer, or not now: another endpoint may do better
 *   STATUS_CANCELLED    the client closes */
typedef void etcd_auth_fn(void *arg, const struct error *err);

/* Part of whoever waits; filled by etcd_auth_wait(). */
struct etcd_auth_waiter {
    TAILQ_ENTRY(etcd_auth_waiter) link;
    size_t endpoint;
    etcd_auth_fn *done;
    void *arg;
};

/* *auth is NULL when config names no user: then none of the others are to be called.  Reads the
 * password file once, to refuse it now rather than later.  STATUS_INVALID names what is wrong. */
enum status etcd_auth_new(struct etcd_http *client, const struct etcd_http_config *config,
                          struct etcd_auth **auth, struct error *err);

/* From now on it is to be closed before it is freed. */
void etcd_auth_start(struct etcd_auth *auth);

/* Requests may go out to this endpoint without waiting. */
bool etcd_auth_ready(const struct etcd_auth *auth, size_t endpoint);
/* The header that goes with them, "Authorization: ..."; NULL: none, etcd's auth is off.  Valid
 * until the next turn of the loop. */
const char *etcd_auth_header(const struct etcd_auth *auth, size_t endpoint);
/* Which token that is: for etcd_auth_drop().  Never 0. */
uint64_t etcd_auth_number(const struct etcd_auth *auth, size_t endpoint);

/* Not ready: done() runs once, from the loop and not from inside the call. */
void etcd_auth_wait(struct etcd_auth *auth, size_t endpoint, struct etcd_auth_waiter *waiter,
                    etcd_auth_fn *done, void *arg);

/* etcd did not accept the token of that number.  Does nothing when it was replaced meanwhile.
 * With refusal the token was fresh: asking for another at once would not help. */
void etcd_auth_drop(struct etcd_auth *auth, size_t endpoint, uint64_t number,
                    const struct error *refusal);

/* Once the HTTP client has closed: whoever still waits gets STATUS_CANCELLED. */
void etcd_auth_close(struct etcd_auth *auth);
/* Once it has closed, which etcd_http_part_closed() is told; NULL does nothing. */
void etcd_auth_free(struct etcd_auth *auth);

#endif
