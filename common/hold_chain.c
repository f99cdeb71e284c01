#include "common/hold_chain.h"

#include <assert.h>
#include <string.h>

void chain_start(struct chain *chain, const struct horizon *found) {
    memset(chain, 0, sizeof *chain);
    chain->known = *found;
}

bool chain_pending(const struct chain *chain) {
    return chain->extension_pending || chain->n_claims > 0;
}

bool chain_has_room(const struct chain *chain) {
    return chain->n_claims < CHAIN_CLAIMS_MAX;
}

void chain_add_extension(struct chain *chain, uint64_t horizon_ms) {
    if (!chain->extension_pending || horizon_ms < chain->extension_min_ms)
        chain->extension_min_ms = horizon_ms;
    if (!chain->extension_pending || horizon_ms > chain->extension_max_ms)
        chain->extension_max_ms = horizon_ms;
    chain->extension_pending = true;
}

void chain_add_claim(struct chain *chain, const struct horizon *value, uint64_t h0, int64_t lease) {
    assert(chain_has_room(chain) && value->n == 1);
    chain->claims[chain->n_claims++] = (struct chain_claim){
        .value = *value, .h0 = h0, .lease = lease};
}

void chain_forget_claim(struct chain *chain) {
    assert(chain->n_claims > 0);
    chain->n_claims--;
}

static bool in_history(const struct chain *chain, const char *claim) {
    size_t n = chain->n_history < CHAIN_HISTORY_MAX ? chain->n_history : CHAIN_HISTORY_MAX;

    for (size_t i = 0; i < n; i++)
        if (strcmp(chain->history[i], claim) == 0)
            return true;
    return false;
}

enum chain_match chain_match(const struct chain *chain, const struct horizon *seen, size_t *index) {
    if (horizon_equal(seen, &chain->known))
        return CHAIN_KNOWN;
    if (chain->extension_pending && strcmp(seen->claim, chain->known.claim) == 0 &&
        seen->n == chain->known.n + 1 && seen->horizon_ms >= chain->extension_min_ms &&
        seen->horizon_ms <= chain->extension_max_ms)
        return CHAIN_EXTENSION;
    for (size_t i = 0; i < chain->n_claims; i++)
        if (horizon_equal(seen, &chain->claims[i].value)) {
            *index = i;
            return CHAIN_CLAIM;
        }
    return in_history(chain, seen->claim) ? CHAIN_OLDER : CHAIN_FOREIGN;
}

void chain_confirm(struct chain *chain, const struct horizon *value) {
    if (strcmp(chain->known.claim, value->claim) != 0)
        memcpy(chain->history[chain->n_history++ % CHAIN_HISTORY_MAX], value->claim,
               sizeof value->claim);
    chain->known = *value;
    chain->extension_pending = false;
    chain->n_claims = 0;
}
