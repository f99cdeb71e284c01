#include "common/random.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum status random_bytes(void *buf, size_t len, struct error *err) {
    unsigned char *at = buf;

    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);

        if (got < 0) {
            if (errno == EINTR)
                continue;
            return error_set(err, STATUS_SYSTEM, "getrandom: %s", strerror(errno));
        }
        at += got;
        len -= (size_t)got;
    }
    return STATUS_OK;
}

static void random_or_abort(void *buf, size_t len) {
    struct error err;

    if (random_bytes(buf, len, &err) != STATUS_OK) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
}

void random_hex128(char out[static 33]) {
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[16];
    size_t i;

    random_or_abort(bytes, sizeof bytes);
    for (i = 0; i < sizeof bytes; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[32] = '\0';
}

uint64_t random_u64(void) {
    uint64_t value;

    random_or_abort(&value, sizeof value);
    return value;
}
