#include "tests/support/etcd_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_TIMEOUT_MS 20000

static struct sockaddr_in loopback(int port) {
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

int free_port(void) {
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        perror("free_port");
        exit(1);
    }
    close(fd);
    return ntohs(address.sin_port);
}

/* One look: 200 on /health, or with TLS an open port. */
static bool serves(const struct etcd_process *etcd) {
    static const char request[] = "GET /health HTTP/1.0\r\n\r\n";
    const struct timeval patience = {.tv_sec = 2};
    struct sockaddr_in address = loopback(etcd->client_port);
    char answer[64] = "";
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = false;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        ok = etcd->tls ||
             (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) > 0 &&
              recv(fd, answer, sizeof answer - 1, 0) > 12 && strncmp(answer + 8, " 200", 4) == 0);
    close(fd);
    return ok;
}

static void print_log(const struct etcd_process *etcd) {
    char command[128];

    snprintf(command, sizeof command, "tail -n 20 %s/etcd.log >&2", etcd->folder);
    if (system(command) != 0)
        fprintf(stderr, "%s: no log\n", etcd->folder);
}

static _Noreturn void run_etcd(const struct etcd_process *etcd, pid_t parent) {
    char data[80], log[80], peer_url[40], cluster[48];
    const char *argv[40] = {"etcd", "--name", "t", "--data-dir", data};
    size_t n = 5, i;
    int fd;

    snprintf(data, sizeof data, "%s/data", etcd->folder);
    snprintf(log, sizeof log, "%s/etcd.log", etcd->folder);
    snprintf(peer_url, sizeof peer_url, "http://127.0.0.1:%d", etcd->peer_port);
    snprintf(cluster, sizeof cluster, "t=%s", peer_url);
    argv[n++] = "--listen-client-urls";
    argv[n++] = etcd->url;
    argv[n++] = "--advertise-client-urls";
    argv[n++] = etcd->url;
    argv[n++] = "--listen-peer-urls";
    argv[n++] = peer_url;
    argv[n++] = "--initial-advertise-peer-urls";
    argv[n++] = peer_url;
    argv[n++] = "--initial-cluster";
    argv[n++] = cluster;
    for (i = 0; etcd->settings && etcd->settings[i] && n < 39; i++)
        argv[n++] = etcd->settings[i];
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
        _exit(127);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_DFL);
    if (getppid() == parent) /* else the test is gone already */
        execvp("etcd", (char *const *)argv);
    _exit(127);
}

bool etcd_process_restart(struct etcd_process *etcd) {
    const struct timespec pause = {.tv_nsec = 20000000};
    pid_t parent = getpid();
    int tries;

    etcd->pid = fork();
    if (etcd->pid == 0)
        run_etcd(etcd, parent);
    for (tries = 0; etcd->pid > 0 && tries < START_TIMEOUT_MS / 20; tries++) {
        if (serves(etcd))
            return true;
        if (waitpid(etcd->pid, NULL, WNOHANG) != 0) {
            etcd->pid = 0;
            break;
        }
        nanosleep(&pause, NULL);
    }
    print_log(etcd);
    return false;
}

bool etcd_process_start(struct etcd_process *etcd, const char *const *settings, bool tls) {
    const char *where = getenv("TMPDIR");

    *etcd = (struct etcd_process){.settings = settings, .tls = tls};
    snprintf(etcd->folder, sizeof etcd->folder, "%.30s/snowfleet-etcd-XXXXXX",
             where ? where : "/tmp");
    if (!mkdtemp(etcd->folder)) {
        perror(etcd->folder);
        return false;
    }
    etcd->client_port = free_port();
    etcd->peer_port = free_port();
    snprintf(etcd->url, sizeof etcd->url, "%s://127.0.0.1:%d", tls ? "https" : "http",
             etcd->client_port);
    return etcd_process_restart(etcd);
}

void etcd_process_stop(struct etcd_process *etcd, int signal) {
    if (etcd->pid <= 0)
        return;
    kill(etcd->pid, signal);
    kill(etcd->pid, SIGCONT); /* a paused one does not hear SIGTERM */
    waitpid(etcd->pid, NULL, 0);
    etcd->pid = 0;
}

void etcd_process_pause(struct etcd_process *etcd) {
    kill(etcd->pid, SIGSTOP);
    waitpid(etcd->pid, NULL, WUNTRACED);
}

void etcd_process_resume(struct etcd_process *etcd) {
    kill(etcd->pid, SIGCONT);
}

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *ftw) {
    (void)status, (void)flag, (void)ftw;
    return remove(path);
}

void etcd_process_done(struct etcd_process *etcd) {
    etcd_process_stop(etcd, SIGKILL);
    if (etcd->folder[0])
        nftw(etcd->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    *etcd = (struct etcd_process){0};
}
