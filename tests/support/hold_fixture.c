#include "tests/support/hold_fixture.h"

struct fake_world world;
struct fake_etcd *etcd;
struct keys keys;
char own_key[KEY_MAX], hor_key[KEY_MAX], assign_key[KEY_MAX];
struct own self;
struct hold_config config;
struct hold *hold;
struct instant now;
struct meta meta;
struct hold_act act;

/* ---- etcd as it is ---- */

const char *stored(const char *key) {
    const struct etcd_kv *kv = fake_etcd_get(etcd, key);

    return kv ? kv->value : "(absent)";
}

void store_meta(void) {
    char *text = meta_format(&meta, NULL);

    fake_etcd_put(etcd, keys.meta, text, 0);
    free(text);
}

void store_horizon(uint64_t horizon_ms, const char *claim, uint64_t n) {
    struct horizon horizon = {.horizon_ms = horizon_ms, .n = n};
    char text[HORIZON_TEXT_MAX];

    memcpy(horizon.claim, claim, sizeof(horizon.claim));
    horizon_format(&horizon, text);
    fake_etcd_put(etcd, hor_key, text, 0);
}

struct horizon stored_horizon(void) {
    struct horizon horizon = {.horizon_ms = 0};
    const char *text = stored(hor_key);

    CU_ASSERT_TRUE(horizon_parse(text, strlen(text), &horizon));
    return horizon;
}

void store_ceiling(uint64_t ceiling_ms) {
    char text[CEILING_TEXT_MAX];

    ceiling_format(ceiling_ms, text);
    fake_etcd_put(etcd, keys.ceil, text, 0);
}

void store_give_up(const char *claim) {
    struct assign assign = {.n_give_up = 1};
    char *text;

    assign.give_up[0].machine_id = MACHINE;
    memcpy(assign.give_up[0].claim, claim, sizeof(assign.give_up[0].claim));
    text = assign_format(&assign, NULL);
    fake_etcd_put(etcd, assign_key, text, 0);
    free(text);
}

/* ---- the hold, and what it asks for ---- */

void hear_meta(void) {
    const char *text = stored(keys.meta);

    if (fake_etcd_get(etcd, keys.meta))
        hold_meta(hold, now, text, strlen(text));
    else
        hold_meta(hold, now, NULL, 0);
}

void hear_ceiling(void) {
    hold_ceiling(hold, now, stored(keys.ceil), strlen(stored(keys.ceil)));
}

struct hold_view look(void) {
    struct hold_view view;

    hold_look(hold, now, &view);
    return view;
}

/* The next act that is not merely a lease being kept alive or let go of. */
enum hold_act_kind next(void) {
    for (;;) {
        enum hold_act_kind kind = hold_next(hold, now, &act);

        if (kind == HOLD_REVOKE)
            fake_etcd_revoke(etcd, act.lease_id);
        else if (kind == HOLD_KEEPALIVE)
            hold_kept(hold, now, NULL, act.lease_id);
        else
            return kind;
    }
}

void pass(uint64_t ms) {
    now.wall_ms += ms;
    now.boot_ms += ms;
}

enum hold_act_kind next_after(uint64_t ms) {
    pass(ms);
    return next();
}

bool txn_compares(enum etcd_compare_kind kind, const char *key, const char *value) {
    size_t i;

    for (i = 0; i < act.txn->n_compares; i++) {
        const struct etcd_compare *compare = &act.txn->compares[i];

        if (compare->kind == kind && !strcmp(compare->key, key) &&
            (!value || !strcmp(compare->value, value)))
            return true;
    }
    return false;
}

const struct etcd_op *txn_does(enum etcd_op_kind kind, const char *key) {
    size_t i;

    for (i = 0; i < act.txn->n_then; i++)
        if (act.txn->then[i].kind == kind && !strcmp(act.txn->then[i].key, key))
            return &act.txn->then[i];
    return NULL;
}

bool txn_reads_otherwise(const char *key) {
    size_t i;

    for (i = 0; i < act.txn->n_otherwise; i++)
        if (act.txn->otherwise[i].kind == ETCD_RANGE && !strcmp(act.txn->otherwise[i].key, key))
            return true;
    return false;
}

