/* chrony.h - [pure] asks chronyd how good its clock is, in the words of its command protocol.
 *
 * chronyd answers "tracking" on UDP port 323 of the loopback to anybody, without a password; the
 * library for it (libchrony) is not in Debian 12, and one request is all that is needed.
 *
 * Source: chronyd 4.3 as measured (tests/unit/test_chrony.c has a recorded answer), protocol version
 * 6, which every chronyd since 1.29 (2013) speaks; the meaning of the fields: chronyc(1), "tracking". */
#ifndef SNOWFLEET_COMMON_CHRONY_H
#define SNOWFLEET_COMMON_CHRONY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

#define CHRONY_BYTES 104 /* of the answer; a question that is shorter is refused */

struct chrony_tracking {
    bool synchronized;    /* its leap status is not "not synchronised" */
    bool local;           /* it follows nothing but this machine's own clock (`local stratum`) */
    int64_t max_error_ns; /* chronyc(1): |system time| + root dispersion + root delay / 2 */
    int64_t frequency_ppb;
};

/* sequence comes back in the answer: draw it at random. */
void chrony_question(uint32_t sequence, unsigned char question[static CHRONY_BYTES]);

/* STATUS_PROTOCOL: no answer to that question; *tracking stays as it was. */
enum status chrony_parse(const unsigned char *bytes, size_t len, uint32_t sequence,
                         struct chrony_tracking *tracking, struct error *err);

#endif
