/* lend.h - a serving loop that cannot serve passes a request for IDs on to one that can, so that it does
 * not matter which loop a client's connection happened to come to.
 *
 * The call itself stays the asker's and on its thread; what travels is a stand-in with its count, which
 * the other loop serves like a call of its own and sends back.  All IDs of an answer come from one
 * generation, whoever's.
 *
 * One for each serving loop, on its thread only, but for a lent on its way, which is its receiver's. */
#ifndef SNOWFLEET_WORKER_LEND_H
#define SNOWFLEET_WORKER_LEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/park.h"
#include "worker/view.h"

struct lent; /* on its way from loop to loop */

struct lend_config {
    struct loop_gauges *gauges; /* of all loops; they tell who serves */
    size_t n_loops, self;       /* this loop is gauges[self] */
    struct park *park;          /* this loop's */
    uint64_t max_backward_wait_ms;
    /* Brings it to that loop's lend_arrived(), on that loop's thread. */
    void (*send)(void *arg, size_t loop, struct lent *lent);
    void *arg;
};

struct lend;
struct lend *lend_new(const struct lend_config *config);
/* Nothing that this loop asked for may be outstanding: after lend_end().  NULL is let pass. */
void lend_free(struct lend *lend);

/* Passes a call on that failed here.  False when nobody else serves: the failure stands. */
bool lend_ask(struct lend *lend, struct park_call *call, uint64_t now_ms);
/* A call that was passed on: its client gave up. */
void lend_forget(struct lend *lend, struct park_call *call);
/* One came: to be served, or back. */
void lend_arrived(struct lend *lend, struct lent *lent, uint64_t now_ms);
/* Asks nobody any more, and ends what is outstanding with this failure. */
void lend_end(struct lend *lend, const struct service_error *err);
/* One that nobody received. */
void lent_free(struct lent *lent);

#endif
