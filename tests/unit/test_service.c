#include "worker/service.h"

#include <sys/wait.h>
#include <unistd.h>

#include "common/allocate.h"
#include "tests/support/check.h"

#define START_MS (SNOWFLAKE_EPOCH_MS + 1000000)
#define PER_MS 4096u
#define CLAIM_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define CLAIM_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define WAITED_OUT 10u /* --max-backward-wait, ms */

static struct service service;
static uint64_t now_ms, wait_until_ms;
static struct service_error err;

static struct hold_install install(const char *claim, bool continues, uint64_t used_up_ms,
                                   uint64_t limit_ms) {
    struct hold_install made = {
        .continues = continues,
        .machine_id = 7,
        .epoch_ms = SNOWFLAKE_EPOCH_MS,
        .used_up_ms = used_up_ms,
        .limit_ms = limit_ms,
    };

    strcpy(made.claim, claim);
    strcpy(made.era, "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee");
    return made;
}

static void order_install(const char *claim, bool continues, uint64_t used_up_ms,
                          uint64_t limit_ms) {
    struct hold_install order = install(claim, continues, used_up_ms, limit_ms);

    service_install(&service, &order);
}

static void given_no_generation(void) {
    service_init(&service, WAITED_OUT, SNOWFLAKE_START_ZERO);
    now_ms = START_MS;
    err = (struct service_error){0};
}

static void given_machine_7_granted_for_10_s(void) {
    given_no_generation();
    order_install(CLAIM_A, false, START_MS - 1, START_MS + 10000);
}

/* A source that has only so many of a millisecond, and breaks when told to. */
static struct {
    size_t left;
    enum status status;
} fake;

static enum status take_fake(void *source, enum id_kind kind, uint64_t at_ms, struct id128 *ids,
                             size_t want, size_t *have, struct error *why) {
    (void)source, (void)kind;
    for (*have = 0; *have < want && fake.left > 0; ++*have, fake.left--) {
        memset(&ids[*have], 0, sizeof *ids);
        id128_set_time_ms(&ids[*have], at_ms);
    }
    if (*have == want)
        return STATUS_OK;
    return error_set(why, fake.status, "getrandom: it is broken");
}

static void given_a_source_of(size_t left, enum status then) {
    given_no_generation();
    fake.left = left;
    fake.status = then;
    service.wide.take = take_fake;
}

static enum service_outcome take(struct service_ids *ids) {
    return service_take(&service, now_ms, ids, &wait_until_ms, &err);
}

/* One ID, or -1 with *outcome saying why. */
static int64_t take_one(enum service_outcome *outcome) {
    struct service_ids ids = {.want = 1};
    int64_t id;

    *outcome = take(&ids);
    id = *outcome == SERVICE_DONE ? ids.runs[0].first : -1;
    service_ids_free(&ids);
    return id;
}

static int64_t one(void) {
    enum service_outcome outcome;
    int64_t id = take_one(&outcome);

    CU_ASSERT_EQUAL(outcome, SERVICE_DONE);
    return id;
}

static void check_refused(uint64_t retry_after_ms, const char *message) {
    enum service_outcome outcome;

    take_one(&outcome);
    CU_ASSERT_EQUAL(outcome, SERVICE_FAILED);
    CHECK_TEXT(err.code, "UNAVAILABLE");
    CHECK_TEXT(err.message, message);
    CU_ASSERT_EQUAL(err.retry_after_ms, retry_after_ms);
    CU_ASSERT_FALSE(service_ready(&service, now_ms, &err));
}

static struct snowflake_parts parts(int64_t id) {
    return snowflake_decode(id, SNOWFLAKE_EPOCH_MS);
}

/* Takes want IDs while the clock goes on by a millisecond whenever it is told to wait; checks that
 * they increase and that none is dated otherwise than it was taken. */
