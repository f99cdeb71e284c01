#include "common/public_id.h"

#include "tests/support/check.h"

#define KEY_1 "000102030405060708090a0b0c0d0e0f" /* of FIPS 197 */
#define KEY_31 "2b7e151628aed2a6abf7158809cf4f3c"
#define TEXTS 1000

static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
static struct public_keys keys;
static struct error err;
static struct public_codec *codec;
static struct check_random chance;

static enum status parse(const char *text) {
    return public_keys_parse(text, strlen(text), &keys, &err);
}

static struct public_codec *codec_of(const char *text) {
    CU_ASSERT_EQUAL_FATAL(parse(text), STATUS_OK);
    return public_codec_new(&keys, &err);
}

static void given_two_keys(void) {
    codec = codec_of("1:" KEY_1 "\n31:" KEY_31 "\n");
    CU_ASSERT_PTR_NOT_NULL_FATAL(codec);
}

static void free_codec(void) {
    public_codec_free(codec);
}

/* Of exactly that length, so that what reads past its end is found. */
static bool decodes_by(struct public_codec *by, const char *text, size_t len, enum public_of *of,
                       int64_t *number) {
    char *copy = malloc(len ? len : 1);
    struct id128 block;
    unsigned version;
    bool ok;

    memcpy(copy, text, len);
    ok = public_id_read(copy, len, &version, &block) &&
         public_id_open(by, version, &block, of, number, &err) == STATUS_OK;
    free(copy);
    return ok;
}

static bool decodes(const char *text, size_t len) {
    enum public_of of;
    int64_t number;

    return decodes_by(codec, text, len, &of, &number);
}

static int64_t random_number(void) {
    return (int64_t)(check_random_u64(&chance) >> 1);
}

/* ---- both ways ---- */

static void aes_is_that_of_fips_197(void) {
    /* Appendix C.1 */
    static const unsigned char plain[16] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                            0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
    static const unsigned char expected[16] = {0x69, 0xc4, 0xe0, 0xd8, 0x6a, 0x7b, 0x04, 0x30,
                                               0xd8, 0xcd, 0xb7, 0x80, 0x70, 0xb4, 0xc5, 0x5a};
    /* SP 800-38A, F.1.1, its first block; under the key that is the second one here. */
    static const unsigned char plain_2[16] = {0x6b, 0xc1, 0xbe, 0xe2, 0x2e, 0x40, 0x9f, 0x96,
                                              0xe9, 0x3d, 0x7e, 0x11, 0x73, 0x93, 0x17, 0x2a};
    static const unsigned char expected_2[16] = {0x3a, 0xd7, 0x7b, 0xb4, 0x0d, 0x7a, 0x36, 0x60,
                                                 0xa8, 0x9e, 0xca, 0xf3, 0x24, 0x66, 0xef, 0x97};
    struct public_codec *other = codec_of("31:" KEY_31);
    unsigned char block[16];

    public_codec_encrypt(codec, plain, block);
    CU_ASSERT_EQUAL(memcmp(block, expected, sizeof block), 0);
    public_codec_encrypt(other, plain_2, block);
    CU_ASSERT_EQUAL(memcmp(block, expected_2, sizeof block), 0);
    public_codec_free(other);
}

