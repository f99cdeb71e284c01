#include "worker/park.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/allocate.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

/* In order; *last is where the next one goes. */
struct queue {
    struct park_call *first, **last;
};

struct park {
    struct clock_board *board;
    struct clock clock; /* that of board */
    struct service *service;
    struct queue waiting_ones;
    uint64_t wait_until_ms;  /* of the first of them */
    struct queue wide_ones;  /* UUIDs and ULIDs do not wait for Snowflakes */
    uint64_t wide_until_ms;  /* of the first of those */
    struct queue sequences;  /* for values of sequences, which is not a matter of time */
    struct queue committing; /* they have their IDs, by whose time they are in order */
    uint64_t max_commit_wait_ms;
    uint64_t deadline_boot_ms;   /* the first of theirs; UINT64_MAX: there is none */
    uint64_t committing_last_ms; /* the latest time that was among them */
    size_t waiting;
    struct park_other other; /* take is NULL: nobody */
    int timer_fd;
    uint64_t armed_ms; /* what the timer is set to; 0: it is not */
    uv_poll_t poll;
};

/* On CLOCK_REALTIME, absolute: uv_timer_t counts whole milliseconds of another clock, and misses a
 * tenth of the format's rate by that. */
static void arm(struct park *park, uint64_t wall_ms) {
    struct itimerspec when = {0};
    int64_t at_ns;

    if (park->armed_ms == wall_ms)
        return;
    park->armed_ms = wall_ms;
    at_ns = park->clock.timer_ns(park->clock.self, (int64_t)wall_ms * NS_PER_MS);
    when.it_value = (struct timespec){at_ns / NS_PER_S, at_ns % NS_PER_S};
    if (at_ns <= 0)
        when.it_value = (struct timespec){0, 1}; /* long past; 0 would disarm it */
    /* ECANCELED says that the clock was set at this moment; the timer is armed all the same. */
    if (timerfd_settime(park->timer_fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &when, NULL) !=
            0 &&
        errno != ECANCELED)
        abort(); /* only a bug of ours can be the reason */
}

void park_set_other(struct park *park, const struct park_other *other) {
    park->other = *other;
}

static void queue_leave(struct queue *queue, struct park_call *call) {
    if (queue->last == &call->next)
        queue->last = call->link;
}

void park_leave(struct park *park, struct park_call *call) {
    if (call->lent)
        park->other.leave(park->other.arg, call);
    if (!call->link)
        return;
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
    queue_leave(&park->waiting_ones, call);
    queue_leave(&park->wide_ones, call);
    queue_leave(&park->sequences, call);
    queue_leave(&park->committing, call);
    call->link = NULL;
    park->waiting--;
}

/* at: where it goes, in that queue. */
static void enter(struct park *park, struct queue *queue, struct park_call **at,
                  struct park_call *call) {
    call->next = *at;
    call->link = at;
    if (call->next)
        call->next->link = &call->next;
    else
        queue->last = &call->next;
    *at = call;
    park->waiting++;
}

static const struct service_error client_gone = {
    .code = "CANCELLED",
    .message = "the client went away",
};

/* Only `bounded` has something to say. */
struct effective_now park_look(struct park *park) {
    struct effective_now now = {.effective_ns = 0};

    if (park->board->strategy == CLOCK_BOUNDED) {
        now = clock_board_now(park->board);
        service_tell_clock(park->service,
                           &(struct service_clock){.bounded = true,
                                                   .refuses = now.refuses,
                                                   .knows_error = now.knows_error,
                                                   .error_ns = now.error_ns,
                                                   .max_error_ns = park->board->max_error_ns});
    }
    return now;
}

/* When the true time, within the clock's error, has certainly passed the last of its IDs. */
static int64_t past_at_ns(const struct park_call *call, const struct effective_now *now) {
    return (int64_t)(call->ids.last_ms + 1) * NS_PER_MS + now->error_ns;
}

static void refuse_commit(struct service_error *err, const char *code, const char *why) {
    *err = (struct service_error){.code = code, .field = "commit_wait"};
    snprintf(err->message, sizeof err->message, "%s", why);
}

/* Is it sensible to take IDs for a caller who will wait for their time to be past? */
static bool may_commit(const struct park *park, const struct effective_now *now,
                       struct service_error *err) {
    if (park->board->strategy != CLOCK_BOUNDED) {
        refuse_commit(err, "FAILED_PRECONDITION",
                      "commit_wait needs a worker with --clock-strategy=bounded");
        return false;
    }
    /* What the clock itself is refused for has a better message. */
    if (!now->refuses && now->error_ns / NS_PER_MS >= (int64_t)park->max_commit_wait_ms) {
        *err = (struct service_error){.code = "UNAVAILABLE", .retry_after_ms = 1000};
        snprintf(err->message, sizeof err->message,
                 "commit_wait would take %.3f ms, above --max-commit-wait of %" PRIu64 " ms",
                 (double)now->error_ns / 1e6, park->max_commit_wait_ms);
        return false;
    }
    return true;
}

