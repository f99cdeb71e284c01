#include "worker/holder.h"

#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/log.h"

struct holder {
    struct holder_config config;
    struct hold *hold;
    uv_timer_t *timer; /* the loop's once closed */
    bool seeking;
    unsigned revoking;                    /* revocations that etcd has not answered yet */
    struct history_mark mark;             /* of the transaction under way */
    struct hold_view seen;                /* as last logged */
    struct log_repeat trouble, hindrance; /* etcd's, and what etcd says of the cluster */
};

static void pump(struct holder *holder);

static struct instant now_of(const struct holder *holder) {
    return clock_now(&holder->config.clock);
}

/* Before it decides anything. */
static void tell_trust(struct holder *holder) {
    const struct history *history = holder->config.history;

    hold_trust(holder->hold, history->alarm[0]          ? HOLD_WENT_BACK
                             : history_trusted(history) ? HOLD_TRUSTED
                                                        : HOLD_DOUBTED);
}

static void on_granted(void *arg, const struct error *err, int64_t lease_id, int64_t ttl_s) {
    struct holder *holder = arg;

    if (err && err->status == STATUS_CANCELLED)
        return;
    hold_granted(holder->hold, now_of(holder), err, lease_id, ttl_s);
    pump(holder);
}

static void on_kept(void *arg, const struct error *err, int64_t lease_id, int64_t ttl_s) {
    struct holder *holder = arg;

    (void)ttl_s;
    if (err && err->status == STATUS_CANCELLED)
        return;
    if (err && err->status == STATUS_NOT_FOUND)
        log_warn("hold", "the lease is gone", LOG_INT("machine_id", holder->seen.machine_id),
                 LOG_INT("lease_id", lease_id));
    hold_kept(holder->hold, now_of(holder), err, lease_id);
    pump(holder);
}

static void on_answered(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct holder *holder = arg;

    if (err && err->status == STATUS_CANCELLED)
        return;
    if (!err)
        history_answered(holder->config.history, &holder->mark, result->revision);
    tell_trust(holder);
    hold_answered(holder->hold, now_of(holder), err, result);
    pump(holder);
}

/* If it failed, the lease ends by itself. */
static void on_revoked(void *arg, const struct error *err, int64_t lease_id, int64_t ttl_s) {
    struct holder *holder = arg;

    (void)lease_id, (void)ttl_s;
    holder->revoking--;
    if (!err || err->status != STATUS_CANCELLED)
        holder->config.changed(holder->config.arg);
}

static void order(struct holder *holder, enum serving_order_kind kind, const struct hold_act *act) {
    struct serving_order order = {.kind = kind, .install = act->install, .limit_ms = act->limit_ms};

    memcpy(order.claim, act->claim, sizeof order.claim);
    serving_order(holder->config.serving, &order);
}

static void carry_out(struct holder *holder, const struct hold_act *act) {
    const struct etcd *etcd = &holder->config.etcd;

    switch (act->kind) {
    case HOLD_SEEK: holder->seeking = true; break;
    case HOLD_GRANT:
        etcd->lease_grant(etcd->self, act->lease_id, (int64_t)act->ttl_s, on_granted, holder);
        break;
    case HOLD_KEEPALIVE: etcd->lease_keepalive(etcd->self, act->lease_id, on_kept, holder); break;
    case HOLD_REVOKE:
        holder->revoking++;
        etcd->lease_revoke(etcd->self, act->lease_id, on_revoked, holder);
        break;
    case HOLD_TXN:
        holder->mark = history_mark(holder->config.history);
        etcd->txn(etcd->self, act->txn, on_answered, holder);
        break;
    case HOLD_INSTALL: order(holder, SERVING_INSTALL, act); break;
    case HOLD_RAISE: order(holder, SERVING_RAISE, act); break;
    case HOLD_DROP: order(holder, SERVING_DROP, act); break;
    case HOLD_CLOSE: order(holder, SERVING_CLOSE, act); break;
    case HOLD_NOTHING: break;
    }
}

/* What keeps it from claiming is no failure of etcd's. */
static void log_trouble(struct holder *holder, struct instant now) {
    const struct error *err = hold_error(holder->hold);
    const struct hold_view *view = &holder->seen;
    bool hindered = err->message[0] &&
                    (view->phase == HOLD_SEEKING || view->reason == HOLD_NO_META);

    if (hindered)
        log_repeat_failed(&holder->hindrance, now.boot_ms, "hold", "nothing can be claimed now",
                          err->message);
    else
        log_repeat_ended(&holder->hindrance, now.boot_ms, "hold", "machine IDs can be claimed");
    if (err->message[0] && !hindered)
        log_repeat_failed(&holder->trouble, now.boot_ms, "hold", "etcd does not answer as asked",
                          err->message);
    else
        log_repeat_ended(&holder->trouble, now.boot_ms, "hold", "etcd answers again");
}

