#include "common/replies.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fields.h"
#include "common/keys.h"
#include "common/records.h"

#define ID_MAX 64 /* characters of an ID of any kind */
#define IDS_MAX 10000
#define MESSAGE_MAX 400
#define TIME_MAX_NS (INT64_MAX / 2)

static enum status check_source(const char *text, struct error *err) {
    return fields_check_label(text, CLOCK_SOURCE_MAX, err);
}

static enum status check_worker_state(const char *text, struct error *err) {
    return fields_check_label(text, CLOCK_STATE_MAX, err);
}

static enum status check_distrust(const char *text, struct error *err) {
    return fields_check_label(text, CLOCK_DISTRUST_MAX, err);
}

/* What may be missing: workers of an earlier version say less. */
static void read_claim(struct fields *fields, bool synchronized, struct clock_claim *claim) {
    const json_t *frequency = json_object_get(fields->object, "frequency_ppb");
    const json_t *effective = json_object_get(fields->object, "effective_minus_wall_ms");

    claim->trusted = synchronized;
    if (fields_has(fields, "source"))
        fields_text(fields, "source", check_source, claim->source);
    if (fields_has(fields, "trusted"))
        fields_flag(fields, "trusted", &claim->trusted);
    if (fields_has(fields, "reason"))
        fields_text(fields, "reason", check_distrust, claim->distrust);
    if (fields_has(fields, "state"))
        fields_text(fields, "state", check_worker_state, claim->state);
    if (!frequency || json_is_null(frequency))
        claim->frequency_ppb = CLOCK_FREQUENCY_UNKNOWN_PPB;
    else if (!json_is_integer(frequency) ||
             llabs(json_integer_value(frequency) / 2) > CLOCK_FREQUENCY_MAX_PPB / 2)
        fields_refuse(fields, "frequency_ppb", frequency, "-1000000000..1000000000 or null");
    else
        claim->frequency_ppb = json_integer_value(frequency);
    if (effective && !json_is_number(effective) && !json_is_null(effective))
        fields_refuse(fields, "effective_minus_wall_ms", effective, "a number");
    claim->has_effective = json_is_number(effective);
    claim->effective_minus_wall_ms = json_number_value(effective);
}

enum status clock_reply_parse(const char *text, size_t len, struct clock_reply *reply,
                              struct error *err) {
    struct fields fields;
    struct clock_reply read = {.receive_ns = 0};
    uint64_t receive_ns = 0, transmit_ns = 0, boot_ns = 0, max_error_ns = INT64_MAX;
    json_t *record = fields_open(&fields, "/v1/clock", text, len, err);

    fields_wide(&fields, "receive_ns", TIME_MAX_NS, &receive_ns);
    fields_wide(&fields, "transmit_ns", TIME_MAX_NS, &transmit_ns);
    fields_wide(&fields, "boot_ns", TIME_MAX_NS, &boot_ns);
    fields_wide_or_null(&fields, "max_error_ns", INT64_MAX, &max_error_ns, &read.knows_error);
    fields_flag(&fields, "synchronized", &read.synchronized);
    if (fields_has(&fields, "wants_confirmation"))
        fields_flag(&fields, "wants_confirmation", &read.wants_confirmation);
    read_claim(&fields, read.synchronized, &read.claim);
    json_decref(record);
    if (fields.status != STATUS_OK)
        return fields.status;
    read.receive_ns = (int64_t)receive_ns;
    read.transmit_ns = (int64_t)transmit_ns;
    read.boot_ns = (int64_t)boot_ns;
    read.max_error_ns = (int64_t)max_error_ns;
    *reply = read;
    return STATUS_OK;
}

static enum status check_id(const char *text, struct error *err) {
    if (text[0] == '\0')
        return error_set(err, STATUS_PROTOCOL, "must not be empty");
    return fields_check_label(text, ID_MAX, err);
}

static enum status check_message(const char *text, struct error *err) {
    return fields_check_label(text, MESSAGE_MAX, err);
}

