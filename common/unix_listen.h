/* unix_listen.h - a listening socket in the file system. */
#ifndef SNOWFLEET_COMMON_UNIX_LISTEN_H
#define SNOWFLEET_COMMON_UNIX_LISTEN_H

#include "common/status.h"

/* Binds and listens; who may connect the file's mode says, which the umask makes.  A socket that a
 * former process left behind, on which nobody answers, is replaced; anything else at path is refused,
 * and so is a path that is too long.  *fd is the caller's, and so is the file, to be unlinked. */
enum status unix_listen(const char *path, int *fd, struct error *err);

#endif
