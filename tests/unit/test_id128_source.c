#include "common/id128_source.h"

#include <pthread.h>
#include <stdbool.h>

#include "common/random.h"
#include "tests/support/check.h"

#define NOW_MS UINT64_C(1767225600000)
#define THREADS 4
#define EACH 100000 /* IDs of each thread */
#define BATCH 7

static struct id128_source *source;
static struct error err;

static void given_a_source(void) {
    source = id128_source_new(random_bytes, &err);
    CU_ASSERT_PTR_NOT_NULL_FATAL(source);
}

static void then_free_it(void) {
    id128_source_free(source);
}

/* ---- threads ---- */

struct taker {
    pthread_t thread;
    enum id128_kind kind;
    struct id128 *ids;
    bool ok;
};

/* Its clock goes on by a millisecond now and then, and back at times. */
static void *take_many(void *arg) {
    struct taker *taker = arg;
    struct error why;
    size_t n = 0;
    uint64_t round = 0;

    taker->ok = true;
    while (n < EACH) {
        size_t want = EACH - n < BATCH ? EACH - n : BATCH, have;
        uint64_t now_ms = NOW_MS + round / 40 - (round % 1000 == 999 ? 3600000 : 0);
        enum status status = id128_source_take(source, taker->kind, now_ms, taker->ids + n, want,
                                               &have, &why);

        if (status != STATUS_OK && status != STATUS_BUSY)
            taker->ok = false;
        for (size_t i = n + 1; i < n + have && taker->kind != ID128_UUIDV4; i++) {
            if (memcmp(&taker->ids[i - 1], &taker->ids[i], sizeof *taker->ids) >= 0)
                taker->ok = false;
        }
        n += have;
        round++;
    }
    return NULL;
}

static int by_value(const void *a, const void *b) {
    return memcmp(a, b, sizeof(struct id128));
}

/* Within a thread they increase (v7 and ULID), over all threads none comes twice. */
static void check_kind(enum id128_kind kind) {
    struct id128 *all = calloc(THREADS * EACH, sizeof *all);
    struct taker takers[THREADS];

    CU_ASSERT_PTR_NOT_NULL_FATAL(all);
    for (size_t t = 0; t < THREADS; t++) {
        takers[t] = (struct taker){.kind = kind, .ids = all + t * EACH};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&takers[t].thread, NULL, take_many, &takers[t]), 0);
    }
    for (size_t t = 0; t < THREADS; t++) {
        pthread_join(takers[t].thread, NULL);
        CU_ASSERT(takers[t].ok);
        for (size_t i = 1; i < EACH && kind != ID128_UUIDV4; i++)
            CU_ASSERT_FATAL(memcmp(&takers[t].ids[i - 1], &takers[t].ids[i], sizeof *all) < 0);
    }
    qsort(all, THREADS * EACH, sizeof *all, by_value);
    for (size_t i = 1; i < THREADS * EACH; i++)
        CU_ASSERT_FATAL(memcmp(&all[i - 1], &all[i], sizeof *all) != 0);
    free(all);
}

static void threads_take_uuidv4s_that_never_repeat(void) {
    check_kind(ID128_UUIDV4);
}

static void threads_take_uuidv7s_that_increase(void) {
    check_kind(ID128_UUIDV7);
}

static void threads_take_ulids_that_increase(void) {
    check_kind(ID128_ULID);
}

/* ---- bits ---- */

#define VALUES 200000

/* Version and variant of a UUID; -1 for a bit that is drawn. */
static int fixed_bit(enum id128_kind kind, unsigned bit) {
    if (kind == ID128_ULID)
        return -1;
    if (bit >= 48 && bit < 52)
        return (kind == ID128_UUIDV4 ? 4 : 7) >> (51 - bit) & 1;
    return bit == 64 ? 1 : bit == 65 ? 0 : -1;
}

