#include "coordinator/id_sort.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/allocate.h"

#define RUNS_MAX 255u /* merged at once, so that each has a part of the memory for its buffer */
#define DIGIT_BITS 11u
#define DIGIT_VALUES (1u << DIGIT_BITS)
#define DIGITS 6u /* of 11 bits: 63 bits and more */

struct run {
    uint64_t at; /* of its next record that is not in the buffer, counted in the file */
    uint64_t n;  /* records from there on */
    struct id_record *buffer;
    size_t begin, end;
};

/* The run whose next ID is the smallest comes first; of equal ones the older run. */
struct heap_entry {
    uint64_t id;
    unsigned run;
};

struct id_sort {
    char *folder;
    struct id_record *records; /* capacity, and as many for sorting; while merging, the buffers */
    size_t capacity;
    size_t n, next;    /* records in memory, and of those handed out */
    bool out_of_order; /* those in memory */
    int file;          /* -1: none */
    uint64_t written;  /* records in it */
    struct run runs[RUNS_MAX];
    unsigned n_runs;
    struct heap_entry heap[RUNS_MAX];
    unsigned n_heap;
    size_t counts[DIGITS][DIGIT_VALUES];
};

enum status id_sort_new(size_t memory_bytes, const char *folder, struct id_sort **sort,
                        struct error *err) {
    struct id_record *records = malloc(memory_bytes);

    assert(memory_bytes >= ID_SORT_MEMORY_MIN);
    if (!records)
        return error_set(err, STATUS_SYSTEM, "%zu MiB of memory: %s", memory_bytes >> 20,
                         strerror(errno));
    *sort = allocate(1, sizeof **sort);
    (*sort)->folder = allocate_copy(folder, strlen(folder));
    (*sort)->records = records;
    (*sort)->capacity = memory_bytes / sizeof records[0] / 2;
    (*sort)->file = -1;
    return STATUS_OK;
}

void id_sort_free(struct id_sort *sort) {
    if (!sort)
        return;
    if (sort->file >= 0)
        close(sort->file);
    free(sort->records);
    free(sort->folder);
    free(sort);
}

/* ---- in memory ---- */

static unsigned digit(uint64_t id, unsigned place) {
    return (unsigned)(id >> (place * DIGIT_BITS)) & (DIGIT_VALUES - 1);
}

/* The number of records with a digit becomes where the first of them goes.  False: all have the same
 * digit, so that there is nothing to sort by it. */
static bool place_digits(size_t counts[static DIGIT_VALUES], size_t n) {
    size_t sum = 0;

    for (unsigned value = 0; value < DIGIT_VALUES; value++) {
        size_t count = counts[value];

        if (count == n)
            return false;
        counts[value] = sum;
        sum += count;
    }
    return true;
}

/* Radix sort from the last digit on; stable.  The result may end up in the second half. */
static struct id_record *sort_records(struct id_sort *sort) {
    struct id_record *from = sort->records, *to = sort->records + sort->capacity;

    if (!sort->out_of_order)
        return from;
    memset(sort->counts, 0, sizeof sort->counts);
    for (size_t i = 0; i < sort->n; i++) {
        for (unsigned place = 0; place < DIGITS; place++)
            sort->counts[place][digit(from[i].id, place)]++;
    }
    for (unsigned place = 0; place < DIGITS; place++) {
        size_t *next = sort->counts[place];
        struct id_record *swapped = from;

        if (!place_digits(next, sort->n))
            continue;
        for (size_t i = 0; i < sort->n; i++)
            to[next[digit(from[i].id, place)]++] = from[i];
        from = to;
        to = swapped;
    }
    return from;
}

/* ---- the temporary file ---- */

static enum status file_failed(const struct id_sort *sort, const char *what, struct error *err) {
    return error_set(err, STATUS_SYSTEM, "cannot %s a temporary file in %s: %s", what, sort->folder,
                     strerror(errno));
}

static enum status open_file(const struct id_sort *sort, int *file, struct error *err) {
    char *path = NULL;
    enum status status = STATUS_OK;

    if (asprintf(&path, "%s/snowfleet-audit-XXXXXX", sort->folder) < 0)
        abort();
    *file = mkostemp(path, O_CLOEXEC);
    if (*file < 0)
        status = file_failed(sort, "make", err);
    else if (unlink(path) != 0)
        status = file_failed(sort, "unlink", err);
    free(path);
    return status;
}

static enum status write_records(const struct id_sort *sort, int file,
                                 const struct id_record *records, size_t n, struct error *err) {
    const char *bytes = (const char *)records;
    size_t len = n * sizeof records[0];

    while (len > 0) {
        ssize_t part = write(file, bytes, len);

        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            return file_failed(sort, "write", err);
        bytes += part;
        len -= (size_t)part;
    }
    return STATUS_OK;
}

static enum status read_records(const struct id_sort *sort, uint64_t at, struct id_record *records,
                                size_t n, struct error *err) {
    char *bytes = (char *)records;
    size_t len = n * sizeof records[0];
    off_t offset = (off_t)(at * sizeof records[0]);

    while (len > 0) {
        ssize_t part = pread(sort->file, bytes, len, offset);

        if (part < 0 && errno == EINTR)
            continue;
        if (part == 0)
            errno = EIO; /* it is shorter than what was written */
        if (part <= 0)
            return file_failed(sort, "read", err);
        bytes += part;
        offset += part;
        len -= (size_t)part;
    }
    return STATUS_OK;
}

