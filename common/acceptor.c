#include "common/acceptor.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define BATCH 8 /* so that loops that share a socket share its connections */
#define PAUSE_MS 100

static void on_acceptable(uv_poll_t *poll, int status, int events);

static void on_pause_over(uv_timer_t *timer) {
    struct acceptor *acceptor = timer->data;

    uv_poll_start(&acceptor->poll, UV_READABLE, on_acceptable);
}

static void refuse(struct acceptor *acceptor, int fd) {
    const char *refusal = acceptor->config.refusal;
    char request[1024];

    if (refusal) {
        (void)!send(fd, refusal, strlen(refusal), MSG_NOSIGNAL | MSG_DONTWAIT);
        shutdown(fd, SHUT_WR);
        /* Closing with unread bytes would reset the connection, and the answer might be lost. */
        (void)!recv(fd, request, sizeof request, MSG_DONTWAIT);
    }
    close(fd);
    acceptor->refused_total++;
}

/* Returns false when there is nothing more to accept now. */
static bool accept_one(struct acceptor *acceptor) {
    struct sockaddr_storage from;
    socklen_t from_len = sizeof from;
    int fd = accept4(acceptor->config.listen_fd, (struct sockaddr *)&from, &from_len,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd >= 0) {
        if (!acceptor->config.take(acceptor->config.arg, fd, (struct sockaddr *)&from, from_len))
            refuse(acceptor, fd);
        return true;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        acceptor->failures_total++;
        uv_poll_stop(&acceptor->poll);
        uv_timer_start(&acceptor->pause, on_pause_over, PAUSE_MS, 0);
        return false;
    }
    /* Any other failure is of the one connection that was to be accepted. */
    return errno != EAGAIN;
}

static void on_acceptable(uv_poll_t *poll, int status, int events) {
    struct acceptor *acceptor = poll->data;

    (void)status;
    (void)events;
    for (int i = 0; i < BATCH && accept_one(acceptor); i++)
        ;
    if (acceptor->config.taken)
        acceptor->config.taken(acceptor->config.arg);
}

enum status acceptor_init(struct acceptor *acceptor, uv_loop_t *loop,
                          const struct acceptor_config *config, struct error *err) {
    int code;

    *acceptor = (struct acceptor){.config = *config};
    code = uv_poll_init(loop, &acceptor->poll, config->listen_fd);
    if (code != 0)
        return error_set(err, STATUS_SYSTEM, "listening socket: %s", uv_strerror(code));
    uv_timer_init(loop, &acceptor->pause);
    acceptor->poll.data = acceptor->pause.data = acceptor;
    acceptor->opened = true;
    uv_poll_start(&acceptor->poll, UV_READABLE, on_acceptable);
    return STATUS_OK;
}

void acceptor_stop(struct acceptor *acceptor) {
    if (!acceptor->opened)
        return;
    uv_poll_stop(&acceptor->poll);
    uv_timer_stop(&acceptor->pause);
}

static void on_pause_closed(uv_handle_t *handle) {
    struct acceptor *acceptor = handle->data;

    acceptor->closed(acceptor->config.arg);
}

static void on_poll_closed(uv_handle_t *handle) {
    struct acceptor *acceptor = handle->data;

    uv_close((uv_handle_t *)&acceptor->pause, on_pause_closed);
}

void acceptor_close(struct acceptor *acceptor, void (*closed)(void *arg)) {
    acceptor->closed = closed;
    uv_close((uv_handle_t *)&acceptor->poll, on_poll_closed);
}
