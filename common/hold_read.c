#include "common/hold_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/mutant.h"

#define CLAIM_TRIES_MAX 3 /* of one slot, when meta or the ceiling moved under the claim */

static const struct etcd_kv *read_kv(const struct etcd_txn_result *result, enum hold_read which) {
    const struct etcd_op_result *op = &result->results[which];

    return op->n_kvs ? &op->kvs[0] : NULL;
}

char *hold_own_text(const struct hold *hold, const char *claim) {
    struct own own = *hold->config.self;
    char *text;

    memcpy(own.claim, claim, sizeof own.claim);
    text = own_format(&own);
    if (!text)
        abort();
    return text;
}

static bool own_is_mine(const struct hold *hold, const struct etcd_kv *kv) {
    char *mine = hold_own_text(hold, hold->chain.known.claim);
    bool same = strlen(mine) == kv->value_len && memcmp(mine, kv->value, kv->value_len) == 0;

    free(mine);
    return same;
}

static bool ordered_to_give_up(const struct hold *hold, const struct etcd_kv *kv) {
    struct assign assign;
    struct error ignored;

    if (!kv || assign_parse(kv->value, kv->value_len, &assign, &ignored) != STATUS_OK)
        return false;
    for (size_t i = 0; i < assign.n_give_up; i++)
        if (assign.give_up[i].machine_id == hold->machine_id &&
            strcmp(assign.give_up[i].claim, hold->chain.known.claim) == 0)
            return true;
    return false;
}

/* A first claim of unknown outcome, or one that etcd refused. */
static void look_claiming(struct hold *hold, struct instant now, const struct horizon *seen,
                          bool own_there, bool after_read) {
    size_t index = 0;

    switch (chain_match(&hold->chain, seen, &index)) {
    case CHAIN_CLAIM:
        hold_opened(hold, now, index);
        hold->own_gone = !own_there;
        return;
    case CHAIN_KNOWN:
        /* Not landed so far.  After an unknown outcome it is given up: with its lease revoked, a
         * late copy cannot keep the slot.  If etcd refused it, meta or the ceiling had moved, and
         * they are known now. */
        hold_revoke_claims(hold);
        if (after_read || own_there || ++hold->claim_tries > CLAIM_TRIES_MAX)
            hold_give_slot_back(hold);
        return;
    case CHAIN_EXTENSION:
    case CHAIN_OLDER:
    case CHAIN_FOREIGN: hold_give_slot_back(hold);
    }
}

static void look_own(struct hold *hold, struct instant now, const struct etcd_kv *own) {
    hold->own_gone = !own;
    hold->own_foreign = own && !own_is_mine(hold, own);
    if (hold->phase == HOLD_RELEASING && !own)
        hold_slot_released(
            hold); /* nothing to give back: the lease was lost, or the release has landed */
    else if (hold->own_foreign)
        hold_look_again_later(hold, now);
}

/* V(hor) while a generation lives, closed or not. */
static void look_held(struct hold *hold, struct instant now, const struct horizon *seen,
                      const struct etcd_kv *own, const struct etcd_kv *assign, bool surely) {
    size_t index = 0;
    enum chain_match match = chain_match(&hold->chain, seen, &index);

    if (MUTANT(RESUME_ANYWHERE) && !own && (match == CHAIN_FOREIGN || match == CHAIN_OLDER)) {
        hold->chain.known = *seen;
        match = CHAIN_KNOWN;
    }
    if (!surely && match != CHAIN_KNOWN) {
        hold->must_read = true; /* a plain read may be stale: ask again, in the log's order */
        return;
    }
    switch (match) {
    case CHAIN_KNOWN:
        hold_revoke_claims(hold); /* none has landed so far */
        break;
    case CHAIN_EXTENSION: hold_extended(hold, seen); break;
    case CHAIN_CLAIM: hold_opened(hold, now, index); break;
    case CHAIN_FOREIGN:
        /* A next holder starts at our stored horizon or above: a lower one can only come from an
         * etcd that went back in time. */
        if (seen->horizon_ms >= hold->limit_ms || hold->phase == HOLD_RELEASING) {
            hold_lose(hold);
            return;
        }
        /* fall through */
    case CHAIN_OLDER:
        hold->rollback = true;
        hold_look_again_later(hold, now);
        return;
    }
    hold->rollback = false;
    if (ordered_to_give_up(hold, assign) && hold->phase == HOLD_OPEN) {
        hold->giving_up = true;
        hold_close(hold);
    }
    look_own(hold, now, own);
}

void hold_read(struct hold *hold, struct instant now, const struct etcd_txn_result *result,
               enum hold_request request) {
    const struct etcd_kv *own = read_kv(result, HOLD_READ_OWN);
    const struct etcd_kv *hor = read_kv(result, HOLD_READ_HOR);
    const struct etcd_kv *meta = read_kv(result, HOLD_READ_META);
    const struct etcd_kv *ceil = read_kv(result, HOLD_READ_CEIL);
    bool after_read = request == HOLD_REQUEST_READ || request == HOLD_REQUEST_READ_PLAIN;
    enum hold_phase before = hold->phase;
    struct horizon seen;

    hold->must_read = hold->poll = false;
    hold_meta(hold, now, meta ? meta->value : NULL, meta ? meta->value_len : 0);
    hold_ceiling(hold, now, ceil ? ceil->value : NULL, ceil ? ceil->value_len : 0);
    if (hold->phase != before)
        return; /* another era: there is no generation to look at any more */
    if (!hor || !horizon_parse(hor->value, hor->value_len, &seen)) {
        hold->hor_missing = true;
        if (hold->phase == HOLD_CLAIMING)
            hold_give_slot_back(hold);
        else
            hold_look_again_later(hold, now);
        return;
    }
    hold->hor_missing = false;
    if (hold->phase == HOLD_CLAIMING)
        look_claiming(hold, now, &seen, own != NULL, after_read);
    else
        look_held(hold, now, &seen, own, read_kv(result, HOLD_READ_ASSIGN),
                  request != HOLD_REQUEST_READ_PLAIN);
    if (!hold->meta_text && hold_has_generation(hold))
        hold_look_again_later(hold, now);
}
