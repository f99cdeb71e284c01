#include "common/http_client.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "common/allocate.h"

struct http_call {
    TAILQ_ENTRY(http_call) link;
    struct http_client *client;
    CURL *easy; /* NULL while waiting */
    char *url;
    struct curl_slist *headers;
    char *request_body; /* NULL: GET */
    size_t request_len;
    uint64_t deadline_ms; /* uv_hrtime() / 1e6; 0: none */
    uint64_t connect_timeout_ms;
    size_t max_bytes;
    bool repeatable;
    bool cancelled;
    bool repeated;  /* the second delivery was prevented */
    bool too_large; /* the answer */
    bool head_ended;
    void (*on_send)(void *arg);
    http_bytes_fn *on_bytes;
    http_done_fn *done;
    void *arg;
    char *body;
    size_t body_room;
    struct http_result result;
    char why[CURL_ERROR_SIZE];
};
TAILQ_HEAD(calls, http_call);

/* A socket that curl wants watched.  The handle outlives curl's interest by one close callback. */
struct poll {
    uv_poll_t handle;
    struct http_client *client;
    curl_socket_t socket;
};

struct http_client {
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t curl_timer; /* curl's own */
    uv_timer_t turn;       /* does, from the loop, what a call may not do inside curl's callbacks */
    size_t open_handles;
    struct calls waiting, active;
    size_t n_active; /* streams not counted */
    size_t max_active;
    char *ca_file, *cert_file, *key_file;
    char *authorization; /* a whole header; NULL: none */
    bool closing;
    void (*closed)(void *arg);
    void *closed_arg;
};

static uint64_t now_ms(void) {
    return uv_hrtime() / 1000000;
}

static void on_turn(uv_timer_t *timer);

static void take_a_turn(struct http_client *client) {
    uv_timer_start(&client->turn, on_turn, 0, 0);
}

/* --- the end of a call --- */

static enum status failure_kind(const struct http_call *call, CURLcode code) {
    if (call->cancelled || call->client->closing)
        return STATUS_CANCELLED;
    if (!call->result.sent)
        return code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL
                   ? STATUS_INVALID
                   : STATUS_UNAVAILABLE;
    if (call->too_large)
        return STATUS_PROTOCOL;
    switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL: /* HTTP/0.9, which means no status line */
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING: return STATUS_PROTOCOL;
    default: return STATUS_UNKNOWN;
    }
}

static void describe(const struct http_call *call, CURLcode code, struct error *err) {
    const char *host = strstr(call->url, "://");
    const char *why = call->why[0] ? call->why : curl_easy_strerror(code);
    size_t origin_len;

    host = host ? host + 3 : call->url;
    origin_len = (size_t)(host - call->url) + strcspn(host, "/?#");
    if (call->cancelled || call->client->closing)
        why = "given up";
    else if (call->too_large)
        why = "the answer is too large";
    else if (call->repeated)
        why = "the connection broke before an answer came";
    error_set(err, failure_kind(call, code), "%.*s: %s", (int)origin_len, call->url, why);
}

static uint64_t time_of(CURL *easy, CURLINFO which) {
    curl_off_t us = 0;

    curl_easy_getinfo(easy, which, &us);
    return us > 0 ? (uint64_t)us : 0;
}

static void read_result(struct http_call *call) {
    long connects = 0;

    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &call->result.http_status);
    curl_easy_getinfo(call->easy, CURLINFO_NUM_CONNECTS, &connects);
    call->result.reused = call->result.sent && connects == 0;
    call->result.sent_us = time_of(call->easy, CURLINFO_PRETRANSFER_TIME_T);
    call->result.first_byte_us = time_of(call->easy, CURLINFO_STARTTRANSFER_TIME_T);
    call->result.total_us = time_of(call->easy, CURLINFO_TOTAL_TIME_T);
}

/* Takes the call off its list and tells its owner, who may call anything but cannot make another
 * call end: so the lists can be walked meanwhile, with the next call fetched first. */
static void finish(struct http_call *call, CURLcode code) {
    struct http_client *client = call->client;
    struct error err;
    bool failed = code != CURLE_OK || call->cancelled || client->closing;

    call->result.body = call->body ? call->body : "";
    if (call->easy) {
        read_result(call);
        TAILQ_REMOVE(&client->active, call, link);
        if (!call->on_bytes)
            client->n_active--;
        curl_multi_remove_handle(client->multi, call->easy);
    } else {
        TAILQ_REMOVE(&client->waiting, call, link);
    }
    if (failed)
        describe(call, code, &err);
    call->done(call->arg, failed ? &err : NULL, &call->result);
    curl_easy_cleanup(call->easy);
    curl_slist_free_all(call->headers);
    free(call->url);
    free(call->request_body);
    free(call->body);
    free(call);
}

