#include "worker/standalone.h"

#include "common/state_record.h"
#include "tests/support/check.h"
#include "worker/service.h"

#define CLAIM "cccccccccccccccccccccccccccccccc"
#define START_MS (SNOWFLAKE_EPOCH_MS + 1000000)
#define WINDOW_MS 2000u

static struct standalone machine;
static struct instant now;
static struct standalone_act act;

static void given_a_horizon_in_the_past(void) {
    now = (struct instant){.wall_ms = START_MS, .boot_ms = 5000};
    standalone_init(&machine, 7, CLAIM, SNOWFLAKE_EPOCH_MS, WINDOW_MS, START_MS - 100);
}

static enum standalone_act_kind next(void) {
    return standalone_next(&machine, now, &act);
}

static void given_it_serves(void) {
    given_a_horizon_in_the_past();
    next();
    standalone_written(&machine, true);
    next();
}

static void pass(uint64_t ms) {
    now.wall_ms += ms;
    now.boot_ms += ms;
}

static struct hold_view look(void) {
    struct hold_view view;

    standalone_look(&machine, now, &view);
    return view;
}

static void nothing_is_installed_before_the_window_is_on_disk(void) {
    CU_ASSERT_EQUAL(next(), STANDALONE_WRITE);
    CU_ASSERT_EQUAL(act.horizon_ms, START_MS + WINDOW_MS);
    CU_ASSERT_EQUAL(next(), STANDALONE_NOTHING);
    CU_ASSERT_FALSE(look().has_generation);
    standalone_written(&machine, true);
    CU_ASSERT_EQUAL(next(), STANDALONE_INSTALL);
    CHECK_TEXT(act.install.claim, CLAIM);
    CU_ASSERT_FALSE(act.install.continues);
    CU_ASSERT_EQUAL(act.install.machine_id, 7);
    CU_ASSERT_EQUAL(act.install.used_up_ms, START_MS - 100);
    CU_ASSERT_EQUAL(act.install.limit_ms, START_MS + WINDOW_MS);
    CU_ASSERT_EQUAL(look().reason, HOLD_FINE);
}

static void a_horizon_ahead_is_waited_for_and_never_lowered(void) {
    standalone_init(&machine, 7, CLAIM, SNOWFLAKE_EPOCH_MS, WINDOW_MS, START_MS + 60000);
    CU_ASSERT_EQUAL(next(), STANDALONE_WRITE);
    CU_ASSERT_EQUAL(act.horizon_ms, START_MS + 60000);
    standalone_written(&machine, true);
    CU_ASSERT_EQUAL(next(), STANDALONE_INSTALL);
    CU_ASSERT_EQUAL(act.install.used_up_ms, START_MS + 60000);
    CU_ASSERT_EQUAL(act.install.limit_ms, START_MS + 60000);
    CU_ASSERT_EQUAL(next(), STANDALONE_NOTHING);
    CU_ASSERT_EQUAL(look().reason, HOLD_AHEAD);
    pass(60001);
    CU_ASSERT_EQUAL(next(), STANDALONE_WRITE);
    CU_ASSERT_EQUAL(look().reason, HOLD_FINE);
}

static void the_limit_rises_only_when_the_extension_is_on_disk(void) {
    CU_ASSERT_EQUAL(next(), STANDALONE_NOTHING);
    CU_ASSERT(act.wake_boot_ms > now.boot_ms && act.wake_boot_ms <= now.boot_ms + 1000);
    pass(WINDOW_MS / 3 + 2);
    CU_ASSERT_EQUAL(next(), STANDALONE_WRITE);
    CU_ASSERT_EQUAL(act.horizon_ms, now.wall_ms + WINDOW_MS);
    CU_ASSERT_EQUAL(look().limit_ms, START_MS + WINDOW_MS);
    CU_ASSERT_EQUAL(look().pending, 1);
    standalone_written(&machine, true);
    CU_ASSERT_EQUAL(next(), STANDALONE_RAISE);
    CU_ASSERT_EQUAL(act.limit_ms, now.wall_ms + WINDOW_MS);
    CU_ASSERT_EQUAL(look().extensions_total, 1);
}

static void after_a_clock_that_went_back_nothing_is_written_until_it_is_due(void) {
    now.wall_ms -= 3600000;
    CU_ASSERT_EQUAL(next(), STANDALONE_NOTHING);
    now.wall_ms += 3600000 + WINDOW_MS;
    CU_ASSERT_EQUAL(next(), STANDALONE_WRITE);
}

static void the_horizon_ends_with_the_epoch(void) {
    now.wall_ms = snowflake_end_ms(SNOWFLAKE_EPOCH_MS) - 10;
    CU_ASSERT_EQUAL(next(), STANDALONE_WRITE);
    CU_ASSERT_EQUAL(act.horizon_ms, snowflake_end_ms(SNOWFLAKE_EPOCH_MS));
    standalone_written(&machine, true);
    CU_ASSERT_EQUAL(next(), STANDALONE_RAISE);
    pass(100000);
    CU_ASSERT_EQUAL(next(), STANDALONE_NOTHING);
}

