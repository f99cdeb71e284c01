#include "common/crockford.h"

#include "tests/support/check.h"

/* crockford.com's table, as far as 60 bits go. */
static const struct {
    const char *text;
    uint64_t value;
} known[] = {
    {"0", 0},
    {"1", 1},
    {"Z", 31},
    {"10", 32},
    {"11", 33},
    {"ZR", 1016},
    {"ZZ", 1023},
    {"100", 1024},
    {"16J", 1234},
    {"FVCK", 519571},
    {"", 0},
    {"00Z", 31},
    {"91JPRV3F", 0x48656c6c6f}, /* "Hello" */
    {"3ZZZZZZ", 4294967295},
    {"ZZZZZZZZZZZZ", (UINT64_C(1) << 60) - 1},
};

static void known_texts_go_both_ways(void) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i].text);
        char text[16] = "";
        uint64_t value = 99;

        crockford_encode(known[i].value, n, text);
        CHECK_TEXT(text, known[i].text);
        CHECK_ROW(known[i].text, crockford_decode(known[i].text, n, &value) == n);
        CHECK_ROW(known[i].text, value == known[i].value);
    }
}

static void all_64_bits_take_two_calls(void) {
    static const struct {
        const char *text;
        uint64_t value;
    } rows[] = {{"7ZZZZZZZZZZZZ", INT64_MAX}, {"FZZZZZZZZZZZZ", UINT64_MAX}};

    for (size_t i = 0; i < 2; i++) {
        char text[14] = "";
        uint64_t high = 0, low = 0;

        crockford_encode(rows[i].value >> 60, 1, text);
        crockford_encode(rows[i].value, 12, text + 1);
        CHECK_TEXT(text, rows[i].text);
        CU_ASSERT(crockford_decode(text, 1, &high) == 1 &&
                  crockford_decode(text + 1, 12, &low) == 12);
        CU_ASSERT_EQUAL(high << 60 | low, rows[i].value);
    }
}

static void only_the_lowest_bits_asked_for_are_written(void) {
    char text[4] = "---";

    crockford_encode(UINT64_MAX, 2, text);
    CHECK_TEXT(text, "ZZ-");
}

static void each_character_stands_for_what_crockford_says(void) {
    static const char plain[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

    for (int c = -128; c < 256; c++) {
        const char *at = c > 0 && c < 128 ? strchr(plain, c >= 'a' && c <= 'z' ? c - 32 : c) : NULL;
        int expected = at ? (int)(at - plain) : -1;

        if (c == 'i' || c == 'I' || c == 'l' || c == 'L')
            expected = 1;
        if (c == 'o' || c == 'O')
            expected = 0;
        if (crockford_digit((char)c) != expected)
            printf("\n    character %d", c);
        CU_ASSERT_EQUAL(crockford_digit((char)c), expected);
    }
}

static void the_first_character_that_is_none_is_pointed_at(void) {
    uint64_t value;

    CU_ASSERT_EQUAL(crockford_decode("ABU", 3, &value), 2);
    CU_ASSERT_EQUAL(crockford_decode("A\0B", 3, &value), 1);
    CU_ASSERT_EQUAL(crockford_decode("-AB", 3, &value), 0);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(known_texts_go_both_ways),
    CHECK_TEST(all_64_bits_take_two_calls),
    CHECK_TEST(only_the_lowest_bits_asked_for_are_written),
    CHECK_TEST(each_character_stands_for_what_crockford_says),
    CHECK_TEST(the_first_character_that_is_none_is_pointed_at),
    CU_TEST_INFO_NULL,
};
CHECK_MAIN({"crockford", NULL, NULL, NULL, NULL, rules})
