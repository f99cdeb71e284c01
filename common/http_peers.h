/* http_peers.h - the connections of an HTTP server and the time limits that each is under.
 *
 * What a client sends or reads a byte at a time does not prolong anything: a limit is on the whole
 * request, from its first byte to its last, and on the whole answer.  A connection whose bytes the
 * parser does not take any more is not waited for. */
#ifndef SNOWFLEET_COMMON_HTTP_PEERS_H
#define SNOWFLEET_COMMON_HTTP_PEERS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct http_exchange;

enum http_phase {
    HTTP_IDLE,      /* no byte of a request yet, as far as a sweep has seen: the idle limit */
    HTTP_RECEIVING, /* a request has begun: the request limit */
    HTTP_HANDLED,   /* the handler has it, perhaps parked: no limit here */
    HTTP_ANSWERING, /* the answer is being written: the request limit again */
    HTTP_CUT        /* shut down */
};

struct http_peer {
    struct http_peer *prev, *next;
    int fd;
    void *connection; /* the owner's */
    enum http_phase phase;
    uint64_t since_ms;              /* when the phase began, by the loop's clock */
    struct http_exchange *exchange; /* the request under way; NULL: none */
    uint64_t body_bytes;            /* of all its requests, which the owner adds up */
    /* As the last sweep saw it. */
    uint64_t swept_body_bytes;
    bool unread; /* the kernel held bytes that nobody had taken */
};

struct http_peers {
    uv_loop_t *loop;
    struct http_peer *first;
    unsigned count;
    bool draining;
    uint64_t request_timeout_ms, idle_timeout_ms;
    uint64_t timeouts_total; /* requests and answers, not idle connections */
    uint64_t sweep_ms;
    uv_timer_t timer;
    void (*cut)(void *connection, int fd);
};

/* The timer is a handle of the loop: uv_close() it before the struct goes.  cut() ends a connection
 * that has passed its limit; its owner calls http_peer_free() when it is closed. */
void http_peers_init(struct http_peers *peers, uv_loop_t *loop, uint64_t request_timeout_ms,
                     uint64_t idle_timeout_ms, void (*cut)(void *connection, int fd));
/* Does not take fd, which stays open until http_peer_free(). */
struct http_peer *http_peer_new(struct http_peers *peers, int fd, void *connection);
void http_peer_free(struct http_peers *peers, struct http_peer *peer);
/* Moves on; a peer that was cut stays so, and a request begun stays begun. */
void http_peer_move(struct http_peers *peers, struct http_peer *peer, enum http_phase phase);
/* Ends reading from connections that are idle, or come to be: what has already come is still read
 * and answered. */
void http_peers_drain(struct http_peers *peers);

#endif
