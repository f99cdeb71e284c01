#include "worker/worker_internal.h"

#include "common/allocate.h"

enum status worker_open_tokens(struct worker *worker, struct error *err) {
    const char *name = worker->config->client_token_file;

    if (!name || token_file_open(name, &worker->tokens, err) == STATUS_OK)
        return STATUS_OK;
    return error_context(err, "--client-token-file");
}

void worker_look_at_tokens(struct worker *worker, struct instant now) {
    if (!worker->tokens || !token_file_look(worker->tokens, now.boot_ms))
        return;
    worker_authorize_peers(worker);
    for (size_t i = 0; i < worker->n_slots; i++) {
        struct serving_order order = {.kind = SERVING_TOKENS,
                                      .tokens = allocate(1, sizeof *order.tokens)};

        *order.tokens = *token_file_tokens(worker->tokens);
        serving_order(worker->slots[i].serving, &order);
    }
}
