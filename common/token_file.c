#include "common/token_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/log.h"
#include "common/secret_file.h"

struct token_file {
    struct secret_file *file;
    struct tokens tokens;
    char header[TOKEN_MAX_CHARS + 32];
};

static enum status take(void *arg, const char *text, size_t len, bool *changed, struct error *err) {
    struct token_file *file = arg;
    char first[TOKEN_MAX_CHARS + 1];
    struct tokens tokens;
    enum status status = tokens_parse(text, len, &tokens, first, err);

    if (status == STATUS_OK) {
        *changed = !tokens_equal(&tokens, &file->tokens);
        file->tokens = tokens;
        snprintf(file->header, sizeof file->header, "Authorization: Bearer %s", first);
    }
    explicit_bzero(first, sizeof first);
    return status;
}

enum status token_file_open(const char *name, struct token_file **file, struct error *err) {
    struct token_file *made = allocate(1, sizeof *made);
    const struct secret_file_config config = {
        .name = name, .subject = "tokens", .take = take, .arg = made};

    if (secret_file_open(&config, &made->file, err) != STATUS_OK) {
        token_file_close(made);
        return err->status;
    }
    *file = made;
    return STATUS_OK;
}

void token_file_close(struct token_file *file) {
    if (!file)
        return;
    secret_file_close(file->file);
    explicit_bzero(file, sizeof *file);
    free(file);
}

bool token_file_look(struct token_file *file, uint64_t boot_ms) {
    if (!secret_file_look(file->file, boot_ms))
        return false;
    log_info("tokens", "changed", LOG_STR("file", secret_file_name(file->file)),
             LOG_INT("tokens", file->tokens.n));
    return true;
}

const struct tokens *token_file_tokens(const struct token_file *file) {
    return &file->tokens;
}

const char *token_file_header(const struct token_file *file) {
    return file->header;
}
