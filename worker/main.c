/* snowfleet-worker: holds machine IDs and serves IDs. */
#include <stddef.h>
#include <string.h>

#include "common/daemon_main.h"
#include "common/descriptors.h"
#include "common/etcd_options.h"
#include "common/log.h"
#include "common/records.h"
#include "worker/worker.h"

/* Kept back from clients: etcd, the log, the state file, ...; and what each serving loop needs. */
#define OWN_DESCRIPTORS 32u
#define LOOP_DESCRIPTORS 8u
#define NS_PER_MS INT64_C(1000000)
#define STANDALONE_WINDOW_MS 2000u /* a start waits it out, and no outage has to be bridged */

struct values {
    struct shared_options shared;
    char *identity, *http_listen, *grpc_listen, *unix_socket, *advertise;
    char *tls_cert_file, *tls_key_file, *tls_client_ca_file;
    uint64_t max_connection_age_ms;
    uint64_t machine_ids, machine_id;
    bool machine_id_given;
    bool standalone, init, adopt;
    char *state_file;
    bool window_given, claim_ahead_given, assign_wait_given, lease_ttl_given;
    bool keepalive_interval_given, confirm_interval_given, rotate_above_given;
    bool rotate_interval_given;
    uint64_t window_ms, claim_ahead_ms, assign_wait_ms, lease_ttl_ms, keepalive_interval_ms;
    uint64_t max_backward_wait_ms, max_forward_step_ms, max_alone_step_ms, max_clock_offset_ms;
    uint64_t confirm_interval_ms, clock_drift_ppm, max_clock_error_ms, max_commit_wait_ms;
    uint64_t rotate_above_ms, rotate_interval_ms, chrony_port;
    uint64_t drain_timeout_ms, max_connections;
    char *client_token_file, *public_key_file;
    int clock_strategy;
    int sequence_start;
#ifdef SNOWFLEET_TEST_CLOCK
    char *clock_file;
#endif
    struct worker_config config; /* made of the above */
    uint16_t machine_id_wanted;
};
#define FIELD(name) offsetof(struct values, name)

static const char *const strategies[] = {
    [CLOCK_WAIT] = "wait", [CLOCK_OFFSET] = "offset", [CLOCK_BOUNDED] = "bounded", NULL};
static const char *const starts[] = {
    [SNOWFLAKE_START_SPREAD] = "spread", [SNOWFLAKE_START_ZERO] = "zero", NULL};

