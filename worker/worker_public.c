#include "worker/worker_internal.h"

enum status worker_open_public_keys(struct worker *worker, struct error *err) {
    const char *name = worker->config->public_key_file;

    if (!name || public_key_file_open(name, &worker->public_keys, err) == STATUS_OK)
        return STATUS_OK;
    return error_context(err, "--public-key-file");
}

enum status worker_public_codec(const struct worker *worker, struct public_codec **codec,
                                struct error *err) {
    *codec = NULL;
    if (!worker->public_keys)
        return STATUS_OK;
    *codec = public_codec_new(public_key_file_keys(worker->public_keys), err);
    return *codec ? STATUS_OK : err->status;
}

void worker_look_at_public_keys(struct worker *worker, struct instant now) {
    if (!worker->public_keys || !public_key_file_look(worker->public_keys, now.boot_ms))
        return;
    for (size_t i = 0; i < worker->n_slots; i++) {
        struct serving_order order = {.kind = SERVING_CODEC};
        struct error err;

        if (worker_public_codec(worker, &order.codec, &err) == STATUS_OK)
            serving_order(worker->slots[i].serving, &order);
        else
            log_error("public keys", "the keys cannot be used", LOG_STR("reason", err.message));
    }
}

unsigned worker_public_fingerprint(const struct worker *worker,
                                   char fingerprint[static PUBLIC_FINGERPRINT_CHARS + 1]) {
    fingerprint[0] = '\0';
    if (!worker->public_keys)
        return 0;
    public_keys_fingerprint(public_key_file_keys(worker->public_keys), fingerprint);
    return public_key_file_keys(worker->public_keys)->keys[0].version;
}
