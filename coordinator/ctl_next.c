/* snowfleetctl next: takes IDs from a worker, for a try or for a script. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/quote.h"
#include "common/random.h"
#include "common/sequence.h"
#include "coordinator/ctl.h"
#include "coordinator/ctl_output.h"
#include "coordinator/ctl_session.h"
#include "common/replies.h"

#define TIMEOUT_MS 5000u
#define READY_TIMEOUT_MS 2000u
#define URL_MAX 512

static const char *const kinds[] = {"snowflake", "uuidv4", "uuidv7", "ulid",
                                    "sequence",  "public", NULL};

static const struct option options[] = {
    {.name = "kind",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct ctl_values, kind),
     .argument = "snowflake|uuidv4|uuidv7|ulid|sequence|public",
     .fallback = "snowflake",
     .choices = kinds,
     .help = "What kind of ID."},
    {.name = "name",
     .type = OPTION_STRING,
     .offset = offsetof(struct ctl_values, name),
     .argument = "NAME",
     .help = "Which sequence, with --kind=sequence."},
    {.name = "shard",
     .type = OPTION_NUMBER,
     .offset = offsetof(struct ctl_values, shard),
     .given_offset = offsetof(struct ctl_values, shard_given),
     .argument = "K",
     .max = SEQUENCE_SHARDS_MAX - 1,
     .help = "Which of its shards, of a sequence in stride mode."},
    {.name = "count",
     .type = OPTION_NUMBER,
     .offset = offsetof(struct ctl_values, count),
     .argument = "N",
     .fallback = "1",
     .min = 1,
     .max = 10000,
     .help = "How many; all of them come from one worker."},
    {.name = "worker",
     .type = OPTION_STRING,
     .offset = offsetof(struct ctl_values, worker),
     .argument = "URL",
     .help = "Which worker to ask, as in http://10.0.0.5:8080.  Without it: any ready one found in "
             "etcd."},
    {.name = NULL},
};

static bool is_ready(struct ctl_session *session, const struct member *member) {
    char url[URL_MAX];
    struct error err;
    long http_status;
    char *body;

    if (!member->has_node || !member->node.addresses.http[0])
        return false;
    snprintf(url, sizeof url, "http://%s/readyz", member->node.addresses.http);
    ctl_get(session, url, READY_TIMEOUT_MS, &http_status, &body, &err);
    free(body);
    return http_status == 200;
}

/* Begins with one at random, so that a script that calls us again and again spreads its load. */
static enum status find_worker(struct ctl_session *session, char *url, size_t size,
                               struct error *err) {
    const struct cluster *cluster = session->cluster;
    size_t first;

    if (ctl_read(session, err) != STATUS_OK)
        return err->status;
    if (cluster->n_members == 0)
        return error_set(err, STATUS_NOT_FOUND, "cluster %s has no worker", session->cluster_name);
    first = (size_t)(random_u64() % cluster->n_members);
    for (size_t i = 0; i < cluster->n_members; i++) {
        const struct member *member = cluster->members[(first + i) % cluster->n_members];

        if (is_ready(session, member)) {
            snprintf(url, size, "http://%s", member->node.addresses.http);
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_UNAVAILABLE, "none of %zu workers is ready", cluster->n_members);
}

static void print_id(void *arg, const char *id) {
    (void)arg;
    puts(id);
}

static void collect_id(void *arg, const char *id) {
    json_array_append_new(arg, json_string(id));
}

static enum status print_ids(const struct ctl_values *values, const char *body, struct error *err) {
    json_t *ids;

    if (values->output == CTL_TABLE)
        return ids_reply_parse(body, strlen(body), print_id, NULL, err);
    ids = json_array();
    if (ids_reply_parse(body, strlen(body), collect_id, ids, err) != STATUS_OK) {
        json_decref(ids);
        return err->status;
    }
    output_json(json_pack("{s:s, s:I, s:o}", "kind", kinds[values->kind], "count",
                          (json_int_t)json_array_size(ids), "ids", ids));
    return STATUS_OK;
}

/* Never asked twice: a request that broke may have used IDs up, and the caller may want to know. */
static enum status take(struct ctl_session *session, const struct ctl_values *values,
                        const char *worker, struct error *err) {
    char url[URL_MAX + 192], reason[160];
    long http_status;
    char *body;
    enum status status;
    size_t len;

    snprintf(url, sizeof url, "%s/v1/ids?kind=%s&count=%" PRIu64, worker, kinds[values->kind],
             values->count);
    len = strlen(url);
    if (values->name)
        len += (size_t)snprintf(url + len, sizeof url - len, "&name=%s", values->name);
    if (values->shard_given)
        snprintf(url + len, sizeof url - len, "&shard=%" PRIu64, values->shard);
    status = ctl_get(session, url, TIMEOUT_MS, &http_status, &body, err);
    if (status == STATUS_OK && http_status != 200) {
        error_reply_text(http_status, body, strlen(body), reason, sizeof reason);
        status = error_set(err, STATUS_UNAVAILABLE, "%.90s: %s", worker, reason);
    }
    if (status == STATUS_OK)
        status = print_ids(values, body, err);
    free(body);
    return status;
}

/* The name becomes part of a URL. */
static enum status check_sequence(const struct ctl_values *values, struct error *err) {
    bool is_sequence = strcmp(kinds[values->kind], "sequence") == 0;

    if (is_sequence && !values->name)
        return error_set(err, STATUS_INVALID, "--name: is missing: which sequence?");
    if (!is_sequence && (values->name || values->shard_given))
        return error_set(err, STATUS_INVALID, "--%s: goes with --kind=sequence",
                         values->name ? "name" : "shard");
    if (values->name && sequence_name_check(values->name, strlen(values->name), err) != STATUS_OK)
        return error_context(err, "--name");
    return STATUS_OK;
}

static int run(const struct ctl_values *values, char *const *operands, struct error *err) {
    struct ctl_session session;
    char worker[URL_MAX], quoted[QUOTE_SIZE];
    enum status status = STATUS_OK;
    size_t len;

    (void)operands;
    if (check_sequence(values, err) != STATUS_OK)
        return CTL_USAGE;
    if (values->worker) {
        len = strlen(values->worker);
        while (len > 0 && values->worker[len - 1] == '/')
            len--;
        if (strncmp(values->worker, "http://", 7) != 0 || len <= 7 || len >= sizeof worker ||
            strcspn(values->worker + 7, "/?#@ ") < len - 7) {
            error_set(err, STATUS_INVALID, "--worker=%s: must be http://HOST:PORT",
                      quote(values->worker, strlen(values->worker), quoted));
            return CTL_USAGE;
        }
        snprintf(worker, sizeof worker, "%.*s", (int)len, values->worker);
    }
    if (ctl_open(&session, values, err) != STATUS_OK)
        return CTL_USAGE;
    if (!values->worker)
        status = find_worker(&session, worker, sizeof worker, err);
    if (status == STATUS_OK)
        status = take(&session, values, worker, err);
    ctl_close(&session);
    return status == STATUS_OK ? CTL_DONE : CTL_FAILED;
}

const struct ctl_command ctl_next = {
    .name = "next",
    .operands = "",
    .summary = "Takes IDs from a worker and prints one a line.",
    .options = options,
    .run = run,
};
