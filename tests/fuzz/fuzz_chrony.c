/* What claims to be chronyd's answer: a bound that is taken is one that can be. */
#include <stdlib.h>

#include "common/chrony.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t len);

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t len) {
    struct chrony_tracking tracking;
    struct error err;

    if (chrony_parse(bytes, len, 0xdeadbeef, &tracking, &err) == STATUS_OK &&
        (len < CHRONY_BYTES || tracking.max_error_ns < 0 ||
         tracking.max_error_ns > INT64_C(1000000000000000)))
        abort();
    return 0;
}
