/* peers.h - asks other workers' clocks whether they agree with the wall clock of this machine.
 *
 * On the control loop's thread only. */
#ifndef SNOWFLEET_WORKER_PEERS_H
#define SNOWFLEET_WORKER_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/etcd.h"
#include "common/http_client.h"
#include "common/keys.h"

#define PEERS_QUORUM 2    /* so many must agree */
#define PEERS_ASKED_MAX 8 /* at most so many are asked in a round, drawn at random */

struct peers;

struct peers_answer {
    const char *failure; /* etcd could not be asked who else there is; else NULL */
    size_t others;       /* workers that are registered, beside this one */
    size_t agree;        /* certainly within the allowed offset, and sure of their own clock */
    size_t differ;       /* certainly further off */
};

struct peers_config {
    struct clock clock; /* the physical one */
    struct etcd etcd;
    struct http_client *client; /* both are closed before the peers are freed */
    const struct keys *keys;
    const char *instance; /* our own */
    uint64_t timeout_ms;  /* of one exchange */
    /* One for each round, from the loop and not from inside peers_ask(). */
    void (*done)(void *arg, const struct peers_answer *answer);
    void *arg;
};

struct peers *peers_new(const struct peers_config *config);
/* NULL is let pass. */
void peers_free(struct peers *peers);

/* Begins a round, unless one is under way. */
void peers_ask(struct peers *peers, uint64_t allowed_ms);

#endif
