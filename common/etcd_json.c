#include "common/etcd_json.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/base64.h"
#include "common/etcd_error.h"
#include "common/quote.h"

static enum status parse(const char *body, size_t len, json_t **root, struct error *err) {
    json_error_t at;
    char near[QUOTE_SIZE];

    if (len == 0)
        return error_set(err, STATUS_PROTOCOL, "an empty answer");
    *root = json_loadb(body, len, 0, &at);
    if (!*root)
        return error_set(err, STATUS_PROTOCOL, "answer is not JSON, byte %d: %s", at.position,
                         quote(at.text, strlen(at.text), near));
    if (!json_is_object(*root)) {
        json_decref(*root);
        *root = NULL;
        return error_set(err, STATUS_PROTOCOL, "answer is no JSON object");
    }
    return STATUS_OK;
}

static enum status wrong(const char *name, const char *expected, struct error *err) {
    return error_set(err, STATUS_PROTOCOL, "answer: %s is not %s", name, expected);
}

/* Absent and null are 0. */
static enum status read_i64(const json_t *object, const char *name, int64_t *value,
                            struct error *err) {
    const json_t *json = json_object_get(object, name);
    const char *text, *digits;
    char *end;
    long long number;

    if (!json || json_is_null(json)) {
        *value = 0;
        return STATUS_OK;
    }
    if (json_is_integer(json)) {
        *value = json_integer_value(json);
        return STATUS_OK;
    }
    text = json_string_value(json);
    if (!text)
        return wrong(name, "a number", err);
    digits = text[0] == '-' ? text + 1 : text;
    if (digits[0] < '0' || digits[0] > '9') /* strtoll would take blanks and a plus */
        return wrong(name, "a number", err);
    errno = 0;
    number = strtoll(text, &end, 10);
    if (*end || errno)
        return wrong(name, "a signed 64-bit number", err);
    *value = number;
    return STATUS_OK;
}

/* Absent and null are false. */
static enum status read_bool(const json_t *object, const char *name, bool *value,
                             struct error *err) {
    const json_t *json = json_object_get(object, name);

    if (json && !json_is_boolean(json) && !json_is_null(json))
        return wrong(name, "true or false", err);
    *value = json_is_true(json);
    return STATUS_OK;
}

/* Stores a NUL-terminated copy; absent and null are empty. */
static enum status read_bytes(const json_t *object, const char *name, char **bytes, size_t *len,
                              struct error *err) {
    const json_t *json = json_object_get(object, name);
    const char *text = "";
    size_t text_len = 0;
    char *copy;

    if (json && !json_is_null(json)) {
        text = json_string_value(json);
        if (!text)
            return wrong(name, "base64 text", err);
        text_len = json_string_length(json);
    }
    copy = allocate(base64_decoded_max(text_len) + 1, 1);
    if (base64_decode(text, text_len, copy, len) != STATUS_OK) {
        free(copy);
        return wrong(name, "base64 text", err);
    }
    copy[*len] = '\0';
    *bytes = copy;
    return STATUS_OK;
}

/* An array that may be absent: then *n is 0. */
static enum status read_array(const json_t *object, const char *name, const json_t **array,
                              size_t *n, struct error *err) {
    *array = json_object_get(object, name);
    if (*array && !json_is_array(*array) && !json_is_null(*array))
        return wrong(name, "an array", err);
    *n = json_array_size(*array);
    return STATUS_OK;
}

/* Absent is 0.  Callers go on from the next one, so that has to be a number too. */
static enum status read_revision(const json_t *object, const char *name, int64_t *revision,
                                 struct error *err) {
    if (read_i64(object, name, revision, err) != STATUS_OK)
        return err->status;
    if (*revision < 0 || *revision == INT64_MAX)
        return wrong(name, "a revision", err);
    return STATUS_OK;
}

static enum status read_header(const json_t *object, int64_t *revision, struct error *err) {
    const json_t *header = json_object_get(object, "header");

    if (!json_is_object(header))
        return wrong("header", "an object", err);
    return read_revision(header, "revision", revision, err);
}

static void release_kv(struct etcd_kv *kv) {
    free(kv->key);
    free(kv->value);
    *kv = (struct etcd_kv){0};
}

