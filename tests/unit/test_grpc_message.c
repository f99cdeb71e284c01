#include "common/grpc_message.h"

#include "tests/support/check.h"

#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1

static struct grpc_reader reader;

static void given_a_reader_of_messages_up_to_8_bytes(void) {
    grpc_reader_init(&reader, 8);
}

static void then_it_is_freed(void) {
    grpc_reader_free(&reader);
}

static enum grpc_read take(const uint8_t *bytes, size_t len, size_t *left) {
    enum grpc_read result = grpc_reader_take(&reader, &bytes, &len);

    *left = len;
    return result;
}

static void a_message_may_be_cut_anywhere(void) {
    static const char text[] = "\0\0\0\0\3abc";
    size_t left;

    for (size_t cut = 0; cut < sizeof text - 1; cut++) {
        grpc_reader_next(&reader);
        CU_ASSERT_EQUAL(take((const uint8_t *)text, cut, &left), GRPC_READ_MORE);
        CU_ASSERT_EQUAL(left, 0);
        CU_ASSERT_EQUAL(grpc_reader_inside(&reader), cut > 0);
        CU_ASSERT_EQUAL(take((const uint8_t *)text + cut, sizeof text - 1 - cut, &left),
                        GRPC_READ_MESSAGE);
        CU_ASSERT_EQUAL_FATAL(reader.len, 3);
        CU_ASSERT_EQUAL(memcmp(reader.message, "abc", 3), 0);
    }
}

static void messages_may_share_bytes(void) {
    const uint8_t *at = (const uint8_t *)"\0\0\0\0\1x\0\0\0\0\0\0\0\0\0\2yz";
    size_t len = 18;

    CU_ASSERT_EQUAL(grpc_reader_take(&reader, &at, &len), GRPC_READ_MESSAGE);
    CU_ASSERT_EQUAL(reader.len, 1);
    grpc_reader_next(&reader);
    CU_ASSERT_EQUAL(grpc_reader_take(&reader, &at, &len), GRPC_READ_MESSAGE);
    CU_ASSERT_EQUAL(reader.len, 0); /* an empty message is one too */
    CU_ASSERT_EQUAL(grpc_reader_bytes(&reader), 0);
    grpc_reader_next(&reader);
    CU_ASSERT_EQUAL(grpc_reader_take(&reader, &at, &len), GRPC_READ_MESSAGE);
    CU_ASSERT_EQUAL(len, 0);
    CU_ASSERT_EQUAL(grpc_reader_bytes(&reader), 2);
    CU_ASSERT_EQUAL(memcmp(reader.message, "yz", 2), 0);
}

static void the_longest_message_is_taken_and_one_byte_more_is_not(void) {
    size_t left;

    CU_ASSERT_EQUAL(take(BYTES("\0\0\0\0\10abcdefgh"), &left), GRPC_READ_MESSAGE);
    grpc_reader_next(&reader);
    CU_ASSERT_EQUAL(take(BYTES("\0\0\0\0\11"), &left), GRPC_READ_TOO_LARGE);
    CU_ASSERT_EQUAL(reader.len, 9);
    CU_ASSERT_EQUAL(grpc_reader_bytes(&reader), 0);
    grpc_reader_next(&reader);
    CU_ASSERT_EQUAL(take(BYTES("\0\377\377\377\377"), &left), GRPC_READ_TOO_LARGE);
    CU_ASSERT_EQUAL(reader.len, 4294967295u);
}

static void flags_other_than_plain_are_told(void) {
    size_t left;

    CU_ASSERT_EQUAL(take(BYTES("\1\0\0\0\1x"), &left), GRPC_READ_COMPRESSED);
    grpc_reader_next(&reader);
    CU_ASSERT_EQUAL(take(BYTES("\2\0\0\0\1x"), &left), GRPC_READ_FLAG);
}

static void what_is_written_is_read(void) {
    static const size_t lengths[] = {0, 1, 255, 256, 65535, 65536, 4194304, 4294967295u};

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        uint8_t prefix[GRPC_PREFIX_BYTES];
        const uint8_t *at = prefix;
        size_t len = sizeof prefix;

        grpc_reader_free(&reader);
        grpc_reader_init(&reader, 0);
        grpc_prefix_write(prefix, lengths[i]);
        grpc_reader_take(&reader, &at, &len);
        CU_ASSERT_EQUAL(reader.len, lengths[i]);
    }
}

