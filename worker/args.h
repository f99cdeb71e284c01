/* args.h - [pure] what HTTP clients ask for: query arguments, JSON bodies, Accept.
 *
 * Everything is refused that is not understood: an argument of another name, one given twice, a
 * number that is not plain decimal.  On failure a reader returns false and *err names the field. */
#ifndef SNOWFLEET_WORKER_ARGS_H
#define SNOWFLEET_WORKER_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/id_decode.h"
#include "worker/service.h"

/* A request for IDs.  The arguments may come one by one from a query and as a whole from a body;
 * what is given in both was given twice. */
struct ids_args {
    enum id_kind kind;
    uint32_t count;
    bool claim;       /* the answer is to name the claim */
    bool commit_wait; /* the answer is to wait until the IDs' time is certainly past */
    char name[SEQUENCE_NAME_MAX + 1]; /* of a sequence, and which of its shards */
    uint16_t shard;
    bool has_kind, has_count, has_claim, has_commit_wait, has_name, has_shard;
};
void ids_args_init(struct ids_args *args);
/* name is NUL-terminated, value[len] may hold anything. */
bool ids_args_set(struct ids_args *args, const char *name, const char *value, size_t len,
                  bool twice, struct service_error *err);
/* {"kind":"snowflake","count":2,"claim":true}: count as a number or as a string.  An empty body
 * sets nothing. */
bool ids_args_body(struct ids_args *args, const char *body, size_t len, struct service_error *err);
/* Do all that were set go together?  Claims and commit_wait are of Snowflakes only, public ones among them; name and shard of
 * sequences, which need a name. */
bool ids_args_check(const struct ids_args *args, struct service_error *err);
/* What the service is asked for. */
void ids_args_fill(const struct ids_args *args, struct service_ids *ids);

/* An ID to be decoded, as text or as {"id":"187354526515220487","kind":"snowflake"}; a JSON number is
 * read exactly. */
bool decode_args_kind(const char *value, size_t len, enum id_read *kind, struct service_error *err);
bool decode_args_id(const char *text, size_t len, enum id_read kind, struct id_value *id,
                    struct service_error *err);
bool decode_args_body(const char *body, size_t len, struct id_value *id, struct service_error *err);

/* An ID to be given its public form, in the same ways; kind is snowflake, the default, or sequence. */
bool encode_args_kind(const char *value, size_t len, enum id_read *kind, struct service_error *err);
bool encode_args_body(const char *body, size_t len, struct id_value *id, struct service_error *err);

/* Public IDs need keys: codec is NULL without. */
bool public_args_check(const struct public_codec *codec, struct service_error *err);

/* Does an Accept header prefer text/plain to application/json?  NULL: there was none. */
bool accept_prefers_text(const char *accept);

/* Records that an argument is wrong and returns false. */
bool args_refuse(struct service_error *err, const char *field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
