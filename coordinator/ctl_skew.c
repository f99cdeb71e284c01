/* snowfleetctl skew: asks every worker's clock and says how far they are apart.  Needs no
 * coordinator. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fields.h"
#include "coordinator/clocks.h"
#include "coordinator/ctl.h"
#include "coordinator/ctl_session.h"
#include "coordinator/ctl_skew.h"
#include "coordinator/survey.h"

#define TIMEOUT_MS 2000u /* of one exchange with a worker */
#define LEADER_MS 1500u  /* of asking the leader */
#define FRESH_MS 30000u  /* as in the coordinator */
#define TICK_MS 50u      /* far ones begin a few at a time */
#define WAIT_OK_MS 1000u /* between two rounds of --wait-ok */

enum skew_from { FROM_PROBES, FROM_COORDINATOR };
static const char *const froms[] = {
    [FROM_PROBES] = "probes", [FROM_COORDINATOR] = "coordinator", NULL};

static const struct option options[] = {
    {.name = "from",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct ctl_values, from),
     .argument = "probes|coordinator",
     .fallback = "probes",
     .choices = froms,
     .help =
         "Who measures: this program, now, or the leader, which does so all the time (its report "
         "can be as old as its --probe-interval)."},
    {.name = "watch",
     .type = OPTION_BOOL,
     .offset = offsetof(struct ctl_values, watch),
     .help = "Measures again and again until it is interrupted; drift is then known without a "
             "coordinator too.  With json: one report a line."},
    {.name = "interval",
     .type = OPTION_DURATION,
     .offset = offsetof(struct ctl_values, interval_ms),
     .argument = "DURATION",
     .fallback = "2s",
     .min = 200,
     .max = 3600000,
     .help = "From the end of one round of --watch to the next."},
    {.name = "wait-ok",
     .type = OPTION_BOOL,
     .offset = offsetof(struct ctl_values, wait_ok),
     .help =
         "Measures until all is well (exit code 0), at most for --timeout; shows the last report."},
    {.name = "timeout",
     .type = OPTION_DURATION,
     .offset = offsetof(struct ctl_values, wait_ms),
     .argument = "DURATION",
     .fallback = "1m",
     .min = 1000,
     .max = 86400000,
     .help = "How long --wait-ok waits."},
    {.name = "csv",
     .type = OPTION_BOOL,
     .offset = offsetof(struct ctl_values, csv),
     .help = "One line for each node (RFC 4180), after a line of names; nothing else."},
    {.name = "top",
     .type = OPTION_NUMBER,
     .offset = offsetof(struct ctl_values, top),
     .given_offset = offsetof(struct ctl_values, top_given),
     .argument = "N",
     .max = 1000000,
     .help =
         "Shows only the worst N nodes of the table; 0: all.  Without it: all, or as many as fit "
         "into the terminal."},
    {.name = NULL},
};

struct skew_run {
    struct ctl_session session;
    const struct ctl_values *values;
    struct clocks *clocks;
    bool asked;   /* all that could be asked have been */
    bool stopped; /* by a signal */
    unsigned rounds;
};

/* ---- measuring ---- */

static void on_measured(void *arg, struct member *member) {
    struct skew_run *run = arg;

    (void)member;
    clocks_tick(run->clocks); /* the next ones */
    run->asked = clocks_idle(run->clocks);
}

static void on_tick(uv_timer_t *timer) {
    struct skew_run *run = timer->data;

    clocks_tick(run->clocks);
}

static void ask_all(struct skew_run *run) {
    uv_loop_t *loop = &run->session.loop;
    uv_timer_t tick;

    clocks_ask_all(run->clocks);
    run->asked = clocks_idle(run->clocks);
    uv_timer_init(loop, &tick);
    tick.data = run;
    uv_timer_start(&tick, on_tick, TICK_MS, TICK_MS);
    ctl_wait(&run->session, &run->asked);
    uv_close((uv_handle_t *)&tick, NULL);
    uv_run(loop, UV_RUN_NOWAIT); /* the handle is on our stack */
}

