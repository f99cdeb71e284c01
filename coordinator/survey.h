/* survey.h - [pure] the skew report: what is known of all clocks of a fleet at one moment, and what
 * to think of each.  The same for the coordinator and for snowfleetctl skew.
 *
 * Nobody is accused on less than a majority: offsets are from the consensus (consensus.h), and
 * without one there are none, only the distances between nodes. */
#ifndef SNOWFLEET_COORDINATOR_SURVEY_H
#define SNOWFLEET_COORDINATOR_SURVEY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "coordinator/cluster.h"
#include "coordinator/consensus.h"
#include "common/skew.h"
#include "coordinator/track.h"

#define SURVEY_SCHEMA 1
/* A bound above it says little about a clock: 100 ms, from which on an offset is warned of. */
#define SURVEY_UNCERTAIN_NS INT64_C(100000000)

struct survey_config {
    struct instant_ns now;
    uint64_t fresh_ms; /* an older reading counts for nothing */
    int64_t rate_ppb;  /* by how much our clock and another may drift apart */
    bool own;          /* our own clock is one of the fleet's */
};

struct survey_node {
    const struct member *member;
    uint16_t machine_ids[MACHINE_IDS]; /* in order */
    size_t n_machine_ids;
    bool ever_heard;
    uint64_t heard_ms; /* so long ago */
    struct skew skew;  /* from our clock, when facts.heard */
    bool has_drift;
    struct drift drift; /* from the consensus of drifts; with fewer than three clocks from ours */
    bool uncertain;     /* its bound is above SURVEY_UNCERTAIN_NS: a slow path, say */
    bool falseticker;   /* certainly further from the consensus than is allowed */
    bool claim_false;   /* its own bound on its error is proven false */
    struct skew_facts facts;
    enum skew_verdict verdict;
};

struct survey {
    struct survey_node *nodes; /* worst first */
    size_t n, n_heard;
    struct consensus consensus;
    struct skew_distance fleet; /* of the nodes heard */
    bool incomplete;            /* some node was not heard, or there is none */
    size_t verdicts[4];         /* how many of each enum skew_verdict */
    size_t falsetickers, claims_false;
};

/* cluster has its meta.  Members must live as long as the survey. */
void survey_take(struct survey *survey, const struct cluster *cluster,
                 const struct survey_config *config);
void survey_done(struct survey *survey);

/* SKEW_EXIT_... */
int survey_exit_code(const struct survey *survey);

/* `snowfleetctl skew --output json` and GET /v1/skew; the caller's.  now_ms is what measured_at
 * says; by: who measured. */
json_t *survey_json(const struct survey *survey, const struct cluster *cluster, const char *name,
                    uint64_t now_ms, const char *by);

#endif