static void release_kvs(struct etcd_kv *kvs, size_t n) {
    size_t i;

    for (i = 0; i < n; i++)
        release_kv(&kvs[i]);
    free(kvs);
}

/* *kv is zeroed at first and to be released whatever comes back.  *ours is false for a key with a
 * NUL byte.  A deleted key has only key and mod_revision. */
static enum status read_kv(const json_t *json, bool deleted, struct etcd_kv *kv, bool *ours,
                           struct error *err) {
    size_t key_len;

    if (!json_is_object(json))
        return wrong("kv", "an object", err);
    if (read_bytes(json, "key", &kv->key, &key_len, err) != STATUS_OK ||
        read_bytes(json, "value", &kv->value, &kv->value_len, err) != STATUS_OK ||
        read_revision(json, "create_revision", &kv->create_revision, err) != STATUS_OK ||
        read_revision(json, "mod_revision", &kv->mod_revision, err) != STATUS_OK ||
        read_i64(json, "lease", &kv->lease, err) != STATUS_OK)
        return err->status;
    if (key_len == 0)
        return wrong("key", "there", err);
    if (kv->mod_revision < 1)
        return wrong("mod_revision", "above 0", err);
    if (!deleted && kv->create_revision < 1)
        return wrong("create_revision", "above 0", err);
    *ours = strlen(kv->key) == key_len;
    return STATUS_OK;
}

static enum status read_kvs(const json_t *range, struct etcd_op_result *result, struct error *err) {
    const json_t *array;
    size_t n, i;

    if (read_array(range, "kvs", &array, &n, err) != STATUS_OK)
        return err->status;
    result->kvs = n ? allocate(n, sizeof *result->kvs) : NULL;
    for (i = 0; i < n; i++) {
        struct etcd_kv *kv = &result->kvs[result->n_kvs];
        bool ours;

        if (read_kv(json_array_get(array, i), false, kv, &ours, err) != STATUS_OK) {
            release_kv(kv);
            return err->status;
        }
        if (ours)
            result->n_kvs++;
        else
            release_kv(kv);
    }
    return read_i64(range, "count", &result->count, err);
}

static enum status read_result(const json_t *response, enum etcd_op_kind kind,
                               struct etcd_op_result *result, struct error *err) {
    static const char *const names[] = {
        [ETCD_PUT] = "response_put",
        [ETCD_RANGE] = "response_range",
        [ETCD_DELETE] = "response_delete_range",
    };
    const json_t *inner = json_object_get(response, names[kind]);

    if (!json_is_object(inner))
        return wrong(names[kind], "there", err);
    switch (kind) {
    case ETCD_RANGE: return read_kvs(inner, result, err);
    case ETCD_DELETE: return read_i64(inner, "deleted", &result->count, err);
    case ETCD_PUT: break;
    }
    return STATUS_OK;
}

enum status etcd_json_read_txn(const char *body, size_t len, const struct etcd_json_shape *shape,
                               struct etcd_txn_result *result, struct error *err) {
    struct etcd_txn_result read = {0};
    const json_t *responses;
    const uint8_t *kinds;
    json_t *root = NULL;
    size_t n, i;

    if (parse(body, len, &root, err) != STATUS_OK ||
        read_header(root, &read.revision, err) != STATUS_OK ||
        read_bool(root, "succeeded", &read.succeeded, err) != STATUS_OK ||
        read_array(root, "responses", &responses, &n, err) != STATUS_OK)
        goto out;
    if (read.revision < 1) {
        wrong("header.revision", "above 0", err);
        goto out;
    }
    kinds = read.succeeded ? shape->then : shape->otherwise;
    if (n != (read.succeeded ? shape->n_then : shape->n_otherwise)) {
        error_set(err, STATUS_PROTOCOL, "answer: %zu results for %zu operations", n,
                  read.succeeded ? shape->n_then : shape->n_otherwise);
        goto out;
    }
    read.results = allocate(n, sizeof *read.results);
    read.n_results = n;
    for (i = 0; i < n; i++) {
        if (read_result(json_array_get(responses, i), (enum etcd_op_kind)kinds[i], &read.results[i],
                        err) != STATUS_OK)
            goto out;
    }
    *result = read;
    json_decref(root);
    return STATUS_OK;
out:
    etcd_json_free_txn(&read);
    json_decref(root);
    return err->status;
}

