#include "common/base64.h"

#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const void *bytes, size_t n, char *text) {
    const uint8_t *in = bytes;

    for (; n >= 3; n -= 3, in += 3) {
        *text++ = alphabet[in[0] >> 2];
        *text++ = alphabet[(in[0] & 3) << 4 | in[1] >> 4];
        *text++ = alphabet[(in[1] & 15) << 2 | in[2] >> 6];
        *text++ = alphabet[in[2] & 63];
    }
    if (n > 0) {
        uint8_t second = n == 2 ? in[1] : 0;

        *text++ = alphabet[in[0] >> 2];
        *text++ = alphabet[(in[0] & 3) << 4 | second >> 4];
        *text++ = n == 2 ? alphabet[(second & 15) << 2] : '=';
        *text++ = '=';
    }
    *text = '\0';
}

/* 0..63, or -1. */
static int digit(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

enum status base64_decode(const char *text, size_t len, void *bytes, size_t *n) {
    uint8_t *out = bytes;
    size_t padding = 0, i;

    if (len % 4 != 0)
        return STATUS_INVALID;
    if (len > 0 && text[len - 1] == '=')
        padding = text[len - 2] == '=' ? 2 : 1;
    for (i = 0; i < len; i += 4) {
        size_t digits = i + 4 == len ? 4 - padding : 4, k;
        uint32_t group = 0;

        for (k = 0; k < digits; k++) {
            int value = digit(text[i + k]);

            if (value < 0)
                return STATUS_INVALID;
            group |= (uint32_t)value << (18 - 6 * k);
        }
        /* Two digits are one byte and 4 bits, three are two bytes and 2 bits. */
        if ((digits == 2 && (group & 0xffff)) || (digits == 3 && (group & 0xff)))
            return STATUS_INVALID;
        *out++ = (uint8_t)(group >> 16);
        if (digits > 2)
            *out++ = (uint8_t)(group >> 8 & 0xff);
        if (digits > 3)
            *out++ = (uint8_t)(group & 0xff);
    }
    *n = (size_t)(out - (uint8_t *)bytes);
    return STATUS_OK;
}
