#include "common/id_decode.h"

#include "common/fields.h"
#include "common/snowflake.h"
#include "tests/support/check.h"

#define NOW_MS UINT64_C(1748736000000) /* 2025-06-01 */

static struct error err;

static bool reads(enum id_read what, const char *text, struct id_value *value) {
    return id_read(what, text, strlen(text), value, &err) == STATUS_OK;
}

static char *decode(const char *text) {
    struct id_value value;
    struct id_facts facts;

    if (!reads(ID_READ_ANY, text, &value))
        return strdup(err.message);
    id_decode(&value, SNOWFLAKE_EPOCH_MS, NOW_MS, &facts);
    return fields_spell(id_facts_json(&facts, NULL), NULL);
}

#define UUID(text) "{\"kind\":\"uuid" text

static const struct {
    const char *text, *says;
} rows[] = {
    {"187354526515220487",
     "{\"kind\":\"snowflake\",\"id\":\"187354526515220487\","
     "\"time\":\"2025-06-01T00:00:00.000Z\","
     "\"timestamp_ms\":\"1748736000000\",\"machine_id\":5,\"sequence\":7,\"future\":false,"
     "\"ambiguous\":[\"snowflake\",\"sequence\"]}"},
    /* B38: the last ULID is of the year 10889 */
    {"7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
     "{\"kind\":\"ulid\",\"id\":\"7ZZZZZZZZZZZZZZZZZZZZZZZZZ\","
     "\"time\":\"+10889-08-02T05:31:50.655Z\",\"timestamp_ms\":\"281474976710655\","
     "\"random\":\"ffffffffffffffffffff\",\"future\":true}"},
    /* B42 */
    {"01arz3NDEKTSV4RRFFQ69G5FAV",
     "{\"kind\":\"ulid\",\"id\":\"01ARZ3NDEKTSV4RRFFQ69G5FAV\","
     "\"time\":\"2016-07-30T23:54:10.259Z\",\"timestamp_ms\":\"1469922850259\","
     "\"random\":\"d6764c61efb99302bd5b\",\"future\":false}"},
    /* RFC 9562, appendix A */
    {"C232AB00-9414-11EC-B3C8-9F6BDECED846",
     UUID("v1\",\"id\":\"c232ab00-9414-11ec-b3c8-9f6bdeced846\",\"version\":1,"
          "\"time\":\"2022-02-22T19:22:22.000Z\",\"timestamp_ms\":\"1645557742000\","
          "\"future\":false}")},
    {"5df418813aed3515 88a72f4a814cf09e",
     "must be a Snowflake (0..9223372036854775807), a UUID, a ULID or a public ID, got "
     "\"5df418813aed3515 88a72f4a814cf09e\""},
    {"5df418813aed351588a72f4a814cf09e",
     UUID("v3\",\"id\":\"5df41881-3aed-3515-88a7-2f4a814cf09e\",\"version\":3}")},
    {"{919108f7-52d1-4320-9bac-f847db4148a8}",
     UUID("v4\",\"id\":\"919108f7-52d1-4320-9bac-f847db4148a8\",\"version\":4}")},
    {"2ed6657d-e927-568b-95e1-2665a8aea6a2",
     UUID("v5\",\"id\":\"2ed6657d-e927-568b-95e1-2665a8aea6a2\",\"version\":5}")},
    {"1EC9414C-232A-6B00-B3C8-9F6BDECED846",
     UUID("v6\",\"id\":\"1ec9414c-232a-6b00-b3c8-9f6bdeced846\",\"version\":6,"
          "\"time\":\"2022-02-22T19:22:22.000Z\",\"timestamp_ms\":\"1645557742000\","
          "\"future\":false}")},
    {"URN:UUID:017F22E2-79B0-7CC3-98C4-DC0C0C07398F",
     UUID("v7\",\"id\":\"017f22e2-79b0-7cc3-98c4-dc0c0c07398f\",\"version\":7,"
          "\"time\":\"2022-02-22T19:22:22.000Z\",\"timestamp_ms\":\"1645557742000\","
          "\"future\":false}")},
    {"2489E9AD-2EE2-8E00-8EC9-32D5F69181C0",
     UUID("v8\",\"id\":\"2489e9ad-2ee2-8e00-8ec9-32d5f69181c0\",\"version\":8}")},
    /* B52 */
    {"00000000-0000-0000-0000-000000000000",
     UUID("\",\"id\":\"00000000-0000-0000-0000-000000000000\",\"note\":\"the nil UUID\"}")},
    {"ffffffff-ffff-ffff-ffff-ffffffffffff",
     UUID("\",\"id\":\"ffffffff-ffff-ffff-ffff-ffffffffffff\",\"note\":\"the max UUID\"}")},
    {"123e4567-e89b-12d3-c456-426614174000",
     UUID("\",\"id\":\"123e4567-e89b-12d3-c456-426614174000\",\"note\":\"not RFC 9562: another "
          "variant, or a version that is not defined\"}")},
    {"123e4567-e89b-92d3-a456-426614174000",
     UUID("\",\"id\":\"123e4567-e89b-92d3-a456-426614174000\",\"note\":\"not RFC 9562: another "
          "variant, or a version that is not defined\"}")},
    {"00000000-0000-1000-8000-000000000000",
     UUID("v1\",\"id\":\"00000000-0000-1000-8000-000000000000\",\"version\":1,\"note\":\"its time "
          "is before 1970\"}")},
};