/* --- inside a transfer --- */

/* Just before the request is written.  A second time means that a re-used connection broke and
 * curl is about to write it to a new one. */
static int on_connected(void *arg, char *remote, char *local, int remote_port, int local_port) {
    struct http_call *call = arg;

    (void)remote, (void)local, (void)remote_port, (void)local_port;
    if (call->result.sent && !call->repeatable) {
        call->repeated = true;
        return CURL_PREREQFUNC_ABORT;
    }
    call->result.sent = true;
    if (call->on_send && !call->cancelled)
        call->on_send(call->arg);
    return CURL_PREREQFUNC_OK;
}

/* One line at a time.  curl takes an answer whose head is cut off by the end of the connection for
 * a whole one with an empty body. */
static size_t on_head(char *line, size_t size, size_t n, void *arg) {
    struct http_call *call = arg;
    long http_status = 0;

    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &http_status);
    if (http_status >= 200 && size * n <= 2 && (line[0] == '\r' || line[0] == '\n'))
        call->head_ended = true;
    return size * n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg) {
    struct http_call *call = arg;
    size_t len = size * n;

    if (call->cancelled)
        return 0; /* ends the transfer */
    if (call->on_bytes) {
        long http_status = 0;

        curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &http_status);
        call->on_bytes(call->arg, http_status, bytes, len);
        return call->cancelled ? 0 : len;
    }
    if (len > call->max_bytes - call->result.body_len) {
        call->too_large = true;
        return 0;
    }
    if (call->result.body_len + len >= call->body_room) {
        call->body_room = (call->result.body_len + len) * 2 + 1;
        call->body = reallocate(call->body, call->body_room);
    }
    memcpy(call->body + call->result.body_len, bytes, len);
    call->result.body_len += len;
    call->body[call->result.body_len] = '\0';
    return len;
}

static void set_options(struct http_call *call, CURL *easy) {
    struct http_client *client = call->client;

    curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->why);
    curl_easy_setopt(easy, CURLOPT_URL, call->url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "snowfleet");
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    /* Otherwise ending a transfer waits for a name server, and the loop with it. */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    /* A pod that comes back under its name has another address. */
    curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, 5L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 20L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 5L);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, call);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_head);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    if (call->request_body) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->request_body);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->request_len);
    }
    if (!call->on_bytes)
        curl_easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)call->max_bytes);
    if (call->connect_timeout_ms)
        curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)call->connect_timeout_ms);
    if (client->ca_file)
        curl_easy_setopt(easy, CURLOPT_CAINFO, client->ca_file);
    if (client->cert_file) {
        curl_easy_setopt(easy, CURLOPT_SSLCERT, client->cert_file);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, client->key_file);
    }
}

/* The deadline lies after now. */
static void start(struct http_call *call, uint64_t now) {
    struct http_client *client = call->client;
    CURL *easy = curl_easy_init();

    if (!easy)
        abort();
    set_options(call, easy);
    if (call->deadline_ms)
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(call->deadline_ms - now));
    TAILQ_REMOVE(&client->waiting, call, link);
    TAILQ_INSERT_TAIL(&client->active, call, link);
    if (!call->on_bytes)
        client->n_active++;
    call->easy = easy;
    if (curl_multi_add_handle(client->multi, easy) != CURLM_OK)
        abort(); /* memory is all that can be missing */
}

/* --- the loop --- */

static void read_messages(struct http_client *client) {
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(client->multi, &left))) {
        struct http_call *call = NULL;
        CURLcode code = message->data.result; /* message is gone once its handle is removed */

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
        if (code == CURLE_OK && !call->head_ended)
            code = CURLE_PARTIAL_FILE;
        if (code == CURLE_FILESIZE_EXCEEDED)
            call->too_large = true;
        finish(call, code);
    }
    if (!TAILQ_EMPTY(&client->waiting))
        take_a_turn(client);
}

