#include "coordinator/coordinator.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "common/allocate.h"
#include "common/daemon_main.h"
#include "common/descriptors.h"
#include "common/http_client.h"
#include "common/http_server.h"
#include "common/log.h"
#include "common/random.h"
#include "common/supervisor.h"
#include "common/token_file.h"
#include "coordinator/assigner.h"
#include "coordinator/clocks.h"
#include "coordinator/cluster.h"
#include "coordinator/election.h"
#include "coordinator/evictor.h"
#include "coordinator/page.h"
#include "coordinator/pulse.h"
#include "coordinator/raiser.h"
#include "coordinator/rollback.h"
#include "coordinator/skew_history.h"
#include "coordinator/web.h"

#define TICK_MS 100u
#define RESIGN_MS 3000u        /* what handing over may take when we are told to stop */
#define LIVEZ_TIMEOUT_MS 2000u /* of another coordinator */
#define HOST_MAX 256
#define CONNECTIONS_MAX MACHINE_IDS /* of clients, and as many kept open towards workers */
#define FEW_AT_A_TIME (CLOCKS_NEAR_AT_A_TIME + 16) /* requests to all but far workers */
#define OWN_DESCRIPTORS 64u                        /* for etcd, and all that is no connection */

struct coordinator {
    const struct coordinator_config *config;
    uv_loop_t loop;
    uv_timer_t tick, limit;
    uv_signal_t on_term, on_int;

    struct keys keys;
    struct leader self;
    struct etcd_http *etcd_http;
    struct etcd etcd;
    struct etcd_watch *watch;
    struct http_client *client;
    unsigned far_at_a_time;    /* clocks of far workers */
    struct token_file *tokens; /* for workers; NULL: none */
    struct http_server *server;

    struct cluster *cluster;
    struct election *election;
    struct clocks *clocks;
    struct assigner *assigner;
    struct evictor *evictor;
    struct raiser *raiser;
    struct rollback *rollback;
    struct skew_history *history;
    struct pulse *pulse;
    struct page *page;
    struct web web;

    struct log_repeat etcd_trouble, election_trouble;
    char trouble[256]; /* as web shows it; logged when it changes */
    bool stopping, closing;
    unsigned to_close; /* of what closes from the loop, that which is still open */
};

static uint64_t boot_now(const struct coordinator *self) {
    return clock_now(&self->config->clock).boot_ms;
}

/* Leads, and etcd is still in the history that it was in. */
static bool may_act(const struct coordinator *self) {
    return election_leads(self->election) && rollback_fence(self->rollback);
}

/* ---- the keys ---- */

static void on_events(void *arg, const struct etcd_event *events, size_t n) {
    struct coordinator *self = arg;

    cluster_events(self->cluster, events, n, boot_now(self));
    rollback_events(self->rollback, events, n);
    for (size_t i = 0; i < n; i++) {
        uint16_t machine_id;

        election_event(self->election, &events[i]);
        if (events[i].kind == ETCD_EVENT_PUT &&
            keys_machine_id(self->keys.own, events[i].key, &machine_id))
            assigner_saw_own(self->assigner, machine_id);
    }
    /* No need to wait for the tick: a worker may be asking. */
    if (may_act(self))
        assigner_tick(self->assigner);
}

static void on_measured(void *arg, struct member *member) {
    struct coordinator *self = arg;

    if (may_act(self))
        assigner_consider(self->assigner, member);
}

static void on_fence_held(void *arg) {
    struct coordinator *self = arg;

    assigner_tick(self->assigner);
}

/* Why nothing can be assigned, whoever leads. */
static void find_trouble(const struct coordinator *self, char *reason, size_t size) {
    const struct cluster *cluster = self->cluster;

    reason[0] = '\0';
    if (!cluster->complete)
        snprintf(reason, size, "etcd has not been read yet");
    else if (rollback_alarm(self->rollback)[0])
        snprintf(reason, size, "etcd's history went back: %s", rollback_alarm(self->rollback));
    else if (!cluster->meta_value)
        snprintf(reason, size, "meta is missing: snowfleetctl init makes it");
    else if (!cluster->has_meta)
        snprintf(reason, size, "%s", cluster->meta_error.message);
    else if (cluster->meta.mode == META_FROZEN)
        snprintf(reason, size, "frozen: %s", cluster->meta.reason);
    else if (!cluster->has_ceil)
        snprintf(reason, size, "ceil is %s", cluster->ceil_value ? "unreadable" : "missing");
}

