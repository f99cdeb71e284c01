/* The least that any server can do which answers a batch when a millisecond begins: wait for the
 * millisecond, write as many bytes as the batch has, wait for the next request.  No HTTP/2, no IDs.
 * What the machine asks for wake-ups and for the socket is the floor under bench_grpc.py's figures.
 *
 *   batch_floor BYTES PER_MS SECONDS CLIENT_CORE
 *
 * 8 connections; each has one request in flight, and PER_MS (1..8) of them are answered in a
 * millisecond.  Prints answers a second, and what the server's side of it took of a core, in percent. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS 8
#define REQUEST_BYTES 20u
#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

static char bytes[64 * 1024];

static int checked(int result, const char *what) {
    if (result < 0) {
        perror(what);
        exit(1);
    }
    return result;
}

static int64_t read_clock(clockid_t id) {
    struct timespec now;

    clock_gettime(id, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void watch(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    checked(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

static void put(int fd, size_t len) {
    if (write(fd, bytes, len) != (ssize_t)len) {
        perror("write");
        exit(1);
    }
}

/* ---- the client: an answer that is whole is followed by the next request ---- */

static int connect_to(const struct sockaddr_in *address) {
    int fd = checked(socket(AF_INET, SOCK_STREAM, 0), "socket"), on = 1;

    checked(connect(fd, (const struct sockaddr *)address, sizeof *address), "connect");
    checked(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "TCP_NODELAY");
    put(fd, REQUEST_BYTES);
    return fd;
}

static void run_client(const struct sockaddr_in *address, size_t answer_bytes, int core) {
    int epoll = checked(epoll_create1(0), "epoll_create1"), fds[CONNECTIONS];
    size_t have[CONNECTIONS] = {0};
    cpu_set_t cores;

    CPU_ZERO(&cores);
    CPU_SET((size_t)core, &cores);
    checked(sched_setaffinity(0, sizeof cores, &cores), "sched_setaffinity");
    for (int i = 0; i < CONNECTIONS; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};

        fds[i] = connect_to(address);
        checked(epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event), "epoll_ctl");
    }
    for (;;) {
        struct epoll_event events[CONNECTIONS];
        int n = checked(epoll_wait(epoll, events, CONNECTIONS, -1), "epoll_wait");

        for (int k = 0; k < n; k++) {
            uint32_t i = events[k].data.u32;
            ssize_t got = read(fds[i], bytes, sizeof bytes);

            if (got <= 0)
                exit(0); /* the server has ended */
            have[i] += (size_t)got;
            if (have[i] < answer_bytes)
                continue;
            have[i] -= answer_bytes;
            put(fds[i], REQUEST_BYTES);
        }
    }
}

/* ---- the server ---- */

struct server {
    int epoll, timer;
    int waiting[CONNECTIONS]; /* in the order in which they asked */
    int n_waiting;
    bool armed;
};

static void arm(struct server *server) {
    int64_t at_ns = (read_clock(CLOCK_REALTIME) / NS_PER_MS + 1) * NS_PER_MS;
    struct itimerspec when = {.it_value = {at_ns / NS_PER_S, at_ns % NS_PER_S}};

    checked(timerfd_settime(server->timer, TFD_TIMER_ABSTIME, &when, NULL), "timerfd_settime");
    server->armed = true;
}

static int answer(struct server *server, size_t answer_bytes, int per_ms) {
    int n = server->n_waiting < per_ms ? server->n_waiting : per_ms;

    for (int i = 0; i < n; i++)
        put(server->waiting[i], answer_bytes);
    server->n_waiting -= n;
    memmove(server->waiting, server->waiting + n,
            (size_t)server->n_waiting * sizeof *server->waiting);
    return n;
}

/* Once round the loop: how many were answered. */
static int turn(struct server *server, size_t answer_bytes, int per_ms) {
    struct epoll_event events[CONNECTIONS + 1];
    int n = checked(epoll_wait(server->epoll, events, CONNECTIONS + 1, -1), "epoll_wait");
    int answers = 0;
    char request[REQUEST_BYTES];

    for (int k = 0; k < n; k++) {
        int fd = events[k].data.fd;

        if (fd == server->timer) {
            uint64_t times;

            (void)!read(fd, &times, sizeof times);
            server->armed = false;
            answers += answer(server, answer_bytes, per_ms);
        } else if (read(fd, request, sizeof request) == (ssize_t)sizeof request) {
            server->waiting[server->n_waiting++] = fd;
        }
    }
    if (server->n_waiting > 0 && !server->armed)
        arm(server);
    return answers;
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t address_len = sizeof address;
    struct server server = {0};
    int listener = checked(socket(AF_INET, SOCK_STREAM, 0), "socket"), on = 1;
    size_t answer_bytes;
    int per_ms, seconds;
    int64_t began_ns, cpu_ns;
    double took_s;
    pid_t client;
    long answers = 0;

    if (argc != 5)
        return 64;
    answer_bytes = strtoul(argv[1], NULL, 10);
    per_ms = atoi(argv[2]);
    seconds = atoi(argv[3]);
    if (answer_bytes < 1 || answer_bytes > sizeof bytes || per_ms < 1 || per_ms > CONNECTIONS ||
        seconds < 1)
        return 64;
    checked(bind(listener, (struct sockaddr *)&address, address_len), "bind");
    checked(listen(listener, CONNECTIONS), "listen");
    checked(getsockname(listener, (struct sockaddr *)&address, &address_len), "getsockname");
    client = checked(fork(), "fork");
    if (client == 0)
        run_client(&address, answer_bytes, atoi(argv[4]));

    server.epoll = checked(epoll_create1(0), "epoll_create1");
    server.timer = checked(timerfd_create(CLOCK_REALTIME, 0), "timerfd_create");
    watch(server.epoll, server.timer);
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = checked(accept(listener, NULL, NULL), "accept");

        checked(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "TCP_NODELAY");
        watch(server.epoll, fd);
    }
    began_ns = read_clock(CLOCK_MONOTONIC);
    cpu_ns = -read_clock(CLOCK_PROCESS_CPUTIME_ID);
    while (read_clock(CLOCK_MONOTONIC) < began_ns + seconds * NS_PER_S)
        answers += turn(&server, answer_bytes, per_ms);
    cpu_ns += read_clock(CLOCK_PROCESS_CPUTIME_ID);
    took_s = (double)(read_clock(CLOCK_MONOTONIC) - began_ns) / 1e9;
    kill(client, SIGTERM);
    printf("%.1f %.2f\n", (double)answers / took_s, (double)cpu_ns / took_s / 1e7);
    return 0;
}
