#include "coordinator/page.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "coordinator/body.h"

struct page {
    struct body **bodies; /* of each file */
};

/* Nothing but our own files and answers, and nobody's frame around them.  A browser asks each time
 * whether a file is still the same, so that a page is never of two versions. */
static const char *const headers[] = {
    "Content-Security-Policy",
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options",
    "nosniff",
    "Referrer-Policy",
    "no-referrer",
    "Cross-Origin-Resource-Policy",
    "same-origin",
    "Cache-Control",
    "no-cache",
    NULL,
};

struct page *page_new(void) {
    struct page *page = allocate(1, sizeof *page);

    page->bodies = allocate(n_page_files, sizeof(struct body *));
    for (size_t i = 0; i < n_page_files; i++)
        page->bodies[i] = body_new(page_files[i].bytes, page_files[i].len, true);
    return page;
}

void page_free(struct page *page) {
    if (!page)
        return;
    for (size_t i = 0; i < n_page_files; i++)
        body_free(page->bodies[i]);
    free(page->bodies);
    free(page);
}

static size_t find(const char *path) {
    size_t i = 0;

    while (i < n_page_files && strcmp(page_files[i].path, path) != 0)
        i++;
    return i;
}

bool page_has(const char *path) {
    return find(path) < n_page_files;
}

void page_reply(const struct page *page, struct http_exchange *exchange) {
    size_t i = find(http_path(exchange));

    assert(i < n_page_files);
    body_reply(page->bodies[i], exchange, page_files[i].content_type, headers);
}
