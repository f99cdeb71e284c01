#include "common/supervisor.h"

#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

static char last_status[256];
static uint64_t watchdog_us; /* 0: nobody waits for a sign of life */
static uint64_t alive_boot_ms;

void supervisor_ready(void) {
    if (sd_watchdog_enabled(0, &watchdog_us) <= 0)
        watchdog_us = 0;
    sd_notify(0, "READY=1");
}

void supervisor_status(const char *text) {
    if (strncmp(text, last_status, sizeof last_status - 1) == 0)
        return;
    snprintf(last_status, sizeof last_status, "%s", text);
    sd_notifyf(0, "STATUS=%s", last_status);
}

void supervisor_alive(uint64_t boot_ms) {
    if (watchdog_us == 0 || boot_ms - alive_boot_ms < watchdog_us / 1000 / 4)
        return;
    alive_boot_ms = boot_ms;
    sd_notify(0, "WATCHDOG=1");
}

void supervisor_stopping(void) {
    sd_notify(0, "STOPPING=1");
}
