/* allocate.h - memory without which there is no going on.
 *
 * For asynchronous code, which has nobody to report to yet.  When the system has none left the
 * process aborts: its supervisor starts it again, and no ID is lost or issued twice by that. */
#ifndef SNOWFLEET_COMMON_ALLOCATE_H
#define SNOWFLEET_COMMON_ALLOCATE_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* n zeroed elements, n may be 0; never NULL. */
static inline void *allocate(size_t n, size_t size) {
    void *memory = calloc(n ? n : 1, size);

    if (!memory)
        abort();
    return memory;
}

/* As realloc(), for size above 0; never NULL. */
static inline void *reallocate(void *memory, size_t size) {
    void *moved = realloc(memory, size);

    if (!moved)
        abort();
    return moved;
}

/* A copy of len bytes with a NUL after them. */
static inline char *allocate_copy(const char *bytes, size_t len) {
    char *copy = allocate(len + 1, 1);

    if (len)
        memcpy(copy, bytes, len);
    return copy;
}

/* One zeroed element that must not go on in two processes, such as a generator of IDs: a child of fork()
 * finds it zeroed (the kernel sees to that).  Release it with free_unforked(). */
static inline void *allocate_unforked(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED || madvise(memory, size, MADV_WIPEONFORK) != 0)
        abort();
    return memory;
}

static inline void free_unforked(void *memory, size_t size) {
    munmap(memory, size);
}

#endif
