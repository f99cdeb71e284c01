#include "common/random_pool.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "common/allocate.h"

#define PAGE 4096u

/* Lies in a page of its own, which is all zero in a child of fork(): left says then that there is
 * nothing, and source is not taken from it. */
struct page {
    size_t left; /* bytes[..left] have not been given out */
    unsigned char bytes[PAGE - sizeof(size_t)];
};
_Static_assert(sizeof(struct page) == PAGE, "the kernel wipes whole pages");

struct random_pool {
    random_source_fn *source;
    struct page *page;
};

struct random_pool *random_pool_new(random_source_fn *source, struct error *err) {
    struct random_pool *pool;
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED) {
        error_set(err, STATUS_SYSTEM, "random pool: mmap: %s", strerror(errno));
        return NULL;
    }
    if (madvise(page, PAGE, MADV_WIPEONFORK) != 0) {
        error_set(err, STATUS_SYSTEM, "random pool: madvise: %s", strerror(errno));
        munmap(page, PAGE);
        return NULL;
    }
    pool = allocate(1, sizeof *pool);
    *pool = (struct random_pool){.source = source, .page = page};
    return pool;
}

void random_pool_free(struct random_pool *pool) {
    if (!pool)
        return;
    explicit_bzero(pool->page, PAGE);
    munmap(pool->page, PAGE);
    free(pool);
}

enum status random_pool_take(struct random_pool *pool, void *buf, size_t len, struct error *err) {
    struct page *page = pool->page;

    assert(len > 0 && len <= RANDOM_POOL_TAKE_MAX);
    if (page->left < len) {
        page->left = 0; /* until the source has answered */
        if (pool->source(page->bytes, sizeof page->bytes, err) != STATUS_OK)
            return err->status;
        page->left = sizeof page->bytes;
    }
    page->left -= len;
    memcpy(buf, page->bytes + page->left, len);
    explicit_bzero(page->bytes + page->left, len);
    return STATUS_OK;
}
