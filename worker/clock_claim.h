/* clock_claim.h - [pure] what a machine says of its own clock: by whom, how far off it can be, and
 * whether that can be trusted.
 *
 * A bound that nobody vouches for is unknown, and never 0. */
#ifndef SNOWFLEET_WORKER_CLOCK_CLAIM_H
#define SNOWFLEET_WORKER_CLOCK_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/chrony.h"
#include "common/clock.h"

#define CLOCK_CLAIM_REASON_MAX 160

struct clock_claim {
    const char *source; /* "kernel", "chrony", or "none" when not even the kernel answered */
    const char *daemon; /* who disciplines the clock, as far as that shows; "" unknown */
    bool synchronized;
    bool trusted;         /* max_error_ns is a bound; else it is not known, and 0 here */
    int64_t max_error_ns; /* at boot_ns */
    int64_t boot_ns;
    bool knows_frequency; /* else it is not known, and 0 here */
    int64_t frequency_ppb;
    char reason[CLOCK_CLAIM_REASON_MAX]; /* why not trusted; "" when it is */
};

/* The kernel's word (adjtimex).  NULL: it did not answer.  It holds a bound only when the daemon
 * that disciplines the clock told it one:
 *   chronyd with rtcsync, ntpd   tell the kernel both an estimate and a bound
 *   chronyd without rtcsync      leaves the clock unsynchronised in the kernel's eyes
 *   systemd-timesyncd            tells it that both are 0
 *   phc2sys                      sets the bound back to 0, and never tells an estimate
 * daemon: as found out otherwise, "" for unknown. */
void clock_claim_kernel(struct clock_claim *claim, const struct clock_quality *quality,
                        const char *daemon, int64_t boot_ns);

/* chronyd's own word, asked at boot_ns */
void clock_claim_chrony(struct clock_claim *claim, const struct chrony_tracking *tracking,
                        int64_t boot_ns);

/* What its bound has grown to by then, if the clock drifts by that much at most. */
int64_t clock_claim_error_at(const struct clock_claim *claim, int64_t drift_ppm, int64_t boot_ns);

#endif
