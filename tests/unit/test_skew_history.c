/* A day of offsets and bounds: what is kept, in how much memory, and how it is told. */
#include "coordinator/skew_history.h"
#include "tests/support/check.h"

#include <jansson.h>
#include <malloc.h>
#include <math.h>

#define MS INT64_C(1000000)
#define WALL_MS UINT64_C(1764547200000) /* when the boot clock reads 0 */
#define HOUR_MS 3600000u

static struct skew_history *history;
static uint64_t boot_ms;

static void given_no_history(void) {
    history = skew_history_new();
    boot_ms = 1000003; /* no multiple of anything */
}

static void and_it_is_freed(void) {
    skew_history_free(history);
}

static const char *instance(unsigned n) {
    static char text[HEX128_CHARS + 1];

    snprintf(text, sizeof text, "%032x", n);
    return text;
}

static void add(unsigned n, int64_t offset_ns, int64_t bound_ns) {
    char identity[32];

    snprintf(identity, sizeof identity, "node-%u", n);
    skew_history_add(history, instance(n), identity, &(uint16_t){(uint16_t)(n % 1024)}, 1,
                     &(struct skew){offset_ns, bound_ns});
}

/* The next interval of 10 s. */
static void next(void) {
    boot_ms += SKEW_HISTORY_FINE_MS;
    CU_ASSERT_TRUE_FATAL(skew_history_due(history, boot_ms));
}

static json_t *ask(uint64_t since_ms) {
    size_t len;
    char *text = skew_history_spell(history, WALL_MS + boot_ms, boot_ms, since_ms, &len);
    json_error_t at;
    json_t *answer = json_loadb(text, len, 0, &at);

    CU_ASSERT_PTR_NOT_NULL_FATAL(answer);
    free(text);
    return answer;
}

static size_t times(const json_t *answer) {
    return json_array_size(json_object_get(answer, "times_ms"));
}

static json_int_t interval(const json_t *answer) {
    return json_integer_value(json_object_get(answer, "interval_ms"));
}

static const json_t *node(const json_t *answer, size_t n) {
    return json_array_get(json_object_get(answer, "nodes"), n);
}

/* NAN for null. */
static double value(const json_t *answer, size_t n, const char *list, size_t i) {
    const json_t *number = json_array_get(json_object_get(node(answer, n), list), i);

    return json_is_number(number) ? json_number_value(number) : (double)NAN;
}

static uint64_t time_of(const json_t *answer, size_t i) {
    return strtoull(json_string_value(json_array_get(json_object_get(answer, "times_ms"), i)), NULL,
                    10);
}

static void nothing_is_known_at_first(void) {
    json_t *answer = ask(0);

    CU_ASSERT_EQUAL(times(answer), 0);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(answer, "nodes")), 0);
    json_decref(answer);
}

static void a_round_is_due_every_ten_seconds(void) {
    CU_ASSERT_TRUE(skew_history_due(history, 1000000));
    CU_ASSERT_FALSE(skew_history_due(history, 1000001));
    CU_ASSERT_FALSE(skew_history_due(history, 1009999));
    CU_ASSERT_TRUE(skew_history_due(history, 1010000));
    CU_ASSERT_TRUE(skew_history_due(history, 9999999));
}

static void each_point_stands_at_its_time_and_null_means_not_heard(void) {
    json_t *answer;

    CU_ASSERT_TRUE(skew_history_due(history, boot_ms));
    add(1, 1500000, 250000);
    next();
    skew_history_add(history, instance(1), "node-1", NULL, 0, NULL);
    next();
    add(1, -3 * MS, 1);
    answer = ask(0);
    CU_ASSERT_EQUAL(interval(answer), 10000);
    CU_ASSERT_EQUAL_FATAL(times(answer), 3);
    CU_ASSERT_EQUAL(time_of(answer, 0), WALL_MS + 1000000);
    CU_ASSERT_EQUAL(time_of(answer, 2), WALL_MS + 1020000);
    CU_ASSERT_DOUBLE_EQUAL(value(answer, 0, "offset_ms", 0), 1.5, 0.0011);
    CU_ASSERT_DOUBLE_EQUAL(value(answer, 0, "bound_ms", 0), 0.25, 0.0021);
    CU_ASSERT_TRUE(isnan(value(answer, 0, "offset_ms", 1)));
    CU_ASSERT_TRUE(isnan(value(answer, 0, "bound_ms", 1)));
    CU_ASSERT_DOUBLE_EQUAL(value(answer, 0, "offset_ms", 2), -3, 0.0011);
    CHECK_TEXT(json_string_value(json_object_get(node(answer, 0), "identity")), "node-1");
    CHECK_TEXT(json_string_value(json_object_get(node(answer, 0), "instance")), instance(1));
    json_decref(answer);
}

