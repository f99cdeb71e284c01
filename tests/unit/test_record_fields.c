/* What the fields of each record mean, and the texts that options share with them. */
#include "common/snowflake.h"
#include "tests/support/records_fixture.h"

/* --- meta --- */

static void given_the_meta_of_the_text(void) {
    CU_ASSERT_EQUAL_FATAL(parse_meta(meta_text, strlen(meta_text)), STATUS_OK);
}

static void meta_says_what_was_written(void) {
    const struct meta *meta = &record.meta;

    CU_ASSERT_EQUAL(meta->format, 1);
    CU_ASSERT_EQUAL(meta->serial, UINT64_C(9007199254740993)); /* 2^53 + 1: no double holds it */
    CHECK_TEXT(meta->era, ERA);
    CU_ASSERT_EQUAL(meta->n_earlier_eras, 1);
    CHECK_TEXT(meta->earlier_eras[0], OLD_ERA);
    CU_ASSERT_EQUAL(meta->floor_ms, UINT64_C(1748736000000));
    CU_ASSERT_EQUAL(meta->epoch_ms, SNOWFLAKE_EPOCH_MS);
    CU_ASSERT(meta->first_machine_id == 0 && meta->last_machine_id == 1023);
    CU_ASSERT_EQUAL(meta->max_window_ms, 60000);
    CU_ASSERT_EQUAL(meta->quiet_time_ms, 90000);
    CU_ASSERT_EQUAL(meta->max_offset_ms, 500);
    CU_ASSERT_EQUAL(meta->mode, META_FROZEN);
    CHECK_TEXT(meta->reason, "restored from backup");
    CU_ASSERT(meta->if_needed);
}

static void a_higher_format_is_refused_whatever_else_it_holds(void) {
    static const char newer[] = "{\"format\":2,\"window\":\"60s\"}";

    CU_ASSERT_EQUAL(parse_meta(newer, strlen(newer)), STATUS_REFUSED);
    CHECK_TEXT(err.message,
               "meta: format 2 is newer than this program, which reads up to 1: update it");
}

static const struct {
    const char *row, *range;
    uint16_t machine_id;
    bool usable;
} usable[] = {
    {"reserved alone", "0-1023", 0, false},
    {"before a reserved range", "0-1023", 9, true},
    {"the first of a reserved range", "0-1023", 10, false},
    {"within a reserved range", "0-1023", 11, false},
    {"the last of a reserved range", "0-1023", 12, false},
    {"behind a reserved range", "0-1023", 13, true},
    {"the last of all, reserved", "0-1023", 1023, false},
    {"below the range", "100-199", 99, false},
    {"the first in range", "100-199", 100, true},
    {"the last in range", "100-199", 199, true},
    {"above the range", "100-199", 200, false},
    {"a range of one", "7-7", 7, true},
    {"beside a range of one", "7-7", 8, false},
};

static void a_machine_id_is_usable_in_range_and_not_reserved(void) {
    size_t i;

    for (i = 0; i < ROWS(usable); i++) {
        char *text = with(meta_text, "0-1023", usable[i].range);

        CHECK_ROW(usable[i].row, parse_meta(text, strlen(text)) == STATUS_OK);
        CHECK_ROW(usable[i].row,
                  meta_usable(&record.meta, usable[i].machine_id) == usable[i].usable);
        free(text);
    }
}

static const struct {
    const char *row, *read, *written;
} reserved[] = {
    {"none", "[]", "[]"},
    {"one", "[5]", "[5]"},
    {"a range of one", "[\"5-5\"]", "[5]"},
    {"two that touch", "[5,6]", "[\"5-6\"]"},
    {"in any order, overlapping", "[7,\"3-5\",4,\"5-6\"]", "[\"3-7\"]"},
    {"apart", "[3,5]", "[3,5]"},
    {"at both ends", "[1023,0,\"1000-1022\"]", "[0,\"1000-1023\"]"},
    {"all", "[\"0-1023\"]", "[\"0-1023\"]"},
};

