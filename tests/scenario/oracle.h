/* oracle.h - watches a simulation from outside: was an ID issued twice, does I1..I6 hold?
 *
 * It knows etcd's true state and what every serving loop does, and nothing of how the code under
 * test comes to it.  The first violation is kept; later ones may only be its consequences. */
#ifndef SNOWFLEET_TESTS_ORACLE_H
#define SNOWFLEET_TESTS_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/hold.h"
#include "common/keys.h"
#include "tests/support/fake_etcd.h"

struct oracle;

/* duplicates_only: looks for IDs issued twice and for nothing else, to see whether the schedules
 * alone bring a fault to light. */
struct oracle *oracle_new(struct fake_etcd *etcd, const struct keys *keys, bool duplicates_only);
void oracle_free(struct oracle *oracle);
/* NULL while nothing is wrong. */
const char *oracle_violation(const struct oracle *oracle);

/* A new process has started; what it does is told under this number. */
size_t oracle_process(struct oracle *oracle);
/* Its control thread orders an installation, or a limit for a claim. */
void oracle_order_install(struct oracle *oracle, size_t process,
                          const struct hold_install *install);
void oracle_order_raise(struct oracle *oracle, size_t process, const char *claim,
                        uint64_t limit_ms);
/* Its serving loop carries out an order. */
void oracle_installed(struct oracle *oracle, size_t process, const struct hold_install *install);
void oracle_closed(struct oracle *oracle, size_t process, uint64_t last_ms);
/* Its serving loop took IDs first .. first + count - 1 of one millisecond. */
void oracle_issued(struct oracle *oracle, size_t process, const struct generation *generation,
                   int64_t first, uint32_t count);
/* A generation exists, or an order under way will make it, that may issue up to limit_ms. */
void oracle_live_limit(struct oracle *oracle, size_t process, const char *era, uint16_t machine_id,
                       uint64_t limit_ms);

/* The highest horizon that was ever stored, whatever became of it. */
uint64_t oracle_highest_ms(const struct oracle *oracle);
/* A process that showed its limit on a machine ID. */
struct oracle_shown {
    size_t process;
    uint16_t machine_id;
};
/* The highest horizon that was ever granted to anybody else and is above restored[] of its machine ID;
 * 0: none. */
uint64_t oracle_unshown_ms(const struct oracle *oracle, const struct oracle_shown *shown, size_t n,
                           const uint64_t restored[static MACHINE_IDS]);

struct oracle_counts {
    uint64_t ids, claims, extensions, releases;
};
struct oracle_counts oracle_counts(const struct oracle *oracle);

#endif