/* Computed with `openssl enc -aes-128-ecb -nopad` and Python. */
static const struct {
    unsigned version;
    enum public_of of;
    int64_t number;
    const char *text;
} known[] = {
    {1, PUBLIC_OF_SNOWFLAKE, INT64_C(0), "P12Z5J0D6MPKX3YB9BN470C8TXY8"},
    {1, PUBLIC_OF_SNOWFLAKE, INT64_C(1), "P102KTHJ1J8AMXSEP3THMVD976J3"},
    {1, PUBLIC_OF_SNOWFLAKE, INT64_C(187354526515220487), "P12W55BXB2E1BNQBCKRPGWAPDX8H"},
    {1, PUBLIC_OF_SNOWFLAKE, INT64_C(9007199254740991), "P152BZX2FYZ7ZKT4E8YMM3ZA2Y7C"},
    {1, PUBLIC_OF_SNOWFLAKE, INT64_C(9007199254740992), "P11PRS2SHGZQWRKYBPX6Q02B5Z54"},
    {1, PUBLIC_OF_SNOWFLAKE, INT64_C(9007199254740993), "P139NKD0GT2DD8HYVZ6RQDAGXYPQ"},
    {1, PUBLIC_OF_SNOWFLAKE, INT64_MAX, "P1738R7A8SZFKA0FX1Z8456W536Y"},
    {1, PUBLIC_OF_SEQUENCE, INT64_C(0), "P16X3RH9RW73KS1SDS6VCNH4SSFA"},
    {1, PUBLIC_OF_SEQUENCE, INT64_C(1), "P101BC6T980D2568C69F4M2C6JJF"},
    {1, PUBLIC_OF_SEQUENCE, INT64_MAX, "P14CH5272TGTBDGTS49NYMN6R4WT"},
    {31, PUBLIC_OF_SNOWFLAKE, INT64_C(187354526515220487), "PZ03STTXGTJY2CKGWJ87T5EHM45H"},
    {31, PUBLIC_OF_SEQUENCE, INT64_C(1), "PZ4WCVZ5YCVJJJ0H9GYGV61DD7VJ"},
};

static void known_numbers_go_both_ways(void) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct public_codec *by = known[i].version == 1 ? codec : codec_of("31:" KEY_31);
        char text[PUBLIC_ID_CHARS + 1];
        enum public_of of = PUBLIC_OF_SNOWFLAKE;
        int64_t number = -1;

        CU_ASSERT_EQUAL(public_codec_version(by), known[i].version);
        public_id_encode(by, known[i].of, known[i].number, text);
        CHECK_TEXT(text, known[i].text);
        /* By the codec with both keys, whichever encodes. */
        CHECK_ROW(text, decodes_by(codec, text, PUBLIC_ID_CHARS, &of, &number));
        CHECK_ROW(text, of == known[i].of && number == known[i].number);
        if (by != codec)
            public_codec_free(by);
    }
}

static void kinds_and_versions_have_texts_of_their_own(void) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (size_t j = 0; j < i; j++)
            CHECK_ROW(known[i].text, strcmp(known[i].text, known[j].text) != 0);
}

/* ---- B83, B86: one spelling ---- */

/* All that one character can be changed to, at each place. */
static void refuses_changes(const char *text) {
    char changed[PUBLIC_ID_CHARS];

    for (size_t at = 0; at < PUBLIC_ID_CHARS; at++) {
        memcpy(changed, text, sizeof changed);
        for (int byte = 0; byte < 256; byte++) {
            changed[at] = (char)byte;
            if (changed[at] != text[at])
                CU_ASSERT_FATAL(!decodes(changed, sizeof changed));
        }
    }
}

static void refuses_lengths(const char *text) {
    char longer[PUBLIC_ID_CHARS + 20], shorter[PUBLIC_ID_CHARS];

    memcpy(longer, text, PUBLIC_ID_CHARS);
    for (size_t i = PUBLIC_ID_CHARS; i < sizeof longer; i++) {
        longer[i] = alphabet[check_random_below(&chance, 32)];
        CU_ASSERT_FATAL(!decodes(longer, i + 1));
    }
    for (size_t len = 0; len < PUBLIC_ID_CHARS; len++)
        CU_ASSERT_FATAL(!decodes(text, len) && !decodes(text + PUBLIC_ID_CHARS - len, len));
    for (size_t at = 0; at < PUBLIC_ID_CHARS; at++) {
        memcpy(shorter, text, at);
        memcpy(shorter + at, text + at + 1, PUBLIC_ID_CHARS - at - 1);
        CU_ASSERT_FATAL(!decodes(shorter, PUBLIC_ID_CHARS - 1));
    }
}

