#include "common/http_guard.h"

#include "tests/support/check.h"

/* --- framing --- */

struct header {
    const char *name, *value;
};

static const struct {
    const char *row;
    const char *version;
    struct header headers[4];
    const char *reason; /* NULL: good */
} framings[] = {
    {"no body", "HTTP/1.1", {{"Host", "a"}}, NULL},
    {"a length", "HTTP/1.1", {{"Host", "a"}, {"Content-Length", "4"}}, NULL},
    {"chunked", "HTTP/1.1", {{"Host", "a"}, {"Transfer-Encoding", "chunked"}}, NULL},
    {"1.0 with a length", "HTTP/1.0", {{"content-length", "0"}}, NULL},
    {"both",
     "HTTP/1.1",
     {{"Content-Length", "4"}, {"Transfer-Encoding", "chunked"}},
     "both Content-Length and Transfer-Encoding"},
    {"two lengths",
     "HTTP/1.1",
     {{"Content-Length", "4"}, {"Content-Length", "5"}},
     "more than one Content-Length"},
    {"two equal lengths",
     "HTTP/1.1",
     {{"Content-Length", "4"}, {"content-length", "4"}},
     "more than one Content-Length"},
    {"+4", "HTTP/1.1", {{"Content-Length", "+4"}}, "Content-Length is not a plain number"},
    {"-1", "HTTP/1.1", {{"Content-Length", "-1"}}, "Content-Length is not a plain number"},
    {"0x4", "HTTP/1.1", {{"Content-Length", "0x4"}}, "Content-Length is not a plain number"},
    {"a list", "HTTP/1.1", {{"Content-Length", "4, 4"}}, "Content-Length is not a plain number"},
    {"a blank after",
     "HTTP/1.1",
     {{"Content-Length", "4 "}},
     "Content-Length is not a plain number"},
    {"empty", "HTTP/1.1", {{"Content-Length", ""}}, "Content-Length is empty"},
    {"above 2^64",
     "HTTP/1.1",
     {{"Content-Length", "18446744073709551616"}},
     "Content-Length is too large"},
    {"xchunked",
     "HTTP/1.1",
     {{"Transfer-Encoding", "xchunked"}},
     "Transfer-Encoding is not chunked"},
    {"identity, chunked",
     "HTTP/1.1",
     {{"Transfer-Encoding", "identity, chunked"}},
     "Transfer-Encoding is not chunked"},
    {"chunked and a tab",
     "HTTP/1.1",
     {{"Transfer-Encoding", "chunked\t"}},
     "Transfer-Encoding is not chunked"},
    {"two encodings",
     "HTTP/1.1",
     {{"Transfer-Encoding", "chunked"}, {"Transfer-Encoding", "chunked"}},
     "more than one Transfer-Encoding"},
    {"1.0 and chunked",
     "HTTP/1.0",
     {{"Transfer-Encoding", "chunked"}},
     "Transfer-Encoding needs HTTP/1.1"},
    {"a blank before the colon",
     "HTTP/1.1",
     {{"Transfer-Encoding ", "chunked"}},
     "a header's name is not a token"},
    {"an empty name", "HTTP/1.1", {{"", "x"}}, "a header's name is not a token"},
    {"a CR in a value",
     "HTTP/1.1",
     {{"X", "a\rTransfer-Encoding: chunked"}},
     "a header's value holds CR, LF or NUL"},
    {"a LF in a value", "HTTP/1.1", {{"X", "a\nb"}}, "a header's value holds CR, LF or NUL"},
    {"two hosts", "HTTP/1.1", {{"Host", "a"}, {"host", "a"}}, "more than one Host"},
    {"two tokens",
     "HTTP/1.1",
     {{"Authorization", "Bearer a"}, {"authorization", "Bearer b"}},
     "more than one Authorization"},
};

static void ambiguous_framing_is_refused(void) {
    for (size_t i = 0; i < sizeof framings / sizeof framings[0]; i++) {
        struct http_guard guard = {0};
        const char *reason;

        for (size_t h = 0; h < 4 && framings[i].headers[h].name; h++) {
            const struct header *header = &framings[i].headers[h];

            http_guard_header(&guard, header->name, strlen(header->name), header->value,
                              strlen(header->value));
        }
        reason = http_guard_verdict(&guard, framings[i].version);
        CHECK_ROW(framings[i].row,
                  framings[i].reason ? reason && strcmp(reason, framings[i].reason) == 0 : !reason);
    }
}

static void a_nul_in_a_value_is_refused(void) {
    struct http_guard guard = {0};

    http_guard_header(&guard, "X", 1, "a\0b", 3);
    CU_ASSERT_PTR_NOT_NULL(http_guard_verdict(&guard, "HTTP/1.1"));
}

