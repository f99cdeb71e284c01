/* etcd_watch.c - a watch that keeps itself alive.
 *
 * All ranges are read in one transaction and delivered as a reset; then one stream carries a watch
 * for each range from that revision on.  A stream that ends is opened again from where each range
 * stands: not from where the stream stands, since the lines of its watches are in no order.  When
 * that revision is compacted away, or etcd's history has gone back, everything is read again. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/allocate.h"
#include "common/etcd_http_internal.h"
#include "common/etcd_json.h"
#include "common/random.h"

#define GRPC_DEADLINE_EXCEEDED 4

enum state {
    PAUSED,     /* the timer opens the next try */
    LISTING,    /* the ranges are being read */
    LOGGING_IN, /* the endpoint of the stream has to know who we are */
    OPENING,    /* not all watches are created yet; the timer bounds it */
    STREAMING,  /* events flow */
    STOPPED     /* the owner wants no more; waits for what is outstanding */
};

/* Why a stream ends: the last thing that is noted before its done() runs. */
enum ending {
    BROKEN,  /* a failure, told by the error */
    RENEWED, /* its lifetime is over */
    MOVED,   /* the client has changed its endpoint */
    RELIST   /* its revision is gone: read everything again */
};

struct etcd_watch {
    TAILQ_ENTRY(etcd_watch) link;
    struct etcd_http *client;
    uv_timer_t timer;
    enum state state;
    size_t n_ranges;
    struct etcd_key_range ranges[ETCD_WATCH_MAX_RANGES]; /* strings are ours */
    int64_t next_revision[ETCD_WATCH_MAX_RANGES];        /* all before it has been delivered */
    bool created[ETCD_WATCH_MAX_RANGES];                 /* in this stream */
    bool listed;                                         /* next_revision holds */
    unsigned failures;                                   /* in a row */
    size_t endpoint;                                     /* of the stream */
    struct etcd_auth_waiter waiter;                      /* while logging in */
    uint64_t opened_ms;                                  /* of the stream, uv_hrtime() / 1e6 */
    struct http_call *call;                              /* the stream; NULL: none */
    enum ending ending;
    struct error error; /* of a broken stream; message "" until something is known */
    char *line;         /* bytes of an unfinished line, or of an answer that is no stream */
    size_t line_len, line_room;
    etcd_watch_fn *on_events;
    void *arg;
};

static void begin(struct etcd_watch *watch);

static void on_pause_over(uv_timer_t *timer) {
    begin(timer->data);
}

/* 100 ms, 200 ms, ... 2 s, less up to a half: clients that lost the same etcd spread out. */
static uint64_t pause_ms(const struct etcd_watch *watch) {
    const struct etcd_http *client = watch->client;
    uint64_t pause = client->retry_min_ms;
    unsigned i;

    if (watch->failures == 0)
        return 0;
    for (i = 1; i < watch->failures && pause < client->retry_max_ms; i++)
        pause *= 2;
    if (pause > client->retry_max_ms)
        pause = client->retry_max_ms;
    return pause - random_u64() % (pause / 2 + 1);
}

static void try_again(struct etcd_watch *watch) {
    watch->state = PAUSED;
    uv_update_time(watch->client->loop);
    uv_timer_start(&watch->timer, on_pause_over, pause_ms(watch), 0);
}

/* --- the end of a watch --- */

static void release(struct etcd_watch *watch) {
    size_t i;

    for (i = 0; i < watch->n_ranges; i++) {
        free((char *)watch->ranges[i].key);
        free((char *)watch->ranges[i].range_end);
    }
    TAILQ_REMOVE(&watch->client->watches, watch, link);
    free(watch->line);
    free(watch);
}

void etcd_watch_release_all(struct etcd_http *client) {
    while (!TAILQ_EMPTY(&client->watches))
        release(TAILQ_FIRST(&client->watches));
}

static void on_timer_closed(uv_handle_t *handle) {
    struct etcd_watch *watch = handle->data;
    struct etcd_http *client = watch->client;

    if (!client->closing) /* else its owner may not have stopped it yet, and still can */
        release(watch);
    etcd_http_part_closed(client);
}

/* Nothing is outstanding any more. */
static void close_watch(struct etcd_watch *watch) {
    uv_close((uv_handle_t *)&watch->timer, on_timer_closed);
}

void etcd_watch_stop(struct etcd_watch *watch) {
    enum state before = watch->state;

    if (before == STOPPED)
        return;
    watch->state = STOPPED;
    uv_timer_stop(&watch->timer);
    if (watch->call)
        http_call_cancel(watch->call);                  /* ends in on_stream_end() */
    else if (before != LISTING && before != LOGGING_IN) /* those end in on_listed(), on_login() */
        close_watch(watch);
}

