/* ctl_meta.h - how snowfleetctl changes meta: by its exact old value, with the serial raised. */
#ifndef SNOWFLEET_COORDINATOR_CTL_META_H
#define SNOWFLEET_COORDINATOR_CTL_META_H

#include <stdbool.h>

#include "common/etcd.h"
#include "common/records.h"
#include "coordinator/ctl_session.h"

/* Edits *meta, which is as etcd holds it; session->cluster is what was read with it.  May write what
 * has to be there before, and set the change's guards to what else must hold when meta is written.
 *   STATUS_OK      write it
 *   STATUS_EXISTS  it is as it should be: leave it
 *   STATUS_UNKNOWN something changed meanwhile: read and ask again
 *   any other      refused, or failed; err says why */
typedef enum status ctl_meta_fn(void *arg, struct ctl_session *session, struct meta *meta,
                                struct error *err);

struct ctl_meta_change {
    ctl_meta_fn *edit;
    void *arg;
    /* What else is compared; edit() may set them. */
    const struct etcd_compare *guards;
    size_t n_guards;
};

/* Reads, edits, writes, and again when somebody else came between.  *written is false when there was
 * nothing to do.  Afterwards session->cluster->meta is as it was last read or written. */
enum status ctl_meta_change(struct ctl_session *session, struct ctl_meta_change *change,
                            bool *written, struct error *err);

/* Was it frozen because etcd's history went back, and not recovered since? */
bool ctl_meta_rolled_back(const struct meta *meta);

/* Marks the machine IDs of a list such as "0,7,100-199" as reserved in *meta, beside those that are.
 * Fails also when none of the range is left. */
enum status ctl_meta_reserve(struct meta *meta, const char *list, struct error *err);

#endif
