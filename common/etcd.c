#include "common/etcd.h"

#include <assert.h>
#include <string.h>

void etcd_prefix_end(const char *prefix, char *end, size_t size) {
    size_t len = strlen(prefix);

    assert(len < size);
    memcpy(end, prefix, len + 1);
    while (len > 0 && (unsigned char)end[len - 1] == 0xff)
        len--;
    assert(len > 0);
    end[len - 1] = (char)((unsigned char)end[len - 1] + 1);
    end[len] = '\0';
}