void etcd_watch_stop_all(struct etcd_http *client) {
    struct etcd_watch *watch;

    TAILQ_FOREACH(watch, &client->watches, link) {
        /* TAILQ_FOREACH has set it. */
        /* cppcheck-suppress uninitvar */
        etcd_watch_stop(watch);
    }
}

/* --- reading everything --- */

static void deliver_reset(struct etcd_watch *watch, const struct etcd_txn_result *result) {
    struct etcd_event *events;
    size_t n = 1, i, k;

    for (i = 0; i < result->n_results; i++)
        n += result->results[i].n_kvs;
    events = allocate(n, sizeof *events);
    events[0] = (struct etcd_event){.kind = ETCD_EVENT_RESET, .mod_revision = result->revision};
    for (i = 0, n = 1; i < result->n_results; i++) {
        for (k = 0; k < result->results[i].n_kvs; k++) {
            const struct etcd_kv *kv = &result->results[i].kvs[k];

            events[n++] = (struct etcd_event){
                .kind = ETCD_EVENT_PUT,
                .key = kv->key,
                .value = kv->value,
                .value_len = kv->value_len,
                .mod_revision = kv->mod_revision,
                .lease = kv->lease,
            };
        }
    }
    watch->client->stats.watch_resets++;
    watch->on_events(watch->arg, events, n);
    free(events);
}

static void on_listed(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct etcd_watch *watch = arg;
    size_t i;

    if (watch->state == STOPPED) {
        close_watch(watch);
        return;
    }
    if (err) { /* if the endpoint is at fault, the client has left it already */
        watch->client->stats.watch_failures++;
        watch->client->stats.last_error = *err;
        watch->failures++;
        try_again(watch);
        return;
    }
    watch->listed = true;
    for (i = 0; i < watch->n_ranges; i++)
        watch->next_revision[i] = result->revision + 1;
    watch->state = PAUSED; /* what the owner does meanwhile finds nothing outstanding */
    deliver_reset(watch, result);
    if (watch->state != STOPPED)
        begin(watch);
}

static void list(struct etcd_watch *watch) {
    struct etcd_op ops[ETCD_WATCH_MAX_RANGES];
    const struct etcd_txn txn = {.then = ops, .n_then = watch->n_ranges};
    size_t i;

    for (i = 0; i < watch->n_ranges; i++)
        ops[i] = (struct etcd_op){.kind = ETCD_RANGE,
                                  .key = watch->ranges[i].key,
                                  .range_end = watch->ranges[i].range_end};
    watch->state = LISTING;
    etcd_http_txn(watch->client, &txn, on_listed, watch);
}

/* --- the stream --- */

/* Closes the connection, which is the only way to end a watch over HTTP/1.1.  The first reason
 * given counts. */
static void end_stream(struct etcd_watch *watch, enum ending ending) {
    if (watch->ending == BROKEN)
        watch->ending = ending;
    http_call_cancel(watch->call);
}

static void fail_stream(struct etcd_watch *watch, enum status status, const char *why) {
    if (!watch->error.message[0])
        error_set(&watch->error, status, "%s: watch: %s",
                  watch->client->endpoints.urls[watch->endpoint], why);
    http_call_cancel(watch->call);
}

static void read_created(struct etcd_watch *watch, size_t range,
                         const struct etcd_json_watch_line *line) {
    size_t i;

    /* A member that lags behind, or an etcd that was restored from a snapshot: a watch from a
     * revision of the future would be silent until the store gets there. */
    if (line->revision + 1 < watch->next_revision[range]) {
        watch->listed = false;
        fail_stream(watch, STATUS_UNAVAILABLE, "the store's revision has gone back");
        return;
    }
    watch->created[range] = true;
    for (i = 0; i < watch->n_ranges; i++) {
        if (!watch->created[i])
            return;
    }
    watch->state = STREAMING;
    uv_timer_stop(&watch->timer);
    etcd_http_note_success(watch->client);
}

/* Events that were delivered before are left out: some versions of etcd repeat them. */
static void deliver(struct etcd_watch *watch, size_t range, struct etcd_json_watch_line *line) {
    size_t first = 0;

    while (first < line->n_events && line->events[first].mod_revision < watch->next_revision[range])
        first++;
    if (line->last_mod_revision >= watch->next_revision[range])
        watch->next_revision[range] = line->last_mod_revision + 1;
    watch->failures = 0;
    if (first < line->n_events)
        watch->on_events(watch->arg, line->events + first, line->n_events - first);
}

