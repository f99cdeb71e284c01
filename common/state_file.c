#include "common/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/allocate.h"

struct state_file {
    char *path;
    int fd;
    dev_t device;
    ino_t inode;
    uint64_t sequence; /* of the newest record, perhaps not wholly written */
    size_t last;       /* the block that is written last: valid as long as the other may not be */
};

static enum status system_error(const char *path, const char *what, struct error *err) {
    return error_set(err, STATUS_SYSTEM, "%.120s: %s: %s", path, what, strerror(errno));
}

/* ---- opening ---- */

/* Takes over fd. */
static struct state_file *wrap(const char *path, int fd) {
    struct state_file *file = allocate(1, sizeof *file);

    file->path = allocate_copy(path, strlen(path));
    file->fd = fd;
    return file;
}

static enum status identify(struct state_file *file, struct error *err) {
    struct stat found;

    if (fstat(file->fd, &found) != 0)
        return system_error(file->path, "state", err);
    if (!S_ISREG(found.st_mode))
        return error_set(err, STATUS_INVALID, "%.120s: not a regular file", file->path);
    file->device = found.st_dev;
    file->inode = found.st_ino;
    if (flock(file->fd, LOCK_EX | LOCK_NB) == 0)
        return STATUS_OK;
    if (errno != EWOULDBLOCK)
        return system_error(file->path, "lock", err);
    return error_set(
        err, STATUS_UNAVAILABLE,
        "%.120s: another process has it open: each worker needs a state file of its own",
        file->path);
}

/* Both blocks get their place now, so that a full disk does not stop a later write. */
static enum status preallocate(struct state_file *file, struct error *err) {
    int code;

    do
        code = posix_fallocate(file->fd, 0, STATE_FILE_BYTES);
    while (code == EINTR);
    if (code == 0 && fsync(file->fd) != 0)
        code = errno;
    if (code != 0)
        return error_set(err, STATUS_SYSTEM, "%.120s: cannot be given %u bytes: %s", file->path,
                         STATE_FILE_BYTES, strerror(code));
    return STATUS_OK;
}

/* A file that was just made is there after a crash only when its folder says so. */
static enum status sync_folder(const char *path, struct error *err) {
    const char *slash = strrchr(path, '/');
    char *folder = slash ? allocate_copy(path, slash == path ? 1 : (size_t)(slash - path))
                         : allocate_copy(".", 1);
    enum status status = STATUS_OK;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || fsync(fd) != 0)
        status = system_error(folder, "sync folder", err);
    if (fd >= 0)
        close(fd);
    free(folder);
    return status;
}

enum status state_file_create(const char *path, struct state_record *record,
                              struct state_file **file, struct error *err) {
    struct state_file *made;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_DSYNC | O_CLOEXEC, 0600);

    if (fd < 0 && errno == EEXIST)
        return error_set(err, STATUS_EXISTS, "%.120s: exists already", path);
    if (fd < 0)
        return system_error(path, "create", err);
    made = wrap(path, fd);
    if (identify(made, err) != STATUS_OK)
        goto failed; /* and leave it: who has locked it uses it */
    if (preallocate(made, err) != STATUS_OK || state_file_write(made, record, err) != STATUS_OK ||
        sync_folder(path, err) != STATUS_OK) {
        unlink(path);
        goto failed;
    }
    *file = made;
    return STATUS_OK;
failed:
    state_file_close(made);
    return err->status;
}

/* Reads up to size bytes from the file's beginning. */
static enum status read_blocks(struct state_file *file, unsigned char *bytes, size_t size,
                               size_t *len, struct error *err) {
    *len = 0;
    while (*len < size) {
        ssize_t n = pread(file->fd, bytes + *len, size - *len, (off_t)*len);

        if (n == 0)
            break;
        if (n < 0 && errno != EINTR)
            return system_error(file->path, "read", err);
        if (n > 0)
            *len += (size_t)n;
    }
    return STATUS_OK;
}

