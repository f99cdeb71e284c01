/* daemon_main.h - how both daemons begin and end: options, --help, --version, the log's first lines,
 * the exit code. */
#ifndef SNOWFLEET_COMMON_DAEMON_MAIN_H
#define SNOWFLEET_COMMON_DAEMON_MAIN_H

#include "common/options.h"
#include "common/status.h"

struct daemon_main {
    const struct option_set *options;
    void *values; /* zeroed; begins with struct shared_options (etcd_options.h) */
    /* What no single option's range can say; also makes what run() needs.  STATUS_INVALID is the
     * user's mistake. */
    enum status (*check)(void *values, struct error *err);
    /* Runs until it is told to stop.  The log is open, SIGPIPE and SIGXFSZ are ignored, and the
     * soft limit of descriptors is as high as the hard one. */
    enum status (*run)(void *values, struct error *err);
};

/* Once nobody watches for SIGTERM and SIGINT any more: they are ignored from now on.  Whoever sends
 * one twice does not cut short what is left to be closed, nor change the exit code. */
void daemon_ends(void);

/* The exit code: 0, 1 when run() failed, 64 for wrong options; the reason stands on stderr. */
int daemon_main(const struct daemon_main *daemon, int argc, char **argv);

#endif
