/* time_daemon.h - who keeps this machine's clock: asks chronyd, and looks for others.
 *
 * On the control loop's thread only. */
#ifndef SNOWFLEET_WORKER_TIME_DAEMON_H
#define SNOWFLEET_WORKER_TIME_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/chrony.h"
#include "common/clock.h"
#include "common/status.h"

struct time_daemon;

/* port: chronyd's command port on 127.0.0.1; 0: it is not asked.  clock: the physical one. */
enum status time_daemon_new(uv_loop_t *loop, const struct clock *clock, uint16_t port,
                            struct time_daemon **daemon, struct error *err);
/* From the loop.  NULL is let pass. */
void time_daemon_close(struct time_daemon *daemon);

/* Asks when it is time to, or at once after a step; to be called now and then. */
void time_daemon_tick(struct time_daemon *daemon, bool at_once);

/* What chronyd said last, and when (boot time); false: nothing within the last ten seconds. */
bool time_daemon_chrony(const struct time_daemon *daemon, struct chrony_tracking *tracking,
                        int64_t *boot_ns);
/* "systemd-timesyncd" or "ntpd" when it left its mark under /run; "" else. */
const char *time_daemon_other(const struct time_daemon *daemon);

#endif
