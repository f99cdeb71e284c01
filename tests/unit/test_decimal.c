#include "common/decimal.h"

#include <time.h>

#include "tests/support/check.h"

#define NINES_100                                                                                  \
    "9999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999"

static struct error err;
static uint64_t value;

static void given_a_value_that_must_stay(void) {
    value = 4711;
}

/* --- plain numbers --- */

static const struct {
    const char *row, *text;
    size_t len;
    const char *message; /* NULL: accepted */
} counts[] = {
    {"the least", "1", 1, NULL},
    {"the most", "10000", 5, NULL},
    {"below", "0", 1, "must be 1..10000, got 0"},
    {"above", "10001", 5, "must be 1..10000, got 10001"},
    {"a sign", "-1", 2, "must be 1..10000, got -1"},
    {"another", "-2", 2, "must be 1..10000, got -2"},
    {"a plus", "+5", 2, "must be 1..10000, got +5"},
    {"a blank before", " 5", 2, "must be 1..10000, got \" 5\""},
    {"a blank after", "5 ", 2, "must be 1..10000, got \"5 \""},
    {"a line end", "5\n", 2, "must be 1..10000, got \"5\\x0a\""},
    {"a leading zero", "05", 2, "must be 1..10000, got 05"},
    {"two zeros", "00", 2, "must be 1..10000, got 00"},
    {"hexadecimal", "0x10", 4, "must be 1..10000, got 0x10"},
    {"hex digits", "ff", 2, "must be 1..10000, got ff"},
    {"an exponent", "1e3", 3, "must be 1..10000, got 1e3"},
    {"a fraction", "5.0", 3, "must be 1..10000, got 5.0"},
    {"nothing", "", 0, "must be 1..10000, got \"\""},
    {"something after it", "5;6", 3, "must be 1..10000, got 5;6"},
    {"a zero byte", "5\0", 2, "must be 1..10000, got \"5\\x00\""},
    {"a separator", "1,000", 5, "must be 1..10000, got 1,000"},
    {"2^64", "18446744073709551616", 20, "must be 1..10000, got 18446744073709551616"},
    {"2^64 + 5", "18446744073709551621", 20, "must be 1..10000, got 18446744073709551621"},
    {"2^63", "9223372036854775808", 19, "must be 1..10000, got 9223372036854775808"},
    {"100 digits", NINES_100, 100,
     "must be 1..10000, got \"9999999999999999999999999999999999999999999999999999999...\""},
    {"Arabic digits", "\xd9\xa5", 2, "must be 1..10000, got \"\\xd9\\xa5\""},
    {"full-width digits", "\xef\xbc\x95", 3, "must be 1..10000, got \"\\xef\\xbc\\x95\""},
};

static void a_count_is_a_plain_number_in_its_range(void) {
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint64_t read = 4711;
        enum status status = decimal_parse(counts[i].text, counts[i].len, 1, 10000, &read, &err);

        CHECK_ROW(counts[i].row, status == (counts[i].message ? STATUS_INVALID : STATUS_OK));
        if (counts[i].message) {
            CHECK_ROW(counts[i].row, read == 4711);
            CHECK_TEXT(err.message, counts[i].message);
        }
    }
}

static void the_largest_number_is_read_and_the_next_is_not(void) {
    CU_ASSERT_EQUAL(decimal_parse("18446744073709551615", 20, 0, UINT64_MAX, &value, &err),
                    STATUS_OK);
    CU_ASSERT_EQUAL(value, UINT64_MAX);
    CU_ASSERT_EQUAL(decimal_parse("18446744073709551616", 20, 0, UINT64_MAX, &value, &err),
                    STATUS_INVALID);
    CU_ASSERT_EQUAL(value, UINT64_MAX);
}

static void only_len_characters_are_read(void) {
    CU_ASSERT_EQUAL(decimal_parse("1234", 2, 0, 100, &value, &err), STATUS_OK);
    CU_ASSERT_EQUAL(value, 12);
}

static void check_format(uint64_t number) {
    char out[DECIMAL_U64_MAX_CHARS + 1], expected[DECIMAL_U64_MAX_CHARS + 1];
    uint64_t back = ~number;
    size_t len;

    snprintf(expected, sizeof expected, "%" PRIu64, number);
    len = decimal_format(number, out);
    out[len] = '\0';
    CHECK_TEXT(out, expected);
    CU_ASSERT_EQUAL(decimal_parse(out, len, 0, UINT64_MAX, &back, &err), STATUS_OK);
    CU_ASSERT_EQUAL(back, number);
}

