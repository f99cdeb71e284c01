#include "common/sequence.h"

#include "common/records.h"
#include "tests/support/check.h"

#define NOW_MS UINT64_C(1767225600000)
#define TEXT                                                                                       \
    "{\"format\":1,\"serial\":\"7\",\"state\":\"OPEN\",\"mode\":\"stride\",\"layout\":\"2\","      \
    "\"block\":1000,\"max_rate\":1000000,\"pace_ms\":\"1767225600000\",\"next\":[\"4000\",\"2\","  \
    "\"3\"]}"

static struct sequence seq;
static struct sequence_grant grant;
static uint64_t wait_ms;
static struct error err;

static void given_a_block_sequence(void) {
    seq = (struct sequence){.serial = 1,
                            .mode = SEQUENCE_BLOCK,
                            .layout = 1,
                            .block = 10,
                            .max_rate = SEQUENCE_RATE_DEFAULT,
                            .n_shards = 1,
                            .next = {1}};
}

static void given_three_shards(void) {
    given_a_block_sequence();
    seq.mode = SEQUENCE_STRIDE;
    seq.n_shards = 3;
    for (size_t i = 0; i < 3; i++)
        seq.next[i] = 1 + i;
}

/* ---- the record ---- */

static void a_record_reads_and_writes_the_same(void) {
    struct sequence read;
    char *text;

    CU_ASSERT_EQUAL_FATAL(sequence_parse(TEXT, strlen(TEXT), &read, &err), STATUS_OK);
    CU_ASSERT_EQUAL(read.n_shards, 3);
    CU_ASSERT_EQUAL(read.next[0], 4000);
    CU_ASSERT_EQUAL(read.layout, 2);
    text = sequence_format(&read, NULL);
    CHECK_TEXT(text, TEXT);
    free(text);
}

static void unknown_fields_are_kept(void) {
    const char before[] = "{\"note\":\"of ours\"}";
    char *text = sequence_format(&seq, before);

    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"note\":\"of ours\""));
    free(text);
}

static const struct {
    const char *row, *from, *to, *message;
} wrong[] = {
    {"a newer format", "\"format\":1", "\"format\":2", "format"},
    {"no state", "\"OPEN\"", "\"SHUT\"", "state must be"},
    {"no mode", "\"stride\"", "\"strife\"", "mode must be"},
    {"block 0", "\"block\":1000", "\"block\":0", "block must be 1..1000000, got 0"},
    {"a block of more than 10 s", "\"max_rate\":1000000", "\"max_rate\":99", "block is more than"},
    {"a rate of 0", "\"max_rate\":1000000", "\"max_rate\":0", "max_rate must be"},
    {"a bare number", "\"4000\"", "4000", "next[0]"},
    {"a value past all", "\"4000\"", "\"9223372036854775872\"", "next[0]"},
    {"a negative one", "\"4000\"", "\"-1\"", "next[0]"},
    {"two shards with the same values", "\"4000\"", "\"4001\"", "two shards"},
    {"three shards in block mode", "\"stride\"", "\"block\"", "number of shards"},
    {"none at all", "\"4000\",\"2\",\"3\"", "", "number of shards"},
};

static void what_breaks_the_rules_is_refused_and_named(void) {
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[512];
        const char *at = strstr(TEXT, wrong[i].from);
        struct sequence untouched = {.serial = 99};

        CU_ASSERT_PTR_NOT_NULL_FATAL(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - TEXT), TEXT, wrong[i].to,
                 at + strlen(wrong[i].from));
        CHECK_ROW(wrong[i].row, sequence_parse(text, strlen(text), &untouched, &err) != STATUS_OK);
        CHECK_ROW(wrong[i].row, strstr(err.message, wrong[i].message) != NULL);
        CHECK_ROW(wrong[i].row, untouched.serial == 99);
    }
}

