/* public_id.h - [pure] public IDs: a 64-bit ID in a form that tells outsiders nothing of it.
 *
 *   block  16 bytes: the ID (8, the most significant first), what it is (1), zeros (7)
 *   text   28 characters of Crockford's base32, upper case: P, the key's version, and in 26 the block under
 *          AES-128, as a ULID has its 128 bits
 *
 * Each version and block has one spelling, and only that is read.  The P keeps kinds apart: no ULID begins with
 * it, so one that was cut short is not taken for one.  A text that no key of ours made decrypts to chance, which
 * passes for an ID with a probability of 2^-64 (56 zeros, the sign, 2 of 256 kinds).
 *
 * What it hides: the number, hence time, order, how many there are, and which ID is whose neighbour.  What it
 * does not: that two texts are the same ID, and the version.  Whoever has the key can read and make them. */
#ifndef SNOWFLEET_COMMON_PUBLIC_ID_H
#define SNOWFLEET_COMMON_PUBLIC_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/id128.h"
#include "common/status.h"

#define PUBLIC_ID_CHARS 28u
#define PUBLIC_KEY_BYTES 16u
#define PUBLIC_VERSION_MAX 31u /* one character */
#define PUBLIC_FINGERPRINT_CHARS 16u

/* What is behind one.  The numbers are part of the format. */
enum public_of { PUBLIC_OF_SNOWFLAKE = 1, PUBLIC_OF_SEQUENCE = 2 };

struct public_key {
    uint8_t version; /* 1..PUBLIC_VERSION_MAX */
    unsigned char key[PUBLIC_KEY_BYTES];
};
/* All of them decode; the first one encodes. */
struct public_keys {
    size_t n; /* 1.. */
    struct public_key keys[PUBLIC_VERSION_MAX];
};

/* One key a line, "VERSION:KEY", the KEY as 32 hexadecimal digits; lines.h says what is left out.  No version
 * and no key may come twice.  STATUS_INVALID names the line and never what it holds; *keys then is of no
 * use, as it may hold some of them: wipe it like good ones. */
enum status public_keys_parse(const char *text, size_t len, struct public_keys *keys,
                              struct error *err);
bool public_keys_equal(const struct public_keys *a, const struct public_keys *b);
/* Tells sets of keys apart and, as long as they are random, nothing else: the first 64 bits of a SHA-256
 * over versions and keys, in the order of versions, so that it does not change with which one encodes. */
void public_keys_fingerprint(const struct public_keys *keys,
                             char out[static PUBLIC_FINGERPRINT_CHARS + 1]);

/* Keys at work.  Not thread-safe: one for each thread. */
struct public_codec;
/* NULL: OpenSSL refuses, which err says. */
struct public_codec *public_codec_new(const struct public_keys *keys, struct error *err);
void public_codec_free(struct public_codec *codec); /* NULL is let pass */

/* One block of AES-128 under the key that encodes. */
void public_codec_encrypt(struct public_codec *codec, const unsigned char plain[static 16],
                          unsigned char block[static 16]);
/* number: 0.. .  Writes a NUL too. */
void public_id_encode(struct public_codec *codec, enum public_of of, int64_t number,
                      char out[static PUBLIC_ID_CHARS + 1]);
/* The version that public_id_encode() uses. */
unsigned public_codec_version(const struct public_codec *codec);

/* The two halves of decoding: whether a text has the form of one, and what is behind it. */
bool public_id_read(const char *text, size_t len, unsigned *version, struct id128 *block);
/* STATUS_INVALID says what it must be, to follow the name of a field; *of and *number are as they were. */
enum status public_id_open(struct public_codec *codec, unsigned version, const struct id128 *block,
                           enum public_of *of, int64_t *number, struct error *err);
/* The text of a version and block. */
void public_id_format(unsigned version, const struct id128 *block,
                      char out[static PUBLIC_ID_CHARS + 1]);

#endif