void etcd_json_free_txn(struct etcd_txn_result *result) {
    size_t i;

    for (i = 0; i < result->n_results; i++)
        release_kvs(result->results[i].kvs, result->results[i].n_kvs);
    free(result->results);
    *result = (struct etcd_txn_result){0};
}

/* "ID" and "TTL" of object; TTL is 0 when there is none. */
static enum status read_lease(const json_t *object, int64_t lease_id, int64_t *ttl_s,
                              struct error *err) {
    int64_t id, ttl;

    if (read_i64(object, "ID", &id, err) != STATUS_OK ||
        read_i64(object, "TTL", &ttl, err) != STATUS_OK)
        return err->status;
    if (id != lease_id)
        return error_set(err, STATUS_PROTOCOL, "answer is about lease %" PRId64 ", not %" PRId64,
                         id, lease_id);
    *ttl_s = ttl;
    return STATUS_OK;
}

enum status etcd_json_read_grant(const char *body, size_t len, int64_t lease_id, int64_t *ttl_s,
                                 struct error *err) {
    json_t *root = NULL;
    int64_t ttl = 0;
    enum status status = parse(body, len, &root, err);

    if (status == STATUS_OK)
        status = read_lease(root, lease_id, &ttl, err);
    if (status == STATUS_OK && ttl < 1)
        status = wrong("TTL", "above 0", err);
    if (status == STATUS_OK)
        *ttl_s = ttl;
    json_decref(root);
    return status;
}

/* Of whichever generation.  False when there is no error object or code. */
static bool read_error_object(const json_t *root, long *code, const char **message) {
    const json_t *error = json_object_get(root, "error");
    const json_t *where = json_is_object(error) ? error : root;
    const json_t *number = json_object_get(where, "code");

    if (!number)
        number = json_object_get(where, "grpc_code");
    *message = json_string_value(json_object_get(where, "message"));
    if (!*message)
        *message = json_string_value(error);
    if (!*message)
        *message = "";
    *code = (long)json_integer_value(number);
    return json_is_integer(number) && *code != 0;
}

enum status etcd_json_read_keepalive(const char *body, size_t len, int64_t lease_id, int64_t *ttl_s,
                                     struct error *err) {
    json_t *root = NULL;
    const json_t *result;
    const char *message;
    int64_t ttl = 0;
    long code;
    enum status status = parse(body, len, &root, err);

    if (status != STATUS_OK)
        return status;
    result = json_object_get(root, "result");
    if (json_is_object(result)) {
        status = read_lease(result, lease_id, &ttl, err);
        if (status == STATUS_OK && ttl < 1)
            status = error_set(err, STATUS_NOT_FOUND, "lease %" PRId64 " is gone", lease_id);
    } else if (read_error_object(root, &code, &message)) {
        status = etcd_error_from_code(code, message, false, err);
    } else {
        status = wrong("result", "an object", err);
    }
    if (status == STATUS_OK)
        *ttl_s = ttl;
    json_decref(root);
    return status;
}

enum status etcd_json_read_revoke(const char *body, size_t len, struct error *err) {
    json_t *root = NULL;
    int64_t revision;
    enum status status = parse(body, len, &root, err);

    if (status == STATUS_OK)
        status = read_header(root, &revision, err);
    json_decref(root);
    return status;
}

enum status etcd_json_read_token(const char *body, size_t len, char **token, struct error *err) {
    const char *text;
    size_t n, i;
    json_t *root = NULL;
    enum status status = parse(body, len, &root, err);

    if (status != STATUS_OK)
        return status;
    text = json_string_value(json_object_get(root, "token"));
    n = text ? strlen(text) : 0;
    for (i = 0; i < n && text[i] > ' ' && text[i] <= '~'; i++)
        ;
    /* It becomes a header: a line break in it would be a header of its own. */
    if (n == 0 || n > ETCD_JSON_TOKEN_MAX_CHARS || i < n)
        status = wrong("token", "printable text", err);
    else
        *token = allocate_copy(text, n);
    json_decref(root);
    return status;
}