static void numbers_round_trip_around_every_power(void) {
    for (uint64_t power = 1; power <= UINT64_MAX / 10; power *= 10) {
        check_format(power - 1);
        check_format(power);
        check_format(power + 1);
    }
    for (int bit = 0; bit < 64; bit++) {
        check_format((UINT64_C(1) << bit) - 1);
        check_format(UINT64_C(1) << bit);
    }
    check_format(UINT64_C(9999999999999999999));
    check_format(UINT64_C(10000000000000000000));
    check_format(INT64_MAX);
    check_format(UINT64_MAX);
}

static void any_number_round_trips(void) {
    struct check_random random = check_random_seeded(__func__);

    for (int i = 0; i < 20000; i++)
        check_format(check_random_u64(&random) >> check_random_below(&random, 64));
}

static void check_increment(uint64_t number, unsigned times) {
    char text[DECIMAL_U64_MAX_CHARS + 1], expected[DECIMAL_U64_MAX_CHARS + 1];
    size_t len = decimal_format(number, text);

    for (unsigned i = 0; i < times; i++)
        decimal_increment(text, &len);
    text[len] = '\0';
    snprintf(expected, sizeof expected, "%" PRIu64, number + times);
    CHECK_TEXT(text, expected);
}

static void an_increment_is_plus_one_in_text(void) {
    check_increment(0, 1);
    check_increment(8, 1);
    check_increment(9, 1);
    check_increment(99, 1);
    check_increment(9999999, 1);
    check_increment(UINT64_C(9999999999999999999), 1);
    check_increment(UINT64_MAX - 1, 1);
    check_increment(187354526515220487, 4096);
    check_increment(0, 100000);
}

/* --- durations --- */

static const struct {
    const char *row, *text;
    uint64_t expected_ms;
} durations[] = {
    {"milliseconds", "2000ms", 2000}, {"seconds", "15s", 15000},
    {"minutes", "2m", 120000},        {"the least", "2s", 2000},
    {"the most", "600s", 600000},     {"the most in minutes", "10m", 600000},
};

static const char *const no_durations[] = {"1s",
                                           "1999ms",
                                           "601s",
                                           "11m",
                                           "1h",
                                           "15",
                                           "",
                                           "s",
                                           "ms",
                                           "-5s",
                                           "+5s",
                                           " 5s",
                                           "5 s",
                                           "5s ",
                                           "05s",
                                           "1.5m",
                                           "5S",
                                           "5sec",
                                           "5d",
                                           "5mss",
                                           "1m30s",
                                           "0x5s",
                                           "1e1s",
                                           "5us",
                                           "s5",
                                           "5\n",
                                           "\xd9\xa5s",
                                           "18446744073709551615h",
                                           "18446744073709551616s",
                                           "307445734561826m"};

static void a_duration_is_a_number_with_its_unit(void) {
    for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++) {
        const char *text = durations[i].text;

        CHECK_ROW(durations[i].row,
                  duration_parse(text, strlen(text), 2000, 600000, &value, &err) == STATUS_OK);
        CHECK_ROW(durations[i].row, value == durations[i].expected_ms);
    }
}

static void anything_else_is_no_duration(void) {
    for (size_t i = 0; i < sizeof no_durations / sizeof no_durations[0]; i++) {
        const char *text = no_durations[i];

        CHECK_ROW(text,
                  duration_parse(text, strlen(text), 2000, 600000, &value, &err) == STATUS_INVALID);
        CHECK_ROW(text, strncmp(err.message, "must be 2s..600s, got ", 22) == 0);
    }
    CU_ASSERT_EQUAL(value, 4711);
}

static const struct {
    uint64_t ms;
    const char *text;
} exact[] = {
    {0, "0s"},
    {1, "1ms"},
    {250, "250ms"},
    {1000, "1s"},
    {1500, "1500ms"},
    {15000, "15s"},
    {60000, "1m"},
    {90000, "90s"},
    {120000, "2m"},
    {3600000, "1h"},
    {5400000, "90m"},
    {86400000, "24h"},
    {UINT64_MAX, "18446744073709551615ms"},
};

static void durations_are_written_in_the_largest_exact_unit(void) {
    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++) {
        char out[24];

        duration_format(exact[i].ms, out);
        CHECK_TEXT(out, exact[i].text);
        CU_ASSERT_EQUAL(duration_parse(out, strlen(out), 0, UINT64_MAX, &value, &err), STATUS_OK);
        CU_ASSERT_EQUAL(value, exact[i].ms);
    }
}

