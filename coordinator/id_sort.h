/* id_sort.h - sorts more IDs than memory holds, each with the place where it was found.
 *
 * As many as fit are sorted in memory (radix sort) and written to a temporary file as a run; the
 * runs are merged as they are read back.  What fits as a whole needs no file.  The file has no name,
 * so it goes with the process; it takes 16 bytes an ID, and for a time twice that beyond 254 runs.
 * Not thread-safe. */
#ifndef SNOWFLEET_COORDINATOR_ID_SORT_H
#define SNOWFLEET_COORDINATOR_ID_SORT_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

#define ID_SORT_MEMORY_MIN ((size_t)64 * 1024)

struct id_record {
    uint64_t id;
    uint64_t place;
};

struct id_sort;

/* memory_bytes, at least ID_SORT_MEMORY_MIN, is what the records take at any time.  folder is copied.
 * STATUS_SYSTEM: there is not so much memory. */
enum status id_sort_new(size_t memory_bytes, const char *folder, struct id_sort **sort,
                        struct error *err);
void id_sort_free(struct id_sort *sort);

/* STATUS_SYSTEM: the temporary file cannot be made or written; the sort is then only to be freed. */
enum status id_sort_add(struct id_sort *sort, struct id_record record, struct error *err);
/* After the last one.  Fails as id_sort_add() does, or when the file cannot be read. */
enum status id_sort_finish(struct id_sort *sort, struct error *err);
/* The next in order of IDs; equal IDs come in the order in which they were added.
 *   STATUS_NOT_FOUND  there are no more (*err stays as it was)
 *   STATUS_SYSTEM     the file cannot be read */
enum status id_sort_next(struct id_sort *sort, struct id_record *record, struct error *err);

#endif
