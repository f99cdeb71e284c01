#include "common/status.h"

#include "tests/support/check.h"

static struct error err;

static void given_no_error(void) {
    memset(&err, 0x55, sizeof err);
}

static void an_error_carries_status_and_message(void) {
    CU_ASSERT_EQUAL(error_set(&err, STATUS_SYSTEM, "claim machine %d", 7), STATUS_SYSTEM);
    CU_ASSERT_EQUAL(err.status, STATUS_SYSTEM);
    CHECK_TEXT(err.message, "claim machine 7");
}

static void context_comes_before_what_was_said(void) {
    error_set(&err, STATUS_UNAVAILABLE, "connection refused");
    CU_ASSERT_EQUAL(error_context(&err, "10.0.0.5:%d", 2379), STATUS_UNAVAILABLE);
    CU_ASSERT_EQUAL(error_context(&err, "claim machine %d", 7), STATUS_UNAVAILABLE);
    CHECK_TEXT(err.message, "claim machine 7: 10.0.0.5:2379: connection refused");
}

static void a_message_that_just_fits_is_not_cut(void) {
    char text[sizeof err.message];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    error_set(&err, STATUS_INVALID, "%s", text);
    CHECK_TEXT(err.message, text);
}

static void a_longer_message_ends_in_dots(void) {
    char text[sizeof err.message + 1];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    error_set(&err, STATUS_INVALID, "%s", text);
    CU_ASSERT_EQUAL(strlen(err.message), sizeof err.message - 1);
    CU_ASSERT_STRING_EQUAL(err.message + strlen(err.message) - 4, "x...");
}

/* Every way in which a two-byte character can lie across the end. */
static void a_message_is_cut_between_characters(void) {
    for (size_t shift = 0; shift < 4; shift++) {
        char text[400] = "";
        size_t len;

        memset(text, 'x', shift);
        for (len = shift; len + 2 < sizeof text; len += 2)
            memcpy(text + len, "\xc3\xa9", 3);
        error_set(&err, STATUS_INVALID, "%s", text);
        len = strlen(err.message);
        CU_ASSERT_STRING_EQUAL(err.message + len - 3, "...");
        CU_ASSERT_EQUAL((len - 3 - shift) % 2, 0);
    }
}

static void context_cuts_the_end_and_keeps_its_own_words(void) {
    char text[sizeof err.message];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    error_set(&err, STATUS_INVALID, "%s", text);
    error_context(&err, "machine 7");
    CU_ASSERT_EQUAL(strncmp(err.message, "machine 7: xxx", 14), 0);
    CU_ASSERT_STRING_EQUAL(err.message + strlen(err.message) - 4, "x...");
    error_context(&err, "%s", text);
    CU_ASSERT_STRING_EQUAL(err.message + strlen(err.message) - 4, "x...");
}

static void every_status_has_a_name(void) {
    for (int status = STATUS_OK; status <= STATUS_BUSY; status++) {
        CU_ASSERT_STRING_NOT_EQUAL(status_name((enum status)status), "?");
        for (int other = STATUS_OK; other < status; other++)
            CU_ASSERT_STRING_NOT_EQUAL(status_name((enum status)status),
                                       status_name((enum status)other));
    }
}

static CU_TestInfo rules[] = {
    CHECK_TEST(an_error_carries_status_and_message),
    CHECK_TEST(context_comes_before_what_was_said),
    CHECK_TEST(a_message_that_just_fits_is_not_cut),
    CHECK_TEST(a_longer_message_ends_in_dots),
    CHECK_TEST(a_message_is_cut_between_characters),
    CHECK_TEST(context_cuts_the_end_and_keeps_its_own_words),
    CHECK_TEST(every_status_has_a_name),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"status", NULL, NULL, given_no_error, NULL, rules})
