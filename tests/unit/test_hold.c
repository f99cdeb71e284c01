/* hold.c as a specification: each rule of design.md §4, with an etcd that does what the test says. */
#include <inttypes.h>
#include <stdbool.h>

#include "common/hold.h"
#include "tests/support/check.h"
#include "tests/support/fake_etcd.h"

#define WINDOW_MS UINT64_C(60000)
#define AHEAD_MS UINT64_C(5000)
#define H0_MS (SNOWFLAKE_EPOCH_MS + 500000)
#define FAR_MS (SNOWFLAKE_EPOCH_MS + UINT64_C(86400000))
#define MACHINE 7

static const char era_a[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
static const char era_b[] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
static const char nobody[] = "00000000000000000000000000000000";
static const char stranger[] = "5742a9e25742a9e25742a9e25742a9e2";

static struct fake_world world;
static struct fake_etcd *etcd;
static struct keys keys;
static char own_key[KEY_MAX], hor_key[KEY_MAX], assign_key[KEY_MAX];
static struct own self;
static struct hold_config config;
static struct hold *hold;
static struct instant now;
static struct meta meta;
static struct hold_act act;

/* ---- etcd as it is ---- */

static const char *stored(const char *key) {
    const struct etcd_kv *kv = fake_etcd_get(etcd, key);

    return kv ? kv->value : "(absent)";
}

static void store_meta(void) {
    char *text = meta_format(&meta, NULL);

    fake_etcd_put(etcd, keys.meta, text, 0);
    free(text);
}

static void store_horizon(uint64_t horizon_ms, const char *claim, uint64_t n) {
    struct horizon horizon = {.horizon_ms = horizon_ms, .n = n};
    char text[HORIZON_TEXT_MAX];

    memcpy(horizon.claim, claim, sizeof(horizon.claim));
    horizon_format(&horizon, text);
    fake_etcd_put(etcd, hor_key, text, 0);
}

static struct horizon stored_horizon(void) {
    struct horizon horizon = {.horizon_ms = 0};
    const char *text = stored(hor_key);

    CU_ASSERT_TRUE(horizon_parse(text, strlen(text), &horizon));
    return horizon;
}

static void store_ceiling(uint64_t ceiling_ms) {
    char text[CEILING_TEXT_MAX];

    ceiling_format(ceiling_ms, text);
    fake_etcd_put(etcd, keys.ceil, text, 0);
}

static void store_give_up(const char *claim) {
    struct assign assign = {.n_give_up = 1};
    char *text;

    assign.give_up[0].machine_id = MACHINE;
    memcpy(assign.give_up[0].claim, claim, sizeof(assign.give_up[0].claim));
    text = assign_format(&assign, NULL);
    fake_etcd_put(etcd, assign_key, text, 0);
    free(text);
}

/* ---- the hold, and what it asks for ---- */

static void hear_meta(void) {
    const char *text = stored(keys.meta);

    if (fake_etcd_get(etcd, keys.meta))
        hold_meta(hold, now, text, strlen(text));
    else
        hold_meta(hold, now, NULL, 0);
}

static void hear_ceiling(void) {
    hold_ceiling(hold, now, stored(keys.ceil), strlen(stored(keys.ceil)));
}

static struct hold_view look(void) {
    struct hold_view view;

    hold_look(hold, now, &view);
    return view;
}

/* The next act that is not merely a lease being kept alive or let go of. */
static enum hold_act_kind next(void) {
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

static void pass(uint64_t ms) {
    now.wall_ms += ms;
    now.boot_ms += ms;
}

static enum hold_act_kind next_after(uint64_t ms) {
    pass(ms);
    return next();
}

static bool txn_compares(enum etcd_compare_kind kind, const char *key, const char *value) {
    size_t i;

    for (i = 0; i < act.txn->n_compares; i++) {
        const struct etcd_compare *compare = &act.txn->compares[i];

        if (compare->kind == kind && !strcmp(compare->key, key) &&
            (!value || !strcmp(compare->value, value)))
            return true;
    }
    return false;
}

static const struct etcd_op *txn_does(enum etcd_op_kind kind, const char *key) {
    size_t i;

    for (i = 0; i < act.txn->n_then; i++)
        if (act.txn->then[i].kind == kind && !strcmp(act.txn->then[i].key, key))
            return &act.txn->then[i];
    return NULL;
}

static bool txn_reads_otherwise(const char *key) {
    size_t i;

    for (i = 0; i < act.txn->n_otherwise; i++)
        if (act.txn->otherwise[i].kind == ETCD_RANGE && !strcmp(act.txn->otherwise[i].key, key))
            return true;
    return false;
}

static bool txn_writes(void) {
    return txn_does(ETCD_PUT, own_key) || txn_does(ETCD_PUT, hor_key);
}

static bool is_claim(void) {
    return act.kind == HOLD_TXN && txn_does(ETCD_PUT, own_key) && txn_does(ETCD_PUT, hor_key);
}

static bool is_extension(void) {
    return act.kind == HOLD_TXN && txn_does(ETCD_PUT, hor_key) && !txn_does(ETCD_PUT, own_key) &&
           !txn_does(ETCD_DELETE, own_key);
}

static bool is_release(void) {
    return act.kind == HOLD_TXN && txn_does(ETCD_PUT, hor_key) && txn_does(ETCD_DELETE, own_key);
}

/* Never done, but it makes etcd answer in the order of its log. */
static bool is_ordered_read(void) {
    return act.kind == HOLD_TXN && !txn_writes() && txn_does(ETCD_DELETE, own_key);
}

static bool is_read(void) {
    return act.kind == HOLD_TXN && !txn_writes();
}

/* The horizon that the transaction would store. */
static struct horizon sent_horizon(void) {
    const struct etcd_op *put = txn_does(ETCD_PUT, hor_key);
    struct horizon horizon = {.horizon_ms = 0};

    CU_ASSERT_PTR_NOT_NULL_FATAL(put);
    CU_ASSERT_TRUE(horizon_parse(put->value, strlen(put->value), &horizon));
    return horizon;
}

/* etcd carries the transaction out ... */
static struct etcd_txn_result *carry_out(void) {
    struct etcd_txn_result *result = NULL;

    CU_ASSERT_EQUAL_FATAL(act.kind, HOLD_TXN);
    CU_ASSERT_EQUAL_FATAL(fake_etcd_execute(etcd, act.txn, false, &result), STATUS_OK);
    return result;
}

/* ... and its answer arrives. */
static void hear(struct etcd_txn_result *result) {
    hold_answered(hold, now, NULL, result);
    fake_etcd_result_free(result);
}

static void answer(void) {
    hear(carry_out());
}

static void fail(enum status status) {
    struct error err;

    error_set(&err, status, "test: %s", status_name(status));
    hold_answered(hold, now, &err, NULL);
}

/* etcd carries it out and the answer is lost. */
static void lose_answer(void) {
    fake_etcd_result_free(carry_out());
    fail(STATUS_UNKNOWN);
}

/* A transaction that is still on its way when its outcome is unknown. */
static char late_own[2048], late_horizon[HORIZON_TEXT_MAX];
static int64_t late_lease;

static void delay_request(void) {
    const struct etcd_op *own = txn_does(ETCD_PUT, own_key);

    late_own[0] = '\0';
    if (own) {
        snprintf(late_own, sizeof(late_own), "%s", own->value);
        late_lease = own->lease;
    }
    snprintf(late_horizon, sizeof(late_horizon), "%s", txn_does(ETCD_PUT, hor_key)->value);
    fail(STATUS_UNKNOWN);
}

static void late_request_lands(void) {
    if (late_own[0])
        fake_etcd_put(etcd, own_key, late_own, late_lease);
    fake_etcd_put(etcd, hor_key, late_horizon, 0);
}

static void grant(void) {
    CU_ASSERT_EQUAL_FATAL(act.kind, HOLD_GRANT);
    fake_etcd_grant(etcd, act.lease_id, (int64_t)act.ttl_s);
    hold_granted(hold, now, NULL, act.lease_id, (int64_t)act.ttl_s);
}

static enum status offer(struct error *err) {
    return hold_offer(hold, now, MACHINE, stored(hor_key), strlen(stored(hor_key)), err);
}

/* ---- what is given ---- */

static void random_bytes_of_world(void *arg, void *bytes, size_t n) {
    fake_random_bytes(arg, bytes, n);
}

static void given_a_free_slot(void) {
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
    memcpy(meta.era, era_a, sizeof(era_a));
    store_meta();
    store_horizon(H0_MS, nobody, 0);
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

static void given_nothing_any_more(void) {
    hold_free(hold);
    fake_etcd_free(etcd);
    fake_world_done(&world);
}

/* The slot is taken up, a lease granted, and act is the claim. */
static void given_a_claim_under_way(void) {
    struct error err;

    CU_ASSERT_EQUAL_FATAL(offer(&err), STATUS_OK);
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    CU_ASSERT_EQUAL(act.ttl_s, 15);
    grant();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE_FATAL(is_claim());
}

static struct hold_install installed;

static void given_a_generation(void) {
    given_a_claim_under_way();
    answer();
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_INSTALL);
    installed = act.install;
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
}

/* act is the extension. */
static void given_an_extension_under_way(void) {
    given_a_generation();
    CU_ASSERT_EQUAL_FATAL(next_after(WINDOW_MS / 2), HOLD_TXN);
    CU_ASSERT_TRUE_FATAL(is_extension());
}

/* The lease has ended, and the keep-alive says so. */
static void lease_ends(void) {
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
static void given_that_own_is_gone(void) {
    given_a_generation();
    lease_ends();
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE_FATAL(is_read());
}

static void given_a_closed_generation(uint64_t last_ms) {
    given_a_generation();
    hold_release(hold, now);
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_CLOSE);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    hold_closed(hold, now, last_ms);
}

/* Everything it asks for until there is no more to do now; no installation, no raise. */
static void nothing_rises(void) {
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

/* ---- claims ---- */

static void a_first_claim_compares_and_writes_exactly_this(void) {
    char ceiling[CEILING_TEXT_MAX], horizon[HORIZON_TEXT_MAX];
    struct horizon sent, next_horizon;
    const struct etcd_op *put;
    struct own own;
    struct error err;

    given_a_claim_under_way();
    sent = sent_horizon();
    ceiling_format(sent.horizon_ms, ceiling);
    CU_ASSERT_EQUAL(act.txn->n_compares, 4);
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, keys.meta, stored(keys.meta)));
    CU_ASSERT_TRUE(txn_compares(ETCD_ABSENT, own_key, NULL));
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, hor_key, stored(hor_key)));
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_GREATER, keys.ceil, ceiling));

    CU_ASSERT_EQUAL(act.txn->n_then, 3);
    put = txn_does(ETCD_PUT, own_key);
    CU_ASSERT_NOT_EQUAL(put->lease, 0);
    CU_ASSERT_EQUAL_FATAL(own_parse(put->value, strlen(put->value), &own, &err), STATUS_OK);
    CHECK_TEXT(own.claim, sent.claim);
    CHECK_TEXT(own.instance, self.instance);
    next_horizon = (struct horizon){.horizon_ms = now.wall_ms + WINDOW_MS, .n = 1};
    memcpy(next_horizon.claim, sent.claim, sizeof(sent.claim));
    horizon_format(&next_horizon, horizon);
    CHECK_TEXT(txn_does(ETCD_PUT, hor_key)->value, horizon);
    CU_ASSERT_EQUAL(txn_does(ETCD_PUT, hor_key)->lease, 0);
    CU_ASSERT_PTR_NOT_NULL(txn_does(ETCD_RANGE, keys.ceil));

    CU_ASSERT_TRUE(txn_reads_otherwise(own_key));
    CU_ASSERT_TRUE(txn_reads_otherwise(hor_key));
    CU_ASSERT_TRUE(txn_reads_otherwise(keys.meta));
    CU_ASSERT_TRUE(txn_reads_otherwise(keys.ceil));
    CU_ASSERT_TRUE(txn_reads_otherwise(assign_key));
}

