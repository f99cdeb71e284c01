#include <string.h>

#include "tests/support/fake_etcd_internal.h"

static char *copy_bytes(const char *bytes, size_t len) {
    char *copy = malloc(len + 1);

    assert(copy);
    memcpy(copy, bytes, len);
    copy[len] = '\0';
    return copy;
}

char *fake_copy_text(const char *text) {
    return text ? copy_bytes(text, strlen(text)) : NULL;
}

static struct etcd_kv copy_kv(const struct etcd_kv *kv, bool key_only) {
    struct etcd_kv copy = *kv;

    copy.key = fake_copy_text(kv->key);
    copy.value_len = key_only ? 0 : kv->value_len;
    copy.value = copy_bytes(kv->value, copy.value_len);
    return copy;
}

void fake_store_clear(struct fake_store *store) {
    size_t i;

    for (i = 0; i < store->n; i++) {
        free(store->kvs[i].key);
        free(store->kvs[i].value);
    }
    free(store->kvs);
    *store = (struct fake_store){0};
}

void fake_store_copy(struct fake_store *to, const struct fake_store *from) {
    size_t i;

    fake_store_clear(to);
    *to = *from;
    to->room = from->n;
    to->kvs = malloc((from->n + 1) * sizeof(*to->kvs));
    assert(to->kvs);
    for (i = 0; i < from->n; i++)
        to->kvs[i] = copy_kv(&from->kvs[i], false);
}

size_t fake_store_seek(const struct fake_store *store, const char *key) {
    size_t low = 0, high = store->n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (strcmp(store->kvs[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct etcd_kv *fake_store_find(const struct fake_store *store, const char *key) {
    size_t at = fake_store_seek(store, key);

    return at < store->n && !strcmp(store->kvs[at].key, key) ? &store->kvs[at] : NULL;
}

bool fake_in_range(const char *key, const char *start, const char *end) {
    return end ? strcmp(key, start) >= 0 && strcmp(key, end) < 0 : !strcmp(key, start);
}

void fake_free_text(const char *text) {
    free((void *)(uintptr_t)text); /* ours, const only to those who read it */
}

bool fake_store_holds(const struct fake_store *store, const struct etcd_compare *compare) {
    const struct etcd_kv *kv = fake_store_find(store, compare->key);
    size_t len = compare->value ? strlen(compare->value) : 0, at;
    int order;

    if (compare->kind == ETCD_ABSENT) {
        at = fake_store_seek(store, compare->key);
        return at == store->n ||
               !fake_in_range(store->kvs[at].key, compare->key, compare->range_end);
    }
    if (compare->kind == ETCD_NONE_SINCE) {
        for (at = fake_store_seek(store, compare->key);
             at < store->n && fake_in_range(store->kvs[at].key, compare->key, compare->range_end);
             at++)
            if (store->kvs[at].create_revision > compare->revision)
                return false;
        return true;
    }
    if (!kv)
        return false;
    assert(compare->value);
    order = memcmp(kv->value, compare->value, kv->value_len < len ? kv->value_len : len);
    if (compare->kind == ETCD_VALUE_EQUAL)
        return !order && kv->value_len == len;
    return order > 0 || (!order && kv->value_len > len);
}

void fake_store_read(const struct fake_store *store, const struct etcd_op *op,
                     struct etcd_op_result *result) {
    size_t at = fake_store_seek(store, op->key), i, n = 0;

    while (at + n < store->n && fake_in_range(store->kvs[at + n].key, op->key, op->range_end))
        n++;
    result->count = (int64_t)n;
    if (op->limit > 0 && n > (size_t)op->limit)
        n = (size_t)op->limit;
    result->n_kvs = n;
    result->kvs = calloc(n + 1, sizeof(*result->kvs));
    assert(result->kvs);
    for (i = 0; i < n; i++)
        result->kvs[i] = copy_kv(&store->kvs[at + i], op->keys_only);
}
