/* A loop passes on what it cannot serve.  park_take() and the mailboxes between loops are the test's. */
#include "worker/lend.h"

#include <stdatomic.h>

#include "tests/support/check.h"

#define LOOPS 3u
#define NOW_MS UINT64_C(1767225600000)

static struct loop_gauges gauges[LOOPS];
static struct lend *loops[LOOPS];
static struct lent *mail[LOOPS];         /* at most one is on its way to each */
static struct park_call *arrived[LOOPS]; /* what each was given to serve */
static size_t receiver;

/* Takes the place of park.c's. */
void park_take(struct park *park, uint64_t now_ms, struct park_call *call) {
    (void)park, (void)now_ms;
    arrived[receiver] = call;
}

static void post(void *arg, size_t loop, struct lent *lent) {
    (void)arg;
    CU_ASSERT_PTR_NULL_FATAL(mail[loop]);
    mail[loop] = lent;
}

static void deliver(size_t loop) {
    struct lent *lent = mail[loop];

    CU_ASSERT_PTR_NOT_NULL_FATAL(lent);
    mail[loop] = NULL;
    receiver = loop;
    lend_arrived(loops[loop], lent, NOW_MS);
}

static const struct service_error starved = {.code = "UNAVAILABLE", .message = "starved"};

static struct park_call call;
static enum service_outcome outcome;
static unsigned times_done;

static void on_done(struct park_call *ended, enum service_outcome how,
                    const struct service_error *err) {
    CU_ASSERT_PTR_EQUAL(ended, &call);
    CU_ASSERT(how == SERVICE_DONE || strcmp(err->message, starved.message) == 0);
    outcome = how;
    times_done++;
}

static void given_three_loops_of_which_the_first_has_nothing(void) {
    times_done = 0;
    call = (struct park_call){.ids = {.kind = ID_PUBLIC, .want = 7}, .done = on_done};
    for (size_t i = 0; i < LOOPS; i++) {
        mail[i] = NULL;
        arrived[i] = NULL;
        atomic_store(&gauges[i].limit_ms, i == 0 ? 0 : NOW_MS + 1000);
        loops[i] = lend_new(
            &(struct lend_config){.gauges = gauges, .n_loops = LOOPS, .self = i, .send = post});
    }
}

static void then_free_them(void) {
    for (size_t i = 0; i < LOOPS; i++)
        lend_free(loops[i]);
}

static size_t asked(void) {
    CU_ASSERT_FATAL(!mail[0] && !mail[1] != !mail[2]);
    return mail[1] ? 1 : 2;
}

static void a_call_is_served_by_another_loop(void) {
    size_t other;

    CU_ASSERT_FATAL(lend_ask(loops[0], &call, NOW_MS));
    other = asked();
    deliver(other);
    CU_ASSERT_EQUAL(arrived[other]->ids.want, 7);
    arrived[other]->ids.have = 7;
    arrived[other]->done(arrived[other], SERVICE_DONE, NULL);
    deliver(0);
    CU_ASSERT_EQUAL(times_done, 1);
    CU_ASSERT_EQUAL(outcome, SERVICE_DONE);
    CU_ASSERT_EQUAL(call.ids.have, 7);
    CU_ASSERT_EQUAL(call.ids.kind, ID_PUBLIC); /* else numbers would go out in its place */
}

/* Else loops that all have just lost their machine IDs would pass it round among themselves. */
static void what_the_other_cannot_serve_comes_back_to_the_asker(void) {
    CU_ASSERT_FATAL(lend_ask(loops[0], &call, NOW_MS));
    for (unsigned i = 0; i < LOOPS - 1; i++) {
        size_t other = asked();

        deliver(other);
        CU_ASSERT_TRUE(arrived[other]->stand_in);
        arrived[other]->done(arrived[other], SERVICE_FAILED, &starved);
        deliver(0);
    }
    CU_ASSERT(!mail[1] && !mail[2]);
    CU_ASSERT_EQUAL(times_done, 1);
    CU_ASSERT_EQUAL(outcome, SERVICE_FAILED);
}

static void nobody_is_asked_who_does_not_serve(void) {
    for (size_t i = 1; i < LOOPS; i++)
        atomic_store(&gauges[i].limit_ms, NOW_MS - 1);
    CU_ASSERT_FALSE(lend_ask(loops[0], &call, NOW_MS));
    CU_ASSERT_FALSE(call.lent);
}

static void an_answer_for_a_client_that_is_gone_ends_nobody(void) {
    size_t other;

    CU_ASSERT_FATAL(lend_ask(loops[0], &call, NOW_MS));
    lend_forget(loops[0], &call);
    other = asked();
    deliver(other);
    arrived[other]->done(arrived[other], SERVICE_FAILED, &starved);
    deliver(0);
    CU_ASSERT_EQUAL(times_done, 0);
    CU_ASSERT(!mail[1] && !mail[2]);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(a_call_is_served_by_another_loop),
    CHECK_TEST(what_the_other_cannot_serve_comes_back_to_the_asker),
    CHECK_TEST(nobody_is_asked_who_does_not_serve),
    CHECK_TEST(an_answer_for_a_client_that_is_gone_ends_nobody),
    CU_TEST_INFO_NULL,
};
CHECK_MAIN({"lending", NULL, NULL, given_three_loops_of_which_the_first_has_nothing, then_free_them,
            rules})
