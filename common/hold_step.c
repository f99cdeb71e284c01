#include "common/hold_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/mutant.h"

/* How far a claim or an extension may reach now. */
static uint64_t reach_ms(const struct hold *hold, struct instant now) {
    uint64_t reach = min_u64(now.wall_ms + hold->config.window_ms,
                             snowflake_end_ms(hold->meta.epoch_ms));

    if (hold->ceiling_ms != UINT64_MAX)
        reach = min_u64(reach, hold->ceiling_ms - (hold->ceiling_ms > 0));
    return reach;
}

static void send(struct hold *hold, enum hold_request request, const struct horizon *next,
                 struct hold_act *act) {
    struct hold_txn_params params = {.keys = hold->config.keys,
                                     .instance = hold->config.self->instance,
                                     .machine_id = hold->machine_id,
                                     .meta = hold->meta_text ? hold->meta_text : "",
                                     .known = hold->chain.known,
                                     .lease = hold->fresh_lease};

    free(hold->own_text);
    hold->own_text = hold_own_text(hold, request == HOLD_REQUEST_CLAIM ? next->claim
                                                                       : hold->chain.known.claim);
    params.own = hold->own_text;
    params.next = next ? *next : hold->chain.known; /* a read writes nothing */
    hold_txn_build(&hold->message, request, &params);
    hold->request = request;
    hold->request_value = params.next;
    act->kind = HOLD_TXN;
    act->txn = &hold->message.txn;
}

static void send_read(struct hold *hold, struct hold_act *act) {
    bool plain = !hold->must_read;

    hold->poll = false;
    send(hold, plain ? HOLD_REQUEST_READ_PLAIN : HOLD_REQUEST_READ, NULL, act);
}

static void ask_lease(struct hold *hold, struct hold_act *act) {
    hold->granting = (int64_t)(hold_draw(hold) >> 1 | 1);
    act->kind = HOLD_GRANT;
    act->lease_id = hold->granting;
    act->ttl_s = hold->config.lease_ttl_s;
}

/* Sends a claim under the lease that was granted for it.  h0 is where its slot stands. */
static void send_claim(struct hold *hold, struct instant now, uint64_t h0, struct hold_act *act) {
    struct horizon next = {.horizon_ms = max_u64(h0, reach_ms(hold, now)), .n = 1};
    unsigned char bits[16];

    hold->config.random(hold->config.random_arg, bits, sizeof bits);
    hex128_format(bits, next.claim);
    chain_add_claim(&hold->chain, &next, h0, hold->fresh_lease);
    send(hold, HOLD_REQUEST_CLAIM, &next, act);
    hold->fresh_lease = 0; /* the chain's now */
}

static bool step_claiming(struct hold *hold, struct instant now, struct hold_act *act) {
    struct error err;

    if (hold->trust != HOLD_TRUSTED) {
        hold_give_slot_back(
            hold); /* nothing is issued from it yet: with its lease it goes by itself */
        return false;
    }
    if (hold->must_read) {
        send_read(hold, act);
        return true;
    }
    /* Since it was offered, meta can have changed. */
    if (hold->stopping || hold_may_claim(hold, &err) != STATUS_OK ||
        !meta_usable(&hold->meta, hold->machine_id) || !chain_has_room(&hold->chain)) {
        hold_give_slot_back(hold);
        return false;
    }
    if (hold->meta.floor_ms > now.wall_ms + hold->config.claim_ahead_ms)
        return false; /* only the floor is ahead: wait for it, on this slot */
    if (!hold->fresh_lease) {
        ask_lease(hold, act);
        return true;
    }
    send_claim(hold, now, max_u64(hold->chain.known.horizon_ms, hold->meta.floor_ms), act);
    return true;
}

static uint64_t extend_at_left_ms(const struct hold *hold) {
    return hold->config.window_ms * 2 / 3 + hold->jitter_ms;
}

static bool extension_due(const struct hold *hold, struct instant now) {
    return hold->limit_ms < now.wall_ms + extend_at_left_ms(hold);
}

/* own/ is gone and V(hor) is of our chain: take the slot back without a gap. */
static bool step_resume(struct hold *hold, struct instant now, struct hold_act *act) {
    struct error err;

    if (hold_may_claim(hold, &err) != STATUS_OK) {
        hold_look_again_later(hold, now);
        return false;
    }
    if (!meta_usable(&hold->meta, hold->machine_id) || !chain_has_room(&hold->chain)) {
        /* It was taken out of the range, or there are too many claims of unknown outcome: when the
         * limit is past, another slot is as good. */
        if (now.wall_ms > hold->limit_ms)
            hold_lose(hold);
        else
            hold_look_again_later(hold, now);
        return false;
    }
    if (!hold->fresh_lease) {
        ask_lease(hold, act);
        return true;
    }
    send_claim(hold, now, max_u64(hold->chain.known.horizon_ms, hold->meta.floor_ms), act);
    return true;
}

