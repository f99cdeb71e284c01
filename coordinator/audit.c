#include "coordinator/audit.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"

#define DIGITS_MAX 19u /* of INT64_MAX; no such number overflows 64 bits */

/* ---- lines ---- */

void audit_reader_init(struct audit_reader *reader) {
    reader->line = 0;
    reader->begin = reader->end = 0;
    reader->ended = reader->skipping = false;
}

char *audit_reader_room(struct audit_reader *reader, size_t *size) {
    size_t left = reader->end - reader->begin;

    memmove(reader->block, reader->block + reader->begin, left);
    reader->begin = 0;
    reader->end = left;
    *size = AUDIT_BLOCK - left;
    return reader->block + left;
}

void audit_reader_fill(struct audit_reader *reader, size_t n) {
    assert(n <= AUDIT_BLOCK - reader->end);
    reader->end += n;
    reader->ended = n == 0;
}

/* Reads the digits that text begins with; how many, up to one more than an ID can have. */
static size_t read_digits(const char *text, size_t len, uint64_t *value) {
    size_t n = 0;

    *value = 0;
    while (n < len && n <= DIGITS_MAX && text[n] >= '0' && text[n] <= '9')
        *value = *value * 10 + (uint64_t)(text[n++] - '0');
    return n;
}

/* text[n] are digits of this value. */
static bool is_id(const char *text, size_t n, uint64_t value) {
    return n >= 1 && n <= DIGITS_MAX && (text[0] != '0' || n == 1) && value <= INT64_MAX;
}

static void read_line(const char *text, size_t len, struct audit_line *line) {
    if (len > 0 && text[len - 1] == '\r')
        len--;
    line->text = text;
    line->len = len;
    line->good = read_digits(text, len, &line->id) == len && is_id(text, len, line->id);
}

/* False: it goes on beyond what has been read. */
static bool skip_rest(struct audit_reader *reader) {
    const char *at = reader->block + reader->begin;
    const char *end = memchr(at, '\n', reader->end - reader->begin);

    reader->begin = end ? (size_t)(end + 1 - reader->block) : reader->end;
    reader->skipping = !end;
    return end != NULL;
}

bool audit_reader_next(struct audit_reader *reader, struct audit_line *line) {
    const char *at, *end;
    size_t left, n;

    if (reader->skipping && !skip_rest(reader))
        return false;
    at = reader->block + reader->begin;
    left = reader->end - reader->begin;
    n = read_digits(at, left, &line->id);
    if (n < left && at[n] == '\n' && is_id(at, n, line->id)) { /* nearly all lines */
        reader->begin += n + 1;
        line->good = true;
        reader->line++;
        return true;
    }
    end = memchr(at, '\n', left);
    if (end) {
        read_line(at, (size_t)(end - at), line);
        reader->begin += (size_t)(end - at) + 1;
    } else if (left == AUDIT_BLOCK) {
        *line = (struct audit_line){.good = false, .text = at, .len = left};
        reader->begin = reader->end;
        reader->skipping = true;
    } else if (reader->ended && left > 0) {
        read_line(at, left, line);
        reader->begin = reader->end;
    } else {
        return false;
    }
    reader->line++;
    return true;
}

/* ---- who may have issued an ID ---- */

void audit_history_add(struct audit_history *history, const struct audit_window *window) {
    if (history->n == history->capacity) {
        history->capacity = history->capacity ? 2 * history->capacity : 4;
        history->windows = reallocate(history->windows,
                                      history->capacity * sizeof history->windows[0]);
    }
    history->windows[history->n++] = *window;
}

static int by_start(const void *a, const void *b) {
    const struct audit_window *left = a, *right = b;

    return (left->after_ms > right->after_ms) - (left->after_ms < right->after_ms);
}

void audit_history_close(struct audit_history *history) {
    if (history->n)
        qsort(history->windows, history->n, sizeof history->windows[0], by_start);
    history->begun = history->longest = 0;
    history->until_ms = history->covered_after_ms;
    for (size_t i = 0; i < history->n; i++) {
        if (history->windows[i].until_ms > history->until_ms)
            history->until_ms = history->windows[i].until_ms;
    }
}

const char *audit_verdict_text(enum audit_verdict verdict) {
    switch (verdict) {
    case AUDIT_INSIDE: return "inside a window";
    case AUDIT_NOT_COVERED: return "older than etcd's history";
    case AUDIT_NEVER_HELD: return "nobody ever held the machine ID";
    case AUDIT_ABOVE: return "later than all that was granted";
    case AUDIT_BETWEEN: return "within nobody's window";
    }
    return "";
}

/* The windows should not overlap.  Should they, an ID is inside when any of them holds it: of those
 * that begin before it, the one that ends last. */
enum audit_verdict audit_judge(struct audit_history *history, uint64_t floor_ms, uint64_t t_ms,
                               struct audit_window **window) {
    struct audit_window *windows = history->windows;

    while (history->begun < history->n && windows[history->begun].after_ms < t_ms) {
        if (windows[history->begun].until_ms >= windows[history->longest].until_ms)
            history->longest = history->begun;
        history->begun++;
    }
    if (history->begun > 0 && windows[history->longest].until_ms >= t_ms) {
        *window = &windows[history->longest];
        return AUDIT_INSIDE;
    }
    if (t_ms <= history->covered_after_ms || t_ms <= floor_ms)
        return AUDIT_NOT_COVERED;
    if (history->n == 0 && history->covered_after_ms == 0)
        return AUDIT_NEVER_HELD;
    return t_ms > history->until_ms ? AUDIT_ABOVE : AUDIT_BETWEEN;
}

/* ---- what is counted of one machine ID ---- */

void audit_machine_count(struct audit_machine *machine, uint64_t id) {
    if (machine->lines++ == 0) {
        machine->smallest = machine->largest = id;
        machine->increasing = true;
    } else {
        machine->increasing = machine->increasing && id > machine->newest;
        if (id < machine->smallest)
            machine->smallest = id;
        if (id > machine->largest)
            machine->largest = id;
    }
    machine->newest = id;
}
