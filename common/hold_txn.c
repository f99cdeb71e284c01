#include "common/hold_txn.h"

#include <assert.h>
#include <string.h>

#include "common/mutant.h"

static struct etcd_compare equal(const char *key, const char *value) {
    return (struct etcd_compare){.kind = ETCD_VALUE_EQUAL, .key = key, .value = value};
}

static struct etcd_op range(const char *key) {
    return (struct etcd_op){.kind = ETCD_RANGE, .key = key};
}

static void add_compare(struct hold_message *m, struct etcd_compare compare) {
    assert(m->txn.n_compares < sizeof m->compares / sizeof m->compares[0]);
    m->compares[m->txn.n_compares++] = compare;
}

static void add_then(struct hold_message *m, struct etcd_op op) {
    assert(m->txn.n_then < sizeof m->then / sizeof m->then[0]);
    m->then[m->txn.n_then++] = op;
}

/* What a claim and an extension share: under this very meta, and never up to the ceiling. */
static void guard_growth(struct hold_message *m, const struct hold_txn_params *p) {
    add_compare(m, equal(p->keys->meta, p->meta));
    ceiling_format(p->next.horizon_ms, m->ceiling);
    add_compare(m, (struct etcd_compare){
                       .kind = ETCD_VALUE_GREATER, .key = p->keys->ceil, .value = m->ceiling});
}

static void build_claim(struct hold_message *m, const struct hold_txn_params *p) {
    guard_growth(m, p);
    add_compare(m, (struct etcd_compare){.kind = ETCD_ABSENT, .key = m->own_key});
    if (!MUTANT(CLAIM_WITHOUT_COMPARE))
        add_compare(m, equal(m->hor_key, m->known));
    add_then(m, (struct etcd_op){
                    .kind = ETCD_PUT, .key = m->own_key, .value = p->own, .lease = p->lease});
    add_then(m, (struct etcd_op){.kind = ETCD_PUT, .key = m->hor_key, .value = m->next});
    add_then(m, range(p->keys->ceil));
}

static void build_extend(struct hold_message *m, const struct hold_txn_params *p) {
    guard_growth(m, p);
    add_compare(m, equal(m->own_key, p->own));
    if (!MUTANT(EXTEND_WITHOUT_COMPARE))
        add_compare(m, equal(m->hor_key, m->known));
    add_then(m, (struct etcd_op){.kind = ETCD_PUT, .key = m->hor_key, .value = m->next});
    add_then(m, range(p->keys->ceil));
}

/* Meta is not compared: giving back is right whatever it says. */
static void build_release(struct hold_message *m, const struct hold_txn_params *p) {
    add_compare(m, equal(m->own_key, p->own));
    add_compare(m, equal(m->hor_key, m->known));
    add_then(m, (struct etcd_op){.kind = ETCD_DELETE, .key = m->own_key});
    add_then(m, (struct etcd_op){.kind = ETCD_PUT, .key = m->hor_key, .value = m->next});
}

/* A key that is absent has no value, so this never holds. */
static void compare_never(struct hold_message *m) {
    add_compare(m, (struct etcd_compare){.kind = ETCD_ABSENT, .key = m->hor_key});
    add_compare(m, equal(m->hor_key, m->known));
}

void hold_txn_build(struct hold_message *m, enum hold_request request,
                    const struct hold_txn_params *p) {
    memset(m, 0, sizeof *m);
    keys_own(p->keys, p->machine_id, m->own_key);
    keys_hor(p->keys, p->machine_id, m->hor_key);
    keys_assign(p->keys, p->instance, m->assign_key);
    horizon_format(&p->known, m->known);
    horizon_format(&p->next, m->next);
    m->txn.compares = m->compares;
    m->txn.then = m->then;
    m->txn.otherwise = m->otherwise;
    m->txn.n_otherwise = HOLD_READS;
    m->otherwise[HOLD_READ_OWN] = range(m->own_key);
    m->otherwise[HOLD_READ_HOR] = range(m->hor_key);
    m->otherwise[HOLD_READ_META] = range(p->keys->meta);
    m->otherwise[HOLD_READ_CEIL] = range(p->keys->ceil);
    m->otherwise[HOLD_READ_ASSIGN] = range(m->assign_key);
    switch (request) {
    case HOLD_REQUEST_CLAIM: build_claim(m, p); break;
    case HOLD_REQUEST_EXTEND: build_extend(m, p); break;
    case HOLD_REQUEST_RELEASE: build_release(m, p); break;
    case HOLD_REQUEST_READ:
        /* The delete is never done.  It stands there because etcd answers a transaction that
         * could write in the order of its log, and one that cannot from what a member knows. */
        compare_never(m);
        add_then(m, (struct etcd_op){.kind = ETCD_DELETE, .key = m->own_key});
        break;
    case HOLD_REQUEST_READ_PLAIN:
        compare_never(m);
        add_then(m, range(m->own_key));
        break;
    case HOLD_REQUEST_NONE: assert(request != HOLD_REQUEST_NONE);
    }
}
