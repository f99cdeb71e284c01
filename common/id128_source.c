#include "common/id128_source.h"

#include <pthread.h>

#include "common/allocate.h"
#include "common/ulid.h"
#include "common/uuid.h"

struct generator {
    pthread_mutex_t lock; /* guards all that follows */
    struct random_pool *pool;
    uint64_t newest_ms; /* of UUIDv7 and ULID */
    union {
        struct uuid7 uuid7;
        struct ulid ulid;
    } state;
};

struct id128_source {
    struct generator generators[ID128_KINDS];
};

void id128_source_free(struct id128_source *source) {
    if (!source)
        return;
    for (int kind = 0; kind < ID128_KINDS; kind++) {
        random_pool_free(source->generators[kind].pool);
        pthread_mutex_destroy(&source->generators[kind].lock);
    }
    free(source);
}

struct id128_source *id128_source_new(random_source_fn *random, struct error *err) {
    struct id128_source *source = allocate(1, sizeof *source);

    for (int kind = 0; kind < ID128_KINDS; kind++)
        pthread_mutex_init(&source->generators[kind].lock, NULL);
    for (int kind = 0; kind < ID128_KINDS; kind++) {
        source->generators[kind].pool = random_pool_new(random, err);
        if (!source->generators[kind].pool) {
            id128_source_free(source);
            return NULL;
        }
    }
    return source;
}

static enum status next(struct generator *generator, enum id128_kind kind, uint64_t now_ms,
                        struct id128 *id, struct error *err) {
    unsigned char random[16];
    enum status status = random_pool_take(generator->pool, random, kind == ID128_UUIDV4 ? 16 : 10,
                                          err);

    if (status != STATUS_OK)
        return status;
    if (kind == ID128_UUIDV4) {
        *id = uuid_v4(random);
        return STATUS_OK;
    }
    status = kind == ID128_UUIDV7 ? uuid7_next(&generator->state.uuid7, now_ms, random, id)
                                  : ulid_next(&generator->state.ulid, now_ms, random, id);
    if (status == STATUS_OK)
        generator->newest_ms = id128_time_ms(id);
    return status;
}

enum status id128_source_take(struct id128_source *source, enum id128_kind kind, uint64_t now_ms,
                              struct id128 *ids, size_t want, size_t *have, struct error *err) {
    struct generator *generator = &source->generators[kind];
    enum status status = STATUS_OK;

    *have = 0;
    pthread_mutex_lock(&generator->lock);
    while (status == STATUS_OK && *have < want) {
        status = next(generator, kind, now_ms, &ids[*have], err);
        if (status == STATUS_OK)
            ++*have;
    }
    pthread_mutex_unlock(&generator->lock);
    return status;
}

uint64_t id128_source_ahead_ms(struct id128_source *source, enum id128_kind kind, uint64_t now_ms) {
    struct generator *generator = &source->generators[kind];
    uint64_t newest_ms;

    pthread_mutex_lock(&generator->lock);
    newest_ms = generator->newest_ms;
    pthread_mutex_unlock(&generator->lock);
    return newest_ms > now_ms ? newest_ms - now_ms : 0;
}
