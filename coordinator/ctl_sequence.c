/* snowfleetctl sequence: named counters.  What may be asked of one is in common/sequence.h; here it is read,
 * changed and written by a transaction that compares what was read. */
#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/fields.h"
#include "common/quote.h"
#include "common/sequence.h"
#include "coordinator/ctl.h"
#include "coordinator/ctl_output.h"
#include "coordinator/ctl_seq.h"
#include "coordinator/ctl_session.h"
#include "coordinator/report.h"

#define ATTEMPTS 100u /* against workers that are granted values meanwhile */

static const char *const modes[] = {[SEQUENCE_BLOCK] = "block", [SEQUENCE_STRIDE] = "stride", NULL};

static const struct option options[] = {
    {.name = "start",
     .type = OPTION_NUMBER,
     .offset = offsetof(struct ctl_values, sequence.start),
     .given_offset = offsetof(struct ctl_values, sequence.start_given),
     .argument = "N",
     .max = SEQUENCE_VALUE_MAX,
     .help =
         "create: the first value.  Without it 1, or of a name that was dropped the value after the "
         "last that was granted; required in a cluster made by init --if-needed, which may follow a "
         "lost etcd."},
    {.name = "mode",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct ctl_values, sequence.mode),
     .given_offset = offsetof(struct ctl_values, sequence.mode_given),
     .argument = "block|stride",
     .fallback = "block",
     .choices = modes,
     .help =
         "create: one row of values for all (block), or one for each of --shards, every N-th value "
         "each (stride)."},
    {.name = "shards",
     .type = OPTION_NUMBER,
     .offset = offsetof(struct ctl_values, sequence.shards),
     .given_offset = offsetof(struct ctl_values, sequence.shards_given),
     .argument = "N",
     .min = 1,
     .max = SEQUENCE_SHARDS_MAX,
     .help = "create --mode=stride and reshard: how many shards."},
    {.name = "block",
     .type = OPTION_NUMBER,
     .offset = offsetof(struct ctl_values, sequence.block),
     .given_offset = offsetof(struct ctl_values, sequence.block_given),
     .argument = "N",
     .min = 1,
     .max = SEQUENCE_BLOCK_MAX,
     .help =
         "create and set: how many values a worker is granted at a time, or a multiple of it where "
         "many are asked for; a worker that crashes loses what it holds.  1000 at first, or 10 s of "
         "--max-rate where that is less."},
    {.name = "max-rate",
     .type = OPTION_NUMBER,
     .offset = offsetof(struct ctl_values, sequence.max_rate),
     .given_offset = offsetof(struct ctl_values, sequence.max_rate_given),
     .argument = "N",
     .min = 1,
     .max = SEQUENCE_RATE_MAX,
     .help =
         "create: values a second at most, of all workers together; cannot be changed.  1000000 without "
         "it.  recover skips what may have been granted at this rate since the backup, so less leaves "
         "less of a gap."},
    {.name = "next",
     .type = OPTION_NUMBER,
     .offset = offsetof(struct ctl_values, sequence.next),
     .given_offset = offsetof(struct ctl_values, sequence.next_given),
     .argument = "N",
     .max = SEQUENCE_VALUE_MAX,
     .help =
         "set: the next value to be granted, above all that were.  Also lets a sequence go on at once after "
         "a clock was far ahead."},
    {.name = NULL},
};

/* ---- reading ---- */

struct sequence_read {
    struct ctl_session *session;
    const char *name;
    struct meta meta;
    char *meta_value; /* NULL: absent */
    char *value;      /* NULL: absent */
    struct sequence sequence;
    int64_t count;    /* sequences that there are */
    int64_t revision; /* of etcd, when it was read */
    struct error err;
};

static void read_free(struct sequence_read *read) {
    free(read->meta_value);
    free(read->value);
    read->meta_value = read->value = NULL;
}