static void the_body_s_size_is_told(void) {
    struct http_guard guard = {0};

    http_guard_header(&guard, "Content-Length", 14, "18446744073709551615", 20);
    CU_ASSERT_PTR_NULL(http_guard_verdict(&guard, "HTTP/1.1"));
    CU_ASSERT_EQUAL(guard.body_bytes, UINT64_MAX);
}

/* --- targets --- */

static struct http_target target;
static char text[256];

static const char *parse(const char *from) {
    snprintf(text, sizeof text, "%s", from);
    return http_target_parse(text, &target);
}

static const struct {
    const char *target, *path;
    size_t n_args;
    const char *name, *value; /* of the last argument */
    size_t len;
    bool twice;
} good_targets[] = {
    {"/", "/", 0, "", "", 0, false},
    {"/v1/ids", "/v1/ids", 0, "", "", 0, false},
    {"/v1/ids?", "/v1/ids", 0, "", "", 0, false},
    {"/v1/ids?&&", "/v1/ids", 0, "", "", 0, false},
    {"/v1/ids?count=5", "/v1/ids", 1, "count", "5", 1, false},
    {"/v1/ids?count", "/v1/ids", 1, "count", "", 0, false},
    {"/v1/ids?count=", "/v1/ids", 1, "count", "", 0, false},
    {"/v1/ids?=5", "/v1/ids", 1, "", "5", 1, false},
    {"/v1/ids?a=1&b=2=3", "/v1/ids", 2, "b", "2=3", 3, false},
    {"/v1/ids?a=1&a=1", "/v1/ids", 2, "a", "1", 1, true},
    {"/v1/ids?a=1&%61=2", "/v1/ids", 2, "a", "2", 1, true},
    {"/v1/ids?count=+5", "/v1/ids", 1, "count", " 5", 2, false},
    {"/v1/ids?count=%2B5", "/v1/ids", 1, "count", "+5", 2, false},
    {"/v1/ids?count=5%00", "/v1/ids", 1, "count", "5", 2, false},
    {"/v1/ids?x=a%26b", "/v1/ids", 1, "x", "a&b", 3, false},
    {"/a%20b%2Fc", "/a b/c", 0, "", "", 0, false},
    {"/a+b", "/a+b", 0, "", "", 0, false},
    {"http://host:80/livez?x=1", "/livez", 1, "x", "1", 1, false},
    {"https://host/livez", "/livez", 0, "", "", 0, false},
    {"http://host", "http://host", 0, "", "", 0, false},
    {"*", "*", 0, "", "", 0, false},
};

static void a_target_comes_apart_into_path_and_arguments(void) {
    for (size_t i = 0; i < sizeof good_targets / sizeof good_targets[0]; i++) {
        const char *row = good_targets[i].target;
        const struct http_arg *last;

        CHECK_ROW(row, !parse(row));
        CHECK_ROW(row, strcmp(target.path, good_targets[i].path) == 0);
        CHECK_ROW(row, target.n_args == good_targets[i].n_args);
        if (target.n_args == 0)
            continue;
        last = &target.args[target.n_args - 1];
        CHECK_ROW(row, strcmp(last->name, good_targets[i].name) == 0);
        CHECK_ROW(row, last->value.len == good_targets[i].len &&
                           strcmp(last->value.text, good_targets[i].value) == 0);
        CHECK_ROW(row, last->value.twice == good_targets[i].twice);
        CHECK_ROW(row, target.args[0].value.twice == good_targets[i].twice);
    }
}

static void a_malformed_target_is_refused(void) {
    static const char *const rows[] = {
        "/%",
        "/%4",
        "/%4g",
        "/%zz",
        "/a%00b",
        "/v1/ids?a=%",
        "/?a=%4",
        "/?%00=1",
        "/?a=%g0",
        "/v1\x01/ids",
        "/v1/ids?a=\x7f",
        "/a b",
        "/?a=1\tb",
        "/?1=1&2=1&3=1&4=1&5=1&6=1&7=1&8=1&9=1&10=1&11=1&12=1&13=1&14=1&15=1&16=1&17=1",
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK_ROW(rows[i], parse(rows[i]) != NULL);
}

static CU_TestInfo framing_rules[] = {
    CHECK_TEST(ambiguous_framing_is_refused),
    CHECK_TEST(a_nul_in_a_value_is_refused),
    CHECK_TEST(the_body_s_size_is_told),
    CU_TEST_INFO_NULL,
};
static CU_TestInfo target_rules[] = {
    CHECK_TEST(a_target_comes_apart_into_path_and_arguments),
    CHECK_TEST(a_malformed_target_is_refused),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"framing", NULL, NULL, NULL, NULL, framing_rules},
           {"targets", NULL, NULL, NULL, NULL, target_rules})
