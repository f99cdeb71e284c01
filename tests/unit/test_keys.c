#include "common/keys.h"

#include "common/etcd.h"
#include "tests/support/check.h"

#define CLAIM "0123456789abcdef0123456789abcdef"
#define NOBODY "00000000000000000000000000000000"

#define ROWS(table) (sizeof(table) / sizeof(table)[0])

static struct keys keys;

static void given_the_cluster_prod(void) {
    struct error err;

    CU_ASSERT_EQUAL_FATAL(keys_init(&keys, "prod", &err), STATUS_OK);
}

/* --- names --- */

static void all_keys_are_under_the_cluster(void) {
    char key[KEY_MAX];

    CHECK_TEXT(keys.prefix, "/snowfleet/prod/");
    CHECK_TEXT(keys.meta, "/snowfleet/prod/meta");
    CHECK_TEXT(keys.ceil, "/snowfleet/prod/ceil");
    CHECK_TEXT(keys.leader, "/snowfleet/prod/leader");
    keys_hor(&keys, 7, key);
    CHECK_TEXT(key, "/snowfleet/prod/hor/0007");
    keys_own(&keys, 1023, key);
    CHECK_TEXT(key, "/snowfleet/prod/own/1023");
    keys_node(&keys, CLAIM, key);
    CHECK_TEXT(key, "/snowfleet/prod/node/" CLAIM);
    keys_assign(&keys, CLAIM, key);
    CHECK_TEXT(key, "/snowfleet/prod/assign/" CLAIM);
}

static void a_range_holds_its_keys_and_no_others(void) {
    const char *starts[] = {keys.hor, keys.own, keys.node, keys.assign};
    const char *ends[] = {keys.hor_end, keys.own_end, keys.node_end, keys.assign_end};
    char key[KEY_MAX];
    size_t i;

    for (i = 0; i < ROWS(starts); i++) {
        snprintf(key, sizeof key, "%s\xff", starts[i]);
        CHECK_ROW(starts[i], strcmp(starts[i], key) < 0 && strcmp(key, ends[i]) < 0);
        CHECK_ROW(starts[i], strcmp(keys.meta, starts[i]) < 0 || strcmp(keys.meta, ends[i]) >= 0);
    }
    CHECK_TEXT(keys.hor, "/snowfleet/prod/hor/");
    CHECK_TEXT(keys.hor_end, "/snowfleet/prod/hor0");
}

static const struct {
    const char *row, *prefix, *end;
} prefixes[] = {
    {"the last byte goes up", "a/", "a0"},
    {"one byte", "a", "b"},
    {"a full last byte goes away", "a\xff", "b"},
    {"several full bytes go away", "ab\xff\xff\xff", "ac"},
    {"a full byte inside stays",
     "a\xff"
     "b",
     "a\xff"
     "c"},
    {"above 0x7f", "a\x80", "a\x81"},
};

static void the_end_of_a_prefix_is_the_first_key_without_it(void) {
    char end[16];
    size_t i;

    for (i = 0; i < ROWS(prefixes); i++) {
        etcd_prefix_end(prefixes[i].prefix, end, strlen(prefixes[i].prefix) + 1);
        CHECK_ROW(prefixes[i].row, strcmp(end, prefixes[i].end) == 0);
    }
}

#define NAME_OF_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct {
    const char *row, *name;
    bool valid;
    const char *shown;
} clusters[] = {
    {"the default", "default", true, NULL},
    {"every kind of character", "a-Z_0.9", true, NULL},
    {"one character", "x", true, NULL},
    {"64 characters", NAME_OF_64, true, NULL},
    {"dots only", "..", true, NULL},
    {"empty", "", false, "got \"\""},
    {"65 characters", NAME_OF_64 "x", false, "got \"0123"},
    {"a slash would reach into another cluster", "a/b", false, "got a/b"},
    {"a blank", "a b", false, "got \"a b\""},
    {"a control character", "a\n", false, "got \"a\\x0a\""},
    {"beyond ASCII", "\xc3\xa4", false, "got \"\\xc3\\xa4\""},
};

static void a_cluster_name_is_short_and_plain(void) {
    size_t i;

    for (i = 0; i < ROWS(clusters); i++) {
        struct keys init;
        struct error err = {.message = ""};
        enum status status = keys_init(&init, clusters[i].name, &err);

        CHECK_ROW(clusters[i].row, status == (clusters[i].valid ? STATUS_OK : STATUS_INVALID));
        if (!clusters[i].valid)
            CHECK_ROW(clusters[i].row, strstr(err.message, "must be 1..64 characters") &&
                                           strstr(err.message, clusters[i].shown));
    }
}

