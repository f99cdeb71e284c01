/* What chronyd says of its clock, read strictly: it comes from another process. */
#include "common/chrony.h"
#include "tests/support/check.h"

#define SEQUENCE 0xdeadbeef
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Recorded from chronyd 4.3 that follows another one; `chronyc -c tracking` said at that time:
 * 7F000001,127.0.0.1,4,1796172688.321969714,-0.000003042,0.000000073,0.000001716,0.079,0.008,0.121,
 * 0.000009910,0.000001009,1.0,Normal */
static const char following[] =
    "06020000002100050000000000000000deadbeef00000000000000007f0000017f0000010000000000000000000000"
    "000001000000040000000000006b0f6b901330de32df3494cbd49d5f5cdce64bc9fca28acff6895e51fcf88febe2a6"
    "4320dae6f42c04849344";
/* The same with `local stratum 3` and no source. */
static const char alone[] =
    "06020000002100050000000000000000deadbeef00000000000000007f7f0101000000000000000000000000000000"
    "000000000000030000000000006b0f6b7722c61e990000000000000000000000000000000000000000000000000000"
    "00000000000000000000";
/* A question that was too short. */
static const char refusal[] = "06020000002100010013000000000000deadbeef0000000000000000";

static unsigned char bytes[CHRONY_BYTES + 1];
static size_t len;
static struct chrony_tracking tracking;
static struct error err;

static void given(const char *hex) {
    len = strlen(hex) / 2;
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)strtoul((char[]){hex[2 * i], hex[2 * i + 1], '\0'}, NULL, 16);
    tracking = (struct chrony_tracking){.max_error_ns = -42};
}

static enum status parse(void) {
    return chrony_parse(bytes, len, SEQUENCE, &tracking, &err);
}

static void a_recorded_answer_gives_the_bound_of_the_manual(void) {
    given(following);
    CU_ASSERT_EQUAL_FATAL(parse(), STATUS_OK);
    CU_ASSERT_TRUE(tracking.synchronized);
    CU_ASSERT_FALSE(tracking.local);
    /* 3.0312 us + 0.8604 us + 9.91 us / 2 */
    CU_ASSERT_EQUAL(tracking.max_error_ns, 8847);
    CU_ASSERT_EQUAL(tracking.frequency_ppb, 79);
}

static void following_nobody_shows(void) {
    given(alone);
    CU_ASSERT_EQUAL_FATAL(parse(), STATUS_OK);
    CU_ASSERT_TRUE(tracking.local);
    CU_ASSERT_EQUAL(tracking.max_error_ns, 0);
    given(following);
    bytes[55] = 3;
    CU_ASSERT_EQUAL_FATAL(parse(), STATUS_OK);
    CU_ASSERT_FALSE(tracking.synchronized);
}

static const struct {
    const char *row;
    size_t at;
    unsigned char value;
} senseless[] = {
    {"another version", 0, 5},
    {"a question", 1, 1},
    {"of another command", 5, 34},
    {"of another kind", 7, 6},
    {"a refusal of full length", 9, 19},
    {"to another question", 19, 0xee},
    {"a negative delay", 92, 0xe3}, /* the sign bit of the coefficient */
    {"a negative dispersion", 96, 0xdb},
    {"a dispersion of ages", 96, 0x7c},
    {"a correction of ages", 68, 0x7c},
    {"a correction of ages the other way", 68, 0x7d},
    {"a frequency that cannot be", 80, 0x7c},
};

static void what_makes_no_sense_is_refused_with_a_reason(void) {
    for (size_t i = 0; i < COUNT(senseless); i++) {
        given(following);
        bytes[senseless[i].at] = senseless[i].value;
        err.message[0] = '\0';
        CHECK_ROW(senseless[i].row, parse() == STATUS_PROTOCOL);
        CHECK_ROW(senseless[i].row, err.message[0] && tracking.max_error_ns == -42);
    }
    given(refusal);
    CU_ASSERT_EQUAL(parse(), STATUS_PROTOCOL);
    CHECK_TEXT(err.message, "chronyd: refused with status 19");
    for (size_t cut = 0; cut < CHRONY_BYTES; cut++) {
        given(following);
        len = cut;
        CU_ASSERT_EQUAL(parse(), STATUS_PROTOCOL);
    }
}

static void a_longer_answer_of_a_later_version_is_read(void) {
    given(following);
    len = CHRONY_BYTES + 1;
    CU_ASSERT_EQUAL(parse(), STATUS_OK);
}

static void the_question_is_as_long_as_the_answer(void) {
    unsigned char question[CHRONY_BYTES];

    chrony_question(SEQUENCE, question);
    CU_ASSERT(memcmp(question, "\x06\x01\0\0\0\x21\0\0\xde\xad\xbe\xef\0\0\0\0", 16) == 0);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(a_recorded_answer_gives_the_bound_of_the_manual),
    CHECK_TEST(following_nobody_shows),
    CHECK_TEST(what_makes_no_sense_is_refused_with_a_reason),
    CHECK_TEST(a_longer_answer_of_a_later_version_is_read),
    CHECK_TEST(the_question_is_as_long_as_the_answer),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"chronyd's answers", NULL, NULL, NULL, NULL, rules})