static void every_kind_is_told_by_its_looks(void) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *says = decode(rows[i].text);

        CHECK_TEXT(says, rows[i].says);
        free(says);
    }
}

/* B38, B40, B51 */
static const char *const refused[] = {
    "80000000000000000000000000",
    "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
    "G0000000000000000000000000",
    "R0000000000000000000000000",
    "ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
    "9AAAAAAAAAAAAAAAAAAAAAAAAA",
    "99999999999999999999999999",
    ",,,,,,,,,,,,,,,,,,,,,,,,,,",
    "01ARZ3NDEKTSV4RRFFQ69G5FA",
    "01ARZ3NDEKTSV4RRFFQ69G5FAVA",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV\n",
    "{01ARZ3NDEKTSV4RRFFQ69G5FAV}",
    "01ARZ3NDEKTSV4RRFFQ69G5FAU",
    "",
    "-1",
    "9223372036854775808",
    "-919108f7-52d1-4320-9bac-f847db4148a8-",
    "\"919108f7-52d1-4320-9bac-f847db4148a8\"",
    "919108f7-52d1-4320-9bac-f847db4148a89",
    "919108f75-2d1-4320-9bac-f847db4148a8",
    "53-8aeb5878a9-4d9b-b0dfc-ec2f0e7f8f8",
    "919108f7-52d1-4320-9bac-f847db4148a8 ",
    "urn:uuid:919108f752d143209bacf847db4148a8",
};

static void what_fits_no_kind_is_refused(void) {
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct id_value value;

        CHECK_ROW(refused[i], !reads(ID_READ_ANY, refused[i], &value));
        CHECK_ROW(refused[i], strncmp(err.message, "must be ", 8) == 0);
    }
}

static struct public_codec *codec_of(const char *text) {
    struct public_keys keys;

    CU_ASSERT_EQUAL_FATAL(public_keys_parse(text, strlen(text), &keys, &err), STATUS_OK);
    return public_codec_new(&keys, &err);
}

static void check_facts(const struct id_facts *facts, const char *expected) {
    char *says = fields_spell(id_facts_json(facts, NULL), NULL);

    CHECK_TEXT(says, expected);
    free(says);
}

/* Texts of test_public_id.c. */
static void a_public_id_says_what_is_behind_it(void) {
    struct public_codec *codec = codec_of("1:000102030405060708090a0b0c0d0e0f");
    struct id_value value;
    struct id_facts facts;

    CU_ASSERT_FATAL(reads(ID_READ_ANY, "P12W55BXB2E1BNQBCKRPGWAPDX8H", &value));
    CU_ASSERT_EQUAL_FATAL(id_open(codec, &value, &err), STATUS_OK);
    CU_ASSERT(id_is_snowflake(&value));
    id_decode(&value, SNOWFLAKE_EPOCH_MS, NOW_MS, &facts);
    check_facts(&facts, "{\"kind\":\"public\",\"id\":\"P12W55BXB2E1BNQBCKRPGWAPDX8H\","
                        "\"key_version\":1,\"of\":\"snowflake\",\"number\":\"187354526515220487\","
                        "\"time\":\"2025-06-01T00:00:00.000Z\",\"timestamp_ms\":\"1748736000000\","
                        "\"machine_id\":5,\"sequence\":7,\"future\":false}");
    CU_ASSERT_FATAL(reads(ID_READ_PUBLIC, "P101BC6T980D2568C69F4M2C6JJF", &value));
    CU_ASSERT_EQUAL_FATAL(id_open(codec, &value, &err), STATUS_OK);
    CU_ASSERT(!id_is_snowflake(&value));
    id_decode(&value, SNOWFLAKE_EPOCH_MS, NOW_MS, &facts);
    check_facts(&facts, "{\"kind\":\"public\",\"id\":\"P101BC6T980D2568C69F4M2C6JJF\","
                        "\"key_version\":1,\"of\":\"sequence\",\"number\":\"1\"}");
    id_encoded(codec, PUBLIC_OF_SEQUENCE, 1, &facts);
    check_facts(&facts, "{\"kind\":\"public\",\"id\":\"P101BC6T980D2568C69F4M2C6JJF\","
                        "\"key_version\":1,\"of\":\"sequence\",\"number\":\"1\"}");
    public_codec_free(codec);
}

