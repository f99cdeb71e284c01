/* keys.h - [pure] etcd key names and the value of hor/NNNN; no other file spells one.
 *
 * All keys of a cluster begin with "/snowfleet/<cluster>/". */
#ifndef SNOWFLEET_COMMON_KEYS_H
#define SNOWFLEET_COMMON_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

#define KEYS_CLUSTER_MAX 64 /* characters of a cluster's name: a-z A-Z 0-9 . _ - */
#define KEY_MAX 160         /* bytes of any of our keys, with the NUL */
#define HEX128_CHARS 32     /* claims, instances and eras: 128 bits in lower-case hex */
#define MACHINE_IDS 1024u

/* The fixed keys of one cluster. */
struct keys {
    char prefix[KEY_MAX];
    char meta[KEY_MAX];
    char ceil[KEY_MAX];
    char leader[KEY_MAX];
    char hor[KEY_MAX], hor_end[KEY_MAX]; /* the range of all hor/NNNN */
    char own[KEY_MAX], own_end[KEY_MAX];
    char node[KEY_MAX], node_end[KEY_MAX];
    char assign[KEY_MAX], assign_end[KEY_MAX];
    char seq[KEY_MAX], seq_end[KEY_MAX];
};
/* Refuses a cluster name that is empty, too long or has other characters. */
enum status keys_init(struct keys *keys, const char *cluster, struct error *err);

void keys_hor(const struct keys *keys, uint16_t machine_id, char out[static KEY_MAX]);
void keys_own(const struct keys *keys, uint16_t machine_id, char out[static KEY_MAX]);
void keys_node(const struct keys *keys, const char *instance, char out[static KEY_MAX]);
void keys_assign(const struct keys *keys, const char *instance, char out[static KEY_MAX]);
/* A key that never exists, assign/000...0: with a deletion of it a read goes through etcd's log, shows nothing
 * stale and changes nothing. */
void keys_absent(const struct keys *keys, char out[static KEY_MAX]);
/* name passes sequence_name_check(). */
void keys_seq(const struct keys *keys, const char *name, char out[static KEY_MAX]);

/* The machine ID of a hor/ or own/ key: exactly four digits, 0000..1023, after the range's start
 * (keys->hor or keys->own). */
bool keys_machine_id(const char *range_start, const char *key, uint16_t *machine_id);
/* The instance of a node/ or assign/ key, within key; NULL when it is not 32 hex digits. */
const char *keys_instance(const char *range_start, const char *key);

/* The name in a seq/ key, within key; NULL when it is another key, or no such name. */
const char *keys_seq_name(const struct keys *keys, const char *key);

/* Is text exactly 32 lower-case hex digits? */
bool hex128_valid(const char *text);
/* Spells 16 bytes. */
void hex128_format(const unsigned char bytes[static 16], char out[static HEX128_CHARS + 1]);

/* The value of hor/NNNN: "<horizon, 20 digits>:<claim>:<n>".  Reading is strict, so that equal
 * structs are equal texts: whatever is spelt otherwise is refused. */
struct horizon {
    uint64_t horizon_ms;          /* the highest timestamp that may have been granted, Unix ms */
    char claim[HEX128_CHARS + 1]; /* who wrote it; 32 zeros: nobody yet */
    uint64_t n;                   /* counts that claim's writes; 0: never claimed */
};
#define HORIZON_TEXT_MAX 80
void horizon_format(const struct horizon *horizon, char out[static HORIZON_TEXT_MAX]);
bool horizon_parse(const char *text, size_t len, struct horizon *horizon);
bool horizon_equal(const struct horizon *a, const struct horizon *b);

/* The value of ceil: 20 digits. */
#define CEILING_NONE UINT64_C(9223372036854775807) /* --no-ceiling */
#define CEILING_TEXT_MAX 21
void ceiling_format(uint64_t ceiling_ms, char out[static CEILING_TEXT_MAX]);
bool ceiling_parse(const char *text, size_t len, uint64_t *ceiling_ms);

#endif
