/* cluster.h - [pure] all that etcd holds of one cluster, as read or watched: meta, ceiling, leader,
 * slots and members.
 *
 * The coordinator keeps it up to date by a watch, the tool fills it by one read. */
#ifndef SNOWFLEET_COORDINATOR_CLUSTER_H
#define SNOWFLEET_COORDINATOR_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/etcd.h"
#include "common/keys.h"
#include "common/records.h"
#include "common/registry.h"
#include "common/replies.h"
#include "common/skew.h"
#include "common/status.h"
#include "coordinator/track.h"

/* What a worker's /v1/status said when it was last asked (pulse.h). */
struct pulse_reading {
    bool heard; /* it answered; else nothing below counts but boot_ms */
    struct status_reply said;
    bool has_rate;     /* it was heard twice in a row */
    double rate_per_s; /* Snowflakes issued between these two */
    uint64_t boot_ms;  /* when it was asked; 0: never */
};

/* What is to be expected of a member whose clock is asked (clocks.h). */
enum member_path {
    MEMBER_NEAR, /* it answers at once */
    MEMBER_SILENT, /* perhaps nothing until the time-out: it was silent last time, or was never asked */
    MEMBER_FAR, /* it answers after a while */
};

/* A worker: there is a node/<instance> or an assign/<instance>. */
struct member {
    char instance[HEX128_CHARS + 1];
    bool has_node;                     /* the key exists */
    bool node_read;                    /* and its record could be read */
    struct node node;                  /* zeroed when not */
    int64_t lease;                     /* of node/<instance> */
    char *assign_value;                /* as stored, allocated; NULL when absent */
    struct assign assign;              /* zeroed when absent or unreadable */
    bool node_applied, assign_applied; /* since the last ETCD_EVENT_RESET */

    /* A coordinator's work with it.  A member stays while busy is above 0. */
    unsigned busy;
    struct clock_reading reading;
    struct track track;       /* of what was heard, from our own clock */
    struct clock_watch clock; /* of its wall and boot clocks, from one reading to the next */
    uint64_t heard_boot_ms;   /* when it was last heard, by our boot clock; 0: never */
    struct pulse_reading pulse;
    bool asking_pulse;
    bool probing, probe_wanted;
    enum member_path probing_as; /* while probing, as the next */
    uint64_t probing_boot_ms;    /* when that began */
    uint64_t probing_attempt;    /* node.attempt when the clock was last asked ... */
    uint64_t probed_attempt;     /* ... and when it was last heard, or not */
    bool assigning;
    uint64_t not_before_boot_ms;  /* of the next try to assign */
    struct assign offered;        /* while assigning: what is being written */
    uint64_t unconfirmed_boot_ms; /* since when its clock waits to be confirmed; 0: it does not */
    bool clock_confirmed;         /* and we did, since then */
};

struct cluster {
    struct keys keys;
    bool complete; /* all keys have been read once */

    char *meta_value; /* as stored, allocated; NULL when absent */
    bool has_meta;    /* and readable */
    struct meta meta;
    struct error meta_error; /* why it is not readable */

    char *ceil_value;
    bool has_ceil;
    uint64_t ceil_ms;

    char *leader_value;
    bool has_leader;
    struct leader leader;

    struct registry registry;
    struct member **members; /* allocated, as is each; in no order */
    size_t n_members;
};

/* Some 900 KiB, allocated.  keys is copied. */
struct cluster *cluster_new(const struct keys *keys);
void cluster_free(struct cluster *cluster);

/* Takes in what a watch of keys.prefix reports.  member pointers of members that are gone and not
 * busy become invalid. */
void cluster_events(struct cluster *cluster, const struct etcd_event *events, size_t n,
                    uint64_t boot_ms);
/* Takes in one key that was read; value NULL: it is absent. */
void cluster_apply(struct cluster *cluster, const char *key, const char *value, size_t value_len,
                   int64_t lease, uint64_t boot_ms);
/* Takes in all keys of the prefix, read at one moment. */
void cluster_read(struct cluster *cluster, const struct etcd_op_result *all, uint64_t boot_ms);

/* A member that is no longer busy: it may be freed here, if its keys are gone. */
void cluster_release(struct cluster *cluster, struct member *member);

#endif