bool txn_writes(void) {
    return txn_does(ETCD_PUT, own_key) || txn_does(ETCD_PUT, hor_key);
}

bool is_claim(void) {
    return act.kind == HOLD_TXN && txn_does(ETCD_PUT, own_key) && txn_does(ETCD_PUT, hor_key);
}

bool is_extension(void) {
    return act.kind == HOLD_TXN && txn_does(ETCD_PUT, hor_key) && !txn_does(ETCD_PUT, own_key) &&
           !txn_does(ETCD_DELETE, own_key);
}

bool is_release(void) {
    return act.kind == HOLD_TXN && txn_does(ETCD_PUT, hor_key) && txn_does(ETCD_DELETE, own_key);
}

/* Never done, but it makes etcd answer in the order of its log. */
bool is_ordered_read(void) {
    return act.kind == HOLD_TXN && !txn_writes() && txn_does(ETCD_DELETE, own_key);
}

bool is_read(void) {
    return act.kind == HOLD_TXN && !txn_writes();
}

/* The horizon that the transaction would store. */
struct horizon sent_horizon(void) {
    const struct etcd_op *put = txn_does(ETCD_PUT, hor_key);
    struct horizon horizon = {.horizon_ms = 0};

    CU_ASSERT_PTR_NOT_NULL_FATAL(put);
    CU_ASSERT_TRUE(horizon_parse(put->value, strlen(put->value), &horizon));
    return horizon;
}

/* etcd carries the transaction out ... */
struct etcd_txn_result *carry_out(void) {
    struct etcd_txn_result *result = NULL;

    CU_ASSERT_EQUAL_FATAL(act.kind, HOLD_TXN);
    CU_ASSERT_EQUAL_FATAL(fake_etcd_execute(etcd, act.txn, false, &result), STATUS_OK);
    return result;
}

/* ... and its answer arrives. */
void hear(struct etcd_txn_result *result) {
    hold_answered(hold, now, NULL, result);
    fake_etcd_result_free(result);
}

void answer(void) {
    hear(carry_out());
}

void fail(enum status status) {
    struct error err;

    error_set(&err, status, "test: %s", status_name(status));
    hold_answered(hold, now, &err, NULL);
}

/* etcd carries it out and the answer is lost. */
void lose_answer(void) {
    fake_etcd_result_free(carry_out());
    fail(STATUS_UNKNOWN);
}

/* A transaction that is still on its way when its outcome is unknown. */
static char late_own[2048], late_horizon[HORIZON_TEXT_MAX];
static int64_t late_lease;

void delay_request(void) {
    const struct etcd_op *own = txn_does(ETCD_PUT, own_key);

    late_own[0] = '\0';
    if (own) {
        snprintf(late_own, sizeof(late_own), "%s", own->value);
        late_lease = own->lease;
    }
    snprintf(late_horizon, sizeof(late_horizon), "%s", txn_does(ETCD_PUT, hor_key)->value);
    fail(STATUS_UNKNOWN);
}

void late_request_lands(void) {
    if (late_own[0])
        fake_etcd_put(etcd, own_key, late_own, late_lease);
    fake_etcd_put(etcd, hor_key, late_horizon, 0);
}

void grant(void) {
    CU_ASSERT_EQUAL_FATAL(act.kind, HOLD_GRANT);
    fake_etcd_grant(etcd, act.lease_id, (int64_t)act.ttl_s);
    hold_granted(hold, now, NULL, act.lease_id, (int64_t)act.ttl_s);
}

enum status offer(struct error *err) {
    return hold_offer(hold, now, MACHINE, stored(hor_key), strlen(stored(hor_key)), err);
}

/* ---- what is given ---- */

static void random_bytes_of_world(void *arg, void *bytes, size_t n) {
    fake_random_bytes(arg, bytes, n);
}

