#include "worker/worker_internal.h"

#include <stdio.h>
#include <string.h>

/* ---- standalone ---- */

static enum status open_own(struct worker *worker, struct error *err) {
    const struct worker_config *config = worker->config;
    struct state_record *record = &worker->state;
    struct error cause;

    switch (state_file_open(config->state_file, &worker->state_file, record, err)) {
    case STATUS_OK: break;
    case STATUS_NOT_FOUND:
        return error_set(
            err, STATUS_NOT_FOUND,
            "%.100s: there is no such file: put it back, or, where machine ID %u never "
            "issued an ID, begin one with --init",
            config->state_file, config->machine_id ? *config->machine_id : 0);
    case STATUS_PROTOCOL:
        cause = *err;
        return error_set(
            err, STATUS_PROTOCOL,
            "%.170s: if the clock is surely past all IDs issued, move the file away and "
            "start with --init",
            cause.message);
    default: return err->status;
    }
    if (record->kind != STATE_STANDALONE)
        return error_set(err, STATUS_REFUSED,
                         "%.100s: belongs to a worker of cluster %.64s, not to a standalone one: "
                         "name another --state-file",
                         config->state_file, record->cluster);
    if (strcmp(record->host, worker->host) == 0)
        return STATUS_OK;
    if (!config->adopt)
        return error_set(
            err, STATUS_REFUSED,
            "%.60s: written on %.60s, and this is %.60s: add --adopt if nobody uses it "
            "there",
            config->state_file, record->host, worker->host);
    log_warn("state", "adopted from another host", LOG_STR("file", config->state_file),
             LOG_STR("from", record->host), LOG_STR("to", worker->host));
    return STATUS_OK;
}

static enum status make_own(struct worker *worker, struct error *err) {
    const struct worker_config *config = worker->config;
    struct state_record *record = &worker->state;
    enum status status;

    *record = (struct state_record){.kind = STATE_STANDALONE,
                                    .epoch_ms = SNOWFLAKE_EPOCH_MS,
                                    .horizon_ms = SNOWFLAKE_EPOCH_MS,
                                    .machine_id = config->machine_id ? *config->machine_id : 0};
    memcpy(record->host, worker->host, sizeof record->host);
    status = state_file_create(config->state_file, record, &worker->state_file, err);
    if (status == STATUS_EXISTS)
        error_set(err, status, "%.120s: exists already: leave out --init to go on from it",
                  config->state_file);
    return status;
}

/* ---- evidence ---- */

static enum status open_evidence(struct worker *worker, struct error *err) {
    const struct worker_config *config = worker->config;
    struct state_record *record = &worker->state;
    enum status status = state_file_open(config->state_file, &worker->state_file, record, err);

    if (status == STATUS_NOT_FOUND) {
        *record = (struct state_record){.kind = STATE_CLUSTER};
        snprintf(record->cluster, sizeof record->cluster, "%s", config->cluster);
        memcpy(record->host, worker->host, sizeof record->host);
        status = state_file_create(config->state_file, record, &worker->state_file, err);
    }
    if (status != STATUS_OK)
        return status;
    if (record->kind != STATE_CLUSTER)
        return error_set(err, STATUS_REFUSED,
                         "%.120s: belongs to a standalone worker: name another --state-file",
                         config->state_file);
    if (strcmp(record->cluster, config->cluster) != 0)
        return error_set(err, STATUS_REFUSED,
                         "%.80s: belongs to a worker of cluster %.64s, and this is %.64s: name "
                         "another --state-file",
                         config->state_file, record->cluster, config->cluster);
    return STATUS_OK;
}

/* What another process uses is a mistake that a person has to put right.  Any other trouble with
 * what is only evidence must not keep the worker from serving. */
static enum status start_evidence(struct worker *worker, struct error *err) {
    enum status status = open_evidence(worker, err);

    if (status == STATUS_REFUSED || status == STATUS_UNAVAILABLE)
        return status;
    if (status != STATUS_OK) {
        log_warn("state", "no evidence for recovery is kept", LOG_STR("reason", err->message));
        return STATUS_OK;
    }
    worker->evidence = evidence_new(&worker->loop, &worker->config->clock, worker->state_file,
                                    &worker->state);
    worker->state_file = NULL; /* handed over */
    /* Below what it saw last, etcd is not the one that it was. */
    worker->history.highest = (int64_t)worker->state.revision;
    memcpy(worker->history.era, worker->state.era, sizeof worker->history.era);
    return STATUS_OK;
}

enum status worker_open_state(struct worker *worker, struct error *err) {
    const struct worker_config *config = worker->config;

    if (!config->state_file)
        return STATUS_OK;
    if (state_host(STATE_MACHINE_ID_FILE, worker->host, err) != STATUS_OK)
        return err->status;
    log_info("state", "state file", LOG_STR("file", config->state_file),
             LOG_STR("host", worker->host));
    if (!config->standalone)
        return start_evidence(worker, err);
    return config->init ? make_own(worker, err) : open_own(worker, err);
}

void worker_want_former(struct worker *worker) {
    const struct state_record *record = &worker->state;

    if (!worker->evidence)
        return;
    for (size_t i = 0; i < worker->n_slots && i < record->n_machines; i++) {
        worker->slots[i].has_last = true;
        worker->slots[i].last_machine_id = record->machines[i].machine_id;
    }
}

static void note_meta(struct state_record *record, const struct meta *meta) {
    record->epoch_ms = meta->epoch_ms;
    memcpy(record->era, meta->era, sizeof record->era);
    memcpy(record->earlier_eras, meta->earlier_eras, sizeof record->earlier_eras);
    record->n_earlier_eras = meta->n_earlier_eras;
    record->first_machine_id = meta->first_machine_id;
    record->last_machine_id = meta->last_machine_id;
    memcpy(record->reserved, meta->reserved, sizeof record->reserved);
}

void worker_note_evidence(struct worker *worker, const struct worker_view *view) {
    struct state_record record;

    if (!worker->evidence || !worker->has_meta)
        return;
    if (strcmp(worker->meta.era, worker->history.era) != 0)
        return; /* not ours, or not known to be: what is kept stands for the era that is */
    record = *evidence_record(worker->evidence);
    note_meta(&record, &worker->meta);
    memcpy(record.host, worker->host, sizeof record.host);
    record.revision = (uint64_t)worker->history.highest;
    for (size_t i = view->n_machines; i-- > 0;) { /* so that the first slot's comes first */
        const struct hold_view *hold = &view->machines[i].hold;
        struct state_machine machine = {.machine_id = hold->machine_id,
                                        .pending_ms = hold->pending_ms};

        if (!hold->has_slot)
            continue;
        memcpy(machine.claim, hold->claim, sizeof machine.claim);
        machine.granted_ms = hold->limit_ms > hold->horizon_ms ? hold->limit_ms : hold->horizon_ms;
        state_record_note(&record, &machine);
    }
    evidence_note(worker->evidence, &record);
}
