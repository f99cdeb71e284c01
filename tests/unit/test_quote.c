#include "common/quote.h"

#include "tests/support/check.h"

static const struct {
    const char *row, *text;
    size_t len;
    const char *expected;
} rows[] = {
    {"a number as it is", "1025", 4, "1025"},
    {"a flag as it is", "--lease-ttl", 11, "--lease-ttl"},
    {"empty", "", 0, "\"\""},
    {"a blank shows", " 7", 2, "\" 7\""},
    {"a zero byte", "5\0", 2, "\"5\\x00\""},
    {"a line end", "5\n6", 3, "\"5\\x0a6\""},
    {"a quote cannot end it", "a\"b", 3, "\"a\\x22b\""},
    {"nor a backslash confuse it", "a\\b", 3, "\"a\\x5cb\""},
    {"Arabic digits", "\xd9\xa3", 2, "\"\\xd9\\xa3\""},
    {"an escape sequence", "\x1b[31m", 5, "\"\\x1b[31m\""},
};

static void foreign_text_is_shown_on_one_line(void) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char out[QUOTE_SIZE];

        CHECK_ROW(rows[i].row, quote(rows[i].text, rows[i].len, out) == out);
        CHECK_TEXT(out, rows[i].expected);
    }
}

static void any_length_of_any_byte_fits(void) {
    for (int byte = 0; byte < 256; byte++) {
        char text[200], out[QUOTE_SIZE];

        memset(text, byte, sizeof text);
        for (size_t len = 0; len <= sizeof text; len++) {
            quote(text, len, out);
            CU_ASSERT(strlen(out) < QUOTE_SIZE);
        }
        CU_ASSERT_STRING_EQUAL(out + strlen(out) - 4, "...\"");
    }
}

static CU_TestInfo rules[] = {
    CHECK_TEST(foreign_text_is_shown_on_one_line),
    CHECK_TEST(any_length_of_any_byte_fits),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"quote", NULL, NULL, NULL, NULL, rules})
