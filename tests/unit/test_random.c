#include "common/random.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check.h"

static void hex_is_32_lower_case_digits_and_never_the_same(void) {
    char first[33], second[33];

    random_hex128(first);
    random_hex128(second);
    CU_ASSERT_EQUAL(strlen(first), 32);
    CU_ASSERT_EQUAL(strspn(first, "0123456789abcdef"), 32);
    CU_ASSERT_STRING_NOT_EQUAL(first, second);
}

static void every_byte_is_filled_and_none_beyond(void) {
    unsigned char bytes[1001], seen[1000] = {0};
    struct error err;

    for (int round = 0; round < 20; round++) {
        memset(bytes, 0, sizeof bytes);
        CU_ASSERT_EQUAL(random_bytes(bytes, sizeof bytes - 1, &err), STATUS_OK);
        for (size_t i = 0; i < sizeof seen; i++)
            seen[i] |= bytes[i];
        CU_ASSERT_EQUAL(bytes[sizeof bytes - 1], 0);
    }
    CU_ASSERT_PTR_NULL(memchr(seen, 0, sizeof seen));
}

static void parent_and_child_draw_different_numbers_after_a_fork(void) {
    uint64_t ours, theirs = 0;
    int ends[2];
    pid_t child;

    random_u64(); /* what could be kept back would be now */
    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        theirs = random_u64();
        _exit(write(ends[1], &theirs, sizeof theirs) == (ssize_t)sizeof theirs ? 0 : 1);
    }
    ours = random_u64();
    CU_ASSERT_EQUAL(read(ends[0], &theirs, sizeof theirs), (ssize_t)sizeof theirs);
    CU_ASSERT_NOT_EQUAL(ours, theirs);
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(ends[1]);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(hex_is_32_lower_case_digits_and_never_the_same),
    CHECK_TEST(every_byte_is_filled_and_none_beyond),
    CHECK_TEST(parent_and_child_draw_different_numbers_after_a_fork),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"random", NULL, NULL, NULL, NULL, rules})
