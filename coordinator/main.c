/* snowfleet-coordinator: watches over the machine IDs of a cluster. */
#include <inttypes.h>
#include <stddef.h>

#include "common/daemon_main.h"
#include "common/etcd_options.h"
#include "coordinator/coordinator.h"

struct values {
    struct shared_options shared;
    char *http_listen, *advertise;
    uint64_t lease_ttl_ms, probe_interval_ms, ceiling_lead_ms, ceiling_interval_ms;
#ifdef SNOWFLEET_TEST_CLOCK
    char *clock_file;
#endif
    struct coordinator_config config; /* made of the above */
};
#define FIELD(name) offsetof(struct values, name)

static const struct option coordinator_options[] = {
    {.name = "http-listen",
     .type = OPTION_ADDRESS,
     .offset = FIELD(http_listen),
     .argument = "HOST:PORT",
     .fallback = "127.0.0.1:8090",
     .help = "Where to serve HTTP; port 0 takes a free one, which is logged."},
    {.name = "advertise",
     .type = OPTION_HOST,
     .offset = FIELD(advertise),
     .argument = "HOST",
     .help = "The host by which others reach this coordinator.  Without it: that of "
             "--http-listen, or the host's name when that is 0.0.0.0 or [::]."},
    {.name = "lease-ttl",
     .type = OPTION_DURATION,
     .offset = FIELD(lease_ttl_ms),
     .argument = "DURATION",
     .fallback = "10s",
     .min = 2000,
     .max = 600000,
     .help = "How soon another coordinator takes over from a leader that is gone; whole seconds.  "
             "Workers go on meanwhile."},
    {.name = "probe-interval",
     .type = OPTION_DURATION,
     .offset = FIELD(probe_interval_ms),
     .argument = "DURATION",
     .fallback = "10s",
     .min = 500,
     .max = 30000,
     .help = "How often the leader asks each worker's clock; a reading counts for 30s."},
    {.name = "ceiling-lead",
     .type = OPTION_DURATION,
     .offset = FIELD(ceiling_lead_ms),
     .argument = "DURATION",
     .fallback = "24h",
     .min = 60000,
     .max = UINT64_C(31) * 24 * 3600000,
     .help = "How far ahead of the clocks' consensus horizons may rise: so long the fleet serves "
             "without any coordinator."},
    {.name = "ceiling-interval",
     .type = OPTION_DURATION,
     .offset = FIELD(ceiling_interval_ms),
     .argument = "DURATION",
     .fallback = "60s",
     .min = 500,
     .max = 3600000,
     .help = "How often the ceiling is raised; the same for all coordinators, since a leader that "
             "misses three is suspect."},
#ifdef SNOWFLEET_TEST_CLOCK
    {.name = "clock-file",
     .type = OPTION_STRING,
     .offset = FIELD(clock_file),
     .argument = "FILE",
     .help = "Test builds only: a page that bends the clocks (common/clock.h)."},
#endif
    {.name = NULL},
};

static const struct option *const tables[] = {coordinator_options, etcd_options,
                                              towards_worker_options, log_options, NULL};

static const struct option_set options = {
    .program = "snowfleet-coordinator",
    .usage = "[OPTION]...",
    .summary = "Assigns machine IDs to workers and raises the ceiling of their horizons.  Run two "
               "or three: one leads, the others wait.",
    .tables = tables,
    .extra_environment = known_environment,
};

static enum status make_config(const struct values *values, struct coordinator_config *config,
                               struct error *err) {
    if (values->lease_ttl_ms % 1000 != 0)
        return error_set(err, STATUS_INVALID,
                         "--lease-ttl=%" PRIu64 "ms: must be whole seconds, 2s..10m",
                         values->lease_ttl_ms);
    *config = (struct coordinator_config){.clock = clock_system(),
                                          .cluster = values->shared.cluster,
                                          .http_listen = values->http_listen,
                                          .advertise = values->advertise,
                                          .lease_ttl_ms = values->lease_ttl_ms,
                                          .probe_interval_ms = values->probe_interval_ms,
                                          .ceiling_lead_ms = values->ceiling_lead_ms,
                                          .ceiling_interval_ms = values->ceiling_interval_ms,
                                          .worker_token_file = values->shared.worker_token_file};
#ifdef SNOWFLEET_TEST_CLOCK
    if (values->clock_file && clock_test_page(values->clock_file, &config->clock, err) != STATUS_OK)
        return error_context(err, "--clock-file");
#endif
    return etcd_options_config(&values->shared, &config->etcd, err);
}

static enum status check(void *values, struct error *err) {
    struct values *all = values;

    return make_config(all, &all->config, err);
}

static enum status run(void *values, struct error *err) {
    struct values *all = values;

    return coordinator_run(&all->config, err);
}

int main(int argc, char **argv) {
    struct values values = {0};
    const struct daemon_main daemon = {
        .options = &options, .values = &values, .check = check, .run = run};

    return daemon_main(&daemon, argc, argv);
}
