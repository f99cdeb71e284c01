#include "common/base64.h"

#include "tests/support/check.h"

/* RFC 4648 section 10, and bytes that use the last two characters of the alphabet. */
static const struct {
    const char *row;
    const char *bytes;
    size_t n;
    const char *text;
} known[] = {
    {"nothing", "", 0, ""},
    {"one byte", "f", 1, "Zg=="},
    {"two bytes", "fo", 2, "Zm8="},
    {"three bytes", "foo", 3, "Zm9v"},
    {"four bytes", "foob", 4, "Zm9vYg=="},
    {"five bytes", "fooba", 5, "Zm9vYmE="},
    {"six bytes", "foobar", 6, "Zm9vYmFy"},
    {"high bits", "\xff\xfe\xfb\xef", 4, "//777w=="},
    {"zero bytes", "\0\0", 2, "AAA="},
};

static void known_texts_go_both_ways(void) {
    size_t i;

    for (i = 0; i < sizeof known / sizeof *known; i++) {
        char text[32], bytes[32];
        size_t n = 99;

        base64_encode(known[i].bytes, known[i].n, text);
        CHECK_ROW(known[i].row, strcmp(text, known[i].text) == 0);
        CHECK_ROW(known[i].row, base64_encoded_len(known[i].n) == strlen(text));
        CHECK_ROW(known[i].row, base64_decode(text, strlen(text), bytes, &n) == STATUS_OK);
        CHECK_ROW(known[i].row, n == known[i].n && memcmp(bytes, known[i].bytes, n) == 0);
        CHECK_ROW(known[i].row, n <= base64_decoded_max(strlen(text)));
    }
}

static void every_length_and_byte_comes_back(void) {
    struct check_random random = check_random_seeded(__func__);
    size_t n, i;

    for (n = 0; n < 300; n++) {
        unsigned char bytes[300], back[302];
        char text[401];
        size_t back_n = 0;

        for (i = 0; i < n; i++)
            bytes[i] = (unsigned char)check_random_u64(&random);
        base64_encode(bytes, n, text);
        CU_ASSERT_EQUAL_FATAL(base64_decode(text, strlen(text), back, &back_n), STATUS_OK);
        CU_ASSERT_EQUAL_FATAL(back_n, n);
        CU_ASSERT_EQUAL_FATAL(memcmp(back, bytes, n), 0);
    }
}

static const char *const refused[] = {
    "Z",    "Zg",       "Zg=",  "Zm8",      "=",    "====", "Z===", "Zg==Zg==", "Zm=v",
    "Zm9-", "Zm9_",     "Zm9 ", "Zm9v\nA",  " Zg=", "Zh==", "Zm9=", "Zm8=\n",   "Z\x80==",
    "Zg=A", "Zm9vZg=a", "@m9v", "Zm9vZ===", "[m9v", "`m9v", "{m9v", "Zm9v====",
};

static void what_no_encoder_writes_is_refused(void) {
    size_t i;

    for (i = 0; i < sizeof refused / sizeof *refused; i++) {
        char bytes[32];
        size_t n = 77;

        CHECK_ROW(refused[i],
                  base64_decode(refused[i], strlen(refused[i]), bytes, &n) == STATUS_INVALID);
        CHECK_ROW(refused[i], n == 77);
    }
}

static CU_TestInfo rules[] = {CHECK_TEST(known_texts_go_both_ways),
                              CHECK_TEST(every_length_and_byte_comes_back),
                              CHECK_TEST(what_no_encoder_writes_is_refused), CU_TEST_INFO_NULL};
CHECK_MAIN({"base64", NULL, NULL, NULL, NULL, rules})