static void a_release_closes_first_and_then_lowers_the_horizon_to_the_last(void) {
    standalone_release(&machine);
    CU_ASSERT_EQUAL(next(), STANDALONE_CLOSE);
    pass(WINDOW_MS);
    CU_ASSERT_EQUAL(next(), STANDALONE_NOTHING);
    standalone_closed(&machine, START_MS + 5);
    CU_ASSERT_EQUAL(next(), STANDALONE_WRITE);
    CU_ASSERT_EQUAL(act.horizon_ms, START_MS + 5);
    CU_ASSERT_FALSE(standalone_gone(&machine));
    standalone_written(&machine, true);
    CU_ASSERT(standalone_gone(&machine));
    CU_ASSERT_EQUAL(next(), STANDALONE_NOTHING);
}

static void a_release_during_a_write_waits_for_it(void) {
    pass(WINDOW_MS / 2);
    CU_ASSERT_EQUAL(next(), STANDALONE_WRITE);
    standalone_release(&machine);
    CU_ASSERT_EQUAL(next(), STANDALONE_NOTHING);
    standalone_written(&machine, true);
    CU_ASSERT_EQUAL(next(), STANDALONE_RAISE);
    CU_ASSERT_EQUAL(next(), STANDALONE_CLOSE);
}

static void a_release_before_anything_was_written_writes_nothing(void) {
    given_a_horizon_in_the_past();
    standalone_release(&machine);
    CU_ASSERT(standalone_gone(&machine));
    CU_ASSERT_EQUAL(next(), STANDALONE_NOTHING);
}

static void after_a_failed_write_nothing_is_written_any_more(void) {
    pass(WINDOW_MS / 2);
    CU_ASSERT_EQUAL(next(), STANDALONE_WRITE);
    standalone_written(&machine, false);
    CU_ASSERT(standalone_gone(&machine));
    CU_ASSERT_EQUAL(look().limit_ms, START_MS + WINDOW_MS);
    standalone_release(&machine);
    for (int i = 0; i < 10; i++) {
        pass(1000);
        CU_ASSERT_EQUAL(next(), STANDALONE_NOTHING);
    }
}

/* ---- crashes ---- */

/* A disk that keeps what a state file holds, written as state_file.c does. */
static struct {
    unsigned char blocks[STATE_FILE_BYTES];
    struct state_record record;
    size_t last;
} disk;

enum end { ALIVE, CRASHED, FAILED };

static struct check_random dice;
static struct service service;
static struct standalone_act orders[16]; /* on their way to the serving loop */
static size_t n_orders;
static int64_t newest;
static unsigned long issued, runs, crashes, failures, releases, damaged;

static bool chance(unsigned one_in) {
    return check_random_below(&dice, one_in) == 0;
}

static void write_block(size_t index, const unsigned char *bytes, size_t n) {
    memcpy(disk.blocks + index * STATE_RECORD_BYTES, bytes, n);
}

/* May stop at any of the places where it can. */
static enum end write_both(uint64_t horizon_ms) {
    unsigned char bytes[STATE_RECORD_BYTES];
    uint64_t stop = chance(40) ? check_random_below(&dice, 6) : 6;

    disk.record.sequence++;
    disk.record.horizon_ms = horizon_ms;
    state_record_encode(&disk.record, bytes);
    for (size_t i = 0; i < 2; i++) {
        size_t index = i == 0 ? 1 - disk.last : disk.last;

        if (stop == 3 * i)
            return chance(2) ? CRASHED : FAILED;
        if (stop == 3 * i + 1) {
            write_block(index, bytes, check_random_below(&dice, 100));
            return chance(2) ? CRASHED : FAILED;
        }
        write_block(index, bytes, STATE_RECORD_BYTES);
        if (stop == 3 * i + 2)
            return CRASHED;
    }
    return ALIVE;
}

static void obey(const struct standalone_act *order) {
    switch (order->kind) {
    case STANDALONE_INSTALL: service_install(&service, &order->install); break;
    case STANDALONE_RAISE: service_raise(&service, machine.claim, order->limit_ms); break;
    case STANDALONE_CLOSE: standalone_closed(&machine, service_close(&service)); break;
    default: CU_FAIL_FATAL("not an order");
    }
}

static void deliver(void) {
    for (size_t i = 0; i < n_orders; i++)
        obey(&orders[i]);
    n_orders = 0;
}

static enum end pump(void) {
    enum end end;

    while (next() != STANDALONE_NOTHING) {
        if (act.kind == STANDALONE_WRITE) {
            end = write_both(act.horizon_ms);
            if (end == CRASHED)
                return CRASHED;
            standalone_written(&machine, end == ALIVE);
        } else {
            orders[n_orders++] = act;
        }
    }
    return machine.failed ? FAILED : ALIVE;
}