static enum status refuse_no_meta(const struct ctl_session *session, struct error *err) {
    return error_set(err, STATUS_NOT_FOUND,
                     "cluster %s: meta is missing: snowfleetctl init makes it",
                     session->cluster_name);
}

static void take_read(void *arg, const struct etcd_txn_result *result) {
    struct sequence_read *read = arg;
    const struct etcd_op_result *meta = &result->results[0], *one = &result->results[1];

    read->err.status = STATUS_OK;
    read->count = result->results[2].count;
    read->revision = result->revision;
    if (meta->n_kvs == 0) {
        refuse_no_meta(read->session, &read->err);
        return;
    }
    read->meta_value = allocate_copy(meta->kvs[0].value, meta->kvs[0].value_len);
    if (meta_parse(meta->kvs[0].value, meta->kvs[0].value_len, &read->meta, &read->err) !=
            STATUS_OK ||
        one->n_kvs == 0)
        return;
    read->value = allocate_copy(one->kvs[0].value, one->kvs[0].value_len);
    sequence_parse(one->kvs[0].value, one->kvs[0].value_len, &read->sequence, &read->err);
}

/* By way of etcd's log: a member of its own may be behind. */
static enum status read_one(struct sequence_read *read, struct error *err) {
    const struct keys *keys = &read->session->keys;
    char key[KEY_MAX], absent[KEY_MAX];
    const struct etcd_op ops[] = {
        {.kind = ETCD_RANGE, .key = keys->meta},
        {.kind = ETCD_RANGE, .key = key},
        {.kind = ETCD_RANGE,
         .key = keys->seq,
         .range_end = keys->seq_end,
         .limit = 1,
         .keys_only = true},
        {.kind = ETCD_DELETE, .key = absent},
    };

    keys_absent(keys, absent);
    keys_seq(keys, read->name, key);
    read_free(read);
    if (ctl_txn(read->session, &(struct etcd_txn){.then = ops, .n_then = 4}, take_read, read,
                err) != STATUS_OK)
        return error_context(err, "etcd");
    if (read->err.status != STATUS_OK)
        *err = read->err;
    return read->err.status;
}

static enum status refuse_missing(const char *name, struct error *err) {
    return error_set(err, STATUS_NOT_FOUND, "there is no sequence %s", name);
}

/* ---- changing: each makes read->sequence the record to be written; STATUS_EXISTS: nothing to do ---- */

typedef enum status edit_fn(struct sequence_read *read, const struct ctl_values *values,
                            uint64_t now_ms, struct error *err);

static enum status busy(uint64_t wait_ms, struct error *err) {
    return error_set(err, STATUS_UNAVAILABLE,
                     "max_rate allows it in %" PRIu64 " ms, or this clock is behind", wait_ms);
}

/* Of a name that was dropped: recover, given an old copy of the record, counts on these two. */
static enum status check_former(const struct sequence *former, const struct ctl_values *values,
                                struct error *err) {
    const struct ctl_sequence_values *asked = &values->sequence;
    uint64_t top = sequence_top(former);

    if (asked->mode_given && asked->mode != (int)former->mode)
        return error_set(err, STATUS_REFUSED, "--mode: was %s before it was dropped",
                         sequence_mode_name(former->mode));
    if (asked->max_rate_given && asked->max_rate != former->max_rate)
        return error_set(err, STATUS_REFUSED, "--max-rate: was %" PRIu64 " before it was dropped",
                         former->max_rate);
    if (asked->start_given && asked->start < top)
        return error_set(err, STATUS_REFUSED,
                         "--start: must be at least %" PRIu64 ", got %" PRIu64
                         ": lower values were granted before it was dropped",
                         top, asked->start);
    if (top > SEQUENCE_VALUE_MAX)
        return error_set(err, STATUS_REFUSED, "was exhausted when it was dropped");
    return STATUS_OK;
}

