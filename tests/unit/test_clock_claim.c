/* Whose word on the clock's error is a bound, and whose is none. */
#include "tests/support/check.h"
#include "worker/clock_claim.h"

#define MS INT64_C(1000000)
#define S INT64_C(1000000000)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
    const char *row;
    bool synchronized;
    int64_t max_error_ns, est_error_ns;
    const char *daemon;
    bool trusted;
    const char *word; /* within the reason */
} kernels[] = {
    {"chronyd with rtcsync, or ntpd", true, 21 * MS, 1 * MS, "", true, ""},
    {"an estimate as large as the bound", true, 5 * MS, 5 * MS, "ntpd", true, ""},
    {"chronyd without rtcsync", false, 16 * S, 16 * S, "", false, "rtcsync"},
    {"as the kernel starts", false, 16 * S, 16 * S, "", false, "synchronised"},
    {"systemd-timesyncd, just now", true, 0, 0, "", false, "timesyncd"},
    {"systemd-timesyncd, later", true, 300 * MS, 0, "", false, "timesyncd"},
    {"its mark under /run", true, 300 * MS, 1 * MS, "systemd-timesyncd", false, "timesyncd"},
    {"phc2sys", true, 2 * MS, 16 * S, "", false, "phc2sys"},
};

static void the_kernel_is_believed_when_it_was_told(void) {
    for (size_t i = 0; i < COUNT(kernels); i++) {
        const struct clock_quality quality = {.synchronized = kernels[i].synchronized,
                                              .max_error_ns = kernels[i].max_error_ns,
                                              .est_error_ns = kernels[i].est_error_ns,
                                              .frequency_ppb = -7};
        struct clock_claim claim;

        clock_claim_kernel(&claim, &quality, kernels[i].daemon, 5 * S);
        CHECK_ROW(kernels[i].row, claim.trusted == kernels[i].trusted);
        CHECK_ROW(kernels[i].row,
                  claim.max_error_ns == (claim.trusted ? kernels[i].max_error_ns : 0));
        CHECK_ROW(kernels[i].row, claim.synchronized == kernels[i].synchronized);
        CHECK_ROW(kernels[i].row, strstr(claim.reason, kernels[i].word) != NULL &&
                                      (claim.reason[0] == '\0') == claim.trusted);
        CHECK_TEXT(claim.source, "kernel");
        CU_ASSERT(claim.boot_ns == 5 * S && claim.knows_frequency && claim.frequency_ppb == -7);
    }
}

static void a_kernel_that_does_not_answer_claims_nothing(void) {
    struct clock_claim claim;

    clock_claim_kernel(&claim, NULL, "", 5 * S);
    CHECK_TEXT(claim.source, "none");
    CU_ASSERT(!claim.trusted && !claim.synchronized && claim.reason[0]);
    CU_ASSERT_FALSE(claim.knows_frequency);
}

static const struct {
    const char *row;
    struct chrony_tracking tracking;
    bool trusted;
    const char *word;
} chronies[] = {
    {"follows a server", {true, false, 8847, 79}, true, ""},
    {"follows nobody", {false, false, 8847, 79}, false, "no source"},
    {"follows itself", {true, true, 0, 0}, false, "own clock"},
    {"zero is no bound", {true, false, 0, 0}, false, "no error at all"},
};

static void chronyd_is_believed_when_it_follows_somebody(void) {
    for (size_t i = 0; i < COUNT(chronies); i++) {
        struct clock_claim claim;

        clock_claim_chrony(&claim, &chronies[i].tracking, 5 * S);
        CHECK_ROW(chronies[i].row, claim.trusted == chronies[i].trusted);
        CHECK_ROW(chronies[i].row, claim.max_error_ns == (claim.trusted ? 8847 : 0));
        CHECK_ROW(chronies[i].row, strstr(claim.reason, chronies[i].word) != NULL);
        CHECK_TEXT(claim.source, "chrony");
        CHECK_TEXT(claim.daemon, "chronyd");
        CU_ASSERT(claim.knows_frequency &&
                  claim.frequency_ppb == chronies[i].tracking.frequency_ppb);
    }
}

static void a_bound_grows_until_it_is_told_anew(void) {
    const struct clock_claim claim = {.trusted = true, .max_error_ns = 10 * MS, .boot_ns = 5 * S};

    CU_ASSERT_EQUAL(clock_claim_error_at(&claim, 200, 5 * S), 10 * MS + 1);
    CU_ASSERT_EQUAL(clock_claim_error_at(&claim, 200, 105 * S), 30 * MS + 1);
    CU_ASSERT_EQUAL(clock_claim_error_at(&claim, 200, 4 * S), 10 * MS + 1);
    CU_ASSERT(clock_claim_error_at(&claim, 10000, INT64_MAX) > 10 * MS);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(the_kernel_is_believed_when_it_was_told),
    CHECK_TEST(a_kernel_that_does_not_answer_claims_nothing),
    CHECK_TEST(chronyd_is_believed_when_it_follows_somebody),
    CHECK_TEST(a_bound_grows_until_it_is_told_anew),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"what a machine says of its clock", NULL, NULL, NULL, NULL, rules})
