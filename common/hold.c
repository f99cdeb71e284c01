#include "common/hold_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/mutant.h"

uint64_t hold_draw(struct hold *hold) {
    uint64_t value;

    hold->config.random(hold->config.random_arg, &value, sizeof value);
    return value;
}

uint64_t hold_draw_below(struct hold *hold, uint64_t bound) {
    return bound ? hold_draw(hold) % bound : 0;
}

struct hold_act *hold_say(struct hold *hold, enum hold_act_kind kind) {
    struct hold_act *act;

    assert(hold->n_acts < ACTS_MAX);
    act = &hold->acts[hold->n_acts++];
    memset(act, 0, sizeof *act);
    act->kind = kind;
    return act;
}

void hold_revoke(struct hold *hold, int64_t lease) {
    if (lease)
        hold_say(hold, HOLD_REVOKE)->lease_id = lease;
}

void hold_revoke_claims(struct hold *hold) {
    for (size_t i = 0; i < hold->chain.n_claims; i++) {
        hold_revoke(hold, hold->chain.claims[i].lease);
        hold->chain.claims[i].lease = 0;
    }
}

static void succeeded(struct hold *hold) {
    hold->failures = 0;
    hold->error.message[0] = '\0';
    hold->error.status = STATUS_OK;
}

void hold_failed(struct hold *hold, struct instant now, const struct error *err) {
    uint64_t pause = hold->config.retry_max_ms;

    if (hold->failures < 16)
        pause = min_u64(pause, hold->config.retry_min_ms << hold->failures);
    hold->failures++;
    hold->retry_boot_ms = now.boot_ms + pause - hold_draw_below(hold, pause / 4 + 1);
    hold->error = *err;
}

void hold_look_again_later(struct hold *hold, struct instant now) {
    hold->poll = true;
    hold->retry_boot_ms = now.boot_ms + hold->config.retry_max_ms -
                          hold_draw_below(hold, hold->config.retry_max_ms / 4 + 1);
}

enum status hold_may_claim(const struct hold *hold, struct error *err) {
    if (hold->trust == HOLD_WENT_BACK)
        return error_set(err, STATUS_UNAVAILABLE, "etcd's history went back");
    if (hold->trust == HOLD_DOUBTED)
        return error_set(err, STATUS_UNAVAILABLE, "etcd's history may have gone back");
    if (!hold->meta_text)
        return error_set(err, STATUS_UNAVAILABLE, "meta is missing or unreadable");
    if (hold->meta.mode == META_FROZEN)
        return error_set(err, STATUS_UNAVAILABLE, "the cluster is frozen: %s", hold->meta.reason);
    if (hold->ceiling_missing)
        return error_set(err, STATUS_UNAVAILABLE, "ceil is missing or unreadable");
    if (hold->config.window_ms > hold->meta.max_window_ms)
        return error_set(err, STATUS_UNAVAILABLE,
                         "--window is %" PRIu64 " ms, the cluster allows at most %" PRIu64 " ms",
                         hold->config.window_ms, hold->meta.max_window_ms);
    return STATUS_OK;
}

/* ---- moves ---- */

/* Lets go of everything that belonged to a slot; what is under way no longer counts. */
static void clear_slot(struct hold *hold) {
    hold->request_abandoned = hold->request != HOLD_REQUEST_NONE;
    hold_revoke_claims(hold);
    hold_revoke(hold, hold->fresh_lease);
    hold_revoke(hold, hold->lease);
    memset(&hold->chain, 0, sizeof hold->chain);
    hold->lease = hold->fresh_lease = 0;
    hold->claim_tries = 0;
    hold->must_read = hold->poll = false;
    hold->own_gone = hold->own_foreign = hold->hor_missing = hold->rollback = false;
    hold->no_gain = hold->giving_up = hold->doomed = false;
    hold->limit_ms = hold->h0 = hold->closed_last_ms = 0;
}

/* After a slot was let go of. */
static void go_on_without_slot(struct hold *hold) {
    if (hold->stopping) {
        hold->phase = HOLD_RELEASED;
    } else {
        hold->phase = HOLD_SEEKING;
        hold_say(hold, HOLD_SEEK);
    }
}

void hold_give_slot_back(struct hold *hold) {
    clear_slot(hold);
    go_on_without_slot(hold);
}

static void drop(struct hold *hold) {
    hold_say(hold, HOLD_DROP);
    clear_slot(hold);
    hold->lost_total++;
}

