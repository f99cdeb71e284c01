/* crockford.h - [pure] Crockford's base32: 0-9 and A-Z without I, L, O and U, 5 bits a character.
 *
 * Source: Douglas Crockford, "Base 32" (crockford.com).  Without its hyphens and check symbol. */
#ifndef SNOWFLEET_COMMON_CROCKFORD_H
#define SNOWFLEET_COMMON_CROCKFORD_H

#include <stddef.h>
#include <stdint.h>

#define CROCKFORD_MAX_DIGITS 12u /* in one call: 60 bits */

/* Writes the lowest 5 * n bits of value as n (0..12) characters, upper case, without a NUL. */
void crockford_encode(uint64_t value, size_t n, char *out);

/* The 5 bits that c stands for, in any case, with I and L for 1 and O for 0; -1: none. */
int crockford_digit(char c);

/* Reads n (0..12) characters.  Returns how many it could read: less than n means that text[that]
 * is no digit, and *value is then not to be used. */
size_t crockford_decode(const char *text, size_t n, uint64_t *value);

#endif