static void a_generation_starts_above_h0_and_ends_at_the_stored_horizon(void) {
    given_a_generation();
    CU_ASSERT_FALSE(installed.continues);
    CU_ASSERT_EQUAL(installed.machine_id, MACHINE);
    CU_ASSERT_EQUAL(installed.epoch_ms, SNOWFLAKE_EPOCH_MS);
    CU_ASSERT_EQUAL(installed.used_up_ms, H0_MS);
    CU_ASSERT_EQUAL(installed.limit_ms, now.wall_ms + WINDOW_MS);
    CHECK_TEXT(installed.era, era_a);
    CHECK_TEXT(installed.claim, stored_horizon().claim);
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
    CU_ASSERT_EQUAL(look().limit_ms, installed.limit_ms);
    CU_ASSERT_EQUAL(look().used_up_ms, H0_MS);
    CU_ASSERT_EQUAL(look().reason, HOLD_FINE);
}

static const struct {
    const char *row;
    uint64_t horizon_ms, floor_ms, ceiling_ms, now_ms; /* after the epoch */
    uint64_t h0_ms, new_ms;
} claim_rows[] = {
    {"one window ahead", 500, 0, 900000, 1000, 500, 61000},
    {"below the ceiling", 500, 0, 31000, 1000, 500, 30999},
    {"the horizon when the ceiling is just above it", 5000, 0, 5001, 1000, 5000, 5000},
    {"a horizon up to 5 s ahead", 6000, 0, 900000, 1000, 6000, 61000},
    {"above the floor", 500, 4000, 900000, 1000, 4000, 61000},
    {"the floor below the horizon", 500, 400, 900000, 1000, 500, 61000},
    {"to the end of the epoch", 500, 0, SNOWFLAKE_TIMESTAMP_MAX + 900000,
     SNOWFLAKE_TIMESTAMP_MAX - 1000, 500, SNOWFLAKE_TIMESTAMP_MAX},
};

