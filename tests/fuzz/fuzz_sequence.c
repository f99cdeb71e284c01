/* fuzz_sequence.c - what a stranger may have put under seq/: whatever is read can be written, reads as the
 * same, and can be granted from, sharded and fenced without anything falling or passing the end. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/sequence.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW_MS UINT64_C(1767225600000)

static void check(const struct sequence *sequence, uint64_t top) {
    struct error err;

    assert(sequence_check(sequence, &err) == STATUS_OK);
    assert(sequence_top(sequence) >= top);
}

static void work_with(struct sequence sequence) {
    struct sequence_grant grant;
    uint64_t wait_ms = 0, top = sequence_top(&sequence);
    struct sequence fenced = sequence;

    if (sequence.serial > UINT64_C(1) << 62 || sequence.layout > UINT64_C(1) << 62)
        return; /* nobody counts that far */
    for (size_t shard = 0; shard < sequence.n_shards; shard++) {
        uint64_t left = sequence_left(&sequence, shard);

        if (sequence_grant(&sequence, shard, 1 + shard * 1000, NOW_MS, &grant, &wait_ms) ==
            STATUS_OK) {
            assert(grant.count > 0 && grant.count <= left);
            assert(grant.first + (grant.count - 1) * grant.step <= SEQUENCE_VALUE_MAX);
            assert(sequence_left(&sequence, shard) == left - grant.count);
        }
        check(&sequence, top);
    }
    if (sequence.mode == SEQUENCE_STRIDE) {
        sequence_reshard(&sequence, SEQUENCE_SHARDS_MAX, NOW_MS, &wait_ms);
        check(&sequence, top);
    }
    sequence_fence(&fenced, NOW_MS, top);
    check(&fenced, top);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    struct error err = {.message = ""};
    struct sequence first, second;
    char *written;

    if (sequence_name_check(text, size, &err) == STATUS_OK)
        assert(size >= 1 && size <= SEQUENCE_NAME_MAX && !memchr(text, '/', size));
    if (sequence_parse(text, size, &first, &err) != STATUS_OK) {
        assert(err.message[0]);
        return 0;
    }
    written = sequence_format(&first, NULL);
    assert(sequence_parse(written, strlen(written), &second, &err) == STATUS_OK);
    assert(memcmp(&first, &second, sizeof first) == 0);
    free(written);
    work_with(first);
    return 0;
}