/* The deadline that we gave it is over: the one ending that is no failure, unless it comes so early
 * that opening it again at once would be a tight loop. */
static bool lived_long_enough(const struct etcd_watch *watch) {
    return watch->state == STREAMING &&
           uv_hrtime() / 1000000 - watch->opened_ms >= watch->client->watch_lifetime_ms / 2;
}

static void read_line(struct etcd_watch *watch, const char *text, size_t len) {
    struct etcd_json_watch_line line;
    struct error err;
    size_t range;

    if (etcd_json_read_watch_line(text, len, &line, &err) != STATUS_OK) {
        fail_stream(watch, STATUS_PROTOCOL, err.message);
        return;
    }
    range = (size_t)line.watch_id - 1;
    if (line.failed) {
        if (line.error_code == GRPC_DEADLINE_EXCEEDED && lived_long_enough(watch))
            end_stream(watch, RENEWED);
        else
            fail_stream(watch, STATUS_UNAVAILABLE, line.reason);
    } else if (line.canceled && line.compact_revision > 0) {
        end_stream(watch, RELIST);
    } else if (line.canceled) {
        fail_stream(watch, STATUS_REFUSED, line.reason[0] ? line.reason : "cancelled by etcd");
    } else if (range >= watch->n_ranges) {
        fail_stream(watch, STATUS_PROTOCOL, "a line of a watch that was not asked for");
    } else if (line.created) {
        read_created(watch, range, &line);
    } else if (line.n_events > 0 || line.last_mod_revision > 0) {
        deliver(watch, range, &line);
    }
    etcd_json_free_watch_line(&line);
}

static bool is_open(const struct etcd_watch *watch) {
    return (watch->state == OPENING || watch->state == STREAMING) && watch->ending == BROKEN &&
           !watch->error.message[0];
}

static bool keep(struct etcd_watch *watch, const char *bytes, size_t len) {
    if (len > ETCD_JSON_LINE_MAX_BYTES - watch->line_len) {
        fail_stream(watch, STATUS_PROTOCOL, "a line is too long");
        return false;
    }
    if (watch->line_len + len > watch->line_room) {
        watch->line_room = (watch->line_len + len) * 2;
        watch->line = reallocate(watch->line, watch->line_room);
    }
    memcpy(watch->line + watch->line_len, bytes, len);
    watch->line_len += len;
    return true;
}

static void on_bytes(void *arg, long http_status, const char *bytes, size_t len) {
    struct etcd_watch *watch = arg;
    const char *newline;

    if (http_status != 200) { /* no stream but an error: read at its end */
        keep(watch, bytes, len);
        return;
    }
    while (is_open(watch) && (newline = memchr(bytes, '\n', len))) {
        size_t part = (size_t)(newline - bytes);

        if (watch->line_len == 0) {
            read_line(watch, bytes, part);
        } else if (keep(watch, bytes, part)) {
            size_t line_len = watch->line_len;

            watch->line_len = 0;
            read_line(watch, watch->line, line_len);
        }
        bytes += part + 1;
        len -= part + 1;
    }
    if (is_open(watch) && len > 0)
        keep(watch, bytes, len);
}

static void on_not_created(uv_timer_t *timer) {
    struct etcd_watch *watch = timer->data;

    fail_stream(watch, STATUS_UNAVAILABLE, "not created in time");
}

/* A stream broke: *err says why. */
static void stream_failed(struct etcd_watch *watch, const struct error *err) {
    watch->client->stats.watch_failures++;
    watch->failures++;
    if (err->status != STATUS_AUTH && err->status != STATUS_REFUSED) {
        etcd_http_note_failure(watch->client, watch->endpoint, err);
        return;
    }
    etcd_http_note_refusal(watch->client, err);
    /* A watch whose token is not valid any more is refused as one without the right is.  Reading
     * the ranges tells them apart, and gets a new token. */
    if (watch->client->auth)
        watch->listed = false;
}