static void check_batch(uint32_t want) {
    struct service_ids ids = {.want = want};
    enum service_outcome outcome;
    int64_t last = 0;
    size_t runs = 0;

    while ((outcome = take(&ids)) == SERVICE_WAIT) {
        for (; runs < ids.n_runs; runs++)
            CU_ASSERT_EQUAL(parts(ids.runs[runs].first).timestamp_ms, now_ms);
        CU_ASSERT_EQUAL(wait_until_ms, now_ms + 1);
        now_ms++;
    }
    CU_ASSERT_EQUAL(outcome, SERVICE_DONE);
    CU_ASSERT_EQUAL(ids.have, want);
    for (size_t i = 0; i < ids.n_runs; i++) {
        int64_t end = ids.runs[i].first + ids.runs[i].count - 1;

        CU_ASSERT(ids.runs[i].first > last);
        CU_ASSERT_EQUAL(parts(ids.runs[i].first).timestamp_ms, parts(end).timestamp_ms);
        last = end;
    }
    service_ids_free(&ids);
}

/* --- issuing --- */

static void the_first_id_is_dated_after_what_was_used_up(void) {
    struct snowflake_parts first = parts(one());

    CU_ASSERT_EQUAL(first.timestamp_ms, START_MS);
    CU_ASSERT_EQUAL(first.machine_id, 7);
    CU_ASSERT_EQUAL(first.sequence, 0);
}

/* B20, B24 */
static void a_batch_goes_on_in_the_next_millisecond_with_its_time(void) {
    static const uint32_t sizes[] = {1, 4095, 4096, 4097, 8192, 10000};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_batch(sizes[i]);
        now_ms++;
    }
}

static void id_4097_of_a_millisecond_carries_a_later_time(void) {
    struct service_ids ids = {.want = PER_MS + 1};

    CU_ASSERT_EQUAL(take(&ids), SERVICE_WAIT);
    CU_ASSERT_EQUAL(ids.have, PER_MS);
    CU_ASSERT_EQUAL(take(&ids), SERVICE_WAIT); /* the same millisecond has nothing more */
    CU_ASSERT_EQUAL(ids.have, PER_MS);
    now_ms = wait_until_ms + 2; /* woken late */
    CU_ASSERT_EQUAL(take(&ids), SERVICE_DONE);
    CU_ASSERT_EQUAL(parts(ids.runs[ids.n_runs - 1].first).timestamp_ms, START_MS + 3);
    CU_ASSERT_EQUAL(parts(ids.runs[ids.n_runs - 1].first).sequence, 0);
    service_ids_free(&ids);
}

static void nothing_is_issued_after_the_limit(void) {
    now_ms = START_MS + 10000;
    one();
    now_ms++;
    check_refused(1000, "the time granted to machine ID 7 ended 1 ms ago and no more was granted");
    service_raise(&service, CLAIM_A, now_ms);
    one();
}

static void a_batch_that_meets_the_limit_fails_as_a_whole(void) {
    struct service_ids ids = {.want = PER_MS + 1};

    now_ms = START_MS + 10000;
    CU_ASSERT_EQUAL(take(&ids), SERVICE_WAIT);
    now_ms = wait_until_ms;
    CU_ASSERT_EQUAL(take(&ids), SERVICE_FAILED);
    service_ids_free(&ids);
}

static void without_a_generation_it_is_unavailable(void) {
    given_no_generation();
    check_refused(1000, "no machine ID yet");
}

/* --- the clock --- */

/* B10 */
static void a_tick_back_does_not_bring_sequence_numbers_again(void) {
    enum service_outcome outcome;
    int64_t last = 0;

    for (int i = 0; i < 10; i++)
        last = one();
    now_ms--;
    take_one(&outcome);
    CU_ASSERT_EQUAL(outcome, SERVICE_WAIT);
    CU_ASSERT_EQUAL(wait_until_ms, START_MS);
    now_ms++;
    for (int i = 0; i < 10; i++)
        CU_ASSERT_EQUAL(one(), last + i + 1);
}