/* Two characters that change places, lower case, and what Crockford's base32 reads beside. */
static void refuses_spellings(const char *text) {
    static const char *const alike[] = {"1I", "1L", "1i", "1l", "0O", "0o", "VU", "Vu"};
    char changed[PUBLIC_ID_CHARS];

    for (size_t at = 0; at + 1 < PUBLIC_ID_CHARS; at++) {
        memcpy(changed, text, sizeof changed);
        changed[at] = text[at + 1];
        changed[at + 1] = text[at];
        if (text[at] != text[at + 1])
            CU_ASSERT_FATAL(!decodes(changed, sizeof changed));
    }
    for (size_t i = 0; i < PUBLIC_ID_CHARS; i++)
        changed[i] = (char)(text[i] >= 'A' ? text[i] + ('a' - 'A') : text[i]);
    CU_ASSERT_FATAL(!decodes(changed, sizeof changed));
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        memcpy(changed, text, sizeof changed);
        for (size_t at = 0; at < PUBLIC_ID_CHARS; at++)
            if (changed[at] == alike[i][0])
                changed[at] = alike[i][1];
        if (memcmp(changed, text, sizeof changed) != 0)
            CU_ASSERT_FATAL(!decodes(changed, sizeof changed));
    }
}

static void only_the_one_spelling_decodes(void) {
    chance = check_random_seeded(__func__);
    for (int i = 0; i < TEXTS; i++) {
        enum public_of of = i % 2 ? PUBLIC_OF_SNOWFLAKE : PUBLIC_OF_SEQUENCE;
        char text[PUBLIC_ID_CHARS + 1];

        public_id_encode(codec, of, i < TEXTS / 2 ? random_number() : i, text);
        CU_ASSERT_FATAL(decodes(text, PUBLIC_ID_CHARS));
        refuses_changes(text);
        refuses_lengths(text);
        refuses_spellings(text);
    }
}

static void what_another_key_made_is_refused(void) {
    struct public_codec *other = codec_of("1:" KEY_31 "\n5:" KEY_1 "\n");
    char text[PUBLIC_ID_CHARS + 1];
    enum public_of of;
    int64_t number;

    for (int64_t i = 0; i < TEXTS; i++) {
        public_id_encode(codec, PUBLIC_OF_SNOWFLAKE, i, text);
        CU_ASSERT(!decodes_by(other, text, PUBLIC_ID_CHARS, &of, &number));
    }
    CHECK_TEXT(err.message,
               "must be a public ID as it was given out: this one was altered, or made "
               "under another key of version 1");
    text[1] = '7';
    CU_ASSERT(!decodes(text, PUBLIC_ID_CHARS));
    CHECK_TEXT(err.message,
               "must be a public ID under a key that is known here, got one of version 7");
    public_codec_free(other);
}

static void chance_is_refused(void) {
    chance = check_random_seeded(__func__);
    for (int i = 0; i < 1000000; i++) {
        struct id128 block;
        enum public_of of;
        int64_t number;

        for (size_t k = 0; k < sizeof block.bytes; k++)
            block.bytes[k] = (unsigned char)(check_random_u64(&chance) >> 56);
        CU_ASSERT_FATAL(public_id_open(codec, 1, &block, &of, &number, &err) == STATUS_INVALID);
    }
}

/* All that keeps chance away is that each byte beside the number is looked at. */
static void each_byte_beside_the_number_is_looked_at(void) {
    unsigned char plain[16];
    struct id128 block;
    enum public_of of;
    int64_t number;

    for (size_t i = 8; i < sizeof plain; i++) {
        memset(plain, 0, sizeof plain);
        plain[8] = PUBLIC_OF_SNOWFLAKE;
        public_codec_encrypt(codec, plain, block.bytes);
        CU_ASSERT_EQUAL(public_id_open(codec, 1, &block, &of, &number, &err), STATUS_OK);
        plain[i] ^= 0x80;
        public_codec_encrypt(codec, plain, block.bytes);
        CU_ASSERT_EQUAL(public_id_open(codec, 1, &block, &of, &number, &err), STATUS_INVALID);
    }
}

/* ---- B86: neighbours ---- */

static unsigned bits_that_differ(const struct id128 *a, const struct id128 *b,
                                 unsigned flips[static 128]) {
    unsigned n = 0;

    for (unsigned bit = 0; bit < 128; bit++) {
        unsigned differs = (a->bytes[bit / 8] ^ b->bytes[bit / 8]) >> (7 - bit % 8) & 1;

        flips[bit] += differs;
        n += differs;
    }
    return n;
}

