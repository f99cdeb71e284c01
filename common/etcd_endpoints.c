#include "common/etcd_endpoints.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/decimal.h"
#include "common/quote.h"

static bool all_of(const char *text, size_t len, const char *allowed) {
    size_t i;

    for (i = 0; i < len; i++) {
        if (!text[i] || !strchr(allowed, text[i]))
            return false;
    }
    return len > 0;
}

/* HOST, HOST:PORT, [V6] or [V6]:PORT.  A user and password have a place of their own. */
static bool is_authority(const char *text, size_t len) {
    static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    const char *colon, *end = text + len;
    struct error ignored;
    uint64_t port;

    if (len > 0 && text[0] == '[') {
        const char *bracket = memchr(text, ']', len);

        if (!bracket || !all_of(text + 1, (size_t)(bracket - text) - 1, "0123456789abcdefABCDEF:."))
            return false;
        colon = bracket + 1;
    } else {
        colon = memchr(text, ':', len);
        if (!colon)
            colon = end;
        if (!all_of(text, (size_t)(colon - text), name))
            return false;
    }
    if (colon == end)
        return true;
    return *colon == ':' && decimal_parse(colon + 1, (size_t)(end - colon) - 1, 1, 65535, &port,
                                          &ignored) == STATUS_OK;
}

static bool is_endpoint(const char *text, size_t len) {
    size_t scheme = strncmp(text, "http://", 7) == 0 ? 7 : 8;

    if (scheme == 8 && strncmp(text, "https://", 8) != 0)
        return false;
    return len > scheme && len <= ETCD_ENDPOINT_MAX && is_authority(text + scheme, len - scheme);
}

enum status etcd_endpoints_parse(const char *text, struct etcd_endpoints *endpoints,
                                 struct error *err) {
    struct etcd_endpoints read = {0};

    for (;;) {
        size_t len = strcspn(text, ","), used = len;
        char shown[QUOTE_SIZE];

        if (used > 0 && text[used - 1] == '/')
            used--;
        if (!is_endpoint(text, used)) {
            error_set(err, STATUS_INVALID,
                      "etcd endpoint %s: must be http://HOST:PORT or https://HOST:PORT",
                      quote(text, len, shown));
            break;
        }
        if (read.n == ETCD_ENDPOINTS_MAX) {
            error_set(err, STATUS_INVALID, "more than %d etcd endpoints", ETCD_ENDPOINTS_MAX);
            break;
        }
        read.urls[read.n++] = allocate_copy(text, used);
        if (!text[len]) {
            *endpoints = read;
            return STATUS_OK;
        }
        text += len + 1;
    }
    etcd_endpoints_release(&read);
    return err->status;
}

void etcd_endpoints_release(struct etcd_endpoints *endpoints) {
    size_t i;

    for (i = 0; i < endpoints->n; i++)
        free(endpoints->urls[i]);
    *endpoints = (struct etcd_endpoints){0};
}