static void names_are_plain_and_short(void) {
    char longest[SEQUENCE_NAME_MAX + 2];

    memset(longest, 'n', sizeof longest);
    CU_ASSERT_EQUAL(sequence_name_check("Orders_2.eu-1", 13, &err), STATUS_OK);
    CU_ASSERT_EQUAL(sequence_name_check(longest, SEQUENCE_NAME_MAX, &err), STATUS_OK);
    CU_ASSERT_EQUAL(sequence_name_check(longest, SEQUENCE_NAME_MAX + 1, &err), STATUS_INVALID);
    CU_ASSERT_EQUAL(sequence_name_check("", 0, &err), STATUS_INVALID);
    CU_ASSERT_EQUAL(sequence_name_check("a/b", 3, &err), STATUS_INVALID);
    CU_ASSERT_EQUAL(sequence_name_check("a\0b", 3, &err), STATUS_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "1..64 characters"));
}

/* ---- grants ---- */

static void blocks_follow_one_another(void) {
    CU_ASSERT_EQUAL(sequence_grant(&seq, 0, 1, NOW_MS, &grant, &wait_ms), STATUS_OK);
    CU_ASSERT_EQUAL(grant.first, 1);
    CU_ASSERT_EQUAL(grant.count, 10);
    CU_ASSERT_EQUAL(grant.step, 1);
    CU_ASSERT_EQUAL(sequence_grant(&seq, 0, 3, NOW_MS, &grant, &wait_ms), STATUS_OK);
    CU_ASSERT_EQUAL(grant.first, 11);
    CU_ASSERT_EQUAL(grant.count, 30);
    CU_ASSERT_EQUAL(seq.next[0], 41);
    CU_ASSERT_EQUAL(seq.serial, 3);
}

static void shards_never_meet(void) {
    bool given[400] = {false};

    for (unsigned round = 0; round < 12; round++) {
        CU_ASSERT_EQUAL(sequence_grant(&seq, round % 3, 1, NOW_MS, &grant, &wait_ms), STATUS_OK);
        CU_ASSERT_EQUAL(grant.step, 3);
        for (uint64_t i = 0; i < grant.count; i++) {
            uint64_t value = grant.first + i * grant.step;

            CU_ASSERT_EQUAL(value % 3, (1 + round) % 3);
            CU_ASSERT_FALSE(given[value]);
            given[value] = true;
        }
    }
}

static void the_last_value_is_given_and_nothing_wraps_after_it(void) {
    seq.next[0] = SEQUENCE_VALUE_MAX - 14;
    CU_ASSERT_EQUAL(sequence_left(&seq, 0), 15);
    CU_ASSERT_EQUAL(sequence_grant(&seq, 0, 1, NOW_MS, &grant, &wait_ms), STATUS_OK);
    CU_ASSERT_EQUAL(sequence_grant(&seq, 0, 9, NOW_MS, &grant, &wait_ms), STATUS_OK);
    CU_ASSERT_EQUAL(grant.count, 5);
    CU_ASSERT_EQUAL(grant.first + grant.count - 1, SEQUENCE_VALUE_MAX);
    CU_ASSERT_EQUAL(sequence_left(&seq, 0), 0);
    CU_ASSERT_EQUAL(sequence_grant(&seq, 0, 1, NOW_MS, &grant, &wait_ms), STATUS_STARVED);
    CU_ASSERT_EQUAL(sequence_check(&seq, &err), STATUS_OK);
}

static void each_shard_ends_by_itself(void) {
    for (size_t i = 0; i < 3; i++)
        seq.next[i] = SEQUENCE_VALUE_MAX - 4 + i; /* two, two and one are left */
    CU_ASSERT_EQUAL(sequence_left(&seq, 0), 2);
    CU_ASSERT_EQUAL(sequence_left(&seq, 1), 2);
    CU_ASSERT_EQUAL(sequence_left(&seq, 2), 1);
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(sequence_grant(&seq, i, 1, NOW_MS, &grant, &wait_ms), STATUS_OK);
        CU_ASSERT_EQUAL(sequence_grant(&seq, i, 1, NOW_MS, &grant, &wait_ms), STATUS_STARVED);
    }
    CU_ASSERT_EQUAL(sequence_check(&seq, &err), STATUS_OK);
}

