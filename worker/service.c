#include "worker/service.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/decimal.h"
#include "common/mutant.h"

/* What a refusal advises: about as long as the control thread takes to put things right. */
#define RETRY_MS 1000
#define NS_PER_MS UINT64_C(1000000)
/* A clock that is years off is not put right in a second. */
#define RETRY_CLOCK_MS 10000

void service_init(struct service *service, uint64_t max_backward_wait_ms,
                  enum snowflake_start start) {
    *service = (struct service){.max_backward_wait_ms = max_backward_wait_ms, .start = start};
}

void service_tell_clock(struct service *service, const struct service_clock *clock) {
    service->clock = *clock;
}

/* A generation of the same chain: only its claim and its limit are new. */
static void go_on(struct service *service, const struct hold_install *install) {
    struct snowflake *ids = &service->generation.ids;

    assert(install->machine_id == ids->machine_id && install->epoch_ms == ids->epoch_ms);
    if (install->limit_ms > ids->limit_ms)
        ids->limit_ms = install->limit_ms;
}

static void begin(struct service *service, const struct hold_install *install) {
    uint64_t used_up_ms = install->used_up_ms;

    if (MUTANT(START_AT_HORIZON))
        used_up_ms--;
    snowflake_init(&service->generation.ids, install->epoch_ms, install->machine_id, used_up_ms,
                   install->limit_ms, service->start);
    service->serving = true;
    service->fresh = true;
}

void service_install(struct service *service, const struct hold_install *install) {
    if (!install->continues)
        begin(service, install);
    else if (service->serving)
        go_on(service, install);
    else
        return; /* dropped or closed meanwhile: a closed generation never reopens */
    memcpy(service->generation.era, install->era, sizeof service->generation.era);
    memcpy(service->generation.claim, install->claim, sizeof service->generation.claim);
}

void service_raise(struct service *service, const char *claim, uint64_t limit_ms) {
    if (service->serving && strcmp(service->generation.claim, claim) == 0 &&
        limit_ms > service->generation.ids.limit_ms)
        service->generation.ids.limit_ms = limit_ms;
}

void service_drop(struct service *service) {
    service->serving = false;
}

uint64_t service_close(struct service *service) {
    if (!service->serving)
        return 0;
    if (!MUTANT(RELEASE_WHILE_ISSUING))
        service->serving = false;
    return service->generation.ids.last_wall_ms;
}

void service_ids_free(struct service_ids *ids) {
    free(ids->runs);
    free(ids->wide);
    *ids = (struct service_ids){0};
}

void service_add_run(struct service_ids *ids, struct snowflake_run run) {
    if (ids->n_runs == ids->room) {
        ids->room = ids->room ? ids->room * 2 : 4;
        ids->runs = reallocate(ids->runs, ids->room * sizeof *ids->runs);
    }
    ids->runs[ids->n_runs++] = run;
    ids->have += run.count;
}

static enum service_outcome unavailable(struct service_error *err, uint64_t retry_after_ms) {
    err->code = "UNAVAILABLE";
    err->field = NULL;
    err->retry_after_ms = retry_after_ms;
    return SERVICE_FAILED;
}

static enum service_outcome no_generation(struct service_error *err) {
    snprintf(err->message, sizeof err->message, "no machine ID yet");
    return unavailable(err, RETRY_MS);
}

static enum service_outcome starved(const struct snowflake *ids, uint64_t now_ms,
                                    struct service_error *err) {
    snprintf(err->message, sizeof err->message,
             "the time granted to machine ID %u ended %" PRIu64 " ms ago and no more was granted",
             ids->machine_id, now_ms - ids->limit_ms);
    return unavailable(err, RETRY_MS);
}

static enum service_outcome outside_epoch(const struct snowflake *ids, uint64_t now_ms,
                                          struct service_error *err) {
    bool before = now_ms < ids->epoch_ms;
    char now[32], bound[32];

    time_format(now_ms, now);
    time_format(before ? ids->epoch_ms : snowflake_end_ms(ids->epoch_ms), bound);
    snprintf(err->message, sizeof err->message, "the clock says %s, which is %s %s", now,
             before ? "before the epoch" : "past the last time that IDs can carry,", bound);
    return unavailable(err, RETRY_CLOCK_MS);
}

static enum service_outcome uncertain(const struct service_clock *clock,
                                      struct service_error *err) {
    if (clock->knows_error)
        snprintf(err->message, sizeof err->message,
                 "the clock may be %.3f ms off, above --max-clock-error of %.3f ms",
                 (double)clock->error_ns / 1e6, (double)clock->max_error_ns / 1e6);
    else
        snprintf(err->message, sizeof err->message, "the clock's error is not known");
    return unavailable(err, RETRY_MS);
}

/* The strategy `wait`: small steps back are waited out, larger ones are refused until the clock has
 * caught up. */
static enum service_outcome clock_behind(const struct service *service, uint64_t now_ms,
                                         uint64_t *wait_until_ms, struct service_error *err) {
    const struct snowflake *ids = &service->generation.ids;
    /* The newest ID's millisecond, or the next when that is used up. */
    uint64_t usable_ms = ids->last_wall_ms + (ids->sequence == SNOWFLAKE_SEQUENCE_MAX);
    uint64_t behind_ms = ids->last_wall_ms - now_ms;

    if (behind_ms <= service->max_backward_wait_ms) {
        *wait_until_ms = usable_ms;
        return SERVICE_WAIT;
    }
    if (service->fresh)
        snprintf(err->message, sizeof err->message,
                 "machine ID %u can be used in %" PRIu64 " ms: its last holder may have used the "
                 "time up to then",
                 ids->machine_id, usable_ms - now_ms);
    else
        snprintf(err->message, sizeof err->message, "clock is %" PRIu64 " ms behind the last ID",
                 behind_ms);
    return unavailable(err, usable_ms - now_ms);
}

