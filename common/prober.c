#include "common/prober.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/allocate.h"
#include "common/records.h"
#include "common/replies.h"

#define REPLY_MAX_BYTES 4096

struct probe {
    struct http_client *client;
    struct clock clock;
    char url[RECORD_ADDRESS_MAX + 32];
    uint64_t timeout_ms;
    probe_fn *done;
    void *arg;

    struct instant_ns sent; /* of the exchange under way */
    unsigned exchanges;
    struct clock_reading reading;
};

static void ask(struct probe *probe);

static void finish(struct probe *probe) {
    probe->reading.boot_ms = clock_now(&probe->clock).boot_ms;
    probe->done(probe->arg, &probe->reading);
    free(probe);
}

static void on_send(void *arg) {
    struct probe *probe = arg;

    probe->sent = clock_now_ns(&probe->clock);
}

/* Takes one exchange in, if it proves more than those before. */
static void take(struct probe *probe, const struct clock_reply *reply, struct instant_ns returned) {
    struct clock_reading *reading = &probe->reading;
    const struct skew_sample sample = {.sent_ns = probe->sent.wall_ns,
                                       .received_ns = reply->receive_ns,
                                       .answered_ns = reply->transmit_ns,
                                       .returned_ns = returned.wall_ns};
    struct clock_watch watch = {.started = false};
    int64_t moved_ns = (returned.wall_ns - returned.boot_ns) -
                       (probe->sent.wall_ns - probe->sent.boot_ns);
    struct skew skew;

    clock_watch_step(&watch, probe->sent);
    if (clock_watch_step(&watch, returned) != 0 || !skew_of_sample(&sample, &skew))
        return;
    skew.bound_ns += llabs(moved_ns);
    if (!reading->heard || skew.bound_ns < reading->skew.bound_ns)
        reading->skew = skew;
    reading->heard = true;
    reading->synchronized = reply->synchronized;
    reading->knows_error = reply->knows_error;
    reading->max_error_ns = reply->max_error_ns;
    reading->wants_confirmation = reply->wants_confirmation;
}

static void on_done(void *arg, const struct error *err, const struct http_result *result) {
    struct probe *probe = arg;
    struct instant_ns returned = clock_now_ns(&probe->clock);
    struct clock_reading *reading = &probe->reading;
    struct clock_reply reply;
    struct error failure;

    if (err) {
        snprintf(reading->reason, sizeof reading->reason, "%s", err->message);
        finish(probe);
        return;
    }
    if (result->http_status != 200) {
        error_reply_text(result->http_status, result->body, result->body_len, reading->reason,
                         sizeof reading->reason);
        finish(probe);
        return;
    }
    if (clock_reply_parse(result->body, result->body_len, &reply, &failure) != STATUS_OK) {
        snprintf(reading->reason, sizeof reading->reason, "%s", failure.message);
        finish(probe);
        return;
    }
    take(probe, &reply, returned);
    probe->exchanges++;
    if (probe->exchanges ==
        1 + SKEW_PROBES) { /* the first, which may have had to connect, on top */
        if (!reading->heard)
            snprintf(reading->reason, sizeof reading->reason,
                     "the clock was stepped while it was asked");
        finish(probe);
        return;
    }
    ask(probe);
}

static void ask(struct probe *probe) {
    const struct http_request request = {
        .url = probe->url,
        .timeout_ms = probe->timeout_ms,
        .max_bytes = REPLY_MAX_BYTES,
        .repeatable = true,
        .authorized = true,
        .on_send = on_send,
        .done = on_done,
        .arg = probe,
    };

    http_client_send(probe->client, &request);
}

void probe_clock(struct http_client *client, struct clock clock, const char *address,
                 uint64_t timeout_ms, probe_fn *done, void *arg) {
    struct probe *probe = allocate(1, sizeof *probe);

    probe->client = client;
    probe->clock = clock;
    snprintf(probe->url, sizeof probe->url, "http://%s/v1/clock", address);
    probe->timeout_ms = timeout_ms;
    probe->done = done;
    probe->arg = arg;
    ask(probe);
}
