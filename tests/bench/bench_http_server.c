/* bench_http_server.c - one serving thread alone, without etcd, for a load generator to work on:
 *
 *   bench_http_server [HOST:PORT [SECONDS]]
 *
 * Machine ID 5 is granted for as long as it runs (an hour by default).  The IDs are for the bin. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/serving_fixture.h"

int main(int argc, char **argv) {
    static struct serving_fixture fixture;
    unsigned seconds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 3600;
    sigset_t end;
    int sig;

    sigemptyset(&end);
    sigaddset(&end, SIGINT);
    sigaddset(&end, SIGTERM);
    sigaddset(&end, SIGALRM);
    sigprocmask(SIG_BLOCK, &end, NULL);
    serving_fixture_init(&fixture);
    fixture.config.max_connections = 4096;
    serving_fixture_start(&fixture, argc > 1 ? argv[1] : "127.0.0.1:8080");
    serving_fixture_grant(&fixture, seconds * UINT64_C(1000));
    printf("%s\n", fixture.bound);
    fflush(stdout);
    alarm(seconds);
    sigwait(&end, &sig);
    serving_fixture_stop(&fixture);
    return EXIT_SUCCESS;
}