/* What a status other than STATUS_OK means for whoever asks. */
static enum service_outcome judge(const struct service *service, enum status status,
                                  uint64_t now_ms, uint64_t *wait_until_ms,
                                  struct service_error *err) {
    const struct snowflake *ids = &service->generation.ids;

    if (status == STATUS_CLOCK_BACK)
        return clock_behind(service, now_ms, wait_until_ms, err);
    if (status == STATUS_STARVED)
        return starved(ids, now_ms, err);
    if (status == STATUS_CLOCK_RANGE)
        return outside_epoch(ids, now_ms, err);
    assert(status == STATUS_BUSY);
    *wait_until_ms = ids->last_wall_ms + 1;
    return SERVICE_WAIT;
}

static uint64_t whole_ms_up(int64_t ns) {
    return (uint64_t)ns / NS_PER_MS + ((uint64_t)ns % NS_PER_MS != 0);
}

/* The last ID has just been taken, in the millisecond now_ms. */
static void finish(const struct service *service, uint64_t now_ms, struct service_ids *ids) {
    uint64_t first_ms =
        snowflake_decode(ids->runs[0].first, service->generation.ids.epoch_ms).timestamp_ms;
    uint64_t error_ms;

    ids->last_ms = now_ms;
    ids->bounded = service->clock.bounded;
    if (!ids->bounded)
        return;
    assert(service->clock.knows_error && service->clock.error_ns >= 0);
    error_ms = whole_ms_up(service->clock.error_ns);
    ids->earliest_ms = first_ms > error_ms ? first_ms - error_ms : 0;
    ids->latest_ms = now_ms + 1 + error_ms; /* the millisecond may be nearly over */
}

/* UUIDs and ULIDs: whatever became of machine IDs, etcd and the strategy of the clock. */
static enum service_outcome take_wide(struct service *service, uint64_t now_ms,
                                      struct service_ids *ids, uint64_t *wait_until_ms,
                                      struct service_error *err) {
    struct error why;
    enum status status;
    char now[32];
    size_t have;

    if (!ids->wide)
        ids->wide = reallocate(NULL, ids->want * sizeof *ids->wide);
    status = service->wide.take(service->wide.source, ids->kind, now_ms, ids->wide + ids->have,
                                ids->want - ids->have, &have, &why);
    ids->have += (uint32_t)have;
    service->kind_issued_total[ids->kind] += have;
    if (status == STATUS_OK)
        return SERVICE_DONE;
    if (status == STATUS_BUSY) {
        *wait_until_ms = now_ms + 1;
        return SERVICE_WAIT;
    }
    if (status == STATUS_CLOCK_RANGE) {
        time_format(now_ms, now);
        snprintf(err->message, sizeof err->message,
                 "the clock says %s, which is past the last time that a %s can carry", now,
                 id_kind_name(ids->kind));
        return unavailable(err, RETRY_CLOCK_MS);
    }
    snprintf(err->message, sizeof err->message, "no %s can be made: %.140s",
             id_kind_name(ids->kind), why.message);
    return unavailable(err, RETRY_MS);
}

static enum service_outcome take_values(struct service *service, struct service_ids *ids,
                                        struct service_error *err) {
    enum service_outcome outcome;

    if (!service->sequences.take) {
        *err = (struct service_error){
            .code = "FAILED_PRECONDITION",
            .message = "sequences need etcd, and this worker is standalone",
            .field = "kind",
        };
        return SERVICE_FAILED;
    }
    outcome = service->sequences.take(service->sequences.table, ids, err);
    if (outcome == SERVICE_DONE)
        service->kind_issued_total[ids->kind] += ids->have;
    return outcome;
}

enum service_outcome service_take(struct service *service, uint64_t now_ms, struct service_ids *ids,
                                  uint64_t *wait_until_ms, struct service_error *err) {
    struct snowflake_run run;
    enum status status;

    assert(ids->want <= SERVICE_COUNT_MAX && ids->have < ids->want);
    if (ids->kind == ID_SEQUENCE)
        return take_values(service, ids, err);
    if (id_kind_wide(ids->kind))
        return take_wide(service, now_ms, ids, wait_until_ms, err);
    if (!service->serving)
        return no_generation(err);
    if (service->clock.refuses)
        return uncertain(&service->clock, err);
    if (strcmp(ids->claim, service->generation.claim) != 0) {
        ids->have = 0;
        ids->n_runs = 0;
        memcpy(ids->claim, service->generation.claim, sizeof ids->claim);
    }
    /* One millisecond at a time: now_ms is not known to be over. */
    status = snowflake_take(&service->generation.ids, now_ms, ids->want - ids->have, &run);
    if (status == STATUS_OK) {
        service_add_run(ids, run);
        service->issued_total += run.count;
        service->kind_issued_total[ids->kind] += run.count;
        service->fresh = false;
        if (ids->have == ids->want) {
            finish(service, now_ms, ids);
            return SERVICE_DONE;
        }
        status = STATUS_BUSY; /* it gave all that this millisecond had */
    }
    return judge(service, status, now_ms, wait_until_ms, err);
}

bool service_ready(const struct service *service, uint64_t now_ms, struct service_error *err) {
    struct snowflake probe = service->generation.ids;
    struct snowflake_run run;
    uint64_t wait_until_ms;
    enum status status;

    if (!service->serving) {
        no_generation(err);
        return false;
    }
    if (service->clock.refuses) {
        uncertain(&service->clock, err);
        return false;
    }
    status = snowflake_take(&probe, now_ms, 1, &run);
    return status == STATUS_OK ||
           judge(service, status, now_ms, &wait_until_ms, err) == SERVICE_WAIT;
}