static void a_claim_reaches_to_the_nearest_of_window_ceiling_and_end_of_epoch(void) {
    size_t i;

    for (i = 0; i < sizeof(claim_rows) / sizeof(*claim_rows); i++) {
        given_nothing_any_more();
        given_a_free_slot();
        meta.floor_ms = SNOWFLAKE_EPOCH_MS + claim_rows[i].floor_ms;
        store_meta();
        hear_meta();
        store_horizon(SNOWFLAKE_EPOCH_MS + claim_rows[i].horizon_ms, nobody, 0);
        store_ceiling(SNOWFLAKE_EPOCH_MS + claim_rows[i].ceiling_ms);
        hear_ceiling();
        now.wall_ms = SNOWFLAKE_EPOCH_MS + claim_rows[i].now_ms;
        given_a_generation();
        CHECK_ROW(claim_rows[i].row,
                  installed.used_up_ms == SNOWFLAKE_EPOCH_MS + claim_rows[i].h0_ms);
        CHECK_ROW(claim_rows[i].row,
                  installed.limit_ms == SNOWFLAKE_EPOCH_MS + claim_rows[i].new_ms);
        CHECK_ROW(claim_rows[i].row, stored_horizon().horizon_ms == installed.limit_ms);
    }
}

static void every_claim_has_a_new_name_and_a_new_lease(void) {
    char first[HEX128_CHARS + 1];
    int64_t lease;

    given_a_claim_under_way();
    memcpy(first, sent_horizon().claim, sizeof(first));
    lease = txn_does(ETCD_PUT, own_key)->lease;
    fail(STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    given_a_claim_under_way();
    CU_ASSERT_STRING_NOT_EQUAL(sent_horizon().claim, first);
    CU_ASSERT_NOT_EQUAL(txn_does(ETCD_PUT, own_key)->lease, lease);
}

static void a_horizon_further_ahead_than_the_clock_allows_is_refused(void) {
    struct error err;

    store_horizon(now.wall_ms + AHEAD_MS + 1, nobody, 0);
    CU_ASSERT_EQUAL(offer(&err), STATUS_REFUSED);
    CU_ASSERT_EQUAL(look().phase, HOLD_SEEKING);
    store_horizon(now.wall_ms + AHEAD_MS, nobody, 0);
    CU_ASSERT_EQUAL(offer(&err), STATUS_OK);
}

static void a_machine_id_out_of_range_or_reserved_is_refused(void) {
    struct error err;

    CU_ASSERT_EQUAL(hold_offer(hold, now, 10, stored(hor_key), strlen(stored(hor_key)), &err),
                    STATUS_REFUSED);
    meta.reserved[MACHINE] = true;
    meta.serial++;
    store_meta();
    hear_meta();
    CU_ASSERT_EQUAL(offer(&err), STATUS_REFUSED);
}

static void an_unreadable_horizon_is_refused(void) {
    struct error err;

    CU_ASSERT_EQUAL(hold_offer(hold, now, MACHINE, "0", 1, &err), STATUS_REFUSED);
}

static void a_floor_that_is_ahead_is_waited_for_on_the_same_slot(void) {
    struct error err;

    meta.floor_ms = now.wall_ms + AHEAD_MS + 3000;
    store_meta();
    hear_meta();
    CU_ASSERT_EQUAL(offer(&err), STATUS_OK);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    CU_ASSERT_EQUAL(look().phase, HOLD_CLAIMING);
    CU_ASSERT_EQUAL(look().reason, HOLD_FLOOR);
    CU_ASSERT_TRUE(act.wake_boot_ms <= now.boot_ms + 3000);
    CU_ASSERT_EQUAL(next_after(2999), HOLD_NOTHING);
    CU_ASSERT_EQUAL(next_after(1), HOLD_GRANT);
    grant();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_INSTALL);
    CU_ASSERT_EQUAL(act.install.used_up_ms, meta.floor_ms);
    CU_ASSERT_EQUAL(look().reason, HOLD_FLOOR); /* until the clock has passed it */
    pass(AHEAD_MS + 1);
    CU_ASSERT_EQUAL(look().reason, HOLD_FINE);
}

static void a_window_above_what_the_cluster_allows_is_refused_naming_both(void) {
    struct error err;

    meta.max_window_ms = WINDOW_MS - 1;
    store_meta();
    hear_meta();
    CU_ASSERT_EQUAL(offer(&err), STATUS_UNAVAILABLE);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "60000"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "59999"));
    CU_ASSERT_EQUAL(look().reason, HOLD_WINDOW);
}

static void without_meta_or_while_frozen_nothing_is_claimed(void) {
    struct error err;

    meta.mode = META_FROZEN;
    store_meta();
    hear_meta();
    CU_ASSERT_EQUAL(offer(&err), STATUS_UNAVAILABLE);
    CU_ASSERT_EQUAL(look().reason, HOLD_FROZEN);
    fake_etcd_delete(etcd, keys.meta);
    hear_meta();
    CU_ASSERT_EQUAL(offer(&err), STATUS_UNAVAILABLE);
    CU_ASSERT_EQUAL(look().reason, HOLD_NO_META);
    hold_meta(hold, now, "{}", 2);
    CU_ASSERT_EQUAL(offer(&err), STATUS_UNAVAILABLE);
    CU_ASSERT_EQUAL(look().reason, HOLD_NO_META);
}

static void a_claim_that_somebody_else_forestalled_gives_the_slot_and_its_lease_back(void) {
    given_a_claim_under_way();
    store_horizon(now.wall_ms + 1000, stranger, 1);
    fake_etcd_put(etcd, own_key, "{}", 0);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    CU_ASSERT_EQUAL(look().phase, HOLD_SEEKING);
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 0);
}

static void take_out_of_range(void) {
    meta.first_machine_id = MACHINE + 1;
    meta.serial++;
    store_meta();
}

static void a_slot_that_was_taken_out_of_range_meanwhile_is_not_claimed(void) {
    given_a_claim_under_way();
    take_out_of_range();
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    CHECK_TEXT(stored(own_key), "(absent)");
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 0);
}

static void a_claim_under_a_meta_that_was_rewritten_meanwhile_is_sent_again(void) {
    given_a_claim_under_way();
    meta.serial++;
    store_meta();
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    grant();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_claim());
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, keys.meta, stored(keys.meta)));
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_INSTALL);
}

static void a_claim_of_unknown_outcome_is_read_back_before_anything_else(void) {
    given_a_claim_under_way();
    fail(STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_ordered_read());
    CU_ASSERT_TRUE(txn_reads_otherwise(hor_key));
    answer();
    /* Not landed so far: given up, and its lease revoked, so that it cannot keep the slot. */
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 0);
}

static void a_claim_that_landed_although_unanswered_is_adopted_with_its_own_h0(void) {
    given_a_claim_under_way();
    lose_answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_INSTALL);
    CU_ASSERT_FALSE(act.install.continues);
    CU_ASSERT_EQUAL(act.install.used_up_ms, H0_MS);
    CU_ASSERT_EQUAL(act.install.limit_ms, stored_horizon().horizon_ms);
    CHECK_TEXT(act.install.claim, stored_horizon().claim);
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 1);
}

