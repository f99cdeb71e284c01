#include "worker/worker_internal.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/http_server.h"
#include "common/unix_listen.h"

#define TLS_LOOK_MS 1000u

/* ---- TLS ---- */

static struct grpc_tls_files tls_files(const struct worker_config *config) {
    return (struct grpc_tls_files){.cert = config->tls_cert_file,
                                   .key = config->tls_key_file,
                                   .client_ca = config->tls_client_ca_file};
}

/* A fingerprint of what the names lead to; links are followed, so a Kubernetes secret that is switched
 * shows. */
static uint64_t look_at(const struct grpc_tls_files *files) {
    const char *const names[] = {files->cert, files->key, files->client_ca};
    uint64_t mixed = 0;

    for (size_t i = 0; i < 3; i++) {
        struct stat about = {0};
        uint64_t parts[6];

        if (names[i])
            (void)stat(names[i], &about); /* gone: all zero */
        parts[0] = (uint64_t)about.st_dev;
        parts[1] = (uint64_t)about.st_ino;
        parts[2] = (uint64_t)about.st_size;
        parts[3] = (uint64_t)about.st_mtim.tv_sec;
        parts[4] = (uint64_t)about.st_mtim.tv_nsec;
        parts[5] = (uint64_t)about.st_ctim.tv_nsec;
        for (size_t k = 0; k < 6; k++)
            mixed = (mixed ^ parts[k]) * UINT64_C(0x9e3779b97f4a7c15) + (mixed >> 29);
    }
    return mixed;
}

static enum status open_tls(struct worker *worker, struct error *err) {
    struct grpc_tls_files files = tls_files(worker->config);

    if (!files.cert)
        return STATUS_OK;
    worker->tls_seen = look_at(&files);
    return grpc_tls_load(&files, &worker->grpc_tls, err);
}

static void hand_out_tls(struct worker *worker, struct grpc_tls *tls) {
    for (size_t i = 0; i < worker->n_slots; i++) {
        struct serving_order order = {.kind = SERVING_TLS, .grpc_tls = grpc_tls_ref(tls)};

        serving_order(worker->slots[i].serving, &order);
    }
    grpc_tls_unref(worker->grpc_tls);
    worker->grpc_tls = tls;
}

/* What cannot be used is tried again, since the files of a pair may be replaced one after the other. */
void worker_look_at_tls(struct worker *worker, struct instant now) {
    struct grpc_tls_files files = tls_files(worker->config);
    struct grpc_tls *tls;
    struct error err;
    uint64_t seen;

    if (!worker->grpc_tls || now.boot_ms - worker->tls_looked_boot_ms < TLS_LOOK_MS)
        return;
    worker->tls_looked_boot_ms = now.boot_ms;
    seen = look_at(&files);
    if (seen == worker->tls_seen && worker->tls_trouble.count == 0)
        return;
    if (grpc_tls_load(&files, &tls, &err) != STATUS_OK) {
        log_repeat_failed(&worker->tls_trouble, now.boot_ms, "tls",
                          "the files cannot be used, those read last stay", err.message);
        return;
    }
    worker->tls_seen = seen;
    log_repeat_ended(&worker->tls_trouble, now.boot_ms, "tls", "the files can be used again");
    log_info("tls", "changed", LOG_STR("cert_file", files.cert));
    hand_out_tls(worker, tls);
}

/* ---- listeners ---- */

enum status worker_open_grpc(struct worker *worker, struct error *err) {
    const struct worker_config *config = worker->config;

    if (open_tls(worker, err) != STATUS_OK)
        return err->status;
    if (config->grpc_listen[0] &&
        http_listen(config->grpc_listen, &worker->grpc_fd, worker->grpc_bound,
                    sizeof worker->grpc_bound, err) != STATUS_OK)
        return error_context(err, "--grpc-listen");
    if (config->unix_socket && unix_listen(config->unix_socket, &worker->unix_fd, err) != STATUS_OK)
        return error_context(err, "--unix-socket");
    return STATUS_OK;
}

void worker_tell_grpc(const struct worker *worker) {
    if (worker->grpc_fd >= 0)
        log_info("grpc", "listening", LOG_STR("address", worker->grpc_bound),
                 LOG_BOOL("tls", worker->grpc_tls != NULL));
    if (worker->unix_fd >= 0)
        log_info("grpc", "listening", LOG_STR("path", worker->config->unix_socket));
    if (worker->grpc_tls)
        log_warn("tls", "--tls-cert-file is for gRPC: HTTP is without TLS",
                 LOG_STR("http_listen", worker->config->http_listen));
}

void worker_close_grpc(struct worker *worker) {
    if (worker->grpc_fd >= 0)
        close(worker->grpc_fd);
    if (worker->unix_fd >= 0) {
        unlink(worker->config->unix_socket);
        close(worker->unix_fd);
    }
    grpc_tls_unref(worker->grpc_tls);
}