static const struct {
    const char *row;
    uint64_t back_ms;
    enum service_outcome outcome;
    const char *message;
} steps_back[] = {
    {"1 ms", 1, SERVICE_WAIT, ""},
    {"5 ms", 5, SERVICE_WAIT, ""},
    {"as much as is waited out", 10, SERVICE_WAIT, ""},
    {"1 ms more", 11, SERVICE_FAILED, "clock is 11 ms behind the last ID"},
    {"50 ms", 50, SERVICE_FAILED, "clock is 50 ms behind the last ID"},
    {"5 s", 5000, SERVICE_FAILED, "clock is 5000 ms behind the last ID"},
    {"15 min", 900000, SERVICE_FAILED, "clock is 900000 ms behind the last ID"},
};

/* B11 */
static void small_steps_back_are_waited_out_and_larger_ones_refused(void) {
    for (size_t i = 0; i < sizeof steps_back / sizeof steps_back[0]; i++) {
        struct service_ids ids = {.want = 1};
        int64_t before;

        given_machine_7_granted_for_10_s();
        before = one();
        now_ms -= steps_back[i].back_ms;
        CHECK_ROW(steps_back[i].row, take(&ids) == steps_back[i].outcome && ids.have == 0);
        if (steps_back[i].outcome == SERVICE_WAIT)
            CHECK_ROW(steps_back[i].row, wait_until_ms == START_MS);
        else
            CHECK_ROW(steps_back[i].row, strcmp(err.message, steps_back[i].message) == 0 &&
                                             err.retry_after_ms == steps_back[i].back_ms);
        CHECK_ROW(steps_back[i].row,
                  service_ready(&service, now_ms, &err) == (steps_back[i].outcome == SERVICE_WAIT));
        now_ms = START_MS;
        CHECK_ROW(steps_back[i].row, take(&ids) == SERVICE_DONE && ids.runs[0].first > before);
        service_ids_free(&ids);
    }
}

static void behind_a_used_up_millisecond_it_waits_for_the_next(void) {
    enum service_outcome outcome;

    check_batch(PER_MS);
    now_ms -= 3;
    take_one(&outcome);
    CU_ASSERT_EQUAL(outcome, SERVICE_WAIT);
    CU_ASSERT_EQUAL(wait_until_ms, START_MS + 1);
    now_ms -= 8;
    check_refused(12, "clock is 11 ms behind the last ID");
}

/* ---- bounded uncertainty ---- */

static void tell_error(bool knows, int64_t error_ns) {
    service_tell_clock(&service, &(struct service_clock){.bounded = true,
                                                         .refuses = !knows || error_ns > 250000000,
                                                         .knows_error = knows,
                                                         .error_ns = error_ns,
                                                         .max_error_ns = 250000000});
}

static void an_uncertain_clock_is_refused(void) {
    int64_t before = one();

    tell_error(false, 0);
    check_refused(1000, "the clock's error is not known");
    tell_error(true, 250000001);
    check_refused(1000, "the clock may be 250.000 ms off, above --max-clock-error of 250.000 ms");
    tell_error(true, 250000000);
    CU_ASSERT(one() > before);
}

static const struct {
    const char *row;
    int64_t error_ns;
    uint64_t error_ms; /* on either side */
} errors[] = {
    {"none", 0, 0},
    {"a nanosecond", 1, 1},
    {"a millisecond", 1000000, 1},
    {"a little more", 1000001, 2},
    {"a quarter of a second", 250000000, 250},
};

/* The time of issue lies within the millisecond that the ID names, give or take the error. */
static void an_answer_carries_the_interval_of_true_time(void) {
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        struct service_ids ids = {.want = PER_MS + 1}; /* of two milliseconds */

        given_machine_7_granted_for_10_s();
        tell_error(true, errors[i].error_ns);
        CHECK_ROW(errors[i].row, take(&ids) == SERVICE_WAIT);
        now_ms++;
        CHECK_ROW(errors[i].row, take(&ids) == SERVICE_DONE && ids.bounded);
        CHECK_ROW(errors[i].row, ids.last_ms == START_MS + 1);
        CHECK_ROW(errors[i].row, ids.earliest_ms == START_MS - errors[i].error_ms);
        CHECK_ROW(errors[i].row, ids.latest_ms == START_MS + 2 + errors[i].error_ms);
        service_ids_free(&ids);
    }
}