static void a_claim_that_its_own_first_copy_forestalled_is_adopted(void) {
    given_a_claim_under_way();
    fake_etcd_result_free(carry_out());
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_INSTALL);
    CU_ASSERT_EQUAL(act.install.used_up_ms, H0_MS);
}

static void a_claim_that_etcd_surely_did_not_do_is_tried_again(void) {
    given_a_claim_under_way();
    fail(STATUS_UNAVAILABLE);
    CU_ASSERT_EQUAL(look().reason, HOLD_NO_ETCD);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    CU_ASSERT_TRUE(act.wake_boot_ms <= now.boot_ms + config.retry_min_ms);
    CU_ASSERT_EQUAL(next_after(config.retry_min_ms), HOLD_TXN);
    CU_ASSERT_TRUE(is_claim());
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_INSTALL);
}

/* ---- extensions ---- */

static void an_extension_compares_and_writes_exactly_this(void) {
    char ceiling[CEILING_TEXT_MAX], horizon[HORIZON_TEXT_MAX];
    struct horizon expected;

    given_an_extension_under_way();
    expected = stored_horizon();
    expected.horizon_ms = now.wall_ms + WINDOW_MS;
    expected.n = 2;
    horizon_format(&expected, horizon);
    ceiling_format(expected.horizon_ms, ceiling);
    CU_ASSERT_EQUAL(act.txn->n_compares, 4);
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, keys.meta, stored(keys.meta)));
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, own_key, stored(own_key)));
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, hor_key, stored(hor_key)));
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_GREATER, keys.ceil, ceiling));
    CU_ASSERT_EQUAL(act.txn->n_then, 2);
    CHECK_TEXT(txn_does(ETCD_PUT, hor_key)->value, horizon);
    CU_ASSERT_EQUAL(txn_does(ETCD_PUT, hor_key)->lease, 0);
    CU_ASSERT_PTR_NOT_NULL(txn_does(ETCD_RANGE, keys.ceil));
    CU_ASSERT_TRUE(txn_reads_otherwise(own_key));
    CU_ASSERT_TRUE(txn_reads_otherwise(hor_key));
    CU_ASSERT_TRUE(txn_reads_otherwise(keys.meta));
    CU_ASSERT_TRUE(txn_reads_otherwise(keys.ceil));
    CU_ASSERT_TRUE(txn_reads_otherwise(assign_key));
}

static void the_window_is_extended_when_two_thirds_are_left_or_a_tenth_earlier(void) {
    size_t i;

    given_a_generation();
    for (i = 0; i < 200; i++) { /* the jitter differs each time */
        uint64_t left_ms;

        while (next() == HOLD_NOTHING)
            pass(act.wake_boot_ms - now.boot_ms);
        CU_ASSERT_TRUE_FATAL(is_extension());
        left_ms = look().limit_ms - now.wall_ms;
        CU_ASSERT_TRUE(left_ms >= WINDOW_MS * 2 / 3 - 1);
        CU_ASSERT_TRUE(left_ms <= WINDOW_MS * 2 / 3 + WINDOW_MS / 10);
        answer();
        CU_ASSERT_EQUAL(next(), HOLD_RAISE);
    }
}

static void the_limit_rises_only_when_etcd_has_answered(void) {
    uint64_t limit_ms;

    given_an_extension_under_way();
    limit_ms = sent_horizon().horizon_ms;
    CU_ASSERT_EQUAL(look().limit_ms, installed.limit_ms);
    answer();
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_RAISE);
    CHECK_TEXT(act.claim, installed.claim);
    CU_ASSERT_EQUAL(act.limit_ms, limit_ms);
    CU_ASSERT_EQUAL(look().limit_ms, limit_ms);
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, limit_ms);
}

static void one_transaction_is_under_way_at_a_time(void) {
    given_an_extension_under_way();
    CU_ASSERT_EQUAL(next_after(60000), HOLD_NOTHING);
}

static void an_extension_that_gains_nothing_only_reads(void) {
    given_a_generation();
    store_ceiling(installed.limit_ms + 1);
    hear_ceiling();
    CU_ASSERT_EQUAL(next_after(WINDOW_MS / 2), HOLD_NOTHING);
    CU_ASSERT_EQUAL(look().reason, HOLD_CEILING);
    CU_ASSERT_EQUAL(next_after(config.retry_max_ms), HOLD_TXN);
    CU_ASSERT_TRUE(is_read());
    CU_ASSERT_TRUE(txn_reads_otherwise(keys.ceil));
    CU_ASSERT_TRUE(txn_reads_otherwise(keys.meta));
    store_ceiling(FAR_MS);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_extension());
}

static void an_extension_never_reaches_the_ceiling_or_past_the_end_of_the_epoch(void) {
    now.wall_ms = snowflake_end_ms(SNOWFLAKE_EPOCH_MS) - WINDOW_MS - 10000;
    store_ceiling(CEILING_NONE);
    hear_ceiling();
    given_an_extension_under_way();
    CU_ASSERT_EQUAL(sent_horizon().horizon_ms, snowflake_end_ms(SNOWFLAKE_EPOCH_MS));
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_RAISE);
    pass(30000);
    nothing_rises();
}

static void a_clock_that_stepped_back_does_not_lower_the_horizon(void) {
    given_an_extension_under_way();
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_RAISE);
    now.wall_ms -= 30000;
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
}

static void an_extension_of_unknown_outcome_is_read_back_before_anything_else(void) {
    given_an_extension_under_way();
    fail(STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(look().limit_ms, installed.limit_ms);
    CU_ASSERT_EQUAL(look().pending, 1);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_ordered_read());
    answer();
    CU_ASSERT_EQUAL(look().limit_ms, installed.limit_ms);
    CU_ASSERT_EQUAL(next(), HOLD_TXN); /* not landed so far: it may be sent again */
    CU_ASSERT_TRUE(is_extension());
    CU_ASSERT_EQUAL(sent_horizon().n, 2);
}

static void an_extension_that_landed_although_unanswered_is_adopted(void) {
    uint64_t limit_ms;

    given_an_extension_under_way();
    limit_ms = sent_horizon().horizon_ms;
    lose_answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_RAISE);
    CU_ASSERT_EQUAL(act.limit_ms, limit_ms);
    CU_ASSERT_EQUAL(look().pending, 0);
}

static void an_extension_that_lands_after_its_retry_was_sent_is_adopted(void) {
    given_an_extension_under_way();
    delay_request();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(next_after(1000), HOLD_TXN);
    CU_ASSERT_TRUE(is_extension());
    late_request_lands();
    answer(); /* the retry compares with the value before */
    CU_ASSERT_EQUAL(next(), HOLD_RAISE);
    CU_ASSERT_EQUAL(act.limit_ms, stored_horizon().horizon_ms);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
}