static enum status check_block(uint64_t block, uint64_t max_rate, struct error *err) {
    if (block <= max_rate * SEQUENCE_BURST_S)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "--block: must be 1..%" PRIu64 ", 10 s of its max_rate, got %" PRIu64,
                     max_rate * SEQUENCE_BURST_S, block);
}

static enum status edit_create(struct sequence_read *read, const struct ctl_values *values,
                               uint64_t now_ms, struct error *err) {
    const struct ctl_sequence_values *asked = &values->sequence;
    struct sequence *sequence = &read->sequence, former = *sequence;
    bool again = read->value != NULL;
    uint64_t start = asked->start_given ? asked->start : 1;

    if (again && !former.dropped)
        return error_set(err, STATUS_REFUSED, "is there already");
    if (again && check_former(&former, values, err) != STATUS_OK)
        return err->status;
    if (again && !asked->start_given)
        start = sequence_top(&former);
    if (!again && !asked->start_given && read->meta.if_needed)
        return error_set(err, STATUS_REFUSED,
                         "--start: is required, since this cluster was made by init --if-needed or "
                         "recovered, and the sequence may have been there before");
    if (!again && read->count >= SEQUENCES_MAX)
        return error_set(err, STATUS_REFUSED,
                         "there are %" PRId64 " sequences, and at most %u, dropped ones among them",
                         read->count, SEQUENCES_MAX);
    if (!again)
        former = (struct sequence){.mode = (enum sequence_mode)asked->mode,
                                   .max_rate = asked->max_rate_given ? asked->max_rate
                                                                     : SEQUENCE_RATE_DEFAULT,
                                   .pace_ms = now_ms,
                                   .n_shards = 1};
    *sequence = former;
    sequence->dropped = false;
    if (asked->block_given && check_block(asked->block, sequence->max_rate, err) != STATUS_OK)
        return err->status;
    sequence->block = asked->block_given ? asked->block : SEQUENCE_BLOCK_DEFAULT;
    if (!asked->block_given && sequence->block > sequence->max_rate * SEQUENCE_BURST_S)
        sequence->block = sequence->max_rate * SEQUENCE_BURST_S;
    if ((sequence->mode == SEQUENCE_STRIDE) != asked->shards_given)
        return error_set(err, STATUS_INVALID,
                         asked->shards_given ? "--shards: goes with --mode=stride"
                                             : "--shards: is missing, with --mode=stride");
    if (asked->shards_given && start > SEQUENCE_VALUE_MAX - (asked->shards - 1))
        return error_set(err, STATUS_INVALID,
                         "--start: must leave each of %" PRIu64 " shards a value, got %" PRIu64,
                         asked->shards, start);
    sequence_rebase(sequence, start, asked->shards_given ? asked->shards : 1);
    return STATUS_OK;
}

static enum status edit_set(struct sequence_read *read, const struct ctl_values *values,
                            uint64_t now_ms, struct error *err) {
    const struct ctl_sequence_values *asked = &values->sequence;
    struct sequence *sequence = &read->sequence;
    uint64_t top = sequence_top(sequence);

    if (asked->next_given && asked->next < top)
        return error_set(err, STATUS_REFUSED,
                         "--next: must be at least %" PRIu64 ", got %" PRIu64
                         ": what was granted is never granted again",
                         top, asked->next);
    if (asked->block_given && check_block(asked->block, sequence->max_rate, err) != STATUS_OK)
        return err->status;
    if (asked->block_given)
        sequence->block = asked->block;
    /* Of a clock that was ahead.  recover, given an older copy, would not look for what is granted from now on,
     * as with all that --next does. */
    if (asked->next_given && sequence->pace_ms > now_ms + 3 * SEQUENCE_BURST_MS)
        sequence->pace_ms = now_ms + SEQUENCE_BURST_MS;
    if (asked->next_given)
        sequence_rebase(sequence, asked->next, sequence->n_shards);
    else
        sequence->serial++;
    return STATUS_OK;
}