static const struct option worker_options[] = {
    {.name = "identity",
     .type = OPTION_STRING,
     .offset = FIELD(identity),
     .argument = "NAME",
     .help = "A label for people, such as namespace/pod; nothing rests on its being unique.  "
             "Without it: the host's name."},
    {.name = "http-listen",
     .type = OPTION_ADDRESS,
     .offset = FIELD(http_listen),
     .argument = "HOST:PORT",
     .fallback = "127.0.0.1:8080",
     .help = "Where to serve HTTP; port 0 takes a free one, which is logged."},
    {.name = "grpc-listen",
     .type = OPTION_ADDRESS,
     .offset = FIELD(grpc_listen),
     .argument = "HOST:PORT",
     .fallback = "127.0.0.1:50051",
     .may_be_off = true,
     .help = "Where to serve gRPC; port 0 takes a free one, which is logged.  Empty: no gRPC."},
    {.name = "unix-socket",
     .type = OPTION_STRING,
     .offset = FIELD(unix_socket),
     .argument = "PATH",
     .help =
         "Serve gRPC on a socket of this name too, without TLS; the umask says who may connect.  "
         "A socket that a former process left there is replaced."},
    {.name = "tls-cert-file",
     .type = OPTION_STRING,
     .offset = FIELD(tls_cert_file),
     .argument = "FILE",
     .help =
         "TLS on --grpc-listen, with this certificate (PEM, with its chain).  This file and the "
         "next two are looked at once a second and read again when they change, for new "
         "connections.  HTTP stays without TLS."},
    {.name = "tls-key-file",
     .type = OPTION_STRING,
     .offset = FIELD(tls_key_file),
     .argument = "FILE",
     .help = "The certificate's private key (PEM, without pass phrase)."},
    {.name = "tls-client-ca-file",
     .type = OPTION_STRING,
     .offset = FIELD(tls_client_ca_file),
     .argument = "FILE",
     .help = "Only clients with a certificate of one of these CAs (PEM) get a connection."},
    {.name = "advertise",
     .type = OPTION_HOST,
     .offset = FIELD(advertise),
     .argument = "HOST",
     .help = "The host by which others reach this worker.  Without it: that of --http-listen, or "
             "the host's name when that is 0.0.0.0 or [::]."},
    {.name = "machine-ids",
     .type = OPTION_NUMBER,
     .offset = FIELD(machine_ids),
     .argument = "N",
     .fallback = "1",
     .min = 1,
     .max = RECORD_MACHINES_MAX,
     .help = "How many machine IDs to hold, each with a serving thread of its own and 4,096,000 "
             "IDs a second."},
    {.name = "machine-id",
     .type = OPTION_NUMBER,
     .offset = FIELD(machine_id),
     .given_offset = FIELD(machine_id_given),
     .argument = "N",
     .max = SNOWFLAKE_MACHINE_ID_MAX,
     .help =
         "The machine ID that is wanted, if it is free; without it, any.  With --standalone: the "
         "one that is used, 0 without it; two standalone workers need two."},
    {.name = "standalone",
     .type = OPTION_BOOL,
     .offset = FIELD(standalone),
     .help = "Serve without etcd: what was granted is kept in --state-file on this machine."},
    {.name = "init",
     .type = OPTION_BOOL,
     .offset = FIELD(init),
     .help =
         "With --standalone, for the first start: make the state file.  Refused when it exists."},
    {.name = "adopt",
     .type = OPTION_BOOL,
     .offset = FIELD(adopt),
     .help = "With --standalone: take over a state file written on another host, where nobody must "
             "use it any more."},
    {.name = "state-file",
     .type = OPTION_STRING,
     .offset = FIELD(state_file),
     .argument = "FILE",
     .help = "With --standalone: where the horizon is kept; on a local disk, never copied or "
             "restored while the clock may go back.  With etcd: evidence for snowfleetctl recover "
             "and the machine IDs to ask for at the next start."},
    {.name = "window",
     .type = OPTION_DURATION,
     .offset = FIELD(window_ms),
     .given_offset = FIELD(window_given),
     .argument = "DURATION",
     .fallback = "60s",
     .min = 1000,
     .max = 3600000,
     .help = "How far ahead timestamps are granted: at least two thirds of it are left to serve "
             "from when etcd goes away, and a crash keeps the machine ID from others for as long.  "
             "At most the cluster's max_window.  With --standalone the default is 2s."},
    {.name = "claim-ahead",
     .type = OPTION_DURATION,
     .offset = FIELD(claim_ahead_ms),
     .given_offset = FIELD(claim_ahead_given),
     .argument = "DURATION",
     .fallback = "5s",
     .min = 0,
     .max = 60000,
     .help = "A machine ID whose horizon lies further in the future is passed over for another; up "
             "to that, the worker waits for it."},
    {.name = "assign-wait",
     .type = OPTION_DURATION,
     .offset = FIELD(assign_wait_ms),
     .given_offset = FIELD(assign_wait_given),
     .argument = "DURATION",
     .fallback = "20s",
     .min = 0,
     .max = 600000,
     .help = "How long to wait for the coordinator's assignment before choosing a free machine ID "
             "without it."},
    {.name = "lease-ttl",
     .type = OPTION_DURATION,
     .offset = FIELD(lease_ttl_ms),
     .given_offset = FIELD(lease_ttl_given),
     .argument = "DURATION",
     .fallback = "15s",
     .min = 2000,
     .max = 600000,
     .help = "How soon others see that this worker is gone; whole seconds.  Uniqueness does not "
             "rest on it."},
    {.name = "keepalive-interval",
     .type = OPTION_DURATION,
     .offset = FIELD(keepalive_interval_ms),
     .given_offset = FIELD(keepalive_interval_given),
     .argument = "DURATION",
     .fallback = "5s",
     .min = 500,
     .max = 300000,
     .help = "How often the leases are renewed; at most half of --lease-ttl."},
    {.name = "clock-strategy",
     .type = OPTION_CHOICE,
     .offset = FIELD(clock_strategy),
     .argument = "wait|offset|bounded",
     .fallback = "wait",
     .choices = strategies,
     .help =
         "What dates the IDs after the clock went back: wait until it has caught up, or go on by "
         "a logical offset that is worked off at 1/16 of the speed.  bounded: wait, and serve only while the clock's error is known and small; answers carry the interval.  All are equally unique."},
    {.name = "max-backward-wait",
     .type = OPTION_DURATION,
     .offset = FIELD(max_backward_wait_ms),
     .argument = "DURATION",
     .fallback = "10ms",
     .min = 0,
     .max = 10000,
     .help = "Steps back up to this are waited out by the caller; larger ones are answered at once "
             "with the time to wait."},
    {.name = "max-clock-offset",
     .type = OPTION_DURATION,
     .offset = FIELD(max_clock_offset_ms),
     .argument = "DURATION",
     .fallback = "10s",
     .min = 0,
     .max = 60000,
     .help =
         "With --clock-strategy=offset: steps back are bridged up to this, so far IDs may be "
         "ahead of the wall clock, and it takes 16 times as long to work off; beyond, as wait."},
    {.name = "max-forward-step",
     .type = OPTION_DURATION,
     .offset = FIELD(max_forward_step_ms),
     .argument = "DURATION",
     .fallback = "1s",
     .min = 0,
     .max = 60000,
     .help = "A step of the clock forward is taken over up to this; a larger one is coasted over, "
             "as if it had not been, until the coordinator, two peers or an operator confirm it: a "
             "clock that is wrong must not use up the future."},
    {.name = "max-alone-step",
     .type = OPTION_DURATION,
     .offset = FIELD(max_alone_step_ms),
     .argument = "DURATION",
     .fallback = "1m",
     .min = 0,
     .max = 3600000,
     .help = "A worker that is alone in its fleet confirms steps up to this by itself, as nobody "
             "else can; beyond, snowfleetctl clock accept is needed, or a restart."},
    {.name = "confirm-interval",
     .type = OPTION_DURATION,
     .offset = FIELD(confirm_interval_ms),
     .given_offset = FIELD(confirm_interval_given),
     .argument = "DURATION",
     .fallback = "2s",
     .min = 250,
     .max = 60000,
     .help = "How often up to eight peers are asked for the time while a step waits to be "
             "confirmed."},
    {.name = "clock-drift",
     .type = OPTION_NUMBER,
     .offset = FIELD(clock_drift_ppm),
     .argument = "PPM",
     .fallback = "200",
     .min = 1,
     .max = 10000,
     .help =
         "How fast the clock may drift while nobody corrects it, in millionths: a bound on its "
         "error grows by that since it was last told.  Quartz drifts by 100 at most; 200 leaves "
         "room for heat."},
    {.name = "chrony-port",
     .type = OPTION_NUMBER,
     .offset = FIELD(chrony_port),
     .argument = "PORT",
     .fallback = "323",
     .min = 0,
     .max = 65535,
     .help = "Where chronyd answers on 127.0.0.1 (its cmdport): it is asked for the bound on the "
             "clock's error, and the kernel where it does not answer.  0: it is not asked."},
    {.name = "max-clock-error",
     .type = OPTION_DURATION,
     .offset = FIELD(max_clock_error_ms),
     .argument = "DURATION",
     .fallback = "250ms",
     .min = 1,
     .max = 4000,
     .help = "With --clock-strategy=bounded: no IDs while the clock may be further off, or nobody "
             "knows how far.  A well-kept clock is within 50ms; commit_wait takes about as long as "
             "the error is large."},
    {.name = "max-commit-wait",
     .type = OPTION_DURATION,
     .offset = FIELD(max_commit_wait_ms),
     .argument = "DURATION",
     .fallback = "5s",
     .min = 1,
     .max = 8000,
     .help =
         "With --clock-strategy=bounded: a request with commit_wait=1 is answered with its IDs "
         "once their time is certainly past, or with an error after this; below the 10s that any "
         "answer may take."},
    {.name = "rotate-above",
     .type = OPTION_DURATION,
     .offset = FIELD(rotate_above_ms),
     .given_offset = FIELD(rotate_above_given),
     .argument = "DURATION",
     .fallback = "1s",
     .min = 10,
     .max = 3600000,
     .help =
         "When the clock was stepped back and has more than this to catch up, the worker takes "
         "another machine ID, if one is free and the new time is confirmed; less is sooner waited "
         "out."},
    {.name = "rotate-interval",
     .type = OPTION_DURATION,
     .offset = FIELD(rotate_interval_ms),
     .given_offset = FIELD(rotate_interval_given),
     .argument = "DURATION",
     .fallback = "1m",
     .min = 1000,
     .max = 3600000,
     .help =
         "At most once in that time, so that a clock that is stepped to and fro uses up no more "
         "than one machine ID in it."},
    {.name = "sequence-start",
     .type = OPTION_CHOICE,
     .offset = FIELD(sequence_start),
     .argument = "spread|zero",
     .fallback = "spread",
     .choices = starts,
     .help = "The first sequence number of a millisecond: rotating over 0..255, so that IDs modulo "
             "N spread evenly at low rates, or always 0."},
    {.name = "drain-timeout",
     .type = OPTION_DURATION,
     .offset = FIELD(drain_timeout_ms),
     .argument = "DURATION",
     .fallback = "4s",
     .min = 500,
     .max = 600000,
     .help = "From SIGTERM to the exit: requests under way are answered, machine IDs handed back, "
             "etcd or no etcd."},
    {.name = "max-connections",
     .type = OPTION_NUMBER,
     .offset = FIELD(max_connections),
     .argument = "N",
     .fallback = "4096",
     .min = 1,
     .max = 100000,
     .help =
         "For each serving thread, and as many again of gRPC; above it, clients are told 503 (of "
         "gRPC: closed), so that those that are served have room: a connection costs up to 32 "
         "KiB."},
    {.name = "max-connection-age",
     .type = OPTION_DURATION,
     .offset = FIELD(max_connection_age_ms),
     .argument = "DURATION",
     .fallback = "10m",
     .min = 0,
     .max = 86400000,
     .help =
         "A gRPC connection that is so old, give or take a tenth, is ended in good order, so that "
         "clients spread over new workers; 0s: never."},
    {.name = "client-token-file",
     .type = OPTION_STRING,
     .offset = FIELD(client_token_file),
     .argument = "FILE",
     .help = "Ask for a bearer token everywhere but on /livez and /readyz: one of this file, one a "
             "line, 16 to 256 printable characters each; blank lines and those that begin with # "
             "are left out; mode 0640 or stricter.  Read again when it changes.  Coordinators and "
             "snowfleetctl need --worker-token-file then."},
    {.name = "public-key-file",
     .type = OPTION_STRING,
     .offset = FIELD(public_key_file),
     .argument = "FILE",
     .help = "The keys of public IDs, one a line as VERSION:KEY, the version 1..31 and the key 32 "
             "hexadecimal digits (openssl rand -hex 16); blank lines and those that begin with # "
             "are left out.  The first one encodes, all of them decode.  The same on every worker; "
             "mode 0640 or stricter.  Read again when it changes.  Without it: no public IDs."},
#ifdef SNOWFLEET_TEST_CLOCK
    {.name = "clock-file",
     .type = OPTION_STRING,
     .offset = FIELD(clock_file),
     .argument = "FILE",
     .help = "Test builds only: a page that bends the clocks (common/clock.h)."},
#endif
    {.name = NULL},
};

