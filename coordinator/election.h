/* election.h - who of several coordinators acts: the one whose lease holds the key `leader`.
 *
 * The key is created if absent, watched and polled.  Leading is reported only while this process
 * knows that its lease lives: by its own deadline, counted on the boot-time clock from before the
 * last keep-alive that succeeded was sent.  So a leader that is cut off from etcd, or was stopped,
 * reports itself as not leading before another one can.  That is a courtesy: what protects against
 * two leaders is that each act compares election_value() within its transaction.
 *
 * Nothing blocks and nothing is polled inside: the owner calls election_tick() every 100 ms or so,
 * and passes on what its watch sees. */
#ifndef SNOWFLEET_COORDINATOR_ELECTION_H
#define SNOWFLEET_COORDINATOR_ELECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/etcd.h"
#include "common/keys.h"
#include "common/records.h"

enum election_state {
    ELECTION_NO_LEASE,  /* none, or one that is being granted */
    ELECTION_CANDIDATE, /* it has a lease, and the key is another's or not yet read */
    ELECTION_LEADING,   /* the key is its own */
    ELECTION_RESIGNED   /* it takes no more part */
};
const char *election_state_name(enum election_state state); /* "candidate" */

struct election_config {
    struct etcd etcd;
    struct clock clock;
    const struct keys *keys; /* the caller's; outlives the election */
    struct leader self;      /* what the key will hold */
    uint64_t ttl_s;
    uint64_t ceiling_interval_ms; /* a leader is suspect when the ceiling stood still for three */
    /* Each move, once.  reason is for people. */
    void (*moved)(void *arg, enum election_state from, enum election_state to, const char *reason);
    /* Asks the leader's /livez, and election_livez() is told.  "" when it is not known where. */
    void (*ask_livez)(void *arg, const char *http_address);
    /* A request for the lease or the key failed; err is NULL when one succeeded. */
    void (*trouble)(void *arg, const struct error *err);
    /* A leader was removed, or its removal failed; err is NULL on success. */
    void (*removed)(void *arg, const char *leader_value, const struct error *err);
    void *arg;
};

struct election;
struct election *election_new(const struct election_config *config);
/* Not while a request of its own is outstanding: after the etcd client was closed. */
void election_free(struct election *election);

void election_tick(struct election *election);
/* One event of the keys `leader` or `ceil`, or ETCD_EVENT_RESET; others are ignored. */
void election_event(struct election *election, const struct etcd_event *event);
/* The answer to ask_livez. */
void election_livez(struct election *election, bool alive);
/* A transaction found another value of `leader`: steps down at once and looks. */
void election_doubt(struct election *election);

enum election_state election_state(const struct election *election);
/* May it act?  Checks its deadline by the clock at this moment. */
bool election_leads(const struct election *election);
/* The exact value of `leader` that each act compares. */
const char *election_value(const struct election *election);

/* Deletes the key if it is its own and revokes the lease.  done() runs from the loop when etcd has
 * answered; whoever waits for it sets a limit. */
void election_resign(struct election *election, void (*done)(void *arg), void *arg);

#endif