static void copy_reason(struct etcd_json_watch_line *line, const char *text) {
    size_t i;

    for (i = 0; text && text[i] && i + 1 < sizeof line->reason; i++)
        line->reason[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    line->reason[i] = '\0';
}

static enum status read_event(const json_t *json, struct etcd_event *event, struct etcd_kv *kv,
                              bool *ours, struct error *err) {
    const json_t *type = json_object_get(json, "type");
    const char *name = json_string_value(type);
    /* PUT is 0, the default: absent. */
    bool deleted = name ? strcmp(name, "DELETE") == 0 : json_integer_value(type) == 1;

    if (name && !deleted && strcmp(name, "PUT") != 0)
        return wrong("type", "PUT or DELETE", err);
    if (read_kv(json_object_get(json, "kv"), deleted, kv, ours, err) != STATUS_OK)
        return err->status;
    *event = (struct etcd_event){
        .kind = deleted ? ETCD_EVENT_DELETE : ETCD_EVENT_PUT,
        .key = kv->key,
        .value = deleted ? NULL : kv->value,
        .value_len = deleted ? 0 : kv->value_len,
        .mod_revision = kv->mod_revision,
        .lease = kv->lease,
    };
    return STATUS_OK;
}

static enum status read_events(const json_t *result, struct etcd_json_watch_line *line,
                               struct error *err) {
    const json_t *array;
    size_t n, i;

    if (read_array(result, "events", &array, &n, err) != STATUS_OK)
        return err->status;
    line->kvs = n ? allocate(n, sizeof *line->kvs) : NULL;
    line->events = n ? allocate(n, sizeof *line->events) : NULL;
    for (i = 0; i < n; i++) {
        struct etcd_kv *kv = &line->kvs[line->n_events];
        bool ours;

        if (read_event(json_array_get(array, i), &line->events[line->n_events], kv, &ours, err) !=
            STATUS_OK) {
            release_kv(kv);
            return err->status;
        }
        if (kv->mod_revision > line->last_mod_revision)
            line->last_mod_revision = kv->mod_revision;
        if (ours)
            line->n_events++;
        else
            release_kv(kv);
    }
    return STATUS_OK;
}

enum status etcd_json_read_watch_line(const char *text, size_t len,
                                      struct etcd_json_watch_line *line, struct error *err) {
    struct etcd_json_watch_line read = {0};
    const json_t *result;
    const char *message;
    json_t *root = NULL;

    if (parse(text, len, &root, err) != STATUS_OK)
        goto out;
    result = json_object_get(root, "result");
    if (json_is_object(result)) {
        if (read_i64(result, "watch_id", &read.watch_id, err) != STATUS_OK ||
            read_header(result, &read.revision, err) != STATUS_OK ||
            read_bool(result, "created", &read.created, err) != STATUS_OK ||
            read_bool(result, "canceled", &read.canceled, err) != STATUS_OK ||
            read_i64(result, "compact_revision", &read.compact_revision, err) != STATUS_OK ||
            read_events(result, &read, err) != STATUS_OK)
            goto out;
        copy_reason(&read, json_string_value(json_object_get(result, "cancel_reason")));
    } else if (read_error_object(root, &read.error_code, &message)) {
        read.failed = true;
        copy_reason(&read, message);
    } else {
        wrong("result", "an object", err);
        goto out;
    }
    *line = read;
    json_decref(root);
    return STATUS_OK;
out:
    etcd_json_free_watch_line(&read);
    json_decref(root);
    return err->status;
}

void etcd_json_free_watch_line(struct etcd_json_watch_line *line) {
    release_kvs(line->kvs, line->n_events);
    free(line->events);
    *line = (struct etcd_json_watch_line){0};
}

enum status etcd_json_read_error(long http_status, const char *body, size_t len, bool write,
                                 struct error *err) {
    json_t *root = NULL;
    const char *message;
    struct error ignored;
    enum status status;
    long code;

    if (parse(body, len, &root, &ignored) == STATUS_OK && read_error_object(root, &code, &message))
        status = etcd_error_from_code(code, message, write, err);
    else
        status = etcd_error_from_http(http_status, body, len, write, err);
    json_decref(root);
    return status;
}