static void the_longest_keys_are_not_cut(void) {
    struct keys longest;
    struct error err;
    char key[KEY_MAX];

    CU_ASSERT_EQUAL(keys_init(&longest, NAME_OF_64, &err), STATUS_OK);
    keys_assign(&longest, CLAIM, key);
    CHECK_TEXT(key, "/snowfleet/" NAME_OF_64 "/assign/" CLAIM);
}

/* --- what a key names --- */

static const struct {
    const char *row, *key;
    int machine_id; /* -1: it is no key of a machine ID */
} machine_keys[] = {
    {"the first", "/snowfleet/prod/hor/0000", 0},
    {"leading zeros", "/snowfleet/prod/hor/0007", 7},
    {"the last", "/snowfleet/prod/hor/1023", 1023},
    {"above the last", "/snowfleet/prod/hor/1024", -1},
    {"far above the last", "/snowfleet/prod/hor/9999", -1},
    {"too short", "/snowfleet/prod/hor/7", -1},
    {"too long", "/snowfleet/prod/hor/00007", -1},
    {"nothing", "/snowfleet/prod/hor/", -1},
    {"the range without its slash", "/snowfleet/prod/hor", -1},
    {"a sign", "/snowfleet/prod/hor/+007", -1},
    {"a blank", "/snowfleet/prod/hor/ 007", -1},
    {"hexadecimal", "/snowfleet/prod/hor/00ff", -1},
    {"something behind", "/snowfleet/prod/hor/0007/x", -1},
    {"another range", "/snowfleet/prod/own/0007", -1},
    {"another cluster", "/snowfleet/test/hor/0007", -1},
    {"a cluster whose name goes on", "/snowfleet/prod2/hor/0007", -1},
    {"empty", "", -1},
};

static void a_machine_key_has_exactly_four_digits(void) {
    size_t i;

    for (i = 0; i < ROWS(machine_keys); i++) {
        uint16_t machine_id = 4242;
        bool found = keys_machine_id(keys.hor, machine_keys[i].key, &machine_id);
        int expected = machine_keys[i].machine_id;

        CHECK_ROW(machine_keys[i].row, found == (expected >= 0));
        CHECK_ROW(machine_keys[i].row, machine_id == (expected >= 0 ? expected : 4242));
    }
}

static void every_machine_key_is_read_back(void) {
    uint16_t id, read;
    char key[KEY_MAX];

    for (id = 0; id < MACHINE_IDS; id++) {
        keys_own(&keys, id, key);
        CHECK_ROW(key, keys_machine_id(keys.own, key, &read) && read == id);
    }
}

static const struct {
    const char *row, *text;
    bool valid;
} hex128s[] = {
    {"32 digits", CLAIM, true},
    {"32 zeros", NOBODY, true},
    {"31 digits", "0123456789abcdef0123456789abcde", false},
    {"33 digits", CLAIM "0", false},
    {"upper case", "0123456789ABCDEF0123456789abcdef", false},
    {"no hex digit", "g123456789abcdef0123456789abcdef", false},
    {"the character before a", "`123456789abcdef0123456789abcdef", false},
    {"a UUID", "01234567-89ab-cdef-0123-456789abcdef", false},
    {"empty", "", false},
};

static void an_instance_is_32_lower_case_hex_digits(void) {
    char key[KEY_MAX];
    size_t i;

    for (i = 0; i < ROWS(hex128s); i++) {
        const char *instance;

        CHECK_ROW(hex128s[i].row, hex128_valid(hex128s[i].text) == hex128s[i].valid);
        snprintf(key, sizeof key, "%s%s", keys.node, hex128s[i].text);
        instance = keys_instance(keys.node, key);
        CHECK_ROW(hex128s[i].row, (instance != NULL) == hex128s[i].valid);
        CHECK_ROW(hex128s[i].row, !instance || strcmp(instance, hex128s[i].text) == 0);
        CHECK_ROW(hex128s[i].row, !keys_instance(keys.assign, key));
    }
}

static void sixteen_bytes_are_spelt_in_hex(void) {
    const unsigned char bytes[16] = {0x00, 0x01, 0x0f, 0x10, 0x7f, 0x80, 0xf0, 0xff};
    char text[HEX128_CHARS + 1];

    hex128_format(bytes, text);
    CHECK_TEXT(text, "00010f107f80f0ff0000000000000000");
    CU_ASSERT(hex128_valid(text));
}

/* --- hor/NNNN --- */

