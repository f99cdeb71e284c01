#include "coordinator/ctl_witness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/fields.h"
#include "coordinator/report.h"

#define TIMEOUT_MS 2000u
#define AT_A_TIME 16u
#define STATUS_MAX_BYTES (1u << 20)
#define PATH_MAX_BYTES 4096u
#define SHOWN 10u

/* ---- workers ---- */

static struct ctl_witness *find_witness(struct ctl_witnesses *witnesses, const char *instance) {
    for (size_t i = 0; i < witnesses->n; i++) {
        if (strcmp(witnesses->list[i].instance, instance) == 0)
            return &witnesses->list[i];
    }
    return NULL;
}

static void add_witness(struct ctl_witnesses *witnesses, const char *instance, const char *identity,
                        const char *address) {
    struct ctl_witness *witness = find_witness(witnesses, instance);

    if (!witness) {
        witness = &witnesses->list[witnesses->n++];
        *witness = (struct ctl_witness){.heard = false};
        memcpy(witness->instance, instance, sizeof witness->instance);
    }
    snprintf(witness->identity, sizeof witness->identity, "%s", identity);
    snprintf(witness->address, sizeof witness->address, "%s", address);
}

/* Those that are known from an earlier look stay. */
static void find_witnesses(struct ctl_witnesses *witnesses) {
    const struct cluster *cluster = witnesses->session->cluster;
    size_t room = witnesses->n + cluster->n_members + MACHINE_IDS;
    struct ctl_witness *list = allocate(room, sizeof *list);

    if (witnesses->n > 0)
        memcpy(list, witnesses->list, witnesses->n * sizeof *list);
    free(witnesses->list);
    witnesses->list = list;
    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        const struct slot *slot = &cluster->registry.slots[id];

        if (slot->held)
            add_witness(witnesses, slot->own.instance, slot->own.identity,
                        slot->own.addresses.http);
    }
    for (size_t i = 0; i < cluster->n_members; i++) {
        const struct member *member = cluster->members[i];

        if (member->has_node)
            add_witness(witnesses, member->instance, member->node.identity,
                        member->node.addresses.http);
    }
}

struct question {
    struct ctl_witnesses *witnesses;
    struct ctl_witness *witness;
};

static void ask_next(struct ctl_witnesses *witnesses);

static void take_answer(struct ctl_witnesses *witnesses, struct ctl_witness *witness,
                        const char *body, size_t len) {
    char name[RECOVER_NAME_MAX];
    struct recover_source source;
    struct error err;

    snprintf(name, sizeof name, "worker %.80s", witness->identity);
    if (recover_from_status(body, len, name, &source, &err) != STATUS_OK) {
        snprintf(witness->why, sizeof witness->why, "%.150s", err.message);
        return;
    }
    /* Another one by that address is evidence too; but where the one that was there is, who knows. */
    witness->heard = witness->heard || strcmp(source.instance, witness->instance) == 0;
    if (!witness->heard)
        snprintf(witness->why, sizeof witness->why, "another instance answers there");
    if (witnesses->status == STATUS_OK)
        witnesses->status = recover_add(witnesses->evidence, &source,
                                        witnesses->session->cluster_name,
                                        &witnesses->contradiction);
}

static void on_answer(void *arg, const struct error *err, const struct http_result *result) {
    struct question *question = arg;
    struct ctl_witnesses *witnesses = question->witnesses;
    struct ctl_witness *witness = question->witness;

    free(question);
    if (err)
        snprintf(witness->why, sizeof witness->why, "%.150s", err->message);
    else if (result->http_status != 200)
        snprintf(witness->why, sizeof witness->why, "HTTP %ld", result->http_status);
    else
        take_answer(witnesses, witness, result->body, result->body_len);
    witnesses->asking--;
    ask_next(witnesses);
}

static void ask_next(struct ctl_witnesses *witnesses) {
    while (witnesses->n_begun < witnesses->n && witnesses->asking < AT_A_TIME) {
        struct ctl_witness *witness = &witnesses->list[witnesses->n_begun++];
        char url[RECORD_ADDRESS_MAX + 32];
        struct question *question;

        if (!witness->address[0]) {
            snprintf(witness->why, sizeof witness->why, "no HTTP address");
            continue;
        }
        question = allocate(1, sizeof *question);
        *question = (struct question){witnesses, witness};
        witnesses->asking++;
        snprintf(url, sizeof url, "http://%s/v1/status", witness->address);
        http_client_send(witnesses->session->client,
                         &(struct http_request){.url = url,
                                                .timeout_ms = TIMEOUT_MS,
                                                .max_bytes = STATUS_MAX_BYTES,
                                                .repeatable = true,
                                                .authorized = true,
                                                .done = on_answer,
                                                .arg = question});
    }
    witnesses->asked = witnesses->n_begun == witnesses->n && witnesses->asking == 0;
}

