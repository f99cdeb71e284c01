/* supervisor.h - what systemd is told of a daemon: that it has started, what it is at, that it is
 * alive, that it is stopping.  Without systemd ($NOTIFY_SOCKET is not set) nothing happens.
 *
 * Source: sd_notify(3), sd_watchdog_enabled(3).  For the control thread only. */
#ifndef SNOWFLEET_COMMON_SUPERVISOR_H
#define SNOWFLEET_COMMON_SUPERVISOR_H

#include <stdint.h>

/* It listens.  Whether it has a machine ID is another matter, and etcd's: /readyz says that. */
void supervisor_ready(void);

/* What `systemctl status` shows; told when it differs from the last one. */
void supervisor_status(const char *text);

/* To be called for as long as its own loops turn, more often than twice in WatchdogSec=; sends no
 * more than that needs. */
void supervisor_alive(uint64_t boot_ms);

void supervisor_stopping(void);

#endif
