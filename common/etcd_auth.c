#include "common/etcd_auth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/allocate.h"
#include "common/etcd_http_internal.h"
#include "common/etcd_json.h"
#include "common/random.h"
#include "common/secret_file.h"

#define PASSWORD_MAX_BYTES 1024
#define PAUSE_MIN_MS 500
#define PAUSE_REFUSED_MAX_MS 30000
#define PAUSE_UNANSWERED_MAX_MS 5000

enum login_state {
    LOGIN_NONE,    /* no token: the first who needs one asks */
    LOGIN_ASKING,  /* an authentication is under way */
    LOGIN_DONE,    /* header is the token */
    LOGIN_AUTH_OFF /* this etcd wants none */
};

TAILQ_HEAD(waiters, etcd_auth_waiter);

/* At one endpoint. */
struct login {
    struct etcd_auth *auth;
    enum login_state state;
    char *header;           /* of LOGIN_DONE */
    uint64_t number;        /* of the token, or of having none */
    struct waiters waiters; /* while asking */
    unsigned failures;      /* in a row */
    uint64_t pause_end_ms;  /* uv_hrtime() / 1e6: nobody asks before, */
    struct error failure;   /* and gets this instead */
};

struct etcd_auth {
    struct etcd_http *client;
    char *user, *password_file;
    struct stat seen; /* the password file when it was last read */
    uint64_t last_number;
    struct login logins[ETCD_ENDPOINTS_MAX];
    struct waiters refused; /* get their endpoint's failure in the next turn */
    uv_async_t turn;        /* not a timer: one that is due at once runs before the loop waits, so
                               that uv_run() in UV_RUN_ONCE would go on waiting after it */
};

static uint64_t now_ms(void) {
    return uv_hrtime() / 1000000;
}

/* --- the password --- */

/* Up to size bytes of the file; *seen is what it looks like. */
static enum status read_file(const char *name, char *text, size_t size, size_t *len,
                             struct stat *seen, struct error *err) {
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us up */
    ssize_t n = 1;

    *len = 0;
    if (fd < 0)
        return error_set(err, STATUS_INVALID, "%s", strerror(errno));
    if (secret_file_check(fd, seen, err) != STATUS_OK) {
        close(fd);
        return err->status;
    }
    while (n > 0 && *len < size) {
        n = read(fd, text + *len, size - *len);
        if (n > 0)
            *len += (size_t)n;
    }
    if (n < 0)
        error_set(err, STATUS_INVALID, "%s", strerror(errno));
    close(fd);
    return n < 0 ? err->status : STATUS_OK;
}

/* Its one line, without the newline at the end. */
static enum status one_line(char *text, size_t len, struct error *err) {
    size_t i;

    if (len > PASSWORD_MAX_BYTES)
        return error_set(err, STATUS_INVALID, "it is longer than %d bytes", PASSWORD_MAX_BYTES);
    if (len > 0 && text[len - 1] == '\n')
        len--;
    if (len > 0 && text[len - 1] == '\r')
        len--;
    if (len == 0)
        return error_set(err, STATUS_INVALID, "it is empty");
    for (i = 0; i < len; i++) {
        if (text[i] == '\n')
            return error_set(err, STATUS_INVALID, "it has more than one line");
        if ((unsigned char)text[i] < ' ' || text[i] == '\x7f')
            return error_set(err, STATUS_INVALID, "byte %zu is a control character", i + 1);
    }
    text[len] = '\0';
    return STATUS_OK;
}

/* The request that proves who we are, allocated.  STATUS_INVALID names the file at fault. */
static enum status make_body(struct etcd_auth *auth, char **body, struct error *err) {
    char text[PASSWORD_MAX_BYTES + 2];
    size_t len = 0;
    enum status status = read_file(auth->password_file, text, sizeof text - 1, &len, &auth->seen,
                                   err);

    if (status == STATUS_OK)
        status = one_line(text, len, err);
    if (status == STATUS_OK)
        status = etcd_json_write_authenticate(auth->user, text, body, err);
    explicit_bzero(text, sizeof text);
    return status == STATUS_OK
               ? status
               : error_context(err, "etcd password file %.150s", auth->password_file);
}

