/* ctl_skew.h - snowfleetctl skew: how a report (survey.h, as JSON) is shown. */
#ifndef SNOWFLEET_COORDINATOR_CTL_SKEW_H
#define SNOWFLEET_COORDINATOR_CTL_SKEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define SKEW_TOP_FIT UINT64_MAX

enum skew_form { SKEW_TABLE, SKEW_CSV, SKEW_JSON, SKEW_JSON_LINE };

struct skew_show {
    enum skew_form form;
    bool again;   /* not the first report of this run */
    bool watch;   /* others follow: on a terminal each takes the place of the one before */
    uint64_t top; /* rows of the table; 0: all; SKEW_TOP_FIT: as many as a terminal has room for */
};

/* To stdout. */
void skew_show(const json_t *report, const struct skew_show *how);

#endif
