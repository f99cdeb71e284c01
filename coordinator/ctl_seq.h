/* ctl_seq.h - the keys of sequences, for what of snowfleetctl changes them. */
#ifndef SNOWFLEET_COORDINATOR_CTL_SEQ_H
#define SNOWFLEET_COORDINATOR_CTL_SEQ_H

#include "coordinator/ctl_session.h"

struct ctl_seq_change {
    const char *name;
    const char *meta;   /* as it must stand: who freezes or recovers meanwhile stops the change */
    const char *before; /* as it must stand; NULL: no such key, nor any of a sequence that was made
                           after revision, so that those counted then are all there are */
    int64_t revision;
    const char *after;
};

/* Writes the record if all that must stand does; *written says so.  STATUS_UNKNOWN: it may have been
 * written, or still be. */
enum status ctl_seq_write(struct ctl_session *session, const struct ctl_seq_change *change,
                          bool *written, struct error *err);

#endif
