/* ctl_windows.h - the windows of a machine ID, exactly, as far as etcd's history goes back.
 *
 * ctl_history.h tells people about times; here it is what a claim found (the horizon before it) and
 * what it left that counts. */
#ifndef SNOWFLEET_COORDINATOR_CTL_WINDOWS_H
#define SNOWFLEET_COORDINATOR_CTL_WINDOWS_H

#include <stdint.h>

#include "coordinator/audit.h"
#include "coordinator/ctl_session.h"

/* The revisions of the store that can be read. */
struct ctl_revisions {
    int64_t oldest, newest;
};
/* Looks for the oldest; 1 when nothing was compacted. */
enum status ctl_revisions(struct ctl_session *session, struct ctl_revisions *revisions,
                          struct error *err);

/* Fills *history, empty before, with the windows up to revisions->newest, back to the one in which
 * first_ms lies or to the oldest revision; closes it.  When etcd is compacted meanwhile, it goes back
 * less far. */
enum status ctl_windows(struct ctl_session *session, const struct ctl_revisions *revisions,
                        uint16_t machine_id, uint64_t first_ms, struct audit_history *history,
                        struct error *err);

#endif