/* Each move once, with both names. */
static void log_moves(struct holder *holder) {
    const struct hold_view before = holder->seen;
    struct hold_view *view = &holder->seen;
    struct instant now = now_of(holder);

    hold_look(holder->hold, now, view);
    if (view->phase != before.phase)
        log_info("hold", "moved", LOG_STR("from", hold_phase_name(before.phase)),
                 LOG_STR("to", hold_phase_name(view->phase)),
                 LOG_INT("machine_id", view->has_slot ? view->machine_id : before.machine_id),
                 LOG_STR("claim", view->claim[0] ? view->claim : before.claim),
                 LOG_U64("limit_ms", view->limit_ms));
    if (view->resumes_total > before.resumes_total)
        log_info("hold", "resumed without a gap", LOG_INT("machine_id", view->machine_id),
                 LOG_STR("claim", view->claim), LOG_U64("limit_ms", view->limit_ms));
    if (view->reason != before.reason && view->reason == HOLD_ROLLBACK &&
        !holder->config.history->alarm[0]) /* that is logged, and not for each machine ID */
        log_error("hold", "etcd went back in time: no extension, serving to the limit",
                  LOG_INT("machine_id", view->machine_id), LOG_U64("limit_ms", view->limit_ms));
    log_trouble(holder, now);
}

static void on_timer(uv_timer_t *timer) {
    pump(timer->data);
}

static void pump(struct holder *holder) {
    struct instant now = now_of(holder);
    struct hold_act act;

    tell_trust(holder);
    while (hold_next(holder->hold, now, &act) != HOLD_NOTHING)
        carry_out(holder, &act);
    log_moves(holder);
    uv_timer_start(holder->timer, on_timer, act.wake_boot_ms - now.boot_ms, 0);
    holder->config.changed(holder->config.arg);
}

struct holder *holder_new(const struct holder_config *config) {
    struct holder *holder = allocate(1, sizeof *holder);

    holder->config = *config;
    holder->hold = hold_new(&config->hold);
    holder->timer = allocate(1, sizeof *holder->timer);
    uv_timer_init(config->loop, holder->timer);
    holder->timer->data = holder;
    uv_timer_start(holder->timer, on_timer, 0, 0);
    return holder;
}

static void free_handle(uv_handle_t *handle) {
    free(handle);
}

void holder_free(struct holder *holder) {
    if (!holder)
        return;
    uv_close((uv_handle_t *)holder->timer, free_handle);
    hold_free(holder->hold);
    free(holder);
}

/* What comes from outside is acted upon from the loop, so that callers are not called back. */
void holder_kick(struct holder *holder) {
    uv_timer_start(holder->timer, on_timer, 0, 0);
}

void holder_meta(struct holder *holder, const char *value, size_t len) {
    hold_meta(holder->hold, now_of(holder), value, len);
    holder_kick(holder);
}

void holder_ceiling(struct holder *holder, const char *value, size_t len) {
    hold_ceiling(holder->hold, now_of(holder), value, len);
    holder_kick(holder);
}

bool holder_seeking(const struct holder *holder) {
    struct hold_view view;

    hold_look(holder->hold, now_of(holder), &view);
    return holder->seeking && view.phase == HOLD_SEEKING;
}

enum status holder_offer(struct holder *holder, uint16_t machine_id, const char *hor_value,
                         size_t len, struct error *err) {
    enum status status;

    tell_trust(holder);
    status = hold_offer(holder->hold, now_of(holder), machine_id, hor_value, len, err);
    if (status == STATUS_OK)
        holder->seeking = false;
    holder_kick(holder);
    return status;
}

void holder_give_up(struct holder *holder, uint16_t machine_id, const char *claim) {
    hold_give_up(holder->hold, now_of(holder), machine_id, claim);
    holder_kick(holder);
}

void holder_release(struct holder *holder) {
    hold_release(holder->hold, now_of(holder));
    holder_kick(holder);
}

void holder_closed(struct holder *holder, uint64_t last_ms) {
    hold_closed(holder->hold, now_of(holder), last_ms);
    holder_kick(holder);
}

bool holder_gone(const struct holder *holder) {
    struct hold_view view;

    holder_look(holder, &view);
    return view.phase == HOLD_RELEASED && holder->revoking == 0;
}

void holder_look(const struct holder *holder, struct hold_view *view) {
    hold_look(holder->hold, now_of(holder), view);
}

const struct error *holder_error(const struct holder *holder) {
    return hold_error(holder->hold);
}