static void a_pause_leaves_a_gap(void) {
    json_t *answer;

    CU_ASSERT_TRUE(skew_history_due(history, boot_ms));
    add(1, MS, 1);
    boot_ms += 50000;
    CU_ASSERT_TRUE(skew_history_due(history, boot_ms));
    add(1, 2 * MS, 1);
    answer = ask(0);
    CU_ASSERT_EQUAL_FATAL(times(answer), 6);
    for (size_t i = 1; i < 5; i++)
        CU_ASSERT_TRUE(isnan(value(answer, 0, "offset_ms", i)));
    CU_ASSERT_DOUBLE_EQUAL(value(answer, 0, "offset_ms", 5), 2, 0.0011);
    json_decref(answer);
}

static void asking_with_the_last_time_brings_only_what_is_new(void) {
    json_t *answer;
    uint64_t last;

    CU_ASSERT_TRUE(skew_history_due(history, boot_ms));
    for (int i = 0; i < 20; i++) {
        add(1, i * MS, 1);
        next();
    }
    answer = ask(0);
    last = time_of(answer, times(answer) - 1);
    json_decref(answer);
    /* The two clocks are read to a ms each: the mapping may differ by that. */
    for (int off = -1; off <= 1; off++) {
        answer = ask(last + (uint64_t)(off + 1) - 1);
        CU_ASSERT_EQUAL(times(answer), 0);
        json_decref(answer);
    }
    add(1, 77 * MS, 1);
    next();
    add(1, 78 * MS, 1);
    answer = ask(last);
    CU_ASSERT_EQUAL_FATAL(times(answer), 1);
    CU_ASSERT_EQUAL(time_of(answer, 0), last + 10000);
    CU_ASSERT_DOUBLE_EQUAL(value(answer, 0, "offset_ms", 0), 78, 0.01);
    json_decref(answer);
    answer = ask(WALL_MS + boot_ms + 1000000); /* a client whose clock is ahead */
    CU_ASSERT_EQUAL(times(answer), 0);
    json_decref(answer);
}

static void an_older_answer_is_coarser_and_hides_no_excursion(void) {
    json_t *answer;
    bool seen = false;

    CU_ASSERT_TRUE(skew_history_due(history, boot_ms));
    for (int i = 0; i < 6 * 60 * 3; i++) { /* three hours */
        add(1, i == 100 ? 3000 * MS : 0, 100000);
        next();
    }
    answer = ask(0);
    CU_ASSERT_EQUAL(interval(answer), 60000);
    CU_ASSERT_TRUE(times(answer) >= 179 && times(answer) <= 181);
    for (size_t i = 0; i < times(answer); i++) {
        double offset = value(answer, 0, "offset_ms", i), bound = value(answer, 0, "bound_ms", i);

        CU_ASSERT_FALSE(isnan(offset));
        if (offset + bound >= 3000) {
            CU_ASSERT_TRUE(offset - bound <= 0); /* and the quiet part of that minute */
            seen = true;
        }
    }
    CU_ASSERT_TRUE(seen);
    json_decref(answer);
    answer = ask(WALL_MS + boot_ms - HOUR_MS + 10000);
    CU_ASSERT_EQUAL(interval(answer), 10000);
    CU_ASSERT_TRUE(times(answer) >= 358 && times(answer) <= 360);
    json_decref(answer);
}

static void no_more_than_a_day_is_kept(void) {
    json_t *answer;

    CU_ASSERT_TRUE(skew_history_due(history, boot_ms));
    add(2, 5 * MS, 1); /* and then it is gone */
    for (int i = 0; i < 6 * 60 * 30; i++) {
        next();
        add(1, 0, 1);
        CU_ASSERT_EQUAL(skew_history_nodes(history), i < 6 * 60 * 24 - 1 ? 2 : 1);
    }
    answer = ask(0);
    CU_ASSERT_TRUE(times(answer) >= 1438 && times(answer) <= 1440);
    CU_ASSERT_TRUE(time_of(answer, 0) >= WALL_MS + boot_ms - 24 * HOUR_MS - 60000);
    for (size_t i = 0; i < times(answer); i++)
        CU_ASSERT_FALSE(isnan(value(answer, 0, "offset_ms", i)));
    json_decref(answer);
}

static void every_truth_lies_within_what_is_told_of_it(void) {
    struct check_random random = check_random_seeded(__func__);
    static double low[6 * 60 * 2], high[6 * 60 * 2];
    const size_t n = sizeof low / sizeof low[0];
    json_t *answer;

    boot_ms = 1020000; /* a minute begins */
    CU_ASSERT_TRUE(skew_history_due(history, boot_ms));
    for (size_t i = 0; i < n; i++) {
        int64_t scale = (int64_t)1 << check_random_below(&random, 62);
        int64_t offset = (int64_t)check_random_below(&random, (uint64_t)scale) - scale / 2;
        int64_t bound = (int64_t)check_random_below(&random, (uint64_t)scale);

        add(1, offset, bound);
        low[i] = ((double)offset - (double)bound) / 1e6;
        high[i] = ((double)offset + (double)bound) / 1e6;
        next();
    }
    for (int coarse = 0; coarse <= 1; coarse++) {
        size_t each = coarse ? 6 : 1, first;

        answer = ask(coarse ? 0 : WALL_MS + boot_ms - HOUR_MS + 20000);
        CU_ASSERT_EQUAL_FATAL(interval(answer), coarse ? 60000 : 10000);
        first = (time_of(answer, 0) - WALL_MS - 1020000) / 10000;
        for (size_t i = 0; i < times(answer) && first + (i + 1) * each <= n; i++) {
            double offset = value(answer, 0, "offset_ms", i);
            double bound = value(answer, 0, "bound_ms", i);

            for (size_t k = first + i * each; k < first + (i + 1) * each; k++) {
                double slack = fabs(offset) * 1e-15 + bound * 1e-15; /* of our own arithmetic */

                if (!(offset - bound <= low[k] + slack && offset + bound >= high[k] - slack)) {
                    printf("point %zu: %.6f +- %.6f, reading %.6f..%.6f\n", i, offset, bound,
                           low[k], high[k]);
                    CU_FAIL_FATAL("a reading lies outside");
                }
            }
        }
        json_decref(answer);
    }
}