static enum status edit_reshard(struct sequence_read *read, const struct ctl_values *values,
                                uint64_t now_ms, struct error *err) {
    struct sequence *sequence = &read->sequence;
    uint64_t shards = values->sequence.shards, wait_ms = 0;
    enum status status;

    if (sequence->mode == SEQUENCE_BLOCK)
        return error_set(err, STATUS_REFUSED, "is in block mode and has no shards");
    if (sequence->n_shards == shards)
        return STATUS_EXISTS;
    if (sequence_top(sequence) > SEQUENCE_VALUE_MAX - (shards - 1))
        return error_set(err, STATUS_REFUSED, "has no values left for %" PRIu64 " shards", shards);
    status = sequence_reshard(sequence, shards, now_ms, &wait_ms);
    if (status == STATUS_BUSY)
        return busy(wait_ms, err);
    if (status != STATUS_OK)
        return error_set(err, status, "this machine's clock is past all times that can be written");
    return STATUS_OK;
}

static enum status edit_drop(struct sequence_read *read, const struct ctl_values *values,
                             uint64_t now_ms, struct error *err) {
    (void)values, (void)now_ms, (void)err;
    if (read->sequence.dropped)
        return STATUS_EXISTS;
    read->sequence.dropped = true;
    read->sequence.layout++;
    read->sequence.serial++;
    return STATUS_OK;
}

/* ---- writing ---- */

/* One round.  sent: what was sent with unknown outcome, serial 0 for nothing. */
static enum status try_once(struct sequence_read *read, const struct ctl_values *values,
                            edit_fn *edit, bool creates, struct sequence *sent, bool *written,
                            struct error *err) {
    enum status status = read_one(read, err);
    char *text;

    if (status != STATUS_OK)
        return status;
    if (sent->serial && read->value && sequence_follows(&read->sequence, sent)) {
        *written = true;
        return STATUS_OK;
    }
    if (read->meta.mode == META_FROZEN)
        return error_set(err, STATUS_REFUSED, "the cluster is frozen: %.120s", read->meta.reason);
    if (!creates && (!read->value || (read->sequence.dropped && edit != edit_drop)))
        return refuse_missing(read->name, err);
    status = edit(read, values, clock_now(&read->session->clock).wall_ms, err);
    if (status == STATUS_OK)
        status = sequence_check(&read->sequence, err);
    if (status != STATUS_OK)
        return status;
    *sent = read->sequence;
    text = sequence_format(&read->sequence, read->value);
    status = ctl_seq_write(read->session,
                           &(struct ctl_seq_change){.name = read->name,
                                                    .meta = read->meta_value,
                                                    .before = read->value,
                                                    .revision = read->revision,
                                                    .after = text},
                           written, err);
    free(text);
    if (status == STATUS_OK && !*written)
        sent->serial = 0; /* it did not arrive, and never will */
    return status == STATUS_UNKNOWN ? STATUS_OK : status;
}

static enum status change(struct sequence_read *read, const struct ctl_values *values,
                          edit_fn *edit, bool *written, struct error *err) {
    struct sequence sent = {.serial = 0};
    enum status status = STATUS_OK;

    for (unsigned i = 0; status == STATUS_OK && !*written && i < ATTEMPTS; i++)
        status = try_once(read, values, edit, edit == edit_create, &sent, written, err);
    if (status == STATUS_EXISTS)
        return STATUS_OK;
    if (status == STATUS_OK && !*written)
        return error_set(
            err, STATUS_UNAVAILABLE,
            "not written after %u rounds: workers were faster, or etcd does not answer", ATTEMPTS);
    return status;
}

/* ---- showing ---- */

