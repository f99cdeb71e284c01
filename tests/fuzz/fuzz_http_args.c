/* What HTTP clients can send, as far as it is ours to read: request targets, headers' framing,
 * argument values, JSON bodies and Accept.  The first byte chooses. */
#include <stdlib.h>
#include <string.h>

#include "common/http_guard.h"
#include "worker/args.h"
#include "worker/render.h"

static void require(int holds) {
    if (!holds)
        abort();
}

/* A refusal can be sent: it has a code and a reason, and comes out as JSON. */
static void require_refusal(const struct service_error *err) {
    size_t len;
    char *body = render_error(err, &len);

    require(strcmp(err->code, "INVALID_ARGUMENT") == 0 && err->message[0]);
    require(len > 0 && body[0] == '{' && body[len - 1] == '}');
    free(body);
}

static void query(char *text) {
    struct http_target target;
    struct service_error err;
    struct ids_args args;

    if (http_target_parse(text, &target))
        return;
    require(target.n_args <= HTTP_ARGS_MAX);
    ids_args_init(&args);
    for (size_t i = 0; i < target.n_args; i++) {
        const struct http_arg *arg = &target.args[i];

        require(arg->value.text[arg->value.len] == '\0');
        if (!ids_args_set(&args, arg->name, arg->value.text, arg->value.len, arg->value.twice,
                          &err)) {
            require_refusal(&err);
            return;
        }
    }
    require(args.count >= 1 && args.count <= SERVICE_COUNT_MAX);
}

static void ids_body(const char *body, size_t len) {
    struct service_error err;
    struct ids_args args;

    ids_args_init(&args);
    if (ids_args_body(&args, body, len, &err))
        require(args.count >= 1 && args.count <= SERVICE_COUNT_MAX);
    else
        require_refusal(&err);
}

static void decode_body(const char *body, size_t len) {
    struct service_error err;
    struct id_value id = {.number = -1};

    if (decode_args_body(body, len, &id, &err))
        require(id.number >= 0);
    else
        require_refusal(&err);
}

/* What the guard lets pass is unambiguous, whatever the header's name and value. */
static void framing(const char *text, size_t len) {
    const char *colon = memchr(text, ':', len);
    size_t name_len = colon ? (size_t)(colon - text) : len;
    struct http_guard guard = {0};

    http_guard_header(&guard, text, name_len, colon ? colon + 1 : "",
                      colon ? len - name_len - 1 : 0);
    http_guard_header(&guard, "Content-Length", 14, "2", 1);
    if (!http_guard_verdict(&guard, "HTTP/1.1"))
        require(guard.lengths == 1 && guard.encodings == 0 && guard.body_bytes == 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct service_error err;
    char *text;
    struct id_value id = {.number = -1};

    if (size == 0)
        return 0;
    text = malloc(size);
    require(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0]) {
    case 'q': query(text); break;
    case 'i': ids_body(text, size - 1); break;
    case 'd': decode_body(text, size - 1); break;
    case 'n':
        if (decode_args_id(text, size - 1, ID_READ_ANY, &id, &err))
            require(id.number >= 0);
        else
            require_refusal(&err);
        break;
    case 'a': accept_prefers_text(text); break;
    default: framing(text, size - 1);
    }
    free(text);
    return 0;
}
