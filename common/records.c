#include "common/records.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/decimal.h"
#include "common/fields.h"
#include "common/quote.h"
#include "common/snowflake.h"

/* ---- what a text may be ---- */

static enum status refuse_text(struct error *err, const char *wanted, const char *text) {
    char quoted[QUOTE_SIZE];

    return error_set(err, STATUS_INVALID, "must be %s, got %s", wanted,
                     quote(text, strlen(text), quoted));
}

enum status identity_check(const char *text, struct error *err) {
    size_t len = 0;

    while (text[len] > ' ' && text[len] < 0x7f && !strchr("\"'\\", text[len]))
        len++;
    if (len == 0 || len > RECORD_IDENTITY_MAX || text[len] != '\0')
        return refuse_text(err,
                           "1..254 characters of printable ASCII without blanks, quotes and "
                           "backslashes",
                           text);
    return STATUS_OK;
}

/* Before a port: what is in brackets is left to who asks there. */
static bool is_host(const char *text, size_t len) {
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%";
    bool bracketed = len > 2 && text[0] == '[' && text[len - 1] == ']';
    size_t span;

    if (bracketed)
        text++, len -= 2;
    span = strspn(text, allowed);
    return len > 0 && span >= len && (bracketed || !memchr(text, ':', len));
}

enum status address_check(const char *text, struct error *err) {
    const char *colon = strrchr(text, ':');
    struct error unused;
    uint64_t port;

    if (!colon || strlen(text) >= RECORD_ADDRESS_MAX || !is_host(text, (size_t)(colon - text)) ||
        decimal_parse(colon + 1, strlen(colon + 1), 1, 65535, &port, &unused) != STATUS_OK)
        return refuse_text(err, "host:port", text);
    return STATUS_OK;
}

static enum status check_listener(const char *text, struct error *err) {
    return text[0] == '\0' ? STATUS_OK : address_check(text, err);
}

static enum status check_hex128(const char *text, struct error *err) {
    return hex128_valid(text) ? STATUS_OK : refuse_text(err, "32 lower-case hex digits", text);
}

static enum status check_reason(const char *text, struct error *err) {
    return fields_check_label(text, RECORD_REASON_MAX, err);
}

static enum status check_version(const char *text, struct error *err) {
    return fields_check_label(text, RECORD_VERSION_MAX, err);
}

enum status machine_id_range_parse(const char *text, size_t len, uint16_t *first, uint16_t *last,
                                   struct error *err) {
    const char *dash = len ? memchr(text, '-', len) : NULL;
    char quoted[QUOTE_SIZE];
    struct error unused;
    uint64_t a, b;

    if (!dash ||
        decimal_parse(text, (size_t)(dash - text), 0, MACHINE_IDS - 1, &a, &unused) != STATUS_OK ||
        decimal_parse(dash + 1, len - (size_t)(dash + 1 - text), a, MACHINE_IDS - 1, &b, &unused) !=
            STATUS_OK)
        return error_set(err, STATUS_INVALID, "must be A-B with 0 <= A <= B <= %u, got %s",
                         MACHINE_IDS - 1, quote(text, len, quoted));
    *first = (uint16_t)a;
    *last = (uint16_t)b;
    return STATUS_OK;
}

/* ---- reading ---- */

static void read_machine_ids(struct fields *fields, const char *name,
                             uint16_t ids[static RECORD_MACHINES_MAX], size_t *n) {
    const json_t *list = fields_list(fields, name, RECORD_MACHINES_MAX);
    char element[FIELDS_NAME_MAX];
    size_t i;

    for (i = 0; i < json_array_size(list); i++) {
        uint64_t id = 0;

        fields_number_value(fields, fields_element(name, i, element), json_array_get(list, i), 0,
                            MACHINE_IDS - 1, &id);
        ids[i] = (uint16_t)id;
    }
    *n = json_array_size(list);
}

static void read_addresses(struct fields *fields, struct addresses *addresses) {
    const json_t *object = json_object_get(fields->object, "addresses");
    struct fields inner = fields_enter(fields, "addresses", object);

    if (!json_is_object(object)) {
        fields_refuse(fields, "addresses", object, "an object");
        return;
    }
    if (fields_has(&inner, "http"))
        fields_text(&inner, "http", check_listener, addresses->http);
    if (fields_has(&inner, "grpc"))
        fields_text(&inner, "grpc", check_listener, addresses->grpc);
    fields_leave(fields, &inner);
}

