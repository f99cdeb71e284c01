#include "coordinator/pulse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/replies.h"

#define AT_A_TIME 4u /* the clocks go first */
#define TIMEOUT_MS 1000u
#define SOON_MS 2000u
#define REPLY_MAX_BYTES (1u << 20)

struct pulse {
    struct pulse_config config;
    unsigned asking;
};

struct question {
    struct pulse *pulse;
    struct member *member;
    uint64_t asked_boot_ms;
};

struct pulse *pulse_new(const struct pulse_config *config) {
    struct pulse *pulse = allocate(1, sizeof *pulse);

    pulse->config = *config;
    return pulse;
}

void pulse_free(struct pulse *pulse) {
    free(pulse);
}

static struct pulse_reading read_answer(const struct http_result *result) {
    struct pulse_reading reading = {.heard = false};
    struct error unreadable;

    reading.heard = result->http_status == 200 &&
                    status_reply_parse(result->body, result->body_len, &reading.said,
                                       &unreadable) == STATUS_OK;
    return reading;
}

static void on_answer(void *arg, const struct error *err, const struct http_result *result) {
    struct question *question = arg;
    struct pulse *pulse = question->pulse;
    struct member *member = question->member;
    const struct pulse_reading *before = &member->pulse;
    struct pulse_reading reading = {.heard = false};

    if (!err)
        reading = read_answer(result);
    reading.boot_ms = question->asked_boot_ms;
    /* A member is one incarnation of a worker, so its counters only grow. */
    if (reading.heard && before->heard && reading.boot_ms > before->boot_ms &&
        reading.said.issued_total >= before->said.issued_total) {
        reading.has_rate = true;
        reading.rate_per_s = (double)(reading.said.issued_total - before->said.issued_total) *
                             1000.0 / (double)(reading.boot_ms - before->boot_ms);
    }
    member->pulse = reading;
    member->asking_pulse = false;
    pulse->asking--;
    member->busy--;
    cluster_release(pulse->config.cluster, member);
    free(question);
}

static void ask(struct pulse *pulse, struct member *member, uint64_t now) {
    struct question *question = allocate(1, sizeof *question);
    char url[RECORD_ADDRESS_MAX + 32];

    *question = (struct question){pulse, member, now};
    pulse->asking++;
    member->busy++;
    member->asking_pulse = true;
    snprintf(url, sizeof url, "http://%s/v1/status", member->node.addresses.http);
    http_client_send(pulse->config.client, &(struct http_request){.url = url,
                                                                  .timeout_ms = TIMEOUT_MS,
                                                                  .max_bytes = REPLY_MAX_BYTES,
                                                                  .repeatable = true,
                                                                  .authorized = true,
                                                                  .done = on_answer,
                                                                  .arg = question});
}

/* One that does not serve, or has only begun to be counted, is looked at again soon. */
static uint64_t interval_ms(const struct pulse *pulse, const struct pulse_reading *last) {
    bool settled = last->heard && last->has_rate && strcmp(last->said.state, "SERVING") == 0;

    return settled || pulse->config.interval_ms < SOON_MS ? pulse->config.interval_ms : SOON_MS;
}

static bool due(const struct pulse *pulse, const struct member *member, uint64_t now) {
    return member->has_node && member->reading.heard && member->node.addresses.http[0] &&
           !member->asking_pulse &&
           (member->pulse.boot_ms == 0 ||
            now - member->pulse.boot_ms >= interval_ms(pulse, &member->pulse));
}

void pulse_tick(struct pulse *pulse) {
    const struct cluster *cluster = pulse->config.cluster;
    uint64_t now = clock_now(&pulse->config.clock).boot_ms;

    for (size_t i = 0; i < cluster->n_members && pulse->asking < AT_A_TIME; i++) {
        if (due(pulse, cluster->members[i], now))
            ask(pulse, cluster->members[i], now);
    }
}
