/* public_key_file.h - the file of keys for public IDs, read again when it changes (secret_file.h).
 *
 * Not thread-safe. */
#ifndef SNOWFLEET_COMMON_PUBLIC_KEY_FILE_H
#define SNOWFLEET_COMMON_PUBLIC_KEY_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/public_id.h"
#include "common/status.h"

struct public_key_file;

/* Reads it for the first time; a failure names the file, and the line where that is at fault. */
enum status public_key_file_open(const char *name, struct public_key_file **file,
                                 struct error *err);
void public_key_file_close(struct public_key_file *file); /* NULL is let pass */

/* To be called now and then; true when the keys, or their order, are others than before. */
bool public_key_file_look(struct public_key_file *file, uint64_t boot_ms);

/* Live until the next look. */
const struct public_keys *public_key_file_keys(const struct public_key_file *file);

#endif
