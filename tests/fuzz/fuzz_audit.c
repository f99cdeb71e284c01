/* fuzz_audit.c - dumps of IDs as `snowfleetctl audit` reads them: however the bytes arrive, the lines are
 * those that a plain split at LF gives.
 *
 * The input: how many bytes a read gives, less 1, then the dump.  A byte of 0xff stands for so many more
 * digits that a line is too long for the reader's block. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/decimal.h"
#include "coordinator/audit.h"

#define LONG_BYTE 0xffu

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The dump with what the long bytes stand for; only the first two of them count. */
static char *unfold(const uint8_t *data, size_t size, size_t *len) {
    char *dump = malloc(size + 2 * (AUDIT_BLOCK + 1) + 1);
    unsigned longs = 0;

    assert(dump);
    *len = 0;
    for (size_t i = 0; i < size; i++) {
        if (data[i] == LONG_BYTE && longs++ < 2) {
            memset(dump + *len, '7', AUDIT_BLOCK + 1);
            *len += AUDIT_BLOCK + 1;
        } else {
            dump[(*len)++] = (char)data[i];
        }
    }
    return dump;
}

/* What the line at *at is, by another reader of numbers.  Moves *at past it. */
static bool expect(const char *dump, size_t len, size_t *at, struct audit_line *line) {
    const char *text = dump + *at;
    const char *end = *at < len ? memchr(text, '\n', len - *at) : NULL;
    struct error err;

    if (*at >= len)
        return false;
    line->len = end ? (size_t)(end - text) : len - *at;
    *at += line->len + (end ? 1 : 0);
    if (line->len > 0 && text[line->len - 1] == '\r')
        line->len--;
    line->text = text;
    line->good = decimal_parse(text, line->len, 0, INT64_MAX, &line->id, &err) == STATUS_OK;
    return true;
}

static void same_line(const struct audit_line *line, const struct audit_line *expected) {
    assert(line->good == expected->good);
    if (line->good)
        assert(line->id == expected->id);
    else if (line->len < AUDIT_BLOCK / 2)
        assert(line->len == expected->len && memcmp(line->text, expected->text, line->len) == 0);
    else
        assert(line->len <= AUDIT_BLOCK);
}

static void read_in_pieces(const char *dump, size_t len, size_t piece) {
    static struct audit_reader reader;
    struct audit_line line, expected;
    size_t at = 0, given = 0, room;
    uint64_t lines = 0;
    bool more;

    audit_reader_init(&reader);
    do {
        char *to = audit_reader_room(&reader, &room);
        size_t n = len - given;

        assert(room > 0);
        n = n < room ? n : room;
        n = n < piece ? n : piece;
        memcpy(to, dump + given, n);
        given += n;
        audit_reader_fill(&reader, n);
        while (audit_reader_next(&reader, &line)) {
            more = expect(dump, len, &at, &expected);
            lines++;
            assert(more && reader.line == lines);
            same_line(&line, &expected);
        }
        if (n == 0)
            break;
    } while (true);
    more = expect(dump, len, &at, &expected);
    assert(!more);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t len, piece;
    char *dump;

    if (size == 0)
        return 0;
    dump = unfold(data + 1, size - 1, &len);
    piece = len > AUDIT_BLOCK ? ((size_t)data[0] + 1) * 4096 : (size_t)data[0] + 1;
    read_in_pieces(dump, len, piece);
    free(dump);
    return 0;
}
