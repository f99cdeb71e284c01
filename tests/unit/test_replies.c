/* What workers answer, read strictly: it comes from the network. */
#include "common/replies.h"
#include "tests/support/check.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
    const char *row, *text;
} senseless_clocks[] = {
    {"empty", ""},
    {"no object", "[]"},
    {"a field is missing", "{\"receive_ns\":\"1\",\"transmit_ns\":\"2\",\"boot_ns\":\"3\","
                           "\"synchronized\":true,\"source\":\"kernel\"}"},
    {"a number that should be a string",
     "{\"receive_ns\":1,\"transmit_ns\":\"2\",\"boot_ns\":\"3\",\"max_error_ns\":\"4\","
     "\"synchronized\":true}"},
    {"negative", "{\"receive_ns\":\"-1\",\"transmit_ns\":\"2\",\"boot_ns\":\"3\","
                 "\"max_error_ns\":\"4\",\"synchronized\":true}"},
    {"too wide", "{\"receive_ns\":\"9223372036854775808\",\"transmit_ns\":\"2\",\"boot_ns\":\"3\","
                 "\"max_error_ns\":\"4\",\"synchronized\":true}"},
    {"a flag that is none", "{\"receive_ns\":\"1\",\"transmit_ns\":\"2\",\"boot_ns\":\"3\","
                            "\"max_error_ns\":\"4\",\"synchronized\":\"yes\"}"},
    {"cut", "{\"receive_ns\":\"1\",\"transmit"},
    {"given twice", "{\"receive_ns\":\"1\",\"receive_ns\":\"1\",\"transmit_ns\":\"2\","
                    "\"boot_ns\":\"3\",\"max_error_ns\":\"4\",\"synchronized\":true}"},
    {"a rate beyond any clock's",
     "{\"receive_ns\":\"1\",\"transmit_ns\":\"2\",\"boot_ns\":\"3\",\"max_error_ns\":\"4\","
     "\"synchronized\":true,\"frequency_ppb\":1000000002}"},
};

static void a_clock_is_read_exactly(void) {
    const char *text = "{\"receive_ns\":\"1764547200123456789\",\"transmit_ns\":"
                       "\"1764547200123999999\",\"boot_ns\":\"5\",\"max_error_ns\":\"16000000000\","
                       "\"synchronized\":false,\"source\":\"kernel\",\"later\":[]}";
    struct clock_reply reply;
    struct error err;

    CU_ASSERT_EQUAL_FATAL(clock_reply_parse(text, strlen(text), &reply, &err), STATUS_OK);
    CU_ASSERT_EQUAL(reply.receive_ns, 1764547200123456789);
    CU_ASSERT_EQUAL(reply.transmit_ns, 1764547200123999999);
    CU_ASSERT_EQUAL(reply.max_error_ns, 16000000000);
    CU_ASSERT_TRUE(reply.knows_error);
    CU_ASSERT_FALSE(reply.synchronized);
    CU_ASSERT_FALSE(reply.wants_confirmation);
}

static void an_unknown_error_is_no_number(void) {
    const char *text = "{\"receive_ns\":\"1\",\"transmit_ns\":\"2\",\"boot_ns\":\"3\","
                       "\"max_error_ns\":null,\"synchronized\":true,\"wants_confirmation\":true}";
    struct clock_reply reply;
    struct error err;

    CU_ASSERT_EQUAL_FATAL(clock_reply_parse(text, strlen(text), &reply, &err), STATUS_OK);
    CU_ASSERT_FALSE(reply.knows_error);
    CU_ASSERT_EQUAL(reply.max_error_ns, INT64_MAX);
    CU_ASSERT_TRUE(reply.wants_confirmation);
}

static const struct {
    const char *row, *field;
    int64_t frequency_ppb;
} frequencies[] = {
    {"as told", ",\"frequency_ppb\":-79", -79},
    {"none at all", ",\"frequency_ppb\":0", 0},
    {"not known: whatever a kernel may do", ",\"frequency_ppb\":null", 500000},
    {"not said", "", 500000},
};

