/* hold_fixture.h - one hold (common/hold.h) over a fake etcd that does what the test says, and nothing by
 * itself: given_...() come first, then the test asks next() what the hold wants, and answers. */
#ifndef SNOWFLEET_TESTS_SUPPORT_HOLD_FIXTURE_H
#define SNOWFLEET_TESTS_SUPPORT_HOLD_FIXTURE_H

#include <inttypes.h>
#include <stdbool.h>

#include "common/hold.h"
#include "tests/support/check.h"
#include "tests/support/fake_etcd.h"

#define WINDOW_MS UINT64_C(60000)
#define AHEAD_MS UINT64_C(5000)
#define H0_MS (SNOWFLAKE_EPOCH_MS + 500000)
#define FAR_MS (SNOWFLAKE_EPOCH_MS + UINT64_C(86400000))
#define MACHINE 7
#define ERA_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ERA_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define NOBODY "00000000000000000000000000000000"
#define STRANGER "5742a9e25742a9e25742a9e25742a9e2"

extern struct fake_world world;
extern struct fake_etcd *etcd;
extern struct keys keys;
extern char own_key[KEY_MAX], hor_key[KEY_MAX], assign_key[KEY_MAX];
extern struct own self;
extern struct hold_config config;
extern struct hold *hold;
extern struct instant now;
extern struct meta meta;
extern struct hold_act act;           /* the last one that next() found */
extern struct hold_install installed; /* of given_a_generation() */

/* ---- etcd as it is ---- */
const char *stored(const char *key);
void store_meta(void);
void store_horizon(uint64_t horizon_ms, const char *claim, uint64_t n);
struct horizon stored_horizon(void);
void store_ceiling(uint64_t ceiling_ms);
void store_give_up(const char *claim);

/* ---- the hold, and what it asks for ---- */
void hear_meta(void);
void hear_ceiling(void);
struct hold_view look(void);
/* The next act that is not merely a lease being kept alive or let go of. */
enum hold_act_kind next(void);
void pass(uint64_t ms);
enum hold_act_kind next_after(uint64_t ms);
bool txn_compares(enum etcd_compare_kind kind, const char *key, const char *value);
const struct etcd_op *txn_does(enum etcd_op_kind kind, const char *key);
bool txn_reads_otherwise(const char *key);
bool txn_writes(void);
bool is_claim(void);
bool is_extension(void);
bool is_release(void);
/* Never done, but it makes etcd answer in the order of its log. */
bool is_ordered_read(void);
bool is_read(void);
/* The horizon that the transaction would store. */
struct horizon sent_horizon(void);
/* etcd carries the transaction out ... */
struct etcd_txn_result *carry_out(void);
/* ... and its answer arrives. */
void hear(struct etcd_txn_result *result);
void answer(void);
void fail(enum status status);
/* etcd carries it out and the answer is lost. */
void lose_answer(void);
/* A transaction that is still on its way when its outcome is unknown. */
void delay_request(void);
void late_request_lands(void);
void grant(void);
enum status offer(struct error *err);

/* ---- what is given ---- */
void given_a_free_slot(void);
void given_nothing_any_more(void);
/* The slot is taken up, a lease granted, and act is the claim. */
void given_a_claim_under_way(void);
void given_a_generation(void);
/* act is the extension. */
void given_an_extension_under_way(void);
/* The lease has ended, and the keep-alive says so. */
void lease_ends(void);
/* own/ is gone, which the next look shows. */
void given_that_own_is_gone(void);
void given_a_closed_generation(uint64_t last_ms);
/* Everything it asks for until there is no more to do now; no installation, no raise. */
void nothing_rises(void);
/* Of meta, as etcd has it from now on. */
void take_out_of_range(void);
void other_era_of(const char *era, const char *earlier);

/* A suite of rules, each with a free slot to begin with. */
#define HOLD_SUITE(name, rules)                                                                    \
    { name, NULL, NULL, given_a_free_slot, given_nothing_any_more, rules }

#endif