static const struct {
    const char *text;
    uint64_t timeout_ms;
} timeouts[] = {{"1H", 3600000},
                {"99999999H", UINT64_C(359999996400000)},
                {"2M", 120000},
                {"3S", 3000},
                {"0S", 0},
                {"00000001S", 1000},
                {"5m", 5},
                {"1u", 1},
                {"1000u", 1},
                {"1001u", 2},
                {"99999999u", 100000},
                {"1n", 1},
                {"1000000n", 1},
                {"1000001n", 2}};

static void timeouts_are_rounded_up_to_milliseconds(void) {
    for (size_t i = 0; i < sizeof timeouts / sizeof timeouts[0]; i++) {
        uint64_t timeout_ms = 77;

        CHECK_ROW(timeouts[i].text,
                  grpc_timeout_parse(timeouts[i].text, strlen(timeouts[i].text), &timeout_ms));
        CHECK_ROW(timeouts[i].text, timeout_ms == timeouts[i].timeout_ms);
    }
}

static void other_timeouts_are_refused(void) {
    static const char *const wrong[] = {"",    "S",    "1",  "123456789S", "-1S", "+1S",  " 1S",
                                        "1 S", "1.5S", "1s", "1h",         "1x",  "0x1S", "1SS"};

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint64_t timeout_ms = 77;

        CHECK_ROW(wrong[i], !grpc_timeout_parse(wrong[i], strlen(wrong[i]), &timeout_ms));
    }
}

static void content_types(void) {
    static const struct {
        const char *text;
        bool grpc;
    } rows[] = {{"application/grpc", true},
                {"application/grpc+proto", true},
                {"Application/gRPC", true},
                {"application/grpc;charset=utf-8", true},
                {"application/grpc+proto; x=y", true},
                {"application/grpc+json", false},
                {"application/grpc-web", false},
                {"application/grpc-web+proto", false},
                {"application/json", false},
                {"application/grp", false},
                {"", false},
                {"application/grpc+protobuf", false}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK_ROW(rows[i].text,
                  grpc_content_type(rows[i].text, strlen(rows[i].text)) == rows[i].grpc);
}

static void messages_are_percent_encoded(void) {
    static const struct {
        const char *text, *encoded;
    } rows[] = {{"", ""},
                {"count must be 1..10000, got 0", "count must be 1..10000, got 0"},
                {"100%", "100%25"},
                {"a\nb\tc\x7f", "a%0Ab%09c%7F"},
                {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "%C3%A9 %E2%82%AC %F0%9F%98%80"},
                {"\xff\xc3", "%FF%C3"}};
    char out[GRPC_MESSAGE_MAX + 1];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CU_ASSERT_EQUAL(grpc_percent_encode(rows[i].text, out), strlen(rows[i].encoded));
        CHECK_TEXT(out, rows[i].encoded);
    }
}

static void a_long_message_is_cut_between_characters(void) {
    char text[2 * GRPC_MESSAGE_MAX + 1] = "", out[GRPC_MESSAGE_MAX + 1];
    size_t len;

    for (size_t i = 0; i < GRPC_MESSAGE_MAX; i++)
        strcat(text, "\xc3\xa9");
    len = grpc_percent_encode(text, out);
    CU_ASSERT(len <= GRPC_MESSAGE_MAX && len > GRPC_MESSAGE_MAX - 6 && len % 6 == 0);
}

static void codes_have_their_names(void) {
    CU_ASSERT_EQUAL(grpc_code_of("UNAVAILABLE"), 14);
    CU_ASSERT_EQUAL(grpc_code_of("nothing"), GRPC_UNKNOWN);
    for (int code = 0; code < GRPC_CODES; code++)
        CU_ASSERT_EQUAL((int)grpc_code_of(grpc_code_name((enum grpc_code)code)), code);
}

static CU_TestInfo messages[] = {CHECK_TEST(a_message_may_be_cut_anywhere),
                                 CHECK_TEST(messages_may_share_bytes),
                                 CHECK_TEST(the_longest_message_is_taken_and_one_byte_more_is_not),
                                 CHECK_TEST(flags_other_than_plain_are_told),
                                 CHECK_TEST(what_is_written_is_read),
                                 CU_TEST_INFO_NULL};
static CU_TestInfo headers[] = {CHECK_TEST(timeouts_are_rounded_up_to_milliseconds),
                                CHECK_TEST(other_timeouts_are_refused),
                                CHECK_TEST(content_types),
                                CHECK_TEST(messages_are_percent_encoded),
                                CHECK_TEST(a_long_message_is_cut_between_characters),
                                CHECK_TEST(codes_have_their_names),
                                CU_TEST_INFO_NULL};
CHECK_MAIN({"messages", NULL, NULL, given_a_reader_of_messages_up_to_8_bytes, then_it_is_freed,
            messages},
           {"headers", NULL, NULL, NULL, NULL, headers})