/* NULL, and why, when the leader gives none. */
static json_t *leaders_report(struct skew_run *run, struct error *err) {
    struct ctl_session *session = &run->session;
    char url[RECORD_ADDRESS_MAX + 32];
    json_error_t at;
    json_t *report = NULL;
    char *body = NULL;
    long status = 0;

    if (!session->cluster->has_leader || !session->cluster->leader.addresses.http[0]) {
        error_set(err, STATUS_NOT_FOUND, "no coordinator leads");
        return NULL;
    }
    snprintf(url, sizeof url, "http://%s/v1/skew", session->cluster->leader.addresses.http);
    if (ctl_get(session, url, LEADER_MS, &status, &body, err) == STATUS_OK) {
        report = status == 200 ? json_loads(body, JSON_REJECT_DUPLICATES, &at) : NULL;
        if (!report || json_integer_value(json_object_get(report, "schema")) != SURVEY_SCHEMA) {
            error_set(err, STATUS_PROTOCOL, "the leader at %s gives no report (HTTP %ld)",
                      session->cluster->leader.addresses.http, status);
            json_decref(report);
            report = NULL;
        }
    }
    free(body);
    return report;
}

static bool lacks_drift(const json_t *nodes) {
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        if (json_is_null(json_object_get(json_array_get(nodes, i), "drift_ppm")))
            return true;
    }
    return false;
}

/* Drift takes time to be seen: whoever has watched knows it. */
static void borrow_drift(struct skew_run *run, json_t *report) {
    static const char *const fields[] = {"drift_ppm", "drift_bound_ppm"};
    json_t *nodes = json_object_get(report, "nodes"), *known = json_object(), *leaders;
    const json_t *theirs;
    struct error err;

    leaders = lacks_drift(nodes) ? leaders_report(run, &err) : NULL;
    theirs = json_object_get(leaders, "nodes");
    for (size_t i = 0; i < json_array_size(theirs); i++) {
        json_t *node = json_array_get(theirs, i);
        const char *instance = json_string_value(json_object_get(node, "instance"));

        if (instance)
            json_object_set(known, instance, node);
    }
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        json_t *node = json_array_get(nodes, i);
        const json_t *watched = json_object_get(
            known, json_string_value(json_object_get(node, "instance")));

        for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f++) {
            json_t *number = json_object_get(watched, fields[f]);

            if (json_is_number(number) && json_is_null(json_object_get(node, fields[f])))
                json_object_set(node, fields[f], number);
        }
    }
    json_decref(known);
    json_decref(leaders);
}

static json_t *measure(struct skew_run *run) {
    struct ctl_session *session = &run->session;
    uint64_t begun_ms = clock_now(&session->clock).boot_ms;
    struct survey_config config;
    struct survey survey;
    json_t *report;

    ask_all(run);
    /* A large fleet behind slow paths takes longer than that to be asked: who answered first counts. */
    config = (struct survey_config){.fresh_ms = FRESH_MS + clock_now(&session->clock).boot_ms -
                                                begun_ms};
    config.now = clock_now_ns(&session->clock);
    config.rate_ppb = clocks_rate_ppb(run->clocks);
    survey_take(&survey, session->cluster, &config);
    report = survey_json(&survey, session->cluster, session->cluster_name,
                         clock_now(&session->clock).wall_ms, "snowfleetctl");
    survey_done(&survey);
    borrow_drift(run, report);
    return report;
}

/* One round; NULL, and why, when it could not be done. */
static json_t *look(struct skew_run *run, struct error *err) {
    if (ctl_read_initialised(&run->session, err) != STATUS_OK)
        return NULL;
    return run->values->from == FROM_COORDINATOR ? leaders_report(run, err) : measure(run);
}

/* ---- one round, or many ---- */

struct pause {
    struct skew_run *run;
    bool over;
};

static void on_pause_over(uv_timer_t *timer) {
    struct pause *pause = timer->data;

    pause->over = true;
}

