/* audit.h - [pure] dumps of IDs: their lines, and whether somebody may have issued them. */
#ifndef SNOWFLEET_COORDINATOR_AUDIT_H
#define SNOWFLEET_COORDINATOR_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/keys.h"
#include "common/records.h"

/* ---- lines ----
 *
 * One ID a line, plain decimal, 0..INT64_MAX.  A line ends in LF or CR LF, the last one may lack
 * it.  Everything else is a bad line, an empty one too.
 *
 *     while (room = audit_reader_room(reader, &size), n = read(fd, room, size), ...) {
 *         audit_reader_fill(reader, n);
 *         while (audit_reader_next(reader, &line)) ...
 *     }
 *
 * n is 0 once, at the end of the input: then the last line comes. */
#define AUDIT_BLOCK ((size_t)256 * 1024) /* a line that is longer is bad, wherever it ends */

struct audit_reader {
    uint64_t line;     /* the number of the line handed out last, from 1 */
    size_t begin, end; /* what has not been handed out */
    bool ended;
    bool skipping; /* the rest of a line that is too long */
    char block[AUDIT_BLOCK];
};
struct audit_line {
    bool good;
    uint64_t id; /* of a good line */
    const char
        *text; /* of a bad one, its beginning when it is too long, without its end of line; until
                         audit_reader_room() */
    size_t len;
};
void audit_reader_init(struct audit_reader *reader);
/* Where to put more input; *size is above 0 once audit_reader_next() has returned false. */
char *audit_reader_room(struct audit_reader *reader, size_t *size);
void audit_reader_fill(struct audit_reader *reader, size_t n);
/* False: more input is needed, or there is none. */
bool audit_reader_next(struct audit_reader *reader, struct audit_line *line);

/* ---- who may have issued an ID ---- */

/* What one claim could issue: after_ms < t <= until_ms, Unix ms. */
struct audit_window {
    uint64_t after_ms, until_ms;
    char claim[HEX128_CHARS + 1];
    char instance[HEX128_CHARS + 1];        /* "" when its record cannot be read */
    char identity[RECORD_IDENTITY_MAX + 1]; /* likewise */
    uint64_t first_ms, last_ms;             /* of its IDs in the dump, */
    uint64_t ids;                           /* and how many; for who counts them */
};
/* All windows of one machine ID that etcd can show.  They may be added in any order; windows is the
 * caller's to free(). */
struct audit_history {
    struct audit_window *windows;
    size_t n, capacity;
    uint64_t covered_after_ms; /* what was granted up to here is no longer known */
    /* For audit_judge(). */
    size_t begun;      /* of the windows, begin before the newest t asked for ... */
    size_t longest;    /* ... and among them this one ends last */
    uint64_t until_ms; /* of all */
};
void audit_history_add(struct audit_history *history, const struct audit_window *window);
/* Once, when all are there. */
void audit_history_close(struct audit_history *history);

enum audit_verdict {
    AUDIT_INSIDE,
    AUDIT_NOT_COVERED, /* older than what is known: nobody can tell */
    AUDIT_NEVER_HELD,  /* nobody has ever claimed the machine ID */
    AUDIT_ABOVE,       /* later than all that was ever granted */
    AUDIT_BETWEEN      /* within nobody's window: between two, or before the first */
};
const char *audit_verdict_text(enum audit_verdict verdict); /* for a person */
/* t_ms never falls from one call to the next.  floor_ms: what is at or below it, and in no window, is
 * from before this history of etcd began.  *window is set for AUDIT_INSIDE. */
enum audit_verdict audit_judge(struct audit_history *history, uint64_t floor_ms, uint64_t t_ms,
                               struct audit_window **window);

/* ---- what is counted of one machine ID ---- */

struct audit_machine {
    uint64_t lines;
    uint64_t smallest, largest;    /* IDs; first and last in time */
    uint64_t newest;               /* the one read last */
    bool increasing;               /* strictly, in the order read */
    uint64_t not_covered, outside; /* distinct IDs */
    struct audit_history history;
};
void audit_machine_count(struct audit_machine *machine, uint64_t id);

#endif