static bool step_open(struct hold *hold, struct instant now, struct hold_act *act) {
    struct horizon next;

    if (hold->trust != HOLD_TRUSTED)
        return false;
    if (hold->must_read || hold->poll) {
        send_read(hold, act);
        return true;
    }
    if (hold->rollback || hold->hor_missing || hold->own_foreign) {
        hold_look_again_later(hold, now);
        return false;
    }
    if (hold->own_gone)
        return step_resume(hold, now, act);
    hold->no_gain = false;
    if (!extension_due(hold, now))
        return false;
    hold->no_gain = hold->ceiling_missing;
    if (!hold->meta_text || hold->meta.mode == META_FROZEN || hold->ceiling_missing) {
        hold_look_again_later(hold, now);
        return false;
    }
    next = hold->chain.known;
    next.horizon_ms = max_u64(hold->limit_ms, reach_ms(hold, now));
    next.n++;
    if (next.horizon_ms == hold->limit_ms) {
        hold->no_gain = true;
        hold_look_again_later(hold, now);
        return false;
    }
    chain_add_extension(&hold->chain, next.horizon_ms);
    if (MUTANT(RAISE_BEFORE_ANSWER)) {
        hold->limit_ms = next.horizon_ms;
        hold_order_raise(hold, next.horizon_ms);
    }
    send(hold, HOLD_REQUEST_EXTEND, &next, act);
    return true;
}

static bool step_releasing(struct hold *hold, struct hold_act *act) {
    struct horizon next = hold->chain.known;

    if (hold->must_read || hold->poll) {
        hold->must_read = true;
        send_read(hold, act);
        return true;
    }
    next.horizon_ms = hold->closed_last_ms;
    next.n++;
    chain_add_extension(&hold->chain, next.horizon_ms);
    send(hold, HOLD_REQUEST_RELEASE, &next, act);
    return true;
}

static bool step(struct hold *hold, struct instant now, struct hold_act *act) {
    switch (hold->phase) {
    case HOLD_CLAIMING: return step_claiming(hold, now, act);
    case HOLD_OPEN: return step_open(hold, now, act);
    case HOLD_RELEASING: return step_releasing(hold, act);
    case HOLD_SEEKING:
    case HOLD_CLOSING:
    case HOLD_RELEASED:
    case HOLD_HALTED: return false;
    }
    return false;
}

/* When there may be something to do without anything happening; a step of the wall clock is an
 * event of its own. */
static uint64_t wake_boot_ms(const struct hold *hold, struct instant now) {
    uint64_t wake = now.boot_ms + 1000;

    if (hold->lease && !hold->keeping)
        wake = min_u64(wake, hold->keepalive_boot_ms);
    if (hold->retry_boot_ms > now.boot_ms)
        wake = min_u64(wake, hold->retry_boot_ms);
    if (hold->phase == HOLD_OPEN && !extension_due(hold, now))
        wake = min_u64(wake,
                       now.boot_ms + hold->limit_ms - now.wall_ms - extend_at_left_ms(hold) + 1);
    if (hold->phase == HOLD_CLAIMING &&
        hold->meta.floor_ms > now.wall_ms + hold->config.claim_ahead_ms)
        wake = min_u64(wake, now.boot_ms + hold->meta.floor_ms - now.wall_ms -
                                 hold->config.claim_ahead_ms);
    return max_u64(wake, now.boot_ms + 1);
}

static bool take_act(struct hold *hold, struct hold_act *act) {
    if (hold->n_acts == 0)
        return false;
    *act = hold->acts[0];
    hold->n_acts--;
    memmove(hold->acts, hold->acts + 1, hold->n_acts * sizeof hold->acts[0]);
    return true;
}

