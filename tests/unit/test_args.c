#include "worker/args.h"

#include "tests/support/check.h"

static struct service_error err;

static bool read_body(struct ids_args *args, const char *body) {
    ids_args_init(args);
    return ids_args_body(args, body, strlen(body), &err);
}

static bool set(const char *name, const char *value, struct ids_args *args) {
    ids_args_init(args);
    return ids_args_set(args, name, value, strlen(value), false, &err);
}

/* --- B97: what is no plain number --- */

#define ARABIC_FIVE "\xd9\xa5"
#define NINES_100                                                                                  \
    "99999999999999999999999999999999999999999999999999"                                           \
    "99999999999999999999999999999999999999999999999999"

static const char *const odd_numbers[] = {
    "-1",
    "-2",
    "+5",
    " 5",
    "5 ",
    "05",
    "00",
    "0x10",
    "1e3",
    "5.0",
    "",
    "5;6",
    "5\n",
    "\t5",
    "18446744073709551616",
    "18446744073709551617",
    "9223372036854775808",
    NINES_100,
    ARABIC_FIVE,
};

static void odd_counts_are_refused_by_name(void) {
    struct ids_args args;

    for (size_t i = 0; i < sizeof odd_numbers / sizeof odd_numbers[0]; i++) {
        CHECK_ROW(odd_numbers[i], !set("count", odd_numbers[i], &args));
        CHECK_ROW(odd_numbers[i], strcmp(err.code, "INVALID_ARGUMENT") == 0);
        CHECK_ROW(odd_numbers[i], strcmp(err.field, "count") == 0);
        CHECK_ROW(odd_numbers[i], strncmp(err.message, "count must be 1..10000, got ", 28) == 0);
    }
}

static void odd_ids_are_refused_by_name(void) {
    struct id_value id = {.number = 42};

    for (size_t i = 0; i < sizeof odd_numbers / sizeof odd_numbers[0]; i++) {
        CHECK_ROW(odd_numbers[i],
                  !decode_args_id(odd_numbers[i], strlen(odd_numbers[i]), ID_READ_ANY, &id, &err));
        CHECK_ROW(odd_numbers[i], strcmp(err.field, "id") == 0);
    }
    CU_ASSERT_FALSE(decode_args_id("5\0", 2, ID_READ_ANY, &id, &err));
    CU_ASSERT_EQUAL(id.number, 42);
}

static const struct {
    const char *text;
    bool ok;
} counts[] = {{"0", false},    {"1", true},      {"2", true},      {"9999", true},
              {"10000", true}, {"10001", false}, {"99999", false}, {"100000", false}};

static void counts_go_from_1_to_10000(void) {
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct ids_args args;
        bool ok = set("count", counts[i].text, &args);

        CHECK_ROW(counts[i].text, ok == counts[i].ok);
        CHECK_ROW(counts[i].text, !ok || args.count == strtoul(counts[i].text, NULL, 10));
    }
}

/* --- other arguments --- */

static void kinds_are_known_by_their_exact_names(void) {
    static const char *const kinds[] = {"uuid",       "uuidv1", "UUIDv4", "sequences",  "Snowflake",
                                        "snowflake ", "",       "snow",   "snowflakes", "\n"};
    struct ids_args args;

    CU_ASSERT_TRUE(set("kind", "snowflake", &args) && args.kind == ID_SNOWFLAKE);
    CU_ASSERT_TRUE(set("kind", "uuidv4", &args) && args.kind == ID_UUIDV4);
    CU_ASSERT_TRUE(set("kind", "uuidv7", &args) && args.kind == ID_UUIDV7);
    CU_ASSERT_TRUE(set("kind", "ulid", &args) && args.kind == ID_ULID);
    CU_ASSERT_TRUE(set("kind", "sequence", &args) && args.kind == ID_SEQUENCE);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        CHECK_ROW(kinds[i], !set("kind", kinds[i], &args) && strcmp(err.field, "kind") == 0);
    set("kind", "guid", &args);
    CHECK_TEXT(err.message,
               "kind must be snowflake, uuidv4, uuidv7, ulid, sequence or public, got guid");
}