/* ---- writing ---- */

static json_t *machine_ids(const uint16_t *ids, size_t n) {
    json_t *list = json_array();
    size_t i;

    assert(n <= RECORD_MACHINES_MAX);
    for (i = 0; i < n; i++)
        fields_append(list, fields_from_number(ids[i]));
    return list;
}

static json_t *addresses_object(const struct addresses *addresses) {
    json_t *object = json_object();

    fields_put(object, "http", fields_from_label(addresses->http));
    fields_put(object, "grpc", fields_from_label(addresses->grpc));
    return object;
}

/* ---- meta ---- */

static void read_format(struct fields *fields, unsigned *format) {
    const json_t *value = json_object_get(fields->object, "format");
    char why[96];

    if (!json_is_integer(value) || json_integer_value(value) < 1) {
        fields_refuse(fields, "format", value, "1.." /* and a newer one is another matter */);
        return;
    }
    if (json_integer_value(value) > RECORD_FORMAT) {
        snprintf(why, sizeof why, "%jd is newer than this program, which reads up to %d: update it",
                 (intmax_t)json_integer_value(value), RECORD_FORMAT);
        fields_fail(fields, STATUS_REFUSED, "format", why);
        return;
    }
    *format = (unsigned)json_integer_value(value);
}

static void read_earlier_eras(struct fields *fields, struct meta *meta) {
    const json_t *list = fields_list(fields, "earlier_eras", RECORD_EARLIER_ERAS_MAX);
    char name[FIELDS_NAME_MAX];
    size_t i;

    for (i = 0; i < json_array_size(list); i++)
        fields_text_value(fields, fields_element("earlier_eras", i, name), json_array_get(list, i),
                          check_hex128, meta->earlier_eras[i]);
    meta->n_earlier_eras = json_array_size(list);
}

static void take_range(struct fields *fields, const char *name, const json_t *value,
                       uint16_t *first, uint16_t *last) {
    struct error why;

    if (!json_is_string(value))
        fields_refuse(fields, name, value, "a string \"A-B\" with 0 <= A <= B <= 1023");
    else if (machine_id_range_parse(json_string_value(value), json_string_length(value), first,
                                    last, &why) != STATUS_OK)
        fields_fail(fields, STATUS_PROTOCOL, name, why.message);
}

static void read_reserved(struct fields *fields, bool reserved[static MACHINE_IDS]) {
    const json_t *list = fields_list(fields, "reserved", MACHINE_IDS);
    char name[FIELDS_NAME_MAX];
    size_t i;

    for (i = 0; i < json_array_size(list) && fields->status == STATUS_OK; i++) {
        const json_t *value = json_array_get(list, i);
        uint16_t first = 0, last = 0;
        uint64_t id = 0;

        fields_element("reserved", i, name);
        if (json_is_string(value)) {
            take_range(fields, name, value, &first, &last);
        } else {
            fields_number_value(fields, name, value, 0, MACHINE_IDS - 1, &id);
            first = last = (uint16_t)id;
        }
        memset(reserved + first, true, (size_t)(last - first) + 1);
    }
}

static void read_mode(struct fields *fields, enum meta_mode *mode) {
    const json_t *value = json_object_get(fields->object, "mode");
    const char *text = json_string_value(value);

    if (text && strcmp(text, "OPEN") == 0)
        *mode = META_OPEN;
    else if (text && strcmp(text, "FROZEN") == 0)
        *mode = META_FROZEN;
    else
        fields_refuse(fields, "mode", value, "\"OPEN\" or \"FROZEN\"");
}

enum status meta_parse(const char *text, size_t len, struct meta *meta, struct error *err) {
    struct meta read = {.format = 0};
    struct fields fields;
    json_t *record = fields_open(&fields, "meta", text, len, err);

