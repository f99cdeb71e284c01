#include "common/http_peers.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "common/allocate.h"

#define SWEEP_MAX_MS 500
/* The kernel counts in ticks, of 10 ms at the most, and from when the bytes came, not from when they
 * were read. */
#define CLOCK_SLACK_MS 25

void http_peers_init(struct http_peers *peers, uv_loop_t *loop, uint64_t request_timeout_ms,
                     uint64_t idle_timeout_ms, void (*cut)(void *connection, int fd)) {
    uint64_t shorter_ms = request_timeout_ms < idle_timeout_ms ? request_timeout_ms
                                                               : idle_timeout_ms;
    uint64_t sweep_ms = shorter_ms / 8 + 1;

    *peers = (struct http_peers){
        .loop = loop,
        .request_timeout_ms = request_timeout_ms,
        .idle_timeout_ms = idle_timeout_ms,
        .cut = cut,
        .sweep_ms = sweep_ms < SWEEP_MAX_MS ? sweep_ms : SWEEP_MAX_MS,
    };
    uv_timer_init(loop, &peers->timer);
    peers->timer.data = peers;
}

static void cut(struct http_peers *peers, struct http_peer *peer) {
    peer->phase = HTTP_CUT;
    peers->cut(peer->connection, peer->fd);
}

/* Has the kernel bytes that nobody has taken yet? */
static bool has_unread(int fd) {
    int bytes = 0;

    return ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

/* Idle, as far as the parser has told, which is not before a request's first line is complete.  The
 * kernel knows when the last byte came, and whether the client is done with the connection. */
static void look_at_idle(struct http_peers *peers, struct http_peer *peer, uint64_t idle_ms) {
    struct tcp_info info = {0};
    socklen_t len = sizeof info;

    if (idle_ms >= peers->idle_timeout_ms)
        cut(peers, peer);
    else if (getsockopt(peer->fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return;
    else if (info.tcpi_state == TCP_CLOSE_WAIT && !has_unread(peer->fd))
        cut(peers, peer);
    else if (info.tcpi_last_data_recv + CLOCK_SLACK_MS < idle_ms)
        http_peer_move(peers, peer, HTTP_RECEIVING);
}

/* libmicrohttpd 0.9.75 does not refuse a chunk's size or extension that fills its buffer without an
 * end: it asks to be run again and again, and takes no more bytes. */
static bool is_stuck(struct http_peer *peer) {
    bool was_unread = peer->unread;
    uint64_t was_bytes = peer->swept_body_bytes;

    peer->unread = has_unread(peer->fd);
    peer->swept_body_bytes = peer->body_bytes;
    return was_unread && peer->unread && was_bytes == peer->body_bytes;
}

static void time_out(struct http_peers *peers, struct http_peer *peer) {
    cut(peers, peer);
    peers->timeouts_total++;
}

static void sweep(uv_timer_t *timer) {
    struct http_peers *peers = timer->data;
    uint64_t now_ms = uv_now(peers->loop);

    for (struct http_peer *peer = peers->first; peer; peer = peer->next) {
        uint64_t passed_ms = now_ms - peer->since_ms;

        switch (peer->phase) {
        case HTTP_IDLE: look_at_idle(peers, peer, passed_ms); break;
        case HTTP_RECEIVING:
            if (passed_ms >= peers->request_timeout_ms || is_stuck(peer))
                time_out(peers, peer);
            break;
        case HTTP_ANSWERING:
            if (passed_ms >= peers->request_timeout_ms)
                time_out(peers, peer);
            break;
        case HTTP_HANDLED:
        case HTTP_CUT: break;
        }
    }
}

struct http_peer *http_peer_new(struct http_peers *peers, int fd, void *connection) {
    struct http_peer *peer = allocate(1, sizeof *peer);

    peer->fd = fd;
    peer->connection = connection;
    peer->phase = HTTP_IDLE;
    peer->since_ms = uv_now(peers->loop);
    peer->next = peers->first;
    if (peer->next)
        peer->next->prev = peer;
    peers->first = peer;
    if (peers->count++ == 0)
        uv_timer_start(&peers->timer, sweep, peers->sweep_ms, peers->sweep_ms);
    return peer;
}

void http_peer_free(struct http_peers *peers, struct http_peer *peer) {
    if (peer->prev)
        peer->prev->next = peer->next;
    else
        peers->first = peer->next;
    if (peer->next)
        peer->next->prev = peer->prev;
    free(peer);
    if (--peers->count == 0)
        uv_timer_stop(&peers->timer);
}

void http_peer_move(struct http_peers *peers, struct http_peer *peer, enum http_phase phase) {
    if (peer->phase == HTTP_CUT || peer->phase == phase)
        return;
    peer->phase = phase;
    peer->since_ms = uv_now(peers->loop);
    peer->unread = false;
    /* Of an answer that began before the drain the client does not know that it was the last. */
    if (phase == HTTP_IDLE && peers->draining)
        shutdown(peer->fd, SHUT_RD);
}

void http_peers_drain(struct http_peers *peers) {
    peers->draining = true;
    for (struct http_peer *peer = peers->first; peer; peer = peer->next) {
        if (peer->phase == HTTP_IDLE)
            shutdown(peer->fd, SHUT_RD);
    }
}
