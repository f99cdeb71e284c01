/* fuzz_recover.c - evidence for `snowfleetctl recover`, one after the other: whatever adds up to a new meta
 * is one that can be read, and that lets nobody below what somebody may have issued.
 *
 * The input, a line each:
 *     m META       what etcd still has
 *     o FLAGS META what the operator says: FLAGS of e (epoch), r (range), s (reserved), l (limits)
 *     s STATUS     a worker's /v1/status
 *     f META       a state file: META, with machine IDs held up to its floor_ms
 * The first m and the first o count, s and f add up. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/recover.h"

#define ERA "ffffffffffffffffffffffffffffffff"
#define NOW_MS UINT64_C(1764547200000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_orders(const char *text, size_t len, struct recover_orders *orders) {
    const char *blank = memchr(text, ' ', len);
    size_t flags = blank ? (size_t)(blank - text) : 0;
    struct error err;

    if (!blank || meta_parse(blank + 1, len - flags - 1, &orders->meta, &err) != STATUS_OK)
        return;
    orders->has_epoch = memchr(text, 'e', flags);
    orders->has_range = memchr(text, 'r', flags);
    orders->has_reserved = memchr(text, 's', flags);
    orders->has_limits = memchr(text, 'l', flags);
}

static bool read_file(const char *text, size_t len, struct recover_source *source) {
    struct state_record record = {.sequence = 1, .kind = STATE_CLUSTER, .cluster = "default"};
    struct meta meta;
    struct error err;

    if (meta_parse(text, len, &meta, &err) != STATUS_OK)
        return false;
    record.epoch_ms = meta.epoch_ms;
    memcpy(record.era, meta.era, sizeof record.era);
    memcpy(record.earlier_eras, meta.earlier_eras, sizeof record.earlier_eras);
    record.n_earlier_eras = meta.n_earlier_eras;
    record.first_machine_id = meta.first_machine_id;
    record.last_machine_id = meta.last_machine_id;
    memcpy(record.reserved, meta.reserved, sizeof record.reserved);
    record.n_machines = meta.quiet_time_ms % (RECORD_MACHINES_MAX + 1);
    for (size_t i = 0; i < record.n_machines; i++)
        record.machines[i] = (struct state_machine){
            .machine_id = (uint16_t)((meta.last_machine_id + i) % MACHINE_IDS),
            .claim = ERA,
            .granted_ms = meta.floor_ms,
            .pending_ms = i % 2 ? meta.floor_ms + 1 : 0,
        };
    return recover_from_record(&record, "/state", source, &err) == STATUS_OK;
}

static bool read_source(char kind, const char *text, size_t len, struct recover_source *source) {
    struct error err = {.message = ""};

    if (kind == 'f')
        return read_file(text, len, source);
    if (kind != 's')
        return false;
    if (recover_from_status(text, len, "worker", source, &err) == STATUS_OK)
        return true;
    assert(err.message[0]);
    return false;
}

/* A worker that goes by this meta stays above all that is known; and it can be read. */
static void covers(const struct recover_evidence *evidence, const struct meta *meta) {
    char *text = meta_format(meta, NULL);
    struct meta again;
    struct error err;

    assert(meta_parse(text, strlen(text), &again, &err) == STATUS_OK);
    free(text);
    for (unsigned id = 0; id < MACHINE_IDS; id++) {
        uint64_t horizon = recover_horizon(evidence, (uint16_t)id);

        if (meta_usable(meta, (uint16_t)id))
            assert(horizon >= evidence->until_ms[id] && horizon >= meta->epoch_ms);
        else
            assert(meta->floor_ms >= evidence->until_ms[id]);
    }
    for (size_t i = 0; i < evidence->n_eras; i++)
        assert(meta_earlier_era(meta, evidence->eras[i]));
    assert(meta->floor_ms >= NOW_MS + meta->max_window_ms + meta->max_offset_ms);
}

static void conclude(const struct recover_evidence *evidence, const struct meta *found) {
    struct meta meta = found ? *found : (struct meta){.format = 0};
    struct error err = {.message = ""};

    if (recover_freeze(evidence, "recover", &meta, &err) != STATUS_OK) {
        assert(err.message[0]);
        return;
    }
    free(meta_format(&meta, NULL));
    meta.serial++;
    if (recover_open(evidence, ERA, NOW_MS, 0, &meta, &err) == STATUS_OK)
        covers(evidence, &meta);
    else
        assert(err.message[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct recover_evidence evidence, before;
    static struct recover_source source;
    struct recover_orders orders = {.has_epoch = false};
    struct error err = {.message = ""};
    struct meta found;
    bool is_found = false, ordered = false;
    const char *end = (const char *)data + size;

    /* First those that stand at the beginning, wherever they are. */
    for (const char *line = (const char *)data, *next; size && line < end; line = next) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t len = (size_t)((newline ? newline : end) - line);

        next = newline ? newline + 1 : end;
        if (len > 2 && line[0] == 'm' && !is_found)
            is_found = meta_parse(line + 2, len - 2, &found, &err) == STATUS_OK;
        if (len > 2 && line[0] == 'o' && !ordered) {
            ordered = true;
            read_orders(line + 2, len - 2, &orders);
        }
    }
    if (recover_begin(&evidence, &orders, is_found ? &found : NULL, &err) != STATUS_OK) {
        assert(err.status == STATUS_REFUSED && err.message[0]);
        return 0;
    }
    for (const char *line = (const char *)data, *next; size && line < end; line = next) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t len = (size_t)((newline ? newline : end) - line);

        next = newline ? newline + 1 : end;
        if (len <= 2 || !read_source(line[0], line + 2, len - 2, &source))
            continue;
        assert(source.n_slots <= RECORD_MACHINES_MAX);
        before = evidence;
        if (recover_add(&evidence, &source, "default", &err) != STATUS_OK) {
            assert(err.status == STATUS_REFUSED && err.message[0]);
            return 0;
        }
        for (unsigned id = 0; id < MACHINE_IDS; id++)
            assert(evidence.until_ms[id] >= before.until_ms[id]);
    }
    conclude(&evidence, is_found ? &found : NULL);
    return 0;
}
