/* What all kinds of records have in common: how they are read and written, and how they are refused. */
#include "tests/support/records_fixture.h"

static char *format_own(const char *before) {
    (void)before;
    return own_format(&record.own);
}

static char *format_node(const char *before) {
    (void)before;
    return node_format(&record.node);
}

static char *format_assign(const char *before) {
    return assign_format(&record.assign, before);
}

static char *format_leader(const char *before) {
    (void)before;
    return leader_format(&record.leader);
}

struct kind {
    const char *name, *text;
    enum status (*parse)(const char *text, size_t len);
    char *(*format)(const char *before);
    bool rewritten; /* by somebody who may be older than who wrote it */
};
static const struct kind meta_kind = {"meta", meta_text, parse_meta, format_meta, true};
static const struct kind own_kind = {"own", own_text, parse_own, format_own, false};
static const struct kind node_kind = {"node", node_text, parse_node, format_node, false};
static const struct kind assign_kind = {"assign", assign_text, parse_assign, format_assign, true};
static const struct kind leader_kind = {"leader", leader_text, parse_leader, format_leader, false};
static const struct kind *const kinds[] = {&meta_kind, &own_kind, &node_kind, &assign_kind,
                                           &leader_kind};

/* --- every kind --- */

static void what_is_written_is_read_and_spelt_the_same(void) {
    size_t i;

    for (i = 0; i < ROWS(kinds); i++) {
        const struct kind *kind = kinds[i];
        char *text;

        CHECK_ROW(kind->name, kind->parse(kind->text, strlen(kind->text)) == STATUS_OK);
        text = kind->format(NULL);
        CHECK_TEXT(text, kind->text);
        free(text);
    }
}

static void blanks_and_order_do_not_count_on_reading(void) {
    static const char turned[] = " {\n \"addresses\" : {\"grpc\":\"\", \"http\":\"10.0.0.9:8090\"},"
                                 "\t\"instance\": \"" INSTANCE "\" }\n";
    char *text;

    CU_ASSERT_EQUAL(parse_leader(turned, strlen(turned)), STATUS_OK);
    text = format_leader(NULL);
    CHECK_TEXT(text, leader_text);
    free(text);
}

static void equal_structs_give_equal_bytes(void) {
    size_t i;

    for (i = 0; i < ROWS(kinds); i++) {
        char *first, *again;

        /* What stood in the memory before, behind the ends of strings, must not show. */
        memset(&record, 'x', sizeof record);
        CHECK_ROW(kinds[i]->name,
                  kinds[i]->parse(kinds[i]->text, strlen(kinds[i]->text)) == STATUS_OK);
        first = kinds[i]->format(NULL);
        again = kinds[i]->format(NULL);
        CHECK_TEXT(first, again);
        free(first);
        free(again);
    }
}

static void unknown_fields_are_ignored_and_kept_on_rewriting(void) {
    static const char unknown[] =
        "\"new\":{\"deep\":[1,2.5,null]},\"zone\":\"b\",\"big\":9223372036854775807";
    size_t i;

    for (i = 0; i < ROWS(kinds); i++) {
        const struct kind *kind = kinds[i];
        char first[80], *newer, *kept, *expected;

        snprintf(first, sizeof first, "{%s,", unknown);
        newer = with(kind->text, "{", first);
        CHECK_ROW(kind->name, kind->parse(newer, strlen(newer)) == STATUS_OK);
        kept = kind->format(newer);
        if (kind->rewritten) {
            if (asprintf(&expected, "%.*s,%s}", (int)strlen(kind->text) - 1, kind->text, unknown) <
                0)
                abort();
            CHECK_TEXT(kept, expected);
            free(expected);
        } else {
            CHECK_TEXT(kept, kind->text);
        }
        free(newer);
        free(kept);
    }
}

static void known_fields_of_the_text_before_do_not_come_back(void) {
    static const char before[] =
        "{\"attempt\":\"2\",\"refused\":\"no machine ID free\",\"note\":1}";
    struct assign assign = {.attempt = 3, .machine_ids = {7}, .n_machine_ids = 1};
    char *text = assign_format(&assign, before);

    CHECK_TEXT(text, "{\"attempt\":\"3\",\"machine_ids\":[7],\"refused\":\"\",\"retry_after_ms\":0,"
                     "\"give_up\":[],\"drain\":false,\"clock_ok_until_ms\":\"0\",\"note\":1}");
    free(text);
}

