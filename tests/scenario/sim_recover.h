/* sim_recover.h - etcd goes back to a snapshot under live workers, and `snowfleetctl recover` follows,
 * step by step, with the real recover.c and what workers tell of themselves.
 *
 * As design.md assumes: nothing is claimed or extended between the restore and the freeze, and the floor
 * reaches whatever was granted to those who were not heard and is not in the snapshot. */
#ifndef SNOWFLEET_TESTS_SIM_RECOVER_H
#define SNOWFLEET_TESTS_SIM_RECOVER_H

#include <stdbool.h>
#include <stddef.h>

#include "coordinator/recover.h"
#include "tests/scenario/sim_node.h"

#define SIM_RECOVER_SHOWN_MAX 8

struct sim_recovery {
    struct sim_stage *stage;
    struct sim_node *nodes;
    unsigned n_nodes;
    unsigned step; /* 0: none is under way; else the nodes asked so far, and 1 */
    bool raised;
    uint64_t every_us; /* from step to step */
    struct recover_evidence evidence;
    struct meta meta;
    char *frozen;                   /* its text */
    uint64_t restored[MACHINE_IDS]; /* the horizons of the snapshot */
    struct oracle_shown shown[SIM_RECOVER_SHOWN_MAX];
    size_t n_shown;
};

bool sim_recover_active(const struct sim_recovery *recovery);
/* Restores and freezes; the rest follows by itself.  recovery has its stage, nodes and every_us; none may
 * be under way, and meta must be there.  False: it cannot be done, and nothing was. */
bool sim_recover_start(struct sim_recovery *recovery, const struct fake_snapshot *snapshot);
/* All steps that are left, at once. */
void sim_recover_finish(struct sim_recovery *recovery);

#endif