enum hold_act_kind hold_next(struct hold *hold, struct instant now, struct hold_act *act) {
    memset(act, 0, sizeof *act);
    if (take_act(hold, act))
        return act->kind;
    if (hold->lease && !hold->keeping && now.boot_ms >= hold->keepalive_boot_ms) {
        hold->keeping = hold->lease;
        hold->keepalive_boot_ms = now.boot_ms + hold->config.keepalive_interval_ms;
        act->kind = HOLD_KEEPALIVE;
        act->lease_id = hold->lease;
        return act->kind;
    }
    if (hold->request == HOLD_REQUEST_NONE && hold->granting == 0 &&
        now.boot_ms >= hold->retry_boot_ms) {
        if (step(hold, now, act))
            return act->kind;
        if (take_act(hold, act)) /* the step itself asked for something */
            return act->kind;
    }
    act->kind = HOLD_NOTHING;
    act->wake_boot_ms = wake_boot_ms(hold, now);
    return HOLD_NOTHING;
}

/* ---- views ---- */

const char *hold_phase_name(enum hold_phase phase) {
    static const char *const names[] = {"seeking",   "claiming", "open",  "closing",
                                        "releasing", "released", "halted"};

    return names[phase];
}

const char *hold_reason_name(enum hold_reason reason) {
    static const char *const names[] = {
        "",         "meta missing",    "horizon missing", "frozen", "floor",
        "horizon",  "ceiling",         "window",          "etcd",   "etcd out of space",
        "rollback", "own key changed", "give up",         "era"};

    return names[reason];
}

static enum hold_reason reason_of(const struct hold *hold, struct instant now) {
    if (hold->phase == HOLD_HALTED)
        return HOLD_FOREIGN_ERA;
    if (hold->rollback || hold->trust == HOLD_WENT_BACK)
        return HOLD_ROLLBACK;
    if (hold->meta_missing)
        return HOLD_NO_META;
    if (hold->hor_missing)
        return HOLD_NO_HORIZON;
    if (hold->giving_up)
        return HOLD_GIVE_UP;
    if (hold->meta_text && hold->meta.mode == META_FROZEN)
        return HOLD_FROZEN;
    if (hold->error.status == STATUS_NO_SPACE)
        return HOLD_NO_SPACE;
    if (hold->failures > 0 && hold->error.status != STATUS_OK)
        return HOLD_NO_ETCD;
    if (hold->own_foreign)
        return HOLD_FOREIGN_OWN;
    if (hold->meta_text && hold->config.window_ms > hold->meta.max_window_ms)
        return HOLD_WINDOW;
    if (hold->phase == HOLD_CLAIMING && hold->meta_text &&
        hold->meta.floor_ms > now.wall_ms + hold->config.claim_ahead_ms)
        return HOLD_FLOOR;
    if (hold->phase == HOLD_OPEN && now.wall_ms <= hold->h0)
        return hold->meta_text && hold->h0 == hold->meta.floor_ms ? HOLD_FLOOR : HOLD_AHEAD;
    if (hold->no_gain)
        return HOLD_CEILING;
    return HOLD_FINE;
}

static uint64_t highest_pending_ms(const struct chain *chain) {
    uint64_t highest = chain->extension_pending ? chain->extension_max_ms : 0;

    for (size_t i = 0; i < chain->n_claims; i++)
        highest = max_u64(highest, chain->claims[i].value.horizon_ms);
    return highest;
}

void hold_look(const struct hold *hold, struct instant now, struct hold_view *view) {
    memset(view, 0, sizeof *view);
    view->phase = hold->phase;
    view->reason = reason_of(hold, now);
    view->has_generation = hold_has_generation(hold);
    view->lost_slot = view->has_generation && hold->own_gone;
    view->has_slot = view->has_generation || hold->phase == HOLD_CLAIMING;
    memcpy(view->era, hold->era, sizeof view->era);
    view->ceiling_ms = hold->ceiling_ms == UINT64_MAX ? 0 : hold->ceiling_ms;
    if (view->has_slot) {
        view->machine_id = hold->machine_id;
        view->horizon_ms = hold->chain.known.horizon_ms;
        view->pending = hold->chain.n_claims + (hold->chain.extension_pending ? 1 : 0);
        view->pending_ms = highest_pending_ms(&hold->chain);
    }
    if (view->has_generation) {
        memcpy(view->claim, hold->chain.known.claim, sizeof view->claim);
        view->used_up_ms = hold->h0;
        view->limit_ms = hold->limit_ms;
    }
    view->extensions_total = hold->extensions_total;
    view->resumes_total = hold->resumes_total;
    view->lost_total = hold->lost_total;
    view->unknown_total = hold->unknown_total;
    view->claims_total = hold->claims_total;
}

const struct error *hold_error(const struct hold *hold) {
    return &hold->error;
}