static void a_text_before_that_is_no_record_has_nothing_to_keep(void) {
    static const char *const befores[] = {"", "nonsense", "[1]", "{\"a\":1,\"a\":2}"};
    struct assign assign = {.attempt = 1};
    char *expected = assign_format(&assign, NULL);
    size_t i;

    for (i = 0; i < ROWS(befores); i++) {
        char *text = assign_format(&assign, befores[i]);

        CHECK_ROW(befores[i], strcmp(text, expected) == 0);
        free(text);
    }
    free(expected);
}

static const struct {
    const char *row, *text;
    size_t len; /* 0: strlen */
    const char *says;
} no_records[] = {
    {"empty", "", 0, "not JSON"},
    {"blank", "  ", 0, "not JSON"},
    {"a list", "[]", 0, "must be a JSON object, got a list"},
    {"a number", "1", 0, "not JSON"},
    {"cut", "{\"claim\":\"c1", 0, "not JSON at byte 12"},
    {"something behind", "{} {}", 0, "not JSON at byte 4"},
    {"a NUL behind", "{}\0", 3, "not JSON"},
    {"a NUL in a string", "{\"identity\":\"a\\u0000b\"}", 0, "not JSON"},
    {"a bare NUL in a string", "{\"identity\":\"a\0b\"}", 18, "not JSON"},
    {"no UTF-8", "{\"identity\":\"\xff\"}", 0, "not JSON"},
    {"a field twice", "{\"attempt\":\"1\",\"attempt\":\"1\"}", 0, "not JSON"},
    {"an unknown field twice", "{\"new\":1,\"new\":1}", 0, "not JSON"},
    {"a comment", "{} // none", 0, "not JSON"},
    {"no fields", "{}", 0, "got nothing"},
};

static void what_is_no_record_is_refused_and_changes_nothing(void) {
    size_t i, k;

    for (i = 0; i < ROWS(no_records); i++) {
        size_t len = no_records[i].len ? no_records[i].len : strlen(no_records[i].text);

        for (k = 0; k < ROWS(kinds); k++) {
            char untouched[sizeof record];

            memset(&record, 'x', sizeof record);
            memset(untouched, 'x', sizeof untouched);
            CHECK_ROW(no_records[i].row,
                      kinds[k]->parse(no_records[i].text, len) == STATUS_PROTOCOL);
            CHECK_ROW(no_records[i].row, memcmp(&record, untouched, sizeof record) == 0);
            CHECK_ROW(no_records[i].row, err.status == STATUS_PROTOCOL);
            CHECK_ROW(err.message,
                      strncmp(err.message, kinds[k]->name, strlen(kinds[k]->name)) == 0);
            CHECK_ROW(err.message, strstr(err.message, no_records[i].says) != NULL);
        }
    }
}

/* --- refusals name the field, what it must be and what it is --- */

#define IDS_65                                                                                     \
    "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,"   \
    "33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,"   \
    "63,64]"

