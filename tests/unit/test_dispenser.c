#include "worker/dispenser.h"

#include "common/records.h"
#include "tests/support/check.h"
#include "tests/support/fake_etcd.h"

#define NOW_MS UINT64_C(1767225600000)
#define ERA "0123456789abcdef0123456789abcdef"

/* etcd, which executes each transaction as it is told to: nothing happens by chance. */
static struct fake_world world;
static struct fake_etcd *etcd;
static struct keys keys;
static struct dispenser_cluster cluster;
static struct dispenser *dispenser;
static struct instant now;
static struct service_ids ids;
static struct service_error err;
static struct sequence record;

static void put_record(void) {
    char *text = sequence_format(&record, NULL), key[KEY_MAX];

    keys_seq(&keys, "orders", key);
    fake_etcd_put(etcd, key, text, 0);
    free(text);
}

static void read_record(void) {
    const struct etcd_kv *kv;
    char key[KEY_MAX];
    struct error unused;

    keys_seq(&keys, "orders", key);
    kv = fake_etcd_get(etcd, key);
    CU_ASSERT_PTR_NOT_NULL_FATAL(kv);
    CU_ASSERT_EQUAL_FATAL(sequence_parse(kv->value, kv->value_len, &record, &unused), STATUS_OK);
}

static void put_meta(enum meta_mode mode, const char *era) {
    struct meta meta = {.format = RECORD_FORMAT,
                        .serial = 1,
                        .floor_ms = NOW_MS,
                        .epoch_ms = NOW_MS,
                        .last_machine_id = 1023,
                        .max_window_ms = 60000,
                        .mode = mode};
    char *text;

    memcpy(meta.era, era, sizeof meta.era);
    text = meta_format(&meta, NULL);
    fake_etcd_put(etcd, keys.meta, text, 0);
    dispenser_cluster_meta(&cluster, text, strlen(text));
    dispenser_cluster_judge(&cluster, "");
    free(text);
}

static void given_a_sequence_of_blocks_of_10(void) {
    char ceiling[CEILING_TEXT_MAX];
    struct error unused;

    fake_world_init(&world, 1);
    etcd = fake_etcd_new(&world);
    keys_init(&keys, "default", &unused);
    now = (struct instant){.wall_ms = NOW_MS, .boot_ms = 1000};
    record = (struct sequence){.serial = 1,
                               .layout = 1,
                               .block = 10,
                               .max_rate = SEQUENCE_RATE_DEFAULT,
                               .n_shards = 1,
                               .next = {1}};
    put_record();
    ceiling_format(NOW_MS + 86400000, ceiling);
    fake_etcd_put(etcd, keys.ceil, ceiling, 0);
    dispenser_cluster_init(&cluster);
    put_meta(META_OPEN, ERA);
    dispenser = dispenser_new(&(struct dispenser_config){
        .keys = &keys, .name = "orders", .retry_min_ms = 100, .retry_max_ms = 2000});
}

static void then_free_it(void) {
    service_ids_free(&ids);
    dispenser_free(dispenser);
    dispenser_cluster_done(&cluster);
    fake_etcd_free(etcd);
    fake_world_done(&world);
}

static enum service_outcome take(uint32_t want) {
    service_ids_free(&ids);
    ids = (struct service_ids){.kind = ID_SEQUENCE, .want = want};
    err = (struct service_error){0};
    return dispenser_take(dispenser, &cluster, &ids, &err);
}

static const struct etcd_txn *next(void) {
    uint64_t wake_boot_ms;

    return dispenser_next(dispenser, &cluster, now, &wake_boot_ms);
}

static void answer(const struct etcd_txn *txn) {
    struct etcd_txn_result *result;

    CU_ASSERT_EQUAL_FATAL(fake_etcd_execute(etcd, txn, false, &result), STATUS_OK);
    dispenser_answered(dispenser, &cluster, now, NULL, result);
    fake_etcd_result_free(result);
}

static void fail(enum status status) {
    struct error why;

    error_set(&why, status, "no answer");
    dispenser_answered(dispenser, &cluster, now, &why, NULL);
}

/* Until it asks no more; how often it asked. */
static unsigned settle(void) {
    const struct etcd_txn *txn;
    unsigned asked = 0;

    while ((txn = next())) {
        answer(txn);
        asked++;
    }
    dispenser_changed(dispenser);
    return asked;
}

