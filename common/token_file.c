#include "common/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/allocate.h"
#include "common/log.h"

#define LOOK_MS 1000u
#define FILE_MAX_BYTES (64u * 1024u)

struct token_file {
    char *name;
    struct tokens tokens;
    char header[TOKEN_MAX_CHARS + 32];
    uint64_t next_look_boot_ms;
    struct log_repeat trouble;
};

/* All of it into text[FILE_MAX_BYTES + 1]. */
static enum status read_all(int fd, char *text, size_t *len, struct error *err) {
    *len = 0;
    for (;;) {
        ssize_t n = read(fd, text + *len, FILE_MAX_BYTES + 1 - *len);

        if (n < 0)
            return error_set(err, STATUS_SYSTEM, "%s", strerror(errno));
        *len += (size_t)n;
        if (*len > FILE_MAX_BYTES)
            return error_set(err, STATUS_INVALID, "it is larger than %u bytes", FILE_MAX_BYTES);
        if (n == 0)
            return STATUS_OK;
    }
}

static enum status read_text(const char *name, char *text, size_t *len, struct error *err) {
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us up */
    struct stat about;
    enum status status;

    if (fd < 0)
        return error_set(err, STATUS_SYSTEM, "%s", strerror(errno));
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        status = error_set(err, STATUS_INVALID, "it is not a file");
    else
        status = read_all(fd, text, len, err);
    close(fd);
    return status;
}

static enum status read_tokens(const char *name, struct tokens *tokens,
                               char first[static TOKEN_MAX_CHARS + 1], struct error *err) {
    char *text = allocate(FILE_MAX_BYTES + 1, 1);
    size_t len = 0;
    enum status status = read_text(name, text, &len, err);

    if (status == STATUS_OK)
        status = tokens_parse(text, len, tokens, first, err);
    explicit_bzero(text, len);
    free(text);
    return status == STATUS_OK ? status : error_context(err, "%.150s", name);
}

static void take(struct token_file *file, const struct tokens *tokens, const char *first) {
    file->tokens = *tokens;
    snprintf(file->header, sizeof file->header, "Authorization: Bearer %s", first);
}

enum status token_file_open(const char *name, struct token_file **file, struct error *err) {
    struct tokens tokens;
    char first[TOKEN_MAX_CHARS + 1];
    struct token_file *made;

    if (read_tokens(name, &tokens, first, err) != STATUS_OK)
        return err->status;
    made = allocate(1, sizeof *made);
    made->name = allocate_copy(name, strlen(name));
    take(made, &tokens, first);
    *file = made;
    return STATUS_OK;
}

void token_file_close(struct token_file *file) {
    if (!file)
        return;
    free(file->name);
    explicit_bzero(file, sizeof *file);
    free(file);
}

bool token_file_look(struct token_file *file, uint64_t boot_ms) {
    struct tokens tokens;
    char first[TOKEN_MAX_CHARS + 1];
    struct error err;

    if (boot_ms < file->next_look_boot_ms)
        return false;
    file->next_look_boot_ms = boot_ms + LOOK_MS;
    if (read_tokens(file->name, &tokens, first, &err) != STATUS_OK) {
        log_repeat_failed(&file->trouble, boot_ms, "tokens",
                          "the file cannot be used, the tokens read last stay", err.message);
        return false;
    }
    log_repeat_ended(&file->trouble, boot_ms, "tokens", "the file can be used again");
    if (tokens_equal(&tokens, &file->tokens))
        return false;
    take(file, &tokens, first);
    log_info("tokens", "changed", LOG_STR("file", file->name), LOG_INT("tokens", tokens.n));
    return true;
}

const struct tokens *token_file_tokens(const struct token_file *file) {
    return &file->tokens;
}

const char *token_file_header(const struct token_file *file) {
    return file->header;
}
