/* page.h - the coordinator's page: its files, from coordinator/page/, built into the program. */
#ifndef SNOWFLEET_COORDINATOR_PAGE_H
#define SNOWFLEET_COORDINATOR_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/http_server.h"

struct page_file {
    const char *path; /* "/" or "/page/NAME" */
    const char *content_type;
    const char *bytes;
    size_t len;
};
/* As made by coordinator/CMakeLists.txt. */
extern const struct page_file page_files[];
extern const size_t n_page_files;

struct page;
struct page *page_new(void);
void page_free(struct page *page);

/* Is path one of its files?  Answers GET and HEAD of it. */
bool page_has(const char *path);
void page_reply(const struct page *page, struct http_exchange *exchange);

#endif
