#include "coordinator/skew_history.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/decimal.h"

#define NEVER UINT64_MAX

/* ms; bound NAN: nothing is known. */
struct point {
    float offset, bound;
};

struct row {
    char instance[HEX128_CHARS + 1];
    char identity[RECORD_IDENTITY_MAX + 1];
    uint16_t machine_ids[RECORD_MACHINES_MAX];
    uint16_t n_machine_ids;
    uint64_t round; /* of the last skew_history_add() */
    struct point fine[SKEW_HISTORY_FINE_POINTS];
    struct point coarse[SKEW_HISTORY_COARSE_POINTS];
};
_Static_assert(sizeof(struct row) <= SKEW_HISTORY_NODE_BYTES, "as skew_history.h says");

struct skew_history {
    struct row **rows; /* SKEW_HISTORY_NODES_MAX, n of them made; sorted by instance */
    size_t n;
    uint64_t fine, coarse; /* the running intervals, counted from boot; NEVER at first */
    uint64_t begun;        /* the first fine one */
    uint64_t refused_total;
};

/* What an interval is, whichever of the two kinds. */
struct scale {
    uint64_t interval_ms;
    uint64_t running; /* the newest interval */
    size_t points;
    bool fine;
};

static const struct point nothing = {0, NAN};

static bool known(struct point point) {
    return !isnan(point.bound);
}

/* The narrowest point in float that holds low..high. */
static struct point hold(double low, double high) {
    struct point point = {.offset = (float)(low / 2 + high / 2)};
    double below = (double)point.offset - low, above = high - (double)point.offset;

    point.bound = nextafterf((float)(below > above ? below : above), INFINITY);
    return point;
}

static struct point join(struct point a, struct point b) {
    double low, high;

    if (!known(a) || !known(b))
        return known(a) ? a : b;
    low = fmin((double)a.offset - (double)a.bound, (double)b.offset - (double)b.bound);
    high = fmax((double)a.offset + (double)a.bound, (double)b.offset + (double)b.bound);
    return hold(low, high);
}

struct skew_history *skew_history_new(void) {
    struct skew_history *history = allocate(1, sizeof *history);

    history->rows = allocate(SKEW_HISTORY_NODES_MAX, sizeof *history->rows);
    history->fine = history->coarse = NEVER;
    return history;
}

void skew_history_free(struct skew_history *history) {
    if (!history)
        return;
    for (size_t i = 0; i < history->n; i++)
        free(history->rows[i]);
    free(history->rows);
    free(history);
}

size_t skew_history_nodes(const struct skew_history *history) {
    return history->n;
}

uint64_t skew_history_refused_total(const struct skew_history *history) {
    return history->refused_total;
}

static void remove_row(struct skew_history *history, size_t at) {
    free(history->rows[at]);
    memmove(&history->rows[at], &history->rows[at + 1],
            (history->n - at - 1) * sizeof history->rows[0]);
    history->n--;
}

static void clear(struct point *points, size_t n, uint64_t from, uint64_t to) {
    if (to - from > n)
        from = to - n;
    for (uint64_t i = from + 1; i <= to; i++)
        points[i % n] = nothing;
}

bool skew_history_due(struct skew_history *history, uint64_t boot_ms) {
    uint64_t fine = boot_ms / SKEW_HISTORY_FINE_MS, coarse = boot_ms / SKEW_HISTORY_COARSE_MS;

    if (history->fine == NEVER) {
        history->begun = history->fine = fine;
        history->coarse = coarse;
        return true;
    }
    assert(fine >= history->fine);
    if (fine == history->fine)
        return false;
    for (size_t i = history->n; i-- > 0;) {
        struct row *row = history->rows[i];

        /* Nothing of it would be left. */
        if (fine - row->round >=
            SKEW_HISTORY_COARSE_POINTS * (SKEW_HISTORY_COARSE_MS / SKEW_HISTORY_FINE_MS)) {
            remove_row(history, i);
            continue;
        }
        clear(row->fine, SKEW_HISTORY_FINE_POINTS, history->fine, fine);
        clear(row->coarse, SKEW_HISTORY_COARSE_POINTS, history->coarse, coarse);
    }
    history->fine = fine;
    history->coarse = coarse;
    return true;
}

