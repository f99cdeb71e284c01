#include "common/sequence.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fields.h"
#include "common/mutant.h"
#include "common/quote.h"
#include "common/records.h"

static const char *const mode_names[] = {"block", "stride"};

const char *sequence_mode_name(enum sequence_mode mode) {
    return mode_names[mode];
}

static bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

enum status sequence_name_check(const char *name, size_t len, struct error *err) {
    char quoted[QUOTE_SIZE];
    size_t valid = 0;

    while (valid < len && is_name_char(name[valid]))
        valid++;
    if (len == 0 || len > SEQUENCE_NAME_MAX || valid < len)
        return error_set(err, STATUS_INVALID,
                         "must be 1..%u characters of a-z A-Z 0-9 . _ -, got %s", SEQUENCE_NAME_MAX,
                         quote(name, len, quoted));
    return STATUS_OK;
}

/* ---- the record ---- */

static void read_format(struct fields *fields) {
    uint64_t format = 0;

    fields_number(fields, "format", 1, INT64_MAX, &format);
    if (fields->status == STATUS_OK && format > SEQUENCE_FORMAT)
        fields_fail(fields, STATUS_REFUSED, "format",
                    "is of a newer program: this one must be updated");
}

static void read_choice(struct fields *fields, const char *name, const char *first,
                        const char *second, bool *is_second) {
    const json_t *value = json_object_get(fields->object, name);
    const char *text = json_string_value(value);
    char wanted[48];

    *is_second = text && strcmp(text, second) == 0;
    if (text && (*is_second || strcmp(text, first) == 0))
        return;
    snprintf(wanted, sizeof wanted, "\"%s\" or \"%s\"", first, second);
    fields_refuse(fields, name, value, wanted);
}

static void read_next_value(struct fields *fields, const json_t *list, size_t i, uint64_t *next) {
    json_t *object = json_object();
    char element[FIELDS_NAME_MAX];
    struct fields inner = *fields;

    /* A number in a string, as fields_wide() reads it, but an element of a list. */
    fields_element("next", i, element);
    json_object_set(object, element, json_array_get(list, i));
    inner.object = object;
    fields_wide(&inner, element, SEQUENCE_NEXT_MAX, next);
    fields->status = inner.status;
    json_decref(object);
}

/* Two shards that step through the same values would give each of them twice. */
static void check_apart(struct fields *fields, const struct sequence *sequence) {
    bool taken[SEQUENCE_SHARDS_MAX] = {false};

    for (size_t i = 0; i < sequence->n_shards; i++) {
        size_t residue = (size_t)(sequence->next[i] % sequence->n_shards);

        if (sequence->next[i] > SEQUENCE_VALUE_MAX)
            continue;
        if (taken[residue])
            fields_fail(fields, STATUS_PROTOCOL, "next", "has two shards with the same values");
        taken[residue] = true;
    }
}

static void read_next(struct fields *fields, struct sequence *sequence) {
    const json_t *list = fields_list(fields, "next", SEQUENCE_SHARDS_MAX);

    if (!list)
        return;
    sequence->n_shards = json_array_size(list);
    if (sequence->n_shards == 0 || (sequence->mode == SEQUENCE_BLOCK && sequence->n_shards > 1))
        fields_fail(fields, STATUS_PROTOCOL, "next", "has another number of shards than its mode");
    for (size_t i = 0; i < sequence->n_shards && fields->status == STATUS_OK; i++)
        read_next_value(fields, list, i, &sequence->next[i]);
    if (fields->status == STATUS_OK)
        check_apart(fields, sequence);
}

enum status sequence_parse(const char *text, size_t len, struct sequence *sequence,
                           struct error *err) {
    struct sequence read = {.serial = 0};
    struct fields fields;
    json_t *record = fields_open(&fields, "sequence", text, len, err);
    bool stride;

    read_format(&fields);
    fields_wide(&fields, "serial", RECORD_COUNTER_MAX, &read.serial);
    read_choice(&fields, "state", "OPEN", "DROPPED", &read.dropped);
    read_choice(&fields, "mode", "block", "stride", &stride);
    read.mode = stride ? SEQUENCE_STRIDE : SEQUENCE_BLOCK;
    fields_wide(&fields, "layout", RECORD_COUNTER_MAX, &read.layout);
    fields_number(&fields, "block", 1, SEQUENCE_BLOCK_MAX, &read.block);
    fields_number(&fields, "max_rate", 1, SEQUENCE_RATE_MAX, &read.max_rate);
    fields_wide(&fields, "pace_ms", RECORD_WALL_MAX_MS, &read.pace_ms);
    if (fields.status == STATUS_OK && read.block > read.max_rate * SEQUENCE_BURST_S)
        fields_fail(&fields, STATUS_PROTOCOL, "block", "is more than 10 s of max_rate");
    read_next(&fields, &read);
    json_decref(record);
    if (fields.status == STATUS_OK)
        *sequence = read;
    return fields.status;
}