void hold_lose(struct hold *hold) {
    if (hold->phase == HOLD_CLOSING) {
        hold->doomed = true; /* the loop's answer must not be taken for that of a later close */
        return;
    }
    drop(hold);
    go_on_without_slot(hold);
}

void hold_close(struct hold *hold) {
    hold->phase = HOLD_CLOSING;
    hold_say(hold, HOLD_CLOSE);
}

void hold_slot_released(struct hold *hold) {
    hold_say(hold, HOLD_DROP); /* it is closed: the loop only forgets it */
    clear_slot(hold);
    go_on_without_slot(hold);
}

static void order_install(struct hold *hold, bool continues) {
    struct hold_install *install;

    if (hold->phase != HOLD_OPEN)
        return; /* a closed generation never reopens */
    install = &hold_say(hold, HOLD_INSTALL)->install;
    install->continues = continues;
    memcpy(install->era, hold->era, sizeof install->era);
    memcpy(install->claim, hold->chain.known.claim, sizeof install->claim);
    install->machine_id = hold->machine_id;
    install->epoch_ms = hold->meta.epoch_ms;
    install->used_up_ms = hold->h0;
    install->limit_ms = hold->limit_ms;
}

void hold_order_raise(struct hold *hold, uint64_t limit_ms) {
    struct hold_act *act;

    if (hold->phase != HOLD_OPEN)
        return;
    act = hold_say(hold, HOLD_RAISE);
    memcpy(act->claim, hold->chain.known.claim, sizeof act->claim);
    act->limit_ms = limit_ms;
}

void hold_opened(struct hold *hold, struct instant now, size_t index) {
    struct chain_claim claim = hold->chain.claims[index];
    bool first = hold->phase == HOLD_CLAIMING;

    hold->chain.claims[index].lease = 0; /* stays */
    hold_revoke_claims(hold);
    hold_revoke(hold, hold->lease);
    chain_confirm(&hold->chain, &claim.value);
    hold->lease = claim.lease;
    hold->own_gone = false;
    hold->keepalive_boot_ms = now.boot_ms + hold->config.keepalive_interval_ms;
    hold->jitter_ms = hold_draw_below(hold, hold->config.window_ms / 10 + 1);
    assert(MUTANT_BUILD || claim.value.horizon_ms >= hold->limit_ms);
    hold->limit_ms = claim.value.horizon_ms;
    if (!first) {
        hold->resumes_total++;
        order_install(hold, true);
        return;
    }
    hold->claims_total++;
    hold->h0 = claim.h0;
    if (hold->stopping) { /* asked to go while the claim was under way: straight back */
        hold->phase = HOLD_RELEASING;
        hold->closed_last_ms = hold->h0;
    } else {
        hold->phase = HOLD_OPEN;
        order_install(hold, false);
    }
}

void hold_extended(struct hold *hold, const struct horizon *value) {
    bool rises = value->horizon_ms > hold->limit_ms;

    hold_revoke_claims(hold); /* they can no longer land */
    chain_confirm(&hold->chain, value);
    hold->extensions_total++;
    hold->jitter_ms = hold_draw_below(hold, hold->config.window_ms / 10 + 1);
    if (rises) {
        hold->limit_ms = value->horizon_ms;
        hold_order_raise(hold, hold->limit_ms);
    }
}

/* ---- events ---- */

static void set_text(char **slot, const char *text, size_t len) {
    free(*slot);
    *slot = NULL;
    if (text && !(*slot = strndup(text, len)))
        abort();
}

struct hold *hold_new(const struct hold_config *config) {
    struct hold *hold = calloc(1, sizeof *hold);

    if (!hold)
        abort();
    hold->config = *config;
    hold->ceiling_ms = UINT64_MAX;
    go_on_without_slot(hold);
    return hold;
}

void hold_free(struct hold *hold) {
    if (!hold)
        return;
    free(hold->meta_text);
    free(hold->own_text);
    free(hold);
}

/* meta names another era than the one this process lives in. */
static void other_era(struct hold *hold) {
    bool follows_ours = meta_earlier_era(&hold->meta, hold->era);

    if (hold->phase == HOLD_CLOSING) {
        hold->doomed = true;
        return;
    }
    if (hold_has_generation(hold))
        drop(hold);
    else
        clear_slot(hold);
    if (!follows_ours) {
        hold->phase = hold->stopping ? HOLD_RELEASED : HOLD_HALTED;
        return;
    }
    memcpy(hold->era, hold->meta.era, sizeof hold->era);
    if (hold->phase != HOLD_SEEKING) /* else the search goes on */
        go_on_without_slot(hold);
}

