#include "coordinator/audit.h"

#include "tests/support/check.h"

#define NINES_100                                                                                  \
    "9999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999"

/* --- lines --- */

static struct audit_reader reader;
static struct audit_line line;

static void given_an_empty_reader(void) {
    audit_reader_init(&reader);
}

/* As much as there is room for; how much that was. */
static size_t feed(const char *text, size_t len) {
    size_t room, n;
    char *at = audit_reader_room(&reader, &room);

    CU_ASSERT_FATAL(room > 0);
    n = len < room ? len : room;
    memcpy(at, text, n);
    audit_reader_fill(&reader, n);
    return n;
}

/* Feeds text in parts of at most part bytes, then its end, and spells what comes: "1 2 bad 3 ". */
static void read_all(const char *text, size_t len, size_t part, char *out, size_t size) {
    size_t used = 0, n;

    audit_reader_init(&reader);
    out[0] = '\0';
    do {
        n = feed(text, len < part ? len : part);
        text += n;
        len -= n;
        while (audit_reader_next(&reader, &line) && used < size)
            used += (size_t)(line.good ? snprintf(out + used, size - used, "%" PRIu64 " ", line.id)
                                       : snprintf(out + used, size - used, "bad "));
    } while (n > 0);
}

static const struct {
    const char *row, *text, *expected;
} dumps[] = {
    {"nothing", "", ""},
    {"one line", "5\n", "5 "},
    {"the last line without its end", "5\n6", "5 6 "},
    {"the smallest and the largest", "0\n9223372036854775807\n", "0 9223372036854775807 "},
    {"CR LF", "5\r\n6\r\n7\r", "5 6 7 "},
    {"two CR", "5\r\r\n6\n", "bad 6 "},
    {"a CR within", "5\r6\n7\n", "bad 7 "},
    {"empty lines", "\n5\n\n", "bad 5 bad "},
    {"an empty line with CR", "\r\n5\n", "bad 5 "},
    {"above the largest", "9223372036854775808\n1\n", "bad 1 "},
    {"2^64", "18446744073709551616\n1\n", "bad 1 "},
    {"100 digits", NINES_100 "\n1\n", "bad 1 "},
    {"a sign", "-1\n-2\n+5\n1\n", "bad bad bad 1 "},
    {"blanks", " 5\n5 \n5\t\n1\n", "bad bad bad 1 "},
    {"a leading zero", "05\n00\n0\n", "bad bad 0 "},
    {"not decimal", "0x10\n1e3\n5.0\n5;6\nNaN\n1_000\n\"7\"\n1\n",
     "bad bad bad bad bad bad bad 1 "},
    {"Arabic digits", "\xd9\xa5\n1\n", "bad 1 "},
    {"a byte order mark",
     "\xef\xbb\xbf"
     "5\n1\n",
     "bad 1 "},
};

static void a_line_is_a_plain_number_or_bad(void) {
    for (size_t i = 0; i < sizeof dumps / sizeof dumps[0]; i++) {
        char out[200];

        for (size_t part = 1; part < 30; part++) {
            read_all(dumps[i].text, strlen(dumps[i].text), part, out, sizeof out);
            CHECK_ROW(dumps[i].row, strcmp(out, dumps[i].expected) == 0);
        }
    }
}

static void a_zero_byte_makes_a_line_bad(void) {
    char out[50];

    read_all("5\0\n6\n", 5, 5, out, sizeof out);
    CHECK_TEXT(out, "bad 6 ");
}

static void a_bad_line_is_shown_without_its_end(void) {
    feed("5\nx7\r\n", 6);
    CU_ASSERT(audit_reader_next(&reader, &line) && line.good);
    CU_ASSERT_FATAL(audit_reader_next(&reader, &line) && !line.good);
    CU_ASSERT(line.len == 2 && memcmp(line.text, "x7", 2) == 0);
    CU_ASSERT_EQUAL(reader.line, 2);
}

/* A line of that many digits, between two good ones. */
static void read_around_long_line(size_t digits, size_t part, char *out, size_t size) {
    char *text = malloc(digits + 5);

    memcpy(text, "5\n", 2);
    memset(text + 2, '7', digits);
    memcpy(text + 2 + digits, "\n6\n", 3);
    read_all(text, digits + 5, part, out, size);
    free(text);
}