static void claims_and_commit_wait_are_of_snowflakes(void) {
    struct ids_args args;

    CU_ASSERT_TRUE(read_body(&args, "{\"kind\":\"snowflake\",\"claim\":1,\"commit_wait\":1}"));
    CU_ASSERT_TRUE(ids_args_check(&args, &err));
    CU_ASSERT_TRUE(read_body(&args, "{\"kind\":\"ulid\",\"claim\":0,\"commit_wait\":0}"));
    CU_ASSERT_TRUE(ids_args_check(&args, &err));
    CU_ASSERT_TRUE(read_body(&args, "{\"claim\":1,\"kind\":\"ulid\"}"));
    CU_ASSERT_FALSE(ids_args_check(&args, &err));
    CHECK_TEXT(err.field, "claim");
    CU_ASSERT_TRUE(read_body(&args, "{\"kind\":\"uuidv7\",\"commit_wait\":true}"));
    CU_ASSERT_FALSE(ids_args_check(&args, &err));
    CHECK_TEXT(err.code, "INVALID_ARGUMENT");
    CHECK_TEXT(err.field, "commit_wait");
    CHECK_TEXT(err.message,
               "commit_wait goes with kinds snowflake and public only, got kind uuidv7");
}

static void claim_is_0_or_1(void) {
    struct ids_args args;

    CU_ASSERT_TRUE(set("claim", "1", &args) && args.claim);
    CU_ASSERT_TRUE(set("claim", "0", &args) && !args.claim);
    CU_ASSERT_FALSE(set("claim", "true", &args));
    CU_ASSERT_FALSE(set("claim", "", &args));
    CU_ASSERT_FALSE(set("claim", "2", &args));
    CHECK_TEXT(err.field, "claim");
}

static void commit_wait_is_0_or_1(void) {
    struct ids_args args;

    CU_ASSERT_TRUE(set("commit_wait", "1", &args) && args.commit_wait && !args.claim);
    CU_ASSERT_TRUE(set("commit_wait", "0", &args) && !args.commit_wait);
    CU_ASSERT_FALSE(set("commit_wait", "yes", &args));
    CHECK_TEXT(err.message, "commit_wait must be 0 or 1, got yes");
    CHECK_TEXT(err.field, "commit_wait");
    CU_ASSERT_TRUE(read_body(&args, "{\"commit_wait\":true}") && args.commit_wait);
}

static void unknown_arguments_are_refused_by_name(void) {
    struct ids_args args;

    CU_ASSERT_FALSE(set("Count", "5", &args));
    CHECK_TEXT(err.message,
               "unknown argument Count; there are kind, count, claim, commit_wait, name and shard");
    CU_ASSERT_FALSE(set("", "5", &args));
    CHECK_TEXT(err.message,
               "unknown argument \"\"; there are kind, count, claim, commit_wait, name and shard");
}

static void an_argument_given_twice_is_refused(void) {
    struct ids_args args;

    ids_args_init(&args);
    CU_ASSERT_FALSE(ids_args_set(&args, "count", "5", 1, true, &err));
    CHECK_TEXT(err.message, "count is given twice");
    CHECK_TEXT(err.field, "count");
    CU_ASSERT_TRUE(set("count", "5", &args));
    CU_ASSERT_FALSE(ids_args_body(&args, "{\"count\":5}", 11, &err));
    CHECK_TEXT(err.message, "count is given twice");
}

/* --- bodies --- */

static void a_body_may_hold_all_arguments(void) {
    struct ids_args args;

    CU_ASSERT_TRUE(read_body(&args, "{\"kind\":\"snowflake\",\"count\":7,\"claim\":true}"));
    CU_ASSERT(args.count == 7 && args.claim);
    CU_ASSERT_TRUE(read_body(&args, " {\"count\":\"10000\", \"claim\":\"1\"}\n"));
    CU_ASSERT(args.count == 10000 && args.claim);
    CU_ASSERT_TRUE(read_body(&args, "{\"claim\":0}"));
    CU_ASSERT(args.count == 1 && !args.claim);
    CU_ASSERT_TRUE(read_body(&args, "{}"));
    CU_ASSERT_TRUE(read_body(&args, ""));
    CU_ASSERT_EQUAL(args.count, 1);
}