static void the_rate_is_kept_in_the_long_run(void) {
    uint64_t now_ms = NOW_MS, granted = 0;

    seq.max_rate = 100;
    seq.block = 10;
    for (unsigned i = 0; i < 10000; i++) {
        enum status status = sequence_grant(&seq, 0, 7, now_ms, &grant, &wait_ms);

        if (status == STATUS_OK) {
            granted += grant.count;
        } else {
            CU_ASSERT_EQUAL_FATAL(status, STATUS_BUSY);
            CU_ASSERT(wait_ms > 0);
            now_ms += wait_ms;
            /* As it said. */
            CU_ASSERT_EQUAL(sequence_grant(&seq, 0, 1, now_ms, &grant, &wait_ms), STATUS_OK);
            granted += grant.count;
        }
        CU_ASSERT(granted * 10 <= now_ms + SEQUENCE_BURST_MS - NOW_MS);
    }
    CU_ASSERT(granted > 1000);
}

static void a_clock_behind_the_pace_waits(void) {
    CU_ASSERT_EQUAL(sequence_grant(&seq, 0, 1, NOW_MS + 60000, &grant, &wait_ms), STATUS_OK);
    CU_ASSERT_EQUAL(sequence_grant(&seq, 0, 1, NOW_MS, &grant, &wait_ms), STATUS_BUSY);
    CU_ASSERT_EQUAL(wait_ms, 60000 + 2 - SEQUENCE_BURST_MS);
    CU_ASSERT_EQUAL(sequence_grant(&seq, 0, 1, RECORD_WALL_MAX_MS, &grant, &wait_ms),
                    STATUS_CLOCK_RANGE);
}

/* ---- changes ---- */

static void a_reshard_begins_above_everything_granted(void) {
    CU_ASSERT_EQUAL(sequence_grant(&seq, 1, 50, NOW_MS, &grant, &wait_ms), STATUS_OK);
    CU_ASSERT_EQUAL(sequence_reshard(&seq, 4, NOW_MS, &wait_ms), STATUS_OK);
    CU_ASSERT_EQUAL(seq.n_shards, 4);
    CU_ASSERT_EQUAL(seq.layout, 2);
    for (size_t i = 0; i < 4; i++)
        CU_ASSERT(seq.next[i] > grant.first + (grant.count - 1) * grant.step);
    CU_ASSERT_EQUAL(sequence_check(&seq, &err), STATUS_OK);
}

/* Whatever is done to the record after a copy was taken, the fence of the copy is above it. */
static void a_fence_is_above_all_that_can_have_been_granted(void) {
    struct check_random random = check_random_seeded(__func__);

    for (unsigned run = 0; run < 2000; run++) {
        uint64_t now_ms = NOW_MS + check_random_below(&random, 100000), blocks, highest = 0, last;
        struct sequence copy;

        if (run % 2)
            given_a_block_sequence();
        else
            given_three_shards();
        seq.max_rate = 1 + check_random_below(&random, 2000);
        seq.block = 1 + check_random_below(&random, seq.max_rate * SEQUENCE_BURST_S);
        copy = seq;
        for (unsigned i = 0; i < 60; i++) {
            now_ms += check_random_below(&random, 3000);
            if (check_random_below(&random, 30) == 0)
                copy = seq;
            /* A recover, after which the older copy is restored all the same. */
            if (check_random_below(&random, 20) == 0) {
                sequence_fence(&seq, now_ms, 0);
                continue;
            }
            if (seq.mode == SEQUENCE_STRIDE && check_random_below(&random, 5) == 0) {
                sequence_reshard(&seq, 1 + check_random_below(&random, SEQUENCE_SHARDS_MAX), now_ms,
                                 &wait_ms);
                continue;
            }
            blocks = 1 + check_random_below(&random, 5);
            if (sequence_grant(&seq, check_random_below(&random, seq.n_shards), blocks, now_ms,
                               &grant, &wait_ms) != STATUS_OK)
                continue;
            last = grant.first + (grant.count - 1) * grant.step;
            CU_ASSERT(grant.first < last || grant.count == 1);
            highest = last > highest ? last : highest;
        }
        sequence_fence(&copy, now_ms, 0);
        for (size_t i = 0; i < copy.n_shards; i++)
            CU_ASSERT(copy.next[i] > highest);
        CU_ASSERT_EQUAL(sequence_check(&copy, &err), STATUS_OK);
    }
}