static char *spell(const struct sequence *sequence, const char *before) {
    json_t *record = json_object(), *next = json_array();

    for (size_t i = 0; i < sequence->n_shards; i++)
        fields_append(next, fields_from_wide(sequence->next[i]));
    fields_put(record, "format", fields_from_number(SEQUENCE_FORMAT));
    fields_put(record, "serial", fields_from_wide(sequence->serial));
    fields_put(record, "state", json_string(sequence->dropped ? "DROPPED" : "OPEN"));
    fields_put(record, "mode", json_string(sequence_mode_name(sequence->mode)));
    fields_put(record, "layout", fields_from_wide(sequence->layout));
    fields_put(record, "block", fields_from_number(sequence->block));
    fields_put(record, "max_rate", fields_from_number(sequence->max_rate));
    fields_put(record, "pace_ms", fields_from_wide(sequence->pace_ms));
    fields_put(record, "next", next);
    return fields_spell(record, before);
}

enum status sequence_check(const struct sequence *sequence, struct error *err) {
    char *text = spell(sequence, NULL);
    struct sequence unused;
    enum status status = sequence_parse(text, strlen(text), &unused, err);

    free(text);
    return status;
}

char *sequence_format(const struct sequence *sequence, const char *before) {
    struct error err;

    assert(sequence_check(sequence, &err) == STATUS_OK);
    (void)err;
    return spell(sequence, before);
}

bool sequence_follows(const struct sequence *found, const struct sequence *sent) {
    if (found->serial < sent->serial || found->layout != sent->layout ||
        found->dropped != sent->dropped || found->mode != sent->mode ||
        found->block != sent->block || found->max_rate != sent->max_rate ||
        found->n_shards != sent->n_shards)
        return false;
    for (size_t i = 0; i < sent->n_shards; i++) {
        if (found->next[i] < sent->next[i] ||
            (found->next[i] - sent->next[i]) % sent->n_shards != 0 ||
            (found->next[i] > sent->next[i] && found->serial == sent->serial))
            return false;
    }
    return true;
}

/* ---- arithmetic ---- */

uint64_t sequence_top(const struct sequence *sequence) {
    uint64_t top = 0;

    for (size_t i = 0; i < sequence->n_shards; i++)
        if (sequence->next[i] > top)
            top = sequence->next[i];
    return top;
}

uint64_t sequence_left(const struct sequence *sequence, size_t shard) {
    uint64_t next = sequence->next[shard];

    return next > SEQUENCE_VALUE_MAX ? 0 : (SEQUENCE_VALUE_MAX - next) / sequence->n_shards + 1;
}

static uint64_t min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* How long that many values take at max_rate, rounded up. */
static uint64_t pace_of(const struct sequence *sequence, uint64_t count) {
    return (count * 1000 + sequence->max_rate - 1) / sequence->max_rate;
}

enum status sequence_grant(struct sequence *sequence, size_t shard, uint64_t blocks,
                           uint64_t now_ms, struct sequence_grant *grant, uint64_t *wait_ms) {
    uint64_t least = min_u64(sequence->block, sequence_left(sequence, shard)), count, fits;
    uint64_t pace_ms = sequence->pace_ms > now_ms ? sequence->pace_ms : now_ms;

    assert(blocks > 0 && blocks <= UINT32_MAX && shard < sequence->n_shards);
    if (least == 0)
        return STATUS_STARVED;
    if (now_ms > RECORD_WALL_MAX_MS - SEQUENCE_BURST_MS)
        return STATUS_CLOCK_RANGE;
    if (pace_ms + pace_of(sequence, least) > now_ms + SEQUENCE_BURST_MS) {
        *wait_ms = pace_ms + pace_of(sequence, least) - now_ms - SEQUENCE_BURST_MS;
        return STATUS_BUSY;
    }
    fits = (now_ms + SEQUENCE_BURST_MS - pace_ms) * sequence->max_rate / 1000;
    count = min_u64(blocks * sequence->block, sequence_left(sequence, shard));
    if (count > fits)
        count = least < sequence->block ? least : fits / sequence->block * sequence->block;
    *grant = (struct sequence_grant){
        .first = sequence->next[shard], .count = count, .step = sequence->n_shards};
    sequence->next[shard] += count * sequence->n_shards;
    sequence->pace_ms = pace_ms + pace_of(sequence, count);
    sequence->serial++;
    return STATUS_OK;
}

