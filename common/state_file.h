/* state_file.h - a record (state_record.h) kept on disk so that it survives a crash at any moment.
 *
 * Every write puts the record into both blocks of a preallocated file with O_DSYNC, one after the
 * other, the one that was believed last: a torn write can spoil only one of them.  The file is
 * locked (flock) as long as it is open, and before each write the path is checked to be still this
 * very file.
 *
 * Messages begin with the path and end with what to do about it.  Not thread-safe: one user at a
 * time. */
#ifndef SNOWFLEET_COMMON_STATE_FILE_H
#define SNOWFLEET_COMMON_STATE_FILE_H

#include "common/state_record.h"
#include "common/status.h"

struct state_file;

/* Makes a file that was not there, with *record (whose sequence is set) in it, and syncs file and
 * folder.  On failure nothing of it is left, but where it was cut short by a crash.
 *   STATUS_EXISTS  there is something by that name
 *   STATUS_SYSTEM  it cannot be made: no space, no right, no such folder */
enum status state_file_create(const char *path, struct state_record *record,
                              struct state_file **file, struct error *err);

/* Opens a file and reads what it holds.
 *   STATUS_NOT_FOUND    there is none
 *   STATUS_UNAVAILABLE  somebody else has it open
 *   STATUS_PROTOCOL     neither record is valid
 *   STATUS_REFUSED      written by a newer program
 *   STATUS_INVALID      not a file at all
 *   STATUS_SYSTEM       it cannot be opened, read or given its full size */
enum status state_file_open(const char *path, struct state_file **file, struct state_record *record,
                            struct error *err);

/* Writes *record, whose sequence is set, into both blocks, and waits for the disk.  After any
 * failure (STATUS_SYSTEM, or STATUS_REFUSED when the path is not this file any more) nothing is
 * known of the record: whoever rests on it must not write again. */
enum status state_file_write(struct state_file *file, struct state_record *record,
                             struct error *err);

const char *state_file_path(const struct state_file *file);
/* Unlocks.  NULL is let pass. */
void state_file_close(struct state_file *file);

/* What this machine calls itself: "machine-id:" and the text of STATE_MACHINE_ID_FILE, which stays
 * the same for an installation; or "hostname:" and the host name where there is no such file, as in
 * most containers. */
#define STATE_MACHINE_ID_FILE "/etc/machine-id"
enum status state_host(const char *machine_id_file, char out[static STATE_HOST_MAX + 1],
                       struct error *err);

#endif
