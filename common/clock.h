/* clock.h - time is a value.
 *
 * The clock is read once per event, at the edge, and handed down.  clock.c alone asks the kernel.
 * The wall clock (CLOCK_REALTIME) dates IDs and may jump; the boot-time clock (CLOCK_BOOTTIME)
 * never jumps and runs on through a suspend, so every deadline is on it. */
#ifndef SNOWFLEET_COMMON_CLOCK_H
#define SNOWFLEET_COMMON_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

/* One reading of both clocks.  Before 1970 the wall clock counts as 0, which every user refuses as
 * being before the epoch. */
struct instant {
    uint64_t wall_ms; /* milliseconds since the Unix epoch */
    uint64_t boot_ms; /* milliseconds since boot */
};

/* The same for measuring: probes and step detection need more than milliseconds. */
struct instant_ns {
    int64_t wall_ns;
    int64_t boot_ns;
};

struct clock_quality {
    bool synchronized;    /* STA_UNSYNC is not set */
    int64_t max_error_ns; /* the kernel's bound; grows while nothing disciplines the clock */
    int64_t est_error_ns; /* what the kernel was told of the error's size */
    int64_t frequency_ppb;
};

struct clock {
    struct instant_ns (*now_ns)(void *self);
    /* The kernel's CLOCK_REALTIME in ns at which this clock's wall time will read wall_ns, if it
     * goes on as it does: what to arm an absolute timer with. */
    int64_t (*timer_ns)(void *self, int64_t wall_ns);
    void *self;
    /* Of a physical clock; NULL in others.  clock_quality(), clock_set_open() and clock_set_read(). */
    enum status (*quality)(void *self, struct clock_quality *quality, struct error *err);
    enum status (*set_open)(void *self, int *fd, struct error *err);
    bool (*set_read)(void *self, int fd);
};

/* The machine's own clocks.  Thread-safe. */
struct clock clock_system(void);

struct instant clock_now(const struct clock *clock);
struct instant_ns clock_now_ns(const struct clock *clock);

/* What the kernel says of a physical clock (adjtimex, read only).  Thread-safe. */
enum status clock_quality(const struct clock *clock, struct clock_quality *quality,
                          struct error *err);

/* A descriptor, the caller's to close, that becomes readable when somebody sets a physical clock.
 * clock_set_read() takes that off it, and says whether it was so. */
enum status clock_set_open(const struct clock *clock, int *fd, struct error *err);
bool clock_set_read(const struct clock *clock, int fd);

/* Steps, told from the change of wall minus boot time.  A slew moves that difference by at most
 * 0.1 % of the time passed (and the reading itself by some microseconds): what goes beyond it is a
 * step. */
struct clock_watch {
    bool started;
    struct instant_ns last;
};
/* Returns the step since the last look in ns, positive forward, or 0 for none (the first look, or
 * below 1 ms plus what a slew explains). */
int64_t clock_watch_step(struct clock_watch *watch, struct instant_ns now);

#ifdef SNOWFLEET_TEST_CLOCK
/* For tests: a clock bent by a mapped page that another process writes.
 *   wall = real wall + wall_offset_ns + (real boot - anchor_boot_ns) * rate_ppm / 1e6
 *   boot = real boot + boot_offset_ns
 * The file holds struct clock_page in the machine's byte order; sequence is odd while the page is
 * being written, and a reader tries again until it sees the same even number before and after. */
struct clock_page {
    uint64_t sequence;
    int64_t wall_offset_ns;
    int64_t boot_offset_ns;
    int64_t anchor_boot_ns;
    int64_t rate_ppm;
    /* What clock_quality() says, when quality_given is not 0; else the kernel is asked.  A file that
     * ends before these has them as 0. */
    int64_t quality_given;
    int64_t synchronized;
    int64_t max_error_ns;
    int64_t est_error_ns;
};
/* Maps path, which must exist and hold a page, and watches it for writes.  Both last as long as the
 * process. */
enum status clock_test_page(const char *path, struct clock *clock, struct error *err);
#endif

#endif