/* As sequence_top(), but of a layout of which nothing was granted yet its base. */
static uint64_t ungranted(const struct sequence *sequence) {
    for (size_t i = 0; i < sequence->n_shards; i++)
        if (sequence->next[i] != sequence->next[0] + i)
            return sequence_top(sequence);
    return sequence->next[0];
}

void sequence_rebase(struct sequence *sequence, uint64_t base, size_t n_shards) {
    uint64_t top = sequence_top(sequence);

    assert(n_shards >= 1 && n_shards <= SEQUENCE_SHARDS_MAX &&
           (base >= ungranted(sequence) || MUTANT_BUILD));
    if (base > SEQUENCE_VALUE_MAX + 1)
        base = top > SEQUENCE_VALUE_MAX ? top : SEQUENCE_VALUE_MAX + 1;
    sequence->n_shards = n_shards;
    for (size_t i = 0; i < n_shards; i++)
        sequence->next[i] = min_u64(base + i, SEQUENCE_NEXT_MAX);
    sequence->layout++;
    sequence->serial++;
}

enum status sequence_reshard(struct sequence *sequence, size_t n_shards, uint64_t now_ms,
                             uint64_t *wait_ms) {
    uint64_t pace_ms = sequence->pace_ms > now_ms ? sequence->pace_ms : now_ms, base;

    if (now_ms > RECORD_WALL_MAX_MS - SEQUENCE_BURST_MS)
        return STATUS_CLOCK_RANGE;
    pace_ms += pace_of(sequence, 1);
    if (pace_ms > now_ms + SEQUENCE_BURST_MS) {
        *wait_ms = pace_ms - now_ms - SEQUENCE_BURST_MS;
        return STATUS_BUSY;
    }
    sequence->pace_ms = pace_ms;
    base = sequence_top(sequence);
    if (MUTANT(SEQUENCE_LOW_BASE))
        base = sequence->next[0];
    sequence_rebase(sequence, base, n_shards);
    return STATUS_OK;
}

/* Counts what the rate allows, and pays for it as if it had been granted: the same copy, or an older one, may
 * be restored again after this.  m values granted, however the sequence was sharded meanwhile, raise
 * ungranted() by less than (m + 1) * SEQUENCE_SHARDS_MAX; so does a reshard, which pays for a value. */
void sequence_fence(struct sequence *sequence, uint64_t until_ms, uint64_t evidence) {
    uint64_t spread = sequence->mode == SEQUENCE_STRIDE ? 2 * SEQUENCE_SHARDS_MAX : 1;
    uint64_t last_ms = until_ms + SEQUENCE_BURST_MS, base, further;
    uint64_t span_ms = last_ms > sequence->pace_ms ? last_ms - sequence->pace_ms : 0;
    uint64_t pace_ms = sequence->pace_ms + span_ms;

    if (sequence->pace_ms > last_ms + SEQUENCE_BURST_MS) {
        sequence->dropped = true;
        span_ms = SEQUENCE_BURST_MS;
        pace_ms = last_ms;
    }
    if (__builtin_mul_overflow(span_ms, sequence->max_rate, &further) ||
        __builtin_mul_overflow(further / 1000, spread, &further) ||
        __builtin_add_overflow(ungranted(sequence), further, &base))
        base = SEQUENCE_VALUE_MAX + 1;
    if (MUTANT(SEQUENCE_LOW_FENCE))
        base = ungranted(sequence);
    if (base < evidence)
        base = evidence;
    if (base < ungranted(sequence))
        base = ungranted(sequence); /* exhausted already */
    sequence->pace_ms = min_u64(pace_ms, RECORD_WALL_MAX_MS);
    sequence_rebase(sequence, base, sequence->n_shards);
}
