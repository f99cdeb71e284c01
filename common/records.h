/* records.h - [pure] the JSON values of our etcd keys: meta, own, node, assign, leader.
 *
 * Reading: unknown fields are ignored; a higher "format" is refused.  A missing field is never
 * defaulted where the protocol rests on it; which ones may be missing is said at each struct.  A
 * field that is there and wrong fails always, and so does one that comes twice.  On failure the
 * caller's struct stays as it was and err says, for a person, which field it was, what it must be
 * and what it is: "meta: max_window_ms must be 1..3600000, got 0".
 *   STATUS_PROTOCOL  not a record of this kind
 *   STATUS_REFUSED   written by a newer program (meta's format): update this one
 *
 * Writing: the fields in the order of the struct, all of them, without blanks: equal structs give
 * equal bytes.  Where a text to replace is given, the fields of it that are not ours follow as they
 * were.  The texts are the caller's to free() and never NULL.
 *
 * Spelling: timestamps, counters and whatever may need more than 53 bits are strings of plain
 * decimal; durations in ms, small counts and machine IDs are numbers.  A range of machine IDs is
 * the string "A-B", both included.  A list of machine IDs holds numbers, but for meta's `reserved`,
 * which may hold ranges too and is written in ascending order with every run of two or more as a
 * range: [0,"10-19"].  Labels (reason, refused, version) are UTF-8 without control characters; a
 * character that has no place in one is written as '?'. */
#ifndef SNOWFLEET_COMMON_RECORDS_H
#define SNOWFLEET_COMMON_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/keys.h"
#include "common/public_id.h"
#include "common/status.h"

struct json_t; /* of jansson */

#define RECORD_FORMAT 1 /* of meta; a higher one is refused */
#define RECORD_EARLIER_ERAS_MAX 64
#define RECORD_REASON_MAX 128
#define RECORD_IDENTITY_MAX 254 /* "namespace/pod" or a host name, printable, a label only */
#define RECORD_ADDRESS_MAX 272  /* "host:port" */
#define RECORD_MACHINES_MAX 64  /* machine IDs that one worker can hold */
#define RECORD_VERSION_MAX 32

/* What the numbers may be at most; the options that set them go no further. */
#define RECORD_COUNTER_MAX ((uint64_t)INT64_MAX)            /* serial, attempt */
#define RECORD_WALL_MAX_MS UINT64_C(253402300799999)        /* 9999-12-31T23:59:59.999Z */
#define RECORD_MAX_WINDOW_MAX_MS (UINT64_C(60) * 60 * 1000) /* 1 h */
#define RECORD_QUIET_TIME_MAX_MS (UINT64_C(7) * 24 * 60 * 60 * 1000)
#define RECORD_MAX_OFFSET_MAX_MS (UINT64_C(60) * 60 * 1000)
#define RECORD_RETRY_AFTER_MAX_MS (UINT64_C(24) * 60 * 60 * 1000)

/* A reason of FROZEN that begins with this says that etcd's history went back: only recover ends it. */
#define RECORD_ROLLBACK_REASON "rollback:"

enum meta_mode { META_OPEN, META_FROZEN };

/* {"format":1,"serial":"1","era":"...","earlier_eras":[],"floor_ms":"0","epoch_ms":"1704067200000",
 *  "machine_id_range":"0-1023","reserved":[],"max_window_ms":60000,"quiet_time_ms":90000,
 *  "max_offset_ms":500,"mode":"OPEN","reason":"","if_needed":false}
 * Only reason may be missing. */
struct meta {
    unsigned format;
    uint64_t serial; /* raised by every write */
    char era[HEX128_CHARS + 1];
    char earlier_eras[RECORD_EARLIER_ERAS_MAX][HEX128_CHARS + 1];
    size_t n_earlier_eras;
    uint64_t floor_ms; /* no slot may start at or below it; at most the end of the epoch */
    uint64_t epoch_ms; /* at most RECORD_WALL_MAX_MS */
    uint16_t first_machine_id, last_machine_id;
    bool reserved[MACHINE_IDS];
    uint64_t max_window_ms; /* 1.. */
    uint64_t quiet_time_ms, max_offset_ms;
    enum meta_mode mode;
    char reason[RECORD_REASON_MAX]; /* of FROZEN, or of the last write */
    bool if_needed;                 /* made by `init --if-needed`: it may follow a lost etcd */
};
enum status meta_parse(const char *text, size_t len, struct meta *meta, struct error *err);
/* What meta_parse will say of this meta once it is written: for whoever makes one from options. */
enum status meta_check(const struct meta *meta, struct error *err);
/* Spells meta as JSON.  before is the text that it replaces, whose unknown fields are kept; NULL
 * for a first write.  meta must pass meta_check: one that nobody can read would stop the fleet. */
