/* secret_file.h - a small file that holds secrets, read again when it changes.
 *
 * Its text is looked at once a second, whatever its times and inode say: a file written in place,
 * one that replaced it by rename, and a Kubernetes secret, whose symbolic links are switched, are
 * all noticed.  What cannot be used (gone, empty, a line too short) is logged once and changes
 * nothing: what was read last stays.  A mode above 0640 is refused: others must not be able to read
 * it, nor its group to write it.
 *
 * Not thread-safe. */
#ifndef SNOWFLEET_COMMON_SECRET_FILE_H
#define SNOWFLEET_COMMON_SECRET_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/status.h"

struct secret_file;

struct secret_file_config {
    const char *name;
    const char *subject; /* of log lines; not copied */
    /* Makes something of the text, which is wiped afterwards; *changed, true when it is called, becomes
     * whether that is other than before.  On failure nothing has changed, and err names the line. */
    enum status (*take)(void *arg, const char *text, size_t len, bool *changed, struct error *err);
    void *arg;
};

/* Reads it for the first time; a failure names the file. */
enum status secret_file_open(const struct secret_file_config *config, struct secret_file **file,
                             struct error *err);
void secret_file_close(struct secret_file *file); /* NULL is let pass */
const char *secret_file_name(const struct secret_file *file);

/* To be called now and then; true when what was taken is other than before. */
bool secret_file_look(struct secret_file *file, uint64_t boot_ms);

/* For who reads such a file in another way: STATUS_INVALID unless fd is a regular file whose mode is
 * 0640 or stricter.  *about is what it looks like. */
enum status secret_file_check(int fd, struct stat *about, struct error *err);

#endif