void given_a_free_slot(void) {
    struct error err;

    fake_world_init(&world, 1);
    etcd = fake_etcd_new(&world);
    CU_ASSERT_EQUAL_FATAL(keys_init(&keys, "test", &err), STATUS_OK);
    self = (struct own){.instance = "cafecafecafecafecafecafecafecafe", .identity = "w"};
    keys_own(&keys, MACHINE, own_key);
    keys_hor(&keys, MACHINE, hor_key);
    keys_assign(&keys, self.instance, assign_key);
    meta = (struct meta){
        .format = RECORD_FORMAT,
        .serial = 1,
        .floor_ms = SNOWFLAKE_EPOCH_MS,
        .epoch_ms = SNOWFLAKE_EPOCH_MS,
        .last_machine_id = 9,
        .max_window_ms = WINDOW_MS,
        .quiet_time_ms = 90000,
        .max_offset_ms = 500,
    };
    memcpy(meta.era, ERA_A, sizeof meta.era);
    store_meta();
    store_horizon(H0_MS, NOBODY, 0);
    store_ceiling(FAR_MS);
    now = (struct instant){.wall_ms = H0_MS + 100000, .boot_ms = 1000};
    config = (struct hold_config){
        .keys = &keys,
        .self = &self,
        .window_ms = WINDOW_MS,
        .claim_ahead_ms = AHEAD_MS,
        .lease_ttl_s = 15,
        .keepalive_interval_ms = 5000,
        .retry_min_ms = 100,
        .retry_max_ms = 2000,
        .random = random_bytes_of_world,
        .random_arg = &world,
    };
    hold = hold_new(&config);
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    hear_meta();
    hear_ceiling();
}

void given_nothing_any_more(void) {
    hold_free(hold);
    fake_etcd_free(etcd);
    fake_world_done(&world);
}

/* The slot is taken up, a lease granted, and act is the claim. */
void given_a_claim_under_way(void) {
    struct error err;

    CU_ASSERT_EQUAL_FATAL(offer(&err), STATUS_OK);
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    CU_ASSERT_EQUAL(act.ttl_s, 15);
    grant();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE_FATAL(is_claim());
}

struct hold_install installed;

void given_a_generation(void) {
    given_a_claim_under_way();
    answer();
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_INSTALL);
    installed = act.install;
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
}

/* act is the extension. */
void given_an_extension_under_way(void) {
    given_a_generation();
    CU_ASSERT_EQUAL_FATAL(next_after(WINDOW_MS / 2), HOLD_TXN);
    CU_ASSERT_TRUE_FATAL(is_extension());
}

/* The lease has ended, and the keep-alive says so. */
void lease_ends(void) {
    struct error err;
    int64_t lease = fake_etcd_get(etcd, own_key)->lease;
    enum hold_act_kind kind;

    fake_etcd_revoke(etcd, lease);
    pass(5000);
    kind = hold_next(hold, now, &act);
    CU_ASSERT_EQUAL_FATAL(kind, HOLD_KEEPALIVE);
    CU_ASSERT_EQUAL(act.lease_id, lease);
    error_set(&err, STATUS_NOT_FOUND, "test: lease not found");
    hold_kept(hold, now, &err, lease);
}

/* own/ is gone, which the next look shows. */
void given_that_own_is_gone(void) {
    given_a_generation();
    lease_ends();
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE_FATAL(is_read());
}

void given_a_closed_generation(uint64_t last_ms) {
    given_a_generation();
    hold_release(hold, now);
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_CLOSE);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    hold_closed(hold, now, last_ms);
}

/* Everything it asks for until there is no more to do now; no installation, no raise. */
void nothing_rises(void) {
    size_t i;

    for (i = 0; i < 20; i++) {
        enum hold_act_kind kind = next();

        CU_ASSERT_NOT_EQUAL(kind, HOLD_INSTALL);
        CU_ASSERT_NOT_EQUAL(kind, HOLD_RAISE);
        if (kind == HOLD_NOTHING)
            return;
        if (kind == HOLD_TXN)
            answer();
        else if (kind == HOLD_GRANT)
            grant();
    }
}

void take_out_of_range(void) {
    meta.first_machine_id = MACHINE + 1;
    meta.serial++;
    store_meta();
}

void other_era_of(const char *era, const char *earlier) {
    memcpy(meta.era, era, sizeof(meta.era));
    meta.n_earlier_eras = earlier ? 1 : 0;
    if (earlier)
        memcpy(meta.earlier_eras[0], earlier, sizeof(meta.era));
    meta.serial++;
    store_meta();
}