/* Of the kernel's own randomness, one a millisecond: where the clock gives the first 48 bits they are its. */
static void fixed_bits_are_fixed_and_drawn_bits_are_even(void) {
    for (enum id128_kind kind = 0; kind < ID128_KINDS; kind++) {
        unsigned set[128] = {0};

        for (uint64_t i = 0; i < VALUES; i++) {
            struct id128 id;
            size_t have;

            CU_ASSERT_FATAL(id128_source_take(source, kind, NOW_MS + i, &id, 1, &have, &err) ==
                            STATUS_OK);
            CU_ASSERT_FATAL(kind == ID128_UUIDV4 || id128_time_ms(&id) == NOW_MS + i);
            for (unsigned bit = 0; bit < 128; bit++)
                set[bit] += id.bytes[bit / 8] >> (7 - bit % 8) & 1;
        }
        for (unsigned bit = kind == ID128_UUIDV4 ? 0 : 48; bit < 128; bit++) {
            int fixed = fixed_bit(kind, bit);
            bool ok = fixed >= 0 ? set[bit] == (fixed ? VALUES : 0)
                                 : set[bit] > VALUES * 0.48 && set[bit] < VALUES * 0.52;

            if (!ok)
                printf("\n    kind %d: bit %u is set %u times of %d", kind, bit, set[bit], VALUES);
            CU_ASSERT(ok);
        }
    }
}

/* ---- what can go wrong ---- */

static enum status no_randomness(void *buf, size_t len, struct error *why) {
    (void)buf;
    (void)len;
    return error_set(why, STATUS_SYSTEM, "getrandom: Function not implemented");
}

static void without_randomness_there_is_no_id_of_any_kind(void) {
    struct id128_source *dry = id128_source_new(no_randomness, &err);

    CU_ASSERT_PTR_NOT_NULL_FATAL(dry);
    for (enum id128_kind kind = 0; kind < ID128_KINDS; kind++) {
        struct id128 id;
        size_t have = 9;

        CU_ASSERT_EQUAL(id128_source_take(dry, kind, NOW_MS, &id, 1, &have, &err), STATUS_SYSTEM);
        CU_ASSERT_EQUAL(have, 0);
        CHECK_TEXT(err.message, "getrandom: Function not implemented");
    }
    id128_source_free(dry);
}

static enum status all_ones(void *buf, size_t len, struct error *why) {
    (void)why;
    memset(buf, 0xff, len);
    return STATUS_OK;
}

static void a_spent_millisecond_gives_what_it_has_and_says_busy(void) {
    struct id128_source *spent = id128_source_new(all_ones, &err);

    CU_ASSERT_PTR_NOT_NULL_FATAL(spent);
    for (enum id128_kind kind = ID128_UUIDV7; kind < ID128_KINDS; kind++) {
        struct id128 ids[3];
        size_t have;

        CU_ASSERT_EQUAL(id128_source_take(spent, kind, NOW_MS, ids, 3, &have, &err), STATUS_BUSY);
        CU_ASSERT_EQUAL(have, 1);
        CU_ASSERT_EQUAL(id128_source_take(spent, kind, NOW_MS + 1, ids + 1, 1, &have, &err),
                        STATUS_OK);
        CU_ASSERT_EQUAL(have, 1);
        CU_ASSERT(memcmp(&ids[1], &ids[0], sizeof *ids) > 0);
    }
    id128_source_free(spent);
}

static void a_clock_that_went_back_shows_as_ahead(void) {
    for (enum id128_kind kind = ID128_UUIDV7; kind < ID128_KINDS; kind++) {
        struct id128 id;
        size_t have;

        CU_ASSERT_EQUAL(id128_source_ahead_ms(source, kind, NOW_MS), 0);
        CU_ASSERT_EQUAL(id128_source_take(source, kind, NOW_MS, &id, 1, &have, &err), STATUS_OK);
        CU_ASSERT_EQUAL(id128_source_ahead_ms(source, kind, NOW_MS), 0);
        CU_ASSERT_EQUAL(id128_source_ahead_ms(source, kind, NOW_MS - 1500), 1500);
    }
}

static CU_TestInfo rules[] = {
    CHECK_TEST(threads_take_uuidv4s_that_never_repeat),
    CHECK_TEST(threads_take_uuidv7s_that_increase),
    CHECK_TEST(threads_take_ulids_that_increase),
    CHECK_TEST(fixed_bits_are_fixed_and_drawn_bits_are_even),
    CHECK_TEST(without_randomness_there_is_no_id_of_any_kind),
    CHECK_TEST(a_spent_millisecond_gives_what_it_has_and_says_busy),
    CHECK_TEST(a_clock_that_went_back_shows_as_ahead),
    CU_TEST_INFO_NULL,
};
CHECK_MAIN({"id128_source", NULL, NULL, given_a_source, then_free_it, rules})
