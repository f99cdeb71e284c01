#include "worker/rpc_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "grpc/health/v1/health.pb-c.h"
#include "worker/facts.h"

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;

#define SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

/* The services that can be asked about, and what each needs. */
enum service_need {
    NEED_IDS,  /* as /readyz */
    NEED_LOOP, /* that somebody answers, and no drain */
    NEED_UNKNOWN
};

static enum service_need need_of(const char *service) {
    static const char *const of_loop[] = {
        "snowfleet.v1.ClockService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    };

    if (!service[0] || strcmp(service, "snowfleet.v1.IdService") == 0)
        return NEED_IDS;
    for (size_t i = 0; i < sizeof of_loop / sizeof of_loop[0]; i++) {
        if (strcmp(service, of_loop[i]) == 0)
            return NEED_LOOP;
    }
    return NEED_UNKNOWN;
}

static serving_status look(struct rpc *rpc, enum service_need need) {
    struct worker_view view;
    struct service_error why;
    bool ok = !rpc->draining;

    if (need == NEED_UNKNOWN)
        return SERVICE_UNKNOWN;
    if (need == NEED_IDS) {
        park_look(rpc->config.park);
        ok = facts_ready(rpc->config.board, rpc->config.service, rpc->draining, rpc_now_ms(rpc),
                         &view, &why);
    }
    return ok ? SERVING : NOT_SERVING;
}

static uint8_t *status_message(serving_status status, size_t *len) {
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

    response.status = status;
    return rpc_pack(&response.base, len);
}

/* What is asked about; false when the request is none, and the call has ended. */
static bool read_request(struct grpc_call *call, const uint8_t *bytes, size_t len,
                         enum service_need *need) {
    Grpc__Health__V1__HealthCheckRequest *request = grpc__health__v1__health_check_request__unpack(
        NULL, len, bytes);

    if (!request) {
        grpc_finish(call, GRPC_INTERNAL, "the request is no grpc.health.v1.HealthCheckRequest",
                    GRPC_NO_RETRY);
        return false;
    }
    *need = need_of(request->service);
    grpc__health__v1__health_check_request__free_unpacked(request, NULL);
    return true;
}

void rpc_check(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len) {
    enum service_need need;
    size_t framed_len;
    uint8_t *framed;

    if (!read_request(call, bytes, len, &need))
        return;
    if (need == NEED_UNKNOWN) {
        grpc_finish(call, GRPC_NOT_FOUND, "there is no such service here", GRPC_NO_RETRY);
        return;
    }
    framed = status_message(look(arg, need), &framed_len);
    grpc_answer(call, framed, framed_len);
}

/* ---- Watch ---- */

struct rpc_watcher {
    struct rpc_watcher *prev, *next;
    struct rpc *rpc;
    struct grpc_call *call;
    enum service_need need;
    serving_status told;
    bool sending; /* the client has not taken the last one */
};

static void forget(struct rpc_watcher *watcher) {
    if (watcher->prev)
        watcher->prev->next = watcher->next;
    else
        watcher->rpc->watchers = watcher->next;
    if (watcher->next)
        watcher->next->prev = watcher->prev;
    free(watcher);
}

/* The watcher may be gone afterwards. */
static void tell(struct rpc_watcher *watcher, serving_status status) {
    uint8_t *framed;
    size_t len;

    if (watcher->sending || status == watcher->told)
        return;
    watcher->told = status;
    watcher->sending = true;
    framed = status_message(status, &len);
    if (!grpc_send(watcher->call, framed, len))
        forget(watcher);
}

/* Looked at once for all of them: a hostile client may have made many. */
void rpc_look(struct rpc *rpc) {
    serving_status of[NEED_UNKNOWN + 1];
    struct rpc_watcher *next;

    if (!rpc->watchers)
        return;
    for (int need = 0; need <= NEED_UNKNOWN; need++)
        of[need] = look(rpc, (enum service_need)need);
    for (struct rpc_watcher *watcher = rpc->watchers; watcher; watcher = next) {
        next = watcher->next;
        tell(watcher, of[watcher->need]);
    }
}

static void on_watch_sent(void *user) {
    struct rpc_watcher *watcher = user;

    watcher->sending = false;
    tell(watcher, look(watcher->rpc, watcher->need));
}

static void on_watch_ended(void *user) {
    forget(user);
}

void rpc_watch(void *arg, struct grpc_call *call, const uint8_t *bytes, size_t len) {
    struct rpc *rpc = arg;
    struct rpc_watcher *watcher;
    enum service_need need;

    if (!read_request(call, bytes, len, &need))
        return;
    watcher = allocate(1, sizeof *watcher);
    watcher->rpc = rpc;
    watcher->call = call;
    watcher->need = need;
    watcher->next = rpc->watchers;
    if (watcher->next)
        watcher->next->prev = watcher;
    rpc->watchers = watcher;
    grpc_call_set(call, watcher, on_watch_ended, on_watch_sent);
    tell(watcher, look(rpc, need)); /* told is 0, UNKNOWN, which is never sent */
}
