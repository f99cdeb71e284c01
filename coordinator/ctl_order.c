#include "coordinator/ctl_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/quote.h"

#define ATTEMPTS 20u /* against others who write too */
#define NAMED_MAX 5u /* of several that share an identity */

static const struct member *find_instance(const struct cluster *cluster, const char *instance) {
    for (size_t i = 0; i < cluster->n_members; i++) {
        if (cluster->members[i]->has_node && strcmp(cluster->members[i]->instance, instance) == 0)
            return cluster->members[i];
    }
    return NULL;
}

const struct member *ctl_find_worker(const struct ctl_session *session, const char *name,
                                     struct error *err) {
    const struct cluster *cluster = session->cluster;
    const struct member *found = find_instance(cluster, name);
    char quoted[QUOTE_SIZE], instances[NAMED_MAX * (HEX128_CHARS + 2) + 1] = "";
    size_t n = 0, len = 0;

    if (found)
        return found;
    for (size_t i = 0; i < cluster->n_members; i++) {
        const struct member *member = cluster->members[i];

        if (!member->has_node || !member->node_read || strcmp(member->node.identity, name) != 0)
            continue;
        if (n < NAMED_MAX)
            len += (size_t)snprintf(instances + len, sizeof instances - len, "%s%s",
                                    n > 0 ? ", " : "", member->instance);
        found = member;
        n++;
    }
    if (n == 1)
        return found;
    quote(name, strlen(name), quoted);
    if (n == 0)
        error_set(err, STATUS_NOT_FOUND, "no worker has the identity or instance %s", quoted);
    else
        error_set(err, STATUS_REFUSED, "%zu workers are called %s; name one by its instance: %s%s",
                  n, quoted, instances, n > NAMED_MAX ? ", ..." : "");
    return NULL;
}

static void take_outcome(void *arg, const struct etcd_txn_result *result) {
    *(bool *)arg = result->succeeded;
}

static enum status write_order(struct ctl_session *session, const struct member *member,
                               const char *text, bool *written, struct error *err) {
    char key[KEY_MAX];
    const struct etcd_compare compare = {.kind = member->assign_value ? ETCD_VALUE_EQUAL
                                                                      : ETCD_ABSENT,
                                         .key = key,
                                         .value = member->assign_value};
    const struct etcd_op put = {
        .kind = ETCD_PUT, .key = key, .value = text, .lease = member->lease};
    const struct etcd_op read = {.kind = ETCD_RANGE, .key = key};

    keys_assign(&session->keys, member->instance, key);
    *written = false;
    return ctl_txn(session,
                   &(struct etcd_txn){.compares = &compare,
                                      .n_compares = 1,
                                      .then = &put,
                                      .n_then = 1,
                                      .otherwise = &read,
                                      .n_otherwise = 1},
                   take_outcome, written, err);
}

enum status ctl_order(struct ctl_session *session, const char *instance, ctl_order_fn *add,
                      void *arg, enum ctl_ordered *ordered, struct error *err) {
    bool written = false, unknown = false;

    for (unsigned i = 0; i < ATTEMPTS; i++) {
        const struct member *member;
        struct assign assign;
        enum status status;
        char *text;

        if (ctl_read(session, err) != STATUS_OK)
            return err->status;
        member = find_instance(session->cluster, instance);
        if (!member || member->lease == 0) {
            *ordered = CTL_ORDERED_NOBODY;
            return STATUS_OK;
        }
        assign = member->assign;
        if (!add(arg, &assign)) {
            *ordered = unknown ? CTL_ORDERED : CTL_ORDERED_BEFORE;
            return STATUS_OK;
        }
        text = assign_format(&assign, member->assign_value);
        status = write_order(session, member, text, &written, err);
        free(text);
        if (status == STATUS_NOT_FOUND) {
            *ordered = CTL_ORDERED_NOBODY; /* the lease ended just now */
            return STATUS_OK;
        }
        if (status != STATUS_OK && status != STATUS_UNKNOWN)
            return status;
        if (written) {
            *ordered = CTL_ORDERED;
            return STATUS_OK;
        }
        unknown = unknown || status == STATUS_UNKNOWN;
    }
    return error_set(err, STATUS_UNAVAILABLE,
                     "not written after %u rounds: others write too, or etcd does not answer",
                     ATTEMPTS);
}
