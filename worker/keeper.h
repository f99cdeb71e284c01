/* keeper.h - carries out what standalone.h decides: its writes to the state file, its orders to the
 * serving loop that issues from the machine ID.  What worker/holder.h is for a fleet.
 *
 * On the control loop's thread only, which waits for the disk with every write; the serving loop
 * goes on meanwhile, up to its limit. */
#ifndef SNOWFLEET_WORKER_KEEPER_H
#define SNOWFLEET_WORKER_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/clock.h"
#include "common/hold.h"
#include "common/state_file.h"
#include "worker/serving.h"

struct keeper;

struct keeper_config {
    uv_loop_t *loop;
    struct clock clock;
    struct state_file *file;           /* outlives the keeper */
    const struct state_record *record; /* as the file has it; copied */
    const char *host;                  /* who writes from now on; copied */
    uint16_t machine_id;
    uint64_t window_ms;
    struct serving *serving; /* outlives the keeper */
    /* Neither is called from inside keeper_...(). */
    void (*changed)(void *arg);
    /* A write failed: no horizon will be written any more.  What is installed may issue up to its
     * limit.  Called once. */
    void (*failed)(void *arg, const struct error *err);
    void *arg;
};

struct keeper *keeper_new(const struct keeper_config *config);
/* NULL is let pass. */
void keeper_free(struct keeper *keeper);

/* The wall clock was stepped: looks again what there is to do. */
void keeper_kick(struct keeper *keeper);
void keeper_release(struct keeper *keeper);
/* The serving loop has closed its generation. */
void keeper_closed(struct keeper *keeper, uint64_t last_ms);
/* Will it write nothing any more? */
bool keeper_gone(const struct keeper *keeper);

void keeper_look(const struct keeper *keeper, struct hold_view *view);

#endif