static const struct service_error commit_too_late = {
    .code = "UNAVAILABLE",
    .message = "the clock did not get past the IDs within --max-commit-wait; they were given up",
    .retry_after_ms = 1000,
};

/* Some have waited long enough.  Seldom: when the clock went back, or its error grew, meanwhile. */
static void give_up_late(struct park *park, uint64_t boot_ms) {
    struct park_call *call;

    do {
        park->deadline_boot_ms = UINT64_MAX;
        for (call = park->committing.first; call && call->deadline_boot_ms > boot_ms;
             call = call->next)
            if (call->deadline_boot_ms < park->deadline_boot_ms)
                park->deadline_boot_ms = call->deadline_boot_ms;
        if (call) {
            park_leave(park, call);
            call->done(call, SERVICE_FAILED, &commit_too_late); /* may take others out */
        }
    } while (call);
}

/* Answers those whose IDs are past; when the next one is due, UINT64_MAX for never. */
static uint64_t serve_committing(struct park *park, const struct effective_now *now) {
    uint64_t boot_ms = (uint64_t)(now->boot_ns / NS_PER_MS);

    while (park->committing.first && now->knows_error &&
           now->effective_ns >= past_at_ns(park->committing.first, now)) {
        struct park_call *call = park->committing.first;

        park_leave(park, call);
        call->done(call, SERVICE_DONE, NULL);
    }
    if (boot_ms >= park->deadline_boot_ms)
        give_up_late(park, boot_ms);
    if (!park->committing.first)
        return UINT64_MAX;
    return (uint64_t)((past_at_ns(park->committing.first, now) + NS_PER_MS - 1) / NS_PER_MS);
}

/* Its IDs are taken: answered, or kept until they are past. */
static void finish(struct park *park, struct park_call *call, const struct effective_now *now) {
    struct park_call **at = park->committing.last;

    if (!call->commit_wait) {
        call->done(call, SERVICE_DONE, NULL);
        return;
    }
    call->deadline_boot_ms = (uint64_t)(now->boot_ns / NS_PER_MS) + park->max_commit_wait_ms;
    if (call->deadline_boot_ms < park->deadline_boot_ms)
        park->deadline_boot_ms = call->deadline_boot_ms;
    /* Later IDs have later times, but for those of another machine ID after the clock went back. */
    if (park->committing_last_ms > call->ids.last_ms)
        for (at = &park->committing.first; *at && (*at)->ids.last_ms <= call->ids.last_ms;
             at = &(*at)->next)
            ;
    else
        park->committing_last_ms = call->ids.last_ms;
    enter(park, &park->committing, at, call);
}

/* There is nothing to issue from here: perhaps another loop has something. */
static void fail(struct park *park, uint64_t now_ms, struct park_call *call,
                 const struct service_error *err) {
    if (id_kind_is_snowflake(call->ids.kind) && !call->stand_in && park->other.take &&
        park->other.take(park->other.arg, call, now_ms))
        return;
    call->done(call, SERVICE_FAILED, err);
}

static void arm_next(struct park *park, uint64_t commit_ms) {
    uint64_t next_ms = commit_ms;

    if (park->waiting_ones.first && park->wait_until_ms < next_ms)
        next_ms = park->wait_until_ms;
    if (park->wide_ones.first && park->wide_until_ms < next_ms)
        next_ms = park->wide_until_ms;
    if (next_ms != UINT64_MAX)
        arm(park, next_ms);
}

static void serve_queue(struct park *park, struct queue *queue, uint64_t *wait_until_ms,
                        uint64_t now_ms, const struct effective_now *now) {
    struct service_error err = {0};
    enum service_outcome outcome;

    while (queue->first) {
        struct park_call *call = queue->first;

        if (call->ids.have == 0 && call->gone && call->gone(call)) {
            park_leave(park, call);
            call->done(call, SERVICE_FAILED, &client_gone);
            continue;
        }
        outcome = service_take(park->service, now_ms, &call->ids, wait_until_ms, &err);
        if (outcome == SERVICE_WAIT)
            break;
        park_leave(park, call);
        if (outcome == SERVICE_DONE)
            finish(park, call, now);
        else
            fail(park, now_ms, call, &err);
    }
}

void park_serve(struct park *park, uint64_t now_ms) {
    struct effective_now now = park_look(park);

    serve_queue(park, &park->waiting_ones, &park->wait_until_ms, now_ms, &now);
    serve_queue(park, &park->wide_ones, &park->wide_until_ms, now_ms, &now);
    arm_next(park, serve_committing(park, &now));
}

