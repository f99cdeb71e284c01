#include "common/public_key_file.h"

#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/log.h"
#include "common/secret_file.h"

struct public_key_file {
    struct secret_file *file;
    struct public_keys keys;
};

static enum status take(void *arg, const char *text, size_t len, bool *changed, struct error *err) {
    struct public_key_file *file = arg;
    struct public_keys keys;
    enum status status = public_keys_parse(text, len, &keys, err);

    if (status == STATUS_OK) {
        *changed = !public_keys_equal(&keys, &file->keys);
        file->keys = keys;
    }
    explicit_bzero(&keys, sizeof keys);
    return status;
}

enum status public_key_file_open(const char *name, struct public_key_file **file,
                                 struct error *err) {
    struct public_key_file *made = allocate(1, sizeof *made);
    const struct secret_file_config config = {
        .name = name, .subject = "public keys", .take = take, .arg = made};

    if (secret_file_open(&config, &made->file, err) != STATUS_OK) {
        public_key_file_close(made);
        return err->status;
    }
    *file = made;
    return STATUS_OK;
}

void public_key_file_close(struct public_key_file *file) {
    if (!file)
        return;
    secret_file_close(file->file);
    explicit_bzero(file, sizeof *file);
    free(file);
}

bool public_key_file_look(struct public_key_file *file, uint64_t boot_ms) {
    char fingerprint[PUBLIC_FINGERPRINT_CHARS + 1];

    if (!secret_file_look(file->file, boot_ms))
        return false;
    public_keys_fingerprint(&file->keys, fingerprint);
    log_info("public keys", "changed", LOG_STR("file", secret_file_name(file->file)),
             LOG_INT("keys", file->keys.n), LOG_INT("encodes", file->keys.keys[0].version),
             LOG_STR("fingerprint", fingerprint));
    return true;
}

const struct public_keys *public_key_file_keys(const struct public_key_file *file) {
    return &file->keys;
}
