#include "common/uuid.h"

#include "tests/support/check.h"

#define NOW_MS UINT64_C(1645557742000) /* RFC 9562, A.6 */
#define VALUES 200000

static struct uuid7 gen;
static struct check_random chance;

static void given_a_fresh_generator(void) {
    gen = (struct uuid7){0};
}

static void draw(unsigned char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(check_random_u64(&chance) >> 56);
}

static struct id128 next_at(uint64_t now_ms) {
    unsigned char random[10];
    struct id128 id = {{0}};

    draw(random, sizeof random);
    CU_ASSERT_EQUAL_FATAL(uuid7_next(&gen, now_ms, random, &id), STATUS_OK);
    return id;
}

static bool above(const struct id128 *a, const struct id128 *b) {
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) > 0;
}

/* ---- making them ---- */

static void version_4_keeps_what_the_rfc_keeps_of_its_random_bytes(void) {
    /* A.3: the raw bytes, and the UUID made of them. */
    static const unsigned char raw[16] = {0x91, 0x91, 0x08, 0xF7, 0x52, 0xD1, 0x33, 0x20,
                                          0x5B, 0xAC, 0xF8, 0x47, 0xDB, 0x41, 0x48, 0xA8};
    struct id128 id = uuid_v4(raw);
    char text[UUID_TEXT_LEN + 1];

    uuid_format(&id, text);
    CHECK_TEXT(text, "919108f7-52d1-4320-9bac-f847db4148a8");
}