static const struct {
    const char *body, *field;
} bad_bodies[] = {
    {"{\"count\":-1}", "count"},
    {"{\"count\":0}", "count"},
    {"{\"count\":10001}", "count"},
    {"{\"count\":5.0}", "count"},
    {"{\"count\":1e3}", "count"},
    {"{\"count\":18446744073709551616}", "count"},
    {"{\"count\":-9223372036854775809}", "count"},
    {"{\"count\":" NINES_100 "}", "count"},
    {"{\"count\":true}", "count"},
    {"{\"count\":null}", "count"},
    {"{\"count\":[5]}", "count"},
    {"{\"count\":{}}", "count"},
    {"{\"count\":\"+5\"}", "count"},
    {"{\"count\":\"05\"}", "count"},
    {"{\"count\":\" 5\"}", "count"},
    {"{\"count\":\"\"}", "count"},
    {"{\"count\":\"" ARABIC_FIVE "\"}", "count"},
    {"{\"kind\":5}", "kind"},
    {"{\"kind\":\"uuidv5\"}", "kind"},
    {"{\"kind\":true}", "kind"},
    {"{\"claim\":2}", "claim"},
    {"{\"commit_wait\":2}", "commit_wait"},
    {"{\"commit_wait\":1,\"commit_wait\":1}", "body"},
    {"{\"count\":05}", "body"},
    {"{\"count\":+5}", "body"},
    {"{\"count\":0x10}", "body"},
    {"{\"count\":5;6}", "body"},
    {"{\"count\":5,\"count\":6}", "body"},
    {"{\"count\":5", "body"},
    {"{\"count\":5}}", "body"},
    {"[5]", "body"},
    {"5", "body"},
    {"\"count\"", "body"},
    {"null", "body"},
    {"count=5", "body"},
    {"\xff\xfe", "body"},
    {"{\"count\":\"5\\u0000\"}", "body"},
};

static void a_wrong_body_is_refused_and_its_field_named(void) {
    struct ids_args args;

    for (size_t i = 0; i < sizeof bad_bodies / sizeof bad_bodies[0]; i++) {
        CHECK_ROW(bad_bodies[i].body, !read_body(&args, bad_bodies[i].body));
        CHECK_ROW(bad_bodies[i].body, err.field && strcmp(err.field, bad_bodies[i].field) == 0);
        CHECK_ROW(bad_bodies[i].body, strcmp(err.code, "INVALID_ARGUMENT") == 0);
    }
    CU_ASSERT_FALSE(read_body(&args, "{\"n\":5}"));
    CHECK_TEXT(err.message,
               "unknown argument n; there are kind, count, claim, commit_wait, name and shard");
}

/* B36 */
static void deep_nesting_is_refused(void) {
    static char body[100001];
    struct ids_args args;
    struct id_value id;

    memset(body, '[', sizeof body - 1);
    CU_ASSERT_FALSE(read_body(&args, body));
    CU_ASSERT_FALSE(decode_args_body(body, strlen(body), &id, &err));
    memcpy(body, "{\"id\":", 6);
    CU_ASSERT_FALSE(decode_args_body(body, strlen(body), &id, &err));
    for (size_t i = 0; i + 5 < sizeof body; i += 5)
        memcpy(body + i, "{\"a\":", 5);
    CU_ASSERT_FALSE(read_body(&args, body));
}

/* --- decode --- */

static const struct {
    const char *body;
    int64_t id; /* -1: refused */
} id_bodies[] = {
    {"{\"id\":\"187354526515220487\"}", INT64_C(187354526515220487)},
    {"{\"id\":187354526515220487}", INT64_C(187354526515220487)},
    {"{\"id\":264905529757794303}", INT64_C(264905529757794303)},
    {"{\"id\":\"9223372036854775807\"}", INT64_MAX},
    {"{\"id\":9223372036854775807}", INT64_MAX},
    {"{\"id\":0}", 0},
    {"{\"id\":9223372036854775808}", -1},
    {"{\"id\":\"9223372036854775808\"}", -1},
    {"{\"id\":1.8735452651522048e17}", -1},
    {"{\"id\":187354526515220487.0}", -1},
    {"{\"id\":-1}", -1},
    {"{\"id\":true}", -1},
    {"{\"id\":null}", -1},
    {"{\"id\":[1]}", -1},
    {"{}", -1},
    {"", -1},
    {"{\"id\":1,\"kind\":\"snowflake\"}", 1},
    {"{\"id\":1,\"kind\":\"uuid\"}", -1},
    {"{\"id\":1,\"kind\":\"Snowflake\"}", -1},
    {"{\"id\":1,\"kind\":1}", -1},
    {"{\"id\":1,\"epoch\":1}", -1},
    {"{\"id\":1,\"id\":1}", -1},
};

/* B36 */
static void an_id_is_read_exactly_or_refused(void) {
    for (size_t i = 0; i < sizeof id_bodies / sizeof id_bodies[0]; i++) {
        struct id_value id = {.number = -1};
        bool ok = decode_args_body(id_bodies[i].body, strlen(id_bodies[i].body), &id, &err);

        CHECK_ROW(id_bodies[i].body, ok == (id_bodies[i].id >= 0) && id.number == id_bodies[i].id);
    }
}

