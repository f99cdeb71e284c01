/* snowfleetctl freeze and thaw: no claims and no extensions until further notice. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/fields.h"
#include "coordinator/ctl.h"
#include "coordinator/ctl_meta.h"
#include "coordinator/ctl_output.h"
#include "coordinator/ctl_session.h"
#include "coordinator/report.h"

static const struct option freeze_options[] = {
    {.name = "reason",
     .type = OPTION_STRING,
     .offset = offsetof(struct ctl_values, reason),
     .argument = "TEXT",
     .help = "Why, for whoever wonders; up to 127 bytes.  Required."},
    {.name = NULL},
};

static const struct option thaw_options[] = {{.name = NULL}};

/* A freeze stays as it is, whoever else wants one: its reason may matter. */
static enum status freeze(void *arg, struct ctl_session *session, struct meta *meta,
                          struct error *err) {
    const struct ctl_values *values = arg;

    (void)session;
    if (meta->mode == META_FROZEN)
        return error_set(err, STATUS_EXISTS, "frozen already");
    meta->mode = META_FROZEN;
    snprintf(meta->reason, sizeof meta->reason, "%s", values->reason);
    return STATUS_OK;
}

static enum status thaw(void *arg, struct ctl_session *session, struct meta *meta,
                        struct error *err) {
    (void)arg, (void)session;
    if (meta->mode == META_OPEN)
        return error_set(err, STATUS_EXISTS, "open already");
    if (ctl_meta_rolled_back(meta))
        return error_set(err, STATUS_REFUSED,
                         "frozen because etcd's history went back (%s): snowfleetctl recover comes "
                         "first",
                         meta->reason);
    meta->mode = META_OPEN;
    meta->reason[0] = '\0';
    return STATUS_OK;
}

static void show(const struct ctl_session *session, const struct ctl_values *values, bool written) {
    const struct meta *meta = &session->cluster->meta;
    bool frozen = meta->mode == META_FROZEN;
    json_t *object = json_object();

    if (values->output == CTL_JSON) {
        fields_put(object, "cluster", json_string(session->cluster_name));
        fields_put(object, "mode", json_string(frozen ? "FROZEN" : "OPEN"));
        fields_put(object, "reason", report_text(meta->reason));
        fields_put(object, "serial", report_wide(meta->serial));
        fields_put(object, "changed", json_boolean(written));
        output_json(object);
        return;
    }
    json_decref(object);
    if (frozen && written)
        printf("frozen: workers serve to the end of their windows (%.1f s at most) and nobody "
               "claims\n",
               (double)meta->max_window_ms / 1e3);
    else if (frozen)
        printf("was frozen already (%s): nothing done\n", meta->reason);
    else
        puts(written ? "open: workers claim and extend again" : "was open already: nothing done");
}

static int change(const struct ctl_values *values, ctl_meta_fn *edit, struct error *err) {
    struct ctl_meta_change change = {.edit = edit, .arg = (void *)values};
    struct ctl_session session;
    enum status status;
    bool written;

    if (ctl_open(&session, values, err) != STATUS_OK)
        return CTL_USAGE;
    status = ctl_meta_change(&session, &change, &written, err);
    if (status == STATUS_OK)
        show(&session, values, written);
    ctl_close(&session);
    return status == STATUS_OK ? CTL_DONE : CTL_FAILED;
}

static int run_freeze(const struct ctl_values *values, char *const *operands, struct error *err) {
    (void)operands;
    if (!values->reason) {
        error_set(err, STATUS_INVALID, "--reason: is missing");
        return CTL_USAGE;
    }
    if (fields_check_label(values->reason, RECORD_REASON_MAX, err) != STATUS_OK) {
        error_context(err, "--reason");
        return CTL_USAGE;
    }
    if (strncmp(values->reason, RECORD_ROLLBACK_REASON, strlen(RECORD_ROLLBACK_REASON)) == 0) {
        error_set(err, STATUS_INVALID,
                  "--reason: must not begin with \"" RECORD_ROLLBACK_REASON
                  "\", which marks a freeze that only recover ends");
        return CTL_USAGE;
    }
    return change(values, freeze, err);
}

static int run_thaw(const struct ctl_values *values, char *const *operands, struct error *err) {
    (void)operands;
    return change(values, thaw, err);
}

const struct ctl_command ctl_freeze = {
    .name = "freeze",
    .operands = "",
    .summary = "Stops all claims and extensions: workers serve to the end of their windows.",
    .options = freeze_options,
    .run = run_freeze,
};

const struct ctl_command ctl_thaw = {
    .name = "thaw",
    .operands = "",
    .summary = "Ends a freeze, unless it is one after a rollback of etcd: that takes recover.",
    .options = thaw_options,
    .run = run_thaw,
};