static void a_meta_rewritten_in_the_same_era_is_taken_and_the_extension_sent_again(void) {
    given_an_extension_under_way();
    meta.serial++;
    meta.floor_ms++;
    store_meta();
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_extension());
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, keys.meta, stored(keys.meta)));
    CU_ASSERT_EQUAL(sent_horizon().n, 2);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_RAISE);
}

static void while_frozen_it_serves_to_the_limit_and_goes_on_after_the_thaw(void) {
    given_an_extension_under_way();
    meta.mode = META_FROZEN;
    meta.serial++;
    store_meta();
    answer();
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
    CU_ASSERT_EQUAL(look().reason, HOLD_FROZEN);
    nothing_rises();
    pass(config.retry_max_ms);
    nothing_rises();
    meta.mode = META_OPEN;
    meta.serial++;
    store_meta();
    hear_meta();
    CU_ASSERT_EQUAL(next_after(config.retry_max_ms), HOLD_TXN);
    CU_ASSERT_TRUE(is_read());
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_extension());
}

static void without_meta_it_serves_to_the_limit_and_keeps_reading(void) {
    given_an_extension_under_way();
    fake_etcd_delete(etcd, keys.meta);
    answer();
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
    CU_ASSERT_EQUAL(look().reason, HOLD_NO_META);
    nothing_rises();
    CU_ASSERT_EQUAL(next_after(config.retry_max_ms), HOLD_TXN);
    CU_ASSERT_TRUE(is_read());
    store_meta();
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_extension());
}

static void without_hor_it_serves_to_the_limit_and_keeps_reading(void) {
    char horizon[HORIZON_TEXT_MAX];

    given_an_extension_under_way();
    snprintf(horizon, sizeof(horizon), "%s", stored(hor_key));
    fake_etcd_delete(etcd, hor_key);
    answer();
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
    CU_ASSERT_EQUAL(look().reason, HOLD_NO_HORIZON);
    nothing_rises();
    CU_ASSERT_EQUAL(next_after(config.retry_max_ms), HOLD_TXN);
    CU_ASSERT_TRUE(is_read());
    fake_etcd_put(etcd, hor_key, horizon, 0);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_extension());
}

static void an_unreadable_hor_counts_as_absent(void) {
    given_an_extension_under_way();
    fake_etcd_put(etcd, hor_key, "12", 0);
    answer();
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
    CU_ASSERT_EQUAL(look().reason, HOLD_NO_HORIZON);
    nothing_rises();
}

static void out_of_space_is_named_and_tried_again(void) {
    given_an_extension_under_way();
    fail(STATUS_NO_SPACE);
    CU_ASSERT_EQUAL(look().reason, HOLD_NO_SPACE);
    CU_ASSERT_EQUAL(look().limit_ms, installed.limit_ms);
    CU_ASSERT_EQUAL(next_after(config.retry_max_ms), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(look().reason, HOLD_FINE);
}

static void pauses_between_failures_grow_to_the_longest_and_no_further(void) {
    uint64_t pause_ms = 0;
    size_t i;

    given_an_extension_under_way();
    for (i = 0; i < 10; i++) {
        uint64_t before_ms = now.boot_ms;

        fail(STATUS_UNAVAILABLE);
        while (next() == HOLD_NOTHING)
            pass(act.wake_boot_ms - now.boot_ms);
        CU_ASSERT_TRUE(is_extension());
        pause_ms = now.boot_ms - before_ms;
        CU_ASSERT_TRUE(pause_ms <= config.retry_max_ms);
        CU_ASSERT_TRUE(i > 0 || pause_ms <= config.retry_min_ms);
    }
    CU_ASSERT_TRUE(pause_ms >= config.retry_max_ms / 2);
}

/* ---- lost, and rolled back ---- */

static void a_foreign_horizon_drops_the_generation_at_once(void) {
    given_an_extension_under_way();
    fake_etcd_delete(etcd, own_key);
    store_horizon(installed.limit_ms + 5, stranger, 1);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_DROP);
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    CU_ASSERT_EQUAL(look().phase, HOLD_SEEKING);
    CU_ASSERT_EQUAL(look().lost_total, 1);
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 0);
}

static void an_older_value_of_its_own_is_a_rollback_and_it_serves_to_the_limit(void) {
    struct horizon first;

    given_an_extension_under_way();
    first = stored_horizon();
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_RAISE);
    store_horizon(first.horizon_ms, first.claim, first.n); /* etcd went back in time */
    CU_ASSERT_EQUAL(next_after(WINDOW_MS / 2), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
    CU_ASSERT_EQUAL(look().reason, HOLD_ROLLBACK);
    pass(config.retry_max_ms);
    nothing_rises();
    fake_etcd_delete(etcd, own_key); /* nor does it resume */
    pass(config.retry_max_ms);
    nothing_rises();
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, first.horizon_ms);
}

static void a_foreign_horizon_below_its_limit_is_a_rollback(void) {
    given_an_extension_under_way();
    store_horizon(H0_MS, stranger, 9);
    answer();
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
    CU_ASSERT_EQUAL(look().reason, HOLD_ROLLBACK);
    pass(config.retry_max_ms);
    nothing_rises();
}

static void an_own_key_written_by_hand_stops_the_extensions(void) {
    given_an_extension_under_way();
    fake_etcd_put(etcd, own_key, "by hand", 0);
    answer();
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
    CU_ASSERT_EQUAL(look().reason, HOLD_FOREIGN_OWN);
    nothing_rises();
}

/* ---- resuming ---- */

static void a_lease_that_ended_leads_to_a_look_and_then_to_a_claim_of_the_own_slot(void) {
    struct horizon before;

    given_that_own_is_gone();
    before = stored_horizon();
    answer();
    CU_ASSERT_TRUE(look().lost_slot);
    CU_ASSERT_EQUAL(look().limit_ms, installed.limit_ms); /* IDs flow to the limit meanwhile */
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_GRANT);
    grant();
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_claim());
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, hor_key, stored(hor_key)));
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, keys.meta, stored(keys.meta)));
    CU_ASSERT_TRUE(txn_compares(ETCD_ABSENT, own_key, NULL));
    CU_ASSERT_STRING_NOT_EQUAL(sent_horizon().claim, before.claim);
    CU_ASSERT_EQUAL(sent_horizon().n, 1);
    CU_ASSERT_EQUAL(sent_horizon().horizon_ms, now.wall_ms + WINDOW_MS);
    answer();
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_INSTALL);
    CU_ASSERT_TRUE(act.install.continues);
    CU_ASSERT_EQUAL(act.install.used_up_ms, H0_MS); /* of the claim that began the chain */
    CU_ASSERT_EQUAL(act.install.limit_ms, now.wall_ms + WINDOW_MS);
    CHECK_TEXT(act.install.claim, stored_horizon().claim);
    CU_ASSERT_EQUAL(look().resumes_total, 1);
    CU_ASSERT_FALSE(look().lost_slot);
}

static void resuming_does_not_mind_a_horizon_far_ahead(void) {
    given_that_own_is_gone();
    now.wall_ms -= 50000; /* a step back: the horizon is now 110 s ahead */
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    grant();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_claim());
    CU_ASSERT_EQUAL(sent_horizon().horizon_ms, installed.limit_ms); /* never lower */
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_INSTALL);
}