static void without_that_strategy_there_is_no_interval(void) {
    struct service_ids ids = {.want = 1};

    CU_ASSERT_EQUAL(take(&ids), SERVICE_DONE);
    CU_ASSERT_FALSE(ids.bounded);
    CU_ASSERT_EQUAL(ids.last_ms, START_MS);
    service_ids_free(&ids);
}

static void a_new_holder_says_when_the_machine_id_can_be_used(void) {
    order_install(CLAIM_B, false, START_MS + 4000, START_MS + 60000);
    check_refused(4001, "machine ID 7 can be used in 4001 ms: its last holder may have used the "
                        "time up to then");
}

static void outside_the_epochs_time_it_is_a_clear_refusal(void) {
    uint64_t end_ms = snowflake_end_ms(SNOWFLAKE_EPOCH_MS);

    now_ms = SNOWFLAKE_EPOCH_MS - 1;
    check_refused(10000, "the clock says 2023-12-31T23:59:59.999Z, which is before the epoch "
                         "2024-01-01T00:00:00.000Z");
    now_ms = 0;
    check_refused(10000, "the clock says 1970-01-01T00:00:00.000Z, which is before the epoch "
                         "2024-01-01T00:00:00.000Z");
    order_install(CLAIM_B, false, end_ms - 1, end_ms);
    now_ms = end_ms;
    CU_ASSERT_EQUAL(one(), INT64_C(9223372036850581504) + 7 * 4096);
    now_ms++;
    check_refused(10000,
                  "the clock says 2093-09-06T15:47:35.552Z, which is past the last time that IDs "
                  "can carry, 2093-09-06T15:47:35.551Z");
}

/* --- the control thread's orders --- */

static void a_limit_rises_for_its_own_claim_and_never_falls(void) {
    service_raise(&service, CLAIM_B, START_MS + 90000);
    CU_ASSERT_EQUAL(service.generation.ids.limit_ms, START_MS + 10000);
    service_raise(&service, CLAIM_A, START_MS + 20000);
    CU_ASSERT_EQUAL(service.generation.ids.limit_ms, START_MS + 20000);
    service_raise(&service, CLAIM_A, START_MS + 15000);
    CU_ASSERT_EQUAL(service.generation.ids.limit_ms, START_MS + 20000);
}

static void a_resumed_chain_goes_on_from_what_stands_in_the_loop(void) {
    int64_t last;

    one();
    last = one();
    order_install(CLAIM_B, true, START_MS + 10000, START_MS + 70000);
    CU_ASSERT_EQUAL(one(), last + 1);
    CU_ASSERT_EQUAL(service.generation.ids.limit_ms, START_MS + 70000);
    CHECK_TEXT(service.generation.claim, CLAIM_B);
    service_raise(&service, CLAIM_A, START_MS + 90000); /* late, of the old claim */
    CU_ASSERT_EQUAL(service.generation.ids.limit_ms, START_MS + 70000);
}

static void replaced_while_parked_a_request_starts_again(bool continues) {
    struct service_ids ids = {.want = PER_MS + 10};
    int64_t given_up;

    CU_ASSERT_EQUAL(take(&ids), SERVICE_WAIT);
    given_up = ids.runs[0].first + PER_MS - 1;
    CHECK_TEXT(ids.claim, CLAIM_A);
    order_install(CLAIM_B, continues, START_MS + 500, START_MS + 70000);
    now_ms = START_MS + 501;
    CU_ASSERT_EQUAL(take(&ids), SERVICE_WAIT);
    CU_ASSERT_EQUAL(ids.have, PER_MS);
    now_ms++;
    CU_ASSERT_EQUAL(take(&ids), SERVICE_DONE);
    CU_ASSERT_EQUAL(ids.n_runs, 2);
    CU_ASSERT(ids.runs[0].first > given_up);
    CHECK_TEXT(ids.claim, CLAIM_B);
    service_ids_free(&ids);
}

static void a_request_parked_across_a_new_generation_starts_again(void) {
    replaced_while_parked_a_request_starts_again(false);
}