static void wipe(char *secret) {
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

static bool file_changed(const struct etcd_auth *auth) {
    struct stat now;

    if (stat(auth->password_file, &now) != 0)
        return false;
    return now.st_ino != auth->seen.st_ino || now.st_dev != auth->seen.st_dev ||
           now.st_size != auth->seen.st_size || now.st_mtim.tv_sec != auth->seen.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != auth->seen.st_mtim.tv_nsec;
}

/* --- the outcome of one authentication --- */

/* Those who come while the list is walked wait for the next one. */
static void tell(struct waiters *waiting, const struct error *err) {
    struct waiters told = TAILQ_HEAD_INITIALIZER(told);
    struct etcd_auth_waiter *waiter;

    TAILQ_CONCAT(&told, waiting, link);
    while ((waiter = TAILQ_FIRST(&told))) {
        TAILQ_REMOVE(&told, waiter, link);
        waiter->done(waiter->arg, err);
    }
}

static void succeed(struct login *login, enum login_state state) {
    login->state = state;
    login->number = ++login->auth->last_number;
    login->failures = 0;
    tell(&login->waiters, NULL);
}

/* Nobody asks again before a pause has passed. */
static void fail(struct login *login, const struct error *err) {
    uint64_t most = err->status == STATUS_AUTH ? PAUSE_REFUSED_MAX_MS : PAUSE_UNANSWERED_MAX_MS;
    uint64_t pause = PAUSE_MIN_MS;
    unsigned i;

    for (i = 0; i < login->failures && pause < most; i++)
        pause *= 2;
    if (pause > most)
        pause = most;
    login->failures++;
    login->state = LOGIN_NONE;
    login->pause_end_ms = now_ms() + pause - random_u64() % (pause / 2 + 1);
    login->failure = *err;
}

/* Why it failed; STATUS_OK: *token is ours.  *off: this etcd knows no users. */
static enum status read_answer(const struct http_result *http, char **token, bool *off,
                               struct error *err) {
    enum status status;

    if (http->http_status == 200)
        return etcd_json_read_token(http->body, http->body_len, token, err);
    status = etcd_json_read_error(http->http_status, http->body, http->body_len, false, err);
    *off = status == STATUS_AUTH && strstr(err->message, "authentication is not enabled");
    /* Whatever else etcd has against the request will not go away by asking elsewhere. */
    if (status != STATUS_UNAVAILABLE && status != STATUS_PROTOCOL)
        err->status = STATUS_AUTH;
    return err->status;
}

static void on_answer(void *arg, const struct error *err, const struct http_result *http) {
    struct login *login = arg;
    struct etcd_auth *auth = login->auth;
    size_t endpoint = (size_t)(login - auth->logins);
    struct error failure;
    char *token = NULL;
    bool off = false;

    if (err) {
        failure = *err;
        if (failure.status != STATUS_CANCELLED) /* it changes nothing: done or not is all one */
            failure.status = STATUS_UNAVAILABLE;
    } else if (read_answer(http, &token, &off, &failure) == STATUS_OK) {
        size_t size = strlen(token) + sizeof "Authorization: ";

        login->header = allocate(size, 1);
        snprintf(login->header, size, "Authorization: %s", token);
        wipe(token);
        succeed(login, LOGIN_DONE);
        return;
    } else if (off) {
        succeed(login, LOGIN_AUTH_OFF);
        return;
    } else {
        error_context(&failure, "%s: user %.60s", auth->client->endpoints.urls[endpoint],
                      auth->user);
    }
    if (err && !http->sent)
        login->state = LOGIN_NONE; /* it has cost etcd nothing */
    else
        fail(login, &failure);
    tell(&login->waiters, &failure);
}

/* --- asking --- */

static void ask(struct login *login, char *body) {
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    struct etcd_http *client = login->auth->client;
    size_t endpoint = (size_t)(login - login->auth->logins);
    char url[ETCD_ENDPOINT_MAX + 32];
    /* Whoever waits still has time for another endpoint. */
    uint64_t timeout_ms = client->endpoints.n > 1 ? (client->timeout_ms + 1) / 2
                                                  : client->timeout_ms;
    const struct http_request request = {
        .url = url,
        .headers = headers,
        .body = body,
        .body_len = strlen(body),
        .timeout_ms = timeout_ms,
        .max_bytes = ETCD_JSON_TOKEN_ANSWER_MAX_BYTES,
        .repeatable = true,
        .done = on_answer,
        .arg = login,
    };

    snprintf(url, sizeof url, "%s/v3/auth/authenticate", client->endpoints.urls[endpoint]);
    login->state = LOGIN_ASKING;
    client->stats.authentications++;
    http_client_send(client->http, &request);
}

static void on_refused(uv_async_t *turn) {
    struct etcd_auth *auth = turn->data;
    struct waiters refused = TAILQ_HEAD_INITIALIZER(refused);
    struct etcd_auth_waiter *waiter;

    TAILQ_CONCAT(&refused, &auth->refused, link);
    while ((waiter = TAILQ_FIRST(&refused))) {
        struct error failure = auth->logins[waiter->endpoint].failure;

        TAILQ_REMOVE(&refused, waiter, link);
        waiter->done(waiter->arg, &failure);
    }
}

static bool is_pausing(const struct login *login) {
    if (login->failures == 0 || now_ms() >= login->pause_end_ms)
        return false;
    return login->failure.status != STATUS_AUTH || !file_changed(login->auth);
}

void etcd_auth_wait(struct etcd_auth *auth, size_t endpoint, struct etcd_auth_waiter *waiter,
                    etcd_auth_fn *done, void *arg) {
    struct login *login = &auth->logins[endpoint];
    char *body = NULL;

    *waiter = (struct etcd_auth_waiter){.endpoint = endpoint, .done = done, .arg = arg};
    if (login->state == LOGIN_NONE && !is_pausing(login)) {
        struct error err;

        if (make_body(auth, &body, &err) == STATUS_OK) {
            ask(login, body);
            wipe(body);
        } else {
            err.status = STATUS_AUTH;
            fail(login, &err);
        }
    }
    if (login->state == LOGIN_ASKING) {
        TAILQ_INSERT_TAIL(&login->waiters, waiter, link);
    } else {
        TAILQ_INSERT_TAIL(&auth->refused, waiter, link);
        uv_async_send(&auth->turn);
    }
}

/* --- what the token is --- */

bool etcd_auth_ready(const struct etcd_auth *auth, size_t endpoint) {
    enum login_state state = auth->logins[endpoint].state;

    return state == LOGIN_DONE || state == LOGIN_AUTH_OFF;
}

const char *etcd_auth_header(const struct etcd_auth *auth, size_t endpoint) {
    return auth->logins[endpoint].header;
}

uint64_t etcd_auth_number(const struct etcd_auth *auth, size_t endpoint) {
    return auth->logins[endpoint].number;
}

void etcd_auth_drop(struct etcd_auth *auth, size_t endpoint, uint64_t number,
                    const struct error *refusal) {
    struct login *login = &auth->logins[endpoint];

    if (!etcd_auth_ready(auth, endpoint) || login->number != number)
        return;
    wipe(login->header);
    login->header = NULL;
    login->state = LOGIN_NONE;
    if (refusal)
        fail(login, refusal);
}

/* --- start and end --- */

enum status etcd_auth_new(struct etcd_http *client, const struct etcd_http_config *config,
                          struct etcd_auth **auth, struct error *err) {
    struct etcd_auth *made;
    char *body = NULL;
    size_t i;

    *auth = NULL;
    if (!config->user != !config->password_file)
        return error_set(err, STATUS_INVALID, "etcd user and password file go together");
    if (!config->user)
        return STATUS_OK;
    made = allocate(1, sizeof *made);
    made->client = client;
    made->user = allocate_copy(config->user, strlen(config->user));
    made->password_file = allocate_copy(config->password_file, strlen(config->password_file));
    TAILQ_INIT(&made->refused);
    for (i = 0; i < ETCD_ENDPOINTS_MAX; i++) {
        made->logins[i].auth = made;
        TAILQ_INIT(&made->logins[i].waiters);
    }
    if (make_body(made, &body, err) != STATUS_OK) {
        etcd_auth_free(made);
        return err->status;
    }
    wipe(body);
    *auth = made;
    return STATUS_OK;
}

void etcd_auth_start(struct etcd_auth *auth) {
    if (uv_async_init(auth->client->loop, &auth->turn, on_refused) != 0)
        abort(); /* it needs one descriptor for each loop, and the loop has it */
    auth->turn.data = auth;
}

static void on_turn_closed(uv_handle_t *handle) {
    struct etcd_auth *auth = handle->data;

    etcd_http_part_closed(auth->client);
}

void etcd_auth_close(struct etcd_auth *auth) {
    struct error cancelled;

    error_set(&cancelled, STATUS_CANCELLED, "the etcd client is closed");
    tell(&auth->refused, &cancelled);
    uv_close((uv_handle_t *)&auth->turn, on_turn_closed);
}

void etcd_auth_free(struct etcd_auth *auth) {
    size_t i;

    if (!auth)
        return;
    for (i = 0; i < ETCD_ENDPOINTS_MAX; i++)
        wipe(auth->logins[i].header);
    free(auth->user);
    free(auth->password_file);
    free(auth);
}
