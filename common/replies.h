/* replies.h - [pure] what workers and coordinators answer to our questions, read strictly. */
#ifndef SNOWFLEET_COMMON_REPLIES_H
#define SNOWFLEET_COMMON_REPLIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/skew.h"
#include "common/status.h"

/* GET /v1/clock: the physical clock, ns since the Unix epoch, up to INT64_MAX / 2 (the year 2116), so
 * that differences fit. */
struct clock_reply {
    int64_t receive_ns, transmit_ns;
    int64_t boot_ns;
    bool synchronized;        /* as its kernel says */
    bool knows_error;         /* else max_error_ns was null, and is INT64_MAX here */
    int64_t max_error_ns;     /* the bound on its error, as the worker claims it */
    bool wants_confirmation;  /* stepped, and not confirmed since: no witness; may be missing */
    struct clock_claim claim; /* may be missing, all or in part */
};
enum status clock_reply_parse(const char *text, size_t len, struct clock_reply *reply,
                              struct error *err);

/* GET /v1/ids: hands out each ID, in order, as the text that was sent. */
enum status ids_reply_parse(const char *text, size_t len, void (*visit)(void *arg, const char *id),
                            void *arg, struct error *err);

/* GET /v1/status of a worker: does it hold a machine ID under this claim? */
enum status status_reply_claims(const char *text, size_t len, const char *claim, bool *claims,
                                struct error *err);

/* GET /v1/status of a worker, summed up: what it is doing. */
struct status_reply {
    char state[16]; /* "SERVING" */
    char reason[256];
    uint64_t runway_ms;
    uint64_t issued_total; /* of all its machine IDs, since it started */
};
enum status status_reply_parse(const char *text, size_t len, struct status_reply *reply,
                               struct error *err);

/* The message of {"error":{"code","message"}} to message[size]; what is no such answer is said to be
 * none: "HTTP 502". */
void error_reply_text(long http_status, const char *text, size_t len, char *message, size_t size);

#endif
