#include "common/prober.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/allocate.h"
#include "common/records.h"
#include "common/replies.h"

#define REPLY_MAX_BYTES 4096
#define EXCHANGES_MAX (1 + 2 * SKEW_PROBES)
#define COLD_MAX 4
#define DRIFT_PPM 200

struct probe {
    struct http_client *client;
    struct clock clock;
    char url[RECORD_ADDRESS_MAX + 32];
    uint64_t timeout_ms;
    probe_fn *done;
    void *arg;

    struct instant_ns sent;         /* of the exchange under way */
    struct clock_watch here, there; /* our clocks and the other's, all through the probe */
    unsigned kept, warm;            /* exchanges that count; of these over a warm connection */
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

/* By how much wall and boot clock moved against each other. */
static int64_t moved(struct instant_ns from, struct instant_ns to) {
    return llabs((to.wall_ns - to.boot_ns) - (from.wall_ns - from.boot_ns));
}

/* A step of either clock: what was measured before it is of another clock, and of an exchange
 * during it one cannot know which of its times came first. */
static void forget(struct probe *probe) {
    probe->reading.heard = false;
    probe->reading.dropped += probe->kept + 1;
    probe->kept = probe->warm = 0;
}

/* Takes one exchange in, if it proves more than those before.  The first is only where the other's
 * wall and boot clocks are watched from: a step within it would not show. */
static void take(struct probe *probe, const struct clock_reply *reply, struct instant_ns returned,
                 bool warm) {
    struct clock_reading *reading = &probe->reading;
    const struct instant_ns peer = {reply->transmit_ns, reply->boot_ns}, last = reading->peer;
    const struct skew_sample sample = {.sent_ns = probe->sent.wall_ns,
                                       .received_ns = reply->receive_ns,
                                       .answered_ns = reply->transmit_ns,
                                       .returned_ns = returned.wall_ns};
    bool first = !probe->there.started, stepped;
    struct skew skew;

    stepped = clock_watch_step(&probe->here, probe->sent) != 0;
    stepped = (clock_watch_step(&probe->here, returned) != 0) || stepped;
    stepped = (clock_watch_step(&probe->there, peer) != 0) || stepped;
    reading->peer = peer;
    reading->synchronized = reply->synchronized;
    reading->knows_error = reply->knows_error;
    reading->max_error_ns = reply->max_error_ns;
    reading->wants_confirmation = reply->wants_confirmation;
    reading->claim = reply->claim;
    if (first)
        return;
    if (stepped || !skew_of_sample(&sample, &skew)) {
        forget(probe);
        return;
    }
    /* What is too little for a step, and what two clocks may gain on each other meanwhile. */
    skew.bound_ns += moved(probe->sent, returned) + moved(last, peer) +
                     (returned.boot_ns - probe->sent.boot_ns) / 1000 * DRIFT_PPM / 1000 + 1;
    if (!reading->heard || skew.bound_ns < reading->skew.bound_ns) {
        reading->skew = skew;
        reading->sent_boot_ns = probe->sent.boot_ns;
    }
    reading->heard = true;
    probe->kept++;
    probe->warm += warm;
    reading->cold += !warm;
}

/* Eight over a warm connection; a server that closes it after each answer, or a clock that is stepped
 * all the time, is not asked for ever. */
static bool enough(const struct probe *probe) {
    return probe->warm == SKEW_PROBES || probe->kept - probe->warm == COLD_MAX ||
           probe->reading.exchanges == EXCHANGES_MAX;
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
    reading->exchanges++;
    take(probe, &reply, returned, result->reused);
    if (enough(probe)) {
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
