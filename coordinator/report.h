/* report.h - [pure] what an operator sees of a cluster: status and machine IDs as JSON. */
#ifndef SNOWFLEET_COORDINATOR_REPORT_H
#define SNOWFLEET_COORDINATOR_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "coordinator/cluster.h"

/* A timestamp, counter or ID: a string, as every number that may need 64 bits. */
json_t *report_wide(uint64_t value);
/* ns as ms with three digits after the point. */
json_t *report_ms(int64_t ns);
json_t *report_text(const char *text); /* null for "" */

/* `snowfleetctl status --output json`; the caller's.  "mode" is null while meta is missing or
 * unreadable, and "reason" says so. */
json_t *report_status(const struct cluster *cluster, const char *name, uint64_t now_ms);
/* `snowfleetctl machines --output json`; the caller's.  Only machine IDs that are in range or still
 * held; "usable_in_ms" is null for those that do not come free by themselves; "stuck" is true for
 * those that are held although their horizon is past. */
json_t *report_machines(const struct cluster *cluster, uint64_t now_ms);

/* Which workers have other keys for public IDs than most of those that have any; where no keys are the most
 * common ones, all of them. */
struct report_keys {
    bool some;         /* some worker has keys */
    const char *usual; /* the fingerprint of the most common ones; NULL: there are none */
};
struct report_keys report_keys(const struct cluster *cluster);
bool report_keys_differ(const struct report_keys *keys, const struct node *node);

/* The machine IDs that an instance holds, in order; returns how many. */
size_t report_held_by(const struct cluster *cluster, const char *instance,
                      uint16_t machine_ids[static MACHINE_IDS]);
/* How far the ceiling is ahead of now, in s; below 0 when it is past. */
int64_t report_ceiling_lead_s(const struct cluster *cluster, uint64_t now_ms);

#endif
