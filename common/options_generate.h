/* options_generate.h - manual page and bash completion from the same tables as --help.
 *
 * The programs print them themselves, so that they cannot differ from what is parsed:
 *
 *     snowfleet-worker --generate=man                > snowfleet-worker.8
 *     snowfleetctl     --generate=bash-completion    > snowfleetctl
 *     snowfleet-worker --generate=config             > worker.conf      (daemons only)
 *
 * That is for the build (deploy/CMakeLists.txt), so the argument is named in the manual page and
 * not among the options of --help. */
#ifndef SNOWFLEET_COMMON_OPTIONS_GENERATE_H
#define SNOWFLEET_COMMON_OPTIONS_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/options.h"

/* A command of a program that has such: "init". */
struct options_command {
    const char *name;
    const char *operands; /* "ID"; "" for none */
    const char *summary;
    const struct option *options; /* its own */
};

/* A program as a whole.  With commands, the options of set are those that every command takes. */
struct options_manual {
    const struct option_set *set;
    int section;             /* of the manual: 8 for daemons, 1 for tools */
    const char *exit_status; /* sentences */
    const struct options_command *commands;
    size_t n_commands;
};

/* [pure] */
void options_man(const struct options_manual *manual, FILE *out);
void options_bash_completion(const struct options_manual *manual, FILE *out);

/* When the one argument is --generate=man, bash-completion or config: prints it, sets *code to the
 * program's exit code and returns true.  To be called before anything else looks at argv. */
bool options_generate(const struct options_manual *manual, int argc, char *const *argv, int *code);
/* The same for a daemon: section 8, without commands. */
bool options_generate_daemon(const struct option_set *set, int argc, char *const *argv, int *code);

#endif
