#include "coordinator/presence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/replies.h"

#define REPLY_MAX_BYTES (1u << 20)

struct question {
    char claim[HEX128_CHARS + 1];
    presence_fn *done;
    void *arg;
};

static enum presence judge(const char *claim, const struct http_result *result,
                           struct error *reason) {
    bool claims = false;

    if (result->http_status != 200) {
        error_set(reason, STATUS_PROTOCOL, "HTTP %ld", result->http_status);
        return PRESENCE_UNCLEAR;
    }
    if (status_reply_claims(result->body, result->body_len, claim, &claims, reason) != STATUS_OK)
        return PRESENCE_UNCLEAR;
    return claims ? PRESENCE_THERE : PRESENCE_NOT;
}

static void on_done(void *arg, const struct error *err, const struct http_result *result) {
    struct question *question = arg;
    struct error reason = {.message = ""};
    enum presence presence;

    if (!err) {
        presence = judge(question->claim, result, &reason);
    } else if (err->status == STATUS_CANCELLED) {
        presence = PRESENCE_NOT_ASKED;
    } else {
        reason = *err;
        /* Part of an answer is a sign of life too. */
        presence = result->http_status > 0 ? PRESENCE_UNCLEAR : PRESENCE_SILENT;
    }
    question->done(question->arg, presence, reason.message);
    free(question);
}

void presence_ask(struct http_client *client, const struct own *holder, uint64_t timeout_ms,
                  presence_fn *done, void *arg) {
    struct question *question = allocate(1, sizeof *question);
    char url[RECORD_ADDRESS_MAX + 32];

    memcpy(question->claim, holder->claim, sizeof question->claim);
    question->done = done;
    question->arg = arg;
    /* Nobody listens on port 0: the client refuses that in its own time, from the loop. */
    snprintf(url, sizeof url, "http://%s/v1/status",
             holder->addresses.http[0] ? holder->addresses.http : "127.0.0.1:0");
    http_client_send(client, &(struct http_request){.url = url,
                                                    .timeout_ms = timeout_ms,
                                                    .max_bytes = REPLY_MAX_BYTES,
                                                    .repeatable = true,
                                                    .authorized = true,
                                                    .done = on_done,
                                                    .arg = question});
}