static const struct option *const tables[] = {worker_options, etcd_options, log_options, NULL};

static const struct option_set options = {
    .program = "snowfleet-worker",
    .usage = "[OPTION]...",
    .summary = "Holds machine IDs under leases in etcd, or one in a file of this machine with "
               "--standalone, and serves unique 64-bit IDs over HTTP and gRPC.",
    .tables = tables,
    .extra_environment = known_environment,
};

static bool is_given(const struct values *values, const struct option *option) {
    const char *bytes = (const char *)values;

    if (option->given_offset)
        return *(const bool *)(bytes + option->given_offset);
    /* Text without a default shows by itself. */
    return option->type == OPTION_STRING &&
           *(const char *const *)(const void *)(bytes + option->offset) != NULL;
}

static enum status refuse_with(const char *name, const char *other, struct error *err) {
    return error_set(err, STATUS_INVALID, "--%s does not go with --%s", name, other);
}

/* Without etcd there is nothing for these to mean. */
static enum status check_standalone(const struct values *values, struct error *err) {
    static const char *const cluster_only[] = {
        "claim-ahead",      "assign-wait",  "lease-ttl",      "keepalive-interval",
        "confirm-interval", "rotate-above", "rotate-interval"};

    if (!values->state_file)
        return error_set(err, STATUS_INVALID, "--standalone needs --state-file=FILE");
    if (values->machine_ids > 1)
        return error_set(err, STATUS_INVALID,
                         "--machine-ids=%u does not go with --standalone: it uses one",
                         (unsigned)values->machine_ids);
    if (values->init && values->adopt)
        return refuse_with("adopt", "init", err);
    for (const struct option *option = etcd_options; option->name; option++)
        if (is_given(values, option))
            return refuse_with(option->name, "standalone", err);
    for (const struct option *option = worker_options; option->name; option++)
        for (size_t i = 0; i < sizeof cluster_only / sizeof cluster_only[0]; i++)
            if (strcmp(option->name, cluster_only[i]) == 0 && is_given(values, option))
                return refuse_with(option->name, "standalone", err);
    return STATUS_OK;
}

