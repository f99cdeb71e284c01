/* fault_rig.h - an etcd client with one or two raw servers for its etcd, for tests of what goes
 * wrong on the way. */
#ifndef SNOWFLEET_TESTS_SUPPORT_FAULT_RIG_H
#define SNOWFLEET_TESTS_SUPPORT_FAULT_RIG_H

#include "common/etcd_http.h"
#include "tests/support/etcd_wait.h"
#include "tests/support/raw_server.h"

#define FAULT_WAIT_MS 10000

struct fault_rig {
    uv_loop_t loop;
    struct raw_server one, two; /* endpoints, in this order */
    struct etcd_http *client;   /* NULL once it is closed */
    struct etcd_wait wait;
    struct watch_view view;
    bool closed;
    char bodies[8][1024]; /* of the requests to server one with a path of /v3/watch, by number */
    size_t n_watches;     /* such requests so far */
    size_t n_lists;       /* /v3/kv/txn so far, of server one */
};
extern struct fault_rig rig;
extern uint64_t fault_rig_watch_lifetime_ms; /* of clients made from now on */

/* The servers answer as told; timeout_ms of the client; two: both are endpoints. */
void fault_rig_init(raw_handler_fn *one, raw_handler_fn *two, uint64_t timeout_ms);
void fault_rig_close_client(void);
/* Closes everything and asserts that no handle is left. */
void fault_rig_done(void);

/* Runs the loop until holds(), and fails the test when that takes too long. */
void fault_rig_until(bool (*holds)(void));
void fault_rig_for(uint64_t ms);

/* Counts a request into bodies, n_watches or n_lists.  True: it is a watch. */
bool fault_rig_note(const struct raw_request *request);

#endif
