#include "common/etcd_options.h"

#include <stddef.h>

#include "common/etcd_endpoints.h"
#include "common/keys.h"

#define FIELD(name) offsetof(struct shared_options, name)

const struct option etcd_options[] = {
    {.name = "etcd-endpoints",
     .type = OPTION_STRING,
     .offset = FIELD(etcd_endpoints),
     .given_offset = FIELD(etcd_endpoints_given),
     .argument = "URL,...",
     .fallback = "http://127.0.0.1:2379",
     .help = "etcd's client URLs, separated by commas; they are used in turn when one fails."},
    {.name = "etcd-ca-file",
     .type = OPTION_STRING,
     .offset = FIELD(etcd_ca_file),
     .argument = "FILE",
     .help = "Certificates (PEM) that sign etcd's own; without it the system's are used."},
    {.name = "etcd-cert-file",
     .type = OPTION_STRING,
     .offset = FIELD(etcd_cert_file),
     .argument = "FILE",
     .help = "Client certificate (PEM) to show to etcd; needs --etcd-key-file."},
    {.name = "etcd-key-file",
     .type = OPTION_STRING,
     .offset = FIELD(etcd_key_file),
     .argument = "FILE",
     .help = "Private key (PEM) of that certificate."},
    {.name = "etcd-user",
     .type = OPTION_STRING,
     .offset = FIELD(etcd_user),
     .argument = "NAME",
     .help =
         "User to log in to etcd as; needs --etcd-password-file.  Without it, etcd must be open "
         "to all who reach it."},
    {.name = "etcd-password-file",
     .type = OPTION_STRING,
     .offset = FIELD(etcd_password_file),
     .argument = "FILE",
     .help =
         "File whose one line is that user's password, mode 0640 or stricter; read again at each "
         "login, so a new password needs no restart."},
    {.name = "etcd-timeout",
     .type = OPTION_DURATION,
     .offset = FIELD(etcd_timeout_ms),
     .given_offset = FIELD(etcd_timeout_given),
     .argument = "DURATION",
     .fallback = "2s",
     .min = 100,
     .max = 60000,
     .help = "How long one request to etcd may take before the next endpoint is tried; etcd itself "
             "gives up only after 7s."},
    {.name = "cluster",
     .type = OPTION_STRING,
     .offset = FIELD(cluster),
     .given_offset = FIELD(cluster_given),
     .argument = "NAME",
     .fallback = "default",
     .help = "Which cluster of those that share this etcd: its keys begin with /snowfleet/NAME/."},
    {.name = NULL},
};

const struct option towards_worker_options[] = {
    {.name = "worker-token-file",
     .type = OPTION_STRING,
     .offset = FIELD(worker_token_file),
     .argument = "FILE",
     .help = "Where workers ask for a bearer token (their --client-token-file): the file whose "
             "first token is shown to them.  Of 16 to 256 printable characters; blank lines and "
             "those that begin with # are left out; mode 0640 or stricter."},
    {.name = NULL},
};

static const char *const formats[] = {"json", "text", NULL};
static const char *const levels[] = {"debug", "info", "warn", "error", NULL};

const struct option log_options[] = {
    {.name = "log-format",
     .type = OPTION_CHOICE,
     .offset = FIELD(log_format),
     .argument = "json|text",
     .fallback = "json",
     .choices = formats,
     .help = "One JSON object a line, or text for people."},
    {.name = "log-level",
     .type = OPTION_CHOICE,
     .offset = FIELD(log_level),
     .argument = "debug|info|warn|error",
     .fallback = "info",
     .choices = levels,
     .help = "What is less important than this is not logged."},
    {.name = NULL},
};