static void on_signal(uv_signal_t *signal, int number) {
    struct pause *pause = signal->data;

    (void)number;
    pause->over = pause->run->stopped = true;
}

/* Waits, unless a signal ends it. */
static void rest(struct skew_run *run, uint64_t ms) {
    uv_loop_t *loop = &run->session.loop;
    struct pause pause = {run, false};
    uv_signal_t signals[2];
    uv_timer_t timer;

    uv_timer_init(loop, &timer);
    timer.data = &pause;
    uv_timer_start(&timer, on_pause_over, ms, 0);
    for (int i = 0; i < 2; i++) {
        uv_signal_init(loop, &signals[i]);
        signals[i].data = &pause;
        uv_signal_start(&signals[i], on_signal, i ? SIGTERM : SIGINT);
    }
    ctl_wait(&run->session, &pause.over);
    uv_close((uv_handle_t *)&timer, NULL);
    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&signals[i], NULL);
    uv_run(loop, UV_RUN_NOWAIT); /* the handles are on our stack */
}

/* Takes report, which is NULL when there is none, for the reason in err. */
static int show(struct skew_run *run, json_t *report, const struct error *err) {
    const struct ctl_values *values = run->values;
    int code = SKEW_EXIT_INCOMPLETE;

    if (!report) {
        ctl_note("%s", err->message);
        return code;
    }
    code = (int)json_integer_value(json_object_get(report, "exit_code"));
    skew_show(report, &(struct skew_show){.form = values->csv                  ? SKEW_CSV
                                                  : values->output != CTL_JSON ? SKEW_TABLE
                                                  : values->watch              ? SKEW_JSON_LINE
                                                                               : SKEW_JSON,
                                          .again = run->rounds > 0,
                                          .watch = values->watch,
                                          .top = values->top_given ? values->top : SKEW_TOP_FIT});
    run->rounds++;
    json_decref(report);
    return code;
}

static int run_rounds(struct skew_run *run) {
    uint64_t end_ms = clock_now(&run->session.clock).boot_ms + run->values->wait_ms;
    int code;

    for (;;) {
        struct error err = {.status = STATUS_OK};
        json_t *report = look(run, &err);
        bool last = !run->values->watch;

        if (run->values->wait_ok)
            last = run->stopped || clock_now(&run->session.clock).boot_ms >= end_ms ||
                   (report && json_integer_value(json_object_get(report, "exit_code")) == 0);
        if (run->values->wait_ok && !last) {
            json_decref(report);
            rest(run, WAIT_OK_MS);
            continue;
        }
        code = show(run, report, &err);
        if (last || fflush(stdout) != 0 || ferror(stdout))
            return code;
        rest(run, run->values->interval_ms);
        if (run->stopped)
            return code;
    }
}

static int run(const struct ctl_values *values, char *const *operands, struct error *err) {
    struct skew_run run = {.values = values};
    int code;

    (void)operands;
    if (values->watch && values->wait_ok) {
        error_set(err, STATUS_INVALID, "--watch and --wait-ok exclude each other");
        return CTL_USAGE;
    }
    if (values->csv && values->output == CTL_JSON) {
        error_set(err, STATUS_INVALID, "--csv and --output=json exclude each other");
        return CTL_USAGE;
    }
    if (ctl_open(&run.session, values, err) != STATUS_OK)
        return CTL_USAGE;
    run.clocks = clocks_new(&(struct clocks_config){.client = run.session.client,
                                                    .clock = run.session.clock,
                                                    .cluster = run.session.cluster,
                                                    .probe_interval_ms = UINT64_MAX,
                                                    .timeout_ms = TIMEOUT_MS,
                                                    .far_at_a_time = CLOCKS_FAR_AT_A_TIME,
                                                    .measured = on_measured,
                                                    .arg = &run});
    code = run_rounds(&run);
    ctl_close(&run.session);
    clocks_free(run.clocks);
    return code;
}

const struct ctl_command ctl_skew = {
    .name = "skew",
    .operands = "",
    .summary = "Measures how far the workers' clocks are apart, with bounds.",
    .options = options,
    .run = run,
};
