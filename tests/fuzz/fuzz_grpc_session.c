/* Frames from anywhere into a gRPC server: after the preface come the input's bytes, in pieces of which
 * the first byte says how long.  The server must neither crash nor leak, and must be rid of the
 * connection when its client is. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/allocate.h"
#include "common/grpc_internal.h"

static void require(int holds) {
    if (!holds)
        abort();
}

static uv_loop_t loop;
static struct grpc_server *server;

static uint8_t *framed(size_t len) {
    return allocate(GRPC_PREFIX_BYTES + len, 1);
}

static void answer(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len) {
    uint8_t sum = 0;

    (void)arg;
    for (size_t i = 0; i < len; i++)
        sum = (uint8_t)(sum + bytes[i]); /* all of it can be read */
    require(grpc_send(call, framed(sum), GRPC_PREFIX_BYTES + sum));
    grpc_finish(call, sum % 17 == 16 ? GRPC_OK : (enum grpc_code)(sum % 17), "why \xc3\xa9", sum);
}

/* Three messages at the client's pace, then the end. */
static void on_sent(void *user) {
    struct grpc_call *call = user;

    grpc_finish(call, GRPC_OK, NULL, GRPC_NO_RETRY);
}

static void stream(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len) {
    (void)arg, (void)bytes, (void)len;
    grpc_call_set(call, call, NULL, on_sent);
    require(grpc_send(call, framed(100), GRPC_PREFIX_BYTES + 100));
}

/* Answered when it is over only. */
static void wait_for_ever(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len) {
    (void)arg, (void)call, (void)bytes, (void)len;
}

static void echo(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len) {
    uint8_t *copy = framed(len);

    (void)arg;
    if (len > 0)
        memcpy(copy + GRPC_PREFIX_BYTES, bytes, len);
    require(grpc_send(call, copy, GRPC_PREFIX_BYTES + len));
}

static void echo_end(void *arg, struct grpc_call *call) {
    (void)arg;
    grpc_finish(call, GRPC_OK, NULL, GRPC_NO_RETRY);
}

static const struct grpc_method methods[] = {
    {.path = "/a", .message = answer},
    {.path = "/s", .message = stream},
    {.path = "/w", .message = wait_for_ever},
    {.path = "/e", .client_streams = true, .message = echo, .half_closed = echo_end},
};

static void start(void) {
    const struct grpc_server_config config = {.max_connections = 8,
                                              .request_timeout_ms = 1000,
                                              .methods = methods,
                                              .n_methods = sizeof methods / sizeof methods[0]};
    struct error err;

    signal(SIGPIPE, SIG_IGN); /* as in a worker: a client may be gone before its answer is */
    uv_loop_init(&loop);
    require(grpc_server_new(&loop, &config, &server, &err) == STATUS_OK);
}

/* Lets the server do what it can, and reads what it says. */
static void turn(int fd) {
    static uint8_t said[65536];

    for (int i = 0; i < 3; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        while (read(fd, said, sizeof said) > 0)
            ;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len) {
    static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    size_t step;
    int fds[2];

    if (len == 0 || len > 65536)
        return 0;
    if (!server)
        start();
    step = bytes[0] ? bytes[0] * 16u : 65536;
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    require(grpc_conn_open(server, GRPC_UNIX, fds[0]));
    require(write(fds[1], hello, sizeof hello - 1) == (ssize_t)sizeof hello - 1);
    for (bytes++, len--; len > 0;) {
        size_t n = len < step ? len : step;
        ssize_t written = send(fds[1], bytes, n, MSG_NOSIGNAL);

        turn(fds[1]);
        if (written <= 0)
            break;
        bytes += written;
        len -= (size_t)written;
    }
    turn(fds[1]);
    close(fds[1]);
    for (int i = 0; i < 10 && server->n_conns > 0; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    uv_run(&loop, UV_RUN_NOWAIT); /* the closed handle's memory */
    require(server->n_conns == 0 && server->busy == 0 && !server->sent);
    require(server->partial_bytes == 0 && server->unread_bytes == 0);
    return 0;
}