static void an_order_to_give_up_in_the_same_read_forbids_resuming(void) {
    given_that_own_is_gone();
    store_give_up(installed.claim);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_CLOSE);
    CU_ASSERT_EQUAL(look().reason, HOLD_GIVE_UP);
    hold_closed(hold, now, now.wall_ms);
    nothing_rises();
    CU_ASSERT_EQUAL(look().phase, HOLD_SEEKING);
    CHECK_TEXT(stored(own_key), "(absent)");
}

static void an_order_to_give_up_an_earlier_claim_is_not_obeyed(void) {
    given_that_own_is_gone();
    store_give_up(stranger);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
}

static void a_slot_that_was_taken_out_of_range_is_not_resumed_but_served_to_its_limit(void) {
    given_that_own_is_gone();
    take_out_of_range();
    answer();
    for (unsigned i = 0; i < 30 && look().phase == HOLD_OPEN; i++) {
        pass(WINDOW_MS / 20);
        while (next() != HOLD_NOTHING) {
            CU_ASSERT_FALSE(act.kind == HOLD_TXN && is_claim());
            if (act.kind == HOLD_TXN)
                answer();
        }
    }
    CU_ASSERT_EQUAL(look().phase, HOLD_SEEKING);
    CU_ASSERT_TRUE(now.wall_ms > installed.limit_ms);
    CHECK_TEXT(stored(own_key), "(absent)");
}

static void a_resuming_claim_that_landed_although_unanswered_is_adopted(void) {
    given_that_own_is_gone();
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    grant();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    lose_answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_INSTALL);
    CU_ASSERT_TRUE(act.install.continues);
    CHECK_TEXT(act.install.claim, stored_horizon().claim);
}

static void an_extension_that_landed_before_own_went_is_adopted_and_resumed_from(void) {
    given_an_extension_under_way();
    lose_answer();
    fake_etcd_delete(etcd, own_key);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_RAISE);
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    grant();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_claim());
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, hor_key, stored(hor_key)));
}

static void nobody_resumes_a_slot_that_somebody_else_has_claimed(void) {
    given_that_own_is_gone();
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    grant();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    store_horizon(installed.limit_ms + 1, stranger, 1);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_DROP);
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 0);
}

static void a_late_claim_whose_lease_was_revoked_cannot_keep_the_slot(void) {
    given_that_own_is_gone();
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    grant();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    delay_request();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 0);
}

/* ---- eras ---- */

static void other_era_of(const char *era, const char *earlier) {
    memcpy(meta.era, era, sizeof(meta.era));
    meta.n_earlier_eras = earlier ? 1 : 0;
    if (earlier)
        memcpy(meta.earlier_eras[0], earlier, sizeof(meta.era));
    meta.serial++;
    store_meta();
}

static void an_era_that_follows_its_own_drops_the_generation_and_claims_anew(void) {
    given_a_generation();
    other_era_of(era_b, era_a);
    hear_meta();
    CU_ASSERT_EQUAL(next(), HOLD_DROP);
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    CHECK_TEXT(look().era, era_b);
    pass(WINDOW_MS); /* its own horizon is like any other's now */
    given_a_claim_under_way();
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, keys.meta, stored(keys.meta)));
}

static void a_foreign_era_halts_it_until_meta_names_its_own(void) {
    given_a_generation();
    other_era_of(era_b, NULL);
    hear_meta();
    CU_ASSERT_EQUAL(next(), HOLD_DROP);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    CU_ASSERT_EQUAL(look().phase, HOLD_HALTED);
    CU_ASSERT_EQUAL(look().reason, HOLD_FOREIGN_ERA);
    CHECK_TEXT(look().era, era_a);
    CU_ASSERT_EQUAL(next_after(60000), HOLD_NOTHING);
    other_era_of(era_a, NULL);
    hear_meta();
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    given_a_generation();
}

static void another_era_that_a_failed_extension_shows_drops_the_generation(void) {
    given_an_extension_under_way();
    other_era_of(era_b, era_a);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_DROP);
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
}

static void an_answer_to_a_request_of_an_earlier_era_changes_nothing(void) {
    struct etcd_txn_result *result;
    struct error err;

    given_an_extension_under_way();
    result = carry_out();
    other_era_of(era_b, era_a);
    hear_meta();
    CU_ASSERT_EQUAL(next(), HOLD_DROP);
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    hear(result);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    pass(WINDOW_MS); /* its horizon is past */
    CU_ASSERT_EQUAL(offer(&err), STATUS_OK);
}

/* ---- releasing ---- */

static void a_release_compares_and_writes_exactly_this(void) {
    char horizon[HORIZON_TEXT_MAX];
    struct horizon expected;

    given_a_closed_generation(H0_MS + 70000);
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_release());
    expected = stored_horizon();
    expected.horizon_ms = H0_MS + 70000;
    expected.n = 2;
    horizon_format(&expected, horizon);
    CU_ASSERT_EQUAL(act.txn->n_compares, 2);
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, own_key, stored(own_key)));
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, hor_key, stored(hor_key)));
    CU_ASSERT_EQUAL(act.txn->n_then, 2);
    CHECK_TEXT(txn_does(ETCD_PUT, hor_key)->value, horizon);
    CU_ASSERT_PTR_NOT_NULL(txn_does(ETCD_DELETE, own_key));
    CU_ASSERT_TRUE(txn_reads_otherwise(own_key));
    CU_ASSERT_TRUE(txn_reads_otherwise(hor_key));
}

static void a_release_stores_the_last_timestamp_and_lets_go_of_own_and_lease(void) {
    given_a_closed_generation(H0_MS + 70000);
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_TXN);
    answer();
    nothing_rises();
    CU_ASSERT_EQUAL(look().phase, HOLD_RELEASED);
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, H0_MS + 70000);
    CHECK_TEXT(stored(own_key), "(absent)");
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 0);
}

static void a_generation_that_issued_nothing_gives_its_whole_grant_back(void) {
    given_a_closed_generation(H0_MS);
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_TXN);
    answer();
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, H0_MS);
}

static void nothing_is_released_before_the_loop_has_closed(void) {
    given_a_generation();
    hold_release(hold, now);
    CU_ASSERT_EQUAL(next(), HOLD_CLOSE);
    CU_ASSERT_EQUAL(next_after(60000), HOLD_NOTHING);
    CU_ASSERT_EQUAL(look().phase, HOLD_CLOSING);
}

static void pending_is_settled_by_a_read_before_the_release(void) {
    uint64_t extended_ms;

    given_an_extension_under_way();
    extended_ms = sent_horizon().horizon_ms;
    lose_answer();
    hold_release(hold, now);
    CU_ASSERT_EQUAL(next(), HOLD_CLOSE);
    hold_closed(hold, now, now.wall_ms);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_ordered_read());
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, extended_ms);
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN); /* no raise: it is closed */
    CU_ASSERT_TRUE(is_release());
    CU_ASSERT_TRUE(txn_compares(ETCD_VALUE_EQUAL, hor_key, stored(hor_key)));
    CU_ASSERT_EQUAL(sent_horizon().n, 3);
}