static const struct {
    const char *body;
    int64_t number; /* -1: refused */
    enum id_read kind;
    const char *field;
} encode_bodies[] = {
    {"{\"id\":\"187354526515220487\"}", INT64_C(187354526515220487), ID_READ_SNOWFLAKE, NULL},
    {"{\"id\":0,\"kind\":\"snowflake\"}", 0, ID_READ_SNOWFLAKE, NULL},
    {"{\"id\":9223372036854775807,\"kind\":\"sequence\"}", INT64_MAX, ID_READ_SEQUENCE, NULL},
    {"{\"id\":\"9223372036854775808\"}", -1, ID_READ_ANY, "id"},
    {"{\"id\":-1}", -1, ID_READ_ANY, "id"},
    {"{\"id\":\"01ARZ3NDEKTSV4RRFFQ69G5FAV\"}", -1, ID_READ_ANY, "id"},
    {"{\"id\":\"1\",\"kind\":\"ulid\"}", -1, ID_READ_ANY, "kind"},
    {"{\"id\":\"1\",\"kind\":\"public\"}", -1, ID_READ_ANY, "kind"},
    {"{\"id\":\"1\",\"kind\":\"any\"}", -1, ID_READ_ANY, "kind"},
    {"{}", -1, ID_READ_ANY, "id"},
    {"{\"id\":\"1\",\"key\":1}", -1, ID_READ_ANY, NULL},
};

static void what_is_encoded_is_a_snowflake_or_of_a_sequence(void) {
    for (size_t i = 0; i < sizeof encode_bodies / sizeof encode_bodies[0]; i++) {
        const char *body = encode_bodies[i].body, *field = encode_bodies[i].field;
        struct id_value id = {.number = -1};
        bool ok = encode_args_body(body, strlen(body), &id, &err);

        CHECK_ROW(body, ok == (encode_bodies[i].number >= 0));
        CHECK_ROW(body, id.number == encode_bodies[i].number && id.kind == encode_bodies[i].kind);
        CHECK_ROW(body, ok || (field ? err.field && strcmp(err.field, field) == 0 : !err.field));
    }
}

static void public_ids_need_keys(void) {
    CU_ASSERT_FALSE(public_args_check(NULL, &err));
    CHECK_TEXT(err.code, "FAILED_PRECONDITION");
    CHECK_TEXT(err.message, "public IDs need a worker with --public-key-file");
}

/* --- Accept --- */

static const struct {
    const char *accept;
    bool text;
} accepts[] = {
    {"", false},
    {"*/*", false},
    {"text/plain", true},
    {"TEXT/Plain", true},
    {"text/*", true},
    {"text/plain; charset=utf-8", true},
    {"text/plain;q=0", false},
    {"text/plain;q=0.0", false},
    {"text/plain, */*;q=0.8", true},
    {"text/plain, */*", false}, /* equally good */
    {"text/plain;q=0.5, application/json", false},
    {"text/plain;q=0.5, application/json;q=0.4", true},
    {"text/plain ; q=0.5 , application/json ; q=0.499", true},
    {"application/json, text/plain", false},
    {"application/json;q=0.001,text/*", true},
    {"*/*, text/plain;q=0.1", false},
    {"*/*;q=0.1, text/plain", true},
    {"text/html", false},
    {"text/plainly", false},
    {"text", false},
    {",;q=,;;,text/plain;q", true},
    {";q=1", false},
};

static void text_is_chosen_when_it_is_preferred(void) {
    CU_ASSERT_FALSE(accept_prefers_text(NULL));
    for (size_t i = 0; i < sizeof accepts / sizeof accepts[0]; i++)
        CHECK_ROW(accepts[i].accept, accept_prefers_text(accepts[i].accept) == accepts[i].text);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(odd_counts_are_refused_by_name),
    CHECK_TEST(odd_ids_are_refused_by_name),
    CHECK_TEST(counts_go_from_1_to_10000),
    CHECK_TEST(kinds_are_known_by_their_exact_names),
    CHECK_TEST(claims_and_commit_wait_are_of_snowflakes),
    CHECK_TEST(claim_is_0_or_1),
    CHECK_TEST(commit_wait_is_0_or_1),
    CHECK_TEST(unknown_arguments_are_refused_by_name),
    CHECK_TEST(an_argument_given_twice_is_refused),
    CHECK_TEST(a_body_may_hold_all_arguments),
    CHECK_TEST(a_wrong_body_is_refused_and_its_field_named),
    CHECK_TEST(deep_nesting_is_refused),
    CHECK_TEST(an_id_is_read_exactly_or_refused),
    CHECK_TEST(what_is_encoded_is_a_snowflake_or_of_a_sequence),
    CHECK_TEST(public_ids_need_keys),
    CHECK_TEST(text_is_chosen_when_it_is_preferred),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"arguments", NULL, NULL, NULL, NULL, rules})