static void a_line_beyond_all_bounds_is_one_bad_line(void) {
    static const size_t lengths[] = {AUDIT_BLOCK - 1, AUDIT_BLOCK, AUDIT_BLOCK + 1,
                                     5 * AUDIT_BLOCK};

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char out[50];

        read_around_long_line(lengths[i], 1000, out, sizeof out);
        CHECK_TEXT(out, "5 bad 6 ");
        CU_ASSERT_EQUAL(reader.line, 3);
    }
}

static void a_long_last_line_ends_with_the_input(void) {
    char *text = calloc(2 * AUDIT_BLOCK, 1);
    char out[50];

    read_all(text, 2 * AUDIT_BLOCK, 4096, out, sizeof out);
    CHECK_TEXT(out, "bad ");
    free(text);
}

/* --- windows --- */

static struct audit_history history;
static struct audit_window *window;

static void given_no_window(void) {
    history = (struct audit_history){.windows = NULL};
}

static void then_free_it(void) {
    free(history.windows);
}

static void add(uint64_t after_ms, uint64_t until_ms) {
    audit_history_add(&history, &(struct audit_window){.after_ms = after_ms, .until_ms = until_ms});
}

static void given_two_windows(void) {
    given_no_window();
    add(300, 400); /* newest first, as they are found */
    add(100, 200);
    audit_history_close(&history);
}

static const struct {
    const char *row;
    uint64_t t_ms;
    enum audit_verdict verdict;
} times[] = {
    {"before the first", 99, AUDIT_BETWEEN}, {"what the first claim found", 100, AUDIT_BETWEEN},
    {"its first", 101, AUDIT_INSIDE},        {"its last", 200, AUDIT_INSIDE},
    {"between the two", 201, AUDIT_BETWEEN}, {"what the second found", 300, AUDIT_BETWEEN},
    {"its first", 301, AUDIT_INSIDE},        {"again", 301, AUDIT_INSIDE},
    {"its last", 400, AUDIT_INSIDE},         {"above", 401, AUDIT_ABOVE},
    {"far above", UINT64_MAX, AUDIT_ABOVE},
};

static void an_id_is_inside_above_what_was_found_up_to_the_limit(void) {
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        CHECK_ROW(times[i].row,
                  audit_judge(&history, 0, times[i].t_ms, &window) == times[i].verdict);
}

static void the_window_is_named(void) {
    CU_ASSERT_EQUAL(audit_judge(&history, 0, 150, &window), AUDIT_INSIDE);
    CU_ASSERT_EQUAL(window->until_ms, 200);
    CU_ASSERT_EQUAL(audit_judge(&history, 0, 350, &window), AUDIT_INSIDE);
    CU_ASSERT_EQUAL(window->until_ms, 400);
}

static void what_is_older_than_the_history_is_not_judged(void) {
    history.covered_after_ms = 250;
    CU_ASSERT_EQUAL(audit_judge(&history, 0, 50, &window), AUDIT_NOT_COVERED);
    CU_ASSERT_EQUAL(audit_judge(&history, 0, 150, &window), AUDIT_INSIDE);
    CU_ASSERT_EQUAL(audit_judge(&history, 0, 250, &window), AUDIT_NOT_COVERED);
    CU_ASSERT_EQUAL(audit_judge(&history, 0, 251, &window), AUDIT_BETWEEN);
}

static void nor_what_is_at_or_below_the_floor(void) {
    CU_ASSERT_EQUAL(audit_judge(&history, 250, 50, &window), AUDIT_NOT_COVERED);
    CU_ASSERT_EQUAL(audit_judge(&history, 250, 200, &window), AUDIT_INSIDE);
    CU_ASSERT_EQUAL(audit_judge(&history, 250, 250, &window), AUDIT_NOT_COVERED);
    CU_ASSERT_EQUAL(audit_judge(&history, 250, 251, &window), AUDIT_BETWEEN);
}

static void a_machine_id_that_nobody_held_issued_nothing(void) {
    audit_history_close(&history);
    CU_ASSERT_EQUAL(audit_judge(&history, 0, 1, &window), AUDIT_NEVER_HELD);
}

static void a_horizon_without_a_visible_claim_bounds_what_was_issued(void) {
    history.covered_after_ms = 500;
    audit_history_close(&history);
    CU_ASSERT_EQUAL(audit_judge(&history, 0, 500, &window), AUDIT_NOT_COVERED);
    CU_ASSERT_EQUAL(audit_judge(&history, 0, 501, &window), AUDIT_ABOVE);
}