enum status state_file_open(const char *path, struct state_file **file, struct state_record *record,
                            struct error *err) {
    unsigned char bytes[STATE_FILE_BYTES];
    struct state_file *opened;
    size_t len, chosen;
    int fd = open(path, O_RDWR | O_DSYNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0 && errno == ENOENT)
        return error_set(err, STATUS_NOT_FOUND, "%.120s: there is no such file", path);
    if (fd < 0)
        return system_error(path, "open", err);
    opened = wrap(path, fd);
    if (identify(opened, err) != STATUS_OK ||
        read_blocks(opened, bytes, sizeof bytes, &len, err) != STATUS_OK)
        goto failed;
    if (state_record_choose(bytes, len, record, &chosen, err) != STATUS_OK) {
        error_context(err, "%.120s", path);
        goto failed;
    }
    if (len < sizeof bytes && preallocate(opened, err) != STATUS_OK)
        goto failed;
    opened->sequence = record->sequence;
    opened->last = chosen;
    *file = opened;
    return STATUS_OK;
failed:
    state_file_close(opened);
    return err->status;
}

/* ---- writing ---- */

static enum status check_path(const struct state_file *file, struct error *err) {
    struct stat found;

    if (stat(file->path, &found) != 0)
        return error_set(err, STATUS_REFUSED, "%.120s: the file in use is not there any more: %s",
                         file->path, strerror(errno));
    if (found.st_dev != file->device || found.st_ino != file->inode)
        return error_set(err, STATUS_REFUSED,
                         "%.120s: another file has been put in the place of the one in use",
                         file->path);
    return STATUS_OK;
}

static enum status write_block(const struct state_file *file, const unsigned char *bytes,
                               size_t index, struct error *err) {
    ssize_t n = pwrite(file->fd, bytes, STATE_RECORD_BYTES, (off_t)(index * STATE_RECORD_BYTES));

    if (n < 0)
        return system_error(file->path, "write", err);
    if (n != STATE_RECORD_BYTES)
        return error_set(err, STATUS_SYSTEM, "%.120s: only %zd of %u bytes were written",
                         file->path, n, STATE_RECORD_BYTES);
    return STATUS_OK;
}

enum status state_file_write(struct state_file *file, struct state_record *record,
                             struct error *err) {
    unsigned char bytes[STATE_RECORD_BYTES];

    if (check_path(file, err) != STATUS_OK)
        return err->status;
    if (file->sequence == STATE_SEQUENCE_MAX)
        return error_set(err, STATUS_REFUSED, "%.120s: no sequence number is left", file->path);
    /* A number of its own for every try: two records of one sequence are equal. */
    record->sequence = ++file->sequence;
    state_record_encode(record, bytes);
    if (write_block(file, bytes, 1 - file->last, err) != STATUS_OK ||
        write_block(file, bytes, file->last, err) != STATUS_OK)
        return err->status;
    return STATUS_OK;
}

const char *state_file_path(const struct state_file *file) {
    return file->path;
}

void state_file_close(struct state_file *file) {
    if (!file)
        return;
    close(file->fd);
    free(file->path);
    free(file);
}

/* ---- the host ---- */

/* The first line of a small file; false when it is not 128 bits in hex. */
static bool read_machine_id(const char *path, char out[static HEX128_CHARS + 1]) {
    char line[HEX128_CHARS + 2] = "";
    FILE *file = fopen(path, "re");

    if (!file)
        return false;
    if (!fgets(line, sizeof line, file))
        line[0] = '\0';
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    memcpy(out, line, HEX128_CHARS + 1);
    return hex128_valid(line);
}

enum status state_host(const char *machine_id_file, char out[static STATE_HOST_MAX + 1],
                       struct error *err) {
    char id[HEX128_CHARS + 1], name[STATE_HOST_MAX - sizeof "hostname:" + 2];

    if (read_machine_id(machine_id_file, id)) {
        snprintf(out, STATE_HOST_MAX + 1, "machine-id:%s", id);
        return STATUS_OK;
    }
    if (gethostname(name, sizeof name) != 0)
        return error_set(err, STATUS_SYSTEM, "host name: %s", strerror(errno));
    name[sizeof name - 1] = '\0';
    for (char *at = name; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    snprintf(out, STATE_HOST_MAX + 1, "hostname:%s", name);
    return STATUS_OK;
}
