/* etcd_process.h - a real etcd for a test: one member, on free loopback ports, in a temporary
 * folder of its own.  It dies with the test. */
#ifndef SNOWFLEET_TESTS_SUPPORT_ETCD_PROCESS_H
#define SNOWFLEET_TESTS_SUPPORT_ETCD_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

struct etcd_process {
    pid_t pid; /* 0: not running */
    int client_port, peer_port;
    char folder[64];             /* holds data/ and etcd.log */
    char url[40];                /* "http://127.0.0.1:12345" */
    const char *const *settings; /* more arguments, NULL-terminated, or NULL */
    bool tls;                    /* settings say so: then readiness is an open port only */
};

/* Starts one and waits until it serves.  settings must outlive it.  False: see its etcd.log, whose
 * end is printed. */
bool etcd_process_start(struct etcd_process *etcd, const char *const *settings, bool tls);
/* Sends SIGTERM or SIGKILL and waits for its end. */
void etcd_process_stop(struct etcd_process *etcd, int signal);
/* Starts it again on its data and ports, and waits until it serves. */
bool etcd_process_restart(struct etcd_process *etcd);
/* SIGSTOP; returns when it stands. */
void etcd_process_pause(struct etcd_process *etcd);
void etcd_process_resume(struct etcd_process *etcd);
/* Kills it and removes its folder. */
void etcd_process_done(struct etcd_process *etcd);

/* A loopback port that nobody uses now. */
int free_port(void);

#endif
