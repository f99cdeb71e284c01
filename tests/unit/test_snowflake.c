#include "common/snowflake.h"

#include <time.h>

#include "common/decimal.h"
#include "tests/support/check.h"

#define TWITTER_EPOCH_MS UINT64_C(1288834974657)
#define DISCORD_EPOCH_MS UINT64_C(1420070400000)

static struct snowflake gen;
static uint64_t now_ms;

static void given_machine_7_granted_for_10_s(void) {
    now_ms = SNOWFLAKE_EPOCH_MS + 1000;
    snowflake_init(&gen, SNOWFLAKE_EPOCH_MS, 7, now_ms - 1, now_ms + 10000, SNOWFLAKE_START_ZERO);
}

static int64_t next_id(void) {
    int64_t id = -1;

    CU_ASSERT_EQUAL(snowflake_next(&gen, now_ms, &id), STATUS_OK);
    return id;
}

static struct snowflake_run take(uint32_t want) {
    struct snowflake_run run = {-1, 0};

    CU_ASSERT_EQUAL(snowflake_take(&gen, now_ms, want, &run), STATUS_OK);
    return run;
}

static struct snowflake_parts parts(int64_t id) {
    return snowflake_decode(id, gen.epoch_ms);
}

/* Checks that neither the generator nor what stood in id and run is touched by a refusal. */
static void check_refused(enum status expected) {
    struct snowflake before = gen;
    struct snowflake_run run = {42, 43};
    int64_t id = 41;

    CU_ASSERT_EQUAL(snowflake_next(&gen, now_ms, &id), expected);
    CU_ASSERT_EQUAL(snowflake_take(&gen, now_ms, 10, &run), expected);
    CU_ASSERT(id == 41 && run.first == 42 && run.count == 43);
    CU_ASSERT_EQUAL(memcmp(&gen, &before, sizeof gen), 0);
}

/* --- the layout --- */

static const struct {
    const char *row;
    uint64_t timestamp;
    uint16_t machine_id, sequence;
    int64_t id;
    const char *time;
} layout[] = {
    {"zero", 0, 0, 0, 0, "2024-01-01T00:00:00.000Z"},
    {"sequence 1", 0, 0, 1, 1, "2024-01-01T00:00:00.000Z"},
    {"the last sequence", 0, 0, 4095, 4095, "2024-01-01T00:00:00.000Z"},
    {"machine 1", 0, 1, 0, 4096, "2024-01-01T00:00:00.000Z"},
    {"the last machine", 0, 1023, 4095, 4194303, "2024-01-01T00:00:00.000Z"},
    {"1 ms", 1, 0, 0, 4194304, "2024-01-01T00:00:00.001Z"},
    {"June 2025", 44668800000, 5, 7, 187354526515220487, "2025-06-01T00:00:00.000Z"},
    {"2026", 63158400000, 1023, 4095, 264905529757794303, "2026-01-01T00:00:00.000Z"},
    {"the last ms", 2199023255551, 0, 0, 9223372036850581504, "2093-09-06T15:47:35.551Z"},
    {"the last ID", 2199023255551, 1023, 4095, INT64_MAX, "2093-09-06T15:47:35.551Z"},
};

static void ids_have_the_published_layout(void) {
    for (size_t i = 0; i < sizeof layout / sizeof layout[0]; i++) {
        uint64_t wall_ms = SNOWFLAKE_EPOCH_MS + layout[i].timestamp;
        struct snowflake_parts read = snowflake_decode(layout[i].id, SNOWFLAKE_EPOCH_MS);
        struct snowflake_run run;
        char time[32];

        time_format(read.timestamp_ms, time);
        CHECK_ROW(layout[i].row, read.timestamp_ms == wall_ms);
        CHECK_ROW(layout[i].row, read.machine_id == layout[i].machine_id);
        CHECK_ROW(layout[i].row, read.sequence == layout[i].sequence);
        CHECK_TEXT(time, layout[i].time);
        snowflake_init(&gen, SNOWFLAKE_EPOCH_MS, layout[i].machine_id, wall_ms - 1, wall_ms,
                       SNOWFLAKE_START_ZERO);
        CHECK_ROW(layout[i].row, snowflake_take(&gen, wall_ms, 4096, &run) == STATUS_OK);
        CHECK_ROW(layout[i].row, run.count == 4096);
        CHECK_ROW(layout[i].row, run.first + layout[i].sequence == layout[i].id);
    }
}