/* B26 */
static void more_than_a_second_ahead_is_the_future(void) {
    static const struct {
        uint64_t ms;
        bool future;
    } times[] = {{NOW_MS, false}, {NOW_MS + 1000, false}, {NOW_MS + 1001, true}};
    struct id_value value;
    struct id_facts facts;
    char text[24];

    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        snprintf(text, sizeof text, "%" PRIu64, (times[i].ms - SNOWFLAKE_EPOCH_MS) << 22);
        CU_ASSERT_FATAL(reads(ID_READ_SNOWFLAKE, text, &value));
        id_decode(&value, SNOWFLAKE_EPOCH_MS, NOW_MS, &facts);
        CHECK_ROW(text, facts.timestamp_ms == times[i].ms && facts.future == times[i].future);
    }
}

/* A plain number fits two kinds, and only when none is named that is said. */
static void a_plain_number_is_ambiguous(void) {
    struct id_value value;
    struct id_facts facts;

    CU_ASSERT(reads(ID_READ_ANY, "5", &value) && value.ambiguous);
    CU_ASSERT(reads(ID_READ_SNOWFLAKE, "5", &value) && !value.ambiguous);
    CU_ASSERT(reads(ID_READ_SEQUENCE, "5", &value) && !value.ambiguous);
    id_decode(&value, SNOWFLAKE_EPOCH_MS, NOW_MS, &facts);
    check_facts(&facts, "{\"kind\":\"sequence\",\"id\":\"5\"}");
}

/* B83: whichever kind is asked for, a public ID that was cut at its end is nothing else. */
static void a_public_id_cut_short_is_no_other_kind(void) {
    static const char text[] = "P12W55BXB2E1BNQBCKRPGWAPDX8H";
    struct id_value value;

    for (size_t len = 0; len < sizeof text - 1; len++)
        CU_ASSERT(id_read(ID_READ_ANY, text, len, &value, &err) == STATUS_INVALID);
    CU_ASSERT(!reads(ID_READ_ANY, "p12W55BXB2E1BNQBCKRPGWAPDX8H", &value));
    CHECK_TEXT(err.message, "must be a public ID exactly as it was given out, 28 characters from P "
                            "on, got p12W55BXB2E1BNQBCKRPGWAPDX8H");
}

static void a_kind_that_was_asked_for_is_the_only_one_taken(void) {
    static const char *const texts[] = {"5",
                                        "919108f7-52d1-4320-9bac-f847db4148a8",
                                        "017F22E2-79B0-7CC3-98C4-DC0C0C07398F",
                                        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
                                        "00000000000000000000000005",
                                        "P12W55BXB2E1BNQBCKRPGWAPDX8H"};
    static const char takes[ID_READS][7] = {
        [ID_READ_ANY] = "yyyyyy",    [ID_READ_SNOWFLAKE] = "ynnnnn", [ID_READ_UUID] = "nyynnn",
        [ID_READ_UUIDV4] = "nynnnn", [ID_READ_UUIDV7] = "nnynnn",    [ID_READ_ULID] = "nnnyyn",
        [ID_READ_PUBLIC] = "nnnnny", [ID_READ_SEQUENCE] = "ynnnnn"};

    for (int what = 0; what < ID_READS; what++) {
        for (size_t i = 0; i < 6; i++) {
            struct id_value value;

            CHECK_ROW(texts[i],
                      reads((enum id_read)what, texts[i], &value) == (takes[what][i] == 'y'));
        }
    }
    reads(ID_READ_UUIDV7, texts[1], &(struct id_value){0});
    CHECK_TEXT(err.message,
               "must be a UUID of version 7, got 919108f7-52d1-4320-9bac-f847db4148a8");
}

static void names_are_exact(void) {
    enum id_read what = ID_READ_ANY;

    CU_ASSERT(id_read_find("ulid", 4, &what) && what == ID_READ_ULID);
    CU_ASSERT(id_read_find("public", 6, &what) && what == ID_READ_PUBLIC);
    CU_ASSERT(id_read_find("sequence", 8, &what) && what == ID_READ_SEQUENCE);
    CU_ASSERT(id_read_find("uuidv7", 6, &what) && what == ID_READ_UUIDV7);
    CU_ASSERT(!id_read_find("any", 3, &what) && !id_read_find("", 0, &what));
    CU_ASSERT(!id_read_find("uuidv", 5, &what));
}

static CU_TestInfo rules[] = {CHECK_TEST(every_kind_is_told_by_its_looks),
                              CHECK_TEST(what_fits_no_kind_is_refused),
                              CHECK_TEST(a_public_id_says_what_is_behind_it),
                              CHECK_TEST(more_than_a_second_ahead_is_the_future),
                              CHECK_TEST(a_plain_number_is_ambiguous),
                              CHECK_TEST(a_public_id_cut_short_is_no_other_kind),
                              CHECK_TEST(a_kind_that_was_asked_for_is_the_only_one_taken),
                              CHECK_TEST(names_are_exact),
                              CU_TEST_INFO_NULL};
CHECK_MAIN({"decoding", NULL, NULL, NULL, NULL, rules})
