#include "coordinator/id_sort.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "tests/support/check.h"

#define CAPACITY (ID_SORT_MEMORY_MIN / sizeof(struct id_record) / 2) /* records of one run */

static struct error err;
static struct id_sort *sort;

static void given_little_memory(void) {
    CU_ASSERT_EQUAL_FATAL(id_sort_new(ID_SORT_MEMORY_MIN, "/tmp", &sort, &err), STATUS_OK);
}

static void then_free_it(void) {
    id_sort_free(sort);
    sort = NULL;
}

static void add(uint64_t id, uint64_t place) {
    if (id_sort_add(sort, (struct id_record){id, place}, &err) != STATUS_OK)
        CU_FAIL_FATAL("no room");
}

/* Adds n IDs as make() says, in that order, and checks that all come back sorted: none is lost (by
 * their sum), and equal ones keep their order. */
static void check_sorted(size_t n, uint64_t (*make)(void *arg, size_t i), void *arg) {
    struct id_record record, before = {0, 0};
    uint64_t sum = 0, places = 0;
    bool ordered = true;
    size_t came = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t id = make(arg, i);

        sum += id * (i + 1);
        add(id, i + 1);
    }
    CU_ASSERT_EQUAL_FATAL(id_sort_finish(sort, &err), STATUS_OK);
    while (id_sort_next(sort, &record, &err) == STATUS_OK) {
        ordered = ordered && (came == 0 || before.id < record.id ||
                              (before.id == record.id && before.place < record.place));
        sum -= record.id * record.place;
        places += record.place;
        before = record;
        came++;
    }
    CU_ASSERT(ordered);
    CU_ASSERT_EQUAL(came, n);
    CU_ASSERT_EQUAL(sum, 0);
    CU_ASSERT_EQUAL(places, (uint64_t)n * (n + 1) / 2);
    CU_ASSERT_EQUAL(id_sort_next(sort, &record, &err), STATUS_NOT_FOUND);
}

static uint64_t make_any(void *random, size_t i) {
    (void)i;
    return check_random_u64(random) >> 1;
}

static uint64_t make_few(void *random, size_t i) {
    (void)i;
    return check_random_below(random, 7) << 40;
}

static uint64_t make_rising(void *unused, size_t i) {
    (void)unused;
    return i;
}

static uint64_t make_falling(void *unused, size_t i) {
    (void)unused;
    return INT64_MAX - i;
}

static const struct {
    const char *row;
    size_t n;
} sizes[] = {
    {"nothing", 0},
    {"one", 1},
    {"two", 2},
    {"just what fits", CAPACITY},
    {"one more", CAPACITY + 1},
    {"three runs", 3 * CAPACITY},
    {"runs and a part", 10 * CAPACITY + 17},
    {"as many runs as are merged at once", 255 * CAPACITY},
    {"more than that", 300 * CAPACITY + 1},
    {"twice", 520 * CAPACITY + 5},
};

static void as_many_as_one_likes_come_back_in_order(void) {
    struct check_random random = check_random_seeded(__func__);

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_sorted(sizes[i].n, make_any, &random);
        CHECK_ROW(sizes[i].row, err.status == STATUS_OK);
        id_sort_free(sort);
        given_little_memory();
    }
}

static void equal_ids_keep_the_order_in_which_they_were_added(void) {
    struct check_random random = check_random_seeded(__func__);

    check_sorted(300 * CAPACITY, make_few, &random);
}

static void what_is_sorted_already_stays_so(void) {
    check_sorted(5 * CAPACITY + 3, make_rising, NULL);
}

static void what_is_upside_down_is_turned(void) {
    check_sorted(5 * CAPACITY + 3, make_falling, NULL);
}

static void a_folder_that_is_not_there_is_named(void) {
    struct id_sort *nowhere;
    enum status status = STATUS_OK;

    CU_ASSERT_EQUAL_FATAL(id_sort_new(ID_SORT_MEMORY_MIN, "/nonexistent", &nowhere, &err),
                          STATUS_OK);
    for (size_t i = 0; i <= CAPACITY && status == STATUS_OK; i++)
        status = id_sort_add(nowhere, (struct id_record){i, i}, &err);
    CU_ASSERT_EQUAL(status, STATUS_SYSTEM);
    CHECK_TEXT(err.message,
               "cannot make a temporary file in /nonexistent: No such file or directory");
    id_sort_free(nowhere);
}

static void what_fits_needs_no_file(void) {
    struct id_record record;
    struct id_sort *nowhere;

    CU_ASSERT_EQUAL_FATAL(id_sort_new(ID_SORT_MEMORY_MIN, "/nonexistent", &nowhere, &err),
                          STATUS_OK);
    for (size_t i = CAPACITY; i > 0; i--)
        CU_ASSERT_EQUAL(id_sort_add(nowhere, (struct id_record){i, i}, &err), STATUS_OK);
    CU_ASSERT_EQUAL(id_sort_finish(nowhere, &err), STATUS_OK);
    CU_ASSERT(id_sort_next(nowhere, &record, &err) == STATUS_OK && record.id == 1);
    id_sort_free(nowhere);
}

static void a_file_that_may_not_grow_ends_it_with_the_reason(void) {
    struct rlimit before, small;
    enum status status = STATUS_OK;

    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = (struct rlimit){.rlim_cur = ID_SORT_MEMORY_MIN, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    for (size_t i = 0; i < 10 * CAPACITY && status == STATUS_OK; i++)
        status = id_sort_add(sort, (struct id_record){i, i}, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    CU_ASSERT_EQUAL(status, STATUS_SYSTEM);
    CHECK_TEXT(err.message, "cannot write a temporary file in /tmp: File too large");
}

static CU_TestInfo rules[] = {
    CHECK_TEST(as_many_as_one_likes_come_back_in_order),
    CHECK_TEST(equal_ids_keep_the_order_in_which_they_were_added),
    CHECK_TEST(what_is_sorted_already_stays_so),
    CHECK_TEST(what_is_upside_down_is_turned),
    CHECK_TEST(a_folder_that_is_not_there_is_named),
    CHECK_TEST(what_fits_needs_no_file),
    CHECK_TEST(a_file_that_may_not_grow_ends_it_with_the_reason),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"a sort", NULL, NULL, given_little_memory, then_free_it, rules})