static enum status check_tls(const struct values *values, struct error *err) {
    bool cert = values->tls_cert_file != NULL, key = values->tls_key_file != NULL;

    if (cert != key)
        return error_set(err, STATUS_INVALID, "--tls-%s-file needs --tls-%s-file",
                         cert ? "cert" : "key", cert ? "key" : "cert");
    if (values->tls_client_ca_file && !cert)
        return error_set(err, STATUS_INVALID, "--tls-client-ca-file needs --tls-cert-file");
    if (cert && !values->grpc_listen[0])
        return error_set(err, STATUS_INVALID, "--tls-cert-file needs --grpc-listen");
    return STATUS_OK;
}

/* What no single option's range can say. */
static enum status check(const struct values *values, struct error *err) {
    if (check_tls(values, err) != STATUS_OK)
        return err->status;
    if (values->identity && identity_check(values->identity, err) != STATUS_OK)
        return error_context(err, "--identity");
    if (values->standalone)
        return check_standalone(values, err);
    if (values->init || values->adopt)
        return error_set(err, STATUS_INVALID, "--%s needs --standalone",
                         values->init ? "init" : "adopt");
    if (values->lease_ttl_ms % 1000 != 0)
        return error_set(err, STATUS_INVALID, "--lease-ttl=%llums: must be whole seconds, 2s..10m",
                         (unsigned long long)values->lease_ttl_ms);
    if (values->keepalive_interval_ms * 2 > values->lease_ttl_ms)
        return error_set(err, STATUS_INVALID,
                         "--keepalive-interval=%llums: must be at most half of --lease-ttl, %llums",
                         (unsigned long long)values->keepalive_interval_ms,
                         (unsigned long long)values->lease_ttl_ms / 2);
    return STATUS_OK;
}

