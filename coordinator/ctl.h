/* ctl.h - snowfleetctl: what its subcommands share.  Each is a file of its own, ctl_NAME.c, and
 * works against etcd and the workers directly. */
#ifndef SNOWFLEET_COORDINATOR_CTL_H
#define SNOWFLEET_COORDINATOR_CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/etcd_options.h"
#include "common/options.h"
#include "common/public_id.h"
#include "common/status.h"

#define CTL_DONE 0
#define CTL_FAILED 1 /* refused or failed; the reason is on stderr */
#define CTL_USAGE 64

enum ctl_output { CTL_TABLE, CTL_JSON };

/* Of sequence. */
struct ctl_sequence_values {
    int mode; /* enum sequence_mode */
    uint64_t start, shards, block, max_rate, next;
    bool start_given, mode_given, shards_given, block_given, max_rate_given, next_given;
};

/* The values of all commands: each table of options fills its own. */
struct ctl_values {
    struct shared_options shared;
    int output; /* enum ctl_output */

    /* init */
    bool is_new, if_needed, no_ceiling, floor_given;
    struct option_range machine_ids;
    char *reserved;
    uint64_t epoch_ms, floor_ms, max_window_ms, quiet_time_ms, max_offset_ms;
    /* next */
    int kind;
    uint64_t count;
    char *worker;
    char *name;
    bool shard_given;
    uint64_t shard;
    /* decode, encode, range */
    bool epoch_given;
    char *public_key_file;
    bool from_given, to_given;
    uint64_t from_ms, to_ms;
    /* reclaim */
    bool yes, force;
    /* recover, beside some of init and reclaim */
    bool dry_run, machine_ids_given, max_window_given, quiet_time_given, max_offset_given;
    char *state_files, *earlier_eras;
    /* freeze */
    char *reason;
    /* clock */
    uint64_t for_ms;
    /* machines */
    char *state, *identity;
    int sort;
    bool history_given;
    uint64_t history;
    /* skew */
    int from;
    bool watch, wait_ok, csv, top_given;
    uint64_t interval_ms, wait_ms, top;
    struct ctl_sequence_values sequence;
    /* audit */
    bool offline;
    uint64_t memory_mib, show;
    char *tmp_dir;
};

/* One subcommand.  run() returns the exit code; on CTL_FAILED or CTL_USAGE it has set *err, which
 * is printed. */
struct ctl_command {
    const char *name;
    const char *operands; /* for the usage line: "ID"; "" for none */
    int n_operands;       /* exactly so many ... */
    int max_operands;     /* ... or, when above 0, that many to this many, ending with NULL */
    const char *summary;
    const struct option *options; /* its own */
    int (*run)(const struct ctl_values *values, char *const *operands, struct error *err);
};

extern const struct ctl_command ctl_init, ctl_range_set, ctl_status, ctl_machines, ctl_skew;
extern const struct ctl_command ctl_next, ctl_decode, ctl_encode, ctl_range, ctl_audit;
extern const struct ctl_command ctl_reclaim, ctl_release, ctl_freeze, ctl_thaw, ctl_clock,
    ctl_recover, ctl_sequence;

/* The option of whatever needs the keys of public IDs (ctl_encode.c); what: what for. */
#define CTL_PUBLIC_KEY_FILE(what)                                                                  \
    {                                                                                              \
        .name = "public-key-file", .type = OPTION_STRING,                                          \
        .offset = offsetof(struct ctl_values, public_key_file), .argument = "FILE",                \
        .help = what ": the file of keys that the workers have."                                   \
    }
/* Reads that file, to be freed with public_codec_free(). */
enum status ctl_open_public_keys(const struct ctl_values *values, struct public_codec **codec,
                                 struct error *err);

/* "snowfleetctl: text" on stderr: what is worth knowing beside the result. */
void ctl_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
