/* standalone.h - [pure] state machine of the machine ID of a worker without etcd: its horizon is
 * kept in a file on this machine.
 *
 * It says what to write and is told when that is done, in the way of common/hold.h:
 *
 *     something happened -> standalone_...(event)
 *     while (standalone_next(machine, now, &act) != STANDALONE_NOTHING)  carry out act
 *     and standalone_next() again at act.wake_boot_ms at the latest
 *
 * Why it is safe: the stored horizon is never below the limit, because a limit rises only after the
 * higher horizon is on disk, and because the horizon falls only when the serving loop has closed,
 * to the last timestamp that it used.  A start begins above the stored horizon, whatever the clock
 * says and whichever machine ID it takes.
 *
 *   phase            | means                                   | leaves on
 *   -----------------+-----------------------------------------+--------------------------------
 *   HOLD_CLAIMING    | the first window is being written       | written -> OPEN
 *   HOLD_OPEN        | a generation is installed, issues up to | release -> CLOSING
 *                    | the limit, once the clock is past what  |
 *                    | the last run may have used              |
 *   HOLD_CLOSING     | the serving loop is asked to close      | closed -> RELEASING
 *   HOLD_RELEASING   | the horizon falls to last               | written -> RELEASED
 *   HOLD_RELEASED    | nothing more is written                 | -
 *
 * After a failed write nothing is written any more, whatever happens: the phase stays, and what is
 * installed may issue up to its limit, which the file still covers. */
#ifndef SNOWFLEET_WORKER_STANDALONE_H
#define SNOWFLEET_WORKER_STANDALONE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/hold.h"

struct standalone {
    uint16_t machine_id;
    char claim[HOLD_CLAIM_CHARS + 1]; /* of this run, drawn at random */
    uint64_t epoch_ms;
    uint64_t window_ms;

    enum hold_phase phase;
    uint64_t stored_ms;  /* the horizon on disk */
    uint64_t writing_ms; /* the one being written; 0: none */
    uint64_t h0;         /* what the last run may have used */
    uint64_t limit_ms;   /* of the generation; at most stored_ms, but for RELEASED */
    uint64_t last_ms;    /* handed over by the closed loop */
    bool to_install, to_raise;
    bool stopping;
    bool failed;
    uint64_t extensions_total;
};

/* claim is copied.  stored_ms: the horizon as the file has it. */
void standalone_init(struct standalone *machine, uint16_t machine_id, const char *claim,
                     uint64_t epoch_ms, uint64_t window_ms, uint64_t stored_ms);

enum standalone_act_kind {
    STANDALONE_NOTHING, /* until wake_boot_ms */
    STANDALONE_WRITE,   /* write horizon_ms; answer with standalone_written() */
    STANDALONE_INSTALL, /* the serving loop installs install */
    STANDALONE_RAISE,   /* the serving loop raises its limit to limit_ms */
    STANDALONE_CLOSE /* the serving loop closes its generation; answer with standalone_closed() */
};
struct standalone_act {
    enum standalone_act_kind kind;
    uint64_t wake_boot_ms;
    uint64_t horizon_ms;
    uint64_t limit_ms;
    struct hold_install install;
};
enum standalone_act_kind standalone_next(struct standalone *machine, struct instant now,
                                         struct standalone_act *act);

/* The horizon asked for is on disk; or the write failed, and its outcome is not known. */
void standalone_written(struct standalone *machine, bool ok);
/* The owner wants out: hand over and stay RELEASED. */
void standalone_release(struct standalone *machine);
void standalone_closed(struct standalone *machine, uint64_t last_ms);
/* Will nothing be written any more? */
bool standalone_gone(const struct standalone *machine);

void standalone_look(const struct standalone *machine, struct instant now, struct hold_view *view);

#endif
