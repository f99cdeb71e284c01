/* fuzz_replies.c - what workers and coordinators may answer to the coordinator and the tool.  Whatever
 * clocks say can be reckoned with. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/keys.h"
#include "coordinator/consensus.h"
#include "common/replies.h"

#define CLAIM "0123456789abcdef0123456789abcdef"
#define NOW_NS INT64_C(1764547200000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void visible(const char *text, size_t size) {
    size_t len = strnlen(text, size);

    assert(len < size);
    for (size_t i = 0; i < len; i++)
        assert((unsigned char)text[i] >= ' ');
}

/* One clock like ours, one like theirs, and theirs heard over a slow path. */
static void reckon(const struct clock_reply *reply) {
    const struct skew_sample samples[] = {
        {NOW_NS, reply->receive_ns, reply->transmit_ns, NOW_NS + 1000000},
        {NOW_NS, reply->receive_ns, reply->transmit_ns, NOW_NS + 3000000000},
    };
    struct skew clocks[3] = {{0, 0}};
    struct consensus consensus;
    struct skew offset;

    if (!skew_of_sample(&samples[0], &clocks[1]) || !skew_best(samples, 2, &clocks[2]))
        return;
    assert(clocks[1].bound_ns >= 0 && clocks[2].bound_ns <= clocks[1].bound_ns);
    consensus = consensus_find(clocks, 3, 500000000);
    if (consensus.found) {
        const struct skew_facts facts = {
            .heard = true,
            .has_offset = true,
            .skew = consensus_offset(&consensus, &clocks[1]),
            .synchronized = reply->synchronized,
            .claimed_error_ns = reply->max_error_ns,
        };

        skew_judge(&facts);
        offset = consensus_offset(&consensus, &clocks[0]);
        assert(offset.bound_ns >= 0);
        consensus_refuses(&consensus, &clocks[1], 500000000);
    }
    skew_judge_distance(skew_fleet(clocks, 3));
}

static void read_clock(const char *text, size_t len) {
    struct clock_reply reply;
    struct error err = {.message = ""};

    if (clock_reply_parse(text, len, &reply, &err) != STATUS_OK) {
        assert(err.message[0]);
        visible(err.message, sizeof err.message);
        return;
    }
    assert(reply.receive_ns >= 0 && reply.transmit_ns >= 0 && reply.boot_ns >= 0 &&
           reply.max_error_ns >= 0);
    reckon(&reply);
}

static void count_id(void *arg, const char *id) {
    assert(id[0]);
    visible(id, 64);
    ++*(size_t *)arg;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    struct error err = {.message = ""};
    size_t ids = 0;
    bool claims = false;
    char message[500];

    read_clock(text, size);
    if (ids_reply_parse(text, size, count_id, &ids, &err) != STATUS_OK)
        assert(ids == 0 && err.message[0]);
    if (status_reply_claims(text, size, CLAIM, &claims, &err) != STATUS_OK)
        assert(!claims);
    if (claims)
        assert(size > strlen(CLAIM));
    error_reply_text(502, text, size, message, sizeof message);
    visible(message, sizeof message);
    return 0;
}
