/* fuzz_public_id.c - what a file of public keys may hold, and what a request may bring for a public ID. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/public_id.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What these keys encode, they decode, and so does every other order of them. */
static void both_ways(const struct public_keys *keys, int64_t number) {
    struct error err;
    struct public_codec *codec = public_codec_new(keys, &err);
    char text[PUBLIC_ID_CHARS + 1];
    struct id128 block;
    enum public_of of;
    unsigned version;
    int64_t again;

    assert(codec && public_codec_version(codec) == keys->keys[0].version);
    public_id_encode(codec, PUBLIC_OF_SEQUENCE, number, text);
    assert(public_id_read(text, PUBLIC_ID_CHARS, &version, &block));
    assert(version == keys->keys[0].version);
    assert(public_id_open(codec, version, &block, &of, &again, &err) == STATUS_OK);
    assert(of == PUBLIC_OF_SEQUENCE && again == number);
    public_codec_free(codec);
}

static void read_file(const char *text, size_t size) {
    struct public_keys keys, again;
    struct error err = {.message = ""};

    if (public_keys_parse(text, size, &keys, &err) == STATUS_OK) {
        assert(keys.n >= 1 && keys.n <= PUBLIC_VERSION_MAX);
        assert(public_keys_parse(text, size, &again, &err) == STATUS_OK);
        assert(public_keys_equal(&keys, &again));
        both_ways(&keys, (int64_t)size);
    } else {
        assert(err.status == STATUS_INVALID && err.message[0]);
    }
}

/* What is read is written as it was, so it had the one spelling.  (What it decrypts to is chance.) */
static void read_id(const char *text, size_t size) {
    char canonical[PUBLIC_ID_CHARS + 1];
    struct id128 block;
    unsigned version;

    if (!public_id_read(text, size, &version, &block))
        return;
    assert(size == PUBLIC_ID_CHARS && version >= 1 && version <= PUBLIC_VERSION_MAX);
    public_id_format(version, &block, canonical);
    assert(memcmp(canonical, text, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = calloc(size ? size : 1, 1); /* exactly: what reads past its end is found */

    assert(text);
    if (size)
        memcpy(text, data, size);
    read_file(text, size);
    read_id(text, size);
    free(text);
    return 0;
}
