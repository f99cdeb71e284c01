/* render.h - [pure] the bodies of answers: IDs, a decoded ID, errors.
 *
 * Bodies are allocated, to be released with free(); *len is without the NUL that they end in. */
#ifndef SNOWFLEET_WORKER_RENDER_H
#define SNOWFLEET_WORKER_RENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/id_decode.h"
#include "worker/service.h"

/* {"kind":"snowflake","count":2,"ids":["1","2"]}, with "claim" when asked for (of Snowflakes).  Of public ones, here
 * and below, ids->codec is set. */
char *render_ids_json(const struct service_ids *ids, bool claim, size_t *len);
/* One ID a line. */
char *render_ids_text(const struct service_ids *ids, size_t *len);

/* holder: NULL when not known. */
char *render_decoded(const struct id_facts *facts, const char *holder, size_t *len);

/* {"error":{"code":...,"message":...}}; the message may hold anything. */
char *render_error(const struct service_error *error, size_t *len);

#endif