static const struct {
    const char *row;
    int64_t id;
    uint64_t epoch_ms, timestamp_ms;
    uint16_t machine_id, sequence;
    const char *time;
} published[] = {
    {"Wikipedia", 1541815603606036480, TWITTER_EPOCH_MS, 1656432460105, 378, 0,
     "2022-06-28T16:07:40.105Z"},
    {"blog-ev8", 1900547158165840235, TWITTER_EPOCH_MS, 1741960727622, 422, 363,
     "2025-03-14T13:58:47.622Z"},
    {"sapphiredev/utilities#521", 1593572310593806338, TWITTER_EPOCH_MS, 1668772220644, 378, 2,
     "2022-11-18T11:50:20.644Z"},
    {"Discord's reference", 175928847299117063, DISCORD_EPOCH_MS, 1462015105796, 32, 7,
     "2016-04-30T11:18:25.796Z"},
    {"discord.js", 266241948824764416, DISCORD_EPOCH_MS, 1483547427136, 32, 0,
     "2017-01-04T16:30:27.136Z"},
    {"twilight-util", 105484726235607040, DISCORD_EPOCH_MS, 1445219918546, 11, 0,
     "2015-10-19T01:58:38.546Z"},
    {"discordance", 943865945699532811, DISCORD_EPOCH_MS, 1645105577636, 36, 11,
     "2022-02-17T13:46:17.636Z"},
    {"vd2org/snowflake#3", 7102577116159582209, 0, 1693386343994, 42, 1,
     "2023-08-30T09:05:43.994Z"},
    {"NewLifeX/X#140", 7193010915251875840, 0, 1714947441876, 391, 0, "2024-05-05T22:17:21.876Z"},
};

static void ids_of_other_epochs_decode_exactly(void) {
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        struct snowflake_parts read = snowflake_decode(published[i].id, published[i].epoch_ms);
        char time[32];

        time_format(read.timestamp_ms, time);
        CHECK_ROW(published[i].row, read.timestamp_ms == published[i].timestamp_ms);
        CHECK_ROW(published[i].row, read.machine_id == published[i].machine_id);
        CHECK_ROW(published[i].row, read.sequence == published[i].sequence);
        CHECK_TEXT(time, published[i].time);
    }
}

static void nothing_depends_on_the_time_zone(void) {
    static const char *const zones[] = {"Asia/Shanghai", "America/New_York", "UTC",
                                        "Asia/Kathmandu", "XXX-14"};

    for (size_t i = 0; i < sizeof zones / sizeof zones[0]; i++) {
        setenv("TZ", zones[i], 1);
        tzset();
        ids_have_the_published_layout();
        ids_of_other_epochs_decode_exactly();
    }
    unsetenv("TZ");
    tzset();
}

/* --- order within a millisecond and across --- */

static void ids_of_one_millisecond_follow_one_another(void) {
    int64_t first = next_id();

    CU_ASSERT_EQUAL(next_id(), first + 1);
    CU_ASSERT_EQUAL(take(100).first, first + 2);
    CU_ASSERT_EQUAL(next_id(), first + 102);
    CU_ASSERT_EQUAL(parts(first).machine_id, 7);
    CU_ASSERT_EQUAL(parts(first).timestamp_ms, now_ms);
}

static void a_millisecond_has_4096_ids_and_no_more(void) {
    struct snowflake_run run = take(10000);

    CU_ASSERT_EQUAL(run.count, 4096);
    CU_ASSERT_EQUAL(parts(run.first).sequence, 0);
    CU_ASSERT_EQUAL(parts(run.first + 4095).sequence, 4095);
    check_refused(STATUS_BUSY);
}

/* A generator that waited for the next millisecond must date the ID with it, not with the old. */
static void id_4097_of_a_batch_has_a_later_timestamp(void) {
    int64_t newest = -1;
    uint32_t left = 50000;
    uint64_t start_ms = now_ms;

    while (left > 0) {
        struct snowflake_run run = take(left);

        CU_ASSERT(run.first > newest);
        CU_ASSERT_EQUAL(parts(run.first).timestamp_ms, now_ms);
        newest = run.first + (run.count - 1);
        CU_ASSERT_EQUAL(parts(newest).timestamp_ms, now_ms);
        left -= run.count;
        if (left > 0) {
            check_refused(STATUS_BUSY);
            now_ms++;
        }
    }
    CU_ASSERT_EQUAL(now_ms - start_ms, 50000 / 4096);
}

static void a_fresh_generator_starts_after_the_used_up_millisecond(void) {
    now_ms--;
    check_refused(STATUS_BUSY);
    now_ms++;
    CU_ASSERT_EQUAL(parts(next_id()).sequence, 0);
}