static void an_unanswered_release_never_reopens_and_is_settled(void) {
    given_a_closed_generation(H0_MS + 70000);
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_TXN);
    fail(STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_ordered_read());
    answer();
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_release());
    lose_answer();
    nothing_rises();
    CU_ASSERT_EQUAL(look().phase, HOLD_RELEASED);
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, H0_MS + 70000);
}

static void a_slot_that_was_lost_meanwhile_needs_no_release(void) {
    given_a_closed_generation(H0_MS + 70000);
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_TXN);
    fake_etcd_delete(etcd, own_key);
    answer();
    nothing_rises();
    CU_ASSERT_EQUAL(look().phase, HOLD_RELEASED);
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, installed.limit_ms);
}

static void a_slot_that_somebody_else_has_meanwhile_is_left_alone(void) {
    given_a_closed_generation(H0_MS + 70000);
    CU_ASSERT_EQUAL_FATAL(next(), HOLD_TXN);
    fake_etcd_put(etcd, own_key, "{}", 0);
    store_horizon(installed.limit_ms + 1, stranger, 1);
    answer();
    nothing_rises();
    CU_ASSERT_EQUAL(look().phase, HOLD_RELEASED);
    CHECK_TEXT(stored_horizon().claim, stranger);
}

static void a_generation_lost_while_it_closes_is_dropped_when_the_loop_has_answered(void) {
    struct etcd_txn_result *result;

    given_an_extension_under_way();
    fake_etcd_delete(etcd, own_key);
    store_horizon(installed.limit_ms + 1, stranger, 1);
    result = carry_out();
    hold_release(hold, now);
    CU_ASSERT_EQUAL(next(), HOLD_CLOSE);
    hear(result);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    hold_closed(hold, now, now.wall_ms);
    CU_ASSERT_EQUAL(next(), HOLD_DROP);
    CU_ASSERT_EQUAL(look().phase, HOLD_RELEASED);
    CHECK_TEXT(stored_horizon().claim, stranger);
}

static void an_era_that_changes_while_it_closes_ends_it_when_the_loop_has_answered(void) {
    given_a_generation();
    hold_give_up(hold, now, MACHINE, installed.claim);
    CU_ASSERT_EQUAL(next(), HOLD_CLOSE);
    other_era_of(era_b, era_a);
    hear_meta();
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    hold_closed(hold, now, now.wall_ms);
    CU_ASSERT_EQUAL(next(), HOLD_DROP);
    CU_ASSERT_EQUAL(next(), HOLD_SEEK);
    CHECK_TEXT(look().era, era_b);
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, installed.limit_ms);
}

static void an_order_to_give_up_releases_and_seeks_another_slot(void) {
    given_a_generation();
    hold_give_up(hold, now, MACHINE, installed.claim);
    CU_ASSERT_EQUAL(next(), HOLD_CLOSE);
    hold_closed(hold, now, now.wall_ms);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    CU_ASSERT_TRUE(is_release());
    answer();
    nothing_rises();
    CU_ASSERT_EQUAL(look().phase, HOLD_SEEKING);
    CU_ASSERT_EQUAL(stored_horizon().horizon_ms, now.wall_ms);
}

static void an_order_to_give_up_another_machine_or_claim_is_ignored(void) {
    given_a_generation();
    hold_give_up(hold, now, MACHINE + 1, installed.claim);
    hold_give_up(hold, now, MACHINE, stranger);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
}

static void without_a_generation_a_release_is_done_at_once(void) {
    hold_release(hold, now);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING);
    CU_ASSERT_EQUAL(look().phase, HOLD_RELEASED);
}