static json_t *spell(const char *name, const struct sequence *sequence) {
    json_t *object = json_object(), *next = json_array(), *left = json_array();

    for (size_t i = 0; i < sequence->n_shards; i++) {
        fields_append(next, fields_from_wide(sequence->next[i]));
        fields_append(left, fields_from_wide(sequence_left(sequence, i)));
    }
    fields_put(object, "name", json_string(name));
    fields_put(object, "state",
               json_string(sequence->dropped                             ? "DROPPED"
                           : sequence_top(sequence) > SEQUENCE_VALUE_MAX ? "EXHAUSTED"
                                                                         : "OPEN"));
    fields_put(object, "mode", json_string(sequence_mode_name(sequence->mode)));
    fields_put(object, "shards", fields_from_number(sequence->n_shards));
    fields_put(object, "block", fields_from_number(sequence->block));
    fields_put(object, "max_rate", fields_from_number(sequence->max_rate));
    fields_put(object, "layout", fields_from_wide(sequence->layout));
    fields_put(object, "next", next);
    fields_put(object, "left", left);
    return object;
}

static void show_one(const struct ctl_values *values, const struct sequence_read *read,
                     const bool *changed) {
    json_t *object = spell(read->name, &read->sequence);

    if (changed)
        fields_put(object, "changed", json_boolean(*changed));
    if (values->output == CTL_JSON) {
        output_json(object);
        return;
    }
    output_facts(object);
    json_decref(object);
}

struct listing {
    const struct keys *keys;
    bool has_meta;
    json_t *rows;
};

static void take_list(void *arg, const struct etcd_txn_result *result) {
    struct listing *listing = arg;

    listing->has_meta = result->results[0].n_kvs > 0;
    for (size_t i = 0; i < result->results[1].n_kvs; i++) {
        const struct etcd_kv *kv = &result->results[1].kvs[i];
        const char *name = keys_seq_name(listing->keys, kv->key);
        struct sequence sequence;
        struct error err;

        if (!name)
            ctl_note("%s is no key of a sequence", kv->key);
        else if (sequence_parse(kv->value, kv->value_len, &sequence, &err) != STATUS_OK)
            ctl_note("sequence %s: %s", name, err.message);
        else
            fields_append(listing->rows, spell(name, &sequence));
    }
}

static enum status list(struct ctl_session *session, const struct ctl_values *values,
                        struct error *err) {
    static const struct output_column columns[] = {
        {.field = "name", .head = "NAME"},
        {.field = "state", .head = "STATE"},
        {.field = "mode", .head = "MODE"},
        {.field = "shards", .head = "SHARDS", .right = true},
        {.field = "block", .head = "BLOCK", .right = true},
        {.field = "max_rate", .head = "MAX RATE", .right = true},
        {.field = "next", .head = "NEXT"},
    };
    struct listing listing = {.keys = &session->keys, .rows = json_array()};
    const struct etcd_op ops[] = {
        {.kind = ETCD_RANGE, .key = session->keys.meta},
        {.kind = ETCD_RANGE, .key = session->keys.seq, .range_end = session->keys.seq_end}};

    enum status status = ctl_txn(session, &(struct etcd_txn){.then = ops, .n_then = 2}, take_list,
                                 &listing, err);

    if (status != STATUS_OK)
        error_context(err, "etcd");
    else if (!listing.has_meta)
        status = refuse_no_meta(session, err);
    if (status != STATUS_OK) {
        json_decref(listing.rows);
        return status;
    }
    if (values->output == CTL_JSON) {
        output_json(listing.rows);
        return STATUS_OK;
    }
    output_table(columns, sizeof columns / sizeof columns[0], listing.rows);
    json_decref(listing.rows);
    return STATUS_OK;
}

/* ---- the command line ---- */

enum { START = 1, MODE = 2, SHARDS = 4, BLOCK = 8, RATE = 16, NEXT = 32 };

struct action {
    const char *name;
    edit_fn *edit;   /* NULL: list and show */
    unsigned takes;  /* options */
    unsigned needs;  /* one of these */
    const char *say; /* which, for a message */
};
static const struct action actions[] = {
    {"create", edit_create, START | MODE | SHARDS | BLOCK | RATE, 0, ""},
    {"list", NULL, 0, 0, ""},
    {"show", NULL, 0, 0, ""},
    {"set", edit_set, BLOCK | NEXT, BLOCK | NEXT, "--next or --block"},
    {"reshard", edit_reshard, SHARDS, SHARDS, "--shards"},
    {"drop", edit_drop, 0, 0, ""},
};

