#include "common/unix_listen.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Removes a socket on which nobody answers. */
static enum status clear(const struct sockaddr_un *name, struct error *err) {
    struct stat about;
    int fd, code;

    if (lstat(name->sun_path, &about) != 0)
        return STATUS_OK; /* bind() will say what is wrong, if anything is */
    if (!S_ISSOCK(about.st_mode))
        return error_set(err, STATUS_INVALID, "%s: exists and is no socket", name->sun_path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set(err, STATUS_SYSTEM, "socket: %s", strerror(errno));
    code = connect(fd, (const struct sockaddr *)name, sizeof *name) == 0 ? 0 : errno;
    close(fd);
    if (code != ECONNREFUSED)
        return error_set(err, STATUS_SYSTEM, "%s: is in use by another process", name->sun_path);
    if (unlink(name->sun_path) != 0)
        return error_set(err, STATUS_SYSTEM, "%s: %s", name->sun_path, strerror(errno));
    return STATUS_OK;
}

enum status unix_listen(const char *path, int *fd, struct error *err) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int new_fd;

    if (strlen(path) >= sizeof name.sun_path)
        return error_set(err, STATUS_INVALID, "%.60s...: must be 1..%zu characters, got %zu", path,
                         sizeof name.sun_path - 1, strlen(path));
    strcpy(name.sun_path, path);
    if (clear(&name, err) != STATUS_OK)
        return err->status;
    new_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (new_fd < 0)
        return error_set(err, STATUS_SYSTEM, "socket: %s", strerror(errno));
    if (bind(new_fd, (const struct sockaddr *)&name, sizeof name) != 0 ||
        listen(new_fd, SOMAXCONN) != 0) {
        error_set(err, STATUS_SYSTEM, "%s: %s", path, strerror(errno));
        close(new_fd);
        return err->status;
    }
    *fd = new_fd;
    return STATUS_OK;
}
