#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/http_server.h"
#include "common/quote.h"

#define HOST_SIZE 256
#define PORT_SIZE 8

/* "HOST:PORT" or "[V6]:PORT". */
static bool split_address(const char *address, char host[HOST_SIZE], char port[PORT_SIZE]) {
    const char *colon = strrchr(address, ':');
    const char *first = address;
    size_t len;

    if (!colon || colon[1] == '\0' || strlen(colon + 1) >= PORT_SIZE ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return false;
    len = (size_t)(colon - address);
    if (len > 2 && first[0] == '[' && colon[-1] == ']') {
        first++;
        len -= 2;
    } else if (memchr(address, ':', len)) {
        return false; /* an IPv6 address without brackets */
    }
    if (len == 0 || len >= HOST_SIZE)
        return false;
    memcpy(host, first, len);
    host[len] = '\0';
    strcpy(port, colon + 1);
    return true;
}

static enum status bind_and_listen(const struct addrinfo *to, int *fd, struct error *err) {
    const int on = 1;
    int new_fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (new_fd < 0)
        return error_set(err, STATUS_SYSTEM, "socket: %s", strerror(errno));
    /* A restart must not wait for the connections of the last run to be forgotten. */
    if (setsockopt(new_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(new_fd, to->ai_addr, to->ai_addrlen) < 0 || listen(new_fd, SOMAXCONN) < 0) {
        error_set(err, STATUS_SYSTEM, "%s", strerror(errno));
        close(new_fd);
        return STATUS_SYSTEM;
    }
    *fd = new_fd;
    return STATUS_OK;
}

static enum status name_bound(int fd, char *bound, size_t size, struct error *err) {
    struct sockaddr_storage name;
    socklen_t len = sizeof name;
    char host[HOST_SIZE], port[PORT_SIZE];
    int code;

    if (getsockname(fd, (struct sockaddr *)&name, &len) < 0)
        return error_set(err, STATUS_SYSTEM, "getsockname: %s", strerror(errno));
    code = getnameinfo((struct sockaddr *)&name, len, host, sizeof host, port, sizeof port,
                       NI_NUMERICHOST | NI_NUMERICSERV);
    if (code != 0)
        return error_set(err, STATUS_SYSTEM, "getnameinfo: %s", gai_strerror(code));
    snprintf(bound, size, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    return STATUS_OK;
}

enum status http_listen(const char *address, int *fd, char *bound, size_t bound_size,
                        struct error *err) {
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
    };
    char host[HOST_SIZE], port[PORT_SIZE], quoted[QUOTE_SIZE];
    struct addrinfo *found = NULL;
    enum status status;
    int new_fd = -1, code;

    if (!split_address(address, host, port))
        return error_set(err, STATUS_INVALID, "must be HOST:PORT or [V6]:PORT, got %s",
                         quote(address, strlen(address), quoted));
    code = getaddrinfo(host, port, &hints, &found);
    if (code != 0)
        return error_set(err, STATUS_SYSTEM, "%s: %s", quote(address, strlen(address), quoted),
                         gai_strerror(code));
    status = bind_and_listen(found, &new_fd, err);
    if (status == STATUS_OK)
        status = name_bound(new_fd, bound, bound_size, err);
    if (status == STATUS_OK) {
        *fd = new_fd;
        new_fd = -1; /* handed over */
    } else {
        error_context(err, "listen on %s", quote(address, strlen(address), quoted));
    }
    if (new_fd >= 0)
        close(new_fd);
    freeaddrinfo(found);
    return status;
}