/* Its IDs would all be good, but an answer names one claim. */
static void a_request_parked_across_a_resume_starts_again(void) {
    replaced_while_parked_a_request_starts_again(true);
}

static void a_dropped_generation_is_not_resumed(void) {
    service_drop(&service);
    check_refused(1000, "no machine ID yet");
    order_install(CLAIM_B, true, START_MS, START_MS + 70000);
    check_refused(1000, "no machine ID yet");
    order_install(CLAIM_B, false, START_MS + 10000, START_MS + 70000);
    now_ms = START_MS + 10001;
    one();
}

static void closing_hands_over_the_last_time_and_nothing_follows(void) {
    now_ms += 5;
    one();
    now_ms += 5;
    CU_ASSERT_EQUAL(service_close(&service), START_MS + 5);
    check_refused(1000, "no machine ID yet");
    order_install(CLAIM_B, true, START_MS, START_MS + 70000);
    check_refused(1000, "no machine ID yet");
    service_raise(&service, CLAIM_A, START_MS + 90000);
    check_refused(1000, "no machine ID yet");
    CU_ASSERT_EQUAL(service_close(&service), 0);
}

static void closed_unused_it_hands_over_where_it_would_have_begun(void) {
    CU_ASSERT_EQUAL(service_close(&service), START_MS - 1);
}

static void a_parked_request_fails_when_the_generation_closes(void) {
    struct service_ids ids = {.want = PER_MS + 1};

    CU_ASSERT_EQUAL(take(&ids), SERVICE_WAIT);
    service_close(&service);
    now_ms = wait_until_ms;
    CU_ASSERT_EQUAL(take(&ids), SERVICE_FAILED);
    service_ids_free(&ids);
}

/* --- a random walk --- */

/* What the walk remembers: I1, I4 and the claim of an answer are checked against it. */
struct walk {
    struct check_random random;
    int64_t last;        /* of the chain */
    uint64_t used_up_ms; /* h0 of the chain */
    uint64_t limit_ms;   /* highest granted to the chain */
    bool open;
    unsigned claims;
    struct service_ids parked;
};

static bool check_ids(struct walk *walk, const struct service_ids *ids) {
    bool ok = strcmp(ids->claim, service.generation.claim) == 0;

    for (size_t i = 0; i < ids->n_runs; i++) {
        const struct snowflake_run *run = &ids->runs[i];
        uint64_t timestamp_ms = parts(run->first).timestamp_ms;

        ok = ok && run->first > walk->last && timestamp_ms > walk->used_up_ms &&
             timestamp_ms <= walk->limit_ms &&
             timestamp_ms == parts(run->first + run->count - 1).timestamp_ms;
        walk->last = run->first + run->count - 1;
    }
    return ok;
}

static bool walk_request(struct walk *walk) {
    bool ok = true;

    if (walk->parked.want == 0)
        walk->parked.want = (uint32_t)check_random_below(&walk->random, SERVICE_COUNT_MAX) + 1;
    switch (take(&walk->parked)) {
    case SERVICE_WAIT: return wait_until_ms > now_ms && wait_until_ms <= now_ms + WAITED_OUT + 1;
    case SERVICE_DONE:
        ok = walk->open && check_ids(walk, &walk->parked) && walk->parked.have == walk->parked.want;
        break;
    case SERVICE_FAILED: ok = err.retry_after_ms > 0 && err.message[0]; break;
    }
    service_ids_free(&walk->parked);
    return ok;
}

static void walk_install(struct walk *walk, bool continues) {
    char claim[HOLD_CLAIM_CHARS + 1];
    uint64_t horizon_ms = walk->limit_ms; /* never below a limit that is in use: I2 */

    if (!continues && !walk->open && service.generation.ids.last_wall_ms)
        horizon_ms = service.generation.ids.last_wall_ms; /* released */
    snprintf(claim, sizeof claim, "%032x", ++walk->claims);
    order_install(claim, continues, horizon_ms, horizon_ms + 500);
    if (continues && !walk->open)
        return; /* ignored */
    if (!continues) {
        walk->used_up_ms = horizon_ms;
        walk->open = true;
    }
    walk->limit_ms = horizon_ms + 500;
}

