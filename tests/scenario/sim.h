/* sim.h - one random schedule of the hold protocol: some workers, one etcd, and every fault that
 * design.md speaks of, all from one seed.
 *
 * It is horizon.pml with the real code in the place of the model. */
#ifndef SNOWFLEET_TESTS_SIM_H
#define SNOWFLEET_TESTS_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/scenario/oracle.h"

struct sim_options {
    FILE *trace;          /* NULL: none */
    bool duplicates_only; /* of all rules look at the promise alone */
};

struct sim_result {
    char violation[512]; /* "" when all went well */
    uint64_t events, faults;
    struct oracle_counts counts;
    uint64_t lost, unknown, resumes, restores;
};
void sim_run(uint64_t seed, const struct sim_options *options, struct sim_result *result);

#endif