/* ---- merging ---- */

static bool goes_before(const struct heap_entry *a, const struct heap_entry *b) {
    return a->id < b->id || (a->id == b->id && a->run < b->run);
}

static void sift_down(struct id_sort *sort, unsigned at) {
    struct heap_entry *heap = sort->heap, moving = heap[at];

    for (;;) {
        unsigned child = 2 * at + 1;

        if (child + 1 < sort->n_heap && goes_before(&heap[child + 1], &heap[child]))
            child++;
        if (child >= sort->n_heap || !goes_before(&heap[child], &moving))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

static enum status refill(const struct id_sort *sort, struct run *run, size_t buffer_records,
                          struct error *err) {
    size_t n = run->n < buffer_records ? (size_t)run->n : buffer_records;

    if (read_records(sort, run->at, run->buffer, n, err) != STATUS_OK)
        return err->status;
    run->at += n;
    run->n -= n;
    run->begin = 0;
    run->end = n;
    return STATUS_OK;
}

/* One part of the memory is left over, for what is written. */
static size_t buffer_records(const struct id_sort *sort) {
    return 2 * sort->capacity / (sort->n_runs + 1);
}

static enum status open_runs(struct id_sort *sort, struct error *err) {
    for (unsigned i = 0; i < sort->n_runs; i++) {
        struct run *run = &sort->runs[i];

        run->buffer = sort->records + i * buffer_records(sort);
        if (refill(sort, run, buffer_records(sort), err) != STATUS_OK)
            return err->status;
        sort->heap[i] = (struct heap_entry){.id = run->buffer[0].id, .run = i};
    }
    sort->n_heap = sort->n_runs;
    for (unsigned i = sort->n_heap / 2; i-- > 0;)
        sift_down(sort, i);
    return STATUS_OK;
}

static enum status next_merged(struct id_sort *sort, struct id_record *record, struct error *err) {
    struct run *run;

    if (sort->n_heap == 0)
        return STATUS_NOT_FOUND;
    run = &sort->runs[sort->heap[0].run];
    *record = run->buffer[run->begin++];
    if (run->begin == run->end && refill(sort, run, buffer_records(sort), err) != STATUS_OK)
        return err->status;
    if (run->begin < run->end)
        sort->heap[0].id = run->buffer[run->begin].id;
    else
        sort->heap[0] = sort->heap[--sort->n_heap];
    sift_down(sort, 0);
    return STATUS_OK;
}

static enum status copy_merged(struct id_sort *sort, int file, struct error *err) {
    size_t room = buffer_records(sort), n = 0;
    struct id_record *out = sort->records + sort->n_runs * room;
    enum status status;

    while ((status = next_merged(sort, &out[n], err)) == STATUS_OK) {
        if (++n < room)
            continue;
        if (write_records(sort, file, out, n, err) != STATUS_OK)
            return err->status;
        n = 0;
    }
    return status == STATUS_NOT_FOUND ? write_records(sort, file, out, n, err) : status;
}

/* Makes one run of all, in a file of its own. */
static enum status join_runs(struct id_sort *sort, struct error *err) {
    enum status status;
    int file = -1;

    if (open_runs(sort, err) != STATUS_OK)
        return err->status;
    status = open_file(sort, &file, err);
    if (status == STATUS_OK)
        status = copy_merged(sort, file, err);
    if (status != STATUS_OK) {
        if (file >= 0)
            close(file);
        return status;
    }
    close(sort->file);
    sort->file = file;
    sort->runs[0] = (struct run){.at = 0, .n = sort->written};
    sort->n_runs = 1;
    return STATUS_OK;
}

static enum status write_run(struct id_sort *sort, struct error *err) {
    if (sort->file < 0 && open_file(sort, &sort->file, err) != STATUS_OK)
        return err->status;
    if (write_records(sort, sort->file, sort_records(sort), sort->n, err) != STATUS_OK)
        return err->status;
    sort->runs[sort->n_runs++] = (struct run){.at = sort->written, .n = sort->n};
    sort->written += sort->n;
    sort->n = 0;
    sort->out_of_order = false;
    return sort->n_runs == RUNS_MAX ? join_runs(sort, err) : STATUS_OK;
}

/* ---- for callers ---- */

enum status id_sort_add(struct id_sort *sort, struct id_record record, struct error *err) {
    if (sort->n == sort->capacity && write_run(sort, err) != STATUS_OK)
        return err->status;
    if (sort->n > 0 && record.id < sort->records[sort->n - 1].id)
        sort->out_of_order = true;
    sort->records[sort->n++] = record;
    return STATUS_OK;
}

enum status id_sort_finish(struct id_sort *sort, struct error *err) {
    const struct id_record *sorted;

    if (sort->n_runs > 0) {
        if (sort->n > 0 && write_run(sort, err) != STATUS_OK)
            return err->status;
        return open_runs(sort, err);
    }
    sorted = sort_records(sort);
    if (sorted != sort->records)
        memcpy(sort->records, sorted, sort->n * sizeof sorted[0]);
    return STATUS_OK;
}

enum status id_sort_next(struct id_sort *sort, struct id_record *record, struct error *err) {
    if (sort->n_runs > 0)
        return next_merged(sort, record, err);
    if (sort->next == sort->n)
        return STATUS_NOT_FOUND;
    *record = sort->records[sort->next++];
    return STATUS_OK;
}
