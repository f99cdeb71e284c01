/* etcd_error.h - what a refusal of etcd's JSON gateway means.  [pure]
 *
 * etcd says it with a gRPC code and a text; the HTTP status is a translation of the code that
 * differs between gateway generations (the same code 9 is 400 or 412). */
#ifndef SNOWFLEET_COMMON_ETCD_ERROR_H
#define SNOWFLEET_COMMON_ETCD_ERROR_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

/* code is gRPC's, message etcd's text.  With write, whatever leaves open whether a transaction,
 * grant or revoke was applied is STATUS_UNKNOWN (time-outs, a lost leader: such writes were seen
 * to be applied seconds later); without, it is STATUS_UNAVAILABLE.  Otherwise:
 *   STATUS_INVALID      the request is wrong
 *   STATUS_NOT_FOUND    the lease is unknown (a transaction is undone as a whole)
 *   STATUS_EXISTS       the lease ID is in use
 *   STATUS_REFUSED      the user lacks the right
 *   STATUS_AUTH         no token, a bad or old one, a wrong password, or auth is not enabled
 *   STATUS_NO_SPACE     the quota of the database is used up
 *   STATUS_UNAVAILABLE  not done: overloaded, or this server does not serve /v3/ */
enum status etcd_error_from_code(long code, const char *message, bool write, struct error *err);

/* The same for an answer that is not etcd's JSON: body[len] is quoted, made printable. */
enum status etcd_error_from_http(long http_status, const char *body, size_t len, bool write,
                                 struct error *err);

#endif