static void given_some_held(void) {
    CU_ASSERT_EQUAL(take(1), SERVICE_WAIT);
    settle();
    CU_ASSERT_EQUAL(take(1), SERVICE_WAIT);
    settle();
    CU_ASSERT_EQUAL_FATAL(take(1), SERVICE_DONE);
}

static struct dispenser_view look(void) {
    struct dispenser_view view;

    dispenser_look(dispenser, &cluster, &view);
    return view;
}

/* ---- rules ---- */

static void nothing_is_given_before_etcd_has_confirmed(void) {
    const struct etcd_txn *txn;

    CU_ASSERT_EQUAL(take(3), SERVICE_WAIT);
    settle(); /* reads */
    CU_ASSERT_EQUAL(take(3), SERVICE_WAIT);
    txn = next();
    CU_ASSERT_PTR_NOT_NULL_FATAL(txn);
    CU_ASSERT_EQUAL(take(3), SERVICE_WAIT);
    CU_ASSERT_PTR_NULL(next()); /* one at a time */
    answer(txn);
    CU_ASSERT_TRUE(dispenser_changed(dispenser));
    CU_ASSERT_EQUAL(take(3), SERVICE_DONE);
    CU_ASSERT_EQUAL(ids.have, 3);
    CU_ASSERT_EQUAL(ids.runs[0].first, 1);
    CU_ASSERT_EQUAL(look().held, 7);
}

static void all_or_nothing_is_taken(void) {
    given_some_held();
    CU_ASSERT_EQUAL(take(25), SERVICE_WAIT);
    CU_ASSERT_EQUAL(ids.have, 0);
    settle();
    CU_ASSERT_EQUAL(take(25), SERVICE_DONE);
    CU_ASSERT_EQUAL(ids.runs[0].first, 2);
    CU_ASSERT_EQUAL(ids.have, 25);
}

static void the_next_block_is_asked_for_when_half_is_used(void) {
    given_some_held();
    CU_ASSERT_EQUAL(take(3), SERVICE_DONE);
    CU_ASSERT_PTR_NULL(next()); /* 6 of 10 are left */
    CU_ASSERT_EQUAL(take(1), SERVICE_DONE);
    CU_ASSERT_EQUAL(settle(), 1);
    CU_ASSERT_EQUAL(settle(), 0); /* nobody takes: nobody asks */
}

static void blocks_grow_with_the_rate_and_shrink_again(void) {
    uint64_t held;

    given_some_held();
    for (unsigned i = 0; i < 200; i++) { /* 7 every 10 ms */
        now.boot_ms += 10;
        now.wall_ms += 10;
        if (take(7) == SERVICE_WAIT)
            settle();
        settle();
    }
    held = look().held;
    CU_ASSERT(held > 200); /* a burst of as many at once does not run dry */
    CU_ASSERT_EQUAL(take(200), SERVICE_DONE);
    settle();
    for (unsigned i = 0; i < 4000; i++) { /* one a second */
        now.boot_ms += 1000;
        now.wall_ms += 1000;
        CU_ASSERT_EQUAL(take(1), SERVICE_DONE);
        settle();
    }
    CU_ASSERT(look().held <= 20);
}

static void an_unknown_outcome_wastes_a_block_and_repeats_none(void) {
    const struct etcd_txn *txn;
    struct etcd_txn_result *result;

    given_some_held();
    CU_ASSERT_EQUAL(take(9), SERVICE_DONE); /* up to 10 */
    txn = next();
    CU_ASSERT_PTR_NOT_NULL_FATAL(txn);
    fake_etcd_execute(etcd, txn, false, &result); /* it arrives, and the answer does not */
    fake_etcd_result_free(result);
    fail(STATUS_UNKNOWN);
    CU_ASSERT_EQUAL(take(1), SERVICE_FAILED);
    CHECK_TEXT(err.code, "UNAVAILABLE");
    now.boot_ms += 100;
    settle(); /* reads, and is granted the block after it */
    read_record();
    CU_ASSERT(record.next[0] > 21);
    CU_ASSERT_EQUAL(take(1), SERVICE_DONE);
    CU_ASSERT_EQUAL(ids.runs[0].first, 31);
    CU_ASSERT_EQUAL(look().lost_total, 20);
}