static void watch_trouble(struct coordinator *self) {
    const struct etcd_http_stats *stats = etcd_http_stats(self->etcd_http);
    char reason[sizeof self->trouble];

    if (stats->failures_in_row > 0)
        log_repeat_failed(&self->etcd_trouble, boot_now(self), "etcd", "no good answer",
                          stats->last_error.message);
    else
        log_repeat_ended(&self->etcd_trouble, boot_now(self), "etcd", "answers again");
    find_trouble(self, reason, sizeof reason);
    if (strcmp(reason, self->trouble) == 0)
        return;
    memcpy(self->trouble, reason, sizeof reason);
    if (reason[0])
        log_warn("cluster", "nothing can be assigned", LOG_STR("reason", reason));
    else
        log_info("cluster", "open", LOG_STR("era", self->cluster->meta.era));
}

static void look_at_tokens(struct coordinator *self) {
    if (self->tokens && token_file_look(self->tokens, boot_now(self)))
        http_client_authorize(self->client, token_file_header(self->tokens));
}

static void note_history(struct coordinator *self) {
    const struct cluster *cluster = self->cluster;
    struct survey survey;

    if (!cluster->has_meta || !skew_history_due(self->history, boot_now(self)))
        return;
    clocks_survey(self->clocks, &survey);
    for (size_t i = 0; i < survey.n; i++) {
        const struct survey_node *node = &survey.nodes[i];
        struct skew skew = {0, 0};
        bool known = node->facts.heard && survey.consensus.found;

        /* Also where two clocks differ and nobody can be accused: from the middle between them. */
        if (known)
            skew = consensus_offset(&survey.consensus, &node->skew);
        skew_history_add(self->history, node->member->instance, node->member->node.identity,
                         node->machine_ids, node->n_machine_ids, known ? &skew : NULL);
    }
    survey_done(&survey);
}

static void on_tick(uv_timer_t *timer) {
    struct coordinator *self = timer->data;

    supervisor_alive(boot_now(self));
    look_at_tokens(self);
    election_tick(self->election);
    watch_trouble(self);
    /* Each coordinator watches the clocks, whoever leads and whatever state etcd is in: what it
     * knows is there when it comes to lead, and any of them can be asked. */
    clocks_tick(self->clocks);
    note_history(self);
    pulse_tick(self->pulse);
    if (!may_act(self))
        return;
    assigner_tick(self->assigner);
    evictor_tick(self->evictor);
    raiser_tick(self->raiser);
}

/* ---- the election ---- */

static void on_moved(void *arg, enum election_state from, enum election_state to,
                     const char *reason) {
    struct coordinator *self = arg;

    log_info("election", "moved", LOG_STR("from", election_state_name(from)),
             LOG_STR("to", election_state_name(to)), LOG_STR("reason", reason),
             LOG_STR("instance", self->self.instance));
    supervisor_status(election_state_name(to));
    if (to == ELECTION_LEADING)
        raiser_begin(self->raiser);
}

static void on_trouble(void *arg, const struct error *err) {
    struct coordinator *self = arg;

    if (err)
        log_repeat_failed(&self->election_trouble, boot_now(self), "election", "cannot take part",
                          err->message);
    else
        log_repeat_ended(&self->election_trouble, boot_now(self), "election", "takes part again");
}

static void on_livez(void *arg, const struct error *err, const struct http_result *result) {
    struct coordinator *self = arg;

    if (err && err->status == STATUS_CANCELLED)
        return;
    /* Whatever it answers: something there turns. */
    election_livez(self->election, !err && result->http_status > 0);
}

