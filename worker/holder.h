/* holder.h - carries out what one hold (common/hold.h) decides: its requests to etcd, its orders to
 * the serving loop that issues from its machine ID.
 *
 * On the control loop's thread only. */
#ifndef SNOWFLEET_WORKER_HOLDER_H
#define SNOWFLEET_WORKER_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/clock.h"
#include "common/etcd.h"
#include "common/history.h"
#include "common/hold.h"
#include "worker/serving.h"

struct holder;

struct holder_config {
    uv_loop_t *loop;
    struct clock clock;
    struct etcd etcd;
    struct hold_config hold;
    struct serving *serving; /* outlives the holder */
    struct history *history; /* likewise; each answer is held against it */
    /* Its phase, its limit, what it needs or what it makes of etcd has changed.  Not called from inside holder_...(). */
    void (*changed)(void *arg);
    void *arg;
};

struct holder *holder_new(const struct holder_config *config);
/* After the etcd client is closed. */
void holder_free(struct holder *holder);

void holder_meta(struct holder *holder, const char *value, size_t len);
void holder_ceiling(struct holder *holder, const char *value, size_t len);
/* The wall clock was stepped, or time has passed: looks again what there is to do. */
void holder_kick(struct holder *holder);
/* Is it looking for a slot that nobody offered yet? */
bool holder_seeking(const struct holder *holder);
/* hold_offer(); only while it is seeking. */
enum status holder_offer(struct holder *holder, uint16_t machine_id, const char *hor_value,
                         size_t len, struct error *err);
void holder_give_up(struct holder *holder, uint16_t machine_id, const char *claim);
void holder_release(struct holder *holder);
/* The serving loop has closed its generation. */
void holder_closed(struct holder *holder, uint64_t last_ms);

/* Released, and its lease revoked: nothing of it is left in etcd. */
bool holder_gone(const struct holder *holder);

void holder_look(const struct holder *holder, struct hold_view *view);
const struct error *holder_error(const struct holder *holder);

#endif