/* Takes values of a sequence, or waits behind those who wait for some. */
static void take_values(struct park *park, uint64_t now_ms, struct park_call *call,
                        const struct effective_now *now) {
    struct service_error err = {0};
    uint64_t unused;

    switch (service_take(park->service, now_ms, &call->ids, &unused, &err)) {
    case SERVICE_DONE: finish(park, call, now); break;
    case SERVICE_WAIT: enter(park, &park->sequences, park->sequences.last, call); break;
    case SERVICE_FAILED: fail(park, now_ms, call, &err); break;
    }
}

/* Each of them once, in order: they may wait for different sequences.  New ones may come meanwhile. */
void park_serve_sequences(struct park *park, uint64_t now_ms) {
    struct effective_now now = park_look(park);
    size_t n = 0;

    for (struct park_call *call = park->sequences.first; call; call = call->next)
        n++;
    while (n-- > 0 && park->sequences.first) {
        struct park_call *call = park->sequences.first;

        park_leave(park, call);
        if (call->gone && call->gone(call))
            call->done(call, SERVICE_FAILED, &client_gone);
        else
            take_values(park, now_ms, call, &now);
    }
}

void park_take(struct park *park, uint64_t now_ms, struct park_call *call) {
    struct effective_now now = park_look(park);
    bool wide = id_kind_wide(call->ids.kind);
    struct queue *queue = wide ? &park->wide_ones : &park->waiting_ones;
    uint64_t *wait_until_ms = wide ? &park->wide_until_ms : &park->wait_until_ms;
    struct service_error err = {0};
    enum service_outcome outcome = SERVICE_WAIT;

    if (call->commit_wait && !may_commit(park, &now, &err)) {
        call->done(call, SERVICE_FAILED, &err);
        return;
    }
    if (call->ids.kind == ID_SEQUENCE) {
        take_values(park, now_ms, call, &now);
        return;
    }
    if (!queue->first)
        outcome = service_take(park->service, now_ms, &call->ids, wait_until_ms, &err);
    if (outcome == SERVICE_FAILED)
        fail(park, now_ms, call, &err);
    else if (outcome == SERVICE_WAIT)
        enter(park, queue, queue->last, call);
    else
        finish(park, call, &now);
    if (park->waiting > 0)
        arm_next(park, serve_committing(park, &now));
}

void park_fail(struct park *park, const struct service_error *err) {
    struct park_call *call;

    while ((call = park->waiting_ones.first ? park->waiting_ones.first
                   : park->wide_ones.first  ? park->wide_ones.first
                   : park->sequences.first  ? park->sequences.first
                                            : park->committing.first)) {
        park_leave(park, call);
        call->done(call, SERVICE_FAILED, err);
    }
}

void park_clock_moved(struct park *park) {
    park->armed_ms = 0;
}

size_t park_waiting(const struct park *park) {
    return park->waiting;
}

static void on_timer(uv_poll_t *poll, int status, int events) {
    struct park *park = poll->data;
    uint64_t expirations;

    (void)status;
    (void)events;
    /* It fails with ECANCELED when the clock was set: a wake-up like any other. */
    (void)!read(park->timer_fd, &expirations, sizeof expirations);
    park->armed_ms = 0;
    park_serve(park, clock_now(&park->clock).wall_ms);
}

enum status park_new(uv_loop_t *loop, struct clock_board *board, struct service *service,
                     uint64_t max_commit_wait_ms, struct park **park, struct error *err) {
    struct park *made;
    int fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    int code;

    if (fd < 0)
        return error_set(err, STATUS_SYSTEM, "timerfd_create: %s", strerror(errno));
    made = allocate(1, sizeof *made);
    code = uv_poll_init(loop, &made->poll, fd);
    if (code != 0) {
        error_set(err, STATUS_SYSTEM, "timer descriptor: %s", uv_strerror(code));
        close(fd);
        free(made);
        return err->status;
    }
    made->board = board;
    made->clock = clock_board_clock(board);
    made->max_commit_wait_ms = max_commit_wait_ms;
    made->service = service;
    made->waiting_ones.last = &made->waiting_ones.first;
    made->wide_ones.last = &made->wide_ones.first;
    made->sequences.last = &made->sequences.first;
    made->committing.last = &made->committing.first;
    made->deadline_boot_ms = UINT64_MAX;
    made->timer_fd = fd;
    made->poll.data = made;
    uv_poll_start(&made->poll, UV_READABLE, on_timer);
    *park = made;
    return STATUS_OK;
}

static void on_closed(uv_handle_t *handle) {
    struct park *park = handle->data;

    close(park->timer_fd);
    free(park);
}

void park_close(struct park *park) {
    if (!park)
        return;
    assert(park->waiting == 0);
    uv_close((uv_handle_t *)&park->poll, on_closed);
}