static void an_unknown_correction_of_the_rate_is_not_zero(void) {
    for (size_t i = 0; i < COUNT(frequencies); i++) {
        struct clock_reply reply;
        struct error err;
        char text[256];

        snprintf(text, sizeof text,
                 "{\"receive_ns\":\"1\",\"transmit_ns\":\"2\",\"boot_ns\":\"3\","
                 "\"max_error_ns\":\"4\",\"synchronized\":true%s}",
                 frequencies[i].field);
        CHECK_ROW(frequencies[i].row,
                  clock_reply_parse(text, strlen(text), &reply, &err) == STATUS_OK &&
                      reply.claim.frequency_ppb == frequencies[i].frequency_ppb);
    }
}

static void a_clock_that_makes_no_sense_is_refused_with_a_reason(void) {
    for (size_t i = 0; i < COUNT(senseless_clocks); i++) {
        struct clock_reply reply = {.receive_ns = 42};
        struct error err = {.message = ""};
        const char *text = senseless_clocks[i].text;

        CHECK_ROW(senseless_clocks[i].row,
                  clock_reply_parse(text, strlen(text), &reply, &err) == STATUS_PROTOCOL);
        CHECK_ROW(senseless_clocks[i].row, reply.receive_ns == 42 && err.message[0] != '\0');
    }
}

static char seen[256];
static void note(void *arg, const char *id) {
    (void)arg;
    strcat(seen, id);
    strcat(seen, ";");
}

static enum status read_ids(const char *text) {
    struct error err;

    seen[0] = '\0';
    return ids_reply_parse(text, strlen(text), note, NULL, &err);
}

static void ids_are_handed_out_in_order_as_they_were_sent(void) {
    CU_ASSERT_EQUAL(read_ids("{\"kind\":\"snowflake\",\"count\":2,\"ids\":[\"12\",\"7\"]}"),
                    STATUS_OK);
    CHECK_TEXT(seen, "12;7;");
}

static void of_ids_that_cannot_all_be_read_none_is_shown(void) {
    CU_ASSERT_EQUAL(read_ids("{\"ids\":[\"12\",7]}"), STATUS_PROTOCOL);
    CHECK_TEXT(seen, "");
    CU_ASSERT_EQUAL(read_ids("{\"ids\":[\"12\",\"\"]}"), STATUS_PROTOCOL);
    CHECK_TEXT(seen, "");
    CU_ASSERT_EQUAL(read_ids("{\"ids\":[\"12\",\"a\\u001bb\"]}"), STATUS_PROTOCOL);
    CHECK_TEXT(seen, "");
    CU_ASSERT_EQUAL(read_ids("{\"count\":1}"), STATUS_PROTOCOL);
    CU_ASSERT_EQUAL(read_ids("12\n"), STATUS_PROTOCOL);
}

#define CLAIM "c1a1c1a1c1a1c1a1c1a1c1a1c1a1c1a1"

static const struct {
    const char *row, *text;
    enum status status;
    bool claims;
} statuses[] = {
    {"holds it",
     "{\"state\":\"SERVING\",\"machines\":[{\"machine_id\":7,\"claim\":\"" CLAIM "\"}]}", STATUS_OK,
     true},
    {"as the second",
     "{\"machines\":[{\"machine_id\":null,\"claim\":\"\"},{\"claim\":\"" CLAIM "\"}]}", STATUS_OK,
     true},
    {"holds another",
     "{\"machines\":[{\"machine_id\":7,\"claim\":\"d1a1c1a1c1a1c1a1c1a1c1a1c1a1c1a1\"}]}",
     STATUS_OK, false},
    {"looks for one", "{\"machines\":[{\"machine_id\":null,\"claim\":\"\"}]}", STATUS_OK, false},
    {"has none", "{\"machines\":[]}", STATUS_OK, false},
    {"no status", "{\"live\":true}", STATUS_PROTOCOL, false},
    {"no JSON", "<html>", STATUS_PROTOCOL, false},
    {"empty", "", STATUS_PROTOCOL, false},
    {"machines are none", "{\"machines\":[7]}", STATUS_PROTOCOL, false},
    {"a claim that is none", "{\"machines\":[{\"claim\":\"7\"}]}", STATUS_PROTOCOL, false},
    {"a claim is missing", "{\"machines\":[{\"claim\":\"" CLAIM "\"},{\"machine_id\":7}]}",
     STATUS_PROTOCOL, false},
};

