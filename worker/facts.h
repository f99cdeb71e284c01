/* facts.h - what a serving loop knows when it answers, whichever transport asks. */
#ifndef SNOWFLEET_WORKER_FACTS_H
#define SNOWFLEET_WORKER_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/id_decode.h"
#include "worker/service.h"
#include "worker/view.h"

/* Adds to err why the worker does not serve: the loop knows that it cannot, the control thread knows
 * why. */
void facts_add_reason(struct view_board *board, struct service_error *err);

/* May Snowflakes be asked for now, of this loop or by way of it of another one (lend.h)?  *view becomes
 * the worker's, and *why says what is wrong.  The service has been told of the clock (park_look()). */
bool facts_ready(struct view_board *board, const struct service *service, bool draining,
                 uint64_t now_ms, struct worker_view *view, struct service_error *why);

/* The epoch that IDs count from; false, and err says so, when it is not known yet. */
bool facts_epoch(const struct service *service, const struct worker_view *view, uint64_t *epoch_ms,
                 struct service_error *err);

struct facts_decoded {
    struct id_facts facts;
    const char *
        holder; /* of a Snowflake's machine ID: this worker's own are the ones it knows; else NULL */
    struct worker_view view; /* where holder is */
};
/* What an ID says.  codec: NULL where there are no keys. */
bool facts_decode(struct view_board *board, const struct service *service,
                  struct public_codec *codec, struct id_value *id, uint64_t now_ms,
                  struct facts_decoded *decoded, struct service_error *err);
/* The public form of a Snowflake or a value of a sequence, as id_encoded() has it. */
bool facts_encode(struct public_codec *codec, const struct id_value *id, struct id_facts *facts,
                  struct service_error *err);

#endif
