/* token_file.h - a file of bearer tokens, read again when it changes (secret_file.h).
 *
 * Not thread-safe. */
#ifndef SNOWFLEET_COMMON_TOKEN_FILE_H
#define SNOWFLEET_COMMON_TOKEN_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"
#include "common/tokens.h"

struct token_file;

/* Reads it for the first time; a failure names the file, and the line where that is at fault. */
enum status token_file_open(const char *name, struct token_file **file, struct error *err);
void token_file_close(struct token_file *file);

/* To be called now and then; true when the tokens are others than before. */
bool token_file_look(struct token_file *file, uint64_t boot_ms);

/* Live until the next look. */
const struct tokens *token_file_tokens(const struct token_file *file);
/* "Authorization: Bearer TOKEN" with the first of them. */
const char *token_file_header(const struct token_file *file);

#endif