const char *const known_environment[] = {
    "SNOWFLEET_IDENTITY",
    "SNOWFLEET_HTTP_LISTEN",
    "SNOWFLEET_GRPC_LISTEN",
    "SNOWFLEET_REDIS_LISTEN",
    "SNOWFLEET_UNIX_SOCKET",
    "SNOWFLEET_ADVERTISE",
    "SNOWFLEET_MACHINE_IDS",
    "SNOWFLEET_MACHINE_ID",
    "SNOWFLEET_STANDALONE",
    "SNOWFLEET_INIT",
    "SNOWFLEET_ADOPT",
    "SNOWFLEET_STATE_FILE",
    "SNOWFLEET_WINDOW",
    "SNOWFLEET_LEASE_TTL",
    "SNOWFLEET_KEEPALIVE_INTERVAL",
    "SNOWFLEET_CLAIM_AHEAD",
    "SNOWFLEET_ASSIGN_WAIT",
    "SNOWFLEET_CLOCK_STRATEGY",
    "SNOWFLEET_MAX_BACKWARD_WAIT",
    "SNOWFLEET_MAX_CLOCK_ERROR",
    "SNOWFLEET_SEQUENCE_START",
    "SNOWFLEET_TLS_CERT_FILE",
    "SNOWFLEET_TLS_KEY_FILE",
    "SNOWFLEET_TLS_CLIENT_CA_FILE",
    "SNOWFLEET_DRAIN_TIMEOUT",
    "SNOWFLEET_MAX_CONNECTION_AGE",
    "SNOWFLEET_MAX_CONNECTIONS",
    "SNOWFLEET_CLIENT_TOKEN_FILE",
    "SNOWFLEET_PUBLIC_KEY_FILE",
    "SNOWFLEET_PROBE_INTERVAL",
    "SNOWFLEET_CEILING_LEAD",
    "SNOWFLEET_CEILING_INTERVAL",
    "SNOWFLEET_WORKER_CA_FILE",
    "SNOWFLEET_WORKER_CERT_FILE",
    "SNOWFLEET_WORKER_KEY_FILE",
    "SNOWFLEET_WORKER_TOKEN_FILE",
    "SNOWFLEET_OUTPUT",
    "SNOWFLEET_NEW",
    "SNOWFLEET_IF_NEEDED",
    "SNOWFLEET_MACHINE_ID_RANGE",
    "SNOWFLEET_RESERVED",
    "SNOWFLEET_EPOCH",
    "SNOWFLEET_FLOOR",
    "SNOWFLEET_NO_CEILING",
    "SNOWFLEET_MAX_WINDOW",
    "SNOWFLEET_QUIET_TIME",
    "SNOWFLEET_MAX_OFFSET",
    "SNOWFLEET_KIND",
    "SNOWFLEET_COUNT",
    "SNOWFLEET_WORKER",
    "SNOWFLEET_FROM",
    "SNOWFLEET_TO",
    "SNOWFLEET_YES",
    "SNOWFLEET_FORCE",
    "SNOWFLEET_REASON",
    "SNOWFLEET_FOR",
    "SNOWFLEET_STATE",
    "SNOWFLEET_SORT",
    "SNOWFLEET_HISTORY",
    "SNOWFLEET_LOG_FORMAT",
    "SNOWFLEET_LOG_LEVEL",
    "SNOWFLEET_OFFLINE",
    "SNOWFLEET_MEMORY",
    "SNOWFLEET_TMP_DIR",
    "SNOWFLEET_SHOW",
    "SNOWFLEET_CONFIG",
    NULL,
};

enum status etcd_options_config(const struct shared_options *options,
                                struct etcd_http_config *config, struct error *err) {
    struct etcd_endpoints endpoints;
    struct keys keys;

    if (keys_init(&keys, options->cluster, err) != STATUS_OK)
        return error_context(err, "--cluster");
    if (etcd_endpoints_parse(options->etcd_endpoints, &endpoints, err) != STATUS_OK)
        return error_context(err, "--etcd-endpoints");
    etcd_endpoints_release(&endpoints);
    if (!options->etcd_cert_file != !options->etcd_key_file)
        return error_set(err, STATUS_INVALID, "--etcd-cert-file and --etcd-key-file go together");
    if (!options->etcd_user != !options->etcd_password_file)
        return error_set(err, STATUS_INVALID, "--etcd-user and --etcd-password-file go together");
    if (options->etcd_user && !options->etcd_user[0])
        return error_set(err, STATUS_INVALID, "--etcd-user=: must not be empty");
    *config = (struct etcd_http_config){
        .endpoints = options->etcd_endpoints,
        .timeout_ms = options->etcd_timeout_ms,
        .ca_file = options->etcd_ca_file,
        .cert_file = options->etcd_cert_file,
        .key_file = options->etcd_key_file,
        .user = options->etcd_user,
        .password_file = options->etcd_password_file,
    };
    return STATUS_OK;
}
