/* options_value.h - the value of one option: from text, to text, and what is allowed.  [pure]
 *
 * For options.c and those that print them (options_print.c, options_man.c, options_bash.c); others
 * use options.h. */
#ifndef SNOWFLEET_COMMON_OPTIONS_VALUE_H
#define SNOWFLEET_COMMON_OPTIONS_VALUE_H

#include "common/options.h"

#define OPTION_ENVIRONMENT_PREFIX "SNOWFLEET_"
#define OPTION_TEXT_SIZE 160
#define OPTION_RULE_SIZE 240

/* --config as a table would describe it: it belongs to every set and is read by itself. */
extern const struct option option_config;

/* "lease-ttl" is SNOWFLEET_LEASE_TTL. */
void option_environment_name(const char *name, char out[static OPTION_TEXT_SIZE]);

/* Reads text[len] into *values.  A string read before is released.  False when the text is not
 * allowed; the value then stays as it was. */
bool option_value_read(const struct option *option, const char *text, size_t len, void *values);

/* What is allowed, to follow the value in a message: "must be 2s..600s". */
void option_value_rule(const struct option *option, char out[static OPTION_RULE_SIZE]);

/* The range alone, "2s..600s" or "json|text"; "" where the type says it all. */
void option_value_limits(const struct option *option, char out[static OPTION_TEXT_SIZE]);

/* The value as it would be given; strings are returned as they stand, NULL as "".  The rest is
 * written to buffer. */
const char *option_value_show(const struct option *option, const void *values,
                              char buffer[static OPTION_TEXT_SIZE]);

/* Frees a string and sets it to NULL; does nothing to other types. */
void option_value_release(const struct option *option, void *values);

#endif