static void version_7_is_laid_out_as_in_the_rfc(void) {
    /* A.6, whose rand_a and top 20 bits of rand_b are the counter here: 0xCC3, 0x63137. */
    static const unsigned char random[10] = {0xCC, 0x36, 0x31, 0x37, 0xfc,
                                             0x0C, 0x0C, 0x07, 0x39, 0x8F};
    struct id128 id;
    char text[UUID_TEXT_LEN + 1];

    CU_ASSERT_EQUAL(uuid7_next(&gen, NOW_MS, random, &id), STATUS_OK);
    uuid_format(&id, text);
    CHECK_TEXT(text, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
}

/* How often each of the 128 bits is set. */
static void count_bits(const struct id128 *id, unsigned counts[static 128]) {
    for (int bit = 0; bit < 128; bit++)
        counts[bit] += id->bytes[bit / 8] >> (7 - bit % 8) & 1;
}

/* Version and variant; -1 for the others. */
static int fixed_bit(int bit, int version) {
    if (bit >= 48 && bit < 52)
        return version >> (51 - bit) & 1;
    return bit == 64 ? 1 : bit == 65 ? 0 : -1;
}

static void check_bits(const unsigned counts[static 128], int version, int random_from) {
    for (int bit = random_from; bit < 128; bit++) {
        int fixed = fixed_bit(bit, version);
        bool ok = fixed >= 0 ? counts[bit] == (fixed ? VALUES : 0)
                             : counts[bit] > VALUES * 0.48 && counts[bit] < VALUES * 0.52;

        if (!ok)
            printf("\n    bit %d is set %u times of %d", bit, counts[bit], VALUES);
        CU_ASSERT(ok);
    }
}

static void fixed_bits_are_fixed_and_random_bits_are_even(void) {
    unsigned v4[128] = {0}, v7[128] = {0};

    chance = check_random_seeded(__func__);
    for (uint64_t i = 0; i < VALUES; i++) {
        unsigned char random[16];
        struct id128 id;

        draw(random, sizeof random);
        id = uuid_v4(random);
        count_bits(&id, v4);
        id = next_at(NOW_MS + i);
        count_bits(&id, v7);
        CU_ASSERT_EQUAL_FATAL(id128_time_ms(&id), NOW_MS + i);
    }
    check_bits(v4, 4, 0);
    check_bits(v7, 7, 48);
}

static void each_is_above_the_one_before_whatever_the_clock_does(void) {
    static const int64_t steps[] = {0, 0, 0, 1, -1, 0, -1000, 5, -3600000, 0, 86400000, -11000, 1};
    int64_t now_ms = (int64_t)NOW_MS;
    struct id128 last;

    chance = check_random_seeded(__func__);
    last = next_at(NOW_MS);
    for (int i = 0; i < 300000; i++) {
        struct id128 id;

        now_ms += steps[check_random_below(&chance, sizeof steps / sizeof *steps)] * (i % 50 == 0);
        id = next_at((uint64_t)now_ms);
        CU_ASSERT_FATAL(above(&id, &last));
        CU_ASSERT_FATAL(uuid_version(&id) == 7);
        last = id;
    }
}

static void a_spent_counter_waits_for_the_next_millisecond(void) {
    static const unsigned char random[10] = {0xff, 0xff, 0xff, 0xfe, 1, 2, 3, 4, 5, 6};
    struct id128 first, second, third;

    CU_ASSERT_EQUAL(uuid7_next(&gen, NOW_MS, random, &first), STATUS_OK);
    CU_ASSERT_EQUAL(uuid7_next(&gen, NOW_MS, random, &second), STATUS_OK);
    CU_ASSERT(above(&second, &first));
    CU_ASSERT_EQUAL(uuid7_next(&gen, NOW_MS, random, &third), STATUS_BUSY);
    CU_ASSERT_EQUAL(uuid7_next(&gen, NOW_MS, random, &third), STATUS_BUSY);
    CU_ASSERT_EQUAL(uuid7_next(&gen, NOW_MS + 1, random, &third), STATUS_OK);
    CU_ASSERT(above(&third, &second));
}

static void a_spent_counter_goes_ahead_of_a_clock_that_is_behind(void) {
    static const unsigned char random[10] = {0xff, 0xff, 0xff, 0xff};
    struct id128 first, second;

    CU_ASSERT_EQUAL(uuid7_next(&gen, NOW_MS, random, &first), STATUS_OK);
    CU_ASSERT_EQUAL(uuid7_next(&gen, NOW_MS - 3600000, random, &second), STATUS_OK);
    CU_ASSERT(above(&second, &first));
    CU_ASSERT_EQUAL(id128_time_ms(&second), NOW_MS + 1);
}

static void a_time_that_48_bits_do_not_hold_is_refused(void) {
    static const unsigned char random[10] = {0xff, 0xff, 0xff, 0xff};
    struct id128 id;

    CU_ASSERT_EQUAL(uuid7_next(&gen, ID128_TIME_MAX_MS + 1, random, &id), STATUS_CLOCK_RANGE);
    CU_ASSERT_EQUAL(uuid7_next(&gen, ID128_TIME_MAX_MS, random, &id), STATUS_OK);
    CU_ASSERT_EQUAL(uuid7_next(&gen, NOW_MS, random, &id), STATUS_CLOCK_RANGE);
}

/* ---- text ---- */

static const struct {
    const char *text, *canonical;
} accepted[] = {
    {"017F22E2-79B0-7CC3-98C4-DC0C0C07398F", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"},
    {"017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"},
    {"urn:uuid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"},
    {"URN:UUID:017f22e2-79b0-7CC3-98c4-dc0c0c07398f", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"},
    {"{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"},
    {"017f22e279b07cc398c4dc0c0c07398f", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"},
    {"00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000"},
    {"FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "ffffffff-ffff-ffff-ffff-ffffffffffff"},
};

static void the_usual_spellings_are_read_and_written_canonically(void) {
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        char text[UUID_TEXT_LEN + 1] = "";
        struct id128 id;
        struct error err;

        CHECK_ROW(accepted[i].text,
                  uuid_parse(accepted[i].text, strlen(accepted[i].text), &id, &err) == STATUS_OK);
        uuid_format(&id, text);
        CHECK_TEXT(text, accepted[i].canonical);
    }
}

static const char *const refused[] = {
    "",
    "0",
    "-017f22e2-79b0-7cc3-98c4-dc0c0c07398f-",
    "\"017f22e2-79b0-7cc3-98c4-dc0c0c07398f\"",
    "017f22e2-79b0-7cc3-98c4-dc0c0c07398f0",
    "017f22e2-79b0-7cc3-98c4-dc0c0c07398",
    "017f22e2-79b0-7cc3-98c4-dc0c0c07398f ",
    "017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
    "017f22e279-b0-7cc3-98c4-dc0c0c07398f",
    "017f22e2-79b0-7cc398c4-dc0c-0c07398f",
    "53-8aeb5878a9-4d9b-b0dfc-ec2f0e7f8f8",
    "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
    "(017f22e2-79b0-7cc3-98c4-dc0c0c07398f)",
    "{017f22e279b07cc398c4dc0c0c07398f}",
    "urn:uuid:017f22e279b07cc398c4dc0c0c07398f",
    "urn-uuid-017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
    "017f22e279b07cc398c4dc0c0c07398",
    "0x17f22e279b07cc398c4dc0c0c07398f",
    "017f22e2+79b0+7cc3+98c4+dc0c0c07398f",
};

static void everything_else_is_refused(void) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct id128 id = {{42}};
        struct error err;

        CHECK_ROW(refused[i],
                  uuid_parse(refused[i], strlen(refused[i]), &id, &err) == STATUS_INVALID);
        CHECK_ROW(refused[i], id.bytes[0] == 42);
        CHECK_ROW(refused[i], strstr(err.message, "must be a UUID") != NULL);
    }
}

/* ---- what is in one ---- */

static const struct {
    const char *text;
    unsigned version;
    uint64_t ms; /* 0: none */
} contents[] = {
    {"C232AB00-9414-11EC-B3C8-9F6BDECED846", 1, 1645557742000},
    {"5df41881-3aed-3515-88a7-2f4a814cf09e", 3, 0},
    {"919108f7-52d1-4320-9bac-f847db4148a8", 4, 0},
    {"2ed6657d-e927-568b-95e1-2665a8aea6a2", 5, 0},
    {"1EC9414C-232A-6B00-B3C8-9F6BDECED846", 6, 1645557742000},
    {"017F22E2-79B0-7CC3-98C4-DC0C0C07398F", 7, 1645557742000},
    {"2489E9AD-2EE2-8E00-8EC9-32D5F69181C0", 8, 0},
    {"5c146b14-3c52-8afd-938a-375d0df1fbf6", 8, 0},
    {"018e3f04-0218-7f62-8f86-6a3cfe5a42fb", 7, 1710454211096},
    {"018a6bae-69c8-7071-a5a9-6d5305fe0f9c", 7, 1694023707080},
    {"019303ac-7a6a-7783-a247-69023f93a8bb", 7, 1730933455466},
    {"018b5f73-f969-7731-a968-c0564f9b81ed", 7, 1698113517929},
    {"018e091e-f50e-7cdc-ab81-3a229244f547", 7, 1709550007566},
    {"065e5a96-172c-771e-8000-bbac546447e1", 7, 7002316478252}, /* an early draft's layout */
    {"00000000-0000-0000-0000-000000000000", 0, 0},
    {"FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", 0, 0},
    {"123e4567-e89b-12d3-c456-426614174000", 0, 0}, /* another variant */
    {"123e4567-e89b-12d3-f456-426614174000", 0, 0},
    {"123e4567-e89b-12d3-0456-426614174000", 0, 0},
    {"123e4567-e89b-02d3-8456-426614174000", 0, 0}, /* no such version */
    {"123e4567-e89b-92d3-8456-426614174000", 0, 0},
    {"123e4567-e89b-f2d3-8456-426614174000", 0, 0},
    {"00000000-0000-1000-8000-000000000000", 1, 0}, /* 1582 */
};

static void versions_and_times_are_those_of_the_rfc(void) {
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        struct id128 id;
        struct error err;
        uint64_t ms = 0;
        bool has_time;

        CU_ASSERT_EQUAL_FATAL(uuid_parse(contents[i].text, UUID_TEXT_LEN, &id, &err), STATUS_OK);
        has_time = uuid_time_ms(&id, &ms);
        CHECK_ROW(contents[i].text, uuid_version(&id) == contents[i].version);
        CHECK_ROW(contents[i].text, has_time == (contents[i].ms != 0));
        CHECK_ROW(contents[i].text, ms == contents[i].ms);
    }
}

static void nil_and_max_are_told_by_all_their_bits(void) {
    struct id128 nil = {{0}}, max;

    memset(&max, 0xff, sizeof max);
    CU_ASSERT(uuid_is_nil(&nil) && !uuid_is_max(&nil));
    CU_ASSERT(uuid_is_max(&max) && !uuid_is_nil(&max));
    nil.bytes[15] = 1;
    max.bytes[15] = 0xfe;
    CU_ASSERT(!uuid_is_nil(&nil) && !uuid_is_max(&max));
}

static CU_TestInfo making[] = {
    CHECK_TEST(version_4_keeps_what_the_rfc_keeps_of_its_random_bytes),
    CHECK_TEST(version_7_is_laid_out_as_in_the_rfc),
    CHECK_TEST(fixed_bits_are_fixed_and_random_bits_are_even),
    CHECK_TEST(each_is_above_the_one_before_whatever_the_clock_does),
    CHECK_TEST(a_spent_counter_waits_for_the_next_millisecond),
    CHECK_TEST(a_spent_counter_goes_ahead_of_a_clock_that_is_behind),
    CHECK_TEST(a_time_that_48_bits_do_not_hold_is_refused),
    CU_TEST_INFO_NULL,
};
static CU_TestInfo text[] = {
    CHECK_TEST(the_usual_spellings_are_read_and_written_canonically),
    CHECK_TEST(everything_else_is_refused),
    CHECK_TEST(versions_and_times_are_those_of_the_rfc),
    CHECK_TEST(nil_and_max_are_told_by_all_their_bits),
    CU_TEST_INFO_NULL,
};
CHECK_MAIN({"making UUIDs", NULL, NULL, given_a_fresh_generator, NULL, making},
           {"reading UUIDs", NULL, NULL, NULL, NULL, text})
