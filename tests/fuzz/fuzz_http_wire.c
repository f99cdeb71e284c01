/* fuzz_http_wire.c - a connection to the HTTP server on which anything may come, cut anywhere: what is
 * answered is well framed, every request handled is one that was answered, and the connection ends.
 *
 * The input: one byte each for how many bytes are sent at a time (0: all at once), then what is sent.  The
 * client then only reads. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/decimal.h"
#include "common/http_server.h"

#define HEADER_BYTES 4096
#define BODY_BYTES 1024
#define ANSWERS_BYTES (1024u * 1024u)
#define TURNS_QUICK                                                                                \
    1000 /* then the server waits for its timers: a request's limit, a second's silence */
#define TURNS_MAX 8000
#define TIMEOUT_MS 50

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uv_loop_t loop;
static struct http_server *server;
static struct sockaddr_un address = {
    .sun_family = AF_UNIX}; /* of no file: its name begins with NUL */
static socklen_t address_len;
static struct http_exchange *parked;
static unsigned handled, heads;
static char answers[ANSWERS_BYTES];

static void reply(struct http_exchange *exchange) {
    size_t len;
    const char *body = http_body(exchange, &len);
    const struct http_response response = {
        .status = 200, .content_type = "text/plain", .body = (char *)body, .body_len = len};

    http_reply(exchange, &response);
}

static void handle(void *arg, struct http_exchange *exchange) {
    struct http_text value;

    (void)arg;
    handled++;
    assert(http_path(exchange) && strlen(http_method(exchange)) > 0);
    http_header(exchange, "Accept");
    if (strcmp(http_method(exchange), "HEAD") == 0)
        heads++;
    if (http_query(exchange, "park", &value)) {
        assert(!parked); /* one connection, one request at a time */
        parked = exchange;
    } else {
        reply(exchange);
    }
}

static void start(void) {
    static const struct http_server_config config = {
        .max_connections = 4,
        .max_body_bytes = BODY_BYTES,
        .max_header_bytes = HEADER_BYTES,
        .request_timeout_ms = TIMEOUT_MS,
        .idle_timeout_ms = TIMEOUT_MS,
        .handle = handle,
    };
    static int fd; /* the listener, for as long as the process lives */
    struct error err;

    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    signal(SIGPIPE, SIG_IGN);
    address_len = sizeof(sa_family_t);
    assert(uv_loop_init(&loop) == 0 && fd >= 0);
    assert(bind(fd, (struct sockaddr *)&address, address_len) == 0 && listen(fd, 4) == 0);
    address_len = sizeof address;
    assert(getsockname(fd, (struct sockaddr *)&address, &address_len) == 0);
    assert(http_server_new(&loop, fd, &config, &server, &err) == STATUS_OK);
}

/* Lets the server go on; a request that waits is answered then. */
static void turn(void) {
    struct http_exchange *exchange = parked;

    uv_run(&loop, UV_RUN_NOWAIT);
    if (exchange && exchange == parked) {
        parked = NULL;
        reply(exchange);
    }
}

/* What has been answered so far; false at the end of the connection. */
static bool receive(int fd, size_t *len) {
    ssize_t n;

    while ((n = recv(fd, answers + *len, ANSWERS_BYTES - *len, MSG_DONTWAIT)) > 0) {
        *len += (size_t)n;
        assert(*len < ANSWERS_BYTES);
    }
    return n < 0 && errno == EAGAIN;
}

static void send_all(int fd, const uint8_t *data, size_t size, size_t piece, size_t *len) {
    while (size > 0) {
        size_t wanted = piece && piece < size ? piece : size;
        ssize_t n = send(fd, data, wanted, MSG_DONTWAIT | MSG_NOSIGNAL);

        turn();
        if (!receive(fd, len) || (n < 0 && errno != EAGAIN))
            return;
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        }
    }
}

/* The length of an answer's header with the empty line; its body follows.  0: it is not whole. */
static size_t read_header(const char *text, size_t len, size_t *body_len, unsigned *status) {
    const char *end = memmem(text, len, "\r\n\r\n", 4);
    const char *field = "\r\nContent-Length: ";
    const char *at = end ? memmem(text, (size_t)(end - text) + 2, field, strlen(field)) : NULL;
    uint64_t value = 0;
    struct error err;

    if (!end)
        return 0;
    assert(len > 12 && memcmp(text, "HTTP/1.", 7) == 0);
    assert(decimal_parse(text + 9, 3, 100, 599, &value, &err) == STATUS_OK);
    *status = (unsigned)value;
    value = 0;
    if (at) {
        const char *digits = at + strlen(field);

        assert(decimal_parse(digits, strcspn(digits, "\r"), 0, ANSWERS_BYTES, &value, &err) ==
               STATUS_OK);
    }
    assert(at || *status == 100);
    *body_len = (size_t)value;
    return (size_t)(end - text) + 4;
}

/* Answer after answer, without a gap: to HEAD there is no body, so those are left alone. */
static void check_answers(size_t len) {
    const char *at = answers, *end = answers + len;
    unsigned good = 0, refused = 0, status = 0;

    if (heads > 0)
        return;
    while (at < end) {
        size_t body_len = 0, header_len = read_header(at, (size_t)(end - at), &body_len, &status);

        if (header_len == 0 || body_len > (size_t)(end - at) - header_len)
            break; /* cut off with the connection */
        at += header_len + body_len;
        good += status == 200 || status == 413;
        refused += status >= 400 && status != 413;
    }
    assert(refused <= 1); /* it ends the connection */
    assert(good <= handled + 1);
}

/* One more turn towards the end of the connection, which has to come. */
static void turn_towards_the_end(unsigned *turns) {
    turn();
    if (++*turns > TURNS_QUICK)
        usleep(1000);
    assert(*turns < TURNS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t len = 0;
    unsigned turns = 0;
    int fd;

    if (!server)
        start();
    if (size == 0)
        return 0;
    handled = heads = 0;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert(fd >= 0 && connect(fd, (struct sockaddr *)&address, address_len) == 0);
    send_all(fd, data + 1, size - 1, data[0], &len);
    shutdown(fd, SHUT_WR);
    while (receive(fd, &len))
        turn_towards_the_end(&turns);
    close(fd);
    while (parked || http_server_busy(server) > 0)
        turn_towards_the_end(&turns);
    check_answers(len);
    return 0;
}
