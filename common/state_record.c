#include "common/state_record.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "common/snowflake.h"

#define MAGIC "snowfleet-state\n"
#define MAGIC_BYTES (sizeof MAGIC - 1)
#define FORMAT 1u
#define CRC_AT (STATE_RECORD_BYTES - 4)
#define HEX128_BYTES (HEX128_CHARS / 2)

/* ---- bytes ---- */

static void put(unsigned char **at, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        *(*at)++ = (unsigned char)(value >> 8 * i);
}

static void put_text(unsigned char **at, const char *text) {
    size_t len = strlen(text);

    put(at, len, 1);
    memcpy(*at, text, len);
    *at += len;
}

static unsigned nibble(char digit) {
    return (unsigned)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

/* "" is written as zeros. */
static void put_hex128(unsigned char **at, const char *hex) {
    assert(hex[0] == '\0' || hex128_valid(hex));
    for (size_t i = 0; i < HEX128_BYTES; i++)
        put(at, hex[0] ? nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]) : 0, 1);
}

/* What is left to read; failed once it was too little, or made no sense. */
struct reader {
    const unsigned char *at, *end;
    bool failed;
};

static uint64_t take(struct reader *reader, size_t bytes) {
    uint64_t value = 0;

    if ((size_t)(reader->end - reader->at) < bytes) {
        reader->failed = true;
        return 0;
    }
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)*reader->at++ << 8 * i;
    return value;
}

static uint64_t take_at_most(struct reader *reader, size_t bytes, uint64_t max) {
    uint64_t value = take(reader, bytes);

    if (value > max) {
        reader->failed = true;
        return 0;
    }
    return value;
}

/* Printable ASCII of at most size - 1 characters. */
static void take_text(struct reader *reader, char *out, size_t size) {
    size_t len = take_at_most(reader, 1, size - 1);

    for (size_t i = 0; i < len; i++) {
        out[i] = (char)take(reader, 1);
        if (out[i] < ' ' || out[i] > '~')
            reader->failed = true;
    }
    out[len] = '\0';
}

static void take_hex128(struct reader *reader, char out[static HEX128_CHARS + 1]) {
    unsigned char bytes[HEX128_BYTES], any = 0;

    for (size_t i = 0; i < sizeof bytes; i++)
        any |= bytes[i] = (unsigned char)take(reader, 1);
    out[0] = '\0';
    if (any)
        hex128_format(bytes, out);
}

static uint64_t read_number(const unsigned char *at, size_t bytes) {
    struct reader reader = {.at = at, .end = at + bytes};

    return take(&reader, bytes);
}

static uint32_t checksum(const unsigned char *bytes) {
    return (uint32_t)crc32(crc32(0, NULL, 0), bytes, CRC_AT);
}

/* ---- the fields ---- */

static void put_cluster(unsigned char **at, const struct state_record *record) {
    put_text(at, record->cluster);
    put_hex128(at, record->era);
    put(at, record->n_earlier_eras, 1);
    for (size_t i = 0; i < record->n_earlier_eras; i++)
        put_hex128(at, record->earlier_eras[i]);
    put(at, record->first_machine_id, 2);
    put(at, record->last_machine_id, 2);
    for (size_t id = 0; id < MACHINE_IDS; id += 8) {
        unsigned bits = 0;

        for (size_t i = 0; i < 8; i++)
            bits |= (unsigned)record->reserved[id + i] << i;
        put(at, bits, 1);
    }
    put(at, record->revision, 8);
    put(at, record->n_machines, 1);
    for (size_t i = 0; i < record->n_machines; i++) {
        put(at, record->machines[i].machine_id, 2);
        put_hex128(at, record->machines[i].claim);
        put(at, record->machines[i].granted_ms, 8);
        put(at, record->machines[i].pending_ms, 8);
    }
}

static void take_cluster(struct reader *reader, struct state_record *record) {
    take_text(reader, record->cluster, sizeof record->cluster);
    take_hex128(reader, record->era);
    record->n_earlier_eras = take_at_most(reader, 1, RECORD_EARLIER_ERAS_MAX);
    for (size_t i = 0; i < record->n_earlier_eras; i++)
        take_hex128(reader, record->earlier_eras[i]);
    record->first_machine_id = (uint16_t)take_at_most(reader, 2, SNOWFLAKE_MACHINE_ID_MAX);
    record->last_machine_id = (uint16_t)take_at_most(reader, 2, SNOWFLAKE_MACHINE_ID_MAX);
    for (size_t id = 0; id < MACHINE_IDS; id += 8) {
        uint64_t bits = take(reader, 1);

        for (size_t i = 0; i < 8; i++)
            record->reserved[id + i] = bits >> i & 1;
    }
    record->revision = take_at_most(reader, 8, INT64_MAX);
    record->n_machines = take_at_most(reader, 1, RECORD_MACHINES_MAX);
    for (size_t i = 0; i < record->n_machines; i++) {
        struct state_machine *machine = &record->machines[i];

        machine->machine_id = (uint16_t)take_at_most(reader, 2, SNOWFLAKE_MACHINE_ID_MAX);
        take_hex128(reader, machine->claim);
        machine->granted_ms = take(reader, 8);
        machine->pending_ms = take(reader, 8);
    }
}

static void take_standalone(struct reader *reader, struct state_record *record) {
    record->machine_id = (uint16_t)take_at_most(reader, 2, SNOWFLAKE_MACHINE_ID_MAX);
    record->horizon_ms = take_at_most(reader, 8, snowflake_end_ms(record->epoch_ms));
    if (record->horizon_ms < record->epoch_ms)
        reader->failed = true;
}