/* Of a fair coin thrown 128 times, the number of heads has a deviation of 5.7 around 64; of one thrown
 * 10,000 times, of 50 around 5,000. */
static void neighbours_look_unrelated(int64_t from, int64_t step) {
    unsigned flips[128] = {0}, sum = 0, same = 0;
    char before[PUBLIC_ID_CHARS + 1], text[PUBLIC_ID_CHARS + 1];
    struct id128 last, block;
    unsigned version;

    public_id_encode(codec, PUBLIC_OF_SNOWFLAKE, from, before);
    CU_ASSERT_FATAL(public_id_read(before, PUBLIC_ID_CHARS, &version, &last));
    for (int i = 1; i <= 10000; i++) {
        unsigned n;

        public_id_encode(codec, PUBLIC_OF_SNOWFLAKE, from + i * step, text);
        CU_ASSERT_FATAL(public_id_read(text, PUBLIC_ID_CHARS, &version, &block));
        n = bits_that_differ(&last, &block, flips);
        CU_ASSERT_FATAL(n > 64 - 36 && n < 64 + 36);
        sum += n;
        for (size_t k = 3; k < PUBLIC_ID_CHARS; k++)
            same += text[k] == before[k];
        memcpy(before, text, sizeof before);
        last = block;
    }
    CU_ASSERT(sum > 639600 && sum < 640400);
    for (unsigned bit = 0; bit < 128; bit++)
        CU_ASSERT(flips[bit] > 4700 && flips[bit] < 5300);
    /* Of 25 characters of 5 bits, one in 32 is the same by chance: 7,812 in all, give or take 87. */
    CU_ASSERT(same > 7300 && same < 8330);
}

static void consecutive_numbers_have_unrelated_texts(void) {
    neighbours_look_unrelated(1, 1);
}

static void consecutive_milliseconds_have_unrelated_texts(void) {
    neighbours_look_unrelated(INT64_C(187354526515220487), 1 << 22);
}

/* ---- the file of keys ---- */

#define KEY_UPPER "2B7E151628AED2A6ABF7158809CF4F3C"

static const struct {
    const char *row, *text;
    size_t n;
    unsigned first;
} good[] = {
    {"one", "1:" KEY_1 "\n", 1, 1},
    {"without an end of line", "31:" KEY_1, 1, 31},
    {"the first encodes", "7:" KEY_1 "\n3:" KEY_31 "\n", 2, 7},
    {"upper case", "2:" KEY_UPPER, 1, 2},
    {"comments and blanks", "# public keys\n\n \t1:" KEY_1 " \r\n#2:" KEY_31 "\n", 1, 1},
};

static void each_line_is_a_key(void) {
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK_ROW(good[i].row, parse(good[i].text) == STATUS_OK);
        CHECK_ROW(good[i].row, keys.n == good[i].n && keys.keys[0].version == good[i].first);
    }
    parse("2:" KEY_UPPER);
    CU_ASSERT_EQUAL(memcmp(keys.keys[0].key,
                           "\x2b\x7e\x15\x16\x28\xae\xd2\xa6\xab\xf7\x15\x88\x09\xcf\x4f\x3c", 16),
                    0);
}

#define NO_VERSION "must be VERSION:KEY, the version 1..31 without leading zeros"

