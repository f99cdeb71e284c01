/* ctl_progress.h - a progress bar on stderr, when that is a terminal; else nothing is shown. */
#ifndef SNOWFLEET_COORDINATOR_CTL_PROGRESS_H
#define SNOWFLEET_COORDINATOR_CTL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"

struct progress {
    struct clock clock;
    bool shown; /* stderr is a terminal */
    const char *what;
    uint64_t total; /* 0: nobody knows, so there is no bar */
    uint64_t begun_boot_ms, drawn_boot_ms;
};
void progress_init(struct progress *progress);
/* A new bar for another part of the work. */
void progress_begin(struct progress *progress, const char *what, uint64_t total);
/* done of total, and how many lines that were.  Cheap, but reads the clock. */
void progress_show(struct progress *progress, uint64_t done, uint64_t lines);
/* Wipes the bar, so that the line is free. */
void progress_end(struct progress *progress);

#endif
