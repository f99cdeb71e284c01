/* etcd_options.h - the options that both daemons and the tool share: how to reach etcd, and how to
 * log; and how to be let in by workers, which is not for workers themselves.
 *
 * A program's own struct of values begins with struct shared_options, since the tables of one
 * option set share their offsets:
 *
 *     struct values { struct shared_options shared; char *http_listen; ... };
 *     static const struct option *const tables[] = {etcd_options, log_options, own_options, NULL}; */
#ifndef SNOWFLEET_COMMON_ETCD_OPTIONS_H
#define SNOWFLEET_COMMON_ETCD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/etcd_http.h"
#include "common/options.h"
#include "common/status.h"

struct shared_options {
    char *etcd_endpoints; /* "http://a:2379,http://b:2379" */
    char *etcd_ca_file;
    char *etcd_cert_file;
    char *etcd_key_file;
    char *etcd_user;
    char *etcd_password_file;
    uint64_t etcd_timeout_ms;
    char *cluster;
    char *worker_token_file; /* of coordinators and the tool */
    /* By whomever, and not defaulted. */
    bool etcd_endpoints_given, etcd_timeout_given, cluster_given;
    int log_format; /* enum log_format */
    int log_level;  /* enum log_level */
};

extern const struct option etcd_options[];           /* --etcd-... and --cluster */
extern const struct option towards_worker_options[]; /* --worker-...: of those that ask workers */
extern const struct option log_options[];            /* --log-format and --log-level */

/* SNOWFLEET_ variables of the whole product: one container may set them for the worker and still
 * run the tool.  For option_set.extra_environment. */
extern const char *const known_environment[];

/* What the etcd client is to be built with.  The strings in *config are borrowed from *options and
 * live as long.  STATUS_INVALID when the options contradict one another. */
enum status etcd_options_config(const struct shared_options *options,
                                struct etcd_http_config *config, struct error *err);

#endif
