#include "common/clock.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/check.h"

#define S INT64_C(1000000000)
#define MS INT64_C(1000000)

/* --- the machine's own clocks --- */

static int64_t kernel_ns(clockid_t id) {
    struct timespec now;

    clock_gettime(id, &now);
    return now.tv_sec * S + now.tv_nsec;
}

static void the_system_clock_is_the_kernel_s(void) {
    struct clock clock = clock_system();
    int64_t wall_ns = kernel_ns(CLOCK_REALTIME), boot_ns = kernel_ns(CLOCK_BOOTTIME);
    struct instant_ns now = clock_now_ns(&clock);
    struct instant later = clock_now(&clock);

    CU_ASSERT(now.wall_ns >= wall_ns && now.wall_ns < wall_ns + S);
    CU_ASSERT(now.boot_ns >= boot_ns && now.boot_ns < boot_ns + S);
    CU_ASSERT(later.wall_ms >= (uint64_t)(wall_ns / MS));
    CU_ASSERT(later.boot_ms >= (uint64_t)(boot_ns / MS));
    CU_ASSERT_EQUAL(clock.timer_ns(clock.self, 12345), 12345);
}

static void reading_it_again_and_again_shows_no_step(void) {
    struct clock clock = clock_system();
    struct clock_watch watch = {0};
    struct instant_ns last = clock_now_ns(&clock);

    for (int i = 0; i < 200000; i++) {
        struct instant_ns now = clock_now_ns(&clock);

        CU_ASSERT(now.boot_ns >= last.boot_ns);
        CU_ASSERT_EQUAL(clock_watch_step(&watch, now), 0);
        last = now;
    }
}

static void the_kernel_says_how_good_its_clock_is(void) {
    struct clock_quality quality = {.max_error_ns = -1, .frequency_ppb = INT64_MAX};
    struct clock clock = clock_system();
    struct error err;

    CU_ASSERT_EQUAL(clock_quality(&clock, &quality, &err), STATUS_OK);
    CU_ASSERT(quality.max_error_ns >= 0 && quality.est_error_ns >= 0);
    CU_ASSERT(quality.frequency_ppb >= -512000 && quality.frequency_ppb <= 512000);
}

/* --- steps --- */

static struct clock_watch watch;
static struct instant_ns now;

static void given_a_watch_that_has_looked_once(void) {
    now = (struct instant_ns){.wall_ns = 1704067200 * S, .boot_ns = 1000 * S};
    watch = (struct clock_watch){0};
    CU_ASSERT_EQUAL(clock_watch_step(&watch, now), 0);
}

static int64_t after(int64_t elapsed_ns, int64_t change_ns) {
    now.boot_ns += elapsed_ns;
    now.wall_ns += elapsed_ns + change_ns;
    return clock_watch_step(&watch, now);
}

static const struct {
    const char *row;
    int64_t elapsed_ns, change_ns, expected_ns;
} steps[] = {
    {"nothing", 1 * S, 0, 0},
    {"500 ppm fast for 1 s", 1 * S, S / 2000, 0},
    {"500 ppm slow for 1 s", 1 * S, -S / 2000, 0},
    {"500 ppm fast for an hour", 3600 * S, 1800 * MS, 0},
    {"500 ppm slow for an hour", 3600 * S, -1800 * MS, 0},
    {"1 ms at once", 0, 1 * MS, 0},
    {"a little more at once", 0, 1 * MS + 1, 1 * MS + 1},
    {"a little more back", 0, -1 * MS - 1, -1 * MS - 1},
    {"5 ms forward in 1 s", 1 * S, 5 * MS, 5 * MS},
    {"5 ms back in 1 s", 1 * S, -5 * MS, -5 * MS},
    {"an hour forward", 1 * S, 3600 * S, 3600 * S},
    {"an hour back", 1 * S, -3600 * S, -3600 * S},
    {"back to 1970", 1 * S, -1704067200 * S, -1704067200 * S},
    {"a suspend of a week", 7 * 86400 * S, 0, 0},
};

static void a_step_is_what_no_slew_explains(void) {
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        given_a_watch_that_has_looked_once();
        CHECK_ROW(steps[i].row,
                  after(steps[i].elapsed_ns, steps[i].change_ns) == steps[i].expected_ns);
    }
}

static void a_step_is_told_once(void) {
    CU_ASSERT_EQUAL(after(1 * S, -50 * MS), -50 * MS);
    CU_ASSERT_EQUAL(after(1 * S, 0), 0);
    CU_ASSERT_EQUAL(after(1 * S, 50 * MS), 50 * MS);
    CU_ASSERT_EQUAL(after(1 * S, 0), 0);
}

static void a_long_slew_stays_a_slew_however_often_one_looks(void) {
    for (int i = 0; i < 100000; i++)
        CU_ASSERT_EQUAL(after(10 * MS, 5000), 0);
}

/* --- the page that tests write --- */

