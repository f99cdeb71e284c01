/* Numbers, durations and times from anywhere: what is accepted comes back the same when it is
 * written and read once more, and what is refused leaves the value alone. */
#include <stdlib.h>
#include <string.h>

#include "common/decimal.h"

#define UNTOUCHED UINT64_C(0x5a5a5a5a5a5a5a5a)

static void require(int holds) {
    if (!holds)
        abort();
}

static void require_reason(const struct error *err) {
    require(strncmp(err->message, "must be ", 8) == 0 && strlen(err->message) < 250);
    for (const char *at = err->message; *at; at++)
        require(*at >= ' ' && *at < 0x7f);
}

static void number(const char *text, size_t len) {
    uint64_t value = UNTOUCHED;
    char out[DECIMAL_U64_MAX_CHARS + 1];
    struct error err;
    size_t out_len;

    if (decimal_parse(text, len, 0, UINT64_MAX, &value, &err) != STATUS_OK) {
        require(value == UNTOUCHED);
        require_reason(&err);
        return;
    }
    out_len = decimal_format(value, out); /* one spelling only */
    require(out_len == len && memcmp(out, text, len) == 0);
    if (value == UINT64_MAX)
        return;
    decimal_increment(out, &out_len);
    require(decimal_parse(out, out_len, value + 1, value + 1, &value, &err) == STATUS_OK);
}

static void duration(const char *text, size_t len) {
    uint64_t value = UNTOUCHED, again;
    struct error err;
    char out[24];

    if (duration_parse(text, len, 0, UINT64_MAX, &value, &err) != STATUS_OK) {
        require(value == UNTOUCHED);
        require_reason(&err);
        return;
    }
    duration_format(value, out);
    require(duration_parse(out, strlen(out), value, value, &again, &err) == STATUS_OK);
}

static void time_of(const char *text, size_t len) {
    uint64_t value = UNTOUCHED, again;
    struct error err;
    char out[32];

    if (time_parse(text, len, &value, &err) != STATUS_OK) {
        require(value == UNTOUCHED);
        require_reason(&err);
        return;
    }
    time_format(value, out);
    require(time_parse(out, strlen(out), &again, &err) == STATUS_OK && again == value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;

    number(text, size);
    duration(text, size);
    time_of(text, size);
    return 0;
}