static const struct {
    const char *row, *text;
    struct horizon horizon;
} horizons[] = {
    {"untouched", "00000001704067200000:" NOBODY ":0", {1704067200000, NOBODY, 0}},
    {"claimed", "00000001748736000000:" CLAIM ":1", {1748736000000, CLAIM, 1}},
    {"zero", "00000000000000000000:" NOBODY ":0", {0, NOBODY, 0}},
    {"the largest numbers",
     "18446744073709551615:" CLAIM ":18446744073709551615",
     {UINT64_MAX, CLAIM, UINT64_MAX}},
};

static void a_horizon_is_spelt_in_one_way(void) {
    char text[HORIZON_TEXT_MAX];
    size_t i;

    for (i = 0; i < ROWS(horizons); i++) {
        struct horizon read;

        horizon_format(&horizons[i].horizon, text);
        CHECK_ROW(horizons[i].row, strcmp(text, horizons[i].text) == 0);
        CHECK_ROW(horizons[i].row, horizon_parse(text, strlen(text), &read) &&
                                       horizon_equal(&read, &horizons[i].horizon));
    }
}

static const struct {
    const char *row, *text;
} refused_horizons[] = {
    {"empty", ""},
    {"only the number", "00000001748736000000"},
    {"no count", "00000001748736000000:" CLAIM},
    {"an empty count", "00000001748736000000:" CLAIM ":"},
    {"19 digits", "0000001748736000000:" CLAIM ":1"},
    {"21 digits", "000000001748736000000:" CLAIM ":1"},
    {"above 64 bits", "18446744073709551616:" CLAIM ":1"},
    {"all nines", "99999999999999999999:" CLAIM ":1"},
    {"a blank in the number", " 0000001748736000000:" CLAIM ":1"},
    {"a sign in the number", "+0000001748736000000:" CLAIM ":1"},
    {"a negative number", "-0000001748736000000:" CLAIM ":1"},
    {"an upper-case claim", "00000001748736000000:0123456789ABCDEF0123456789abcdef:1"},
    {"a short claim", "00000001748736000000:0123456789abcdef0123456789abcde:1"},
    {"a long claim", "00000001748736000000:" CLAIM "0:1"},
    {"a leading zero in the count", "00000001748736000000:" CLAIM ":01"},
    {"a sign in the count", "00000001748736000000:" CLAIM ":+1"},
    {"a count above 64 bits", "00000001748736000000:" CLAIM ":18446744073709551616"},
    {"a line end", "00000001748736000000:" CLAIM ":1\n"},
    {"a fourth part", "00000001748736000000:" CLAIM ":1:2"},
    {"another separator", "00000001748736000000;" CLAIM ":1"},
    {"another second separator", "00000001748736000000:" CLAIM ";1"},
};

static void a_horizon_spelt_otherwise_is_refused(void) {
    size_t i;

    for (i = 0; i < ROWS(refused_horizons); i++) {
        struct horizon read = {42, CLAIM, 43};
        const char *text = refused_horizons[i].text;

        CHECK_ROW(refused_horizons[i].row, !horizon_parse(text, strlen(text), &read));
        CHECK_ROW(refused_horizons[i].row, read.horizon_ms == 42 && read.n == 43);
    }
}

static void a_nul_within_a_value_is_not_its_end(void) {
    static const char behind[] = "00000001748736000000:" CLAIM ":1\0";
    static const char within[] = "00000001748736000000:0123456789abcdef\0"
                                 "123456789abcdef:1";
    struct horizon read;

    CU_ASSERT(!horizon_parse(behind, sizeof behind - 1, &read));
    CU_ASSERT(!horizon_parse(within, sizeof within - 1, &read));
}

static void equal_horizons_agree_in_every_part(void) {
    const struct horizon a = {1748736000000, CLAIM, 1};
    const struct horizon later = {1748736000001, CLAIM, 1}, other = {1748736000000, NOBODY, 1},
                         next = {1748736000000, CLAIM, 2};

    CU_ASSERT(horizon_equal(&a, &a));
    CU_ASSERT(!horizon_equal(&a, &later));
    CU_ASSERT(!horizon_equal(&a, &other));
    CU_ASSERT(!horizon_equal(&a, &next));
}