static void reserved_is_written_in_one_way(void) {
    size_t i;

    for (i = 0; i < ROWS(reserved); i++) {
        char *text = with(meta_text, "[0,\"10-12\",1023]", reserved[i].read);
        char *expected = with(meta_text, "[0,\"10-12\",1023]", reserved[i].written);
        char *written;

        CHECK_ROW(reserved[i].row, parse_meta(text, strlen(text)) == STATUS_OK);
        written = format_meta(NULL);
        CHECK_ROW(reserved[i].row, strcmp(written, expected) == 0);
        free(text);
        free(expected);
        free(written);
    }
}

static void an_earlier_era_is_not_the_present_one(void) {
    CU_ASSERT(meta_earlier_era(&record.meta, OLD_ERA));
    CU_ASSERT(!meta_earlier_era(&record.meta, ERA));
    CU_ASSERT(!meta_earlier_era(&record.meta, ""));
}

static void as_many_eras_and_reserved_as_allowed_are_kept(void) {
    struct meta meta = record.meta;
    char *text;
    unsigned i;

    meta.n_earlier_eras = RECORD_EARLIER_ERAS_MAX;
    for (i = 0; i < RECORD_EARLIER_ERAS_MAX; i++)
        snprintf(meta.earlier_eras[i], sizeof meta.earlier_eras[i], "%032x", i);
    for (i = 0; i < MACHINE_IDS; i++)
        meta.reserved[i] = i % 2 == 0;
    text = meta_format(&meta, NULL);
    CU_ASSERT_EQUAL(parse_meta(text, strlen(text)), STATUS_OK);
    CU_ASSERT_EQUAL(record.meta.n_earlier_eras, RECORD_EARLIER_ERAS_MAX);
    CHECK_TEXT(record.meta.earlier_eras[63], "0000000000000000000000000000003f");
    CU_ASSERT_EQUAL(memcmp(record.meta.reserved, meta.reserved, sizeof meta.reserved), 0);
    free(text);
}

static void one_era_too_many_is_refused(void) {
    char list[RECORD_EARLIER_ERAS_MAX * 35 + 64], *text;
    size_t at = 0, i;

    for (i = 0; i <= RECORD_EARLIER_ERAS_MAX; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s\"%032zx\"", i ? "," : "", i);
    text = with(meta_text, "\"" OLD_ERA "\"", list);
    CU_ASSERT_EQUAL(parse_meta(text, strlen(text)), STATUS_PROTOCOL);
    CHECK_TEXT(err.message, "meta: earlier_eras must be a list of up to 64, got a list of 65");
    free(text);
}

static void a_meta_that_nobody_could_read_is_told_before_it_is_written(void) {
    struct meta meta = record.meta;

    CU_ASSERT_EQUAL(meta_check(&meta, &err), STATUS_OK);
    meta.floor_ms = snowflake_end_ms(meta.epoch_ms) + 1;
    CU_ASSERT_EQUAL(meta_check(&meta, &err), STATUS_PROTOCOL);
    CHECK_TEXT(err.message,
               "meta: floor_ms must be 0..3903090455551 as a string, got \"3903090455552\"");
    meta = record.meta;
    meta.first_machine_id = 9;
    meta.last_machine_id = 8;
    CU_ASSERT_EQUAL(meta_check(&meta, &err), STATUS_PROTOCOL);
    meta = record.meta;
    strcpy(meta.era, "x");
    CU_ASSERT_EQUAL(meta_check(&meta, &err), STATUS_PROTOCOL);
}

static const struct {
    const char *row, *reason, *read;
} reasons[] = {
    {"plain", "planned maintenance", "planned maintenance"},
    {"quotes and backslashes", "\"C:\\x\"", "\"C:\\x\""},
    {"UTF-8", "W\xc3\xa4rtung \xe2\x82\xac", "W\xc3\xa4rtung \xe2\x82\xac"},
    {"the longest", CHARS_127, CHARS_127},
    {"lines and tabs", "a\nb\tc\x7f", "a?b?c?"},
    {"cut within a character", "W\xc3\xa4rtung \xe2\x82", "W??rtung ??"},
    {"Latin-1", "W\xe4rtung", "W?rtung"},
    {"a control character beyond ASCII", "a\xc2\x9b", "a??"},
};