static void ask_livez(void *arg, const char *http_address) {
    struct coordinator *self = arg;
    char url[RECORD_ADDRESS_MAX + 32];

    snprintf(url, sizeof url, "http://%s/livez", http_address[0] ? http_address : "unknown:0");
    http_client_send(self->client, &(struct http_request){.url = url,
                                                          .timeout_ms = LIVEZ_TIMEOUT_MS,
                                                          .max_bytes = 65536,
                                                          .repeatable = true,
                                                          .done = on_livez,
                                                          .arg = self});
}

static void on_removed(void *arg, const char *leader_value, const struct error *err) {
    (void)arg;
    if (err)
        log_warn("election", "a silent leader could not be removed",
                 LOG_STR("leader", leader_value), LOG_STR("reason", err->message));
    else
        log_warn("election", "removed a leader that does not lead",
                 LOG_STR("leader", leader_value));
}

/* ---- the end ---- */

static void on_handle_closed(uv_handle_t *handle) {
    struct coordinator *self = handle->data;

    self->to_close--;
}

static void on_part_closed(void *arg) {
    struct coordinator *self = arg;

    self->to_close--;
}

static void close_handle(struct coordinator *self, uv_handle_t *handle) {
    self->to_close++;
    uv_close(handle, on_handle_closed);
}

/* The loop ends when all of it is closed. */
static void close_all(struct coordinator *self) {
    if (self->closing)
        return;
    self->closing = true;
    close_handle(self, (uv_handle_t *)&self->tick);
    close_handle(self, (uv_handle_t *)&self->limit);
    close_handle(self, (uv_handle_t *)&self->on_term);
    close_handle(self, (uv_handle_t *)&self->on_int);
    daemon_ends();
    self->to_close += 3;
    http_server_close(self->server, on_part_closed, self);
    http_client_close(self->client, on_part_closed, self);
    etcd_http_close(self->etcd_http, on_part_closed, self);
}

static void on_limit(uv_timer_t *timer) {
    struct coordinator *self = timer->data;

    log_warn("election", "etcd did not answer: the lease ends by itself",
             LOG_INT("lease_ttl_s", self->config->lease_ttl_ms / 1000));
    close_all(self);
}

static void on_resigned(void *arg) {
    struct coordinator *self = arg;

    close_all(self);
}

static void on_signal(uv_signal_t *signal, int number) {
    struct coordinator *self = signal->data;

    if (self->stopping)
        return;
    self->stopping = true;
    supervisor_stopping();
    log_info("coordinator", "stopping", LOG_STR("signal", strsignal(number)));
    http_server_drain(self->server);
    uv_timer_stop(&self->tick);
    uv_timer_start(&self->limit, on_limit, RESIGN_MS, 0);
    election_resign(self->election, on_resigned, self);
}

/* ---- the start ---- */

/* The address that others reach us by: the host as advertised, the port as bound. */
static enum status advertise(const struct coordinator_config *config, const char *bound, char *out,
                             size_t size, struct error *err) {
    const char *port = strrchr(bound, ':');
    char host[HOST_MAX];
    bool any = strncmp(bound, "0.0.0.0:", 8) == 0 || strncmp(bound, "[::]:", 5) == 0;
    bool bare_v6;

    if (config->advertise) {
        snprintf(host, sizeof host, "%s", config->advertise);
    } else if (any) {
        if (gethostname(host, sizeof host - 1) != 0)
            return error_set(err, STATUS_SYSTEM, "host name: %s", strerror(errno));
        host[sizeof host - 1] = '\0';
    } else {
        snprintf(host, sizeof host, "%.*s", (int)(port - bound), bound);
    }
    bare_v6 = strchr(host, ':') && host[0] != '[';
    snprintf(out, size, "%s%s%s%s", bare_v6 ? "[" : "", host, bare_v6 ? "]" : "", port);
    return STATUS_OK;
}