static enum status make_config(struct values *values, struct worker_config *config,
                               struct error *err) {
    values->machine_id_wanted = (uint16_t)values->machine_id;
    *config = (struct worker_config){
        .clock = clock_system(),
        .cluster = values->shared.cluster,
        .identity = values->identity,
        .http_listen = values->http_listen,
        .grpc_listen = values->grpc_listen,
        .unix_socket = values->unix_socket,
        .tls_cert_file = values->tls_cert_file,
        .tls_key_file = values->tls_key_file,
        .tls_client_ca_file = values->tls_client_ca_file,
        .max_connection_age_ms = values->max_connection_age_ms,
        .advertise = values->advertise,
        .machine_ids = values->machine_ids,
        .machine_id = values->machine_id_given ? &values->machine_id_wanted : NULL,
        .standalone = values->standalone,
        .init = values->init,
        .adopt = values->adopt,
        .state_file = values->state_file,
        .window_ms = values->window_ms,
        .claim_ahead_ms = values->claim_ahead_ms,
        .assign_wait_ms = values->assign_wait_ms,
        .lease_ttl_ms = values->lease_ttl_ms,
        .keepalive_interval_ms = values->keepalive_interval_ms,
        .clock_limits = {.strategy = (enum clock_strategy)values->clock_strategy,
                         .max_forward_ns = (int64_t)values->max_forward_step_ms * NS_PER_MS,
                         .max_offset_ns = (int64_t)values->max_clock_offset_ms * NS_PER_MS,
                         .max_error_ns = (int64_t)values->max_clock_error_ms * NS_PER_MS,
                         .drift_ppm = (int64_t)values->clock_drift_ppm},
        .max_alone_step_ms = values->max_alone_step_ms,
        .confirm_interval_ms = values->confirm_interval_ms,
        .max_commit_wait_ms = values->max_commit_wait_ms,
        .chrony_port = (uint16_t)values->chrony_port,
        .rotate_above_ms = values->rotate_above_ms,
        .rotate_interval_ms = values->rotate_interval_ms,
        .max_backward_wait_ms = values->max_backward_wait_ms,
        .drain_timeout_ms = values->drain_timeout_ms,
        .start = (enum snowflake_start)values->sequence_start,
        .max_connections = (unsigned)values->max_connections,
        .client_token_file = values->client_token_file,
        .public_key_file = values->public_key_file};
#ifdef SNOWFLEET_TEST_CLOCK
    if (values->clock_file && clock_test_page(values->clock_file, &config->clock, err) != STATUS_OK)
        return error_context(err, "--clock-file");
#endif
    return etcd_options_config(&values->shared, &config->etcd, err);
}

/* How many servers each serving loop has, each of which takes --max-connections. */
static unsigned servers(const struct worker_config *config) {
    return config->grpc_listen[0] || config->unix_socket ? 2 : 1;
}

static enum status check_all(void *values, struct error *err) {
    struct values *all = values;

    if (check(all, err) != STATUS_OK)
        return err->status;
    if (all->standalone && !all->window_given)
        all->window_ms = STANDALONE_WINDOW_MS;
    return make_config(all, &all->config, err);
}

static enum status run(void *values, struct error *err) {
    struct values *all = values;

    descriptors_fit(OWN_DESCRIPTORS + LOOP_DESCRIPTORS * all->config.machine_ids,
                    all->config.machine_ids * servers(&all->config), &all->config.max_connections);
    return worker_run(&all->config, err);
}

int main(int argc, char **argv) {
    struct values values = {0};
    const struct daemon_main daemon = {
        .options = &options, .values = &values, .check = check_all, .run = run};

    return daemon_main(&daemon, argc, argv);
}
