/* fuzz_etcd_json.c - every reader of etcd's answers, with the same bytes. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base64.h"
#include "common/etcd_json.h"

/* Touches all that a reader stored, for the sanitizers, and checks what its header promises. */
static void use_kv(const struct etcd_kv *kv) {
    assert(strlen(kv->key) > 0 && kv->mod_revision >= 1);
    assert(kv->value[kv->value_len] == '\0');
}

static void read_txn(const char *text, size_t len, const struct etcd_json_shape *shape) {
    struct etcd_txn_result result;
    struct error err;
    size_t i, k;

    if (etcd_json_read_txn(text, len, shape, &result, &err) != STATUS_OK) {
        assert(err.status == STATUS_PROTOCOL);
        return;
    }
    assert(result.n_results == (result.succeeded ? shape->n_then : shape->n_otherwise));
    for (i = 0; i < result.n_results; i++) {
        for (k = 0; k < result.results[i].n_kvs; k++)
            use_kv(&result.results[i].kvs[k]);
    }
    etcd_json_free_txn(&result);
}

static void read_line(const char *text, size_t len) {
    struct etcd_json_watch_line line;
    struct error err;
    size_t i;

    if (etcd_json_read_watch_line(text, len, &line, &err) != STATUS_OK) {
        assert(err.status == STATUS_PROTOCOL);
        return;
    }
    assert(memchr(line.reason, '\0', sizeof line.reason));
    for (i = 0; i < line.n_events; i++) {
        assert(line.events[i].mod_revision <= line.last_mod_revision);
        assert((line.events[i].kind == ETCD_EVENT_PUT) == (line.events[i].value != NULL));
        use_kv(&line.kvs[i]);
    }
    etcd_json_free_watch_line(&line);
}

static void decode(const char *text, size_t len) {
    char *bytes = malloc(base64_decoded_max(len) + 1);
    char *again = malloc(len + 1);
    size_t n;

    /* What is taken is exactly what the encoder writes. */
    if (base64_decode(text, len, bytes, &n) == STATUS_OK) {
        base64_encode(bytes, n, again);
        assert(strlen(again) == len && memcmp(again, text, len) == 0);
    }
    free(bytes);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct etcd_json_shape claim = {.n_then = 3,
                                                 .n_otherwise = 1,
                                                 .then = {ETCD_PUT, ETCD_DELETE, ETCD_RANGE},
                                                 .otherwise = {ETCD_RANGE}};
    static const struct etcd_json_shape list = {.n_then = 2, .then = {ETCD_RANGE, ETCD_RANGE}};
    const char *text = (const char *)data;
    int64_t ttl_s = 0;
    char *token;
    struct error err;

    read_txn(text, size, &claim);
    read_txn(text, size, &list);
    read_line(text, size);
    decode(text, size);
    if (etcd_json_read_grant(text, size, 7001, &ttl_s, &err) == STATUS_OK)
        assert(ttl_s >= 1);
    if (etcd_json_read_keepalive(text, size, 7001, &ttl_s, &err) == STATUS_OK)
        assert(ttl_s >= 1);
    etcd_json_read_revoke(text, size, &err);
    if (etcd_json_read_token(text, size, &token, &err) == STATUS_OK) {
        assert(strlen(token) >= 1 && !strpbrk(token, "\r\n "));
        free(token);
    }
    assert(etcd_json_read_error(503, text, size, true, &err) != STATUS_OK);
    assert(etcd_json_read_error(400, text, size, false, &err) != STATUS_OK);
    return 0;
}