    read_format(&fields, &read.format);
    fields_wide(&fields, "serial", RECORD_COUNTER_MAX, &read.serial);
    fields_text(&fields, "era", check_hex128, read.era);
    read_earlier_eras(&fields, &read);
    fields_wide(&fields, "epoch_ms", RECORD_WALL_MAX_MS, &read.epoch_ms);
    fields_wide(&fields, "floor_ms", snowflake_end_ms(read.epoch_ms), &read.floor_ms);
    take_range(&fields, "machine_id_range", json_object_get(record, "machine_id_range"),
               &read.first_machine_id, &read.last_machine_id);
    read_reserved(&fields, read.reserved);
    fields_number(&fields, "max_window_ms", 1, RECORD_MAX_WINDOW_MAX_MS, &read.max_window_ms);
    fields_number(&fields, "quiet_time_ms", 0, RECORD_QUIET_TIME_MAX_MS, &read.quiet_time_ms);
    fields_number(&fields, "max_offset_ms", 0, RECORD_MAX_OFFSET_MAX_MS, &read.max_offset_ms);
    read_mode(&fields, &read.mode);
    if (fields_has(&fields, "reason"))
        fields_text(&fields, "reason", check_reason, read.reason);
    fields_flag(&fields, "if_needed", &read.if_needed);
    json_decref(record);
    if (fields.status == STATUS_OK)
        *meta = read;
    return fields.status;
}

static json_t *range_string(unsigned first, unsigned last) {
    char text[16];

    snprintf(text, sizeof text, "%u-%u", first, last);
    return json_string(text);
}

static json_t *reserved_list(const bool reserved[static MACHINE_IDS]) {
    json_t *list = json_array();
    unsigned first = 0, end;

    while (first < MACHINE_IDS) {
        for (end = first; end < MACHINE_IDS && reserved[end]; end++)
            ;
        if (end - first == 1)
            fields_append(list, fields_from_number(first));
        else if (end > first)
            fields_append(list, range_string(first, end - 1));
        first = end + 1;
    }
    return list;
}

json_t *meta_json(const struct meta *meta) {
    json_t *record = json_object(), *eras = json_array();
    size_t i;

    assert(meta->n_earlier_eras <= RECORD_EARLIER_ERAS_MAX);
    for (i = 0; i < meta->n_earlier_eras; i++)
        fields_append(eras, json_string(meta->earlier_eras[i]));
    fields_put(record, "format", fields_from_number(meta->format));
    fields_put(record, "serial", fields_from_wide(meta->serial));
    fields_put(record, "era", json_string(meta->era));
    fields_put(record, "earlier_eras", eras);
    fields_put(record, "floor_ms", fields_from_wide(meta->floor_ms));
    fields_put(record, "epoch_ms", fields_from_wide(meta->epoch_ms));
    fields_put(record, "machine_id_range",
               range_string(meta->first_machine_id, meta->last_machine_id));
    fields_put(record, "reserved", reserved_list(meta->reserved));
    fields_put(record, "max_window_ms", fields_from_number(meta->max_window_ms));
    fields_put(record, "quiet_time_ms", fields_from_number(meta->quiet_time_ms));
    fields_put(record, "max_offset_ms", fields_from_number(meta->max_offset_ms));
    fields_put(record, "mode", json_string(meta->mode == META_OPEN ? "OPEN" : "FROZEN"));
    fields_put(record, "reason", fields_from_label(meta->reason));
    fields_put(record, "if_needed", json_boolean(meta->if_needed));
    return record;
}

enum status meta_check(const struct meta *meta, struct error *err) {
    char *text = fields_spell(meta_json(meta), NULL);
    struct meta unused;
    enum status status = meta_parse(text, strlen(text), &unused, err);

    free(text);
    return status;
}

char *meta_format(const struct meta *meta, const char *before) {
    struct error err;

    assert(meta_check(meta, &err) == STATUS_OK);
    (void)err;
    return fields_spell(meta_json(meta), before);
}

bool meta_usable(const struct meta *meta, uint16_t machine_id) {
    return machine_id >= meta->first_machine_id && machine_id <= meta->last_machine_id &&
           !meta->reserved[machine_id];
}

bool meta_earlier_era(const struct meta *meta, const char *era) {
    size_t i;

    for (i = 0; i < meta->n_earlier_eras; i++) {
        if (strcmp(meta->earlier_eras[i], era) == 0)
            return true;
    }
    return false;
}

/* ---- own ---- */

enum status own_parse(const char *text, size_t len, struct own *own, struct error *err) {
    struct own read = {.claim = ""};
    struct fields fields;
    json_t *record = fields_open(&fields, "own", text, len, err);

