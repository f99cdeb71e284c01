/* acceptor.h - takes new connections off a listening socket, up to a limit.
 *
 * Above the limit a client gets a fixed answer instead of hanging in the backlog.  When the process
 * is out of descriptors, accepting pauses instead of spinning on a socket that stays readable.
 * Several loops may accept from one socket. */
#ifndef SNOWFLEET_COMMON_ACCEPTOR_H
#define SNOWFLEET_COMMON_ACCEPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "common/status.h"

struct acceptor_config {
    int listen_fd; /* stays the caller's */
    /* Takes fd over (non-blocking, close-on-exec); false when there is no room for it, and then fd
     * is refused and closed here. */
    bool (*take)(void *arg, int fd, const struct sockaddr *from, socklen_t from_len);
    void (*taken)(void *arg); /* after one or more connections; may be NULL */
    void *arg;
    const char *refusal; /* sent to those for whom there is no room; NULL: nothing */
};

struct acceptor {
    struct acceptor_config config;
    uv_poll_t poll;
    uv_timer_t pause;
    bool opened;
    uint64_t refused_total;
    uint64_t failures_total; /* no descriptors or memory left: tried again after 100 ms */
    void (*closed)(void *arg);
};

/* Begins to accept.  On failure there is nothing to close. */
enum status acceptor_init(struct acceptor *acceptor, uv_loop_t *loop,
                          const struct acceptor_config *config, struct error *err);
/* No more connections. */
void acceptor_stop(struct acceptor *acceptor);
/* closed() runs with config.arg, from the loop, when the struct may go. */
void acceptor_close(struct acceptor *acceptor, void (*closed)(void *arg));

#endif