/* What others could not read must not get into etcd. */
static enum status check_self(const struct coordinator *self, struct error *err) {
    char *text = leader_format(&self->self);
    struct leader unused;
    enum status status = leader_parse(text, strlen(text), &unused, err);

    free(text);
    return status == STATUS_OK ? status : error_context(err, "--advertise");
}

static void make_parts(struct coordinator *self) {
    const struct coordinator_config *config = self->config;

    self->etcd = etcd_http_interface(self->etcd_http);
    self->cluster = cluster_new(&self->keys);
    self->election = election_new(&(struct election_config){
        .etcd = self->etcd,
        .clock = config->clock,
        .keys = &self->keys,
        .self = self->self,
        .ttl_s = config->lease_ttl_ms / 1000,
        .ceiling_interval_ms = config->ceiling_interval_ms,
        .moved = on_moved,
        .ask_livez = ask_livez,
        .trouble = on_trouble,
        .removed = on_removed,
        .arg = self,
    });
    self->clocks = clocks_new(&(struct clocks_config){
        .client = self->client,
        .clock = config->clock,
        .cluster = self->cluster,
        .probe_interval_ms = config->probe_interval_ms,
        .timeout_ms = CLOCKS_TIMEOUT_MS,
        .far_at_a_time = self->far_at_a_time,
        .measured = on_measured,
        .arg = self,
    });
    self->assigner = assigner_new(&(struct assigner_config){
        .etcd = self->etcd,
        .clock = config->clock,
        .cluster = self->cluster,
        .clocks = self->clocks,
        .election = self->election,
    });
    self->evictor = evictor_new(&(struct evictor_config){
        .etcd = self->etcd,
        .clock = config->clock,
        .client = self->client,
        .cluster = self->cluster,
        .election = self->election,
    });
    self->raiser = raiser_new(&(struct raiser_config){
        .etcd = self->etcd,
        .clock = config->clock,
        .cluster = self->cluster,
        .clocks = self->clocks,
        .election = self->election,
        .lead_ms = config->ceiling_lead_ms,
        .interval_ms = config->ceiling_interval_ms,
    });
    self->rollback = rollback_new(&(struct rollback_config){
        .etcd = self->etcd,
        .clock = config->clock,
        .keys = &self->keys,
        .election = self->election,
        .held = on_fence_held,
        .arg = self,
    });
    self->history = skew_history_new();
    self->pulse = pulse_new(&(struct pulse_config){
        .client = self->client,
        .clock = config->clock,
        .cluster = self->cluster,
        .interval_ms = config->probe_interval_ms,
    });
    self->page = page_new();
    self->web = (struct web){
        .clock = config->clock,
        .cluster_name = config->cluster,
        .instance = self->self.instance,
        .cluster = self->cluster,
        .clocks = self->clocks,
        .election = self->election,
        .assigner = self->assigner,
        .evictor = self->evictor,
        .raiser = self->raiser,
        .rollback = self->rollback,
        .history = self->history,
        .etcd = self->etcd_http,
        .trouble = self->trouble,
        .page = self->page,
    };
}

static void init_handles(struct coordinator *self) {
    uv_timer_init(&self->loop, &self->tick);
    uv_timer_init(&self->loop, &self->limit);
    uv_signal_init(&self->loop, &self->on_term);
    uv_signal_init(&self->loop, &self->on_int);
    self->tick.data = self->limit.data = self->on_term.data = self->on_int.data = self;
    uv_timer_start(&self->tick, on_tick, 0, TICK_MS);
    uv_signal_start(&self->on_term, on_signal, SIGTERM);
    uv_signal_start(&self->on_int, on_signal, SIGINT);
}

static void run(struct coordinator *self, const char *bound) {
    char prefix_end[KEY_MAX];
    const struct etcd_key_range all = {.key = self->keys.prefix, .range_end = prefix_end};

    init_handles(self);
    etcd_prefix_end(self->keys.prefix, prefix_end, sizeof prefix_end);
    self->watch = self->etcd.watch(self->etcd.self, &all, 1, on_events, self);
    log_info("http", "listening", LOG_STR("address", bound),
             LOG_STR("advertised", self->self.addresses.http),
             LOG_STR("instance", self->self.instance));
    supervisor_ready();
    uv_run(&self->loop, UV_RUN_DEFAULT);
    assert(self->to_close == 0);
}

