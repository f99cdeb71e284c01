#include "worker/park.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/allocate.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

struct park {
    const struct clock *clock;
    struct service *service;
    struct park_call *first, **last; /* a queue; *last is where the next one goes */
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
    at_ns = park->clock->timer_ns(park->clock->self, (int64_t)wall_ms * NS_PER_MS);
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

void park_leave(struct park *park, struct park_call *call) {
    if (call->lent)
        park->other.leave(park->other.arg, call);
    if (!call->link)
        return;
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
    else
        park->last = call->link;
    call->link = NULL;
    park->waiting--;
}

static struct park_call *pop(struct park *park) {
    struct park_call *call = park->first;

    park_leave(park, call);
    return call;
}

static void push(struct park *park, struct park_call *call) {
    call->next = NULL;
    call->link = park->last;
    *park->last = call;
    park->last = &call->next;
    park->waiting++;
}

static const struct service_error client_gone = {
    .code = "CANCELLED",
    .message = "the client went away",
};

static void finish(struct park *park, uint64_t now_ms, struct park_call *call,
                   enum service_outcome outcome, const struct service_error *err) {
    if (outcome == SERVICE_FAILED && !call->stand_in && park->other.take &&
        park->other.take(park->other.arg, call, now_ms))
        return;
    call->done(call, outcome, err);
}

void park_serve(struct park *park, uint64_t now_ms) {
    struct service_error err = {0};
    enum service_outcome outcome;
    uint64_t wait_until_ms;

    while (park->first) {
        struct park_call *call = park->first;

        if (call->ids.have == 0 && call->gone && call->gone(call)) {
            pop(park);
            call->done(call, SERVICE_FAILED, &client_gone);
            continue;
        }
        outcome = service_take(park->service, now_ms, &call->ids, &wait_until_ms, &err);
        if (outcome == SERVICE_WAIT) {
            arm(park, wait_until_ms);
            return;
        }
        pop(park);
        finish(park, now_ms, call, outcome, &err);
    }
}

void park_take(struct park *park, uint64_t now_ms, struct park_call *call) {
    struct service_error err = {0};
    enum service_outcome outcome = SERVICE_WAIT;
    uint64_t wait_until_ms;

    if (!park->first) {
        outcome = service_take(park->service, now_ms, &call->ids, &wait_until_ms, &err);
        if (outcome == SERVICE_WAIT)
            arm(park, wait_until_ms);
    }
    if (outcome == SERVICE_WAIT)
        push(park, call);
    else
        finish(park, now_ms, call, outcome, &err);
}

void park_fail(struct park *park, const struct service_error *err) {
    while (park->first) {
        struct park_call *call = pop(park);

        call->done(call, SERVICE_FAILED, err);
    }
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
    park_serve(park, clock_now(park->clock).wall_ms);
}

enum status park_new(uv_loop_t *loop, const struct clock *clock, struct service *service,
                     struct park **park, struct error *err) {
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
    made->clock = clock;
    made->service = service;
    made->last = &made->first;
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
    assert(!park->first);
    uv_close((uv_handle_t *)&park->poll, on_closed);
}
