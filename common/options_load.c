#include "common/options_load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/allocate.h"

/* Reads all of fd into text[size], until its end or until size bytes are there. */
static ssize_t read_all(int fd, char *text, size_t size) {
    size_t len = 0;

    while (len < size) {
        ssize_t got = read(fd, text + len, size - len);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        len += (size_t)got;
    }
    return (ssize_t)len;
}

/* *text is the caller's to free. */
static enum status read_file(const char *path, char **text, size_t *len, struct error *err) {
    const size_t size = OPTIONS_FILE_MAX_BYTES + 1; /* one more, to notice what is too long */
    enum status status = STATUS_OK;
    char *buffer = NULL;
    struct stat file;
    ssize_t got;
    /* Without O_NONBLOCK the open of a FIFO would wait for its writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd < 0)
        return error_set(err, STATUS_SYSTEM, "%s", strerror(errno));
    if (fstat(fd, &file) < 0) {
        status = error_set(err, STATUS_SYSTEM, "%s", strerror(errno));
        goto out;
    }
    if (!S_ISREG(file.st_mode)) {
        status = error_set(err, STATUS_INVALID, "not a regular file");
        goto out;
    }
    buffer = allocate(size, 1);
    got = read_all(fd, buffer, size);
    if (got < 0) {
        status = error_set(err, STATUS_SYSTEM, "%s", strerror(errno));
        goto out;
    }
    if ((size_t)got == size) {
        status = error_set(err, STATUS_INVALID, "longer than %d bytes", OPTIONS_FILE_MAX_BYTES);
        goto out;
    }
    *text = buffer;
    *len = (size_t)got;
    buffer = NULL; /* handed over */
out:
    free(buffer);
    close(fd);
    return status;
}

enum status options_load(const struct option_set *set, int argc, char **argv, char *const *envp,
                         void *values, struct options_result *result, struct error *err) {
    const char *label;
    const char *path = options_find_config(argc, argv, envp, &label);
    struct options_file file = {.name = path};
    enum status status;
    char *text = NULL;

    if (path && read_file(path, &text, &file.len, err) != STATUS_OK)
        return error_context(err, "%s=%s", label, path);
    file.text = text;
    status = options_parse(set, argc, argv, envp, path ? &file : NULL, values, result, err);
    free(text);
    return status;
}
