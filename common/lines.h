/* lines.h - [pure] the lines of a small file that people write: one thing a line. */
#ifndef SNOWFLEET_COMMON_LINES_H
#define SNOWFLEET_COMMON_LINES_H

#include <stdbool.h>
#include <stddef.h>

struct lines {
    const char *at, *end; /* what is still to be read */
    size_t number;        /* of the line read last, from 1 */
};
static inline struct lines lines_of(const char *text, size_t len) {
    return (struct lines){.at = text, .end = text + len};
}

/* The next line that says something, without the blanks around it: blank ones, and those that begin with
 * '#', are passed over.  False: there is none. */
bool lines_next(struct lines *lines, const char **text, size_t *len);

#endif
