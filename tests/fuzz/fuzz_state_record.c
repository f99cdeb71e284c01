/* fuzz_state_record.c - what a state file may hold: torn, rotten, or written by a stranger.  Whatever
 * is read is written as the very bytes that it was read from. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/state_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CRC_AT (STATE_RECORD_BYTES - 4)

static void read_and_write_again(const unsigned char *bytes, size_t len) {
    struct state_record record;
    struct error err = {.message = ""};
    unsigned char again[STATE_RECORD_BYTES];
    enum status status = state_record_decode(bytes, len, &record, &err);

    if (status != STATUS_OK) {
        assert((status == STATUS_PROTOCOL || status == STATUS_REFUSED) && status == err.status);
        assert(err.message[0] != '\0');
        return;
    }
    state_record_encode(&record, again);
    assert(memcmp(again, bytes, sizeof again) == 0);
}

/* The input as a block's beginning, with a checksum that is right: no accident makes one. */
static void sealed(const uint8_t *data, size_t size) {
    unsigned char block[STATE_RECORD_BYTES] = {0};
    uint32_t crc;

    if (size)
        memcpy(block, data, size < CRC_AT ? size : CRC_AT);
    crc = (uint32_t)crc32(crc32(0, NULL, 0), block, CRC_AT);
    for (size_t i = 0; i < 4; i++)
        block[CRC_AT + i] = (unsigned char)(crc >> 8 * i);
    read_and_write_again(block, sizeof block);
}

static void whole_file(const uint8_t *data, size_t size) {
    struct state_record record, other;
    struct error err = {.message = ""};
    size_t index = 9;

    if (state_record_choose(data, size, &record, &index, &err) != STATUS_OK) {
        assert(err.message[0] != '\0');
        return;
    }
    assert(index < STATE_RECORDS && (index + 1) * STATE_RECORD_BYTES <= size);
    if (size >= STATE_FILE_BYTES &&
        state_record_decode(data + (1 - index) * STATE_RECORD_BYTES, STATE_RECORD_BYTES, &other,
                            &err) == STATUS_OK)
        assert(other.sequence <= record.sequence);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read_and_write_again(data, size);
    sealed(data, size);
    whole_file(data, size);
    return 0;
}