static void a_reason_never_makes_meta_unreadable(void) {
    size_t i;

    for (i = 0; i < ROWS(reasons); i++) {
        char *text;

        strcpy(record.meta.reason, reasons[i].reason);
        text = format_meta(NULL);
        CHECK_ROW(reasons[i].row, parse_meta(text, strlen(text)) == STATUS_OK);
        CHECK_ROW(reasons[i].row, strcmp(record.meta.reason, reasons[i].read) == 0);
        free(text);
    }
}

/* --- own, node, assign, leader --- */

static void own_says_what_was_written(void) {
    CU_ASSERT_EQUAL(parse_own(own_text, strlen(own_text)), STATUS_OK);
    CHECK_TEXT(record.own.claim, CLAIM);
    CHECK_TEXT(record.own.instance, INSTANCE);
    CHECK_TEXT(record.own.identity, "prod/ids-0");
    CHECK_TEXT(record.own.addresses.http, "10.0.0.1:8080");
    CHECK_TEXT(record.own.addresses.grpc, "[fd00::1]:50051");
}

static void node_says_what_was_written(void) {
    const struct node *node = &record.node;

    CU_ASSERT_EQUAL(parse_node(node_text, strlen(node_text)), STATUS_OK);
    CHECK_TEXT(node->identity, "prod/ids-0");
    CHECK_TEXT(node->addresses.http, "ids-0.ids:8080");
    CHECK_TEXT(node->addresses.grpc, "");
    CHECK_TEXT(node->version, "0.1.0");
    CU_ASSERT_EQUAL(node->attempt, 3);
    CU_ASSERT_EQUAL(node->missing, 2);
    CU_ASSERT(node->n_wanted == 1 && node->wanted[0] == 7);
    CU_ASSERT_EQUAL(node->n_held, 0);
    CU_ASSERT(node->n_refused == 2 && node->refused[0] == 1 && node->refused[1] == 2);
    CU_ASSERT(node->synchronized);
    CU_ASSERT(node->knows_error);
    CU_ASSERT_EQUAL(node->max_error_ns, UINT64_MAX);
    CU_ASSERT(node->clock_unconfirmed);
    CHECK_TEXT(node->public_key_fingerprint, "0123456789abcdef");
    CU_ASSERT_EQUAL(node->public_key_version, 31);
}

static void an_unknown_clock_error_is_no_number(void) {
    static const char text[] =
        "{\"identity\":\"prod/ids-0\",\"addresses\":{\"http\":\"\",\"grpc\":\"\"},"
        "\"version\":\"\",\"attempt\":\"0\",\"missing\":0,\"wanted\":[],\"held\":[],"
        "\"refused\":[],\"synchronized\":false,\"max_error_ns\":null}";
    struct node *node = &record.node;
    char *again;

    CU_ASSERT_EQUAL(parse_node(text, strlen(text)), STATUS_OK);
    CU_ASSERT_FALSE(node->knows_error);
    CU_ASSERT_FALSE(node->clock_unconfirmed); /* an older worker's */
    CHECK_TEXT(node->public_key_fingerprint, "");
    CU_ASSERT_EQUAL(node->public_key_version, 0);
    again = node_format(node);
    CU_ASSERT(strstr(again, "\"max_error_ns\":null,\"clock_unconfirmed\":false,"
                            "\"public_key_fingerprint\":\"\",\"public_key_version\":0}") != NULL);
    free(again);
}