/* What was made before a failure, or after the run; the clients are closed already. */
static void free_parts(struct coordinator *self) {
    skew_history_free(self->history);
    web_done(&self->web);
    page_free(self->page);
    pulse_free(self->pulse);
    rollback_free(self->rollback);
    raiser_free(self->raiser);
    evictor_free(self->evictor);
    assigner_free(self->assigner);
    clocks_free(self->clocks);
    election_free(self->election);
    cluster_free(self->cluster);
}

static void nothing(void *arg) {
    (void)arg;
}

static enum status open_tokens(struct coordinator *self, struct error *err) {
    const char *name = self->config->worker_token_file;

    if (!name)
        return STATUS_OK;
    if (token_file_open(name, &self->tokens, err) != STATUS_OK)
        return error_context(err, "--worker-token-file");
    http_client_authorize(self->client, token_file_header(self->tokens));
    return STATUS_OK;
}

enum status coordinator_run(const struct coordinator_config *config, struct error *err) {
    struct coordinator *self = allocate(1, sizeof *self);
    unsigned connections = CONNECTIONS_MAX;
    struct http_config client = {0};
    struct http_server_config server = {.max_body_bytes = 65536,
                                        .max_header_bytes = 16384,
                                        .request_timeout_ms = 10000,
                                        .idle_timeout_ms = 60000,
                                        .handle = web_handle};
    char bound[RECORD_ADDRESS_MAX];
    enum status status;
    int fd = -1, code = uv_loop_init(&self->loop);

    if (code != 0) {
        free(self);
        return error_set(err, STATUS_SYSTEM, "event loop: %s", uv_strerror(code));
    }
    descriptors_fit(OWN_DESCRIPTORS, 2, &connections);
    client.max_connections = server.max_connections = connections;
    /* Where descriptors are few, fewer are asked. */
    if (connections >= FEW_AT_A_TIME + CLOCKS_FAR_AT_A_TIME)
        self->far_at_a_time = CLOCKS_FAR_AT_A_TIME;
    else
        self->far_at_a_time = connections > FEW_AT_A_TIME ? connections - FEW_AT_A_TIME : 1;
    client.max_active = FEW_AT_A_TIME + self->far_at_a_time;
    self->config = config;
    random_hex128(self->self.instance);
    status = keys_init(&self->keys, config->cluster, err);
    if (status != STATUS_OK)
        error_context(err, "--cluster");
    if (status == STATUS_OK) {
        status = http_listen(config->http_listen, &fd, bound, sizeof bound, err);
        if (status != STATUS_OK)
            error_context(err, "--http-listen");
    }
    if (status == STATUS_OK)
        status = advertise(config, bound, self->self.addresses.http,
                           sizeof self->self.addresses.http, err);
    if (status == STATUS_OK)
        status = check_self(self, err);
    if (status == STATUS_OK)
        status = etcd_http_new(&self->loop, &config->etcd, &self->etcd_http, err);
    if (status == STATUS_OK)
        status = http_client_new(&self->loop, &client, &self->client, err);
    if (status == STATUS_OK)
        status = open_tokens(self, err);
    if (status == STATUS_OK) {
        make_parts(self);
        server.arg = &self->web;
        status = http_server_new(&self->loop, fd, &server, &self->server, err);
    }
    if (status == STATUS_OK) {
        run(self, bound);
    } else {
        if (self->client)
            http_client_close(self->client, nothing, NULL);
        if (self->etcd_http)
            etcd_http_close(self->etcd_http, nothing, NULL);
        uv_run(&self->loop, UV_RUN_DEFAULT);
    }
    free_parts(self);
    token_file_close(self->tokens);
    if (fd >= 0)
        close(fd);
    uv_loop_close(&self->loop);
    free(self);
    return status;
}