static const struct {
    const struct kind *kind;
    const char *row, *from, *to, *message;
} refusals[] = {
    /* meta */
    {&meta_kind, "no format", "\"format\":1,", "", "meta: format must be 1.., got nothing"},
    {&meta_kind, "format 0", "\"format\":1", "\"format\":0", "meta: format must be 1.., got 0"},
    {&meta_kind, "format as a string", "\"format\":1", "\"format\":\"1\"",
     "meta: format must be 1.., got \"1\""},
    {&meta_kind, "a serial without quotes", "\"9007199254740993\"", "9007199254740993",
     "meta: serial must be 0..9223372036854775807 as a string, got 9007199254740993"},
    {&meta_kind, "a serial with a leading zero", "\"9007", "\"09007",
     "meta: serial must be 0..9223372036854775807 as a string, got \"09007199254740993\""},
    {&meta_kind, "a serial above 63 bits", "9007199254740993", "9223372036854775808",
     "meta: serial must be 0..9223372036854775807 as a string, got \"9223372036854775808\""},
    {&meta_kind, "no era", "\"era\":\"" ERA "\",", "", "meta: era must be a string, got nothing"},
    {&meta_kind, "a short era", ERA, "e0e0",
     "meta: era must be 32 lower-case hex digits, got e0e0"},
    {&meta_kind, "no earlier eras", "\"earlier_eras\":[\"" OLD_ERA "\"],", "",
     "meta: earlier_eras must be a list of up to 64, got nothing"},
    {&meta_kind, "an earlier era that is none", OLD_ERA, "x",
     "meta: earlier_eras[0] must be 32 lower-case hex digits, got x"},
    {&meta_kind, "no floor", "\"floor_ms\":\"1748736000000\",", "",
     "meta: floor_ms must be 0..3903090455551 as a string, got nothing"},
    {&meta_kind, "a floor past the epoch's end", "\"1748736000000\"", "\"3903090455552\"",
     "meta: floor_ms must be 0..3903090455551 as a string, got \"3903090455552\""},
    {&meta_kind, "no epoch", "\"epoch_ms\":\"1704067200000\",", "",
     "meta: epoch_ms must be 0..253402300799999 as a string, got nothing"},
    {&meta_kind, "an epoch in seconds with a fraction", "\"1704067200000\"", "\"1704067200.0\"",
     "meta: epoch_ms must be 0..253402300799999 as a string, got \"1704067200.0\""},
    {&meta_kind, "an epoch in the year 10000", "\"1704067200000\"", "\"253402300800000\"",
     "meta: epoch_ms must be 0..253402300799999 as a string, got \"253402300800000\""},
    {&meta_kind, "a range as a list", "\"0-1023\"", "[0,1023]",
     "meta: machine_id_range must be a string \"A-B\" with 0 <= A <= B <= 1023, got a list of 2"},
    {&meta_kind, "a range that goes down", "\"0-1023\"", "\"9-8\"",
     "meta: machine_id_range must be A-B with 0 <= A <= B <= 1023, got 9-8"},
    {&meta_kind, "no reserved", "\"reserved\":[0,\"10-12\",1023],", "",
     "meta: reserved must be a list of up to 1024, got nothing"},
    {&meta_kind, "reserved beyond the last", "12\",1023]", "12\",1024]",
     "meta: reserved[2] must be 0..1023, got 1024"},
    {&meta_kind, "reserved is negative", "[0,", "[-1,",
     "meta: reserved[0] must be 0..1023, got -1"},
    {&meta_kind, "a reserved range beyond the last", "\"10-12\"", "\"10-1024\"",
     "meta: reserved[1] must be A-B with 0 <= A <= B <= 1023, got 10-1024"},
    {&meta_kind, "a reserved single as a string", "\"10-12\"", "\"10\"",
     "meta: reserved[1] must be A-B with 0 <= A <= B <= 1023, got 10"},
    {&meta_kind, "a reserved null", "[0,", "[null,", "meta: reserved[0] must be 0..1023, got null"},
    {&meta_kind, "no window", "\"max_window_ms\":60000,", "",
     "meta: max_window_ms must be 1..3600000, got nothing"},
    {&meta_kind, "window 0", ":60000", ":0", "meta: max_window_ms must be 1..3600000, got 0"},
    {&meta_kind, "a window above 1 h", ":60000", ":3600001",
     "meta: max_window_ms must be 1..3600000, got 3600001"},
    {&meta_kind, "a window with a fraction", ":60000", ":60000.0",
     "meta: max_window_ms must be 1..3600000, got 60000.0"},
    {&meta_kind, "a window as a string", ":60000", ":\"60000\"",
     "meta: max_window_ms must be 1..3600000, got \"60000\""},
    {&meta_kind, "a window of true", ":60000", ":true",
     "meta: max_window_ms must be 1..3600000, got true"},
    {&meta_kind, "a negative quiet time", ":90000", ":-1",
     "meta: quiet_time_ms must be 0..604800000, got -1"},
    {&meta_kind, "a quiet time above 7 days", ":90000", ":604800001",
     "meta: quiet_time_ms must be 0..604800000, got 604800001"},
    {&meta_kind, "no offset", "\"max_offset_ms\":500,", "",
     "meta: max_offset_ms must be 0..3600000, got nothing"},
    {&meta_kind, "an unknown mode", "FROZEN", "frozen",
     "meta: mode must be \"OPEN\" or \"FROZEN\", got \"frozen\""},
    {&meta_kind, "no mode", "\"mode\":\"FROZEN\",", "",
     "meta: mode must be \"OPEN\" or \"FROZEN\", got nothing"},
    {&meta_kind, "a reason of two lines", "restored from", "a\\nb",
     "meta: reason must be up to 127 bytes without control characters, got \"a\\x0ab backup\""},
    {&meta_kind, "a reason of 128 bytes", "restored from backup", CHARS_127 "f",
     "meta: reason must be up to 127 bytes without control characters, got \"0123456789abcdef"},
    {&meta_kind, "no if_needed", ",\"if_needed\":true", "",
     "meta: if_needed must be true or false, got nothing"},
    {&meta_kind, "if_needed as a number", "true", "1",
     "meta: if_needed must be true or false, got 1"},
    /* own */
    {&own_kind, "no claim", "\"claim\":\"" CLAIM "\",", "",
     "own: claim must be a string, got nothing"},
    {&own_kind, "an upper-case claim", CLAIM, "C1A1c1a1c1a1c1a1c1a1c1a1c1a1c1a1",
     "own: claim must be 32 lower-case hex digits, got C1A1c1a1c1a1c1a1c1a1c1a1c1a1c1a1"},
    {&own_kind, "an instance that is a pod's name", INSTANCE, "ids-0",
     "own: instance must be 32 lower-case hex digits, got ids-0"},
    {&own_kind, "an empty identity", "prod/ids-0", "",
     "own: identity must be 1..254 characters of printable ASCII without blanks, quotes and "
     "backslashes, got \"\""},
    {&own_kind, "an identity of 255", "prod/ids-0", CHARS_254 "x",
     "own: identity must be 1..254 characters"},
    {&own_kind, "addresses as a list", "{\"http\":\"10.0.0.1:8080\",\"grpc\":\"[fd00::1]:50051\"}",
     "[]", "own: addresses must be an object, got a list of 0"},
    {&own_kind, "an address without a port", "10.0.0.1:8080", "10.0.0.1",
     "own: addresses.http must be host:port, got 10.0.0.1"},
    {&own_kind, "an address that is a URL", "10.0.0.1:8080", "http://10.0.0.1:8080",
     "own: addresses.http must be host:port, got http://10.0.0.1:8080"},
    {&own_kind, "an address of null", "\"[fd00::1]:50051\"", "null",
     "own: addresses.grpc must be a string, got null"},
    /* node */
    {&node_kind, "no attempt", "\"attempt\":\"3\",", "",
     "node: attempt must be 0..9223372036854775807 as a string, got nothing"},
    {&node_kind, "needs too many", "\"missing\":2", "\"missing\":65",
     "node: missing must be 0..64, got 65"},
    {&node_kind, "wants what does not exist", "\"wanted\":[7]", "\"wanted\":[7,1024]",
     "node: wanted[1] must be 0..1023, got 1024"},
    {&node_kind, "holds too many", "\"held\":[]", "\"held\":" IDS_65,
     "node: held must be a list of up to 64, got a list of 65"},
    {&node_kind, "no list of refused", "\"refused\":[1,2],", "",
     "node: refused must be a list of up to 64, got nothing"},
    {&node_kind, "a list within the list", "[1,2]", "[[1],2]",
     "node: refused[0] must be 0..1023, got a list of 1"},
    {&node_kind, "a long version", "0.1.0", "0123456789abcdef0123456789abcdef",
     "node: version must be up to 31 bytes without control characters"},
    {&node_kind, "not synchronized, or is it", "\"synchronized\":true,", "",
     "node: synchronized must be true or false, got nothing"},
    {&node_kind, "an error of its own kind", "\"18446744073709551615\"", "{}",
     "node: max_error_ns must be 0..18446744073709551615 as a string, got an object"},
    {&node_kind, "confirmed, or is it", "\"clock_unconfirmed\":true", "\"clock_unconfirmed\":1",
     "node: clock_unconfirmed must be true or false, got 1"},
    {&node_kind, "half a fingerprint", "0123456789abcdef", "01234567",
     "node: public_key_fingerprint must be 16 lower-case hex digits"},
    {&node_kind, "a fingerprint in upper case", "0123456789abcdef", "0123456789ABCDEF",
     "node: public_key_fingerprint must be 16 lower-case hex digits"},
    {&node_kind, "a version of keys too high", "\"public_key_version\":31",
     "\"public_key_version\":32", "node: public_key_version must be 0..31, got 32"},
    /* assign */
    {&assign_kind, "no attempt", "\"attempt\":\"3\",", "",
     "assign: attempt must be 0..9223372036854775807 as a string, got nothing"},
    {&assign_kind, "too many machine IDs", "[7,8]", IDS_65,
     "assign: machine_ids must be a list of up to 64, got a list of 65"},
    {&assign_kind, "machine IDs as an object", "[7,8]", "{}",
     "assign: machine_ids must be a list of up to 64, got an object"},
    {&assign_kind, "a pause above a day", ":1500", ":86400001",
     "assign: retry_after_ms must be 0..86400000, got 86400001"},
    {&assign_kind, "an order without its machine ID", "\"machine_id\":5,", "",
     "assign: give_up[0].machine_id must be 0..1023, got nothing"},
    {&assign_kind, "an order without its claim", ",\"claim\":\"" CLAIM "\"", "",
     "assign: give_up[0].claim must be a string, got nothing"},
    {&assign_kind, "an order that is a number", "[{\"machine_id\":5,\"claim\":\"" CLAIM "\"}]",
     "[5]", "assign: give_up[0] must be an object, got 5"},
    {&assign_kind, "drain as text", "\"drain\":true", "\"drain\":\"yes\"",
     "assign: drain must be true or false, got \"yes\""},
    {&assign_kind, "a clock order without quotes", "\"1748736060000\"", "1748736060000",
     "assign: clock_ok_until_ms must be 0..253402300799999 as a string, got 1748736060000"},
    /* leader */
    {&leader_kind, "no instance", "\"instance\":\"" INSTANCE "\",", "",
     "leader: instance must be a string, got nothing"},
    {&leader_kind, "a port of 65536", "8090", "65536",
     "leader: addresses.http must be host:port, got 10.0.0.9:65536"},
};