static void fill(unsigned nodes, unsigned rounds) {
    CU_ASSERT_TRUE(skew_history_due(history, boot_ms));
    for (unsigned i = 0; i < rounds; i++) {
        for (unsigned n = 0; n < nodes; n++)
            add(n, (int64_t)n * 1234567, 98765);
        next();
    }
}

static const unsigned fleets[] = {500, 1024};

static void memory_is_as_stated_for_each_node(void) {
    for (size_t i = 0; i < sizeof fleets / sizeof fleets[0]; i++) {
        size_t before = mallinfo2().uordblks + mallinfo2().hblkhd, after;

        skew_history_free(history);
        history = skew_history_new();
        before = mallinfo2().uordblks + mallinfo2().hblkhd;
        fill(fleets[i], 3);
        after = mallinfo2().uordblks + mallinfo2().hblkhd;
        CU_ASSERT_EQUAL(skew_history_nodes(history), fleets[i]);
        /* A sanitizer counts for itself. */
        if (after > before)
            CU_ASSERT_TRUE(after - before <= fleets[i] * (SKEW_HISTORY_NODE_BYTES + 32) + 16384);
    }
}

static void the_number_of_nodes_is_bounded(void) {
    /* A fleet whose instances are replaced again and again. */
    CU_ASSERT_TRUE(skew_history_due(history, boot_ms));
    for (unsigned round = 0; round < 12; round++) {
        for (unsigned n = 0; n < 500; n++)
            add(round * 500 + n, 0, 1);
        CU_ASSERT_TRUE(skew_history_nodes(history) <= SKEW_HISTORY_NODES_MAX);
        next();
        next();
    }
    CU_ASSERT_EQUAL(skew_history_nodes(history), SKEW_HISTORY_NODES_MAX);
    CU_ASSERT_EQUAL(skew_history_refused_total(history), 0);
    /* The newest are there, and more than there is room for at once is counted. */
    for (unsigned n = 0; n < SKEW_HISTORY_NODES_MAX + 7; n++)
        add(100000 + n, 0, 1);
    CU_ASSERT_EQUAL(skew_history_nodes(history), SKEW_HISTORY_NODES_MAX);
    CU_ASSERT_EQUAL(skew_history_refused_total(history), 7);
}

static void an_answer_is_bounded_and_covers_the_day_all_the_same(void) {
    static const unsigned nodes[] = {1, 69, 70, 500, 1024, SKEW_HISTORY_NODES_MAX};

    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        json_t *answer;
        size_t len;

        skew_history_free(history);
        history = skew_history_new();
        fill(nodes[i], 2);
        boot_ms += 23 * HOUR_MS;
        fill(nodes[i], 2);
        answer = ask(0);
        CU_ASSERT_TRUE(times(answer) * nodes[i] <= SKEW_HISTORY_ANSWER_POINTS);
        CU_ASSERT_EQUAL(interval(answer) % 60000, 0);
        CU_ASSERT_TRUE((uint64_t)interval(answer) * (times(answer) + 2) >= 23 * HOUR_MS);
        free(skew_history_spell(history, WALL_MS + boot_ms, boot_ms, 0, &len));
        CU_ASSERT_TRUE(len < 3000000);
        json_decref(answer);
    }
}

static CU_TestInfo rules[] = {
    CHECK_TEST(nothing_is_known_at_first),
    CHECK_TEST(a_round_is_due_every_ten_seconds),
    CHECK_TEST(each_point_stands_at_its_time_and_null_means_not_heard),
    CHECK_TEST(a_pause_leaves_a_gap),
    CHECK_TEST(asking_with_the_last_time_brings_only_what_is_new),
    CHECK_TEST(an_older_answer_is_coarser_and_hides_no_excursion),
    CHECK_TEST(no_more_than_a_day_is_kept),
    CHECK_TEST(every_truth_lies_within_what_is_told_of_it),
    CHECK_TEST(memory_is_as_stated_for_each_node),
    CHECK_TEST(the_number_of_nodes_is_bounded),
    CHECK_TEST(an_answer_is_bounded_and_covers_the_day_all_the_same),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"a day of skew", NULL, NULL, given_no_history, and_it_is_freed, rules})