static const struct {
    const char *row, *text, *message;
} bad[] = {
    {"nothing", "", "it holds no key"},
    {"comments only", "#1:" KEY_1 "\n", "it holds no key"},
    {"a key without version", KEY_1, "line 1: " NO_VERSION},
    {"version 0", "0:" KEY_1, "line 1: " NO_VERSION},
    {"version 32", "\n32:" KEY_1, "line 2: " NO_VERSION},
    {"a leading zero", "01:" KEY_1, "line 1: " NO_VERSION},
    {"a sign", "+1:" KEY_1, "line 1: " NO_VERSION},
    {"a blank within", "1: " KEY_1, "line 1: a key is 32 hexadecimal digits"},
    {"31 digits", "1:000102030405060708090a0b0c0d0e0", "line 1: a key is 32 hexadecimal digits"},
    {"34 digits", "1:" KEY_1 "00", "line 1: a key is 32 hexadecimal digits"},
    {"AES-256", "1:" KEY_1 KEY_31, "line 1: a key is 32 hexadecimal digits"},
    {"no key", "1:", "line 1: a key is 32 hexadecimal digits"},
    {"no hexadecimal", "1:g00102030405060708090a0b0c0d0e0f",
     "line 1: a key is 32 hexadecimal digits"},
    {"a version twice", "1:" KEY_1 "\n1:" KEY_31, "line 2: version 1 is there twice"},
    {"a line twice", "1:" KEY_1 "\n1:" KEY_1, "line 2: version 1 is there twice"},
    {"a key twice", "3:" KEY_31 "\n\n4:" KEY_UPPER, "line 3: version 4 has the key of version 3"},
};

static void a_bad_line_is_named_and_its_text_is_not(void) {
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_ROW(bad[i].row, parse(bad[i].text) == STATUS_INVALID);
        CHECK_TEXT(err.message, bad[i].message);
    }
}

static void all_31_versions_have_room(void) {
    char text[PUBLIC_VERSION_MAX * 40], *at = text;

    for (unsigned i = 1; i <= PUBLIC_VERSION_MAX; i++)
        at += sprintf(at, "%u:%032x\n", i, i);
    CU_ASSERT_EQUAL(parse(text), STATUS_OK);
    CU_ASSERT_EQUAL(keys.n, PUBLIC_VERSION_MAX);
}

static void fingerprints_tell_sets_apart_and_not_their_order(void) {
    static const struct {
        const char *text, *fingerprint; /* computed with Python */
    } rows[] = {
        {"1:" KEY_1, "3b7249768076bbfb"},
        {"1:" KEY_1 "\n2:" KEY_31, "5fc4fc9d23812084"},
        {"2:" KEY_31 "\n1:" KEY_1, "5fc4fc9d23812084"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char fingerprint[PUBLIC_FINGERPRINT_CHARS + 1];

        CU_ASSERT_EQUAL_FATAL(parse(rows[i].text), STATUS_OK);
        public_keys_fingerprint(&keys, fingerprint);
        CHECK_TEXT(fingerprint, rows[i].fingerprint);
    }
}

static void equal_keys_are_in_the_same_order_too(void) {
    struct public_keys other;

    parse("1:" KEY_1 "\n2:" KEY_31);
    other = keys;
    CU_ASSERT(public_keys_equal(&keys, &other));
    parse("2:" KEY_31 "\n1:" KEY_1);
    CU_ASSERT(!public_keys_equal(&keys, &other));
    parse("1:" KEY_1);
    CU_ASSERT(!public_keys_equal(&keys, &other));
}

static CU_TestInfo ids[] = {
    CHECK_TEST(aes_is_that_of_fips_197),
    CHECK_TEST(known_numbers_go_both_ways),
    CHECK_TEST(kinds_and_versions_have_texts_of_their_own),
    CHECK_TEST(only_the_one_spelling_decodes),
    CHECK_TEST(what_another_key_made_is_refused),
    CHECK_TEST(chance_is_refused),
    CHECK_TEST(each_byte_beside_the_number_is_looked_at),
    CHECK_TEST(consecutive_numbers_have_unrelated_texts),
    CHECK_TEST(consecutive_milliseconds_have_unrelated_texts),
    CU_TEST_INFO_NULL,
};
static CU_TestInfo files[] = {
    CHECK_TEST(each_line_is_a_key),
    CHECK_TEST(a_bad_line_is_named_and_its_text_is_not),
    CHECK_TEST(all_31_versions_have_room),
    CHECK_TEST(fingerprints_tell_sets_apart_and_not_their_order),
    CHECK_TEST(equal_keys_are_in_the_same_order_too),
    CU_TEST_INFO_NULL,
};
CHECK_MAIN({"public IDs", NULL, NULL, given_two_keys, free_codec, ids},
           {"a file of public keys", NULL, NULL, NULL, NULL, files})