static void a_wrong_field_is_named_with_its_range_and_value(void) {
    size_t i;

    for (i = 0; i < ROWS(refusals); i++) {
        char *text = with(refusals[i].kind->text, refusals[i].from, refusals[i].to);

        CHECK_ROW(refusals[i].row, refusals[i].kind->parse(text, strlen(text)) == STATUS_PROTOCOL);
        /* The messages of long values stand in the table without their end. */
        if (strncmp(err.message, refusals[i].message, strlen(refusals[i].message)) != 0)
            CHECK_TEXT(err.message, refusals[i].message);
        free(text);
    }
}

static void the_first_wrong_field_is_the_one_named(void) {
    char *once = with(own_text, CLAIM, "x"), *twice = with(once, INSTANCE, "y");

    CU_ASSERT_EQUAL(parse_own(twice, strlen(twice)), STATUS_PROTOCOL);
    CHECK_TEXT(err.message, "own: claim must be 32 lower-case hex digits, got x");
    free(once);
    free(twice);
}

static const struct {
    const struct kind *kind;
    const char *row, *from, *to, *spelt;
} may_be_missing[] = {
    {&meta_kind, "meta's reason", ",\"reason\":\"restored from backup\"", "", "\"reason\":\"\""},
    {&own_kind, "an address", "\"http\":\"10.0.0.1:8080\",", "", "\"http\":\"\""},
    {&own_kind, "the other address", ",\"grpc\":\"[fd00::1]:50051\"", "", "\"grpc\":\"\""},
    {&node_kind, "version", "\"version\":\"0.1.0\",", "", "\"version\":\"\""},
    {&assign_kind, "machine_ids", "\"machine_ids\":[7,8],", "", "\"machine_ids\":[]"},
    {&assign_kind, "refused", "\"refused\":\"\",", "", "\"refused\":\"\""},
    {&assign_kind, "retry_after_ms", "\"retry_after_ms\":1500,", "", "\"retry_after_ms\":0"},
    {&assign_kind, "give_up", "\"give_up\":[{\"machine_id\":5,\"claim\":\"" CLAIM "\"}],", "",
     "\"give_up\":[]"},
    {&assign_kind, "drain", "\"drain\":true,", "", "\"drain\":false"},
    {&assign_kind, "clock_ok_until_ms", ",\"clock_ok_until_ms\":\"1748736060000\"", "",
     "\"clock_ok_until_ms\":\"0\""},
};