static void windows_that_overlap_hide_nothing_of_each_other(void) {
    add(100, 900);
    add(200, 300);
    add(300, 400);
    audit_history_close(&history);
    for (uint64_t t_ms = 101; t_ms <= 900; t_ms++)
        CU_ASSERT_EQUAL(audit_judge(&history, 0, t_ms, &window), AUDIT_INSIDE);
    CU_ASSERT_EQUAL(audit_judge(&history, 0, 901, &window), AUDIT_ABOVE);
}

/* Against asking every window. */
static void any_windows_judge_as_each_of_them_would(void) {
    struct check_random random = check_random_seeded(__func__);

    for (int round = 0; round < 200; round++) {
        free(history.windows);
        given_no_window();
        for (uint64_t n = check_random_below(&random, 12); n > 0; n--) {
            uint64_t after_ms = check_random_below(&random, 200);

            add(after_ms, after_ms + check_random_below(&random, 30));
        }
        audit_history_close(&history);
        for (uint64_t t_ms = 0; t_ms < 250; t_ms += check_random_below(&random, 3)) {
            bool inside = false;

            for (size_t i = 0; i < history.n; i++)
                inside = inside || (history.windows[i].after_ms < t_ms &&
                                    t_ms <= history.windows[i].until_ms);
            CU_ASSERT_EQUAL(audit_judge(&history, 0, t_ms, &window) == AUDIT_INSIDE, inside);
        }
    }
}

static void every_verdict_has_words(void) {
    for (int verdict = AUDIT_INSIDE; verdict <= AUDIT_BETWEEN; verdict++)
        CU_ASSERT(strlen(audit_verdict_text((enum audit_verdict)verdict)) > 5);
}

/* --- counts --- */

static struct audit_machine count_all(const uint64_t *ids, size_t n) {
    struct audit_machine machine = {.lines = 0};

    for (size_t i = 0; i < n; i++)
        audit_machine_count(&machine, ids[i]);
    return machine;
}

static void first_last_and_order_are_counted(void) {
    static const uint64_t rising[] = {3, 5, 9}, falling[] = {5, 3, 9}, equal[] = {3, 3};
    struct audit_machine machine = count_all(rising, 3);

    CU_ASSERT(machine.lines == 3 && machine.smallest == 3 && machine.largest == 9);
    CU_ASSERT(machine.increasing);
    machine = count_all(falling, 3);
    CU_ASSERT(machine.lines == 3 && machine.smallest == 3 && machine.largest == 9);
    CU_ASSERT_FALSE(machine.increasing);
    CU_ASSERT_FALSE(count_all(equal, 2).increasing);
    CU_ASSERT(count_all(rising, 1).increasing);
}

static CU_TestInfo lines[] = {
    CHECK_TEST(a_line_is_a_plain_number_or_bad),
    CHECK_TEST(a_zero_byte_makes_a_line_bad),
    CHECK_TEST(a_bad_line_is_shown_without_its_end),
    CHECK_TEST(a_line_beyond_all_bounds_is_one_bad_line),
    CHECK_TEST(a_long_last_line_ends_with_the_input),
    CU_TEST_INFO_NULL,
};

static CU_TestInfo two_windows[] = {
    CHECK_TEST(an_id_is_inside_above_what_was_found_up_to_the_limit),
    CHECK_TEST(the_window_is_named),
    CHECK_TEST(what_is_older_than_the_history_is_not_judged),
    CHECK_TEST(nor_what_is_at_or_below_the_floor),
    CU_TEST_INFO_NULL,
};

static CU_TestInfo windows[] = {
    CHECK_TEST(a_machine_id_that_nobody_held_issued_nothing),
    CHECK_TEST(a_horizon_without_a_visible_claim_bounds_what_was_issued),
    CHECK_TEST(windows_that_overlap_hide_nothing_of_each_other),
    CHECK_TEST(any_windows_judge_as_each_of_them_would),
    CHECK_TEST(every_verdict_has_words),
    CU_TEST_INFO_NULL,
};

static CU_TestInfo counts[] = {
    CHECK_TEST(first_last_and_order_are_counted),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"lines", NULL, NULL, given_an_empty_reader, NULL, lines},
           {"two windows", NULL, NULL, given_two_windows, then_free_it, two_windows},
           {"windows", NULL, NULL, given_no_window, then_free_it, windows},
           {"counts", NULL, NULL, NULL, NULL, counts})