/* Why a fence counts two values of all shards for each that the rate allows. */
static void a_copy_is_fenced_above_what_many_recovers_left(void) {
    uint64_t now_ms = NOW_MS, highest = 0;
    struct sequence copy;

    given_three_shards();
    seq.n_shards = SEQUENCE_SHARDS_MAX;
    for (size_t i = 0; i < seq.n_shards; i++)
        seq.next[i] = 1 + i;
    seq.block = seq.max_rate = 1;
    seq.pace_ms = NOW_MS + SEQUENCE_BURST_MS;
    copy = seq;
    for (unsigned i = 0; i < 10; i++) {
        now_ms += 1000;
        CU_ASSERT_EQUAL(sequence_grant(&seq, SEQUENCE_SHARDS_MAX - 1, 1, now_ms, &grant, &wait_ms),
                        STATUS_OK);
        highest = grant.first;
        sequence_fence(&seq, now_ms, 0);
    }
    sequence_fence(&copy, now_ms, 0);
    CU_ASSERT(copy.next[0] > highest);
}

static void reshards_keep_to_the_rate(void) {
    seq.max_rate = 1;
    seq.block = 1;
    for (unsigned i = 0; i < SEQUENCE_BURST_S; i++)
        CU_ASSERT_EQUAL(sequence_reshard(&seq, 1 + i % 4, NOW_MS, &wait_ms), STATUS_OK);
    CU_ASSERT_EQUAL(sequence_reshard(&seq, 3, NOW_MS, &wait_ms), STATUS_BUSY);
    CU_ASSERT_EQUAL(wait_ms, 1000);
}

static void no_shard_passes_the_end_of_what_a_record_can_say(void) {
    for (size_t i = 0; i < seq.n_shards; i++)
        seq.next[i] = SEQUENCE_NEXT_MAX - i % 2;
    sequence_fence(&seq, NOW_MS, 0);
    CU_ASSERT_EQUAL(sequence_check(&seq, &err), STATUS_OK);
    for (size_t i = 0; i < seq.n_shards; i++)
        CU_ASSERT_EQUAL(sequence_left(&seq, i), 0);
}

static void evidence_counts_beside_the_rate(void) {
    seq.max_rate = 1;
    sequence_fence(&seq, NOW_MS, 5000000000000);
    CU_ASSERT_EQUAL(seq.next[0], 5000000000000);
}

static void a_pace_far_ahead_leaves_no_bound_so_the_fence_drops(void) {
    struct sequence ahead = seq;

    ahead.pace_ms = NOW_MS +
                    2 * SEQUENCE_BURST_MS; /* as the fence of another recover may leave it */
    sequence_fence(&ahead, NOW_MS, 0);
    CU_ASSERT_FALSE(ahead.dropped);
    ahead = seq;
    ahead.pace_ms = NOW_MS + 2 * SEQUENCE_BURST_MS + 1;
    sequence_fence(&ahead, NOW_MS, 0);
    CU_ASSERT_TRUE(ahead.dropped);
    CU_ASSERT(ahead.next[0] > seq.next[0]);
    CU_ASSERT_EQUAL(ahead.pace_ms, NOW_MS + SEQUENCE_BURST_MS); /* one made anew need not wait */
}

static void a_fence_past_the_end_exhausts(void) {
    seq.next[0] = SEQUENCE_VALUE_MAX - 5;
    sequence_fence(&seq, NOW_MS, 0);
    CU_ASSERT_EQUAL(sequence_left(&seq, 0), 0);
    sequence_fence(&seq, RECORD_WALL_MAX_MS, UINT64_MAX);
    CU_ASSERT_EQUAL(sequence_left(&seq, 0), 0);
    CU_ASSERT_EQUAL(sequence_check(&seq, &err), STATUS_OK);
}