static void a_generator_may_start_at_the_epoch(void) {
    snowflake_init(&gen, SNOWFLAKE_EPOCH_MS, 7, SNOWFLAKE_EPOCH_MS - 1, SNOWFLAKE_EPOCH_MS,
                   SNOWFLAKE_START_ZERO);
    now_ms = SNOWFLAKE_EPOCH_MS;
    CU_ASSERT_EQUAL(next_id(), 7 << 12);
}

/* --- what the clock may do --- */

static void no_id_while_the_clock_is_behind_the_newest_id(void) {
    next_id();
    now_ms -= 1;
    check_refused(STATUS_CLOCK_BACK);
    now_ms -= 500;
    check_refused(STATUS_CLOCK_BACK);
}

static void a_step_back_leaves_the_sequence_alone(void) {
    int64_t tenth = take(10).first + 9;

    now_ms -= 1;
    check_refused(STATUS_CLOCK_BACK);
    now_ms += 1;
    CU_ASSERT_EQUAL(take(10).first, tenth + 1);
}

static void a_used_up_millisecond_stays_used_up_after_a_step_back(void) {
    take(4096);
    now_ms -= 1;
    check_refused(STATUS_CLOCK_BACK);
    now_ms += 1;
    check_refused(STATUS_BUSY);
}

static void no_id_past_the_limit(void) {
    now_ms = gen.limit_ms;
    CU_ASSERT_EQUAL(parts(next_id()).timestamp_ms, gen.limit_ms);
    now_ms++;
    check_refused(STATUS_STARVED);
    gen.limit_ms++;
    CU_ASSERT_EQUAL(parts(next_id()).timestamp_ms, gen.limit_ms);
}

/* The caller waits for the next millisecond either way, and learns there that it is starved. */
static void the_limit_itself_used_up_is_busy_and_then_starved(void) {
    now_ms = gen.limit_ms;
    take(4096);
    check_refused(STATUS_BUSY);
    now_ms++;
    check_refused(STATUS_STARVED);
}

static void a_grant_without_time_is_starved(void) {
    snowflake_init(&gen, SNOWFLAKE_EPOCH_MS, 7, now_ms, now_ms, SNOWFLAKE_START_ZERO);
    check_refused(STATUS_BUSY);
    now_ms++;
    check_refused(STATUS_STARVED);
}

static void no_id_before_the_epoch(void) {
    now_ms = SNOWFLAKE_EPOCH_MS - 1;
    check_refused(STATUS_CLOCK_RANGE);
    now_ms = 0;
    check_refused(STATUS_CLOCK_RANGE);
}

static void the_last_millisecond_is_used_and_nothing_wraps_after_it(void) {
    uint64_t end_ms = UINT64_C(3903090455551); /* 2093-09-06T15:47:35.551Z */
    struct snowflake_run run;

    snowflake_init(&gen, SNOWFLAKE_EPOCH_MS, 1023, end_ms - 1, UINT64_MAX, SNOWFLAKE_START_ZERO);
    CU_ASSERT_EQUAL(snowflake_end_ms(SNOWFLAKE_EPOCH_MS), end_ms);
    now_ms = end_ms;
    run = take(4096);
    CU_ASSERT(run.first > 0);
    CU_ASSERT_EQUAL(run.first + (run.count - 1), INT64_MAX);
    CU_ASSERT_EQUAL(parts(run.first).timestamp_ms - SNOWFLAKE_EPOCH_MS, 2199023255551);
    now_ms = end_ms + 1;
    check_refused(STATUS_CLOCK_RANGE);
    now_ms = UINT64_C(7258118400000); /* 2200 */
    check_refused(STATUS_CLOCK_RANGE);
    now_ms = UINT64_MAX;
    check_refused(STATUS_CLOCK_RANGE);
}

/* More than one thing can be wrong: what is named first is what an operator has to mend first. */
static const struct {
    const char *row;
    int64_t now_ms, last_ms, limit_ms; /* after the epoch */
    uint16_t sequence;
    enum status expected;
} orders[] = {
    {"before the epoch and back", -1, 100, 200, 0, STATUS_CLOCK_RANGE},
    {"past the end and the limit", INT64_C(1) << 41, 100, 200, 0, STATUS_CLOCK_RANGE},
    {"back, within a used up grant", 99, 100, 100, 4095, STATUS_CLOCK_BACK},
    {"at the limit, used up", 100, 100, 100, 4095, STATUS_BUSY},
    {"past the limit after a used up ms", 101, 100, 100, 4095, STATUS_STARVED},
    {"at the limit, one left", 100, 100, 100, 4094, STATUS_OK},
};