enum status ids_reply_parse(const char *text, size_t len, void (*visit)(void *arg, const char *id),
                            void *arg, struct error *err) {
    struct fields fields;
    json_t *record = fields_open(&fields, "/v1/ids", text, len, err);
    const json_t *ids = fields_list(&fields, "ids", IDS_MAX);

    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        char name[FIELDS_NAME_MAX];

        fields_text_value(&fields, fields_element("ids", i, name), id, check_id, (char[ID_MAX]){0});
    }
    /* Only when all of them can be read is any of them shown. */
    for (size_t i = 0; fields.status == STATUS_OK && i < json_array_size(ids); i++)
        visit(arg, json_string_value(json_array_get(ids, i)));
    json_decref(record);
    return fields.status;
}

/* "" for a machine ID that is being looked for. */
static enum status check_claim(const char *text, struct error *err) {
    if (text[0] == '\0' || hex128_valid(text))
        return STATUS_OK;
    return error_set(err, STATUS_INVALID, "must be 32 lower-case hex digits");
}

enum status status_reply_claims(const char *text, size_t len, const char *claim, bool *claims,
                                struct error *err) {
    struct fields fields;
    json_t *record = fields_open(&fields, "/v1/status", text, len, err);
    const json_t *machines = fields_list(&fields, "machines", RECORD_MACHINES_MAX);
    bool found = false;

    for (size_t i = 0; i < json_array_size(machines); i++) {
        char name[FIELDS_NAME_MAX], held[HEX128_CHARS + 1] = "";
        struct fields inner = fields_enter(&fields, fields_element("machines", i, name),
                                           json_array_get(machines, i));

        fields_text(&inner, "claim", check_claim, held);
        fields_leave(&fields, &inner);
        found = found || strcmp(held, claim) == 0;
    }
    json_decref(record);
    if (fields.status == STATUS_OK)
        *claims = found;
    return fields.status;
}

static enum status check_state(const char *text, struct error *err) {
    return fields_check_label(text, sizeof((struct status_reply *)0)->state, err);
}

static enum status check_reason(const char *text, struct error *err) {
    return fields_check_label(text, sizeof((struct status_reply *)0)->reason, err);
}

enum status status_reply_parse(const char *text, size_t len, struct status_reply *reply,
                               struct error *err) {
    struct fields fields;
    struct status_reply read = {.state = ""};
    json_t *record = fields_open(&fields, "/v1/status", text, len, err);
    const json_t *machines = fields_list(&fields, "machines", RECORD_MACHINES_MAX);

    fields_text(&fields, "state", check_state, read.state);
    fields_text(&fields, "reason", check_reason, read.reason);
    fields_number(&fields, "runway_ms", 0, INT64_MAX, &read.runway_ms);
    for (size_t i = 0; i < json_array_size(machines); i++) {
        char name[FIELDS_NAME_MAX];
        uint64_t issued = 0;
        struct fields inner = fields_enter(&fields, fields_element("machines", i, name),
                                           json_array_get(machines, i));

        /* So that the sum of 64 of them cannot wrap. */
        fields_wide(&inner, "issued_total", UINT64_MAX / RECORD_MACHINES_MAX, &issued);
        fields_leave(&fields, &inner);
        read.issued_total += issued;
    }
    json_decref(record);
    if (fields.status == STATUS_OK)
        *reply = read;
    return fields.status;
}

void error_reply_text(long http_status, const char *text, size_t len, char *message, size_t size) {
    char said[MESSAGE_MAX] = "";
    struct error unreadable;
    struct fields fields, inner;
    json_t *record = fields_open(&fields, "answer", text, len, &unreadable);

    inner = fields_enter(&fields, "error", json_object_get(record, "error"));
    fields_text(&inner, "message", check_message, said);
    fields_leave(&fields, &inner);
    json_decref(record);
    if (fields.status == STATUS_OK)
        snprintf(message, size, "%s", said);
    else
        snprintf(message, size, "HTTP %ld", http_status);
}