static char path[] = "/tmp/snowfleet-test-clock-XXXXXX";
static struct clock_page *page;
static struct clock bent;

static void given_a_clock_page(void) {
    struct error err;
    int fd;

    strcpy(strrchr(path, '-'), "-XXXXXX");
    fd = mkstemp(path);
    CU_ASSERT_EQUAL_FATAL(ftruncate(fd, sizeof *page), 0);
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CU_ASSERT_FATAL(page != MAP_FAILED);
    close(fd);
    CU_ASSERT_EQUAL_FATAL(clock_test_page(path, &bent, &err), STATUS_OK);
}

static void remove_the_page(void) {
    munmap(page, sizeof *page);
    unlink(path);
}

static void set_page(struct clock_page to) {
    __atomic_store_n(&page->sequence, page->sequence + 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->wall_offset_ns, to.wall_offset_ns, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->boot_offset_ns, to.boot_offset_ns, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->anchor_boot_ns, to.anchor_boot_ns, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->rate_ppm, to.rate_ppm, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->quality_given, to.quality_given, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->synchronized, to.synchronized, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->max_error_ns, to.max_error_ns, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->est_error_ns, to.est_error_ns, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->sequence, page->sequence + 1, __ATOMIC_SEQ_CST);
}

static int64_t nearest_s(int64_t ns) {
    return (ns < 0 ? ns - S / 2 : ns + S / 2) / S;
}

/* How far the bent clock's two readings are from the real ones, in seconds. */
static int64_t wall_offset_s(void) {
    return nearest_s(clock_now_ns(&bent).wall_ns - kernel_ns(CLOCK_REALTIME));
}
static int64_t boot_offset_s(void) {
    return nearest_s(clock_now_ns(&bent).boot_ns - kernel_ns(CLOCK_BOOTTIME));
}

static void an_empty_page_bends_nothing(void) {
    CU_ASSERT_EQUAL(wall_offset_s(), 0);
    CU_ASSERT_EQUAL(boot_offset_s(), 0);
}

static void offsets_move_each_clock_alone(void) {
    set_page((struct clock_page){.wall_offset_ns = 3600 * S});
    CU_ASSERT_EQUAL(wall_offset_s(), 3600);
    CU_ASSERT_EQUAL(boot_offset_s(), 0);
    set_page((struct clock_page){.boot_offset_ns = 60 * S});
    CU_ASSERT_EQUAL(wall_offset_s(), 0);
    CU_ASSERT_EQUAL(boot_offset_s(), 60);
}

static void a_change_of_the_page_is_a_step(void) {
    struct clock_watch steps_seen = {0};

    clock_watch_step(&steps_seen, clock_now_ns(&bent));
    set_page((struct clock_page){.wall_offset_ns = -5 * S});
    CU_ASSERT_EQUAL(nearest_s(clock_watch_step(&steps_seen, clock_now_ns(&bent))), -5);
}

static void the_rate_runs_from_the_anchor(void) {
    set_page((struct clock_page){.anchor_boot_ns = kernel_ns(CLOCK_BOOTTIME) - 100 * S,
                                 .rate_ppm = 100000});
    CU_ASSERT_EQUAL(wall_offset_s(), 10);
    set_page((struct clock_page){.anchor_boot_ns = kernel_ns(CLOCK_BOOTTIME) - 100 * S,
                                 .rate_ppm = -500000});
    CU_ASSERT_EQUAL(wall_offset_s(), -50);
}

static void a_wall_clock_before_1970_reads_as_0(void) {
    set_page((struct clock_page){.wall_offset_ns = -INT64_C(100) * 365 * 86400 * S});
    CU_ASSERT(clock_now_ns(&bent).wall_ns < 0);
    CU_ASSERT_EQUAL(clock_now(&bent).wall_ms, 0);
}

/* 100 s ahead on the bent clock, on the real one: */
static const struct {
    const char *row;
    int64_t rate_ppm, expected_s;
} timers[] = {
    {"as fast", 0, 100},
    {"twice as fast", 1000000, 50},
    {"half as fast", -500000, 200},
    {"a tenth slower", -100000, 111},
};

static void a_timer_is_armed_for_when_the_bent_clock_gets_there(void) {
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++) {
        int64_t ahead_ns;

        set_page((struct clock_page){.wall_offset_ns = 500 * S,
                                     .anchor_boot_ns = kernel_ns(CLOCK_BOOTTIME),
                                     .rate_ppm = timers[i].rate_ppm});
        ahead_ns = bent.timer_ns(bent.self, clock_now_ns(&bent).wall_ns + 100 * S) -
                   kernel_ns(CLOCK_REALTIME);
        CHECK_ROW(timers[i].row, ahead_ns > timers[i].expected_s * S - S / 2);
        CHECK_ROW(timers[i].row, ahead_ns < timers[i].expected_s * S + S / 2);
    }
}

