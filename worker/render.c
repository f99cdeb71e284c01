#include "worker/render.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/decimal.h"
#include "common/fields.h"

#define KIND_HEAD "{\"kind\":\""
#define KIND_MAX 9 /* "snowflake" */
#define COUNT_HEAD "\",\"count\":"
#define CLAIM_HEAD ",\"claim\":\""
#define INTERVAL_HEAD ",\"interval_ms\":[\""
#define INTERVAL_TAIL "\"]"
#define IDS_HEAD ",\"ids\":[\""
#define IDS_TAIL "\"]}"
#define BETWEEN "\",\""

static char *put(char *at, const char *text) {
    return mempcpy(at, text, strlen(text));
}

/* IDs of 64 bits.  Those of a run follow one another, so each is a copy of the one before, counted
 * up. */
static char *put_runs(char *at, const struct service_ids *ids, const char *between) {
    size_t between_len = strlen(between);

    for (size_t i = 0; i < ids->n_runs; i++) {
        size_t len = decimal_format((uint64_t)ids->runs[i].first, at);

        memcpy(at + len, between, between_len);
        for (uint32_t left = ids->runs[i].count - 1; left > 0; left--) {
            char *next = at + len + between_len;

            memcpy(next, at, len);
            decimal_increment(next, &len);
            memcpy(next + len, between, between_len);
            at = next;
        }
        at += len + between_len;
    }
    return at;
}

/* Values of a sequence that are further apart. */
static char *put_steps(char *at, const struct service_ids *ids, const char *between) {
    for (size_t i = 0; i < ids->n_runs; i++)
        for (uint32_t k = 0; k < ids->runs[i].count; k++)
            at = put(at + decimal_format(service_run_id(ids, i, k), at), between);
    return at;
}

/* Public IDs: nothing follows from the one before. */
static char *put_public(char *at, const struct service_ids *ids, const char *between) {
    for (size_t i = 0; i < ids->n_runs; i++) {
        for (uint32_t k = 0; k < ids->runs[i].count; k++) {
            public_id_encode(ids->codec, PUBLIC_OF_SNOWFLAKE, ids->runs[i].first + k, at);
            at = put(at + PUBLIC_ID_CHARS, between);
        }
    }
    return at;
}

/* Writes all IDs with between after each and returns where that ends. */
static char *put_ids(char *at, const struct service_ids *ids, const char *between) {
    if (ids->kind == ID_PUBLIC)
        return put_public(at, ids, between);
    if (!id_kind_wide(ids->kind))
        return ids->step > 1 ? put_steps(at, ids, between) : put_runs(at, ids, between);
    for (uint32_t i = 0; i < ids->have; i++)
        at = put(at + id_kind_format(ids->kind, &ids->wide[i], at), between);
    return at;
}

/* Room for all IDs with between after each, and for rest more. */
static char *allocate_body(const struct service_ids *ids, size_t between_len, size_t rest) {
    size_t id_len = id_kind_is_text(ids->kind) ? ID_TEXT_MAX : DECIMAL_U64_MAX_CHARS;
    size_t size = ids->have * (id_len + between_len) + rest;
    char *body = malloc(size);

    if (!body)
        abort(); /* as allocate(), which would zero it first */
    return body;
}

char *render_ids_json(const struct service_ids *ids, bool claim, size_t *len) {
    char *body = allocate_body(ids, strlen(BETWEEN),
                               sizeof KIND_HEAD COUNT_HEAD CLAIM_HEAD INTERVAL_HEAD BETWEEN
                                       INTERVAL_TAIL IDS_HEAD IDS_TAIL +
                                   KIND_MAX + 3 * DECIMAL_U64_MAX_CHARS + HOLD_CLAIM_CHARS + 1);
    char *at = put(body, KIND_HEAD);

    assert(ids->have > 0);
    at = put(at, id_kind_name(ids->kind));
    at = put(at, COUNT_HEAD);
    at += decimal_format(ids->have, at);
    if (claim) {
        at = put(at, CLAIM_HEAD);
        at = put(at, ids->claim);
        at = put(at, "\"");
    }
    if (ids->bounded) {
        at = put(at, INTERVAL_HEAD);
        at += decimal_format(ids->earliest_ms, at);
        at = put(at, BETWEEN);
        at += decimal_format(ids->latest_ms, at);
        at = put(at, INTERVAL_TAIL);
    }
    at = put(at, IDS_HEAD);
    at = put_ids(at, ids, BETWEEN) - strlen(BETWEEN);
    at = put(at, IDS_TAIL);
    *at = '\0';
    *len = (size_t)(at - body);
    return body;
}

char *render_ids_text(const struct service_ids *ids, size_t *len) {
    char *body = allocate_body(ids, 1, 1);
    char *at = put_ids(body, ids, "\n");

    *at = '\0';
    *len = (size_t)(at - body);
    return body;
}

static char *spell(json_t *object, size_t *len) {
    char *text = fields_spell(object, NULL);

    *len = strlen(text);
    return text;
}

char *render_decoded(const struct id_facts *facts, const char *holder, size_t *len) {
    return spell(id_facts_json(facts, holder), len);
}

char *render_error(const struct service_error *error, size_t *len) {
    json_t *answer = json_object();
    json_t *inner = json_object();

    fields_put(inner, "code", json_string(error->code));
    fields_put(inner, "message", fields_from_label(error->message));
    if (error->field)
        fields_put(inner, "field", json_string(error->field));
    if (error->retry_after_ms)
        fields_put(inner, "retry_after_ms", fields_from_number(error->retry_after_ms));
    fields_put(answer, "error", inner);
    return spell(answer, len);
}