static bool foreign_era(const struct hold *hold) {
    return hold->meta_text && strcmp(hold->era, hold->meta.era) != 0;
}

void hold_meta(struct hold *hold, struct instant now, const char *value, size_t len) {
    struct meta meta;

    (void)now;
    if (hold->meta_text && value && strlen(hold->meta_text) == len &&
        memcmp(hold->meta_text, value, len) == 0)
        return;
    if (!value || meta_parse(value, len, &meta, &hold->error) != STATUS_OK) {
        set_text(&hold->meta_text, NULL, 0);
        hold->meta_missing = true;
        return;
    }
    hold->meta_missing = false;
    set_text(&hold->meta_text, value, len);
    hold->meta = meta;
    if (!hold->era[0])
        memcpy(hold->era, meta.era, sizeof hold->era);
    if (hold->phase == HOLD_RELEASED)
        return;
    if (foreign_era(hold))
        other_era(hold);
    else if (hold->phase == HOLD_HALTED)
        go_on_without_slot(hold);
}

void hold_ceiling(struct hold *hold, struct instant now, const char *value, size_t len) {
    uint64_t ceiling_ms;

    (void)now;
    hold->ceiling_missing = !value || !ceiling_parse(value, len, &ceiling_ms);
    if (!hold->ceiling_missing)
        hold->ceiling_ms = ceiling_ms;
}

void hold_trust(struct hold *hold, enum hold_trust trust) {
    hold->trust = trust;
}

enum status hold_offer(struct hold *hold, struct instant now, uint16_t machine_id,
                       const char *hor_value, size_t len, struct error *err) {
    struct horizon found;
    enum status status;

    assert(hold->phase == HOLD_SEEKING);
    status = hold_may_claim(hold, err);
    if (status != STATUS_OK) {
        hold->error = *err;
        return status;
    }
    if (!meta_usable(&hold->meta, machine_id))
        return error_set(err, STATUS_REFUSED, "machine ID %u is out of range or reserved",
                         machine_id);
    if (!horizon_parse(hor_value, len, &found))
        return error_set(err, STATUS_REFUSED, "the horizon of machine ID %u is unreadable",
                         machine_id);
    if (found.horizon_ms > now.wall_ms + hold->config.claim_ahead_ms)
        return error_set(err, STATUS_REFUSED,
                         "the horizon of machine ID %u is %" PRIu64 " ms ahead, over %" PRIu64
                         " ms",
                         machine_id, found.horizon_ms - now.wall_ms, hold->config.claim_ahead_ms);
    if (hold->ceiling_ms <= max_u64(found.horizon_ms, hold->meta.floor_ms))
        return error_set(err, STATUS_REFUSED,
                         "the ceiling is not above the horizon of machine ID %u", machine_id);
    chain_start(&hold->chain, &found);
    hold->machine_id = machine_id;
    hold->failures = 0;
    hold->phase = HOLD_CLAIMING;
    return STATUS_OK;
}

void hold_granted(struct hold *hold, struct instant now, const struct error *err, int64_t lease_id,
                  int64_t ttl_s) {
    (void)ttl_s;
    if (hold->granting == 0)
        return;
    if (err) {
        /* If it was granted after all, nobody renews it. */
        if (err->status == STATUS_UNKNOWN || err->status == STATUS_EXISTS)
            hold_revoke(hold, hold->granting);
        hold->granting = 0;
        hold_failed(hold, now, err);
        return;
    }
    hold->granting = 0;
    if (hold->phase == HOLD_CLAIMING || (hold->phase == HOLD_OPEN && hold->own_gone)) {
        succeeded(hold);
        hold->fresh_lease = lease_id;
    } else {
        hold_revoke(hold, lease_id);
    }
}

void hold_kept(struct hold *hold, struct instant now, const struct error *err, int64_t lease_id) {
    if (hold->keeping != lease_id)
        return;
    hold->keeping = 0;
    if (lease_id != hold->lease || !err)
        return;
    if (err->status == STATUS_NOT_FOUND) {
        hold->lease = 0;
        hold->must_read = true; /* own/ went with it: see what became of the slot */
    } else {
        hold->keepalive_boot_ms = now.boot_ms + min_u64(hold->config.retry_max_ms,
                                                        hold->config.keepalive_interval_ms) /
                                                    2;
    }
}

