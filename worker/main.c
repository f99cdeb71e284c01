/* snowfleet-worker: holds machine IDs and serves IDs. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/etcd_options.h"
#include "common/log.h"
#include "common/options_load.h"
#include "common/records.h"
#include "worker/worker.h"

#define EXIT_USAGE 64

struct values {
    struct shared_options shared;
    char *identity, *http_listen, *advertise;
    uint64_t machine_ids, machine_id;
    bool machine_id_given;
    uint64_t window_ms, claim_ahead_ms, assign_wait_ms, lease_ttl_ms, keepalive_interval_ms;
    uint64_t max_backward_wait_ms, drain_timeout_ms, max_connections;
    int clock_strategy;
    int sequence_start;
#ifdef SNOWFLEET_TEST_CLOCK
    char *clock_file;
#endif
};
#define FIELD(name) offsetof(struct values, name)

static const char *const strategies[] = {"wait", NULL};
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
    {.name = "advertise",
     .type = OPTION_STRING,
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
     .help = "The machine ID that is wanted, if it is free; without it, any."},
    {.name = "window",
     .type = OPTION_DURATION,
     .offset = FIELD(window_ms),
     .argument = "DURATION",
     .fallback = "60s",
     .min = 1000,
     .max = 3600000,
     .help = "How far ahead timestamps are granted: at least two thirds of it are left to serve "
             "from when etcd goes away, and a crash keeps the machine ID from others for as long.  "
             "At most the cluster's max_window."},
    {.name = "claim-ahead",
     .type = OPTION_DURATION,
     .offset = FIELD(claim_ahead_ms),
     .argument = "DURATION",
     .fallback = "5s",
     .min = 0,
     .max = 60000,
     .help = "A machine ID whose horizon lies further in the future is passed over for another; up "
             "to that, the worker waits for it."},
    {.name = "assign-wait",
     .type = OPTION_DURATION,
     .offset = FIELD(assign_wait_ms),
     .argument = "DURATION",
     .fallback = "20s",
     .min = 0,
     .max = 600000,
     .help = "How long to wait for the coordinator's assignment before choosing a free machine ID "
             "without it."},
    {.name = "lease-ttl",
     .type = OPTION_DURATION,
     .offset = FIELD(lease_ttl_ms),
     .argument = "DURATION",
     .fallback = "15s",
     .min = 2000,
     .max = 600000,
     .help = "How soon others see that this worker is gone; whole seconds.  Uniqueness does not "
             "rest on it."},
    {.name = "keepalive-interval",
     .type = OPTION_DURATION,
     .offset = FIELD(keepalive_interval_ms),
     .argument = "DURATION",
     .fallback = "5s",
     .min = 500,
     .max = 300000,
     .help = "How often the leases are renewed; at most half of --lease-ttl."},
    {.name = "clock-strategy",
     .type = OPTION_CHOICE,
     .offset = FIELD(clock_strategy),
     .argument = "wait",
     .fallback = "wait",
     .choices = strategies,
     .help = "What dates the IDs after the clock went back: wait until it has caught up."},
    {.name = "max-backward-wait",
     .type = OPTION_DURATION,
     .offset = FIELD(max_backward_wait_ms),
     .argument = "DURATION",
     .fallback = "10ms",
     .min = 0,
     .max = 10000,
     .help = "Steps back up to this are waited out by the caller; larger ones are answered at once "
             "with the time to wait."},
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
     .help = "For each serving thread; above it, clients are told 503."},
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
    .summary = "Holds machine IDs under leases in etcd and serves unique 64-bit IDs over HTTP.",
    .tables = tables,
    .extra_environment = known_environment,
};

static void log_option(void *arg, const char *name, const char *text) {
    (void)arg;
    log_info("options", "effective", LOG_STR("name", name), LOG_STR("value", text));
}

/* What no single option's range can say. */
static enum status check(const struct values *values, struct error *err) {
    if (!values->http_listen[0])
        return error_set(err, STATUS_INVALID, "--http-listen: must be HOST:PORT");
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

static enum status make_config(const struct values *values, uint16_t *machine_id,
                               struct worker_config *config, struct error *err) {
    *machine_id = (uint16_t)values->machine_id;
    *config = (struct worker_config){.clock = clock_system(),
                                     .cluster = values->shared.cluster,
                                     .identity = values->identity,
                                     .http_listen = values->http_listen,
                                     .advertise = values->advertise,
                                     .machine_ids = values->machine_ids,
                                     .machine_id = values->machine_id_given ? machine_id : NULL,
                                     .window_ms = values->window_ms,
                                     .claim_ahead_ms = values->claim_ahead_ms,
                                     .assign_wait_ms = values->assign_wait_ms,
                                     .lease_ttl_ms = values->lease_ttl_ms,
                                     .keepalive_interval_ms = values->keepalive_interval_ms,
                                     .max_backward_wait_ms = values->max_backward_wait_ms,
                                     .drain_timeout_ms = values->drain_timeout_ms,
                                     .start = (enum snowflake_start)values->sequence_start,
                                     .max_connections = (unsigned)values->max_connections};
#ifdef SNOWFLEET_TEST_CLOCK
    if (values->clock_file && clock_test_page(values->clock_file, &config->clock, err) != STATUS_OK)
        return error_context(err, "--clock-file");
#endif
    return etcd_options_config(&values->shared, &config->etcd, err);
}

/* As many descriptors as the system lets us have: connections, and etcd beside them. */
static void raise_descriptor_limit(void) {
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv) {
    extern char **environ;
    struct values values = {0};
    struct options_result result = {0};
    struct worker_config config;
    struct error err = {0};
    uint16_t machine_id;
    enum status status;

    status = options_load(&options, argc, argv, environ, &values, &result, &err);
    if (status == STATUS_OK && result.help) {
        options_help(&options, stdout);
        options_free(&options, &values);
        return EXIT_SUCCESS;
    }
    if (status == STATUS_OK && result.version) {
        printf("snowfleet-worker %s\n", SNOWFLEET_VERSION);
        options_free(&options, &values);
        return EXIT_SUCCESS;
    }
    if (status == STATUS_OK && result.first_operand < argc)
        status = error_set(&err, STATUS_INVALID, "unexpected argument: %.100s",
                           argv[result.first_operand]);
    if (status == STATUS_OK)
        status = check(&values, &err);
    if (status == STATUS_OK)
        status = make_config(&values, &machine_id, &config, &err);
    if (status != STATUS_OK) {
        fprintf(stderr, "snowfleet-worker: %s\n", err.message);
        options_free(&options, &values);
        return EXIT_USAGE;
    }
    signal(SIGPIPE, SIG_IGN);
    raise_descriptor_limit();
    log_init("snowfleet-worker", (enum log_format)values.shared.log_format,
             (enum log_level)values.shared.log_level);
    options_visit(&options, &values, log_option, NULL);
    status = worker_run(&config, &err);
    if (status != STATUS_OK) {
        log_error("worker", "cannot start", LOG_STR("reason", err.message));
        fprintf(stderr, "snowfleet-worker: %s\n", err.message);
    }
    options_free(&options, &values);
    return status == STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
