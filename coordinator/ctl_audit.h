/* ctl_audit.h - what an audit found, on its way from ctl_audit.c to ctl_audit_show.c. */
#ifndef SNOWFLEET_COORDINATOR_CTL_AUDIT_H
#define SNOWFLEET_COORDINATOR_CTL_AUDIT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "coordinator/audit.h"
#include "coordinator/ctl.h"

#define AUDIT_PLACES_MAX 5u /* shown of one ID */

struct audit_findings {
    bool offline;
    char *const *files; /* as named; NULL-terminated */
    uint64_t epoch_ms;
    uint64_t lines, bad_lines;
    uint64_t ids;                          /* distinct */
    uint64_t repeated_ids, repeated_lines; /* IDs that come again; lines that repeat one */
    uint64_t outside, not_covered;         /* distinct IDs */
    /* The first of them, as they are printed. */
    json_t *bad, *repeated, *strangers;
    struct audit_machine machines[MACHINE_IDS];
};

/* Prints the result; what it names of *findings stays. */
void audit_show(const struct audit_findings *findings, enum ctl_output output);
/* {"file","line"} for place, as made by audit_place(). */
json_t *audit_show_place(const struct audit_findings *findings, uint64_t place);

static inline bool audit_is_stdin(const char *file) {
    return strcmp(file, "-") == 0;
}
static inline const char *audit_file_name(const char *file) {
    return audit_is_stdin(file) ? "stdin" : file;
}

/* Where a line stands: which of the files, and the line, from 1.  In the order in which they are read. */
#define AUDIT_FILES_MAX 65536u
static inline uint64_t audit_place(size_t file, uint64_t line) {
    return (uint64_t)file << 48 | line;
}

#endif
