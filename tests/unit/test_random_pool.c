#include "common/random_pool.h"

#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/random.h"
#include "tests/support/check.h"

/* A source that counts, and fails when it is told to. */
static unsigned asked;
static bool broken;
static uint64_t next_number;

static enum status counting(void *buf, size_t len, struct error *err) {
    unsigned char *at = buf;

    asked++;
    if (broken)
        return error_set(err, STATUS_SYSTEM, "no randomness today");
    for (; len >= sizeof next_number; len -= sizeof next_number, at += sizeof next_number) {
        next_number++;
        memcpy(at, &next_number, sizeof next_number);
    }
    memset(at, 0xee, len);
    return STATUS_OK;
}

static struct random_pool *pool;
static struct error err;

static void given_a_pool_of_counted_numbers(void) {
    asked = 0;
    broken = false;
    next_number = 0;
    pool = random_pool_new(counting, &err);
    CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
}

static void then_free_it(void) {
    random_pool_free(pool);
}

static void no_byte_is_given_twice(void) {
    static bool seen[100000];

    memset(seen, 0, sizeof seen);
    for (int i = 0; i < 5000; i++) {
        uint64_t number[2];

        CU_ASSERT_EQUAL_FATAL(random_pool_take(pool, number, sizeof number, &err), STATUS_OK);
        for (int k = 0; k < 2; k++) {
            CU_ASSERT_FATAL(number[k] < sizeof seen && !seen[number[k]]);
            seen[number[k]] = true;
        }
    }
    CU_ASSERT(asked > 1 && asked < 30);
}

static void every_length_is_filled_and_none_beyond(void) {
    for (size_t len = 1; len <= RANDOM_POOL_TAKE_MAX; len++) {
        unsigned char bytes[RANDOM_POOL_TAKE_MAX + 1];

        memset(bytes, 0x55, sizeof bytes);
        CU_ASSERT_EQUAL(random_pool_take(pool, bytes, len, &err), STATUS_OK);
        CU_ASSERT_EQUAL(bytes[len], 0x55);
    }
}

static void a_source_that_fails_is_an_error_and_is_asked_again(void) {
    uint64_t number = 77;
    unsigned before;

    broken = true;
    CU_ASSERT_EQUAL(random_pool_take(pool, &number, sizeof number, &err), STATUS_SYSTEM);
    CHECK_TEXT(err.message, "no randomness today");
    CU_ASSERT_EQUAL(number, 77);
    CU_ASSERT_EQUAL(random_pool_take(pool, &number, sizeof number, &err), STATUS_SYSTEM);
    before = asked;
    CU_ASSERT_EQUAL(before, 2);
    broken = false;
    CU_ASSERT_EQUAL(random_pool_take(pool, &number, sizeof number, &err), STATUS_OK);
    CU_ASSERT_NOT_EQUAL(number, 77);
}

static void a_child_never_gives_what_its_parent_gives(void) {
    struct random_pool *real = random_pool_new(random_bytes, &err);
    unsigned char ours[64], theirs[64] = {0};
    int ends[2];
    pid_t child;

    CU_ASSERT_PTR_NOT_NULL_FATAL(real);
    CU_ASSERT_EQUAL(random_pool_take(real, ours, sizeof ours, &err), STATUS_OK); /* it is filled */
    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        bool ok = random_pool_take(real, theirs, sizeof theirs, &err) == STATUS_OK;

        _exit(ok && write(ends[1], theirs, sizeof theirs) == (ssize_t)sizeof theirs ? 0 : 1);
    }
    CU_ASSERT_EQUAL(random_pool_take(real, ours, sizeof ours, &err), STATUS_OK);
    CU_ASSERT_EQUAL(read(ends[0], theirs, sizeof theirs), (ssize_t)sizeof theirs);
    CU_ASSERT_NOT_EQUAL(memcmp(ours, theirs, sizeof ours), 0);
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    random_pool_free(real);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(no_byte_is_given_twice),
    CHECK_TEST(every_length_is_filled_and_none_beyond),
    CHECK_TEST(a_source_that_fails_is_an_error_and_is_asked_again),
    CHECK_TEST(a_child_never_gives_what_its_parent_gives),
    CU_TEST_INFO_NULL,
};
CHECK_MAIN({"random_pool", NULL, NULL, given_a_pool_of_counted_numbers, then_free_it, rules})