    fields_text(&fields, "claim", check_hex128, read.claim);
    fields_text(&fields, "instance", check_hex128, read.instance);
    fields_text(&fields, "identity", identity_check, read.identity);
    read_addresses(&fields, &read.addresses);
    json_decref(record);
    if (fields.status == STATUS_OK)
        *own = read;
    return fields.status;
}

char *own_format(const struct own *own) {
    json_t *record = json_object();

    assert(hex128_valid(own->claim) && hex128_valid(own->instance));
    fields_put(record, "claim", json_string(own->claim));
    fields_put(record, "instance", json_string(own->instance));
    fields_put(record, "identity", fields_from_label(own->identity));
    fields_put(record, "addresses", addresses_object(&own->addresses));
    return fields_spell(record, NULL);
}

/* ---- node ---- */

static enum status check_fingerprint(const char *text, struct error *err) {
    size_t len = strlen(text);

    if (len == 0 || (len == PUBLIC_FINGERPRINT_CHARS && strspn(text, "0123456789abcdef") == len))
        return STATUS_OK;
    return error_set(err, STATUS_PROTOCOL, "must be %u lower-case hex digits",
                     PUBLIC_FINGERPRINT_CHARS);
}

enum status node_parse(const char *text, size_t len, struct node *node, struct error *err) {
    struct node read = {.identity = ""};
    struct fields fields;
    json_t *record = fields_open(&fields, "node", text, len, err);
    uint64_t missing = 0, key_version = 0;

    fields_text(&fields, "identity", identity_check, read.identity);
    read_addresses(&fields, &read.addresses);
    if (fields_has(&fields, "version"))
        fields_text(&fields, "version", check_version, read.version);
    fields_wide(&fields, "attempt", RECORD_COUNTER_MAX, &read.attempt);
    fields_number(&fields, "missing", 0, RECORD_MACHINES_MAX, &missing);
    read.missing = (unsigned)missing;
    read_machine_ids(&fields, "wanted", read.wanted, &read.n_wanted);
    read_machine_ids(&fields, "held", read.held, &read.n_held);
    read_machine_ids(&fields, "refused", read.refused, &read.n_refused);
    fields_flag(&fields, "synchronized", &read.synchronized);
    fields_wide_or_null(&fields, "max_error_ns", UINT64_MAX, &read.max_error_ns, &read.knows_error);
    if (fields_has(&fields, "clock_unconfirmed"))
        fields_flag(&fields, "clock_unconfirmed", &read.clock_unconfirmed);
    if (fields_has(&fields, "public_key_fingerprint"))
        fields_text(&fields, "public_key_fingerprint", check_fingerprint,
                    read.public_key_fingerprint);
    if (fields_has(&fields, "public_key_version"))
        fields_number(&fields, "public_key_version", 0, PUBLIC_VERSION_MAX, &key_version);
    read.public_key_version = (unsigned)key_version;
    json_decref(record);
    if (fields.status == STATUS_OK)
        *node = read;
    return fields.status;
}

char *node_format(const struct node *node) {
    json_t *record = json_object();

    fields_put(record, "identity", fields_from_label(node->identity));
    fields_put(record, "addresses", addresses_object(&node->addresses));
    fields_put(record, "version", fields_from_label(node->version));
    fields_put(record, "attempt", fields_from_wide(node->attempt));
    fields_put(record, "missing", fields_from_number(node->missing));
    fields_put(record, "wanted", machine_ids(node->wanted, node->n_wanted));
    fields_put(record, "held", machine_ids(node->held, node->n_held));
    fields_put(record, "refused", machine_ids(node->refused, node->n_refused));
    fields_put(record, "synchronized", json_boolean(node->synchronized));
    fields_put(record, "max_error_ns",
               node->knows_error ? fields_from_wide(node->max_error_ns) : json_null());
    fields_put(record, "clock_unconfirmed", json_boolean(node->clock_unconfirmed));
    fields_put(record, "public_key_fingerprint", json_string(node->public_key_fingerprint));
    fields_put(record, "public_key_version", fields_from_number(node->public_key_version));
    return fields_spell(record, NULL);
}

/* ---- assign ---- */

