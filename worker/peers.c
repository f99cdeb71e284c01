#include "worker/peers.h"

#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/prober.h"
#include "common/random.h"
#include "common/records.h"

struct peers {
    struct peers_config config;
    bool asking; /* a round is under way */
    size_t outstanding;
    int64_t allowed_ns;
    struct peers_answer answer;
};

struct peers *peers_new(const struct peers_config *config) {
    struct peers *peers = allocate(1, sizeof *peers);

    peers->config = *config;
    return peers;
}

void peers_free(struct peers *peers) {
    free(peers);
}

static void finish(struct peers *peers) {
    peers->asking = false;
    peers->config.done(peers->config.arg, &peers->answer);
}

static void on_probed(void *arg, const struct clock_reading *reading) {
    struct peers *peers = arg;
    const struct skew us = {0, 0};

    peers->outstanding--;
    /* One that was stepped itself, and waits for others, is no witness. */
    if (reading->heard && !reading->wants_confirmation) {
        struct skew_distance distance = skew_between(&reading->skew, &us);

        peers->answer.agree += distance.at_most_ns <= peers->allowed_ns;
        peers->answer.differ += distance.at_least_ns > peers->allowed_ns;
    }
    if (peers->outstanding == 0)
        finish(peers);
}

/* Reads the HTTP address of a node record that is not ours. */
static bool read_address(const struct peers *peers, const struct etcd_kv *kv,
                         char address[static RECORD_ADDRESS_MAX]) {
    struct node node;
    struct error ignored;
    char own_key[KEY_MAX];

    keys_node(peers->config.keys, peers->config.instance, own_key);
    if (strcmp(kv->key, own_key) == 0)
        return false;
    address[0] = '\0';
    if (node_parse(kv->value, kv->value_len, &node, &ignored) == STATUS_OK)
        memcpy(address, node.addresses.http, RECORD_ADDRESS_MAX);
    return true;
}

static void ask_some(struct peers *peers, char (*addresses)[RECORD_ADDRESS_MAX], size_t n) {
    size_t asked = n < PEERS_ASKED_MAX ? n : PEERS_ASKED_MAX;

    peers->outstanding = asked;
    for (size_t i = 0; i < asked; i++) { /* a shuffle that stops early */
        size_t drawn = i + (size_t)(random_u64() % (n - i));
        char address[RECORD_ADDRESS_MAX];

        memcpy(address, addresses[drawn], sizeof address);
        memcpy(addresses[drawn], addresses[i], sizeof address);
        probe_clock(peers->config.client, peers->config.clock, address, peers->config.timeout_ms,
                    on_probed, peers);
    }
}

static void on_nodes(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct peers *peers = arg;
    char(*addresses)[RECORD_ADDRESS_MAX];
    size_t n = 0;

    if (err && err->status == STATUS_CANCELLED)
        return;
    if (err) {
        peers->answer.failure = err->message;
        finish(peers);
        return;
    }
    addresses = allocate(result->results[0].n_kvs, sizeof *addresses);
    for (size_t i = 0; i < result->results[0].n_kvs; i++)
        if (read_address(peers, &result->results[0].kvs[i], addresses[n])) {
            peers->answer.others++;
            n += addresses[n][0] != '\0';
        }
    if (n > 0)
        ask_some(peers, addresses, n);
    else
        finish(peers);
    free(addresses);
}

void peers_ask(struct peers *peers, uint64_t allowed_ms) {
    struct etcd_op read = {.kind = ETCD_RANGE,
                           .key = peers->config.keys->node,
                           .range_end = peers->config.keys->node_end};
    struct etcd_txn txn = {.then = &read, .n_then = 1};

    if (peers->asking)
        return;
    peers->asking = true;
    peers->allowed_ns = (int64_t)allowed_ms * 1000000;
    peers->answer = (struct peers_answer){.others = 0};
    peers->config.etcd.txn(peers->config.etcd.self, &txn, on_nodes, peers);
}