static void a_release_during_a_claim_hands_the_slot_straight_back(void) {
    given_a_claim_under_way();
    hold_release(hold, now);
    CU_ASSERT_EQUAL(look().phase, HOLD_CLAIMING);
    CU_ASSERT_EQUAL(next(), HOLD_NOTHING); /* it is on its way, and is seen through */
    fail(STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(next(), HOLD_TXN);
    answer();
    nothing_rises();
    CU_ASSERT_EQUAL(look().phase, HOLD_RELEASED);
    CHECK_TEXT(stored(own_key), "(absent)");
    CU_ASSERT_EQUAL(fake_etcd_leases(etcd), 0);
}

/* ---- leases ---- */

static void the_lease_is_kept_alive_at_its_interval(void) {
    int64_t lease;
    size_t i;

    given_a_generation();
    lease = fake_etcd_get(etcd, own_key)->lease;
    for (i = 0; i < 3; i++) {
        pass(4999);
        CU_ASSERT_EQUAL(hold_next(hold, now, &act), HOLD_NOTHING);
        CU_ASSERT_EQUAL(act.wake_boot_ms, now.boot_ms + 1);
        pass(1);
        CU_ASSERT_EQUAL(hold_next(hold, now, &act), HOLD_KEEPALIVE);
        CU_ASSERT_EQUAL(act.lease_id, lease);
        hold_kept(hold, now, NULL, lease);
    }
}

static void a_keepalive_of_unknown_outcome_changes_nothing_and_is_repeated_soon(void) {
    struct error err;

    given_a_generation();
    pass(5000);
    CU_ASSERT_EQUAL(hold_next(hold, now, &act), HOLD_KEEPALIVE);
    error_set(&err, STATUS_UNKNOWN, "test: no answer");
    hold_kept(hold, now, &err, act.lease_id);
    CU_ASSERT_EQUAL(hold_next(hold, now, &act), HOLD_NOTHING);
    CU_ASSERT_TRUE(act.wake_boot_ms <= now.boot_ms + config.retry_max_ms);
    CU_ASSERT_EQUAL(look().phase, HOLD_OPEN);
}

static void a_grant_of_unknown_outcome_is_revoked_and_asked_for_again(void) {
    struct error err;
    int64_t lease;

    CU_ASSERT_EQUAL(offer(&err), STATUS_OK);
    CU_ASSERT_EQUAL(next(), HOLD_GRANT);
    lease = act.lease_id;
    error_set(&err, STATUS_UNKNOWN, "test: no answer");
    hold_granted(hold, now, &err, lease, 0);
    CU_ASSERT_EQUAL(hold_next(hold, now, &act), HOLD_REVOKE);
    CU_ASSERT_EQUAL(act.lease_id, lease);
    CU_ASSERT_EQUAL(next_after(config.retry_max_ms), HOLD_GRANT);
    CU_ASSERT_NOT_EQUAL(act.lease_id, lease);
}

int main(void) {
    CU_TestInfo claims[] = {
        CHECK_TEST(a_first_claim_compares_and_writes_exactly_this),
        CHECK_TEST(a_generation_starts_above_h0_and_ends_at_the_stored_horizon),
        CHECK_TEST(a_claim_reaches_to_the_nearest_of_window_ceiling_and_end_of_epoch),
        CHECK_TEST(every_claim_has_a_new_name_and_a_new_lease),
        CHECK_TEST(a_horizon_further_ahead_than_the_clock_allows_is_refused),
        CHECK_TEST(a_machine_id_out_of_range_or_reserved_is_refused),
        CHECK_TEST(an_unreadable_horizon_is_refused),
        CHECK_TEST(a_floor_that_is_ahead_is_waited_for_on_the_same_slot),
        CHECK_TEST(a_window_above_what_the_cluster_allows_is_refused_naming_both),
        CHECK_TEST(without_meta_or_while_frozen_nothing_is_claimed),
        CHECK_TEST(a_claim_that_somebody_else_forestalled_gives_the_slot_and_its_lease_back),
        CHECK_TEST(a_slot_that_was_taken_out_of_range_meanwhile_is_not_claimed),
        CHECK_TEST(a_claim_under_a_meta_that_was_rewritten_meanwhile_is_sent_again),
        CHECK_TEST(a_claim_of_unknown_outcome_is_read_back_before_anything_else),
        CHECK_TEST(a_claim_that_landed_although_unanswered_is_adopted_with_its_own_h0),
        CHECK_TEST(a_claim_that_its_own_first_copy_forestalled_is_adopted),
        CHECK_TEST(a_claim_that_etcd_surely_did_not_do_is_tried_again),
        CU_TEST_INFO_NULL,
    };
    CU_TestInfo extensions[] = {
        CHECK_TEST(an_extension_compares_and_writes_exactly_this),
        CHECK_TEST(the_window_is_extended_when_two_thirds_are_left_or_a_tenth_earlier),
        CHECK_TEST(the_limit_rises_only_when_etcd_has_answered),
        CHECK_TEST(one_transaction_is_under_way_at_a_time),
        CHECK_TEST(an_extension_that_gains_nothing_only_reads),
        CHECK_TEST(an_extension_never_reaches_the_ceiling_or_past_the_end_of_the_epoch),
        CHECK_TEST(a_clock_that_stepped_back_does_not_lower_the_horizon),
        CHECK_TEST(an_extension_of_unknown_outcome_is_read_back_before_anything_else),
        CHECK_TEST(an_extension_that_landed_although_unanswered_is_adopted),
        CHECK_TEST(an_extension_that_lands_after_its_retry_was_sent_is_adopted),
        CHECK_TEST(a_meta_rewritten_in_the_same_era_is_taken_and_the_extension_sent_again),
        CHECK_TEST(while_frozen_it_serves_to_the_limit_and_goes_on_after_the_thaw),
        CHECK_TEST(without_meta_it_serves_to_the_limit_and_keeps_reading),
        CHECK_TEST(without_hor_it_serves_to_the_limit_and_keeps_reading),
        CHECK_TEST(an_unreadable_hor_counts_as_absent),
        CHECK_TEST(out_of_space_is_named_and_tried_again),
        CHECK_TEST(pauses_between_failures_grow_to_the_longest_and_no_further),
        CU_TEST_INFO_NULL,
    };
    CU_TestInfo losses[] = {
        CHECK_TEST(a_foreign_horizon_drops_the_generation_at_once),
        CHECK_TEST(an_older_value_of_its_own_is_a_rollback_and_it_serves_to_the_limit),
        CHECK_TEST(a_foreign_horizon_below_its_limit_is_a_rollback),
        CHECK_TEST(an_own_key_written_by_hand_stops_the_extensions),
        CU_TEST_INFO_NULL,
    };
    CU_TestInfo resumes[] = {
        CHECK_TEST(a_slot_that_was_taken_out_of_range_is_not_resumed_but_served_to_its_limit),
        CHECK_TEST(a_lease_that_ended_leads_to_a_look_and_then_to_a_claim_of_the_own_slot),
        CHECK_TEST(resuming_does_not_mind_a_horizon_far_ahead),
        CHECK_TEST(an_order_to_give_up_in_the_same_read_forbids_resuming),
        CHECK_TEST(an_order_to_give_up_an_earlier_claim_is_not_obeyed),
        CHECK_TEST(a_resuming_claim_that_landed_although_unanswered_is_adopted),
        CHECK_TEST(an_extension_that_landed_before_own_went_is_adopted_and_resumed_from),
        CHECK_TEST(nobody_resumes_a_slot_that_somebody_else_has_claimed),
        CHECK_TEST(a_late_claim_whose_lease_was_revoked_cannot_keep_the_slot),
        CU_TEST_INFO_NULL,
    };
    CU_TestInfo eras[] = {
        CHECK_TEST(an_era_that_follows_its_own_drops_the_generation_and_claims_anew),
        CHECK_TEST(a_foreign_era_halts_it_until_meta_names_its_own),
        CHECK_TEST(another_era_that_a_failed_extension_shows_drops_the_generation),
        CHECK_TEST(an_answer_to_a_request_of_an_earlier_era_changes_nothing),
        CU_TEST_INFO_NULL,
    };
    CU_TestInfo releases[] = {
        CHECK_TEST(a_release_compares_and_writes_exactly_this),
        CHECK_TEST(a_release_stores_the_last_timestamp_and_lets_go_of_own_and_lease),
        CHECK_TEST(a_generation_that_issued_nothing_gives_its_whole_grant_back),
        CHECK_TEST(nothing_is_released_before_the_loop_has_closed),
        CHECK_TEST(pending_is_settled_by_a_read_before_the_release),
        CHECK_TEST(an_unanswered_release_never_reopens_and_is_settled),
        CHECK_TEST(a_slot_that_was_lost_meanwhile_needs_no_release),
        CHECK_TEST(a_slot_that_somebody_else_has_meanwhile_is_left_alone),
        CHECK_TEST(a_generation_lost_while_it_closes_is_dropped_when_the_loop_has_answered),
        CHECK_TEST(an_era_that_changes_while_it_closes_ends_it_when_the_loop_has_answered),
        CHECK_TEST(an_order_to_give_up_releases_and_seeks_another_slot),
        CHECK_TEST(an_order_to_give_up_another_machine_or_claim_is_ignored),
        CHECK_TEST(without_a_generation_a_release_is_done_at_once),
        CHECK_TEST(a_release_during_a_claim_hands_the_slot_straight_back),
        CU_TEST_INFO_NULL,
    };
    CU_TestInfo leases[] = {
        CHECK_TEST(the_lease_is_kept_alive_at_its_interval),
        CHECK_TEST(a_keepalive_of_unknown_outcome_changes_nothing_and_is_repeated_soon),
        CHECK_TEST(a_grant_of_unknown_outcome_is_revoked_and_asked_for_again),
        CU_TEST_INFO_NULL,
    };
#define SUITE(name, rules) {name, NULL, NULL, given_a_free_slot, given_nothing_any_more, rules}
    CU_SuiteInfo suites[] = {
        SUITE("claim", claims),   SUITE("extend", extensions), SUITE("lost", losses),
        SUITE("resume", resumes), SUITE("era", eras),          SUITE("release", releases),
        SUITE("lease", leases),   CU_SUITE_INFO_NULL,
    };

    return check_run(suites);
}