static const struct {
    uint64_t min_ms, max_ms;
    const char *text;
} ranges[] = {
    {2000, 600000, "2s..600s"},
    {100, 10000, "100ms..10s"},
    {100, 2000, "100ms..2000ms"},
    {1, 3600000, "1ms..1h"},
    {0, 10000, "0s..10s"},
    {0, 250, "0ms..250ms"},
    {1000, 3600000, "1s..3600s"},
    {60000, 3600000, "1m..60m"},
    {0, 0, "0s..0s"},
    {0, UINT64_MAX, "0s..18446744073709551615ms"},
};

static void a_range_keeps_to_one_unit_while_that_is_readable(void) {
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        char out[52];

        duration_format_range(ranges[i].min_ms, ranges[i].max_ms, out);
        CHECK_TEXT(out, ranges[i].text);
    }
}

/* --- times --- */

static const struct {
    uint64_t ms;
    const char *text;
} times[] = {
    {0, "1970-01-01T00:00:00.000Z"},
    {UINT64_C(951782399999), "2000-02-28T23:59:59.999Z"},
    {UINT64_C(951782400000), "2000-02-29T00:00:00.000Z"},
    {UINT64_C(951868800000), "2000-03-01T00:00:00.000Z"},
    {UINT64_C(1704067200000), "2024-01-01T00:00:00.000Z"},
    {UINT64_C(1709164800000), "2024-02-29T00:00:00.000Z"},
    {UINT64_C(1735689599999), "2024-12-31T23:59:59.999Z"},
    {UINT64_C(1740787200000), "2025-03-01T00:00:00.000Z"},
    {UINT64_C(3903090455551), "2093-09-06T15:47:35.551Z"},
    {UINT64_C(4107542400000), "2100-03-01T00:00:00.000Z"},
    {UINT64_C(253402300799999), "9999-12-31T23:59:59.999Z"},
    {UINT64_C(253402300800000), "+10000-01-01T00:00:00.000Z"},
    {UINT64_C(281474976710655), "+10889-08-02T05:31:50.655Z"},
    {UINT64_MAX, "+584556019-04-03T14:25:51.615Z"},
};

static void times_are_rfc_3339_in_utc_with_milliseconds(void) {
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        char out[32];

        time_format(times[i].ms, out);
        CHECK_TEXT(out, times[i].text);
        value = 0;
        CHECK_ROW(times[i].text, time_parse(out, strlen(out), &value, &err) == STATUS_OK);
        CHECK_ROW(times[i].text, value == times[i].ms);
    }
}

static void every_day_of_400_years_follows_the_day_before(void) {
    char out[32], expected[32];
    time_t day_s = 0;

    for (int day = 0; day < 146097 * 2; day++, day_s += 86400) {
        struct tm utc;

        gmtime_r(&day_s, &utc);
        strftime(expected, sizeof expected, "%Y-%m-%dT00:00:00.000Z", &utc);
        time_format((uint64_t)day_s * 1000, out);
        if (strcmp(out, expected) != 0 || time_parse(out, strlen(out), &value, &err) ||
            value != (uint64_t)day_s * 1000) {
            CHECK_TEXT(out, expected);
            CU_FAIL("a day that does not round trip");
            return;
        }
    }
}

static void any_time_round_trips(void) {
    struct check_random random = check_random_seeded(__func__);

    for (int i = 0; i < 20000; i++) {
        uint64_t wall_ms = check_random_u64(&random) >> check_random_below(&random, 64);
        char out[32];

        time_format(wall_ms, out);
        CU_ASSERT_EQUAL(time_parse(out, strlen(out), &value, &err), STATUS_OK);
        CU_ASSERT_EQUAL(value, wall_ms);
    }
}

static const struct {
    const char *text;
    uint64_t ms;
} spellings[] = {
    {"2024-01-01T00:00:00Z", UINT64_C(1704067200000)},
    {"2024-01-01T00:00:00.5Z", UINT64_C(1704067200500)},
    {"2024-01-01T00:00:00.05Z", UINT64_C(1704067200050)},
    {"2024-01-01T08:00:00+08:00", UINT64_C(1704067200000)},
    {"2023-12-31T19:00:00-05:00", UINT64_C(1704067200000)},
    {"2024-01-01T05:45:00.000+05:45", UINT64_C(1704067200000)},
    {"2024-01-01T00:00:00-00:00", UINT64_C(1704067200000)},
    {"1970-01-01T01:00:00+01:00", 0},
    {"2024-02-29T12:00:00Z", UINT64_C(1709208000000)},
};