static const struct action *find_action(const char *name) {
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(actions[i].name, name) == 0)
            return &actions[i];
    return NULL;
}

static enum status check_usage(const struct action *action, const struct ctl_values *values,
                               const char *name, struct error *err) {
    const struct ctl_sequence_values *asked = &values->sequence;
    const struct {
        const char *name;
        unsigned bit;
    } given[] = {
        {"start", asked->start_given ? START : 0},      {"mode", asked->mode_given ? MODE : 0},
        {"shards", asked->shards_given ? SHARDS : 0},   {"block", asked->block_given ? BLOCK : 0},
        {"max-rate", asked->max_rate_given ? RATE : 0}, {"next", asked->next_given ? NEXT : 0}};
    bool has_needed = action->needs == 0;
    bool lists = strcmp(action->name, "list") == 0;

    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        if (given[i].bit & ~action->takes)
            return error_set(err, STATUS_INVALID, "--%s: does not go with %s", given[i].name,
                             action->name);
        has_needed = has_needed || (given[i].bit & action->needs);
    }
    if (!has_needed)
        return error_set(err, STATUS_INVALID, "%s needs %s", action->name, action->say);
    if (asked->mode_given && (asked->mode == SEQUENCE_STRIDE) != asked->shards_given)
        return error_set(err, STATUS_INVALID,
                         asked->shards_given ? "--shards: goes with --mode=stride"
                                             : "--shards: is missing, with --mode=stride");
    if (lists && name)
        return error_set(err, STATUS_INVALID, "list takes no name");
    if (!lists && !name)
        return error_set(err, STATUS_INVALID, "%s needs a name", action->name);
    if (name && sequence_name_check(name, strlen(name), err) != STATUS_OK)
        return error_context(err, "the name");
    return STATUS_OK;
}

static enum status carry_out(struct ctl_session *session, const struct ctl_values *values,
                             const struct action *action, const char *name, struct error *err) {
    struct sequence_read read = {.session = session, .name = name};
    bool written = false;
    enum status status;

    if (action->edit)
        status = change(&read, values, action->edit, &written, err);
    else
        status = read_one(&read, err);
    if (status == STATUS_OK && !read.value && !action->edit)
        status = refuse_missing(name, err);
    else if (status != STATUS_OK && status != STATUS_NOT_FOUND)
        error_context(err, "sequence %s", name);
    if (status == STATUS_OK)
        show_one(values, &read, action->edit ? &written : NULL);
    read_free(&read);
    return status;
}

static int run(const struct ctl_values *values, char *const *operands, struct error *err) {
    const struct action *action = find_action(operands[0]);
    struct ctl_session session;
    char quoted[QUOTE_SIZE];
    enum status status;

    if (!action) {
        error_set(err, STATUS_INVALID, "must be create, list, show, set, reshard or drop, got %s",
                  quote(operands[0], strlen(operands[0]), quoted));
        return CTL_USAGE;
    }
    if (check_usage(action, values, operands[1], err) != STATUS_OK ||
        ctl_open(&session, values, err) != STATUS_OK)
        return CTL_USAGE;
    status = operands[1] ? carry_out(&session, values, action, operands[1], err)
                         : list(&session, values, err);
    ctl_close(&session);
    return status == STATUS_OK ? CTL_DONE : CTL_FAILED;
}

const struct ctl_command ctl_sequence = {
    .name = "sequence",
    .operands = "create|list|show|set|reshard|drop [NAME]",
    .n_operands = 1,
    .max_operands = 2,
    .summary = "Named sequences of 64-bit values, which workers give out.",
    .options = options,
    .run = run,
};