static void any_walk_keeps_the_invariants(void) {
    struct walk walk = {.random = check_random_seeded("any_walk_keeps_the_invariants"),
                        .used_up_ms = START_MS - 1,
                        .limit_ms = START_MS + 10000,
                        .open = true};
    bool ok = true;

    for (int i = 0; ok && i < 200000; i++) {
        switch (check_random_below(&walk.random, 40)) {
        case 0: walk_install(&walk, true); break;
        case 1: walk_install(&walk, false); break;
        case 2:
            service_raise(&service, service.generation.claim, walk.limit_ms + 300);
            if (walk.open)
                walk.limit_ms += 300;
            break;
        case 3:
            if (walk.open)
                ok = service_close(&service) >= (walk.last ? parts(walk.last).timestamp_ms : 0);
            walk.open = false;
            break;
        case 4: now_ms -= check_random_below(&walk.random, 30); break;
        case 5: now_ms = walk.limit_ms - check_random_below(&walk.random, 5) + 2; break;
        default: now_ms += check_random_below(&walk.random, 3); ok = walk_request(&walk);
        }
    }
    CU_ASSERT(ok);
    service_ids_free(&walk.parked);
}

static void a_child_of_fork_has_no_generation_and_gives_nothing(void) {
    struct service *kept = allocate_unforked(sizeof *kept);
    struct service_ids ids = {.want = 1};
    int code = -1;
    int64_t first = one();
    pid_t child;

    *kept = service; /* as a serving loop keeps it */
    child = fork();
    if (child == 0)
        _exit(service_take(kept, now_ms, &ids, &wait_until_ms, &err) == SERVICE_FAILED &&
                      strcmp(err.code, "UNAVAILABLE") == 0
                  ? 0
                  : 1);
    CU_ASSERT_EQUAL(waitpid(child, &code, 0), child);
    CU_ASSERT_EQUAL(code, 0);
    CU_ASSERT_EQUAL(service_take(kept, now_ms, &ids, &wait_until_ms, &err), SERVICE_DONE);
    CU_ASSERT_EQUAL(ids.runs[0].first, first + 1);
    service_ids_free(&ids);
    free_unforked(kept, sizeof *kept);
}

/* --- UUIDs and ULIDs --- */

static void the_other_kinds_need_no_machine_id(void) {
    struct service_ids ids = {.kind = ID_ULID, .want = 3};

    given_a_source_of(3, STATUS_SYSTEM);
    CU_ASSERT_EQUAL(take(&ids), SERVICE_DONE);
    CU_ASSERT_EQUAL(ids.have, 3);
    CU_ASSERT_EQUAL(id128_time_ms(&ids.wide[2]), START_MS);
    CU_ASSERT_EQUAL(service.kind_issued_total[ID_ULID], 3);
    CU_ASSERT_EQUAL(service.issued_total, 0);
    service_ids_free(&ids);
}

static void a_public_id_counts_as_that_and_once(void) {
    struct service_ids plain = {.kind = ID_SNOWFLAKE, .want = 2};
    struct service_ids public = {.kind = ID_PUBLIC, .want = 3};

    given_machine_7_granted_for_10_s();
    CU_ASSERT_EQUAL(take(&plain), SERVICE_DONE);
    CU_ASSERT_EQUAL(take(&public), SERVICE_DONE);
    CU_ASSERT_EQUAL(service.kind_issued_total[ID_SNOWFLAKE], 2);
    CU_ASSERT_EQUAL(service.kind_issued_total[ID_PUBLIC], 3);
    CU_ASSERT_EQUAL(service.issued_total, 5); /* of the machine ID */
    service_ids_free(&plain);
    service_ids_free(&public);
}

