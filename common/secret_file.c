#include "common/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/allocate.h"
#include "common/log.h"

#define LOOK_MS 1000u
#define FILE_MAX_BYTES (64u * 1024u)
#define FORBIDDEN_MODE (S_IWGRP | S_IRWXO)

struct secret_file {
    struct secret_file_config config;
    char *name;
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

enum status secret_file_check(int fd, struct stat *about, struct error *err) {
    if (fstat(fd, about) != 0 || !S_ISREG(about->st_mode))
        return error_set(err, STATUS_INVALID, "it is not a file");
    if (about->st_mode & FORBIDDEN_MODE)
        return error_set(err, STATUS_INVALID,
                         "its mode is %04o, and must be 0640 or stricter: it holds secrets",
                         (unsigned)about->st_mode & 0777);
    return STATUS_OK;
}

static enum status read_text(const struct secret_file *file, char *text, size_t *len,
                             struct error *err) {
    int fd = open(file->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us up */
    struct stat about;
    enum status status;

    if (fd < 0)
        return error_set(err, STATUS_SYSTEM, "%s", strerror(errno));
    status = secret_file_check(fd, &about, err);
    if (status == STATUS_OK)
        status = read_all(fd, text, len, err);
    close(fd);
    return status;
}

static enum status read_file(const struct secret_file *file, bool *changed, struct error *err) {
    char *text = allocate(FILE_MAX_BYTES + 1, 1);
    size_t len = 0;
    enum status status = read_text(file, text, &len, err);

    *changed = true;
    if (status == STATUS_OK)
        status = file->config.take(file->config.arg, text, len, changed, err);
    explicit_bzero(text, len);
    free(text);
    return status == STATUS_OK ? status : error_context(err, "%.150s", file->name);
}

enum status secret_file_open(const struct secret_file_config *config, struct secret_file **file,
                             struct error *err) {
    struct secret_file *made = allocate(1, sizeof *made);
    bool changed;

    made->config = *config;
    made->name = allocate_copy(config->name, strlen(config->name));
    if (read_file(made, &changed, err) != STATUS_OK) {
        secret_file_close(made);
        return err->status;
    }
    *file = made;
    return STATUS_OK;
}

void secret_file_close(struct secret_file *file) {
    if (!file)
        return;
    free(file->name);
    free(file);
}

const char *secret_file_name(const struct secret_file *file) {
    return file->name;
}

bool secret_file_look(struct secret_file *file, uint64_t boot_ms) {
    struct error err;
    bool changed;

    if (boot_ms < file->next_look_boot_ms)
        return false;
    file->next_look_boot_ms = boot_ms + LOOK_MS;
    if (read_file(file, &changed, &err) != STATUS_OK) {
        log_repeat_failed(&file->trouble, boot_ms, file->config.subject,
                          "the file cannot be used, what was read last stays", err.message);
        return false;
    }
    log_repeat_ended(&file->trouble, boot_ms, file->config.subject, "the file can be used again");
    return changed;
}
