/* sim_node.h - one simulated worker process: a real hold on its control thread, a real service on
 * its serving thread, and orders on their way between the two. */
#ifndef SNOWFLEET_TESTS_SIM_NODE_H
#define SNOWFLEET_TESTS_SIM_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/effective_clock.h"
#include "common/hold.h"
#include "common/keys.h"
#include "tests/scenario/oracle.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_etcd.h"
#include "tests/support/fake_world.h"
#include "worker/service.h"

/* What the nodes of one schedule share. */
struct sim_stage {
    struct fake_world world;
    struct fake_etcd *etcd;
    struct keys keys;
    struct oracle *oracle;
    struct fake_link link;
    FILE *trace; /* NULL: none */
    /* The settings of every worker. */
    struct hold_config config;
    enum snowflake_start start;
    uint64_t max_backward_wait_ms;
    struct effective_limits clock_limits;
    bool certain;       /* every node knows that its clock has no error */
    unsigned confirmed; /* of a thousand: a step is confirmed, sooner or later */
    uint16_t first_machine_id, last_machine_id;
    /* Chances, of a thousand. */
    unsigned slow_order; /* an order stays under way for long */
    unsigned burst;      /* a request that uses up milliseconds */
    unsigned any_offer;  /* a slot is offered without a look at own/ */
    uint64_t slow_order_us;
    uint64_t request_every_us; /* 0: nobody asks for IDs */
};

struct sim_order {
    enum hold_act_kind kind;
    struct hold_install install;
    char claim[HOLD_CLAIM_CHARS + 1];
    uint64_t limit_ms;
};

#define SIM_PARKED_MAX 3 /* requests that can be under way at a node */
struct sim_request {
    bool active;
    unsigned tries;
    struct service_ids ids;
};

struct sim_node {
    struct sim_stage *stage;
    unsigned index;
    bool alive;
    uint64_t life;  /* counts its processes: an event of an earlier one no longer concerns it */
    size_t process; /* at the oracle */
    uint64_t paused_until_us;
    struct fake_clock clock;
    struct effective_clock effective; /* made of it, as the control thread last looked */

    /* The control thread. */
    struct own self;
    struct fake_etcd_client *client;
    struct etcd etcd;
    struct hold *hold;
    uint64_t wake_us;
    bool seeking;            /* a search for an offer is under way */
    uint64_t closed_last_ms; /* on its way back from the serving thread */

    /* The serving thread. */
    struct service service;
    struct sim_order *orders; /* on their way, the oldest first */
    size_t n_orders, orders_room;
    uint64_t last_order_us; /* when the newest arrives: they come in order */
    struct sim_request requests[SIM_PARKED_MAX];
    uint64_t served_total; /* requests answered since the process started */

    /* Of all its processes that have ended. */
    uint64_t lost_total, unknown_total, resumes_total;
};

/* The clock is the caller's to set first. */
void sim_node_start(struct sim_node *node, struct sim_stage *stage, unsigned index);
void sim_node_kill(struct sim_node *node);
/* Stopped until then; its clocks go on and what happens meanwhile waits. */
void sim_node_pause(struct sim_node *node, uint64_t until_us);
/* SIGTERM. */
void sim_node_release(struct sim_node *node);
/* Something happened to its clock: a step is an event of its own. */
void sim_node_clock_changed(struct sim_node *node);
/* An operator says that its clock is right. */
void sim_node_accept_clock(struct sim_node *node);

/* Tells the oracle of every limit that the serving loop can use, now or after the orders that are
 * on their way. */
void sim_node_live_limits(const struct sim_node *node);
void sim_node_look(const struct sim_node *node, struct hold_view *view);

void __attribute__((format(printf, 3, 4)))
sim_trace(const struct sim_stage *stage, const struct sim_node *node, const char *format, ...);

#endif