/* ---- state files ---- */

/* A worker whose every machine ID stands in a file, under the same claim, is heard by that. */
static void hear_file(struct ctl_witnesses *witnesses, const struct recover_source *source) {
    const struct slot *slots = witnesses->session->cluster->registry.slots;

    for (size_t i = 0; i < witnesses->n; i++) {
        struct ctl_witness *witness = &witnesses->list[i];
        size_t n_held = 0, n_told = 0;

        for (unsigned id = 0; id < MACHINE_IDS; id++) {
            if (!slots[id].held || strcmp(slots[id].own.instance, witness->instance) != 0)
                continue;
            n_held++;
            for (size_t k = 0; k < source->n_slots; k++)
                n_told += source->slots[k].machine_id == id && slots[id].own.claim[0] &&
                          strcmp(source->slots[k].claim, slots[id].own.claim) == 0;
        }
        witness->heard = witness->heard || (n_held > 0 && n_told == n_held);
    }
}

/* Read without its lock: a worker may be using it, and of its two records one is always whole. */
static enum status read_file(struct ctl_witnesses *witnesses, const char *path, struct error *err) {
    unsigned char bytes[STATE_FILE_BYTES];
    struct state_record record;
    struct recover_source source;
    size_t len, chosen;
    FILE *file = fopen(path, "rb");

    if (!file)
        return error_set(err, STATUS_SYSTEM, "%.120s: %s", path, strerror(errno));
    len = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    if (state_record_choose(bytes, len, &record, &chosen, err) != STATUS_OK)
        return error_context(err, "%.120s", path);
    if (recover_from_record(&record, path, &source, err) != STATUS_OK)
        return err->status;
    hear_file(witnesses, &source);
    return recover_add(witnesses->evidence, &source, witnesses->session->cluster_name, err);
}

static enum status read_files(struct ctl_witnesses *witnesses, const char *list,
                              struct error *err) {
    const char *at = list;

    while (at) {
        size_t len = strcspn(at, ",");
        char path[PATH_MAX_BYTES];

        if (len == 0 || len >= sizeof path)
            return error_set(err, STATUS_INVALID,
                             "--state-file: must be files separated by commas");
        memcpy(path, at, len);
        path[len] = '\0';
        if (read_file(witnesses, path, err) != STATUS_OK)
            return err->status;
        at = at[len] ? at + len + 1 : NULL;
    }
    return STATUS_OK;
}

/* ---- all of them ---- */

enum status ctl_witnesses_hear(struct ctl_witnesses *witnesses, const char *state_files,
                               struct error *err) {
    witnesses->n_begun = witnesses->n_heard = 0;
    find_witnesses(witnesses);
    ask_next(witnesses);
    ctl_wait(witnesses->session, &witnesses->asked);
    if (witnesses->status != STATUS_OK) {
        *err = witnesses->contradiction;
        return witnesses->status;
    }
    if (read_files(witnesses, state_files, err) != STATUS_OK)
        return err->status;
    for (size_t i = 0; i < witnesses->n; i++)
        witnesses->n_heard += witnesses->list[i].heard;
    return STATUS_OK;
}

void ctl_witnesses_note(const struct ctl_witnesses *witnesses) {
    size_t n = 0;

    for (size_t i = 0; i < witnesses->n; i++) {
        const struct ctl_witness *witness = &witnesses->list[i];

        if (witness->heard || n++ >= SHOWN)
            continue;
        ctl_note("not heard: %s at %s (instance %s): %s",
                 witness->identity[0] ? witness->identity : "an unreadable record",
                 witness->address[0] ? witness->address : "no address",
                 witness->instance[0] ? witness->instance : "unknown", witness->why);
    }
    if (n > SHOWN)
        ctl_note("not heard: %zu more", n - SHOWN);
}

json_t *ctl_witnesses_unheard(const struct ctl_witnesses *witnesses) {
    json_t *list = json_array();

    for (size_t i = 0; i < witnesses->n; i++) {
        const struct ctl_witness *witness = &witnesses->list[i];
        json_t *object;

        if (witness->heard)
            continue;
        object = json_object();
        fields_put(object, "identity", report_text(witness->identity));
        fields_put(object, "instance", report_text(witness->instance));
        fields_put(object, "reason", fields_from_label(witness->why));
        fields_append(list, object);
    }
    return list;
}

void ctl_witnesses_free(struct ctl_witnesses *witnesses) {
    free(witnesses->list);
}