static void times_may_have_an_offset_and_a_shorter_fraction(void) {
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        const char *text = spellings[i].text;

        CHECK_ROW(text, time_parse(text, strlen(text), &value, &err) == STATUS_OK);
        CHECK_ROW(text, value == spellings[i].ms);
    }
}

static const char *const no_times[] = {"",
                                       "2024",
                                       "2024-01-01",
                                       "2024-01-01T00:00:00",
                                       "2024-01-01 00:00:00Z",
                                       "2024-01-01t00:00:00z",
                                       "2024-01-01T00:00Z",
                                       "2024-1-1T00:00:00Z",
                                       "2024-13-01T00:00:00Z",
                                       "2024-00-01T00:00:00Z",
                                       "2024-01-00T00:00:00Z",
                                       "2024-01-32T00:00:00Z",
                                       "2024-04-31T00:00:00Z",
                                       "2023-02-29T00:00:00Z",
                                       "2100-02-29T00:00:00Z",
                                       "2024-02-30T00:00:00Z",
                                       "2024-01-01T24:00:00Z",
                                       "2024-01-01T00:60:00Z",
                                       "2016-12-31T23:59:60Z",
                                       "2024-01-01T00:00:00.Z",
                                       "2024-01-01T00:00:00.0000Z",
                                       "2024-01-01T00:00:00,5Z",
                                       "2024-01-01T00:00:00+0800",
                                       "2024-01-01T00:00:00+24:00",
                                       "2024-01-01T00:00:00+08:60",
                                       "2024-01-01T00:00:00+8:00",
                                       "2024-01-01T00:00:00Z ",
                                       " 2024-01-01T00:00:00Z",
                                       "2024-01-01T00:00:00ZZ",
                                       "-2024-01-01T00:00:00Z",
                                       "+2024-01-01T00:00:00Z",
                                       "+02024-01-01T00:00:00Z",
                                       "+010889-01-01T00:00:00Z",
                                       "10889-01-01T00:00:00Z",
                                       "+1000000000-01-01T00:00:00Z",
                                       "+584556019-04-03T14:25:51.616Z",
                                       "+999999999-12-31T23:59:59.999Z",
                                       "1969-12-31T23:59:59Z",
                                       "0000-01-01T00:00:00Z",
                                       "1970-01-01T00:00:00+01:00",
                                       "+-01-01T00:00:00Z",
                                       "\xd9\xa2\xd9\xa0-01-01T00:00:00Z"};

static void anything_else_is_no_time(void) {
    for (size_t i = 0; i < sizeof no_times / sizeof no_times[0]; i++) {
        CHECK_ROW(no_times[i],
                  time_parse(no_times[i], strlen(no_times[i]), &value, &err) == STATUS_INVALID);
        CHECK_ROW(no_times[i], strncmp(err.message, "must be a time s", 16) == 0);
    }
    CU_ASSERT_EQUAL(value, 4711);
}

/* Every prefix of a good one, each in a buffer of its own length so that a sanitizer would see a
 * read past the end. */
static void no_part_of_a_time_is_a_time(void) {
    static const char whole[] = "+10889-08-02T05:31:50.655+01:00";

    for (size_t len = 0; len < strlen(whole); len++) {
        char *part = malloc(len ? len : 1);

        memcpy(part, whole, len);
        CU_ASSERT_EQUAL(time_parse(part, len, &value, &err), STATUS_INVALID);
        free(part);
    }
}

static CU_TestInfo rules[] = {
    CHECK_TEST(a_count_is_a_plain_number_in_its_range),
    CHECK_TEST(the_largest_number_is_read_and_the_next_is_not),
    CHECK_TEST(only_len_characters_are_read),
    CHECK_TEST(numbers_round_trip_around_every_power),
    CHECK_TEST(any_number_round_trips),
    CHECK_TEST(an_increment_is_plus_one_in_text),
    CHECK_TEST(a_duration_is_a_number_with_its_unit),
    CHECK_TEST(anything_else_is_no_duration),
    CHECK_TEST(durations_are_written_in_the_largest_exact_unit),
    CHECK_TEST(a_range_keeps_to_one_unit_while_that_is_readable),
    CHECK_TEST(times_are_rfc_3339_in_utc_with_milliseconds),
    CHECK_TEST(every_day_of_400_years_follows_the_day_before),
    CHECK_TEST(any_time_round_trips),
    CHECK_TEST(times_may_have_an_offset_and_a_shorter_fraction),
    CHECK_TEST(anything_else_is_no_time),
    CHECK_TEST(no_part_of_a_time_is_a_time),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"decimal", NULL, NULL, given_a_value_that_must_stay, NULL, rules})
