#include "common/etcd_json.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/base64.h"

/* A field that is dropped changes what a request means: running out of memory ends the process. */
static void set(json_t *object, const char *name, json_t *value) {
    if (json_object_set_new_nocheck(object, name, value))
        abort();
}

static void append(json_t *array, json_t *value) {
    if (json_array_append_new(array, value))
        abort();
}

static json_t *base64_json(const char *text, size_t len) {
    char *encoded = allocate(base64_encoded_len(len) + 1, 1);
    json_t *json;

    base64_encode(text, len, encoded);
    json = json_string_nocheck(encoded);
    free(encoded);
    return json;
}

static void set_bytes(json_t *object, const char *name, const char *text) {
    set(object, name, base64_json(text, strlen(text)));
}

static void set_text(json_t *object, const char *name, const char *text) {
    set(object, name, json_string_nocheck(text));
}

/* As a string: that is exact for every 64-bit number and every gateway. */
static void set_i64(json_t *object, const char *name, int64_t value) {
    char text[24];

    snprintf(text, sizeof text, "%" PRId64, value);
    set_text(object, name, text);
}

static void set_key_range(json_t *object, const char *key, const char *range_end) {
    set_bytes(object, "key", key);
    if (range_end)
        set_bytes(object, "range_end", range_end);
}

static json_t *compare_json(const struct etcd_compare *compare) {
    json_t *json = json_object();

    set_key_range(json, compare->key, compare->range_end);
    switch (compare->kind) {
    case ETCD_ABSENT:
        set_text(json, "target", "CREATE");
        set_text(json, "result", "EQUAL");
        set_i64(json, "create_revision", 0);
        return json;
    case ETCD_NONE_SINCE:
        set_text(json, "target", "CREATE");
        set_text(json, "result", "LESS");
        set_i64(json, "create_revision", compare->revision + 1);
        return json;
    case ETCD_VALUE_EQUAL:
    case ETCD_VALUE_GREATER: break;
    }
    set_text(json, "target", "VALUE");
    set_text(json, "result", compare->kind == ETCD_VALUE_EQUAL ? "EQUAL" : "GREATER");
    set_bytes(json, "value", compare->value);
    return json;
}

static json_t *op_json(const struct etcd_op *op) {
    const char *name = "request_range";
    json_t *inner = json_object(), *json = json_object();

    switch (op->kind) {
    case ETCD_PUT:
        name = "request_put";
        set_bytes(inner, "key", op->key);
        set_bytes(inner, "value", op->value);
        if (op->lease)
            set_i64(inner, "lease", op->lease);
        break;
    case ETCD_RANGE:
        set_key_range(inner, op->key, op->range_end);
        if (op->limit)
            set_i64(inner, "limit", op->limit);
        if (op->revision)
            set_i64(inner, "revision", op->revision);
        if (op->keys_only)
            set(inner, "keys_only", json_true());
        break;
    case ETCD_DELETE:
        name = "request_delete_range";
        set_key_range(inner, op->key, op->range_end);
        break;
    }
    set(json, name, inner);
    return json;
}

static json_t *ops_json(const struct etcd_op *ops, size_t n, uint8_t *kinds, bool *reads_only) {
    json_t *array = json_array();
    size_t i;

    for (i = 0; i < n; i++) {
        kinds[i] = (uint8_t)ops[i].kind;
        if (ops[i].kind != ETCD_RANGE)
            *reads_only = false;
        append(array, op_json(&ops[i]));
    }
    return array;
}

static char *dump(json_t *json) {
    char *text = json_dumps(json, JSON_COMPACT);

    json_decref(json);
    if (!text)
        abort(); /* memory is all that can be missing: every string in it is ASCII */
    return text;
}

enum status etcd_json_write_txn(const struct etcd_txn *txn, char **body,
                                struct etcd_json_shape *shape, struct error *err) {
    json_t *root, *compares;
    size_t i;

    if (txn->n_compares > ETCD_TXN_MAX_OPS || txn->n_then > ETCD_TXN_MAX_OPS ||
        txn->n_otherwise > ETCD_TXN_MAX_OPS)
        return error_set(err, STATUS_INVALID, "a transaction of more than %d operations",
                         ETCD_TXN_MAX_OPS);
    /* Without a compare only the first branch can be taken. */
    if (txn->n_then == 0 || (txn->n_compares > 0 && txn->n_otherwise == 0))
        return error_set(err, STATUS_INVALID,
                         "a transaction with an empty branch, which etcd answers from stale state");
    shape->n_then = txn->n_then;
    shape->n_otherwise = txn->n_otherwise;
    shape->reads_only = true;
    root = json_object();
    compares = json_array();
    for (i = 0; i < txn->n_compares; i++)
        append(compares, compare_json(&txn->compares[i]));
    set(root, "compare", compares);
    set(root, "success", ops_json(txn->then, txn->n_then, shape->then, &shape->reads_only));
    set(root, "failure",
        ops_json(txn->otherwise, txn->n_otherwise, shape->otherwise, &shape->reads_only));
    *body = dump(root);
    return STATUS_OK;
}

void etcd_json_write_grant(int64_t lease_id, int64_t ttl_s,
                           char body[static ETCD_JSON_LEASE_BYTES]) {
    /* In capitals: "ttl" and "id" would be ignored, and the answer would look right. */
    snprintf(body, ETCD_JSON_LEASE_BYTES, "{\"ID\":\"%" PRId64 "\",\"TTL\":\"%" PRId64 "\"}",
             lease_id, ttl_s);
}

void etcd_json_write_lease(int64_t lease_id, char body[static ETCD_JSON_LEASE_BYTES]) {
    snprintf(body, ETCD_JSON_LEASE_BYTES, "{\"ID\":\"%" PRId64 "\"}", lease_id);
}

enum status etcd_json_write_authenticate(const char *user, const char *password, char **body,
                                         struct error *err) {
    json_t *root = json_object(), *name = json_string(user), *secret = json_string(password);

    if (!name || !secret) {
        json_decref(name);
        json_decref(secret);
        json_decref(root);
        return error_set(err, STATUS_INVALID, "the %s is not UTF-8", name ? "password" : "user");
    }
    set(root, "name", name);
    set(root, "password", secret);
    *body = dump(root);
    return STATUS_OK;
}

char *etcd_json_write_watch(const struct etcd_key_range *ranges, size_t n, const int64_t *starts) {
    char *body = NULL;
    size_t len = 0, i;

    assert(n >= 1 && n <= ETCD_WATCH_MAX_RANGES);
    for (i = 0; i < n; i++) {
        json_t *create = json_object(), *root = json_object();
        char *text;
        size_t text_len;

        set_key_range(create, ranges[i].key, ranges[i].range_end);
        set_i64(create, "start_revision", starts[i]);
        set_i64(create, "watch_id", (int64_t)i + 1);
        set(root, "create_request", create);
        text = dump(root);
        text_len = strlen(text);
        body = reallocate(body, len + text_len + 1);
        memcpy(body + len, text, text_len + 1);
        len += text_len;
        free(text);
    }
    return body;
}
