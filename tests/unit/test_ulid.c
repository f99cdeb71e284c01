#include "common/ulid.h"

#include "common/uuid.h"
#include "tests/support/check.h"

#define NOW_MS UINT64_C(1508808576371) /* the specification's example */

static struct ulid gen;
static struct check_random chance;

static void given_a_fresh_generator(void) {
    gen = (struct ulid){0};
}

static struct id128 next_at(uint64_t now_ms) {
    unsigned char random[10];
    struct id128 id = {{0}};

    for (size_t i = 0; i < sizeof random; i++)
        random[i] = (unsigned char)(check_random_u64(&chance) >> 56);
    CU_ASSERT_EQUAL_FATAL(ulid_next(&gen, now_ms, random, &id), STATUS_OK);
    return id;
}

static struct id128 parsed(const char *text) {
    struct id128 id = {{0}};
    struct error err;

    CU_ASSERT_EQUAL_FATAL(ulid_parse(text, strlen(text), &id, &err), STATUS_OK);
    return id;
}

static void check_next(uint64_t now_ms, const unsigned char *random, const char *expected) {
    char text[ULID_TEXT_LEN + 1];
    struct id128 id;

    CU_ASSERT_EQUAL_FATAL(ulid_next(&gen, now_ms, random, &id), STATUS_OK);
    ulid_format(&id, text);
    CHECK_TEXT(text, expected);
}

static void within_a_millisecond_the_random_part_goes_up_by_one(void) {
    /* The specification's example, with a carry at the end. */
    struct id128 first = parsed("01BX5ZZKBKACTAV9WEVGEMMVRZ");

    check_next(NOW_MS, first.bytes + 6, "01BX5ZZKBKACTAV9WEVGEMMVRZ");
    check_next(NOW_MS, first.bytes + 6, "01BX5ZZKBKACTAV9WEVGEMMVS0");
    check_next(NOW_MS, first.bytes + 6, "01BX5ZZKBKACTAV9WEVGEMMVS1");
}

static void a_spent_random_part_waits_for_the_next_millisecond(void) {
    struct id128 first = parsed("01BX5ZZKBKZZZZZZZZZZZZZZZX"), id = {{42}};

    check_next(NOW_MS, first.bytes + 6, "01BX5ZZKBKZZZZZZZZZZZZZZZX");
    check_next(NOW_MS, first.bytes + 6, "01BX5ZZKBKZZZZZZZZZZZZZZZY");
    check_next(NOW_MS, first.bytes + 6, "01BX5ZZKBKZZZZZZZZZZZZZZZZ");
    CU_ASSERT_EQUAL(ulid_next(&gen, NOW_MS, first.bytes + 6, &id), STATUS_BUSY);
    CU_ASSERT_EQUAL(id.bytes[0], 42);
    check_next(NOW_MS + 1, first.bytes + 6, "01BX5ZZKBMZZZZZZZZZZZZZZZX");
}

static void a_spent_random_part_goes_ahead_of_a_clock_that_is_behind(void) {
    struct id128 first = parsed("01BX5ZZKBKZZZZZZZZZZZZZZZZ");

    check_next(NOW_MS, first.bytes + 6, "01BX5ZZKBKZZZZZZZZZZZZZZZZ");
    check_next(NOW_MS - 3600000, first.bytes + 6, "01BX5ZZKBMZZZZZZZZZZZZZZZZ");
}

static void each_is_above_the_one_before_whatever_the_clock_does(void) {
    static const int64_t steps[] = {0, 0, 1, -1, -1000, 5, -3600000, 86400000, 1};
    int64_t now_ms = (int64_t)NOW_MS;
    struct id128 last;

    chance = check_random_seeded(__func__);
    last = next_at(NOW_MS);
    for (int i = 0; i < 300000; i++) {
        struct id128 id;

        if (i % 50 == 0)
            now_ms += steps[check_random_below(&chance, sizeof steps / sizeof *steps)];
        id = next_at((uint64_t)now_ms);
        CU_ASSERT_FATAL(memcmp(id.bytes, last.bytes, sizeof id.bytes) > 0);
        last = id;
    }
}

