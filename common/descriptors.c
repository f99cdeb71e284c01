#include "common/descriptors.h"

#include <sys/resource.h>

#include "common/log.h"

void descriptors_fit(uint64_t own, uint64_t n, unsigned *connections) {
    struct rlimit limit;
    uint64_t room;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    room = limit.rlim_cur > own ? (limit.rlim_cur - own) / n : 0;
    if (room >= *connections)
        return;
    *connections = room > 0 ? (unsigned)room : 1;
    log_warn("http", "descriptors are too few: fewer clients are taken",
             LOG_INT("descriptors", limit.rlim_cur), LOG_INT("max_connections", *connections));
}
