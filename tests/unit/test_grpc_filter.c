#include "common/grpc_filter.h"

#include "tests/support/check.h"

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define HEADERS(stream) "\0\0\3\1\4\0\0\0" stream "abc"
#define DATA(stream) "\0\0\5\0\1\0\0\0" stream "\0\0\0\0\0"
#define RESET(stream) "\0\0\4\3\0\0\0\0" stream "\0\0\0\10"
#define PING                                                                                       \
    "\0\0\10\6\0\0\0\0\0"                                                                          \
    "12345678"
#define WRONG_RESET                                                                                \
    "\0\0\3\3\0\0\0\0\77"                                                                          \
    "xyz"

static char passed[512];
static size_t passed_len;

static bool pass(void *arg, const uint8_t *bytes, size_t len) {
    (void)arg;
    CU_ASSERT_FATAL(len > 0 && passed_len + len <= sizeof passed);
    memcpy(passed + passed_len, bytes, len);
    passed_len += len;
    return true;
}

/* In every two pieces, and byte by byte. */
static void check(const char *in, size_t in_len, const char *out, size_t out_len) {
    for (size_t cut = 0; cut <= in_len + 1; cut++) {
        struct grpc_filter filter;
        const uint8_t *bytes = (const uint8_t *)in;

        grpc_filter_init(&filter);
        passed_len = 0;
        if (cut <= in_len) {
            grpc_filter_take(&filter, bytes, cut, pass, NULL);
            grpc_filter_take(&filter, bytes + cut, in_len - cut, pass, NULL);
        } else {
            for (size_t i = 0; i < in_len; i++)
                grpc_filter_take(&filter, bytes + i, 1, pass, NULL);
        }
        CU_ASSERT_EQUAL(passed_len, out_len);
        CU_ASSERT_EQUAL(memcmp(passed, out, out_len), 0);
    }
}
#define CHECK(in, out) check(in, sizeof(in) - 1, out, sizeof(out) - 1)

static void what_belongs_to_streams_that_began_goes_through(void) {
    CHECK(PREFACE HEADERS("\1") DATA("\1") RESET("\1") PING,
          PREFACE HEADERS("\1") DATA("\1") RESET("\1") PING);
    CHECK(PREFACE HEADERS("\5") RESET("\3") RESET("\5"),
          PREFACE HEADERS("\5") RESET("\3") RESET("\5"));
}

static void resets_of_streams_that_never_began_are_taken_out(void) {
    CHECK(PREFACE RESET("\1"), PREFACE);
    CHECK(PREFACE HEADERS("\1") RESET("\3") DATA("\1") PING, PREFACE HEADERS("\1") DATA("\1") PING);
    CHECK(PREFACE RESET("\1") RESET("\3") HEADERS("\5") RESET("\7") RESET("\5"),
          PREFACE HEADERS("\5") RESET("\5"));
}

static void what_is_wrong_otherwise_is_left_to_nghttp2(void) {
    CHECK(PREFACE RESET("\0") RESET("\2") WRONG_RESET PING,
          PREFACE RESET("\0") RESET("\2") WRONG_RESET PING);
}

static CU_TestInfo rules[] = {CHECK_TEST(what_belongs_to_streams_that_began_goes_through),
                              CHECK_TEST(resets_of_streams_that_never_began_are_taken_out),
                              CHECK_TEST(what_is_wrong_otherwise_is_left_to_nghttp2),
                              CU_TEST_INFO_NULL};
CHECK_MAIN({"the filter of resets", NULL, NULL, NULL, NULL, rules})