static void a_spent_millisecond_is_waited_for_and_what_was_had_is_kept(void) {
    struct service_ids ids = {.kind = ID_UUIDV7, .want = 5};

    given_a_source_of(2, STATUS_BUSY);
    CU_ASSERT_EQUAL(take(&ids), SERVICE_WAIT);
    CU_ASSERT_EQUAL(wait_until_ms, START_MS + 1);
    now_ms++;
    fake.left = 3;
    CU_ASSERT_EQUAL(take(&ids), SERVICE_DONE);
    CU_ASSERT_EQUAL(id128_time_ms(&ids.wide[1]), START_MS);
    CU_ASSERT_EQUAL(id128_time_ms(&ids.wide[4]), START_MS + 1);
    service_ids_free(&ids);
}

static void without_randomness_there_is_no_id(void) {
    struct service_ids ids = {.kind = ID_UUIDV4, .want = 2};

    given_a_source_of(1, STATUS_SYSTEM);
    CU_ASSERT_EQUAL(take(&ids), SERVICE_FAILED);
    CHECK_TEXT(err.code, "UNAVAILABLE");
    CHECK_TEXT(err.message, "no uuidv4 can be made: getrandom: it is broken");
    service_ids_free(&ids);
    ids = (struct service_ids){.kind = ID_UUIDV7, .want = 1};
    given_a_source_of(0, STATUS_CLOCK_RANGE);
    CU_ASSERT_EQUAL(take(&ids), SERVICE_FAILED);
    CU_ASSERT(strstr(err.message, "past the last time that a uuidv7 can carry") != NULL);
    service_ids_free(&ids);
}

static CU_TestInfo issuing[] = {
    CHECK_TEST(the_first_id_is_dated_after_what_was_used_up),
    CHECK_TEST(a_batch_goes_on_in_the_next_millisecond_with_its_time),
    CHECK_TEST(id_4097_of_a_millisecond_carries_a_later_time),
    CHECK_TEST(nothing_is_issued_after_the_limit),
    CHECK_TEST(a_batch_that_meets_the_limit_fails_as_a_whole),
    CHECK_TEST(without_a_generation_it_is_unavailable),
    CHECK_TEST(a_child_of_fork_has_no_generation_and_gives_nothing),
    CHECK_TEST(the_other_kinds_need_no_machine_id),
    CHECK_TEST(a_public_id_counts_as_that_and_once),
    CHECK_TEST(a_spent_millisecond_is_waited_for_and_what_was_had_is_kept),
    CHECK_TEST(without_randomness_there_is_no_id),
    CU_TEST_INFO_NULL,
};
static CU_TestInfo clocks[] = {
    CHECK_TEST(a_tick_back_does_not_bring_sequence_numbers_again),
    CHECK_TEST(small_steps_back_are_waited_out_and_larger_ones_refused),
    CHECK_TEST(behind_a_used_up_millisecond_it_waits_for_the_next),
    CHECK_TEST(a_new_holder_says_when_the_machine_id_can_be_used),
    CHECK_TEST(an_uncertain_clock_is_refused),
    CHECK_TEST(an_answer_carries_the_interval_of_true_time),
    CHECK_TEST(without_that_strategy_there_is_no_interval),
    CHECK_TEST(outside_the_epochs_time_it_is_a_clear_refusal),
    CU_TEST_INFO_NULL,
};
static CU_TestInfo orders[] = {
    CHECK_TEST(a_limit_rises_for_its_own_claim_and_never_falls),
    CHECK_TEST(a_resumed_chain_goes_on_from_what_stands_in_the_loop),
    CHECK_TEST(a_request_parked_across_a_new_generation_starts_again),
    CHECK_TEST(a_request_parked_across_a_resume_starts_again),
    CHECK_TEST(a_dropped_generation_is_not_resumed),
    CHECK_TEST(closing_hands_over_the_last_time_and_nothing_follows),
    CHECK_TEST(closed_unused_it_hands_over_where_it_would_have_begun),
    CHECK_TEST(a_parked_request_fails_when_the_generation_closes),
    CHECK_TEST(any_walk_keeps_the_invariants),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"issuing", NULL, NULL, given_machine_7_granted_for_10_s, NULL, issuing},
           {"the clock", NULL, NULL, given_machine_7_granted_for_10_s, NULL, clocks},
           {"orders", NULL, NULL, given_machine_7_granted_for_10_s, NULL, orders})
