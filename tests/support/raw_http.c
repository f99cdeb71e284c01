#include "tests/support/raw_http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/allocate.h"

uint64_t raw_now_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void raw_open(struct raw *raw, unsigned port) {
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
    };
    const int on = 1;

    *raw = (struct raw){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (raw->fd < 0 || connect(raw->fd, (struct sockaddr *)&to, sizeof to) != 0) {
        perror("raw_open");
        abort();
    }
    setsockopt(raw->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void raw_close(struct raw *raw, bool reset) {
    const struct linger now = {.l_onoff = 1, .l_linger = 0};

    if (reset)
        setsockopt(raw->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(raw->fd);
    free(raw->bytes);
    *raw = (struct raw){.fd = -1};
}

bool raw_send(struct raw *raw, const char *bytes, size_t len) {
    while (len > 0) {
        ssize_t sent = send(raw->fd, bytes, len, MSG_NOSIGNAL);

        if (sent < 0)
            return false;
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

bool raw_print(struct raw *raw, const char *format, ...) {
    va_list args;
    char *text;
    int len;
    bool ok;

    va_start(args, format);
    len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0)
        abort();
    ok = raw_send(raw, text, (size_t)len);
    free(text);
    return ok;
}

/* Receives some more; false when the server has closed or the time is over. */
static bool receive(struct raw *raw, uint64_t until_ms) {
    uint64_t now_ms = raw_now_ms();
    struct pollfd poll_fd = {.fd = raw->fd, .events = POLLIN};
    ssize_t got;

    if (raw->room - raw->len < 65536) {
        raw->room = raw->room * 2 + 131072;
        raw->bytes = reallocate(raw->bytes, raw->room);
        raw->bytes[raw->len] = '\0';
    }
    if (poll(&poll_fd, 1, until_ms > now_ms ? (int)(until_ms - now_ms) : 0) <= 0)
        return false;
    got = recv(raw->fd, raw->bytes + raw->len, raw->room - raw->len - 1, 0);
    if (got <= 0)
        return false;
    raw->len += (size_t)got;
    raw->bytes[raw->len] = '\0';
    return true;
}

bool raw_header(const struct raw_answer *answer, const char *name, char *value, size_t size) {
    size_t name_len = strlen(name);

    for (const char *line = answer->head; line; line = strstr(line, "\r\n")) {
        line += strncmp(line, "\r\n", 2) == 0 ? 2 : 0;
        if (strncasecmp(line, name, name_len) == 0 && line[name_len] == ':') {
            line += name_len + 1;
            line += strspn(line, " ");
            snprintf(value, size, "%.*s", (int)strcspn(line, "\r"), line);
            return true;
        }
    }
    return false;
}

bool raw_header_is(const struct raw_answer *answer, const char *name, const char *expected) {
    char value[256];

    return raw_header(answer, name, value, sizeof value) && strcmp(value, expected) == 0;
}

static void take_off(struct raw *raw, size_t len) {
    memmove(raw->bytes, raw->bytes + len, raw->len - len + 1);
    raw->len -= len;
}

bool raw_answer(struct raw *raw, struct raw_answer *answer, bool no_body) {
    uint64_t until_ms = raw_now_ms() + RAW_TIMEOUT_MS;
    char length[24] = "0";
    char *end;

    *answer = (struct raw_answer){0};
    while (!raw->bytes || !(end = strstr(raw->bytes, "\r\n\r\n"))) {
        if (!receive(raw, until_ms))
            return false;
    }
    answer->head = allocate_copy(raw->bytes, (size_t)(end + 2 - raw->bytes));
    take_off(raw, (size_t)(end + 4 - raw->bytes));
    if (sscanf(answer->head, "HTTP/1.%*1[01] %d", &answer->status) != 1)
        return false;
    if (!no_body && answer->status >= 200)
        raw_header(answer, "Content-Length", length, sizeof length);
    answer->body_len = strtoul(length, NULL, 10);
    while (raw->len < answer->body_len) {
        if (!receive(raw, until_ms))
            return false;
    }
    answer->body = allocate_copy(raw->bytes, answer->body_len);
    take_off(raw, answer->body_len);
    return true;
}

void raw_answer_free(struct raw_answer *answer) {
    free(answer->head);
    free(answer->body);
    *answer = (struct raw_answer){0};
}

bool raw_closed(struct raw *raw, int within_ms) {
    uint64_t until_ms = raw_now_ms() + (uint64_t)within_ms;

    while (receive(raw, until_ms))
        ;
    return raw_now_ms() < until_ms;
}

int raw_ask(unsigned port, const char *method, const char *target, const char *headers,
            const char *body, struct raw_answer *answer) {
    struct raw raw;

    raw_open(&raw, port);
    raw_print(&raw, "%s %s HTTP/1.1\r\nHost: test\r\n%s", method, target, headers);
    if (*body)
        raw_print(&raw, "Content-Length: %zu\r\n", strlen(body));
    raw_print(&raw, "\r\n%s", body);
    raw_answer(&raw, answer, strcmp(method, "HEAD") == 0);
    raw_close(&raw, false);
    return answer->status;
}

int raw_get(unsigned port, const char *target, const char *headers, struct raw_answer *answer) {
    return raw_ask(port, "GET", target, headers, "", answer);
}

int raw_status(unsigned port, const char *target) {
    struct raw_answer answer;
    int status = raw_get(port, target, "", &answer);

    raw_answer_free(&answer);
    return status;
}
