/* The promise under random schedules: thousands of small clusters, each from a seed of its own.
 *
 *   scenario_hold_sim [--schedules N] [--seconds N] [--first SEED]
 *   scenario_hold_sim --seed N          that one schedule again, with a trace
 *   ... --expect-violation              for mutants: passes when a schedule fails
 *   ... --duplicates-only               looks at nothing but IDs issued twice */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/scenario/sim.h"

static struct {
    uint64_t schedules, seconds, first, seed;
    bool one, expect_violation;
    struct sim_options sim;
} options = {.schedules = 20000, .seconds = 20, .first = 1};

static volatile sig_atomic_t current_seed_low, current_seed_high;

static int usage(void) {
    fputs("usage: scenario_hold_sim [--schedules N] [--seconds N] [--first SEED] [--seed N]\n"
          "                         [--expect-violation] [--duplicates-only]\n",
          stderr);
    return 64;
}

static bool parse(int argc, char **argv) {
    int i;

    for (i = 1; i < argc; i++) {
        uint64_t *number = !strcmp(argv[i], "--schedules") ? &options.schedules
                           : !strcmp(argv[i], "--seconds") ? &options.seconds
                           : !strcmp(argv[i], "--first")   ? &options.first
                           : !strcmp(argv[i], "--seed")    ? &options.seed
                                                           : NULL;

        if (number) {
            char *end;

            options.one = options.one || number == &options.seed;
            if (++i == argc)
                return false;
            *number = strtoull(argv[i], &end, 10);
            if (!*argv[i] || *end)
                return false;
        } else if (!strcmp(argv[i], "--expect-violation")) {
            options.expect_violation = true;
        } else if (!strcmp(argv[i], "--duplicates-only")) {
            options.sim.duplicates_only = true;
        } else {
            return false;
        }
    }
    return true;
}

/* An assertion of the code under test: say which seed it was. */
static void on_abort(int signal_number) {
    static const char text[] = "the schedule that was running: --seed ";
    uint64_t seed = (uint64_t)current_seed_high << 31 | (uint64_t)current_seed_low;
    char digits[24];
    size_t at = sizeof(digits);

    (void)signal_number;
    digits[--at] = '\n';
    do
        digits[--at] = (char)('0' + seed % 10);
    while (seed /= 10);
    if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0 ||
        write(STDERR_FILENO, digits + at, sizeof(digits) - at) < 0)
        _exit(1);
    _exit(options.expect_violation ? 0 : 1);
}

static void run(uint64_t seed, struct sim_result *result) {
    current_seed_low = (sig_atomic_t)(seed & 0x7fffffff);
    current_seed_high = (sig_atomic_t)(seed >> 31 & 0x7fffffff);
    sim_run(seed, &options.sim, result);
}

static int replay(void) {
    struct sim_result result;

    options.sim.trace = stdout;
    setvbuf(stdout, NULL, _IOLBF, 0); /* all of it before an assertion ends the program */
    run(options.seed, &result);
    if (!result.violation[0]) {
        fprintf(stderr, "seed %" PRIu64 ": nothing wrong\n", options.seed);
        return 0;
    }
    fprintf(stderr, "seed %" PRIu64 ": %s\n", options.seed, result.violation);
    return 1;
}

static void add(struct sim_result *sum, const struct sim_result *one) {
    sum->events += one->events;
    sum->faults += one->faults;
    sum->counts.ids += one->counts.ids;
    sum->counts.claims += one->counts.claims;
    sum->counts.extensions += one->counts.extensions;
    sum->counts.releases += one->counts.releases;
    sum->lost += one->lost;
    sum->unknown += one->unknown;
    sum->restores += one->restores;
    sum->resumes += one->resumes;
}

int main(int argc, char **argv) {
    struct sim_result sum = {.violation = ""}, result;
    struct timespec start, now;
    uint64_t i, failures = 0;

    if (!parse(argc, argv))
        return usage();
    signal(SIGABRT, on_abort);
    if (options.one)
        return replay();
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (i = 0; i < options.schedules && failures < 5; i++) {
        uint64_t seed = options.first + i;

        run(seed, &result);
        add(&sum, &result);
        if (result.violation[0]) {
            printf("seed %" PRIu64 ", schedule %" PRIu64 ": %s\n", seed, i + 1, result.violation);
            failures++;
            if (options.expect_violation)
                return 0;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((uint64_t)(now.tv_sec - start.tv_sec) >= options.seconds) {
            i++;
            break;
        }
    }
    printf("%" PRIu64 " schedules, %" PRIu64 " failed: %" PRIu64 " events, %" PRIu64
           " faults, %" PRIu64 " IDs, %" PRIu64 " claims, %" PRIu64 " resumed, %" PRIu64
           " extensions, %" PRIu64 " releases, %" PRIu64 " lost, %" PRIu64
           " unknown outcomes, %" PRIu64 " restores\n",
           i, failures, sum.events, sum.faults, sum.counts.ids, sum.counts.claims, sum.resumes,
           sum.counts.extensions, sum.counts.releases, sum.lost, sum.unknown, sum.restores);
    if (options.expect_violation) {
        printf("this mutant was not noticed\n");
        return 1;
    }
    return failures ? 1 : 0;
}
