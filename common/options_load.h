/* options_load.h - options_parse() with the --config file fetched for it. */
#ifndef SNOWFLEET_COMMON_OPTIONS_LOAD_H
#define SNOWFLEET_COMMON_OPTIONS_LOAD_H

#include "common/options.h"

#define OPTIONS_FILE_MAX_BYTES (1024 * 1024)

/* As options_parse(), with the file that --config or SNOWFLEET_CONFIG names, if any.  It must be a
 * regular file of at most OPTIONS_FILE_MAX_BYTES; one that cannot be read is an error, never a
 * missing one passed over: STATUS_SYSTEM or STATUS_INVALID, "--config=a.conf: No such file ...". */
enum status options_load(const struct option_set *set, int argc, char **argv, char *const *envp,
                         void *values, struct options_result *result, struct error *err);

#endif
