/* fuzz_watch.c - a watch of the etcd client (common/etcd_watch.c) on a stream that holds anything, cut
 * anywhere: its owner first gets all there is, then changes to it, and the watch goes on whatever came.
 *
 * The network and etcd's transactions are played by this file.  The input, in steps of one byte each:
 *     0..251  so many bytes of the input that follow are a piece of the stream
 *     252     the stream ends
 *     253     it breaks
 *     254     it is no stream: until it ends, pieces come with HTTP 401
 *     255     the client changes its endpoint */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/etcd_http_internal.h"

#define LISTED_REVISION 10
#define TURNS 8 /* of the loop, until nothing more happens without input */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- what etcd_watch.c calls ---- */

struct http_call {
    http_bytes_fn *on_bytes;
    http_done_fn *done;
    void *arg;
    bool cancelled;
};
static struct http_call call, *open_call; /* NULL: no stream */
static long http_status;
static etcd_txn_fn *on_listed; /* NULL: nothing is being read */
static void *on_listed_arg;
static unsigned parts_closed;

struct http_call *http_client_send(struct http_client *client, const struct http_request *request) {
    (void)client;
    assert(!open_call && request->on_bytes && request->body_len == strlen(request->body));
    call = (struct http_call){request->on_bytes, request->done, request->arg, false};
    return open_call = &call;
}

void http_call_cancel(struct http_call *cancelled) {
    assert(cancelled == open_call);
    cancelled->cancelled = true;
}

void etcd_http_txn(void *self, const struct etcd_txn *txn, etcd_txn_fn *done, void *arg) {
    (void)self;
    assert(!on_listed && txn->n_then == 2);
    on_listed = done;
    on_listed_arg = arg;
}

void etcd_http_note_success(struct etcd_http *client) {
    (void)client;
}
void etcd_http_note_failure(struct etcd_http *client, size_t endpoint, const struct error *err) {
    assert(endpoint < client->endpoints.n && err->message[0]);
    client->current = (endpoint + 1) % client->endpoints.n;
}
void etcd_http_note_refusal(struct etcd_http *client, const struct error *err) {
    (void)client;
    assert(err->message[0]);
}
void etcd_http_part_closed(struct etcd_http *client) {
    client->open_parts--;
    parts_closed++;
}
bool etcd_auth_ready(const struct etcd_auth *auth, size_t endpoint) {
    (void)auth;
    (void)endpoint;
    return true;
}
const char *etcd_auth_header(const struct etcd_auth *auth, size_t endpoint) {
    (void)auth;
    (void)endpoint;
    return NULL;
}
void etcd_auth_wait(struct etcd_auth *auth, size_t endpoint, struct etcd_auth_waiter *waiter,
                    etcd_auth_fn *done, void *arg) {
    (void)auth;
    (void)endpoint;
    (void)waiter;
    (void)done;
    (void)arg;
    abort(); /* no user, no login */
}

/* ---- the owner ---- */

struct owner {
    int64_t listed; /* the revision of the last reset; 0: none yet */
};

static void on_events(void *arg, const struct etcd_event *events, size_t n) {
    struct owner *owner = arg;

    assert(n > 0);
    if (events[0].kind == ETCD_EVENT_RESET) {
        owner->listed = events[0].mod_revision;
        return;
    }
    assert(owner->listed > 0);                      /* first everything, then changes: */
    assert(events[0].mod_revision > owner->listed); /* not what was in it already */
    for (size_t i = 0; i < n; i++) {
        assert(events[i].kind != ETCD_EVENT_RESET && events[i].key && events[i].mod_revision >= 1);
        assert((events[i].kind == ETCD_EVENT_PUT) == (events[i].value != NULL));
    }
}

/* ---- the other side ---- */

/* The call is there until its done() returns. */
static void end_call(const struct error *err) {
    const struct http_result result = {.sent = true, .http_status = http_status, .body = ""};

    open_call->done(open_call->arg, err, &result);
    open_call = NULL;
    http_status = 200;
}

/* Turns the loop until the watch waits for the network. */
static void settle(uv_loop_t *loop) {
    for (int turn = 0; turn < TURNS; turn++) {
        uv_run(loop, UV_RUN_NOWAIT);
        if (open_call && open_call->cancelled) {
            const struct error err = {STATUS_CANCELLED, "cancelled"};

            end_call(&err);
        }
        if (on_listed) {
            struct etcd_op_result ranges[2] = {{.count = 0}};
            const struct etcd_txn_result result = {
                .succeeded = true, .revision = LISTED_REVISION, .results = ranges, .n_results = 2};
            etcd_txn_fn *done = on_listed;

            on_listed = NULL;
            done(on_listed_arg, NULL, &result);
        }
        if (open_call && !open_call->cancelled)
            return;
    }
}

static void play(struct etcd_http *client, const uint8_t *data, size_t size) {
    const struct error broken = {STATUS_UNKNOWN, "http://a: broken"};

    for (size_t at = 0; at < size;) {
        uint8_t step = data[at++];

        settle(client->loop);
        assert(open_call); /* whatever happened, it is there again */
        if (step <= 251) {
            size_t n = step < size - at ? step : size - at;
            char *piece = malloc(n ? n : 1); /* its end is the end of memory */

            assert(piece);
            memcpy(piece, data + at, n);
            at += n;
            if (n > 0)
                open_call->on_bytes(open_call->arg, http_status, piece, n);
            free(piece);
        } else if (step == 252) {
            end_call(NULL);
        } else if (step == 253) {
            end_call(&broken);
        } else if (step == 254) {
            http_status = 401;
        } else {
            client->current = (client->current + 1) % client->endpoints.n;
            etcd_watch_follow_all(client);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct etcd_key_range ranges[] = {{"/a/", "/a0"}, {"/b/", "/b0"}};
    static char urls[2][16] = {"http://a:1", "http://b:1"};
    struct owner owner = {.listed = 0};
    struct etcd_http client = {
        .endpoints = {.urls = {urls[0], urls[1]}, .n = 2},
        .timeout_ms = 3600000,
        .watch_lifetime_ms = 7200000,
    };
    struct etcd_watch *watch;
    uv_loop_t loop;

    assert(uv_loop_init(&loop) == 0);
    client.loop = &loop;
    TAILQ_INIT(&client.watches);
    http_status = 200;
    open_call = NULL;
    on_listed = NULL;
    parts_closed = 0;
    watch = etcd_watch_new(&client, ranges, 2, on_events, &owner);
    play(&client, data, size);
    etcd_watch_stop(watch);
    settle(&loop);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert(parts_closed == 1 && client.open_parts == 0 && TAILQ_EMPTY(&client.watches));
    uv_loop_close(&loop);
    return 0;
}