static void labels_and_advice_may_be_missing(void) {
    size_t i;

    for (i = 0; i < ROWS(may_be_missing); i++) {
        char *text = with(may_be_missing[i].kind->text, may_be_missing[i].from,
                          may_be_missing[i].to);
        char *again;

        memset(&record, 'x', sizeof record);
        CHECK_ROW(may_be_missing[i].row,
                  may_be_missing[i].kind->parse(text, strlen(text)) == STATUS_OK);
        again = may_be_missing[i].kind->format(NULL);
        CHECK_ROW(may_be_missing[i].row, strstr(again, may_be_missing[i].spelt) != NULL);
        free(text);
        free(again);
    }
}

/* --- broken at random --- */

/* Whatever is read can be written, and reads as the same again. */
static void what_is_read_from_broken_text_reads_the_same_again(void) {
    static const char *const pieces[] = {"",     "0",    "-1",   "\"",   "{",  "}",       "[", "]",
                                         ",",    "null", "true", "1e9",  "\\", "\\u0041", " ", "x",
                                         "1024", "\xff", "\n",   "\"\"", ":",  "0.5"};
    struct check_random random = check_random_seeded(__func__);
    unsigned round, read_rounds = 0;

    for (round = 0; round < 20000; round++) {
        const struct kind *kind = kinds[check_random_below(&random, ROWS(kinds))];
        const char *piece = pieces[check_random_below(&random, ROWS(pieces))];
        size_t len = strlen(kind->text), at = check_random_below(&random, len + 1);
        size_t cut = check_random_below(&random, 3);
        char text[1024], *first, *again;

        if (at + cut > len)
            cut = len - at;
        snprintf(text, sizeof text, "%.*s%s%s", (int)at, kind->text, piece, kind->text + at + cut);
        if (kind->parse(text, strlen(text)) != STATUS_OK)
            continue;
        read_rounds++;
        first = kind->format(NULL);
        CHECK_ROW(text, kind->parse(first, strlen(first)) == STATUS_OK);
        again = kind->format(NULL);
        if (strcmp(first, again) != 0)
            CHECK_TEXT(again, first);
        free(first);
        free(again);
    }
    CU_ASSERT(read_rounds > 500 && read_rounds < 19000);
}

static CU_TestInfo all_kinds[] = {CHECK_TEST(what_is_written_is_read_and_spelt_the_same),
                                  CHECK_TEST(blanks_and_order_do_not_count_on_reading),
                                  CHECK_TEST(equal_structs_give_equal_bytes),
                                  CHECK_TEST(unknown_fields_are_ignored_and_kept_on_rewriting),
                                  CHECK_TEST(known_fields_of_the_text_before_do_not_come_back),
                                  CHECK_TEST(a_text_before_that_is_no_record_has_nothing_to_keep),
                                  CHECK_TEST(what_is_no_record_is_refused_and_changes_nothing),
                                  CHECK_TEST(a_wrong_field_is_named_with_its_range_and_value),
                                  CHECK_TEST(the_first_wrong_field_is_the_one_named),
                                  CHECK_TEST(labels_and_advice_may_be_missing),
                                  CHECK_TEST(what_is_read_from_broken_text_reads_the_same_again),
                                  CU_TEST_INFO_NULL};
CHECK_MAIN({"every kind of record", NULL, NULL, NULL, NULL, all_kinds})
