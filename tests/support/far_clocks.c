/* far_clocks.c - many clocks behind slow paths, in one process that is quick enough for a thousand:
 * what /v1/clock of that many workers would say, each on a port of its own.
 *
 *   far_clocks CLOCKS ROUND_TRIP_MS
 *
 * Prints one line for each, its address, and an empty line, and answers until it is killed.  A new
 * connection costs a round trip more, as it would on a path like that.  All on loopback. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "common/allocate.h"
#include "common/clock.h"

#define CLOCKS_MAX 4096
#define ROUND_TRIP_MAX_MS 10000
#define BACKLOG 16

struct connection {
    uv_tcp_t tcp;
    uv_timer_t timer;
    unsigned handles; /* not closed yet */
    bool connected;   /* the time for that has passed */
    bool answering;   /* the answer is on its way back */
    unsigned seen;    /* of the end of a head */
    char input[4096], answer[512];
};

static uint64_t round_trip_ms;

static void on_closed(uv_handle_t *handle) {
    struct connection *connection = handle->data;

    if (--connection->handles == 0)
        free(connection);
}

static void end(struct connection *connection) {
    if (uv_is_closing((uv_handle_t *)&connection->tcp))
        return;
    uv_close((uv_handle_t *)&connection->tcp, on_closed);
    uv_close((uv_handle_t *)&connection->timer, on_closed);
}

static void compose(struct connection *connection) {
    const struct clock clock = clock_system();
    struct instant_ns now = clock_now_ns(&clock);
    char body[256];
    int len = snprintf(body, sizeof body,
                       "{\"receive_ns\":\"%" PRId64 "\",\"transmit_ns\":\"%" PRId64
                       "\",\"boot_ns\":\"%" PRId64 "\",\"max_error_ns\":null,"
                       "\"synchronized\":true,\"frequency_ppb\":0}",
                       now.wall_ns, now.wall_ns, now.boot_ns);

    snprintf(connection->answer, sizeof connection->answer,
             "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
             len, body);
}

static void on_timer(uv_timer_t *timer);

/* At least that long: the loop's time may be old, and is in whole milliseconds. */
static void wait_for(uv_timer_t *timer, uint64_t ms) {
    uv_update_time(timer->loop);
    uv_timer_start(timer, on_timer, ms > 0 ? ms + 1 : 0, 0);
}

/* The question has arrived, and later the answer. */
static void on_timer(uv_timer_t *timer) {
    struct connection *connection = timer->data;
    uv_buf_t buffer;

    if (!connection->answering) {
        compose(connection);
        connection->answering = true;
        wait_for(timer, round_trip_ms - round_trip_ms / 2);
        return;
    }
    connection->answering = false;
    buffer = uv_buf_init(connection->answer, (unsigned)strlen(connection->answer));
    if (uv_try_write((uv_stream_t *)&connection->tcp, &buffer, 1) != (int)buffer.len)
        end(connection);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buffer) {
    struct connection *connection = handle->data;

    (void)size;
    *buffer = uv_buf_init(connection->input, sizeof connection->input);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
    static const char head_end[] = "\r\n\r\n";
    struct connection *connection = stream->data;

    if (n < 0)
        end(connection);
    for (ssize_t i = 0; i < n; i++) {
        if (buffer->base[i] == head_end[connection->seen])
            connection->seen++;
        else
            connection->seen = buffer->base[i] == '\r';
        if (connection->seen < 4)
            continue;
        connection->seen = 0;
        wait_for(&connection->timer,
                 round_trip_ms / 2 + (connection->connected ? 0 : round_trip_ms));
        connection->connected = true;
    }
}

static void on_connection(uv_stream_t *listener, int status) {
    struct connection *connection = allocate(1, sizeof *connection);

    connection->handles = 2;
    connection->tcp.data = connection->timer.data = connection;
    uv_tcp_init(listener->loop, &connection->tcp);
    uv_timer_init(listener->loop, &connection->timer);
    if (status != 0 || uv_accept(listener, (uv_stream_t *)&connection->tcp) != 0) {
        end(connection);
        return;
    }
    uv_tcp_nodelay(&connection->tcp, 1);
    uv_read_start((uv_stream_t *)&connection->tcp, on_alloc, on_read);
}

static bool listen_on(uv_loop_t *loop, uv_tcp_t *listener) {
    struct sockaddr_in address;
    int size = sizeof address;

    uv_ip4_addr("127.0.0.1", 0, &address);
    uv_tcp_init(loop, listener);
    if (uv_tcp_bind(listener, (struct sockaddr *)&address, 0) != 0 ||
        uv_listen((uv_stream_t *)listener, BACKLOG, on_connection) != 0 ||
        uv_tcp_getsockname(listener, (struct sockaddr *)&address, &size) != 0)
        return false;
    printf("127.0.0.1:%d\n", ntohs(address.sin_port));
    return true;
}

static bool read_number(const char *text, unsigned long max, unsigned long *number) {
    char *stop;

    *number = strtoul(text, &stop, 10);
    return *text >= '0' && *text <= '9' && !*stop && *number <= max;
}

int main(int argc, char **argv) {
    uv_loop_t *loop = uv_default_loop();
    unsigned long n, delay_ms;
    uv_tcp_t *listeners;

    if (argc != 3 || !read_number(argv[1], CLOCKS_MAX, &n) ||
        !read_number(argv[2], ROUND_TRIP_MAX_MS, &delay_ms)) {
        fprintf(stderr, "usage: far_clocks CLOCKS (0..%d) ROUND_TRIP_MS (0..%d)\n", CLOCKS_MAX,
                ROUND_TRIP_MAX_MS);
        return 64;
    }
    signal(SIGPIPE, SIG_IGN);
    round_trip_ms = delay_ms;
    listeners = allocate(n + 1, sizeof *listeners);
    for (unsigned long i = 0; i < n; i++) {
        if (!listen_on(loop, &listeners[i])) {
            fprintf(stderr, "far_clocks: cannot listen: clock %lu\n", i);
            return 1;
        }
    }
    puts("");
    fflush(stdout);
    uv_run(loop, UV_RUN_DEFAULT);
    return 1;
}
