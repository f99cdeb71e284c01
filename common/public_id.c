#include "common/public_id.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/crockford.h"
#include "common/decimal.h"
#include "common/lines.h"

#define MARK 'P'
#define NUMBER_BYTES 8u
#define KIND_AT NUMBER_BYTES
#define ZEROS_AT (KIND_AT + 1)

/* ---- keys ---- */

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_key(const char *text, size_t len, unsigned char key[static PUBLIC_KEY_BYTES]) {
    if (len != 2 * PUBLIC_KEY_BYTES)
        return false;
    for (size_t i = 0; i < PUBLIC_KEY_BYTES; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        key[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static enum status add(struct public_keys *keys, const char *text, size_t len, size_t line,
                       struct error *err) {
    const char *colon = memchr(text, ':', len);
    struct public_key *key = &keys->keys[keys->n];
    struct error unused; /* it quotes, and a key without its version must not be shown */
    uint64_t version;

    if (!colon || decimal_parse(text, (size_t)(colon - text), 1, PUBLIC_VERSION_MAX, &version,
                                &unused) != STATUS_OK)
        return error_set(err, STATUS_INVALID,
                         "line %zu: must be VERSION:KEY, the version 1..%u without leading zeros",
                         line, PUBLIC_VERSION_MAX);
    for (size_t i = 0; i < keys->n; i++)
        if (keys->keys[i].version == version)
            return error_set(err, STATUS_INVALID, "line %zu: version %u is there twice", line,
                             (unsigned)version);
    /* As no version comes twice, there is room. */
    key->version = (uint8_t)version;
    if (!read_key(colon + 1, len - (size_t)(colon + 1 - text), key->key))
        return error_set(err, STATUS_INVALID, "line %zu: a key is %u hexadecimal digits", line,
                         2 * PUBLIC_KEY_BYTES);
    for (size_t i = 0; i < keys->n; i++)
        if (CRYPTO_memcmp(keys->keys[i].key, key->key, PUBLIC_KEY_BYTES) == 0)
            return error_set(err, STATUS_INVALID, "line %zu: version %u has the key of version %u",
                             line, (unsigned)version, keys->keys[i].version);
    keys->n++;
    return STATUS_OK;
}

enum status public_keys_parse(const char *text, size_t len, struct public_keys *keys,
                              struct error *err) {
    struct lines lines = lines_of(text, len);
    const char *line;
    size_t line_len;

    memset(keys, 0, sizeof *keys);
    while (lines_next(&lines, &line, &line_len))
        if (add(keys, line, line_len, lines.number, err) != STATUS_OK)
            return err->status;
    return keys->n > 0 ? STATUS_OK : error_set(err, STATUS_INVALID, "it holds no key");
}

bool public_keys_equal(const struct public_keys *a, const struct public_keys *b) {
    return a->n == b->n && CRYPTO_memcmp(a->keys, b->keys, a->n * sizeof a->keys[0]) == 0;
}

void public_keys_fingerprint(const struct public_keys *keys,
                             char out[static PUBLIC_FINGERPRINT_CHARS + 1]) {
    static const char purpose[] = "snowfleet public keys";
    unsigned char text[sizeof purpose + sizeof keys->keys], hash[EVP_MAX_MD_SIZE];
    size_t len = sizeof purpose;

    memcpy(text, purpose, sizeof purpose);
    for (unsigned version = 1; version <= PUBLIC_VERSION_MAX; version++) {
        for (size_t i = 0; i < keys->n; i++) {
            if (keys->keys[i].version != version)
                continue;
            memcpy(text + len, &keys->keys[i], sizeof keys->keys[i]);
            len += sizeof keys->keys[i];
        }
    }
    if (!EVP_Digest(text, len, hash, NULL, EVP_sha256(), NULL))
        abort();
    OPENSSL_cleanse(text, sizeof text);
    for (size_t i = 0; i < PUBLIC_FINGERPRINT_CHARS / 2; i++)
        snprintf(out + 2 * i, 3, "%02x", hash[i]);
}

/* ---- one block ---- */

struct public_codec {
    unsigned version; /* of encrypts */
    EVP_CIPHER_CTX *encrypts;
    EVP_CIPHER_CTX *decrypts[PUBLIC_VERSION_MAX + 1]; /* by version; NULL: no such key */
};

/* One block at a time, so ECB is AES itself. */
static EVP_CIPHER_CTX *begin(const struct public_key *key, int encrypts) {
    EVP_CIPHER_CTX *made = EVP_CIPHER_CTX_new();

    if (made && EVP_CipherInit_ex(made, EVP_aes_128_ecb(), NULL, key->key, NULL, encrypts) == 1 &&
        EVP_CIPHER_CTX_set_padding(made, 0) == 1)
        return made;
    EVP_CIPHER_CTX_free(made);
    return NULL;
}

void public_codec_free(struct public_codec *codec) {
    if (!codec)
        return;
    EVP_CIPHER_CTX_free(codec->encrypts);
    for (size_t version = 0; version <= PUBLIC_VERSION_MAX; version++)
        EVP_CIPHER_CTX_free(codec->decrypts[version]);
    free(codec);
}

struct public_codec *public_codec_new(const struct public_keys *keys, struct error *err) {
    struct public_codec *codec = allocate(1, sizeof *codec);
    bool ok;

    assert(keys->n > 0);
    codec->version = keys->keys[0].version;
    codec->encrypts = begin(&keys->keys[0], 1);
    ok = codec->encrypts != NULL;
    for (size_t i = 0; ok && i < keys->n; i++) {
        codec->decrypts[keys->keys[i].version] = begin(&keys->keys[i], 0);
        ok = codec->decrypts[keys->keys[i].version] != NULL;
    }
    if (ok)
        return codec;
    public_codec_free(codec);
    error_set(err, STATUS_SYSTEM, "OpenSSL has no AES-128");
    return NULL;
}

unsigned public_codec_version(const struct public_codec *codec) {
    return codec->version;
}

static void run_cipher(EVP_CIPHER_CTX *with, const unsigned char in[static 16],
                       unsigned char out[static 16]) {
    int len;

    if (EVP_CipherUpdate(with, out, &len, in, 16) != 1 || len != 16)
        abort(); /* nothing may go out that was not encrypted */
}

void public_codec_encrypt(struct public_codec *codec, const unsigned char plain[static 16],
                          unsigned char block[static 16]) {
    run_cipher(codec->encrypts, plain, block);
}

/* ---- text ---- */

static uint64_t read_half(const unsigned char *bytes) {
    uint64_t value = 0;

    for (int i = 0; i < 8; i++)
        value = value << 8 | bytes[i];
    return value;
}

static void write_half(uint64_t value, unsigned char *bytes) {
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(value >> (56 - 8 * i));
}

/* 8, 60 and 60 bits of the block. */
void public_id_format(unsigned version, const struct id128 *block,
                      char out[static PUBLIC_ID_CHARS + 1]) {
    uint64_t high = read_half(block->bytes), low = read_half(block->bytes + 8);

    out[0] = MARK;
    crockford_encode(version, 1, out + 1);
    crockford_encode(high >> 56, 2, out + 2);
    crockford_encode(high << 4 | low >> 60, 12, out + 4);
    crockford_encode(low, 12, out + 16);
    out[PUBLIC_ID_CHARS] = '\0';
}

bool public_id_read(const char *text, size_t len, unsigned *version, struct id128 *block) {
    char canonical[PUBLIC_ID_CHARS + 1];
    uint64_t digit, first, second, third;

    if (len != PUBLIC_ID_CHARS || crockford_decode(text + 1, 1, &digit) != 1 ||
        crockford_decode(text + 2, 2, &first) != 2 ||
        crockford_decode(text + 4, 12, &second) != 12 ||
        crockford_decode(text + 16, 12, &third) != 12 || digit == 0)
        return false;
    write_half(first << 56 | second >> 4, block->bytes);
    write_half(second << 60 | third, block->bytes + 8);
    *version = (unsigned)digit;
    /* What base32 takes beyond the one spelling: lower case, I, L and O, and 130 bits for 128. */
    public_id_format(*version, block, canonical);
    return memcmp(text, canonical, PUBLIC_ID_CHARS) == 0;
}

/* ---- both ways ---- */

void public_id_encode(struct public_codec *codec, enum public_of of, int64_t number,
                      char out[static PUBLIC_ID_CHARS + 1]) {
    unsigned char plain[16] = {0};
    struct id128 block;

    assert(number >= 0);
    write_half((uint64_t)number, plain);
    plain[KIND_AT] = (unsigned char)of;
    public_codec_encrypt(codec, plain, block.bytes);
    public_id_format(codec->version, &block, out);
}

enum status public_id_open(struct public_codec *codec, unsigned version, const struct id128 *block,
                           enum public_of *of, int64_t *number, struct error *err) {
    static const unsigned char zeros[16 - ZEROS_AT];
    EVP_CIPHER_CTX *with = version <= PUBLIC_VERSION_MAX ? codec->decrypts[version] : NULL;
    unsigned char plain[16];
    uint64_t value;

    if (!with)
        return error_set(
            err, STATUS_INVALID,
            "must be a public ID under a key that is known here, got one of version %u", version);
    run_cipher(with, block->bytes, plain);
    value = read_half(plain);
    if (memcmp(plain + ZEROS_AT, zeros, sizeof zeros) != 0 || value > INT64_MAX ||
        (plain[KIND_AT] != PUBLIC_OF_SNOWFLAKE && plain[KIND_AT] != PUBLIC_OF_SEQUENCE))
        return error_set(err, STATUS_INVALID,
                         "must be a public ID as it was given out: this one was altered, or made "
                         "under another key of version %u",
                         version);
    *of = (enum public_of)plain[KIND_AT];
    *number = (int64_t)value;
    return STATUS_OK;
}
