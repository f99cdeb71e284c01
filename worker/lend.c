#include "worker/lend.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "common/allocate.h"

/* A call that waits for its stand-in; the asker's. */
struct loan {
    LIST_ENTRY(loan) link;
    struct park_call *call; /* NULL: its client gave up */
    unsigned asked;         /* loops so far */
};

struct lent {
    struct park_call call; /* first: a pointer to the one is a pointer to the other */
    struct lend *lender;   /* while it is being served */
    struct loan *loan;     /* the asker's: not looked at elsewhere */
    size_t asker;
    enum service_outcome outcome;
    struct service_error err;
};

struct lend {
    struct lend_config config;
    LIST_HEAD(loan_list, loan) loans;
    size_t next; /* whom to ask first, in turn */
    bool ended;
};

struct lend *lend_new(const struct lend_config *config) {
    struct lend *lend = allocate(1, sizeof *lend);

    lend->config = *config;
    LIST_INIT(&lend->loans);
    return lend;
}

void lend_free(struct lend *lend) {
    assert(!lend || LIST_EMPTY(&lend->loans));
    free(lend);
}

void lent_free(struct lent *lent) {
    service_ids_free(&lent->call.ids);
    free(lent);
}

/* The next one in turn that serves; self when there is none. */
static size_t choose(struct lend *lend, uint64_t now_ms) {
    const struct lend_config *config = &lend->config;

    for (size_t i = 0; i < config->n_loops; i++) {
        size_t loop = lend->next++ % config->n_loops;

        if (loop != config->self &&
            view_loop_serves(&config->gauges[loop], now_ms, config->max_backward_wait_ms))
            return loop;
    }
    return config->self;
}

static bool pass_on(struct lend *lend, struct loan *loan, uint64_t now_ms) {
    size_t loop = choose(lend, now_ms);
    struct lent *lent;

    if (loop == lend->config.self || loan->asked + 1 >= lend->config.n_loops)
        return false;
    loan->asked++;
    lent = allocate(1, sizeof *lent);
    lent->call.ids.kind = loan->call->ids.kind;
    lent->call.ids.want = loan->call->ids.want;
    lent->call.commit_wait = loan->call->commit_wait;
    lent->call.stand_in = true; /* or loops that all lost theirs would pass it round */
    lent->loan = loan;
    lent->asker = lend->config.self;
    lend->config.send(lend->config.arg, loop, lent);
    return true;
}

bool lend_ask(struct lend *lend, struct park_call *call, uint64_t now_ms) {
    struct loan *loan;

    if (lend->ended)
        return false;
    loan = allocate(1, sizeof *loan);
    loan->call = call;
    if (!pass_on(lend, loan, now_ms)) {
        free(loan);
        return false;
    }
    call->lent = true;
    LIST_INSERT_HEAD(&lend->loans, loan, link);
    return true;
}

void lend_forget(struct lend *lend, struct park_call *call) {
    struct loan *loan;

    call->lent = false;
    LIST_FOREACH(loan, &lend->loans, link)
    if (loan->call == call)
        loan->call = NULL;
}

static void on_served(struct park_call *call, enum service_outcome outcome,
                      const struct service_error *err) {
    struct lent *lent = (struct lent *)call;
    const struct lend_config *config = &lent->lender->config;

    lent->outcome = outcome;
    if (outcome != SERVICE_DONE)
        lent->err = *err;
    config->send(config->arg, lent->asker, lent);
}

/* What the other one could not give, a third one may. */
static void take_back(struct lend *lend, struct lent *lent, uint64_t now_ms) {
    struct loan *loan = lent->loan;
    struct park_call *call = loan->call;

    if (call && lent->outcome != SERVICE_DONE && pass_on(lend, loan, now_ms)) {
        lent_free(lent);
        return;
    }
    LIST_REMOVE(loan, link);
    free(loan);
    if (!call) {
        lent_free(lent);
        return;
    }
    call->lent = false;
    service_ids_free(&call->ids); /* what it had before it was passed on is given up */
    call->ids = lent->call.ids;
    call->done(call, lent->outcome, &lent->err);
    free(lent);
}

void lend_arrived(struct lend *lend, struct lent *lent, uint64_t now_ms) {
    if (lent->asker != lend->config.self) {
        lent->lender = lend;
        lent->call.done = on_served;
        park_take(lend->config.park, now_ms, &lent->call);
    } else if (lend->ended) {
        lent_free(lent); /* its loan has been answered */
    } else {
        take_back(lend, lent, now_ms);
    }
}

void lend_end(struct lend *lend, const struct service_error *err) {
    lend->ended = true;
    while (!LIST_EMPTY(&lend->loans)) {
        struct loan *loan = LIST_FIRST(&lend->loans);
        struct park_call *call = loan->call;

        LIST_REMOVE(loan, link);
        free(loan);
        if (!call)
            continue;
        call->lent = false;
        call->done(call, SERVICE_FAILED, err);
    }
}
