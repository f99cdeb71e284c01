/* service.h - [pure] one decoded request in, one reply out: what a request means, whichever
 * transport it came by.
 *
 * Belongs to one serving loop and is used on its thread only. */
#ifndef SNOWFLEET_WORKER_SERVICE_H
#define SNOWFLEET_WORKER_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/hold.h"
#include "common/id_kind.h"
#include "common/public_id.h"
#include "common/sequence.h"
#include "common/snowflake.h"
#include "common/status.h"

#define SERVICE_COUNT_MAX 10000u /* IDs in one request; in gRPC it also stays below 4 MiB */

/* What the clock strategy has to say before an ID is issued.  Zeroed, it has nothing to say. */
struct service_clock {
    bool bounded; /* the time is an interval: error_ns to either side, when that is known */
    bool refuses; /* the error is not known, or above max_error_ns */
    bool knows_error;
    int64_t error_ns, max_error_ns;
};

struct service_ids;
struct service_error;
enum service_outcome {
    SERVICE_DONE, /* have == want */
    SERVICE_WAIT, /* park until wait_until_ms (Unix ms, by the loop's clock), then go on; for a sequence until
                      the table says that something has changed */
    SERVICE_FAILED /* nothing of it may be handed out; the error says why */
};

/* What one serving loop issues from.  serving is false until the first generation is installed,
 * after it was dropped (LOST) and once it is closed (RELEASE): a closed one never reopens. */
struct service {
    struct generation generation; /* replaced whole, by service_install */
    bool serving;
    bool fresh;                    /* nothing has been issued since the chain's first claim */
    uint64_t max_backward_wait_ms; /* --max-backward-wait: smaller steps back are waited out */
    enum snowflake_start start;
    uint64_t issued_total;      /* Snowflakes of this machine ID, in whatever form */
    struct service_clock clock; /* as last told */
    /* Where the 128-bit kinds come from, as id128_source_take(): one source for all loops. */
    struct service_wide {
        enum status (*take)(void *source, enum id_kind kind, uint64_t now_ms, struct id128 *ids,
                            size_t want, size_t *have, struct error *err);
        void *source;
    } wide;
    /* Where values of sequences come from, as sequences_take(): one table for all loops.  take is NULL in a
     * worker without etcd. */
    struct service_sequences {
        enum service_outcome (*take)(void *table, struct service_ids *ids,
                                     struct service_error *err);
        void *table;
    } sequences;
    uint64_t kind_issued_total[ID_KINDS]; /* by what was asked for */
};

void service_init(struct service *service, uint64_t max_backward_wait_ms,
                  enum snowflake_start start);

/* To be told whenever the loop has read the clock. */
void service_tell_clock(struct service *service, const struct service_clock *clock);

/* The three orders of the control thread (hold.h).  Continuing a chain keeps the (timestamp,
 * sequence) that stands at this moment; a fresh generation starts above used_up_ms. */
void service_install(struct service *service, const struct hold_install *install);
/* Raises the limit of the generation with that claim; an order for another claim is ignored.
 * A limit never falls. */
void service_raise(struct service *service, const char *claim, uint64_t limit_ms);
/* Drops the generation at once. */
void service_drop(struct service *service);
/* Closes the generation for good and returns the last timestamp (or the used-up start when nothing
 * was issued); 0 when there is none. */
uint64_t service_close(struct service *service);

/* A request for IDs under way: it may have to wait for the next millisecond. */
struct service_ids {
    enum id_kind kind;
    struct public_codec *codec; /* of ID_PUBLIC: for whoever renders it, set just before */
    uint32_t want, have;        /* want is 1..SERVICE_COUNT_MAX */
    struct id128 *wide;         /* of the 128-bit kinds: have of them, allocated */
    struct snowflake_run *runs; /* of 64 bits: allocated; in the order of issue */
    size_t n_runs, room;
    /* Of a sequence: which, and which of its shards; and how far its values are apart. */
    char sequence[SEQUENCE_NAME_MAX + 1];
    bool has_shard;
    uint16_t shard;
    uint32_t step;                    /* within a run; 0 is 1 */
    char claim[HOLD_CLAIM_CHARS + 1]; /* of the generation that all its IDs come from */
    /* Once have == want: the timestamp of the last ID, Unix ms.  Where the strategy is `bounded`, true
     * time was within earliest_ms..latest_ms while they were issued. */
    uint64_t last_ms;
    bool bounded;
    uint64_t earliest_ms, latest_ms;
};
/* The k-th ID of a run. */
static inline uint64_t service_run_id(const struct service_ids *ids, size_t run, uint32_t k) {
    return (uint64_t)ids->runs[run].first + (uint64_t)k * (ids->step ? ids->step : 1);
}
/* Adds a run to runs and to have. */
void service_add_run(struct service_ids *ids, struct snowflake_run run);
/* runs and wide are made as needed; releases them. */
void service_ids_free(struct service_ids *ids);

struct service_error {
    const char *code; /* gRPC's names: "INVALID_ARGUMENT", "UNAVAILABLE" */
    char message[200];
    const char *field;       /* or NULL */
    uint64_t retry_after_ms; /* with UNAVAILABLE; 0: not known to be worth retrying */
};
/* Takes what it can get now.  Only Snowflakes need a generation.  All Snowflakes of one answer come from one generation: when it was replaced
 * by a fresh one while the request was parked, the IDs taken so far are given up (never reused)
 * and it starts again. */
enum service_outcome service_take(struct service *service, uint64_t now_ms, struct service_ids *ids,
                                  uint64_t *wait_until_ms, struct service_error *err);

/* Would a request for one ID be served now, if need be after a wait below max_backward_wait_ms?  If
 * not, err says why. */
bool service_ready(const struct service *service, uint64_t now_ms, struct service_error *err);

#endif
