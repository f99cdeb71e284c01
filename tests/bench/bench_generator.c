/* bench_generator.c - what an ID costs in process, and how near a parked generator comes to the
 * format's limit of 4,096 IDs a millisecond.  Medians, with the smallest and the largest, of
 * ROUNDS rounds; every round runs each candidate once, in turn. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/decimal.h"
#include "common/snowflake.h"

#define ROUNDS 7
#define IDS (UINT32_C(1) << 24)
#define BLOCK_MAX 4096
#define NUMBERS 4096
#define PARKED_S 1
#define IDS_PER_MS (SNOWFLAKE_SEQUENCE_MAX + 1)

/* Where results go, so that the compiler cannot leave the work out. */
static int64_t ids[BLOCK_MAX];
static char text[NUMBERS][DECIMAL_U64_MAX_CHARS];
static volatile uint64_t sink;

static void die(const char *what) {
    fprintf(stderr, "bench_generator: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t read_ns(clockid_t id) {
    struct timespec now;

    clock_gettime(id, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* A generator whose clock moves on exactly when its millisecond is used up. */
static struct snowflake unlimited(void) {
    struct snowflake gen;

    snowflake_init(&gen, SNOWFLAKE_EPOCH_MS, 7, SNOWFLAKE_EPOCH_MS, UINT64_MAX,
                   SNOWFLAKE_START_SPREAD);
    return gen;
}

static double singly(void) {
    struct snowflake gen = unlimited();
    uint64_t now_ms = SNOWFLAKE_EPOCH_MS + 1;
    int64_t start_ns = read_ns(CLOCK_MONOTONIC);

    for (uint32_t i = 0; i < IDS; i++) {
        while (snowflake_next(&gen, now_ms, &ids[i % BLOCK_MAX]) == STATUS_BUSY)
            now_ms++;
    }
    sink = (uint64_t)ids[0];
    return (double)(read_ns(CLOCK_MONOTONIC) - start_ns) / IDS;
}

/* Written out, as a caller that answers with them has to. */
static void write_out(struct snowflake_run run) {
    for (uint32_t i = 0; i < run.count; i++)
        ids[i] = run.first + i;
}

static double in_blocks(uint32_t want) {
    struct snowflake gen = unlimited();
    uint64_t now_ms = SNOWFLAKE_EPOCH_MS + 1;
    int64_t start_ns = read_ns(CLOCK_MONOTONIC);
    uint32_t taken = 0;

    while (taken < IDS) {
        struct snowflake_run run;

        if (snowflake_take(&gen, now_ms, want, &run) == STATUS_BUSY) {
            now_ms++;
            continue;
        }
        write_out(run);
        sink = (uint64_t)ids[run.count - 1];
        taken += run.count;
    }
    return (double)(read_ns(CLOCK_MONOTONIC) - start_ns) / taken;
}

static double blocks_of_64(void) {
    return in_blocks(64);
}

static double blocks_of_4096(void) {
    return in_blocks(BLOCK_MAX);
}

static double formatting(void) {
    int64_t start_ns = read_ns(CLOCK_MONOTONIC);

    for (uint32_t i = 0; i < IDS; i++)
        decimal_format(UINT64_C(187354526515220487) + i * UINT64_C(4194304), text[i % NUMBERS]);
    sink = (uint64_t)text[0][0];
    return (double)(read_ns(CLOCK_MONOTONIC) - start_ns) / IDS;
}

static double incrementing(void) {
    char number[DECIMAL_U64_MAX_CHARS];
    size_t len = decimal_format(UINT64_C(187354526515220487), number);
    int64_t start_ns = read_ns(CLOCK_MONOTONIC);

    for (uint32_t i = 0; i < IDS; i++) {
        decimal_increment(number, &len);
        __asm__ volatile("" : : "r"(number) : "memory");
    }
    return (double)(read_ns(CLOCK_MONOTONIC) - start_ns) / IDS;
}

static double with_snprintf(void) {
    char number[DECIMAL_U64_MAX_CHARS + 1];
    int64_t start_ns = read_ns(CLOCK_MONOTONIC);

    for (uint32_t i = 0; i < IDS / 8; i++) {
        snprintf(number, sizeof number, "%" PRIu64,
                 UINT64_C(187354526515220487) + i * UINT64_C(4194304));
        sink = (uint64_t)number[17];
    }
    return (double)(read_ns(CLOCK_MONOTONIC) - start_ns) / (IDS / 8);
}

static double reading_the_clock(void) {
    struct clock clock = clock_system();
    int64_t start_ns = read_ns(CLOCK_MONOTONIC);

    for (uint32_t i = 0; i < IDS / 8; i++)
        sink = clock_now(&clock).wall_ms;
    return (double)(read_ns(CLOCK_MONOTONIC) - start_ns) / (IDS / 8);
}

static void park_until(int timer, uint64_t wall_ms) {
    struct itimerspec at = {.it_value = {.tv_sec = (time_t)(wall_ms / 1000),
                                         .tv_nsec = (long)(wall_ms % 1000) * 1000000}};
    uint64_t expired;

    if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL) < 0)
        die("timerfd_settime");
    if (read(timer, &expired, sizeof expired) != (ssize_t)sizeof expired)
        die("read");
}

struct parked {
    double share, cpu; /* of the format's limit; of one core */
};

/* Takes and writes out every ID that there is, parked whenever the millisecond is used up. */
static struct parked parked(void) {
    int timer = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC);
    struct clock clock = clock_system();
    struct snowflake gen = unlimited();
    uint64_t first_ms, now_ms, taken = 0;
    int64_t cpu_ns = read_ns(CLOCK_PROCESS_CPUTIME_ID);

    if (timer < 0)
        die("timerfd_create");
    first_ms = clock_now(&clock).wall_ms + 1;
    park_until(timer, first_ms);
    while ((now_ms = clock_now(&clock).wall_ms) < first_ms + PARKED_S * 1000) {
        struct snowflake_run run;

        if (snowflake_take(&gen, now_ms, BLOCK_MAX, &run) == STATUS_OK) {
            write_out(run);
            sink = (uint64_t)ids[run.count - 1];
            taken += run.count;
        } else {
            park_until(timer, now_ms + 1);
        }
    }
    close(timer);
    cpu_ns = read_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
    return (struct parked){
        .share = (double)taken / (double)((now_ms - first_ms) * IDS_PER_MS),
        .cpu = (double)cpu_ns / (PARKED_S * 1e9),
    };
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void report(const char *name, double *values, const char *unit) {
    qsort(values, ROUNDS, sizeof *values, by_size);
    printf("%-34s %8.3f %-12s (%.3f..%.3f)\n", name, values[ROUNDS / 2], unit, values[0],
           values[ROUNDS - 1]);
}

int main(void) {
    static const struct {
        const char *name;
        double (*run)(void);
    } candidates[] = {
        {"snowflake_next, one by one", singly},
        {"snowflake_take, blocks of 64", blocks_of_64},
        {"snowflake_take, blocks of 4096", blocks_of_4096},
        {"decimal_format, 18 digits", formatting},
        {"decimal_increment", incrementing},
        {"snprintf, for comparison", with_snprintf},
        {"clock_now", reading_the_clock},
    };
    enum { CANDIDATES = sizeof candidates / sizeof candidates[0] };
    double ns[CANDIDATES][ROUNDS], share[ROUNDS], cpu[ROUNDS];

    for (int round = 0; round < ROUNDS; round++) {
        struct parked at_limit = parked();

        share[round] = at_limit.share * 100;
        cpu[round] = at_limit.cpu * 100;
        for (int i = 0; i < CANDIDATES; i++)
            ns[i][round] = candidates[i].run();
    }
    for (int i = 0; i < CANDIDATES; i++)
        report(candidates[i].name, ns[i], "ns");
    report("parked: share of 4,096,000 IDs/s", share, "%");
    report("parked: CPU", cpu, "% of a core");
    return 0;
}
