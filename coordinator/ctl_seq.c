#include "coordinator/ctl_seq.h"

static void take_outcome(void *arg, const struct etcd_txn_result *result) {
    *(bool *)arg = result->succeeded;
}

enum status ctl_seq_write(struct ctl_session *session, const struct ctl_seq_change *change,
                          bool *written, struct error *err) {
    const struct keys *keys = &session->keys;
    char key[KEY_MAX];
    const struct etcd_compare compares[] = {
        {.kind = ETCD_VALUE_EQUAL, .key = keys->meta, .value = change->meta},
        {.kind = change->before ? ETCD_VALUE_EQUAL : ETCD_ABSENT,
         .key = key,
         .value = change->before},
        {.kind = ETCD_NONE_SINCE,
         .key = keys->seq,
         .range_end = keys->seq_end,
         .revision = change->revision},
    };
    const struct etcd_op put = {.kind = ETCD_PUT, .key = key, .value = change->after};
    const struct etcd_op look = {.kind = ETCD_RANGE, .key = key};

    keys_seq(keys, change->name, key);
    return ctl_txn(session,
                   &(struct etcd_txn){.compares = compares,
                                      .n_compares = change->before ? 2 : 3,
                                      .then = &put,
                                      .n_then = 1,
                                      .otherwise = &look,
                                      .n_otherwise = 1},
                   take_outcome, written, err);
}