static void handle_closed(struct http_client *client) {
    if (--client->open_handles > 0)
        return;
    free(client->ca_file);
    free(client->cert_file);
    free(client->key_file);
    free(client->authorization);
    if (client->closed)
        client->closed(client->closed_arg);
    free(client);
    curl_global_cleanup();
}

static void on_timer_closed(uv_handle_t *handle) {
    handle_closed(handle->data);
}

static void close_all(struct http_client *client) {
    struct http_call *call, *next;

    for (call = TAILQ_FIRST(&client->active); call; call = next) {
        next = TAILQ_NEXT(call, link);
        finish(call, CURLE_ABORTED_BY_CALLBACK);
    }
    for (call = TAILQ_FIRST(&client->waiting); call; call = next) {
        next = TAILQ_NEXT(call, link);
        finish(call, CURLE_ABORTED_BY_CALLBACK);
    }
    if (!TAILQ_EMPTY(&client->waiting)) {
        take_a_turn(client);
        return;
    }
    curl_multi_cleanup(client->multi); /* takes back every socket it gave us to watch */
    uv_close((uv_handle_t *)&client->curl_timer, on_timer_closed);
    uv_close((uv_handle_t *)&client->turn, on_timer_closed);
}

static void on_turn(uv_timer_t *timer) {
    struct http_client *client = timer->data;
    struct http_call *call, *next;
    uint64_t now = now_ms(), earliest = 0;

    if (client->closing) {
        close_all(client);
        return;
    }
    for (call = TAILQ_FIRST(&client->active); call; call = next) {
        next = TAILQ_NEXT(call, link);
        if (call->cancelled)
            finish(call, CURLE_ABORTED_BY_CALLBACK);
    }
    for (call = TAILQ_FIRST(&client->waiting); call; call = next) {
        next = TAILQ_NEXT(call, link);
        if (call->cancelled) {
            finish(call, CURLE_ABORTED_BY_CALLBACK);
        } else if (call->deadline_ms && call->deadline_ms <= now) {
            strcpy(call->why, "no time left before it could be sent");
            finish(call, CURLE_OPERATION_TIMEDOUT);
        } else if (call->on_bytes || client->n_active < client->max_active) {
            start(call, now);
        } else if (call->deadline_ms && (!earliest || call->deadline_ms < earliest)) {
            earliest = call->deadline_ms;
        }
    }
    /* A call made meanwhile has asked for a turn of its own. */
    if (earliest && !uv_is_active((uv_handle_t *)timer)) {
        uv_update_time(client->loop);
        uv_timer_start(timer, on_turn, earliest - now, 0);
    }
}

static void on_ready(uv_poll_t *handle, int status, int events) {
    struct poll *poll = handle->data;
    struct http_client *client = poll->client;
    int flags = 0, running;

    if (status < 0)
        flags = CURL_CSELECT_ERR;
    if (events & UV_READABLE)
        flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    curl_multi_socket_action(client->multi, poll->socket, flags, &running);
    read_messages(client);
}

static void on_curl_timer(uv_timer_t *timer) {
    struct http_client *client = timer->data;
    int running;

    curl_multi_socket_action(client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    read_messages(client);
}

/* curl forbids calling back into it here: 0 too goes through the timer. */
static int on_timer_wish(CURLM *multi, long timeout_ms, void *arg) {
    struct http_client *client = arg;

    (void)multi;
    if (timeout_ms < 0) {
        uv_timer_stop(&client->curl_timer);
        return 0;
    }
    uv_update_time(client->loop);
    uv_timer_start(&client->curl_timer, on_curl_timer, (uint64_t)timeout_ms, 0);
    return 0;
}

static void on_poll_closed(uv_handle_t *handle) {
    struct poll *poll = handle->data;
    struct http_client *client = poll->client;

    free(poll);
    handle_closed(client);
}

static int on_socket_wish(CURL *easy, curl_socket_t socket, int what, void *arg, void *watched) {
    struct http_client *client = arg;
    struct poll *poll = watched;
    int events = 0;

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (poll) {
            curl_multi_assign(client->multi, socket, NULL);
            uv_poll_stop(&poll->handle); /* now: curl may close the descriptor next */
            uv_close((uv_handle_t *)&poll->handle, on_poll_closed);
        }
        return 0;
    }
    if (!poll) {
        poll = allocate(1, sizeof *poll);
        poll->client = client;
        poll->socket = socket;
        poll->handle.data = poll;
        if (uv_poll_init_socket(client->loop, &poll->handle, socket) != 0) {
            free(poll);
            return -1;
        }
        client->open_handles++;
        curl_multi_assign(client->multi, socket, poll);
    }
    if (what & CURL_POLL_IN)
        events |= UV_READABLE;
    if (what & CURL_POLL_OUT)
        events |= UV_WRITABLE;
    uv_poll_start(&poll->handle, events, on_ready);
    return 0;
}

