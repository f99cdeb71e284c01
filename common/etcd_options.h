/* etcd_options.h - the options that both daemons and the tool share: how to reach etcd, and how to
 * log.
 *
 * A program's own struct of values begins with struct shared_options, since the tables of one
 * option set share their offsets:
 *
 *     struct values { struct shared_options shared; char *http_listen; ... };
 *     static const struct option *const tables[] = {etcd_options, log_options, own_options, NULL}; */
#ifndef SNOWFLEET_COMMON_ETCD_OPTIONS_H
#define SNOWFLEET_COMMON_ETCD_OPTIONS_H

#include <stdint.h>

#include "common/etcd_http.h"
#include "common/options.h"
#include "common/status.h"

struct shared_options {
    char *etcd_endpoints; /* "http://a:2379,http://b:2379" */
    char *etcd_ca_file;
    char *etcd_cert_file;
    char *etcd_key_file;
    uint64_t etcd_timeout_ms;
    char *cluster;
    int log_format; /* enum log_format */
    int log_level;  /* enum log_level */
};

extern const struct option etcd_options[]; /* --etcd-... and --cluster */
extern const struct option log_options[];  /* --log-format and --log-level */

/* SNOWFLEET_ variables of the whole product: one container may set them for the worker and still
 * run the tool.  For option_set.extra_environment. */
extern const char *const known_environment[];

/* What the etcd client is to be built with.  The strings in *config are borrowed from *options and
 * live as long.  STATUS_INVALID when the options contradict one another. */
enum status etcd_options_config(const struct shared_options *options,
                                struct etcd_http_config *config, struct error *err);

#endif