void state_record_encode(const struct state_record *record,
                         unsigned char bytes[static STATE_RECORD_BYTES]) {
    unsigned char *at = bytes;

    assert(record->sequence >= 1 && record->sequence <= STATE_SEQUENCE_MAX);
    memset(bytes, 0, STATE_RECORD_BYTES);
    memcpy(at, MAGIC, MAGIC_BYTES);
    at += MAGIC_BYTES;
    put(&at, FORMAT, 4);
    put(&at, (uint64_t)record->kind, 4);
    put(&at, record->sequence, 8);
    put_text(&at, record->host);
    put(&at, record->epoch_ms, 8);
    if (record->kind == STATE_STANDALONE) {
        put(&at, record->machine_id, 2);
        put(&at, record->horizon_ms, 8);
    } else {
        put_cluster(&at, record);
    }
    assert(at <= bytes + CRC_AT);
    at = bytes + CRC_AT;
    put(&at, checksum(bytes), 4);
}

static bool all_zero(const unsigned char *at, const unsigned char *end) {
    while (at < end && *at == 0)
        at++;
    return at == end;
}

static enum status read_fields(const unsigned char *bytes, struct state_record *record,
                               struct error *err) {
    struct reader reader = {.at = bytes + MAGIC_BYTES + 4, .end = bytes + CRC_AT};
    uint64_t kind = take(&reader, 4);

    record->sequence = take_at_most(&reader, 8, STATE_SEQUENCE_MAX);
    take_text(&reader, record->host, sizeof record->host);
    record->epoch_ms = take_at_most(&reader, 8, RECORD_WALL_MAX_MS);
    if (kind != STATE_STANDALONE && kind != STATE_CLUSTER)
        return error_set(err, STATUS_PROTOCOL, "of an unknown kind");
    record->kind = (enum state_kind)kind;
    if (record->kind == STATE_STANDALONE)
        take_standalone(&reader, record);
    else
        take_cluster(&reader, record);
    if (reader.failed || record->sequence == 0 || !all_zero(reader.at, reader.end))
        return error_set(err, STATUS_PROTOCOL, "a field is out of its range");
    return STATUS_OK;
}

enum status state_record_decode(const unsigned char *bytes, size_t len, struct state_record *record,
                                struct error *err) {
    struct state_record read = {0};
    uint64_t format;

    if (len < STATE_RECORD_BYTES)
        return error_set(err, STATUS_PROTOCOL, "cut short");
    if (all_zero(bytes, bytes + STATE_RECORD_BYTES))
        return error_set(err, STATUS_PROTOCOL, "never written");
    if (memcmp(bytes, MAGIC, MAGIC_BYTES) != 0)
        return error_set(err, STATUS_PROTOCOL, "no record");
    if (read_number(bytes + CRC_AT, 4) != checksum(bytes))
        return error_set(err, STATUS_PROTOCOL, "damaged");
    format = read_number(bytes + MAGIC_BYTES, 4);
    if (format > FORMAT)
        return error_set(err, STATUS_REFUSED, "of format %u, and this program knows %u",
                         (unsigned)format, FORMAT);
    if (format < FORMAT)
        return error_set(err, STATUS_PROTOCOL, "of format 0");
    if (read_fields(bytes, &read, err) != STATUS_OK)
        return err->status;
    *record = read;
    return STATUS_OK;
}

enum status state_record_choose(const unsigned char *bytes, size_t len, struct state_record *record,
                                size_t *index, struct error *err) {
    struct state_record read[STATE_RECORDS];
    struct error errs[STATE_RECORDS] = {{.status = STATUS_OK}, {.status = STATUS_OK}};
    size_t chosen = 0;

    for (size_t i = 0; i < STATE_RECORDS; i++) {
        size_t at = i * STATE_RECORD_BYTES;

        if (state_record_decode(bytes + (at < len ? at : len), at < len ? len - at : 0, &read[i],
                                &errs[i]) == STATUS_REFUSED)
            return error_set(err, STATUS_REFUSED, "record %zu is %.200s", i + 1, errs[i].message);
    }
    if (errs[0].status != STATUS_OK && errs[1].status != STATUS_OK)
        return error_set(err, STATUS_PROTOCOL,
                         "neither record is valid (the first: %.60s; the second: %.60s)",
                         errs[0].message, errs[1].message);
    if (errs[0].status == STATUS_OK && errs[1].status == STATUS_OK) {
        if (read[0].sequence == read[1].sequence &&
            memcmp(bytes, bytes + STATE_RECORD_BYTES, STATE_RECORD_BYTES) != 0)
            return error_set(err, STATUS_PROTOCOL, "the two records contradict one another");
        chosen = read[1].sequence > read[0].sequence;
    } else {
        chosen = errs[0].status != STATUS_OK;
    }
    *record = read[chosen];
    *index = chosen;
    return STATUS_OK;
}

/* ---- evidence ---- */

void state_record_note(struct state_record *record, const struct state_machine *machine) {
    struct state_machine noted = *machine;
    size_t at = 0;

    while (at < record->n_machines && record->machines[at].machine_id != machine->machine_id)
        at++;
    if (at == record->n_machines) {
        if (at < RECORD_MACHINES_MAX)
            record->n_machines++;
        else
            at--; /* the last one goes */
    } else if (record->machines[at].granted_ms > noted.granted_ms) {
        noted.granted_ms = record->machines[at].granted_ms;
    }
    memmove(record->machines + 1, record->machines, at * sizeof record->machines[0]);
    record->machines[0] = noted;
}