static void a_status_tells_whether_a_claim_is_held(void) {
    for (size_t i = 0; i < COUNT(statuses); i++) {
        const char *text = statuses[i].text;
        struct error err;
        bool claims = false;

        CHECK_ROW(statuses[i].row, status_reply_claims(text, strlen(text), CLAIM, &claims, &err) ==
                                       statuses[i].status);
        CHECK_ROW(statuses[i].row, claims == statuses[i].claims);
    }
}

static const struct {
    const char *row, *text, *expected;
} errors[] = {
    {"ours", "{\"error\":{\"code\":\"UNAVAILABLE\",\"message\":\"starved\"}}", "starved"},
    {"somebody else's page", "<html>Bad Gateway</html>", "HTTP 502"},
    {"empty", "", "HTTP 502"},
    {"no message", "{\"error\":{}}", "HTTP 502"},
    {"error is a text", "{\"error\":\"x\"}", "HTTP 502"},
    {"an escape sequence", "{\"error\":{\"message\":\"\\u001b[2J\"}}", "HTTP 502"},
};

static const struct {
    const char *row, *text;
    bool good;
} summaries[] = {
    {"two machine IDs",
     "{\"state\":\"SERVING\",\"reason\":\"\",\"runway_ms\":41000,\"machines\":[{\"issued_total\":"
     "\"3\"},{\"issued_total\":\"4\"}]}",
     true},
    {"no number", "{\"state\":\"SERVING\",\"reason\":\"\",\"runway_ms\":0,\"machines\":[{}]}",
     false},
    {"a total that would wrap the sum",
     "{\"state\":\"SERVING\",\"reason\":\"\",\"runway_ms\":0,\"machines\":[{\"issued_total\":"
     "\"18446744073709551615\"}]}",
     false},
    {"a state that is none",
     "{\"state\":\"SERVING SERVING SERVING\",\"reason\":\"\",\"runway_ms\":0,\"machines\":[]}",
     false},
    {"a negative runway",
     "{\"state\":\"SERVING\",\"reason\":\"\",\"runway_ms\":-1,\"machines\":[]}", false},
    {"no machines", "{\"state\":\"SERVING\",\"reason\":\"\",\"runway_ms\":0}", false},
};

static void a_status_is_summed_up_or_refused_whole(void) {
    for (size_t i = 0; i < sizeof summaries / sizeof summaries[0]; i++) {
        struct status_reply reply = {.issued_total = 99};
        struct error err;
        const char *text = summaries[i].text;
        bool good = summaries[i].good;

        CHECK_ROW(summaries[i].row,
                  (status_reply_parse(text, strlen(text), &reply, &err) == STATUS_OK) == good);
        CHECK_ROW(summaries[i].row, reply.issued_total == (good ? 7u : 99u));
        CHECK_ROW(summaries[i].row, reply.runway_ms == (good ? 41000u : 0u));
    }
}

static void the_message_of_an_error_is_found_or_the_status_named(void) {
    for (size_t i = 0; i < COUNT(errors); i++) {
        char message[64];

        error_reply_text(502, errors[i].text, strlen(errors[i].text), message, sizeof message);
        CHECK_ROW(errors[i].row, strcmp(message, errors[i].expected) == 0);
    }
}

static CU_TestInfo rules[] = {
    CHECK_TEST(a_clock_is_read_exactly),
    CHECK_TEST(an_unknown_error_is_no_number),
    CHECK_TEST(an_unknown_correction_of_the_rate_is_not_zero),
    CHECK_TEST(a_clock_that_makes_no_sense_is_refused_with_a_reason),
    CHECK_TEST(ids_are_handed_out_in_order_as_they_were_sent),
    CHECK_TEST(of_ids_that_cannot_all_be_read_none_is_shown),
    CHECK_TEST(a_status_tells_whether_a_claim_is_held),
    CHECK_TEST(a_status_is_summed_up_or_refused_whole),
    CHECK_TEST(the_message_of_an_error_is_found_or_the_status_named),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"replies", NULL, NULL, NULL, NULL, rules})