/* --- what callers see --- */

static char *copy_name(const char *name) {
    return name ? allocate_copy(name, strlen(name)) : NULL;
}

static enum status check_file(const char *what, const char *name, struct error *err) {
    if (name && access(name, R_OK) != 0)
        return error_set(err, STATUS_INVALID, "%s %s: %s", what, name, strerror(errno));
    return STATUS_OK;
}

enum status http_client_new(uv_loop_t *loop, const struct http_config *config,
                            struct http_client **client, struct error *err) {
    struct http_client *made;
    size_t max_connections = config->max_connections ? config->max_connections : 32;

    if (check_file("CA file", config->ca_file, err) != STATUS_OK ||
        check_file("certificate file", config->cert_file, err) != STATUS_OK ||
        check_file("key file", config->key_file, err) != STATUS_OK)
        return err->status;
    if (!config->cert_file != !config->key_file)
        return error_set(err, STATUS_INVALID, "certificate and key go together");
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) /* counted, and safe in any thread */
        return error_set(err, STATUS_SYSTEM, "libcurl does not start");
    made = allocate(1, sizeof *made);
    made->loop = loop;
    made->max_active = config->max_active ? config->max_active : 16;
    made->ca_file = copy_name(config->ca_file);
    made->cert_file = copy_name(config->cert_file);
    made->key_file = copy_name(config->key_file);
    TAILQ_INIT(&made->waiting);
    TAILQ_INIT(&made->active);
    uv_timer_init(loop, &made->curl_timer);
    uv_timer_init(loop, &made->turn);
    made->curl_timer.data = made;
    made->turn.data = made;
    made->open_handles = 2;
    made->multi = curl_multi_init();
    if (!made->multi)
        abort();
    curl_multi_setopt(made->multi, CURLMOPT_SOCKETFUNCTION, on_socket_wish);
    curl_multi_setopt(made->multi, CURLMOPT_SOCKETDATA, made);
    curl_multi_setopt(made->multi, CURLMOPT_TIMERFUNCTION, on_timer_wish);
    curl_multi_setopt(made->multi, CURLMOPT_TIMERDATA, made);
    curl_multi_setopt(made->multi, CURLMOPT_MAXCONNECTS, (long)max_connections);
    curl_multi_setopt(made->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    *client = made;
    return STATUS_OK;
}

void http_client_close(struct http_client *client, void (*closed)(void *arg), void *arg) {
    assert(!client->closing);
    client->closing = true;
    client->closed = closed;
    client->closed_arg = arg;
    take_a_turn(client);
}

void http_client_authorize(struct http_client *client, const char *header) {
    free(client->authorization);
    client->authorization = copy_name(header);
}

static void add_header(struct http_call *call, const char *header) {
    call->headers = curl_slist_append(call->headers, header);
    if (!call->headers)
        abort();
}

struct http_call *http_client_send(struct http_client *client, const struct http_request *request) {
    struct http_call *call = allocate(1, sizeof *call);
    const char *const *header;

    call->client = client;
    call->url = allocate_copy(request->url, strlen(request->url));
    add_header(call, "Expect:"); /* no waiting for "100 Continue" before a long body */
    for (header = request->headers; header && *header; header++)
        add_header(call, *header);
    if (request->authorized && client->authorization)
        add_header(call, client->authorization);
    if (request->body) {
        call->request_body = allocate_copy(request->body, request->body_len);
        call->request_len = request->body_len;
    }
    call->deadline_ms = request->timeout_ms ? now_ms() + request->timeout_ms : 0;
    call->connect_timeout_ms = request->connect_timeout_ms;
    call->max_bytes = request->max_bytes;
    call->repeatable = request->repeatable;
    call->on_send = request->on_send;
    call->on_bytes = request->on_bytes;
    call->done = request->done;
    call->arg = request->arg;
    TAILQ_INSERT_TAIL(&client->waiting, call, link);
    take_a_turn(client);
    return call;
}

void http_call_cancel(struct http_call *call) {
    call->cancelled = true;
    take_a_turn(call->client);
}