static void the_first_reason_is_named(void) {
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        int64_t id;

        gen = (struct snowflake){
            .epoch_ms = SNOWFLAKE_EPOCH_MS,
            .last_wall_ms = SNOWFLAKE_EPOCH_MS + (uint64_t)orders[i].last_ms,
            .limit_ms = SNOWFLAKE_EPOCH_MS + (uint64_t)orders[i].limit_ms,
            .sequence = orders[i].sequence,
        };
        CHECK_ROW(orders[i].row,
                  snowflake_next(&gen, SNOWFLAKE_EPOCH_MS + (uint64_t)orders[i].now_ms, &id) ==
                      orders[i].expected);
    }
}

/* --- where a millisecond starts --- */

static void at_low_rates_ids_modulo_n_spread_evenly(void) {
    unsigned residues[16] = {0};

    gen.start = SNOWFLAKE_START_SPREAD;
    gen.limit_ms = now_ms + 400 * 200;
    for (int i = 0; i < 400; i++) {
        now_ms += 200; /* 5 a second */
        residues[next_id() % 16]++;
    }
    for (int i = 0; i < 16; i++)
        CU_ASSERT(residues[i] >= 400 * 2 / 100 && residues[i] <= 400 * 15 / 100);
}

static void spread_starts_rotate_over_the_lowest_sixteenth(void) {
    gen.start = SNOWFLAKE_START_SPREAD;
    for (unsigned i = 0; i < 600; i++) {
        now_ms += 2;
        CU_ASSERT_EQUAL(parts(next_id()).sequence, i % 256);
    }
}

static void a_spread_millisecond_holds_what_is_left_above_its_start(void) {
    gen.start = SNOWFLAKE_START_SPREAD;
    gen.next_start = 255;
    now_ms += 5;
    CU_ASSERT_EQUAL(take(5000).count, 4096 - 255);
    check_refused(STATUS_BUSY);
}

static void under_load_a_spread_generator_uses_all_4096(void) {
    gen.start = SNOWFLAKE_START_SPREAD;
    gen.next_start = 100;
    now_ms += 5;
    CU_ASSERT_EQUAL(take(5000).count, 4096 - 100);
    for (int i = 0; i < 10; i++) {
        now_ms++;
        CU_ASSERT_EQUAL(take(5000).count, 4096);
    }
    now_ms += 2; /* a millisecond went by unused: the load is over */
    CU_ASSERT_EQUAL(parts(next_id()).sequence, 101);
}

static void the_classic_start_is_always_zero(void) {
    for (int i = 0; i < 10; i++) {
        now_ms += 3;
        CU_ASSERT_EQUAL(parts(next_id()).sequence, 0);
    }
}

/* --- ranges --- */

static void a_time_range_bounds_all_ids_of_that_time(void) {
    int64_t smallest, largest;

    CU_ASSERT_EQUAL(snowflake_range(now_ms, SNOWFLAKE_EPOCH_MS, &smallest, &largest), STATUS_OK);
    CU_ASSERT_EQUAL(smallest, (int64_t)1000 << 22);
    CU_ASSERT_EQUAL(largest, ((int64_t)1001 << 22) - 1);
    for (int i = 0; i < 10; i++) {
        int64_t id = next_id();

        CU_ASSERT(id >= smallest && id <= largest);
    }
}

static void a_time_range_ends_where_the_epoch_ends(void) {
    uint64_t end_ms = snowflake_end_ms(SNOWFLAKE_EPOCH_MS);
    int64_t smallest = 1, largest = 2;

    CU_ASSERT_EQUAL(snowflake_range(end_ms, SNOWFLAKE_EPOCH_MS, &smallest, &largest), STATUS_OK);
    CU_ASSERT_EQUAL(largest, INT64_MAX);
    CU_ASSERT_EQUAL(snowflake_range(end_ms + 1, SNOWFLAKE_EPOCH_MS, &smallest, &largest),
                    STATUS_CLOCK_RANGE);
    CU_ASSERT_EQUAL(
        snowflake_range(SNOWFLAKE_EPOCH_MS - 1, SNOWFLAKE_EPOCH_MS, &smallest, &largest),
        STATUS_CLOCK_RANGE);
    CU_ASSERT_EQUAL(largest, INT64_MAX);
}

/* --- any walk of the clock --- */

