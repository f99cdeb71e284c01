/* ctl_order.h - orders to a worker, in assign/<instance>. */
#ifndef SNOWFLEET_COORDINATOR_CTL_ORDER_H
#define SNOWFLEET_COORDINATOR_CTL_ORDER_H

#include "common/records.h"
#include "coordinator/ctl_session.h"

/* The registered worker of that identity or instance, in what was last read.  NULL, and a failure,
 * when there is none, or when several have that identity: then their instances are named. */
const struct member *ctl_find_worker(const struct ctl_session *session, const char *name,
                                     struct error *err);

/* Adds an order to *assign; false when it is there already. */
typedef bool ctl_order_fn(void *arg, struct assign *assign);

enum ctl_ordered {
    CTL_ORDERED,
    CTL_ORDERED_BEFORE, /* the order stood there already */
    CTL_ORDERED_NOBODY  /* the worker is gone, and so is whoever could read it */
};

/* Reads, adds the order and writes it, guarded by the exact old value and under the instance's own
 * lease, and again when somebody else came between. */
enum status ctl_order(struct ctl_session *session, const char *instance, ctl_order_fn *add,
                      void *arg, enum ctl_ordered *ordered, struct error *err);

#endif
