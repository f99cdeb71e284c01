#include "common/tokens.h"
#include "tests/support/check.h"

#define A "0123456789abcdef"
#define B "second-token/of=some+length~"
#define X256 A A A A A A A A A A A A A A A A

static struct tokens tokens;
static char first[TOKEN_MAX_CHARS + 1];
static struct error err;

static enum status parse(const char *text) {
    return tokens_parse(text, strlen(text), &tokens, first, &err);
}

static const struct {
    const char *row, *text;
    size_t n;
    const char *first;
} good[] = {
    {"one", A "\n", 1, A},
    {"without an end of line", A, 1, A},
    {"two", A "\n" B "\n", 2, A},
    {"comments and blank lines", "# clients\n\n  \n# old\n" B "\n#" A "\n", 1, B},
    {"as some editors end lines", A "\r\n" B "\r\n", 2, A},
    {"blanks around", " \t" A " \n", 1, A},
    {"256 characters", X256 "\n", 1, X256},
    {"one twice", A "\n" A "\n", 2, A},
    {"punctuation", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", 1, "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"},
};

static void each_line_is_a_token(void) {
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        CHECK_ROW(good[i].row, parse(good[i].text) == STATUS_OK);
        CHECK_ROW(good[i].row, tokens.n == good[i].n);
        CHECK_TEXT(first, good[i].first);
    }
}

static const struct {
    const char *row, *text, *message;
} bad[] = {
    {"15 characters", "# short\n0123456789abcde\n",
     "line 2: a token is 16..256 characters, got 15"},
    {"257 characters", X256 "x\n", "line 1: a token is 16..256 characters, got 257"},
    {"a blank within", A " " A, "line 1: a token is of printable ASCII without blanks"},
    {"a control", A "\n" A "\x01", "line 2: a token is of printable ASCII without blanks"},
    {"DEL", A "\x7f", "line 1: a token is of printable ASCII without blanks"},
    {"UTF-8", A "\xc3\xa9", "line 1: a token is of printable ASCII without blanks"},
    {"nothing", "", "it holds no token"},
    {"comments only", "# " A "\n\n", "it holds no token"},
};

static void a_bad_line_is_named_and_its_text_is_not(void) {
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_ROW(bad[i].row, parse(bad[i].text) == STATUS_INVALID);
        CHECK_TEXT(err.message, bad[i].message);
    }
    CU_ASSERT_EQUAL(tokens_parse(A "\0", 17, &tokens, first, &err), STATUS_INVALID);
}

static void a_hundred_fit_and_one_more_does_not(void) {
    char text[101 * 32], *at = text;

    for (int i = 0; i < 101; i++)
        at += sprintf(at, "%s-%d\n", A, i);
    CU_ASSERT_EQUAL(parse(text), STATUS_INVALID);
    CHECK_TEXT(err.message, "line 101: more than 100 tokens");
    *strstr(text, A "-100") = '\0';
    CU_ASSERT_EQUAL(parse(text), STATUS_OK);
    CU_ASSERT(tokens_accept(&tokens, "Bearer " A "-99"));
    CU_ASSERT_FALSE(tokens_accept(&tokens, "Bearer " A "-100"));
}

static const struct {
    const char *row, *authorization;
    bool accepted;
} headers[] = {
    {"none", NULL, false},
    {"empty", "", false},
    {"the first", "Bearer " A, true},
    {"the second", "Bearer " B, true},
    {"lower case", "bearer " A, true},
    {"capitals", "BEARER " A, true},
    {"two blanks", "Bearer  " A, true},
    {"a tabulator", "Bearer\t" A, false},
    {"no blank", "Bearer" A, false},
    {"no scheme", A, false},
    {"another scheme", "Basic " A, false},
    {"nothing after it", "Bearer ", false},
    {"one character less", "Bearer 0123456789abcde", false},
    {"one more", "Bearer " A "f", false},
    {"another case", "Bearer 0123456789ABCDEF", false},
    {"something after it", "Bearer " A " x", false},
    {"both", "Bearer " A ", Bearer " B, false},
    {"257 characters", "Bearer " X256 "f", false},
};

static void only_a_listed_token_is_accepted(void) {
    CU_ASSERT_EQUAL_FATAL(parse(A "\n" B "\n"), STATUS_OK);
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        CHECK_ROW(headers[i].row,
                  tokens_accept(&tokens, headers[i].authorization) == headers[i].accepted);
}

static void a_token_of_full_length_is_accepted(void) {
    CU_ASSERT_EQUAL_FATAL(parse(X256), STATUS_OK);
    CU_ASSERT(tokens_accept(&tokens, "Bearer " X256));
}

static void tokens_in_another_order_are_others(void) {
    struct tokens other;

    CU_ASSERT_EQUAL_FATAL(parse(A "\n" B "\n"), STATUS_OK);
    other = tokens;
    CU_ASSERT(tokens_equal(&tokens, &other));
    CU_ASSERT_EQUAL_FATAL(parse(B "\n" A "\n"), STATUS_OK);
    CU_ASSERT_FALSE(tokens_equal(&tokens, &other));
    CU_ASSERT_EQUAL_FATAL(parse(A "\n"), STATUS_OK);
    CU_ASSERT_FALSE(tokens_equal(&tokens, &other));
}

static CU_TestInfo rules[] = {
    CHECK_TEST(each_line_is_a_token),
    CHECK_TEST(a_bad_line_is_named_and_its_text_is_not),
    CHECK_TEST(a_hundred_fit_and_one_more_does_not),
    CHECK_TEST(only_a_listed_token_is_accepted),
    CHECK_TEST(a_token_of_full_length_is_accepted),
    CHECK_TEST(tokens_in_another_order_are_others),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"tokens", NULL, NULL, NULL, NULL, rules})