static void a_clock_that_stands_still_gets_nowhere(void) {
    set_page(
        (struct clock_page){.anchor_boot_ns = kernel_ns(CLOCK_BOOTTIME), .rate_ppm = -1000000});
    CU_ASSERT_EQUAL(bent.timer_ns(bent.self, clock_now_ns(&bent).wall_ns + S), INT64_MAX);
    CU_ASSERT(bent.timer_ns(bent.self, clock_now_ns(&bent).wall_ns - S) <=
              kernel_ns(CLOCK_REALTIME));
    CU_ASSERT_EQUAL(bent.timer_ns(bent.self, INT64_MAX), INT64_MAX);
}

static void a_page_that_is_missing_or_short_is_refused(void) {
    struct clock clock;
    struct error err;

    CU_ASSERT_EQUAL(truncate(path, 39), 0);
    CU_ASSERT_EQUAL(clock_test_page(path, &clock, &err), STATUS_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "must hold 40 bytes, has 39"));
    CU_ASSERT_EQUAL(clock_test_page("/nonexistent", &clock, &err), STATUS_SYSTEM);
    CHECK_TEXT(err.message, "clock page /nonexistent: No such file or directory");
}

static void setting_a_page_shows_on_a_descriptor(void) {
    const int64_t offset_ns = 5 * S;
    struct error err;
    int file, fd = -1;

    CU_ASSERT_EQUAL_FATAL(clock_set_open(&bent, &fd, &err), STATUS_OK);
    CU_ASSERT_FALSE(clock_set_read(&bent, fd));
    file = open(path, O_WRONLY);
    CU_ASSERT_EQUAL(pwrite(file, &offset_ns, sizeof offset_ns, 8), sizeof offset_ns);
    close(file);
    CU_ASSERT_TRUE(clock_set_read(&bent, fd));
    CU_ASSERT_FALSE(clock_set_read(&bent, fd));
    close(fd);
}

static void a_page_can_say_how_good_its_clock_is(void) {
    struct clock_quality quality;
    struct error err;

    set_page((struct clock_page){
        .quality_given = 1, .synchronized = 1, .max_error_ns = 7 * MS, .est_error_ns = 2 * MS});
    CU_ASSERT_EQUAL(clock_quality(&bent, &quality, &err), STATUS_OK);
    CU_ASSERT_TRUE(quality.synchronized);
    CU_ASSERT_EQUAL(quality.max_error_ns, 7 * MS);
    CU_ASSERT_EQUAL(quality.est_error_ns, 2 * MS);
    CU_ASSERT_EQUAL(truncate(path, 40), 0); /* an older page: the kernel is asked */
    CU_ASSERT_EQUAL(clock_test_page(path, &bent, &err), STATUS_OK);
    CU_ASSERT_EQUAL(clock_quality(&bent, &quality, &err), STATUS_OK);
    CU_ASSERT_NOT_EQUAL(quality.est_error_ns, 2 * MS);
}

static void the_system_clock_can_be_watched(void) {
    struct clock clock = clock_system();
    struct error err;
    int fd = -1;

    CU_ASSERT_EQUAL_FATAL(clock_set_open(&clock, &fd, &err), STATUS_OK);
    CU_ASSERT_FALSE(clock_set_read(&clock, fd)); /* nobody sets it in a test */
    close(fd);
}

static CU_TestInfo system_rules[] = {
    CHECK_TEST(the_system_clock_is_the_kernel_s),
    CHECK_TEST(reading_it_again_and_again_shows_no_step),
    CHECK_TEST(the_kernel_says_how_good_its_clock_is),
    CHECK_TEST(the_system_clock_can_be_watched),
    CU_TEST_INFO_NULL,
};
static CU_TestInfo step_rules[] = {
    CHECK_TEST(a_step_is_what_no_slew_explains),
    CHECK_TEST(a_step_is_told_once),
    CHECK_TEST(a_long_slew_stays_a_slew_however_often_one_looks),
    CU_TEST_INFO_NULL,
};
static CU_TestInfo page_rules[] = {
    CHECK_TEST(an_empty_page_bends_nothing),
    CHECK_TEST(offsets_move_each_clock_alone),
    CHECK_TEST(a_change_of_the_page_is_a_step),
    CHECK_TEST(the_rate_runs_from_the_anchor),
    CHECK_TEST(a_wall_clock_before_1970_reads_as_0),
    CHECK_TEST(a_timer_is_armed_for_when_the_bent_clock_gets_there),
    CHECK_TEST(a_clock_that_stands_still_gets_nowhere),
    CHECK_TEST(a_page_that_is_missing_or_short_is_refused),
    CHECK_TEST(setting_a_page_shows_on_a_descriptor),
    CHECK_TEST(a_page_can_say_how_good_its_clock_is),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"system clock", NULL, NULL, NULL, NULL, system_rules},
           {"steps", NULL, NULL, given_a_watch_that_has_looked_once, NULL, step_rules},
           {"test page", NULL, NULL, given_a_clock_page, remove_the_page, page_rules})
