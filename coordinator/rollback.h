/* rollback.h - notices that etcd's history went back under a leader that lived through it, and freezes
 * the cluster before anything is assigned.
 *
 * The leader acts only shortly after a fence: a transaction by way of the log, which no member answers
 * out of a state of its own, so its revision is never below one that was seen before it was sent,
 * unless history went back.  It reads meta too: one that is gone, or of an era that does not follow
 * ours, says the same.  Then, and until recover has made an era that follows ours, no fence holds. */
#ifndef SNOWFLEET_COORDINATOR_ROLLBACK_H
#define SNOWFLEET_COORDINATOR_ROLLBACK_H

#include <stdbool.h>
#include <stddef.h>

#include "common/clock.h"
#include "common/etcd.h"
#include "common/keys.h"
#include "coordinator/election.h"

struct rollback;

struct rollback_config {
    struct etcd etcd;
    struct clock clock;
    const struct keys *keys; /* these two are the caller's and outlive the requests */
    const struct election *election;
    void (*held)(void *arg); /* a fence held: what waited for it can be done */
    void *arg;
};
struct rollback *rollback_new(const struct rollback_config *config);
/* After the etcd client was closed. */
void rollback_free(struct rollback *rollback);

/* What the watch sees, whoever leads. */
void rollback_events(struct rollback *rollback, const struct etcd_event *events, size_t n);
/* May the leader act now?  If not, a fence is on its way. */
bool rollback_fence(struct rollback *rollback);
/* What happened, for people; "" when nothing did. */
const char *rollback_alarm(const struct rollback *rollback);

#endif
