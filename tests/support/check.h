/* check.h - what every test program shares: rows, text comparisons, random seeds, and main().
 *
 *   static CU_TestInfo rules[] = {CHECK_TEST(no_id_past_the_limit), ..., CU_TEST_INFO_NULL};
 *   CHECK_MAIN({"a generator", NULL, NULL, given_machine_7, NULL, rules})
 *
 * The test's name is the rule it states; it is what a failure prints. */
#ifndef SNOWFLEET_TESTS_SUPPORT_CHECK_H
#define SNOWFLEET_TESTS_SUPPORT_CHECK_H

#include <CUnit/Basic.h>
#include <CUnit/CUnit.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* One row of a table; row names it.  The test goes on after a failure. */
#define CHECK_ROW(row, ok) CU_assertImplementation((ok), __LINE__, (row), __FILE__, "", CU_FALSE)

/* Compares two texts and shows both when they differ. */
#define CHECK_TEXT(actual, expected) check_text((actual), (expected), __FILE__, __LINE__)

static inline void check_text(const char *actual, const char *expected, const char *file,
                              unsigned line) {
    char *message = NULL;

    if (asprintf(&message, "got \"%s\", expected \"%s\"", actual, expected) < 0)
        abort();
    CU_assertImplementation(strcmp(actual, expected) == 0, line, message, file, "", CU_FALSE);
    free(message);
}

/* Random numbers that come again when TEST_SEED says so: splitmix64, one for each test. */
struct check_random {
    uint64_t state;
};

/* The seed is fresh, or what TEST_SEED names; it is printed so that a failure can be repeated. */
static inline struct check_random check_random_seeded(const char *test) {
    const char *text = getenv("TEST_SEED");
    uint64_t seed;

    if (text)
        seed = strtoull(text, NULL, 10);
    else if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        abort();
    printf("\n    %s: repeat with TEST_SEED=%" PRIu64 "\n  ", test, seed);
    return (struct check_random){.state = seed};
}

static inline uint64_t check_random_u64(struct check_random *random) {
    uint64_t mixed = random->state += UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

/* 0..below-1 */
static inline uint64_t check_random_below(struct check_random *random, uint64_t below) {
    return check_random_u64(random) % below;
}

#define CHECK_TEST(function)                                                                       \
    { #function, function }

/* Runs the suites; the exit code of main(): 0 only when there were tests and all held. */
static inline int check_run(CU_SuiteInfo *suites) {
    int ok = 0;

    setvbuf(stdout, NULL, _IOLBF, 0); /* what was printed before a crash must not be lost */
    if (CU_initialize_registry() == CUE_SUCCESS && CU_register_suites(suites) == CUE_SUCCESS) {
        CU_basic_set_mode(CU_BRM_VERBOSE);
        ok = CU_basic_run_tests() == CUE_SUCCESS && CU_get_number_of_tests_run() > 0 &&
             CU_get_number_of_failure_records() == 0;
    } else {
        fprintf(stderr, "CUnit: %s\n", CU_get_error_msg());
    }
    CU_cleanup_registry();
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

#define CHECK_MAIN(...)                                                                            \
    int main(void) {                                                                               \
        CU_SuiteInfo suites[] = {__VA_ARGS__, CU_SUITE_INFO_NULL};                                 \
                                                                                                   \
        return check_run(suites);                                                                  \
    }

#endif