static void read_give_up(struct fields *fields, struct assign *assign) {
    const json_t *list = fields_list(fields, "give_up", RECORD_MACHINES_MAX);
    char name[FIELDS_NAME_MAX];
    size_t i;

    for (i = 0; i < json_array_size(list); i++) {
        const json_t *object = json_array_get(list, i);
        struct fields inner = fields_enter(fields, fields_element("give_up", i, name), object);
        uint64_t id = 0;

        if (!json_is_object(object)) {
            fields_refuse(fields, name, object, "an object");
            return;
        }
        fields_number(&inner, "machine_id", 0, MACHINE_IDS - 1, &id);
        assign->give_up[i].machine_id = (uint16_t)id;
        fields_text(&inner, "claim", check_hex128, assign->give_up[i].claim);
        fields_leave(fields, &inner);
    }
    assign->n_give_up = json_array_size(list);
}

enum status assign_parse(const char *text, size_t len, struct assign *assign, struct error *err) {
    struct assign read = {.attempt = 0};
    struct fields fields;
    json_t *record = fields_open(&fields, "assign", text, len, err);

    fields_wide(&fields, "attempt", RECORD_COUNTER_MAX, &read.attempt);
    if (fields_has(&fields, "machine_ids"))
        read_machine_ids(&fields, "machine_ids", read.machine_ids, &read.n_machine_ids);
    if (fields_has(&fields, "refused"))
        fields_text(&fields, "refused", check_reason, read.refused);
    if (fields_has(&fields, "retry_after_ms"))
        fields_number(&fields, "retry_after_ms", 0, RECORD_RETRY_AFTER_MAX_MS,
                      &read.retry_after_ms);
    if (fields_has(&fields, "give_up"))
        read_give_up(&fields, &read);
    if (fields_has(&fields, "drain"))
        fields_flag(&fields, "drain", &read.drain);
    if (fields_has(&fields, "clock_ok_until_ms"))
        fields_wide(&fields, "clock_ok_until_ms", RECORD_WALL_MAX_MS, &read.clock_ok_until_ms);
    json_decref(record);
    if (fields.status == STATUS_OK)
        *assign = read;
    return fields.status;
}

static json_t *give_up_list(const struct assign *assign) {
    json_t *list = json_array();
    size_t i;

    assert(assign->n_give_up <= RECORD_MACHINES_MAX);
    for (i = 0; i < assign->n_give_up; i++) {
        json_t *order = json_object();

        fields_put(order, "machine_id", fields_from_number(assign->give_up[i].machine_id));
        fields_put(order, "claim", json_string(assign->give_up[i].claim));
        fields_append(list, order);
    }
    return list;
}

char *assign_format(const struct assign *assign, const char *before) {
    json_t *record = json_object();
    uint64_t retry_after_ms = assign->retry_after_ms;

    if (retry_after_ms > RECORD_RETRY_AFTER_MAX_MS)
        retry_after_ms = RECORD_RETRY_AFTER_MAX_MS;
    fields_put(record, "attempt", fields_from_wide(assign->attempt));
    fields_put(record, "machine_ids", machine_ids(assign->machine_ids, assign->n_machine_ids));
    fields_put(record, "refused", fields_from_label(assign->refused));
    fields_put(record, "retry_after_ms", fields_from_number(retry_after_ms));
    fields_put(record, "give_up", give_up_list(assign));
    fields_put(record, "drain", json_boolean(assign->drain));
    fields_put(record, "clock_ok_until_ms", fields_from_wide(assign->clock_ok_until_ms));
    return fields_spell(record, before);
}

/* ---- leader ---- */

enum status leader_parse(const char *text, size_t len, struct leader *leader, struct error *err) {
    struct leader read = {.instance = ""};
    struct fields fields;
    json_t *record = fields_open(&fields, "leader", text, len, err);

    fields_text(&fields, "instance", check_hex128, read.instance);
    read_addresses(&fields, &read.addresses);
    json_decref(record);
    if (fields.status == STATUS_OK)
        *leader = read;
    return fields.status;
}

char *leader_format(const struct leader *leader) {
    json_t *record = json_object();

    assert(hex128_valid(leader->instance));
    fields_put(record, "instance", json_string(leader->instance));
    fields_put(record, "addresses", addresses_object(&leader->addresses));
    return fields_spell(record, NULL);
}