static void a_time_that_48_bits_do_not_hold_is_refused(void) {
    static const unsigned char random[10] = {0xff, 0xff, 0xff, 0xff, 0xff,
                                             0xff, 0xff, 0xff, 0xff, 0xff};
    struct id128 id;

    CU_ASSERT_EQUAL(ulid_next(&gen, ID128_TIME_MAX_MS + 1, random, &id), STATUS_CLOCK_RANGE);
    check_next(ID128_TIME_MAX_MS, random, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
    CU_ASSERT_EQUAL(ulid_next(&gen, NOW_MS, random, &id), STATUS_CLOCK_RANGE);
}

static const struct {
    const char *text;
    uint64_t ms;
    const char *as_uuid, *canonical;
} known[] = {
    {"01ARZ3NDEKTSV4RRFFQ69G5FAV", 1469922850259, "01563e3a-b5d3-d676-4c61-efb99302bd5b",
     "01ARZ3NDEKTSV4RRFFQ69G5FAV"},
    {"01AN4Z07BY79KA1307SR9X4MV3", 1465824320894, "015549f0-1d7e-3a66-a08c-07ce13d25363",
     "01AN4Z07BY79KA1307SR9X4MV3"},
    {"01BX5ZZKBKACTAV9WEVGEMMVRZ", 1508808576371, "015f4bff-cd73-5334-ada7-8edc1d4a6f1f",
     "01BX5ZZKBKACTAV9WEVGEMMVRZ"},
    {"01111111111111111111111111", 1134979744801, NULL, "01111111111111111111111111"},
    {"00000000000000000000000000", 0, "00000000-0000-0000-0000-000000000000",
     "00000000000000000000000000"},
    {"7ZZZZZZZZZZZZZZZZZZZZZZZZZ", 281474976710655, "ffffffff-ffff-ffff-ffff-ffffffffffff",
     "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"},
    {"01FWHE4YDGFK1SHH6W1G60EECF", 1645557742000, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
     "01FWHE4YDGFK1SHH6W1G60EECF"},
    {"01arz3ndektsv4rrffq69g5fav", 1469922850259, NULL, "01ARZ3NDEKTSV4RRFFQ69G5FAV"},
    {"oLarZ3ndEktsv4rrffq69g5fAv", 1469922850259, NULL, "01ARZ3NDEKTSV4RRFFQ69G5FAV"},
    {"0iARZ3NDEKTSV4RRFFQ69G5FAV", 1469922850259, NULL, "01ARZ3NDEKTSV4RRFFQ69G5FAV"},
};

static void known_texts_are_read_and_written_canonically(void) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct id128 id = parsed(known[i].text);
        char text[UUID_TEXT_LEN + 1];

        CHECK_ROW(known[i].text, id128_time_ms(&id) == known[i].ms);
        ulid_format(&id, text);
        CHECK_TEXT(text, known[i].canonical);
        if (known[i].as_uuid) {
            uuid_format(&id, text);
            CHECK_TEXT(text, known[i].as_uuid);
        }
    }
}

static void the_time_is_in_the_first_ten_characters(void) {
    static const struct {
        uint64_t ms;
        const char *text;
    } rows[] = {{0, "0000000000"},
                {1704067200000, "01HK153X00"},
                {1469918176385, "01ARYZ6S41"},
                {ID128_TIME_MAX_MS, "7ZZZZZZZZZ"}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[ULID_TEXT_LEN + 1];
        struct id128 id = {{0}};

        id128_set_time_ms(&id, rows[i].ms);
        ulid_format(&id, text);
        text[10] = '\0';
        CHECK_TEXT(text, rows[i].text);
    }
}

static const char *const refused[] = {
    "",
    "01ARZ3NDEKTSV4RRFFQ69G5FA",
    "01ARZ3NDEKTSV4RRFFQ69G5FAVA",
    "01ARZ3NDEKTSV4RRFFQ69G5FAU",
    "01ARZ3NDEKTSV4RRFFQ69G5FA\n",
    "{1ARZ3NDEKTSV4RRFFQ69G5FA}",
    ",,,,,,,,,,,,,,,,,,,,,,,,,,",
    "01ARZ3NDEK-SV4RRFFQ69G5FAV",
    "\xef\xbc\x90\xef\xbc\x91RZ3NDEKTSV4RRFFQ69G5",
    "\xf0\x9f\x98\x80ZZZZZZZZZZZZZZZZZZZZZZ",
    "80000000000000000000000000",
    "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
    "G0000000000000000000000000",
    "R0000000000000000000000000",
    "ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
    "9AAAAAAAAAAAAAAAAAAAAAAAAA",
};

static void everything_else_is_refused(void) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct id128 id = {{42}};
        struct error err;

        CHECK_ROW(refused[i],
                  ulid_parse(refused[i], strlen(refused[i]), &id, &err) == STATUS_INVALID);
        CHECK_ROW(refused[i], id.bytes[0] == 42);
        CHECK_ROW(refused[i], strstr(err.message, "must be a ULID") != NULL);
    }
}

static void a_nul_within_is_refused(void) {
    struct id128 id;
    struct error err;

    CU_ASSERT_EQUAL(ulid_parse("01ARZ3NDEK\0SV4RRFFQ69G5FAV", 26, &id, &err), STATUS_INVALID);
}

static CU_TestInfo making[] = {
    CHECK_TEST(within_a_millisecond_the_random_part_goes_up_by_one),
    CHECK_TEST(a_spent_random_part_waits_for_the_next_millisecond),
    CHECK_TEST(a_spent_random_part_goes_ahead_of_a_clock_that_is_behind),
    CHECK_TEST(each_is_above_the_one_before_whatever_the_clock_does),
    CHECK_TEST(a_time_that_48_bits_do_not_hold_is_refused),
    CU_TEST_INFO_NULL,
};
static CU_TestInfo text[] = {
    CHECK_TEST(known_texts_are_read_and_written_canonically),
    CHECK_TEST(the_time_is_in_the_first_ten_characters),
    CHECK_TEST(everything_else_is_refused),
    CHECK_TEST(a_nul_within_is_refused),
    CU_TEST_INFO_NULL,
};
CHECK_MAIN({"making ULIDs", NULL, NULL, given_a_fresh_generator, NULL, making},
           {"reading ULIDs", NULL, NULL, NULL, NULL, text})
