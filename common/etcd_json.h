/* etcd_json.h - bodies to and from etcd's JSON gateway.  [pure]
 *
 * etcd_json_write.c spells the requests, etcd_json.c reads the answers; with records.c the only
 * files that include jansson.h.  What a reader is given comes from the
 * network: it may hold anything, nested as deep as it likes (jansson stops at 2048 levels, which
 * fit into 256 KiB of stack).
 *
 * The gateway leaves out empty, zero and false fields, writes 64-bit numbers as strings (they are
 * read as numbers too), and keys and values in base64.  A key that holds a NUL byte is none of
 * ours: readers leave it out as if it were not there.
 *
 * Readers return STATUS_OK, or STATUS_PROTOCOL for an answer that makes no sense, and then have
 * stored nothing.  Mind that a write so answered may well have been applied. */
#ifndef SNOWFLEET_COMMON_ETCD_JSON_H
#define SNOWFLEET_COMMON_ETCD_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/etcd.h"

#define ETCD_JSON_MAX_BYTES (64u << 20)      /* of an answer */
#define ETCD_JSON_LINE_MAX_BYTES (16u << 20) /* of one line of a watch */

/* What a transaction's answer has to look like. */
struct etcd_json_shape {
    size_t n_then, n_otherwise;
    uint8_t then[ETCD_TXN_MAX_OPS]; /* enum etcd_op_kind */
    uint8_t otherwise[ETCD_TXN_MAX_OPS];
    bool reads_only; /* neither list puts or deletes: doing it twice does no harm */
};

/* Stores an allocated body and what its answer has to look like.  STATUS_INVALID: more than
 * ETCD_TXN_MAX_OPS in a list, or a branch that could be taken is empty. */
enum status etcd_json_write_txn(const struct etcd_txn *txn, char **body,
                                struct etcd_json_shape *shape, struct error *err);

#define ETCD_JSON_LEASE_BYTES 80
void etcd_json_write_grant(int64_t lease_id, int64_t ttl_s,
                           char body[static ETCD_JSON_LEASE_BYTES]);
/* A keep-alive or a revocation. */
void etcd_json_write_lease(int64_t lease_id, char body[static ETCD_JSON_LEASE_BYTES]);

/* The login of a user, allocated; holds the password.  STATUS_INVALID: one of them is not UTF-8. */
enum status etcd_json_write_authenticate(const char *user, const char *password, char **body,
                                         struct error *err);

/* One create_request for each range, in one body, allocated.  The watch of ranges[i] has the
 * watch_id i + 1 and starts with the events of revision starts[i].  1 <= n <=
 * ETCD_WATCH_MAX_RANGES. */
char *etcd_json_write_watch(const struct etcd_key_range *ranges, size_t n, const int64_t *starts);

/* *result is filled on success; release it with etcd_json_free_txn(). */
enum status etcd_json_read_txn(const char *body, size_t len, const struct etcd_json_shape *shape,
                               struct etcd_txn_result *result, struct error *err);
void etcd_json_free_txn(struct etcd_txn_result *result);

/* The answer has to name lease_id.  *ttl_s is 1.. and may be more than was asked for. */
enum status etcd_json_read_grant(const char *body, size_t len, int64_t lease_id, int64_t *ttl_s,
                                 struct error *err);
/* For HTTP 200 only, which is not yet success: STATUS_NOT_FOUND when the lease is gone (no TTL),
 * STATUS_PROTOCOL for an empty body or another lease's, or what the error in it means. */
enum status etcd_json_read_keepalive(const char *body, size_t len, int64_t lease_id, int64_t *ttl_s,
                                     struct error *err);
enum status etcd_json_read_revoke(const char *body, size_t len, struct error *err);

/* The token of a login, allocated: 1..ETCD_JSON_TOKEN_MAX_CHARS printable characters, no blanks. */
#define ETCD_JSON_TOKEN_MAX_CHARS 8192
#define ETCD_JSON_TOKEN_ANSWER_MAX_BYTES (64u << 10)
enum status etcd_json_read_token(const char *body, size_t len, char **token, struct error *err);

/* One line of a watch. */
struct etcd_json_watch_line {
    int64_t watch_id;         /* as asked for; -1 when etcd refused to make it */
    int64_t revision;         /* of the store; 0: not told.  No place to resume from */
    bool created;             /* the watch stands (unless canceled is set too) */
    bool canceled;            /* it has ended; the response stays open and silent */
    int64_t compact_revision; /* above 0: canceled because its start is compacted away */
    bool failed;              /* the stream has ended, error_code and reason say why */
    long error_code;          /* gRPC's */
    char reason[200];         /* of canceled or failed, made printable; may be "" */
    struct etcd_event *events;
    size_t n_events;
    int64_t last_mod_revision; /* of the events, also of those left out; 0: none */
    struct etcd_kv *kvs;       /* owns what the events point to */
};
/* Release *line with etcd_json_free_watch_line(). */
enum status etcd_json_read_watch_line(const char *text, size_t len,
                                      struct etcd_json_watch_line *line, struct error *err);
void etcd_json_free_watch_line(struct etcd_json_watch_line *line);

/* What an answer with an HTTP status other than 200 means: see etcd_error.h.  Never STATUS_OK. */
enum status etcd_json_read_error(long http_status, const char *body, size_t len, bool write,
                                 struct error *err);

#endif
