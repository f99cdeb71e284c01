/* How even IDs modulo N are: who takes an ID modulo the number of shards counts on that.  Pearson's
 * chi-square over the N remainders, for both starts of the sequence, side by side. */
#include <math.h>
#include <stdbool.h>

#include "common/snowflake.h"
#include "tests/support/check.h"

#define IDS 200000u
#define MODULI 6
#define CELLS_MAX 1000
#define NOW_US ((SNOWFLAKE_EPOCH_MS + UINT64_C(77777777777)) * 1000)
#define MACHINE_ID 7

/* limit is what the chi-square of truly random numbers, with N - 1 degrees of freedom, passes with a
 * probability of 0.001.  The arrivals are the same in every run, so a test that holds once always does. */
static const struct {
    uint32_t modulus;
    double limit;
} moduli[MODULI] = {{2, 10.8}, {3, 13.8}, {16, 37.7}, {64, 103.4}, {256, 330.5}, {1000, 1142.8}};

/* When the next ID is asked for. */
typedef uint64_t gap_fn(struct check_random *random, double mean_us);

/* Of independent clients: exponential, as in a Poisson process. */
static uint64_t gap_by_chance(struct check_random *random, double mean_us) {
    double uniform = ((double)(check_random_u64(random) >> 11) + 0.5) / 9007199254740992.0;

    return (uint64_t)(-mean_us * log(uniform));
}

static uint64_t gap_on_the_beat(struct check_random *random, double mean_us) {
    (void)random;
    return (uint64_t)mean_us;
}

/* The mean of 0 stands for full rate: the next ID at once. */
static void chi_squares(enum snowflake_start start, double mean_us, gap_fn *gap,
                        double found[MODULI]) {
    static uint32_t counts[MODULI][CELLS_MAX];
    struct check_random random = {.state = 20240101};
    struct snowflake gen;
    uint64_t now_us = NOW_US;

    memset(counts, 0, sizeof counts);
    snowflake_init(&gen, SNOWFLAKE_EPOCH_MS, MACHINE_ID, NOW_US / 1000 - 1, UINT64_MAX, start);
    for (uint32_t i = 0; i < IDS; i++) {
        int64_t id;

        if (mean_us > 0)
            now_us += gap(&random, mean_us);
        while (snowflake_next(&gen, now_us / 1000, &id) == STATUS_BUSY)
            now_us += 1000;
        for (int m = 0; m < MODULI; m++)
            counts[m][id % moduli[m].modulus]++;
    }
    for (int m = 0; m < MODULI; m++) {
        double expected = (double)IDS / moduli[m].modulus;

        found[m] = 0;
        for (uint32_t cell = 0; cell < moduli[m].modulus; cell++)
            found[m] += (counts[m][cell] - expected) * (counts[m][cell] - expected) / expected;
    }
}

static void print_row(const char *row, const char *start, const double found[MODULI]) {
    printf("\n    %-20s %-7s", row, start);
    for (int m = 0; m < MODULI; m++)
        printf(" %11.1f", found[m]);
}

/* --- the rules --- */

static const struct {
    const char *row;
    double mean_us;
    bool zero_is_even[MODULI];
} rates[] = {
    /* The classic start leaves the last bits at zero wherever a millisecond has few IDs, so all that
     * shares a factor with a power of two is uneven.  3 shares none: the time spreads it. */
    {"1/s", 1e6, {false, true, false, false, false, false}},
    {"100/s", 1e4, {false, true, false, false, false, false}},
    {"10,000/s", 1e2, {false, true, false, false, false, false}},
    {"full, 4,096,000/s", 0, {true, true, true, true, true, true}},
};

static void ids_modulo_n_are_even_at_every_rate_and_with_the_classic_start_only_at_full(void) {
    printf("\n    chi-square of %u IDs modulo   ", IDS);
    for (int m = 0; m < MODULI; m++)
        printf(" %10" PRIu32, moduli[m].modulus);
    printf("\n    %-28s", "random passes with p 0.001:");
    for (int m = 0; m < MODULI; m++)
        printf(" %11.1f", moduli[m].limit);
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        double spread[MODULI], zero[MODULI];

        chi_squares(SNOWFLAKE_START_SPREAD, rates[i].mean_us, gap_by_chance, spread);
        chi_squares(SNOWFLAKE_START_ZERO, rates[i].mean_us, gap_by_chance, zero);
        print_row(rates[i].row, "spread", spread);
        print_row(rates[i].row, "zero", zero);
        for (int m = 0; m < MODULI; m++) {
            CHECK_ROW(rates[i].row, spread[m] <= moduli[m].limit);
            CHECK_ROW(rates[i].row, (zero[m] <= moduli[m].limit) == rates[i].zero_is_even[m]);
        }
    }
    printf("\n  ");
}

/* 1,000 divides 1,000 ms, so such a client's time always leaves the same remainder, and only the 256 starts
 * are left to spread it. */
static void one_client_on_the_beat_of_a_second_reaches_256_of_1000_remainders(void) {
    double found[MODULI];

    chi_squares(SNOWFLAKE_START_SPREAD, 1e6, gap_on_the_beat, found);
    print_row("1/s, on the beat", "spread", found);
    printf("\n  ");
    for (int m = 0; m < MODULI - 1; m++)
        CHECK_ROW("on the beat", found[m] <= moduli[m].limit);
    /* 256 even cells of 1,000. */
    CU_ASSERT_DOUBLE_EQUAL(found[MODULI - 1], IDS * (1000.0 / 256 - 1), IDS * 0.001);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(ids_modulo_n_are_even_at_every_rate_and_with_the_classic_start_only_at_full),
    CHECK_TEST(one_client_on_the_beat_of_a_second_reaches_256_of_1000_remainders),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"spread", NULL, NULL, NULL, NULL, rules})