static void what_others_were_granted_is_passed_by(void) {
    uint64_t wait_ms;
    struct sequence_grant grant;

    given_some_held();
    read_record();
    sequence_grant(&record, 0, 5, NOW_MS, &grant, &wait_ms);
    put_record();
    CU_ASSERT_EQUAL(take(9), SERVICE_DONE);
    CU_ASSERT_EQUAL(take(1), SERVICE_WAIT);
    settle();
    CU_ASSERT_EQUAL(take(1), SERVICE_DONE);
    CU_ASSERT_EQUAL(ids.runs[0].first, (int64_t)(grant.first + grant.count));
}

static void another_layout_forgets_what_is_held(void) {
    char *text;

    given_some_held();
    read_record();
    sequence_rebase(&record, 500, 1);
    put_record();
    text = sequence_format(&record, NULL);
    dispenser_seen(dispenser, text, strlen(text));
    free(text);
    CU_ASSERT_EQUAL(look().held, 0);
    CU_ASSERT_EQUAL(take(1), SERVICE_WAIT);
    settle();
    CU_ASSERT_EQUAL(take(1), SERVICE_DONE);
    CU_ASSERT_EQUAL(ids.runs[0].first, 500);
}

static void a_hint_that_is_late_changes_nothing(void) {
    char *text;

    read_record();
    given_some_held();
    text = sequence_format(&record, NULL); /* as it was before the grant */
    dispenser_seen(dispenser, text, strlen(text));
    free(text);
    CU_ASSERT_EQUAL(take(9), SERVICE_DONE);
    CU_ASSERT_EQUAL(look().reason[0], '\0');
}

static void a_record_that_went_back_is_not_granted_from(void) {
    read_record();
    given_some_held();
    put_record();
    CU_ASSERT_EQUAL(take(9), SERVICE_DONE);
    CU_ASSERT_EQUAL(take(1), SERVICE_WAIT);
    settle();
    CU_ASSERT_EQUAL(take(1), SERVICE_FAILED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "went back"));
    CU_ASSERT_EQUAL(settle(), 0);
}

static void a_freeze_leaves_what_is_held(void) {
    given_some_held();
    put_meta(META_FROZEN, ERA);
    CU_ASSERT_EQUAL(take(9), SERVICE_DONE);
    CU_ASSERT_EQUAL(settle(), 0);
    CU_ASSERT_EQUAL(take(1), SERVICE_FAILED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "frozen"));
}

static void a_foreign_era_leaves_nothing(void) {
    given_some_held();
    put_meta(META_OPEN, "ffffffffffffffffffffffffffffffff");
    CU_ASSERT_EQUAL(take(1), SERVICE_FAILED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "foreign era"));
    put_meta(META_OPEN, ERA);
    CU_ASSERT_EQUAL(take(1), SERVICE_DONE);
}

static void a_clock_above_the_ceiling_is_granted_nothing(void) {
    given_some_held();
    now.wall_ms += UINT64_C(400) * 86400000;
    CU_ASSERT_EQUAL(take(9), SERVICE_DONE);
    CU_ASSERT_EQUAL(take(1), SERVICE_WAIT);
    settle();
    CU_ASSERT_EQUAL(take(1), SERVICE_FAILED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "ceiling"));
}

/* Who is refused the first grant has nothing in stock that would ask for more. */
static void what_was_put_off_is_asked_for_again(void) {
    record.pace_ms = NOW_MS + SEQUENCE_BURST_MS + 500;
    put_record();
    CU_ASSERT_EQUAL(take(1), SERVICE_WAIT);
    settle();
    CU_ASSERT_EQUAL(take(1), SERVICE_WAIT);
    settle();
    CU_ASSERT_EQUAL(take(1), SERVICE_FAILED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "max_rate"));
    now.wall_ms += 600;
    now.boot_ms += 600;
    CU_ASSERT(settle() > 0);
    CU_ASSERT_EQUAL(take(1), SERVICE_DONE);
}

