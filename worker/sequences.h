/* sequences.h - the sequences that a worker process gives values of: one table for all its serving loops and
 * transports.
 *
 * Serving threads take values, the control thread asks etcd for more; a mutex guards what they share.  A
 * sequence enters the table when somebody asks for it, and leaves it when etcd has none of that name. */
#ifndef SNOWFLEET_WORKER_SEQUENCES_H
#define SNOWFLEET_WORKER_SEQUENCES_H

#include <stddef.h>
#include <uv.h>

#include "common/clock.h"
#include "common/etcd.h"
#include "common/history.h"
#include "common/keys.h"
#include "worker/dispenser.h"
#include "worker/service.h"

/* Names that etcd was not asked for yet, at a time: whoever invents names must not load etcd. */
#define SEQUENCES_UNKNOWN_MAX 64u

struct sequences;

struct sequences_config {
    uv_loop_t *loop; /* the control thread's */
    struct clock clock;
    struct etcd etcd;
    const struct keys *keys;
    struct history *history; /* each answer is held against it */
    uint64_t retry_min_ms, retry_max_ms;
    /* Callers that were told to wait may ask again.  On the control thread. */
    void (*changed)(void *arg);
    /* A transaction read meta; value NULL: the key is gone. */
    void (*meta_read)(void *arg, const char *value, size_t len);
    void *arg;
};

struct sequences *sequences_new(const struct sequences_config *config);
/* Closes what it has on the loop; from then on only what is held is given.  NULL is let pass. */
void sequences_end(struct sequences *sequences);
/* After the loop has ended and all serving threads have stopped.  NULL is let pass. */
void sequences_free(struct sequences *sequences);

/* Takes ids->want values of ids->sequence, as dispenser_take().  From any thread. */
enum service_outcome sequences_take(void *sequences, struct service_ids *ids,
                                    struct service_error *err);

/* What etcd shows; on the control thread.  value NULL: the key is gone. */
void sequences_meta(struct sequences *sequences, const char *value, size_t len);
void sequences_seen(struct sequences *sequences, const char *key, const char *value, size_t len);
/* The watch began again: what it has not shown since may have gone. */
void sequences_doubt(struct sequences *sequences);
/* The history is trusted again, or not any more. */
void sequences_kick(struct sequences *sequences);

/* All of them, in order of their names; *views is the caller's to free.  From any thread. */
size_t sequences_look(struct sequences *sequences, struct dispenser_view **views);

#endif