static void assign_says_what_was_written(void) {
    const struct assign *assign = &record.assign;

    CU_ASSERT_EQUAL(parse_assign(assign_text, strlen(assign_text)), STATUS_OK);
    CU_ASSERT_EQUAL(assign->attempt, 3);
    CU_ASSERT(assign->n_machine_ids == 2 && assign->machine_ids[0] == 7 &&
              assign->machine_ids[1] == 8);
    CHECK_TEXT(assign->refused, "");
    CU_ASSERT_EQUAL(assign->retry_after_ms, 1500);
    CU_ASSERT(assign->n_give_up == 1 && assign->give_up[0].machine_id == 5);
    CHECK_TEXT(assign->give_up[0].claim, CLAIM);
    CU_ASSERT(assign->drain);
    CU_ASSERT_EQUAL(assign->clock_ok_until_ms, UINT64_C(1748736060000));
}

static void a_pause_without_end_is_written_as_a_day(void) {
    struct assign assign = {.attempt = 1, .refused = "none free", .retry_after_ms = UINT64_MAX};
    char *text = assign_format(&assign, NULL);

    CU_ASSERT_EQUAL(parse_assign(text, strlen(text)), STATUS_OK);
    CU_ASSERT_EQUAL(record.assign.retry_after_ms, RECORD_RETRY_AFTER_MAX_MS);
    free(text);
}

static void leader_says_what_was_written(void) {
    CU_ASSERT_EQUAL(parse_leader(leader_text, strlen(leader_text)), STATUS_OK);
    CHECK_TEXT(record.leader.instance, INSTANCE);
    CHECK_TEXT(record.leader.addresses.http, "10.0.0.9:8090");
}

/* --- texts for options --- */

static const struct {
    const char *row, *text;
    bool valid;
} identities[] = {
    {"a host", "node-7.example.org", true},
    {"namespace and pod", "prod/ids-0", true},
    {"the first and the last printable", "!~", true},
    {"the longest", CHARS_254, true},
    {"empty", "", false},
    {"too long", CHARS_254 "x", false},
    {"a blank", "a b", false},
    {"a tab", "a\tb", false},
    {"a double quote", "a\"b", false},
    {"a single quote", "a'b", false},
    {"a backslash", "a\\b", false},
    {"delete", "a\x7f", false},
    {"beyond ASCII", "k\xc3\xb6ln", false},
};

static void an_identity_is_printable_and_plain(void) {
    size_t i;

    for (i = 0; i < ROWS(identities); i++) {
        enum status expected = identities[i].valid ? STATUS_OK : STATUS_INVALID;

        CHECK_ROW(identities[i].row, identity_check(identities[i].text, &err) == expected);
    }
}

static const struct {
    const char *row, *text;
    bool valid;
} addresses[] = {
    {"IPv4", "10.0.0.1:8080", true},
    {"IPv6", "[fd00::1]:8080", true},
    {"IPv6 with a zone", "[fe80::1%eth0]:8080", true},
    {"a name", "ids_0.ids-headless.prod.svc:50051", true},
    {"the largest port", "a:65535", true},
    {"empty", "", false},
    {"no host", ":8080", false},
    {"no port", "localhost", false},
    {"an empty port", "localhost:", false},
    {"port 0", "localhost:0", false},
    {"port 65536", "localhost:65536", false},
    {"a port with a leading zero", "localhost:080", false},
    {"two ports", "10.0.0.1:8080:8080", false},
    {"IPv6 without brackets", "fd00::1:8080", false},
    {"half a bracket", "[fd00::1:8080", false},
    {"nothing in brackets", "[]:8080", false},
    {"a path", "localhost:8080/x", false},
    {"a user", "me@localhost:8080", false},
    {"a blank", "local host:8080", false},
    {"a query", "localhost?a:8080", false},
    {"too long", CHARS_254 "0123456789a:8080x", false},
};

static void an_address_is_a_host_and_a_port(void) {
    size_t i;

    for (i = 0; i < ROWS(addresses); i++) {
        enum status expected = addresses[i].valid ? STATUS_OK : STATUS_INVALID;

        CHECK_ROW(addresses[i].row, address_check(addresses[i].text, &err) == expected);
    }
}