static void answered_failure(struct hold *hold, struct instant now, enum hold_request request,
                             const struct error *err) {
    bool write = request != HOLD_REQUEST_READ && request != HOLD_REQUEST_READ_PLAIN;

    if (err->status != STATUS_UNKNOWN && err->status != STATUS_CANCELLED) {
        /* Surely not done; a claim that was never even sent need not be remembered. */
        if (request == HOLD_REQUEST_CLAIM && err->status == STATUS_UNAVAILABLE) {
            hold->fresh_lease = hold->chain.claims[hold->chain.n_claims - 1].lease;
            chain_forget_claim(&hold->chain);
        }
        hold_revoke_claims(hold);
        hold_failed(hold, now, err);
        return;
    }
    hold_failed(hold, now, err);
    if (!write)
        return;
    hold->unknown_total++;
    hold->must_read = true;
    hold->retry_boot_ms = now.boot_ms; /* look first, and at once */
    if (MUTANT(TIMEOUT_IS_SUCCESS) && request == HOLD_REQUEST_CLAIM)
        hold_opened(hold, now, hold->chain.n_claims - 1);
    if (MUTANT(TIMEOUT_IS_SUCCESS) && request == HOLD_REQUEST_EXTEND)
        hold_extended(hold, &hold->request_value);
    if (MUTANT(REOPEN_AFTER_RELEASE) && request == HOLD_REQUEST_RELEASE) {
        hold->phase = HOLD_OPEN;
        hold->h0 = hold->closed_last_ms;
        order_install(hold, false);
    }
}

void hold_answered(struct hold *hold, struct instant now, const struct error *err,
                   const struct etcd_txn_result *result) {
    enum hold_request request = hold->request;
    bool ours = !hold->request_abandoned;
    struct error disbelieved;

    assert(request != HOLD_REQUEST_NONE);
    hold->request = HOLD_REQUEST_NONE;
    hold->request_abandoned = false;
    if (!ours)
        return;
    if (!err && hold->trust != HOLD_TRUSTED && hold->phase != HOLD_RELEASING) {
        error_set(&disbelieved, STATUS_UNKNOWN, "an answer of an etcd whose history is in doubt");
        err = &disbelieved;
    }
    if (err) {
        answered_failure(hold, now, request, err);
        return;
    }
    succeeded(hold);
    hold->retry_boot_ms = now.boot_ms;
    if (!result->succeeded || request == HOLD_REQUEST_READ || request == HOLD_REQUEST_READ_PLAIN) {
        hold_read(hold, now, result, request);
        return;
    }
    if (request == HOLD_REQUEST_RELEASE) {
        hold_slot_released(hold);
        return;
    }
    if (request == HOLD_REQUEST_CLAIM)
        hold_opened(hold, now, hold->chain.n_claims - 1); /* the newest is the one that was sent */
    else
        hold_extended(hold, &hold->request_value);
    if (result->n_results > 0 && result->results[result->n_results - 1].n_kvs > 0) {
        const struct etcd_kv *ceil = &result->results[result->n_results - 1].kvs[0];

        hold_ceiling(hold, now, ceil->value, ceil->value_len);
    }
}

void hold_give_up(struct hold *hold, struct instant now, uint16_t machine_id, const char *claim) {
    (void)now;
    if (hold->phase != HOLD_OPEN || machine_id != hold->machine_id ||
        strcmp(claim, hold->chain.known.claim) != 0)
        return;
    hold->giving_up = true;
    hold_close(hold);
}

void hold_release(struct hold *hold, struct instant now) {
    (void)now;
    hold->stopping = true;
    switch (hold->phase) {
    case HOLD_OPEN: hold_close(hold); break;
    case HOLD_CLAIMING:
        /* A claim that may have landed is seen through, so that the slot can be handed back. */
        if (!chain_pending(&hold->chain))
            hold_give_slot_back(hold);
        break;
    case HOLD_SEEKING:
    case HOLD_HALTED: hold->phase = HOLD_RELEASED; break;
    case HOLD_CLOSING:
    case HOLD_RELEASING:
    case HOLD_RELEASED: break;
    }
}

void hold_closed(struct hold *hold, struct instant now, uint64_t last_ms) {
    if (hold->phase != HOLD_CLOSING)
        return;
    hold->phase = HOLD_RELEASING;
    if (hold->doomed) {
        if (foreign_era(hold))
            other_era(hold);
        else
            hold_lose(hold);
        return;
    }
    hold->closed_last_ms = max_u64(last_ms, hold->h0);
    assert(MUTANT_BUILD || hold->closed_last_ms <= hold->limit_ms || last_ms < hold->h0);
    hold->retry_boot_ms = now.boot_ms;
    hold->must_read = hold->must_read || chain_pending(&hold->chain);
}