/* Changes a valid value here and there: what is read is spelt the same again, always. */
static void whatever_is_read_is_spelt_the_same(void) {
    static const char alphabet[] = "0123456789abcdef:+- gF";
    struct check_random random = check_random_seeded(__func__);
    unsigned round, read_rounds = 0;

    for (round = 0; round < 200000; round++) {
        char text[HORIZON_TEXT_MAX + 8], again[HORIZON_TEXT_MAX];
        struct horizon horizon = {check_random_u64(&random) >> check_random_below(&random, 64),
                                  CLAIM,
                                  check_random_u64(&random) >> check_random_below(&random, 64)};
        unsigned changes = (unsigned)check_random_below(&random, 3);
        size_t len;

        horizon_format(&horizon, text);
        len = strlen(text);
        while (changes-- > 0) {
            size_t at = check_random_below(&random, len + 1);

            text[at] = alphabet[check_random_below(&random, sizeof alphabet - 1)];
            if (at == len)
                text[++len] = '\0';
        }
        if (!horizon_parse(text, len, &horizon))
            continue;
        read_rounds++;
        horizon_format(&horizon, again);
        if (strlen(again) != len || memcmp(again, text, len) != 0)
            CHECK_TEXT(again, text);
    }
    CU_ASSERT(read_rounds > 50000 && read_rounds < 190000);
}

static void values_sort_as_their_horizons_do(void) {
    struct check_random random = check_random_seeded(__func__);
    unsigned round;

    for (round = 0; round < 10000; round++) {
        uint64_t a = check_random_u64(&random) >> check_random_below(&random, 64);
        uint64_t b = check_random_u64(&random) >> check_random_below(&random, 64);
        char text_a[CEILING_TEXT_MAX], text_b[CEILING_TEXT_MAX];

        ceiling_format(a, text_a);
        ceiling_format(b, text_b);
        if ((strcmp(text_a, text_b) > 0) != (a > b))
            CHECK_TEXT(text_a, text_b);
    }
}

/* --- ceil --- */

static const struct {
    const char *row, *text;
    bool valid;
    uint64_t ceiling_ms;
} ceilings[] = {
    {"a time", "00000001748736000000", true, 1748736000000},
    {"none", "09223372036854775807", true, CEILING_NONE},
    {"the largest", "18446744073709551615", true, UINT64_MAX},
    {"above 64 bits", "18446744073709551616", false, 0},
    {"19 digits", "0000001748736000000", false, 0},
    {"21 digits", "000000001748736000000", false, 0},
    {"empty", "", false, 0},
    {"a line end", "00000001748736000000\n", false, 0},
    {"a blank", " 0000001748736000000", false, 0},
    {"hexadecimal", "0000000174873600000a", false, 0},
};

static void a_ceiling_has_exactly_20_digits(void) {
    char text[CEILING_TEXT_MAX];
    size_t i;

    for (i = 0; i < ROWS(ceilings); i++) {
        uint64_t read = 42;
        bool valid = ceiling_parse(ceilings[i].text, strlen(ceilings[i].text), &read);

        CHECK_ROW(ceilings[i].row, valid == ceilings[i].valid);
        CHECK_ROW(ceilings[i].row, read == (valid ? ceilings[i].ceiling_ms : 42));
        if (valid) {
            ceiling_format(read, text);
            CHECK_ROW(ceilings[i].row, strcmp(text, ceilings[i].text) == 0);
        }
    }
}

static CU_TestInfo names[] = {CHECK_TEST(all_keys_are_under_the_cluster),
                              CHECK_TEST(a_range_holds_its_keys_and_no_others),
                              CHECK_TEST(the_end_of_a_prefix_is_the_first_key_without_it),
                              CHECK_TEST(a_cluster_name_is_short_and_plain),
                              CHECK_TEST(the_longest_keys_are_not_cut),
                              CHECK_TEST(a_machine_key_has_exactly_four_digits),
                              CHECK_TEST(every_machine_key_is_read_back),
                              CHECK_TEST(an_instance_is_32_lower_case_hex_digits),
                              CHECK_TEST(sixteen_bytes_are_spelt_in_hex),
                              CU_TEST_INFO_NULL};
static CU_TestInfo values[] = {CHECK_TEST(a_horizon_is_spelt_in_one_way),
                               CHECK_TEST(a_horizon_spelt_otherwise_is_refused),
                               CHECK_TEST(a_nul_within_a_value_is_not_its_end),
                               CHECK_TEST(equal_horizons_agree_in_every_part),
                               CHECK_TEST(whatever_is_read_is_spelt_the_same),
                               CHECK_TEST(values_sort_as_their_horizons_do),
                               CHECK_TEST(a_ceiling_has_exactly_20_digits),
                               CU_TEST_INFO_NULL};
CHECK_MAIN({"names of keys", NULL, NULL, given_the_cluster_prod, NULL, names},
           {"values of hor and ceil", NULL, NULL, NULL, NULL, values})
