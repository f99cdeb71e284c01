#include "common/daemon_main.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/etcd_options.h"
#include "common/log.h"
#include "common/options_generate.h"
#include "common/options_load.h"
#include "common/quote.h"

#define EXIT_USAGE 64

static void log_option(void *arg, const char *name, const char *text) {
    (void)arg;
    log_info("options", "effective", LOG_STR("name", name), LOG_STR("value", text));
}

/* As many as the system lets us have: each client and each worker that is asked takes one. */
static void raise_descriptors(void) {
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        log_warn("daemon", "the limit of descriptors cannot be raised",
                 LOG_U64("hard_limit", limit.rlim_max), LOG_STR("reason", strerror(errno)));
}

void daemon_ends(void) {
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
}

static int run(const struct daemon_main *daemon) {
    const struct shared_options *shared = daemon->values;
    struct error err;

    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a write beyond a file's allowed size fails, and is answered for */
    log_init(daemon->options->program, (enum log_format)shared->log_format,
             (enum log_level)shared->log_level);
    raise_descriptors();
    options_visit(daemon->options, daemon->values, log_option, NULL);
    if (daemon->run(daemon->values, &err) == STATUS_OK)
        return EXIT_SUCCESS;
    log_error("daemon", "ended by a failure", LOG_STR("reason", err.message));
    fprintf(stderr, "%s: %s\n", daemon->options->program, err.message);
    return EXIT_FAILURE;
}

int daemon_main(const struct daemon_main *daemon, int argc, char **argv) {
    extern char **environ;
    const struct option_set *options = daemon->options;
    struct options_result result = {0};
    struct error err;
    char quoted[QUOTE_SIZE];
    enum status status;
    int code = EXIT_SUCCESS;

    if (options_generate_daemon(options, argc, argv, &code))
        return code;
    status = options_load(options, argc, argv, environ, daemon->values, &result, &err);
    if (status == STATUS_OK && result.help) {
        options_help(options, stdout);
        goto out;
    }
    if (status == STATUS_OK && result.version) {
        printf("%s %s\n", options->program, SNOWFLEET_VERSION);
        goto out;
    }
    if (status == STATUS_OK && result.first_operand < argc)
        status = error_set(
            &err, STATUS_INVALID, "unexpected argument: %s",
            quote(argv[result.first_operand], strlen(argv[result.first_operand]), quoted));
    if (status == STATUS_OK)
        status = daemon->check(daemon->values, &err);
    if (status == STATUS_OK) {
        code = run(daemon);
    } else {
        fprintf(stderr, "%s: %s\n", options->program, err.message);
        code = EXIT_USAGE;
    }
out:
    options_free(options, daemon->values);
    return code;
}