static void on_stream_end(void *arg, const struct error *err, const struct http_result *result) {
    struct etcd_watch *watch = arg;

    /* The older gateways leave out the newline after the last line.  The call is still there, so
     * that reading may try to end it, which does nothing any more. */
    if (is_open(watch) && watch->line_len > 0 && result->http_status == 200)
        read_line(watch, watch->line, watch->line_len);
    watch->call = NULL;
    uv_timer_stop(&watch->timer);
    if (watch->state == STOPPED) {
        close_watch(watch);
        return;
    }
    if (watch->error.message[0]) {
        stream_failed(watch, &watch->error);
    } else if (watch->ending == RENEWED) {
        watch->failures = 0;
    } else if (watch->ending == RELIST) {
        watch->listed = false;
        watch->failures++; /* no endpoint's fault, but not to be repeated without a pause */
    } else if (watch->ending == BROKEN) {
        struct error failure;

        if (err)
            failure = *err;
        else if (result->http_status != 200)
            etcd_json_read_error(result->http_status, watch->line, watch->line_len, false,
                                 &failure);
        else
            error_set(&failure, STATUS_UNAVAILABLE, "watch: the stream ended");
        if (!err)
            error_context(&failure, "%s", watch->client->endpoints.urls[watch->endpoint]);
        stream_failed(watch, &failure);
    }
    free(watch->line);
    watch->line = NULL;
    watch->line_len = watch->line_room = 0;
    try_again(watch);
}

static void open_stream(struct etcd_watch *watch) {
    struct etcd_http *client = watch->client;
    char url[ETCD_ENDPOINT_MAX + 32], timeout[48];
    const char *const headers[] = {
        "Content-Type: application/json", "Grpc-Metadata-hasleader: true", timeout,
        client->auth ? etcd_auth_header(client->auth, watch->endpoint) : NULL, NULL};
    char *body = etcd_json_write_watch(watch->ranges, watch->n_ranges, watch->next_revision);
    struct http_request request = {
        .url = url,
        .headers = headers,
        .body = body,
        .body_len = strlen(body),
        /* A live server ends the stream itself, a little earlier. */
        .timeout_ms = client->watch_lifetime_ms + client->watch_lifetime_ms / 10 + 1000,
        .connect_timeout_ms = client->timeout_ms,
        .repeatable = true,
        .on_bytes = on_bytes,
        .done = on_stream_end,
        .arg = watch,
    };

    watch->state = OPENING;
    watch->ending = BROKEN;
    watch->error.message[0] = '\0';
    watch->opened_ms = uv_hrtime() / 1000000;
    memset(watch->created, 0, sizeof watch->created);
    snprintf(url, sizeof url, "%s/v3/watch", client->endpoints.urls[watch->endpoint]);
    snprintf(timeout, sizeof timeout, "Grpc-Timeout: %" PRIu64 "m", client->watch_lifetime_ms);
    watch->call = http_client_send(client->http, &request);
    free(body);
    uv_update_time(client->loop);
    uv_timer_start(&watch->timer, on_not_created, client->timeout_ms, 0);
}

static void on_login(void *arg, const struct error *err) {
    struct etcd_watch *watch = arg;

    if (watch->state == STOPPED) {
        close_watch(watch);
    } else if (err) {
        stream_failed(watch, err);
        try_again(watch);
    } else {
        begin(watch);
    }
}

static void begin(struct etcd_watch *watch) {
    struct etcd_auth *auth = watch->client->auth;

    watch->endpoint = watch->client->current;
    if (!watch->listed) {
        list(watch);
    } else if (auth && !etcd_auth_ready(auth, watch->endpoint)) {
        watch->state = LOGGING_IN;
        etcd_auth_wait(auth, watch->endpoint, &watch->waiter, on_login, watch);
    } else {
        open_stream(watch);
    }
}

void etcd_watch_follow_all(struct etcd_http *client) {
    struct etcd_watch *watch;

    TAILQ_FOREACH(watch, &client->watches, link) {
        /* TAILQ_FOREACH has set it. */
        /* cppcheck-suppress uninitvar */
        if (watch->call && is_open(watch) && watch->endpoint != client->current)
            end_stream(watch, MOVED);
    }
}

struct etcd_watch *etcd_watch_new(struct etcd_http *client, const struct etcd_key_range *ranges,
                                  size_t n_ranges, etcd_watch_fn *on_events, void *arg) {
    struct etcd_watch *watch = allocate(1, sizeof *watch);
    size_t i;

    assert(n_ranges >= 1 && n_ranges <= ETCD_WATCH_MAX_RANGES);
    watch->client = client;
    watch->n_ranges = n_ranges;
    for (i = 0; i < n_ranges; i++) {
        const char *end = ranges[i].range_end;

        watch->ranges[i].key = allocate_copy(ranges[i].key, strlen(ranges[i].key));
        watch->ranges[i].range_end = end ? allocate_copy(end, strlen(end)) : NULL;
    }
    watch->on_events = on_events;
    watch->arg = arg;
    uv_timer_init(client->loop, &watch->timer);
    watch->timer.data = watch;
    TAILQ_INSERT_TAIL(&client->watches, watch, link);
    client->open_parts++;
    if (client->closing) {
        watch->state = STOPPED;
        close_watch(watch);
    } else {
        try_again(watch);
    }
    return watch;
}