static void an_address_may_be_as_long_as_its_field(void) {
    char text[RECORD_ADDRESS_MAX + 1];

    memset(text, 'a', sizeof text);
    strcpy(text + RECORD_ADDRESS_MAX - 6, ":8080"); /* 271 characters */
    CU_ASSERT_EQUAL(strlen(text), RECORD_ADDRESS_MAX - 1);
    CU_ASSERT_EQUAL(address_check(text, &err), STATUS_OK);
    text[RECORD_ADDRESS_MAX - 6] = 'a';
    strcpy(text + RECORD_ADDRESS_MAX - 5, ":8080"); /* 272 */
    CU_ASSERT_EQUAL(address_check(text, &err), STATUS_INVALID);
}

static const struct {
    const char *row, *text;
    int first, last; /* -1: refused */
} ranges[] = {
    {"all", "0-1023", 0, 1023},
    {"one", "7-7", 7, 7},
    {"empty", "", -1, -1},
    {"a single number", "7", -1, -1},
    {"downwards", "8-7", -1, -1},
    {"beyond the last", "0-1024", -1, -1},
    {"no first", "-7", -1, -1},
    {"no last", "7-", -1, -1},
    {"three", "1-2-3", -1, -1},
    {"a leading zero", "00-07", -1, -1},
    {"a blank", "1 - 2", -1, -1},
    {"a long dash",
     "1\xe2\x80\x93"
     "2",
     -1, -1},
    {"a sign", "+1-2", -1, -1},
    {"above 64 bits", "0-18446744073709551616", -1, -1},
};

static void a_range_of_machine_ids_goes_up_to_1023(void) {
    size_t i;

    for (i = 0; i < ROWS(ranges); i++) {
        uint16_t first = 4242, last = 4242;
        bool valid = machine_id_range_parse(ranges[i].text, strlen(ranges[i].text), &first, &last,
                                            &err) == STATUS_OK;

        CHECK_ROW(ranges[i].row, valid == (ranges[i].first >= 0));
        CHECK_ROW(ranges[i].row, first == (valid ? ranges[i].first : 4242));
        CHECK_ROW(ranges[i].row, last == (valid ? ranges[i].last : 4242));
    }
}

static CU_TestInfo metas[] = {
    CHECK_TEST(meta_says_what_was_written),
    CHECK_TEST(a_higher_format_is_refused_whatever_else_it_holds),
    CHECK_TEST(a_machine_id_is_usable_in_range_and_not_reserved),
    CHECK_TEST(reserved_is_written_in_one_way),
    CHECK_TEST(an_earlier_era_is_not_the_present_one),
    CHECK_TEST(as_many_eras_and_reserved_as_allowed_are_kept),
    CHECK_TEST(one_era_too_many_is_refused),
    CHECK_TEST(a_meta_that_nobody_could_read_is_told_before_it_is_written),
    CHECK_TEST(a_reason_never_makes_meta_unreadable),
    CU_TEST_INFO_NULL};
static CU_TestInfo others[] = {CHECK_TEST(own_says_what_was_written),
                               CHECK_TEST(node_says_what_was_written),
                               CHECK_TEST(an_unknown_clock_error_is_no_number),
                               CHECK_TEST(assign_says_what_was_written),
                               CHECK_TEST(a_pause_without_end_is_written_as_a_day),
                               CHECK_TEST(leader_says_what_was_written),
                               CU_TEST_INFO_NULL};
static CU_TestInfo texts[] = {
    CHECK_TEST(an_identity_is_printable_and_plain), CHECK_TEST(an_address_is_a_host_and_a_port),
    CHECK_TEST(an_address_may_be_as_long_as_its_field),
    CHECK_TEST(a_range_of_machine_ids_goes_up_to_1023), CU_TEST_INFO_NULL};
CHECK_MAIN({"meta", NULL, NULL, given_the_meta_of_the_text, NULL, metas},
           {"own, node, assign, leader", NULL, NULL, NULL, NULL, others},
           {"texts that options share", NULL, NULL, NULL, NULL, texts})