/* Small and large steps both ways, standing still now and then, rarely out of the epoch. */
static uint64_t walk(struct check_random *random, uint64_t from_ms) {
    switch (check_random_below(random, 16)) {
    case 0: return from_ms - check_random_below(random, 100);
    case 1: return from_ms + check_random_below(random, 1000);
    case 2: return from_ms - check_random_below(random, 100000);
    case 3: return check_random_below(random, 100) ? from_ms : check_random_u64(random);
    case 4: return gen.limit_ms + check_random_below(random, 3) - 1;
    case 5:
    case 6:
    case 7: return from_ms;
    default: return from_ms + check_random_below(random, 3);
    }
}

static void ids_grow_and_keep_the_limit_whatever_the_clock_does(void) {
    struct check_random random = check_random_seeded(__func__);
    unsigned counts[STATUS_BUSY + 1] = {0};
    int64_t newest = -1;

    snowflake_init(&gen, SNOWFLAKE_EPOCH_MS, (uint16_t)check_random_below(&random, 1024),
                   now_ms - 1, now_ms + 1000,
                   check_random_below(&random, 2) ? SNOWFLAKE_START_SPREAD : SNOWFLAKE_START_ZERO);
    for (int i = 0; i < 1000000; i++) {
        struct snowflake_run run;
        enum status status;

        now_ms = walk(&random, now_ms);
        if (check_random_below(&random, 50) == 0)
            gen.limit_ms += check_random_below(&random, 200);
        status = snowflake_take(&gen, now_ms, 1 + (uint32_t)check_random_below(&random, 3000),
                                &run);
        counts[status]++;
        if (status == STATUS_OK) {
            struct snowflake_parts last = parts(run.first + (run.count - 1));

            if (run.first <= newest || last.timestamp_ms > gen.limit_ms ||
                last.timestamp_ms != now_ms || last.machine_id != gen.machine_id ||
                parts(run.first).timestamp_ms != now_ms || run.count == 0) {
                CU_FAIL("an ID out of order, past the limit or of another time");
                return;
            }
            newest = run.first + (run.count - 1);
        } else if (now_ms > gen.limit_ms || now_ms < SNOWFLAKE_EPOCH_MS) {
            now_ms = gen.last_wall_ms; /* walk on from where there are IDs */
        }
    }
    CU_ASSERT(counts[STATUS_OK] > 0 && counts[STATUS_BUSY] > 0 && counts[STATUS_STARVED] > 0);
    CU_ASSERT(counts[STATUS_CLOCK_BACK] > 0 && counts[STATUS_CLOCK_RANGE] > 0);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(ids_have_the_published_layout),
    CHECK_TEST(ids_of_other_epochs_decode_exactly),
    CHECK_TEST(nothing_depends_on_the_time_zone),
    CHECK_TEST(ids_of_one_millisecond_follow_one_another),
    CHECK_TEST(a_millisecond_has_4096_ids_and_no_more),
    CHECK_TEST(id_4097_of_a_batch_has_a_later_timestamp),
    CHECK_TEST(a_fresh_generator_starts_after_the_used_up_millisecond),
    CHECK_TEST(a_generator_may_start_at_the_epoch),
    CHECK_TEST(no_id_while_the_clock_is_behind_the_newest_id),
    CHECK_TEST(a_step_back_leaves_the_sequence_alone),
    CHECK_TEST(a_used_up_millisecond_stays_used_up_after_a_step_back),
    CHECK_TEST(no_id_past_the_limit),
    CHECK_TEST(the_limit_itself_used_up_is_busy_and_then_starved),
    CHECK_TEST(a_grant_without_time_is_starved),
    CHECK_TEST(no_id_before_the_epoch),
    CHECK_TEST(the_last_millisecond_is_used_and_nothing_wraps_after_it),
    CHECK_TEST(the_first_reason_is_named),
    CHECK_TEST(at_low_rates_ids_modulo_n_spread_evenly),
    CHECK_TEST(spread_starts_rotate_over_the_lowest_sixteenth),
    CHECK_TEST(a_spread_millisecond_holds_what_is_left_above_its_start),
    CHECK_TEST(under_load_a_spread_generator_uses_all_4096),
    CHECK_TEST(the_classic_start_is_always_zero),
    CHECK_TEST(a_time_range_bounds_all_ids_of_that_time),
    CHECK_TEST(a_time_range_ends_where_the_epoch_ends),
    CHECK_TEST(ids_grow_and_keep_the_limit_whatever_the_clock_does),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"snowflake", NULL, NULL, given_machine_7_granted_for_10_s, NULL, rules})