/* Where the instance is, or is to be. */
static size_t find(const struct skew_history *history, const char *instance) {
    size_t low = 0, high = history->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(history->rows[middle]->instance, instance) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The one that was seen last the longest ago, before this round; n when all were seen now. */
static size_t longest_gone(const struct skew_history *history) {
    size_t found = history->n;

    for (size_t i = 0; i < history->n; i++) {
        const struct row *row = history->rows[i];

        /* In the running round others may still be to come: those of the last one are present. */
        if (row->round + 1 < history->fine &&
            (found == history->n || row->round < history->rows[found]->round))
            found = i;
    }
    return found;
}

static struct row *insert(struct skew_history *history, const char *instance) {
    struct row *row;
    size_t at;

    if (history->n == SKEW_HISTORY_NODES_MAX) {
        size_t gone = longest_gone(history);

        if (gone == history->n) {
            history->refused_total++;
            return NULL;
        }
        remove_row(history, gone);
    }
    row = allocate(1, sizeof *row);
    snprintf(row->instance, sizeof row->instance, "%s", instance);
    for (size_t i = 0; i < SKEW_HISTORY_FINE_POINTS; i++)
        row->fine[i] = nothing;
    for (size_t i = 0; i < SKEW_HISTORY_COARSE_POINTS; i++)
        row->coarse[i] = nothing;
    at = find(history, instance);
    memmove(&history->rows[at + 1], &history->rows[at],
            (history->n - at) * sizeof history->rows[0]);
    history->rows[at] = row;
    history->n++;
    return row;
}

void skew_history_add(struct skew_history *history, const char *instance, const char *identity,
                      const uint16_t *machine_ids, size_t n_machine_ids, const struct skew *skew) {
    size_t at = find(history, instance);
    bool there = at < history->n && strcmp(history->rows[at]->instance, instance) == 0;
    struct row *row = there ? history->rows[at] : insert(history, instance);
    struct point *coarse;

    assert(history->fine != NEVER);
    if (!row)
        return;
    row->round = history->fine;
    snprintf(row->identity, sizeof row->identity, "%s", identity);
    if (n_machine_ids > RECORD_MACHINES_MAX)
        n_machine_ids = RECORD_MACHINES_MAX;
    row->n_machine_ids = (uint16_t)n_machine_ids;
    if (n_machine_ids > 0)
        memcpy(row->machine_ids, machine_ids, n_machine_ids * sizeof machine_ids[0]);
    if (!skew)
        return;
    row->fine[history->fine % SKEW_HISTORY_FINE_POINTS] = hold(
        ((double)skew->offset_ns - (double)skew->bound_ns) / 1e6,
        ((double)skew->offset_ns + (double)skew->bound_ns) / 1e6);
    coarse = &row->coarse[history->coarse % SKEW_HISTORY_COARSE_POINTS];
    *coarse = join(*coarse, row->fine[history->fine % SKEW_HISTORY_FINE_POINTS]);
}

/* ---- the answer ---- */

/* What an answer holds: groups of `group` intervals each, first..first+n-1. */
struct span {
    struct scale scale;
    uint64_t group, first, n;
};

static struct point point_of(const struct row *row, const struct span *span, uint64_t index) {
    const struct point *points = span->scale.fine ? row->fine : row->coarse;
    uint64_t oldest = span->scale.running >= span->scale.points
                          ? span->scale.running - span->scale.points + 1
                          : 0;
    struct point joined = nothing;

    for (uint64_t i = index * span->group; i < (index + 1) * span->group; i++) {
        if (i >= oldest && i <= span->scale.running)
            joined = join(joined, points[i % span->scale.points]);
    }
    return joined;
}

/* Groups that begin more than half an interval after since, so that asking with the last time one
 * has brings only what is new, whatever the two clocks did by a ms. */
static void lay_out(struct span *span, uint64_t begun_ms, uint64_t since_boot_ms) {
    uint64_t each_ms = span->scale.interval_ms * span->group;
    uint64_t oldest = span->scale.running >= span->scale.points
                          ? span->scale.running - span->scale.points + 1
                          : 0;
    uint64_t after = (since_boot_ms + each_ms / 2) / each_ms + 1, end;

    span->first = begun_ms / each_ms;
    if (span->first < oldest / span->group)
        span->first = oldest / span->group;
    if (since_boot_ms > 0 && span->first < after)
        span->first = after;
    /* A fine interval is complete as soon as it is noted, a joint one when it is over. */
    end = span->scale.fine && span->group == 1 ? span->scale.running + 1
                                               : span->scale.running / span->group;
    if (!span->scale.fine && span->group == 1)
        end = span->scale.running;
    span->n = end > span->first ? end - span->first : 0;
}

static struct span choose(const struct skew_history *history, uint64_t since_boot_ms, size_t nodes,
                          uint64_t boot_ms) {
    uint64_t begun_ms = history->begun * SKEW_HISTORY_FINE_MS;
    uint64_t from_ms = since_boot_ms > begun_ms ? since_boot_ms : begun_ms;
    bool fine = boot_ms - from_ms <= (uint64_t)SKEW_HISTORY_FINE_MS * SKEW_HISTORY_FINE_POINTS;
    struct span span = {.scale = fine ? (struct scale){SKEW_HISTORY_FINE_MS, history->fine,
                                                       SKEW_HISTORY_FINE_POINTS, true}
                                      : (struct scale){SKEW_HISTORY_COARSE_MS, history->coarse,
                                                       SKEW_HISTORY_COARSE_POINTS, false}};

    for (span.group = 1;; span.group++) {
        lay_out(&span, begun_ms, since_boot_ms);
        if (nodes * span.n <= SKEW_HISTORY_ANSWER_POINTS)
            return span;
    }
}

/* ms with three digits after the point. */
static void write_ms(FILE *out, double ms) {
    double us = ms * 1e3;
    char digits[DECIMAL_U64_MAX_CHARS];
    uint64_t count;
    size_t len;

    if (!(fabs(us) < 1e18)) { /* more than 30,000 years: no measurement says so */
        fputs("null", out);
        return;
    }
    count = (uint64_t)(fabs(us) + 0.5);
    if (us < 0 && count > 0)
        fputc('-', out);
    len = decimal_format(count / 1000, digits);
    fwrite(digits, 1, len, out);
    fprintf(out, ".%03u", (unsigned)(count % 1000));
}

static void write_row(FILE *out, const struct skew_history *history, const struct row *row,
                      const struct span *span, bool first) {
    /* Identities are printable ASCII without quotes and backslashes (records.h). */
    fprintf(out, "%s{\"identity\":\"%s\",\"instance\":\"%s\",\"machine_ids\":[", first ? "" : ",",
            row->identity, row->instance);
    for (size_t i = 0; i < row->n_machine_ids; i++)
        fprintf(out, "%s%u", i ? "," : "", row->machine_ids[i]);
    fprintf(out, "],\"present\":%s,\"offset_ms\":[",
            row->round == history->fine ? "true" : "false");
    for (uint64_t i = 0; i < span->n; i++) {
        struct point point = point_of(row, span, span->first + i);

        if (i)
            fputc(',', out);
        if (known(point))
            write_ms(out, (double)point.offset);
        else
            fputs("null", out);
    }
    fputs("],\"bound_ms\":[", out);
    for (uint64_t i = 0; i < span->n; i++) {
        struct point point = point_of(row, span, span->first + i);

        if (i)
            fputc(',', out);
        if (known(point))
            write_ms(out, (double)point.bound + 0.001); /* what rounding both takes away */
        else
            fputs("null", out);
    }
    fputs("]}", out);
}

static int by_identity(const void *a, const void *b) {
    const struct row *left = *(const struct row *const *)a, *right = *(const struct row *const *)b;
    int order = strcmp(left->identity, right->identity);

    return order ? order : strcmp(left->instance, right->instance);
}

char *skew_history_spell(const struct skew_history *history, uint64_t now_ms, uint64_t boot_ms,
                         uint64_t since_ms, size_t *len) {
    /* Where since would stand on our boot clock; before the boot everything is asked for. */
    uint64_t ago_ms = since_ms < now_ms ? now_ms - since_ms : 0;
    uint64_t since_boot_ms = since_ms > 0 && ago_ms < boot_ms ? boot_ms - ago_ms : 0;
    struct row **rows = allocate(history->n + 1, sizeof *rows);
    struct span span = {.scale.interval_ms = SKEW_HISTORY_FINE_MS, .group = 1};
    char *text = NULL;
    FILE *out = open_memstream(&text, len);
    size_t n = 0;

    if (!out)
        abort();
    for (size_t i = 0; i < history->n; i++) {
        if ((history->rows[i]->round + 1) * SKEW_HISTORY_FINE_MS > since_boot_ms)
            rows[n++] = history->rows[i];
    }
    if (history->fine != NEVER)
        span = choose(history, since_boot_ms, n, boot_ms);
    qsort(rows, n, sizeof rows[0], by_identity);
    fprintf(out, "{\"schema\":1,\"interval_ms\":%" PRIu64 ",\"times_ms\":[",
            span.scale.interval_ms * span.group);
    for (uint64_t i = 0; i < span.n; i++) {
        uint64_t at_boot_ms = (span.first + i) * span.group * span.scale.interval_ms;
        uint64_t before_ms = boot_ms - at_boot_ms;

        fprintf(out, "%s\"%" PRIu64 "\"", i ? "," : "",
                now_ms > before_ms ? now_ms - before_ms : 0);
    }
    fputs("],\"nodes\":[", out);
    for (size_t i = 0; i < n; i++)
        write_row(out, history, rows[i], &span, i == 0);
    fputs("]}", out);
    if (fclose(out) != 0)
        abort();
    free(rows);
    return text;
}
