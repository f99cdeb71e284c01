#include "coordinator/body.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "common/allocate.h"

#define TAG_SIZE 32

/* One of the two forms.  The server hands back nothing but the address of its bytes. */
struct form {
    unsigned references;
    size_t len;
    char bytes[];
};

struct body {
    struct form *plain, *gzipped;
    char tag[TAG_SIZE], gzipped_tag[TAG_SIZE]; /* with their quotes; "" for none */
};

static struct form *form_new(size_t len) {
    struct form *form = allocate(1, sizeof *form + len);

    form->references = 1;
    form->len = len;
    return form;
}

static void form_release(struct form *form) {
    assert(form->references > 0);
    if (--form->references == 0)
        free(form);
}

static void release_bytes(void *bytes) {
    form_release((struct form *)(void *)((char *)bytes - offsetof(struct form, bytes)));
}

/* The fastest level: what changes every second is compressed every second. */
static struct form *compress_form(const struct form *plain) {
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)plain->bytes, .avail_in = (uInt)plain->len};
    struct form *form;
    int code;

    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        abort(); /* no memory: as allocate.h */
    form = form_new(deflateBound(&stream, plain->len));
    stream.next_out = (Bytef *)form->bytes;
    stream.avail_out = (uInt)form->len;
    code = deflate(&stream, Z_FINISH);
    assert(code == Z_STREAM_END);
    (void)code;
    form->len = stream.total_out;
    deflateEnd(&stream);
    return form;
}

struct body *body_new(const void *bytes, size_t len, bool tagged) {
    struct body *body = allocate(1, sizeof *body);

    assert(len < UINT32_MAX);
    body->plain = form_new(len);
    memcpy(body->plain->bytes, bytes, len);
    body->gzipped = compress_form(body->plain);
    if (tagged) {
        unsigned long sum = crc32(0, bytes, (uInt)len);

        snprintf(body->tag, TAG_SIZE, "\"%zx-%lx\"", len, sum);
        snprintf(body->gzipped_tag, TAG_SIZE, "\"%zx-%lx-gzip\"", len, sum);
    }
    return body;
}

void body_free(struct body *body) {
    if (!body)
        return;
    form_release(body->plain);
    form_release(body->gzipped);
    free(body);
}

/* "gzip" in a list such as "deflate, gzip;q=0.5, *"; not with a weight of nothing. */
static bool takes_gzip(const struct http_exchange *exchange) {
    const char *list = http_header(exchange, "Accept-Encoding");

    while (list && *list) {
        size_t len;

        list += strspn(list, ", \t");
        len = strcspn(list, ",");
        if (strncasecmp(list, "gzip", 4) == 0 && strchr(",; \t", list[4])) {
            const char *weight = memchr(list, ';', len);

            weight = weight ? strstr(weight, "q=") : NULL;
            return !weight || weight >= list + len || strtod(weight + 2, NULL) > 0;
        }
        list += len;
    }
    return false;
}

/* An If-None-Match of "*", or one that lists either form: both stand for the same content. */
static bool has_it(const struct http_exchange *exchange, const struct body *body) {
    const char *tags = http_header(exchange, "If-None-Match");

    if (!tags || !body->tag[0])
        return false;
    return strcmp(tags, "*") == 0 || strstr(tags, body->tag) || strstr(tags, body->gzipped_tag);
}

void body_reply(const struct body *body, struct http_exchange *exchange, const char *content_type,
                const char *const *headers) {
    bool gzipped = takes_gzip(exchange), unchanged = has_it(exchange, body);
    struct form *form = gzipped ? body->gzipped : body->plain;
    const char *all[2 * (BODY_HEADERS_MAX + 3) + 1] = {"Vary", "Accept-Encoding"};
    size_t n = 2;

    if (gzipped) {
        all[n++] = "Content-Encoding";
        all[n++] = "gzip";
    }
    if (body->tag[0]) {
        all[n++] = "ETag";
        all[n++] = gzipped ? body->gzipped_tag : body->tag;
    }
    for (size_t i = 0; headers && headers[i]; i += 2) {
        assert(i < 2 * (size_t)BODY_HEADERS_MAX);
        all[n++] = headers[i];
        all[n++] = headers[i + 1];
    }
    form->references++;
    /* The server sends no body with a 304, only its length, as it should. */
    http_reply(exchange, &(struct http_response){.status = unchanged ? 304 : 200,
                                                 .content_type = content_type,
                                                 .body = form->bytes,
                                                 .body_len = form->len,
                                                 .release = release_bytes,
                                                 .headers = all});
}
