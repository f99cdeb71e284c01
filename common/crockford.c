#include "common/crockford.h"

#include <assert.h>

static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

void crockford_encode(uint64_t value, size_t n, char *out) {
    assert(n <= CROCKFORD_MAX_DIGITS);
    while (n > 0) {
        out[--n] = alphabet[value & 31];
        value >>= 5;
    }
}

int crockford_digit(char c) {
    /* From '0' on; 32 stands for none. */
    static const unsigned char digits[] = {
        ['0' - '0'] = 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  32, 32, 32, 32, 32, 32, 32, /* ..@ */
        ['A' - '0'] = 10, 11, 12, 13, 14, 15, 16, 17, 1,  18, 19, 1,  20, 21, 0,          /* ..O */
        ['P' - '0'] = 22, 23, 24, 25, 26, 32, 27, 28, 29, 30, 31, 32, 32, 32, 32, 32, 32, /* ..` */
        ['a' - '0'] = 10, 11, 12, 13, 14, 15, 16, 17, 1,  18, 19, 1,  20, 21, 0,          /* ..o */
        ['p' - '0'] = 22, 23, 24, 25, 26, 32, 27, 28, 29, 30, 31,                         /* ..z */
    };

    if (c < '0' || c > 'z' || digits[c - '0'] == 32)
        return -1;
    return digits[c - '0'];
}

size_t crockford_decode(const char *text, size_t n, uint64_t *value) {
    uint64_t sum = 0;
    size_t i;

    assert(n <= CROCKFORD_MAX_DIGITS);
    for (i = 0; i < n; i++) {
        int digit = crockford_digit(text[i]);

        if (digit < 0)
            break;
        sum = sum << 5 | (unsigned)digit;
    }
    *value = sum;
    return i;
}