static void issue(void) {
    struct service_ids ids = {.want = 1 + (uint32_t)check_random_below(&dice, 5000)};
    uint64_t wait_until_ms;
    struct service_error err;

    service_take(&service, now.wall_ms, &ids, &wait_until_ms, &err);
    for (size_t i = 0; i < ids.n_runs; i++) {
        CU_ASSERT_FATAL(ids.runs[i].first > newest);
        newest = ids.runs[i].first + ids.runs[i].count - 1;
        issued += ids.runs[i].count;
    }
    service_ids_free(&ids);
}

static void move_clocks(void) {
    uint64_t ms = chance(3) ? check_random_below(&dice, 1500) : check_random_below(&dice, 5);

    pass(ms);
    if (chance(50))
        now.wall_ms += check_random_below(&dice, 20000);
    if (chance(50))
        now.wall_ms -= check_random_below(&dice, 20000);
}

/* One block rots, as long as the other one is whole. */
static void rot(void) {
    struct state_record ignored;
    struct error err;

    for (size_t i = 0; i < 2; i++)
        if (state_record_decode(disk.blocks + i * STATE_RECORD_BYTES, STATE_RECORD_BYTES, &ignored,
                                &err) != STATUS_OK)
            return;
    disk.blocks[check_random_below(&dice, STATE_FILE_BYTES)] ^= 4;
    damaged++;
}

static void run(void) {
    struct error err;
    enum end end = ALIVE;

    if (chance(4))
        rot();
    CU_ASSERT_EQUAL_FATAL(
        state_record_choose(disk.blocks, sizeof disk.blocks, &disk.record, &disk.last, &err),
        STATUS_OK);
    standalone_init(&machine, (uint16_t)check_random_below(&dice, 1024), CLAIM,
                    disk.record.epoch_ms, WINDOW_MS, disk.record.horizon_ms);
    service_init(&service, 10, SNOWFLAKE_START_SPREAD);
    n_orders = 0;
    for (int turns = 0; turns < 200 && end != CRASHED && machine.phase != HOLD_RELEASED; turns++) {
        move_clocks();
        if (chance(100))
            standalone_release(&machine);
        end = pump();
        if (chance(2) || n_orders > 10)
            deliver();
        issue();
    }
    runs++;
    crashes += end == CRASHED;
    failures += end == FAILED;
    releases += machine.phase == HOLD_RELEASED;
}

static void every_id_of_a_run_is_above_those_of_all_runs_before_it(void) {
    dice = check_random_seeded("crashes");
    now = (struct instant){.wall_ms = START_MS, .boot_ms = 5000};
    disk.record = (struct state_record){.kind = STATE_STANDALONE,
                                        .host = "hostname:here",
                                        .sequence = 1,
                                        .epoch_ms = SNOWFLAKE_EPOCH_MS,
                                        .horizon_ms = SNOWFLAKE_EPOCH_MS};
    for (size_t i = 0; i < 2; i++)
        state_record_encode(&disk.record, disk.blocks + i * STATE_RECORD_BYTES);
    while (runs < 10000)
        run();
    printf("%lu runs, %lu IDs; %lu crashes, %lu failed writes, %lu releases, %lu rotten blocks\n  ",
           runs, issued, crashes, failures, releases, damaged);
    CU_ASSERT(issued > 10000 && crashes > 100 && failures > 100 && releases > 100 && damaged > 100);
}

static CU_TestInfo starts[] = {CHECK_TEST(nothing_is_installed_before_the_window_is_on_disk),
                               CHECK_TEST(a_horizon_ahead_is_waited_for_and_never_lowered),
                               CU_TEST_INFO_NULL};
static CU_TestInfo serves[] = {
    CHECK_TEST(the_limit_rises_only_when_the_extension_is_on_disk),
    CHECK_TEST(after_a_clock_that_went_back_nothing_is_written_until_it_is_due),
    CHECK_TEST(the_horizon_ends_with_the_epoch),
    CHECK_TEST(a_release_closes_first_and_then_lowers_the_horizon_to_the_last),
    CHECK_TEST(a_release_during_a_write_waits_for_it),
    CHECK_TEST(a_release_before_anything_was_written_writes_nothing),
    CHECK_TEST(after_a_failed_write_nothing_is_written_any_more),
    CU_TEST_INFO_NULL};
static CU_TestInfo crashing[] = {CHECK_TEST(every_id_of_a_run_is_above_those_of_all_runs_before_it),
                                 CU_TEST_INFO_NULL};

CHECK_MAIN({"a start", NULL, NULL, given_a_horizon_in_the_past, NULL, starts},
           {"while it serves", NULL, NULL, given_it_serves, NULL, serves},
           {"crashes", NULL, NULL, NULL, NULL, crashing})