static void a_grant_that_failed_is_asked_for_again(void) {
    CU_ASSERT_EQUAL(take(1), SERVICE_WAIT);
    settle();
    CU_ASSERT_EQUAL(take(1), SERVICE_WAIT);
    CU_ASSERT_PTR_NOT_NULL_FATAL(next());
    fail(STATUS_UNAVAILABLE);
    dispenser_changed(dispenser);
    CU_ASSERT_EQUAL(take(1), SERVICE_FAILED);
    now.boot_ms += 100;
    CU_ASSERT(settle() > 0);
    CU_ASSERT_EQUAL(take(1), SERVICE_DONE);
}

static void the_end_is_exact(void) {
    record.next[0] = SEQUENCE_VALUE_MAX - 2;
    put_record();
    take(1);
    settle();
    CU_ASSERT_EQUAL(take(4), SERVICE_FAILED);
    CHECK_TEXT(err.code, "OUT_OF_RANGE");
    CHECK_TEXT(err.message, "sequence orders is exhausted but for 3 values");
    CU_ASSERT_EQUAL(take(3), SERVICE_WAIT);
    settle();
    CU_ASSERT_EQUAL(take(3), SERVICE_DONE);
    CU_ASSERT_EQUAL(ids.runs[0].first + 2, INT64_MAX);
    CU_ASSERT_EQUAL(take(1), SERVICE_FAILED);
    CHECK_TEXT(err.message, "sequence orders is exhausted: its last value was granted");
    CU_ASSERT_EQUAL(settle(), 0);
}

static void a_grant_that_the_watch_shows_first_is_no_end(void) {
    const struct etcd_txn *txn;
    struct etcd_txn_result *result;
    char *text;

    record.next[0] = SEQUENCE_VALUE_MAX - 2;
    put_record();
    take(1);
    settle();
    CU_ASSERT_EQUAL(take(3), SERVICE_WAIT);
    txn = next();
    CU_ASSERT_PTR_NOT_NULL_FATAL(txn);
    fake_etcd_execute(etcd, txn, false, &result);
    read_record();
    text = sequence_format(&record, NULL);
    dispenser_seen(dispenser, text, strlen(text));
    free(text);
    CU_ASSERT_EQUAL(take(3), SERVICE_WAIT);
    dispenser_answered(dispenser, &cluster, now, NULL, result);
    fake_etcd_result_free(result);
    CU_ASSERT_EQUAL(take(3), SERVICE_DONE);
}

static void no_such_sequence_is_said_after_a_look(void) {
    char key[KEY_MAX];

    keys_seq(&keys, "orders", key);
    fake_etcd_delete(etcd, key);
    CU_ASSERT_EQUAL(take(1), SERVICE_WAIT);
    settle();
    CU_ASSERT_EQUAL(take(1), SERVICE_FAILED);
    CHECK_TEXT(err.code, "NOT_FOUND");
    CU_ASSERT(dispenser_absent_boot_ms(dispenser) > 0);
}

static CU_TestInfo rules[] = {CHECK_TEST(nothing_is_given_before_etcd_has_confirmed),
                              CHECK_TEST(all_or_nothing_is_taken),
                              CHECK_TEST(the_next_block_is_asked_for_when_half_is_used),
                              CHECK_TEST(blocks_grow_with_the_rate_and_shrink_again),
                              CHECK_TEST(an_unknown_outcome_wastes_a_block_and_repeats_none),
                              CHECK_TEST(what_others_were_granted_is_passed_by),
                              CHECK_TEST(another_layout_forgets_what_is_held),
                              CHECK_TEST(a_hint_that_is_late_changes_nothing),
                              CHECK_TEST(a_record_that_went_back_is_not_granted_from),
                              CHECK_TEST(a_freeze_leaves_what_is_held),
                              CHECK_TEST(a_foreign_era_leaves_nothing),
                              CHECK_TEST(a_clock_above_the_ceiling_is_granted_nothing),
                              CHECK_TEST(what_was_put_off_is_asked_for_again),
                              CHECK_TEST(a_grant_that_failed_is_asked_for_again),
                              CHECK_TEST(the_end_is_exact),
                              CHECK_TEST(a_grant_that_the_watch_shows_first_is_no_end),
                              CHECK_TEST(no_such_sequence_is_said_after_a_look),
                              CU_TEST_INFO_NULL};

CHECK_MAIN({"a sequence", NULL, NULL, given_a_sequence_of_blocks_of_10, then_free_it, rules})
