/* slow_end.c - preloaded into a program: from its first curl_multi_cleanup() on, each setting of a
 * timer takes $SLOW_END_MS, or 2200 ms.  So whatever is still due when a program closes its clients
 * comes due between one close and the next, which on an idle machine takes microseconds. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

static _Thread_local bool ending; /* of the thread that closed a client, and of no other */

static void *next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);

    if (!found)
        _exit(70);
    return found;
}

int curl_multi_cleanup(void *multi); /* of libcurl, without its macros */
int curl_multi_cleanup(void *multi) {
    int (*real)(void *);

    *(void **)&real = next("curl_multi_cleanup");
    ending = true;
    return real(multi);
}

int uv_timer_start(uv_timer_t *timer, uv_timer_cb call, uint64_t timeout_ms, uint64_t repeat_ms) {
    const char *text = getenv("SLOW_END_MS");
    long ms = text ? strtol(text, NULL, 10) : 2200;
    const struct timespec slow = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    int (*real)(uv_timer_t *, uv_timer_cb, uint64_t, uint64_t);

    *(void **)&real = next("uv_timer_start");
    if (ending)
        nanosleep(&slow, NULL);
    return real(timer, call, timeout_ms, repeat_ms);
}
