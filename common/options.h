/* options.h - one table of options: parsing, ranges, defaults, environment and --help all come
 * from it.  [pure]: it reads argv, an environment and a file's text that are handed in and writes
 * into a struct; options_load.h fetches the file.
 *
 * Precedence: flag > environment (SNOWFLEET_ and the name in capitals with underscores) >
 * --config file > default.  Flags are "--name value" or "--name=value"; booleans "--name", or
 * "--name=false" to overrule the environment or the file.  A value that itself begins with "--"
 * needs the form with "=": after a blank it is taken for a flag whose value was forgotten.  "--"
 * ends the flags.  A flag given twice is refused, as is a name set twice in the file.
 *
 * The file holds lines "name = value", lines of comment that begin with "#", and blank lines.
 *
 * Unknown names are fatal everywhere: on the command line, in the file, and among SNOWFLEET_
 * variables (those that no table in the process knows; what Kubernetes sets for a Service called
 * snowfleet-something is let pass: SNOWFLEET_..._SERVICE_HOST, ..._PORT_8080_TCP and their like).
 * A wrong value is named with its range, and where it stands: "--lease-ttl=1s: must be 2s..600s",
 * "SNOWFLEET_LEASE_TTL=1s: ...", "worker.conf:7: lease-ttl=1s: ...".  An empty value is refused,
 * except for an address, where it means "off". */
#ifndef SNOWFLEET_COMMON_OPTIONS_H
#define SNOWFLEET_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/status.h"

enum option_type {
    OPTION_BOOL,     /* bool; no argument */
    OPTION_STRING,   /* char *, allocated; NULL when not given and without default */
    OPTION_NUMBER,   /* uint64_t, plain decimal, min..max */
    OPTION_DURATION, /* uint64_t in ms; min and max in ms */
    OPTION_CHOICE,   /* int: index into choices */
    OPTION_ADDRESS, /* char *, allocated, HOST:PORT or [V6]:PORT, port 0..65535; NULL when not given
                        and without default */
    OPTION_HOST,    /* char *, allocated: a name, an IPv4 address, or an IPv6 one with or without
                        brackets; NULL as above */
    OPTION_TIME,    /* uint64_t, Unix ms: RFC 3339 or plain ms */
    OPTION_RANGE    /* struct option_range, "A-B" or "A", within min..max */
};

struct option_range {
    uint64_t first, last;
};

struct option {
    const char *name; /* without the dashes; "help", "version" and "config" are taken */
    enum option_type type;
    size_t offset;              /* of the value in the caller's struct */
    const char *argument;       /* as in --help: "DURATION", "HOST:PORT" */
    const char *fallback;       /* the default, as text; NULL for none */
    uint64_t min, max;          /* number, duration, range */
    const char *const *choices; /* choice: names, NULL-terminated */
    const char *help;           /* one or two sentences: what it is, its unit, why the default */
    bool secret;                /* masked when printed, in messages too */
    bool may_be_off;            /* address: "" (given empty) means off */
    size_t given_offset;        /* where to note, as a bool, that it was given; 0 for nowhere */
};

#define OPTIONS_MAX 128 /* in one set */

/* Several tables make one set: those both daemons share, and each program's own.  A program is
 * described once. */
struct option_set {
    const char *program;                  /* "snowfleet-worker" */
    const char *usage;                    /* after the program's name: "[OPTION]..." */
    const char *summary;                  /* what it does, for --help */
    const struct option *const *tables;   /* NULL-terminated; each ends with .name = NULL */
    const char *const *extra_environment; /* SNOWFLEET_ names that are not ours but known to
                                             sister programs: ignored; NULL-terminated or NULL */
};

/* A configuration file, read already. */
struct options_file {
    const char *name; /* for messages */
    const char *text;
    size_t len;
};

struct options_result {
    bool help, version;
    int first_operand;
    const char *config; /* the --config file's name, argv's or envp's; NULL for none */
};

/* Fills *values (zeroed by the caller) from defaults, then file (NULL for none), then environment,
 * then argv.  envp is like environ.  What is left over after the flags (or after "--") is counted
 * in *first_operand..argc-1 (argv is permuted so that operands come last), for tools with
 * subcommands; daemons refuse operands themselves.
 * "--help" and "--version" are recognised: *help or *version is set and nothing else is checked,
 * nor is any other result or value filled in.
 * On failure: STATUS_INVALID and a one-line reason; strings set so far are released. */
enum status options_parse(const struct option_set *set, int argc, char **argv, char *const *envp,
                          const struct options_file *file, void *values,
                          struct options_result *result, struct error *err);

/* Only looks for the name of the --config file, on the command line and then in SNOWFLEET_CONFIG,
 * so that it can be read; NULL for none, or when --help or --version asks for something else.
 * *label is what to call the setting in a message: "--config" or "SNOWFLEET_CONFIG". */
const char *options_find_config(int argc, char *const *argv, char *const *envp, const char **label);

/* Releases the strings in *values. */
void options_free(const struct option_set *set, void *values);

/* The --help text: each option with argument, unit, range, default and environment name. */
void options_help(const struct option_set *set, FILE *out);

/* Prints a file for --config in which every option stands with its default, commented out. */
void options_sample_config(const struct option_set *set, FILE *out);

/* Calls visit for each option with its effective value as text ("***" for a secret that is set, ""
 * for what has no value).  text lives until visit returns. */
void options_visit(const struct option_set *set, const void *values,
                   void (*visit)(void *arg, const char *name, const char *text), void *arg);

#endif