char *meta_format(const struct meta *meta, const char *before);
/* The same as a JSON object, for whoever shows parts of it; the caller's reference. */
struct json_t *meta_json(const struct meta *meta);
/* In range and not reserved. */
bool meta_usable(const struct meta *meta, uint16_t machine_id);
bool meta_earlier_era(const struct meta *meta, const char *era);

/* Where a process can be reached; "" for a listener that it does not have. */
struct addresses {
    char http[RECORD_ADDRESS_MAX];
    char grpc[RECORD_ADDRESS_MAX];
};

/* own/NNNN: {"claim":"...","instance":"...","identity":"prod/ids-0","addresses":{"http":
 * "10.0.0.1:8080","grpc":""}}.  Here and below only an address within `addresses` may be missing,
 * for "", unless said otherwise. */
struct own {
    char claim[HEX128_CHARS + 1];
    char instance[HEX128_CHARS + 1];
    char identity[RECORD_IDENTITY_MAX + 1];
    struct addresses addresses;
};
enum status own_parse(const char *text, size_t len, struct own *own, struct error *err);
char *own_format(const struct own *own);

/* node/<instance>: the fields as they are named here.  version may be missing. */
struct node {
    char identity[RECORD_IDENTITY_MAX + 1];
    struct addresses addresses;
    char version[RECORD_VERSION_MAX];
    uint64_t attempt; /* counts its requests for an assignment, from 1; 0: none so far */
    unsigned missing; /* how many more machine IDs it needs now; 0: it asks for nothing */
    uint16_t wanted[RECORD_MACHINES_MAX]; /* those it would like (--machine-id, or held before) */
    size_t n_wanted;
    uint16_t held[RECORD_MACHINES_MAX];
    size_t n_held;
    uint16_t refused[RECORD_MACHINES_MAX]; /* those that it found unusable and does not want */
    size_t n_refused;
    /* Clock facts, as the worker sees itself. */
    bool synchronized;
    bool knows_error; /* else max_error_ns is null there and counts for nothing here */
    uint64_t max_error_ns;
    /* Its clock was stepped, and it waits for somebody who confirms the new time; may be missing. */
    bool clock_unconfirmed;
    /* Its keys for public IDs (public_id.h); both may be missing, for "" and 0: it has none. */
    char public_key_fingerprint[PUBLIC_FINGERPRINT_CHARS + 1];
    unsigned public_key_version; /* of the one that encodes */
};
enum status node_parse(const char *text, size_t len, struct node *node, struct error *err);
char *node_format(const struct node *node);

/* assign/<instance>: the fields as they are named here.  All but attempt may be missing, for what
 * is 0, empty or false: an order by hand need not spell an assignment. */
struct give_up {
    uint16_t machine_id;
    char claim[HEX128_CHARS + 1];
};
struct assign {
    uint64_t attempt; /* the request that the fields up to retry_after_ms answer; 0: none */
    uint16_t machine_ids[RECORD_MACHINES_MAX];
    size_t n_machine_ids;
    char refused[RECORD_REASON_MAX]; /* "" when not refused */
    uint64_t retry_after_ms;         /* more than RECORD_RETRY_AFTER_MAX_MS is written as that */
    /* Orders, valid whatever the attempt. */
    struct give_up give_up[RECORD_MACHINES_MAX];
    size_t n_give_up;
    bool drain;
    uint64_t clock_ok_until_ms; /* 0: no such order; at most RECORD_WALL_MAX_MS */
};
enum status assign_parse(const char *text, size_t len, struct assign *assign, struct error *err);
/* before: as in meta_format. */
char *assign_format(const struct assign *assign, const char *before);

/* leader: {"instance":"...","addresses":{"http":"10.0.0.9:8090","grpc":""}} */
struct leader {
    char instance[HEX128_CHARS + 1];
    struct addresses addresses;
};
enum status leader_parse(const char *text, size_t len, struct leader *leader, struct error *err);
char *leader_format(const struct leader *leader);

/* Identities are labels that others will print: 1..RECORD_IDENTITY_MAX characters of printable
 * ASCII without blanks, quotes or backslashes.  These say on failure, with STATUS_INVALID, what was
 * expected and what came; prefix it with the name of the field. */
enum status identity_check(const char *text, struct error *err);
/* "host:port" as others can reach it: a name, an IPv4 address or an IPv6 one in brackets, and a
 * port of 1..65535. */
enum status address_check(const char *text, struct error *err);
/* "A-B" with 0 <= A <= B <= 1023. */
enum status machine_id_range_parse(const char *text, size_t len, uint16_t *first, uint16_t *last,
                                   struct error *err);

#endif
