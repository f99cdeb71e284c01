/* skew.h - [pure] clock samples to offset and error bound, and what to think of them.
 *
 * An offset is positive when the other clock is ahead.  Beside it stands its bound: the truth lies
 * within offset +- bound whatever the paths' asymmetry, as long as neither clock stepped during the
 * exchange (the prober drops those). */
#ifndef SNOWFLEET_COMMON_SKEW_H
#define SNOWFLEET_COMMON_SKEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"

#define SKEW_PROBES 8 /* the one with the least delay counts */

/* The four timestamps of one exchange, ns since the Unix epoch. */
struct skew_sample {
    int64_t sent_ns;     /* by the asker's clock */
    int64_t received_ns; /* by the other's: after it read the request */
    int64_t answered_ns; /* by the other's: before it wrote the answer */
    int64_t returned_ns; /* by the asker's */
};

struct skew {
    int64_t offset_ns; /* +-(INT64_MAX / 2) at most */
    int64_t bound_ns;  /* 0.. */
};

/* false for a sample that cannot be: a time outside 0..INT64_MAX / 2, an answer before its
 * question, or less time outside than inside. */
bool skew_of_sample(const struct skew_sample *sample, struct skew *skew);

/* Of those samples that make sense the one that proves most; false when there is none. */
bool skew_best(const struct skew_sample *samples, size_t n, struct skew *best);

/* The distance of two clocks: offsets subtract, bounds add.  at_least_ns is 0 when they may be
 * equal. */
struct skew_distance {
    int64_t at_least_ns;
    int64_t at_most_ns;
};
struct skew_distance skew_between(const struct skew *a, const struct skew *b);
/* The largest of all pairs, each side by itself; 0 and 0 for fewer than two clocks. */
struct skew_distance skew_fleet(const struct skew *clocks, size_t n);

enum skew_verdict { SKEW_OK, SKEW_WARN, SKEW_CRIT, SKEW_UNKNOWN };
const char *skew_verdict_name(enum skew_verdict verdict); /* "OK" */

/* What is known of one node. */
struct skew_facts {
    bool heard;               /* it answered within the last 30 s; else nothing below counts */
    bool has_offset;          /* there is a reference to measure against */
    struct skew skew;         /* from the reference */
    bool synchronized;        /* as its kernel says */
    bool has_claim;           /* it knows its error */
    bool claim_false;         /* which is proven wrong */
    int64_t claimed_error_ns; /* as its kernel says; means something only when synchronized */
    bool has_horizon;         /* it holds a machine ID */
    int64_t horizon_lead_ms;  /* how far the least of its horizons lies ahead of now */
};
/* |offset| - bound above 100 ms WARN, above 500 ms CRIT; claimed error above 250 ms WARN, above 1 s
 * CRIT; a claim proven false WARN; not synchronized WARN; horizon lead below 10 s WARN, below 0 CRIT; not heard UNKNOWN. */
enum skew_verdict skew_judge(const struct skew_facts *facts);
/* The verdict on a distance alone, for fleets too small to say who is wrong. */
enum skew_verdict skew_judge_distance(struct skew_distance distance);

#define CLOCK_SOURCE_MAX 24 /* with the NUL, as below */
#define CLOCK_STATE_MAX 24
#define CLOCK_DISTRUST_MAX 160
#define CLOCK_FREQUENCY_MAX_PPB INT64_C(1000000000)
#define CLOCK_FREQUENCY_UNKNOWN_PPB INT64_C(500000) /* Linux corrects by no more: adjtimex(2) */

/* What a worker says of its own clock, beside its bound. */
struct clock_claim {
    char source[CLOCK_SOURCE_MAX];     /* of the bound: "kernel", "chrony"; "": it does not say */
    bool trusted;                      /* it takes the bound for one */
    char distrust[CLOCK_DISTRUST_MAX]; /* why not; "" */
    int64_t frequency_ppb; /* by which its kernel corrects the clock, or at most when not known */
    bool has_effective;
    double effective_minus_wall_ms; /* what dates IDs, from the physical clock */
    char state[CLOCK_STATE_MAX];    /* of the worker: "SERVING"; "": it does not say */
};

/* What a worker's clock said when it was last asked (prober.h). */
struct clock_reading {
    bool heard;             /* it answered; else nothing below counts but reason and the counters */
    struct skew skew;       /* from the asker's clock */
    int64_t sent_boot_ns;   /* the asker's boot clock when the exchange that tells it began */
    struct instant_ns peer; /* the other's clocks in its last answer; zeroed: it gave none */
    struct clock_claim claim;
    unsigned exchanges, dropped, cold; /* answered; of these in vain, and over a new connection */
    bool synchronized;
    bool knows_error;        /* else max_error_ns is INT64_MAX and no claim */
    int64_t max_error_ns;    /* as it claims */
    bool wants_confirmation; /* stepped, and not confirmed since */
    uint64_t boot_ms;        /* when it was measured; 0: never asked */
    char reason[256];        /* why it was not heard */
};

#define SKEW_EXIT_OK 0
#define SKEW_EXIT_WARN 1
#define SKEW_EXIT_CRIT 2
#define SKEW_EXIT_INCOMPLETE 3
/* 2 before 3 before 1.  incomplete: some node was not heard, or there was none. */
int skew_exit_code(const enum skew_verdict *verdicts, size_t n, bool incomplete);

#endif