/* ---- a write of unknown outcome ---- */

static void what_became_of_a_record_by_grants_follows_it(void) {
    struct sequence sent = seq, found = seq;

    CU_ASSERT_TRUE(sequence_follows(&found, &sent));
    CU_ASSERT_EQUAL(sequence_grant(&found, 2, 1, NOW_MS, &grant, &wait_ms), STATUS_OK);
    CU_ASSERT_EQUAL(sequence_grant(&found, 0, 3, NOW_MS, &grant, &wait_ms), STATUS_OK);
    CU_ASSERT_TRUE(sequence_follows(&found, &sent));
    CU_ASSERT_FALSE(sequence_follows(&sent, &found));
}

/* Of a record that is found once: somebody else's change of it, beside the one that was sent. */
static void what_another_made_of_it_does_not(void) {
    struct sequence sent = seq, found = seq;

    sent.block = 77, sent.serial++;
    CU_ASSERT_EQUAL(sequence_grant(&found, 0, 1, NOW_MS, &grant, &wait_ms), STATUS_OK);
    CU_ASSERT_FALSE(sequence_follows(&found, &sent)); /* a grant came first */
    sent = found = seq;
    sequence_rebase(&sent, 2000000, 3);
    sequence_rebase(&found, 5000, 3);
    CU_ASSERT_FALSE(sequence_follows(&found, &sent));
    CU_ASSERT_FALSE(sequence_follows(&sent, &found)); /* above it, and of the same serial */
    found = sent;
    CU_ASSERT_EQUAL(sequence_reshard(&found, 4, NOW_MS, &wait_ms), STATUS_OK);
    CU_ASSERT_FALSE(sequence_follows(&found, &sent));
    found = sent;
    found.dropped = true;
    found.serial++;
    CU_ASSERT_FALSE(sequence_follows(&found, &sent));
    found = sent;
    found.serial++;
    found.next[1]++; /* no grant does that */
    CU_ASSERT_FALSE(sequence_follows(&found, &sent));
}

static CU_TestInfo record_rules[] = {CHECK_TEST(a_record_reads_and_writes_the_same),
                                     CHECK_TEST(unknown_fields_are_kept),
                                     CHECK_TEST(what_breaks_the_rules_is_refused_and_named),
                                     CHECK_TEST(names_are_plain_and_short), CU_TEST_INFO_NULL};
static CU_TestInfo block_rules[] = {CHECK_TEST(blocks_follow_one_another),
                                    CHECK_TEST(the_last_value_is_given_and_nothing_wraps_after_it),
                                    CHECK_TEST(the_rate_is_kept_in_the_long_run),
                                    CHECK_TEST(a_clock_behind_the_pace_waits),
                                    CHECK_TEST(a_fence_is_above_all_that_can_have_been_granted),
                                    CHECK_TEST(a_copy_is_fenced_above_what_many_recovers_left),
                                    CHECK_TEST(evidence_counts_beside_the_rate),
                                    CHECK_TEST(a_pace_far_ahead_leaves_no_bound_so_the_fence_drops),
                                    CHECK_TEST(a_fence_past_the_end_exhausts),
                                    CU_TEST_INFO_NULL};
static CU_TestInfo shard_rules[] = {CHECK_TEST(shards_never_meet),
                                    CHECK_TEST(each_shard_ends_by_itself),
                                    CHECK_TEST(a_reshard_begins_above_everything_granted),
                                    CHECK_TEST(reshards_keep_to_the_rate),
                                    CHECK_TEST(no_shard_passes_the_end_of_what_a_record_can_say),
                                    CHECK_TEST(what_became_of_a_record_by_grants_follows_it),
                                    CHECK_TEST(what_another_made_of_it_does_not),
                                    CU_TEST_INFO_NULL};

CHECK_MAIN({"a record", NULL, NULL, given_a_block_sequence, NULL, record_rules},
           {"a block sequence", NULL, NULL, given_a_block_sequence, NULL, block_rules},
           {"three shards", NULL, NULL, given_three_shards, NULL, shard_rules})
