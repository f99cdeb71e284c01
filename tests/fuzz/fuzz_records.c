/* fuzz_records.c - what a stranger may have put under our keys: records, horizons, ceilings and
 * the keys themselves.  Whatever is read can be written, and then reads as the same. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/keys.h"
#include "common/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of each kind: reads, writes (over the foreign text, where that is done), reads that, writes again. */
#define READ_AND_WRITE_AGAIN(kind, ...)                                                            \
    static void kind##_again(const char *text, size_t len, const char *before) {                   \
        struct kind first, second;                                                                 \
        struct error err = {.message = ""};                                                        \
        char *written, *again;                                                                     \
        enum status status = kind##_parse(text, len, &first, &err);                                \
                                                                                                   \
        (void)before;                                                                              \
        if (status != STATUS_OK) {                                                                 \
            assert(status == err.status && err.message[0] != '\0');                                \
            return;                                                                                \
        }                                                                                          \
        written = kind##_format(&first __VA_ARGS__);                                               \
        status = kind##_parse(written, strlen(written), &second, &err);                            \
        assert(status == STATUS_OK);                                                               \
        again = kind##_format(&second __VA_ARGS__);                                                \
        assert(strcmp(written, again) == 0);                                                       \
        free(written);                                                                             \
        free(again);                                                                               \
    }
READ_AND_WRITE_AGAIN(meta, , before)
READ_AND_WRITE_AGAIN(own)
READ_AND_WRITE_AGAIN(node)
READ_AND_WRITE_AGAIN(assign, , before)
READ_AND_WRITE_AGAIN(leader)

static void values_again(const char *text, size_t len) {
    char written[HORIZON_TEXT_MAX];
    struct horizon horizon;
    uint64_t ceiling_ms;

    if (horizon_parse(text, len, &horizon)) {
        horizon_format(&horizon, written);
        assert(strlen(written) == len && memcmp(written, text, len) == 0);
    }
    if (ceiling_parse(text, len, &ceiling_ms)) {
        ceiling_format(ceiling_ms, written);
        assert(strlen(written) == len && memcmp(written, text, len) == 0);
    }
}

static void names_again(const char *text) {
    struct keys keys;
    struct error err;
    char key[KEY_MAX];
    uint16_t machine_id;

    if (keys_init(&keys, text, &err) == STATUS_OK)
        assert(strlen(keys.assign) == strlen("/snowfleet//assign/") + strlen(text));
    if (keys_init(&keys, "default", &err) != STATUS_OK)
        abort();
    if (keys_machine_id(keys.hor, text, &machine_id)) {
        keys_hor(&keys, machine_id, key);
        assert(strcmp(key, text) == 0);
    }
    if (keys_instance(keys.node, text)) {
        keys_node(&keys, keys_instance(keys.node, text), key);
        assert(strcmp(key, text) == 0);
    }
}

static void checks(const char *text, size_t len) {
    uint16_t first, last;
    struct error err;

    if (identity_check(text, &err) == STATUS_OK)
        assert(len <= RECORD_IDENTITY_MAX);
    if (address_check(text, &err) == STATUS_OK)
        assert(len < RECORD_ADDRESS_MAX);
    if (machine_id_range_parse(text, len, &first, &last, &err) == STATUS_OK)
        assert(first <= last && last < MACHINE_IDS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *bytes = (const char *)data;
    char *text = malloc(size + 1); /* the same, for those that want a NUL */

    if (!text)
        abort();
    if (size)
        memcpy(text, bytes, size);
    text[size] = '\0';
    meta_again(bytes, size, text);
    own_again(bytes, size, text);
    node_again(bytes, size, text);
    assign_again(bytes, size, text);
    leader_again(bytes, size, text);
    values_again(bytes, size);
    names_again(text);
    checks(text, strlen(text));
    free(text);
    return 0;
}
