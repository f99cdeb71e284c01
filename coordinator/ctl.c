/* snowfleetctl: the operator's tool.  One table of subcommands, each a thin file of its own. */
#include "coordinator/ctl.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/options_generate.h"
#include "common/options_load.h"
#include "common/quote.h"

#define PROGRAM "snowfleetctl"

static int run_version(const struct ctl_values *values, char *const *operands, struct error *err) {
    (void)operands, (void)err;
    printf(values->output == CTL_JSON ? "{\"version\":\"%s\"}\n" : PROGRAM " %s\n",
           SNOWFLEET_VERSION);
    return CTL_DONE;
}

static const struct option no_options[] = {{.name = NULL}};

static const struct ctl_command ctl_version = {
    .name = "version",
    .operands = "",
    .summary = "Prints the version of this program.",
    .options = no_options,
    .run = run_version,
};

static const struct ctl_command *const commands[] = {
    &ctl_init,   &ctl_range_set, &ctl_status, &ctl_machines, &ctl_skew,    &ctl_next,
    &ctl_decode, &ctl_encode,    &ctl_range,  &ctl_reclaim,  &ctl_release, &ctl_freeze,
    &ctl_thaw,   &ctl_recover,   &ctl_clock,  &ctl_sequence, &ctl_audit,   &ctl_version,
};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

static const char *const outputs[] = {[CTL_TABLE] = "table", [CTL_JSON] = "json", NULL};

static const struct option output_options[] = {
    {.name = "output",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct ctl_values, output),
     .argument = "table|json",
     .fallback = "table",
     .choices = outputs,
     .help = "For people, or for programs."},
    {.name = NULL},
};

void ctl_note(const char *format, ...) {
    va_list args;

    fputs(PROGRAM ": ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static void print_help(void) {
    puts("Usage: " PROGRAM " COMMAND [OPTION]...\n\n"
         "Looks after a Snowfleet cluster.  It works against etcd and the workers directly, so it\n"
         "needs no coordinator.\n\nCommands:");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        char usage[32];

        snprintf(usage, sizeof usage, "%s %s", commands[i]->name, commands[i]->operands);
        printf("  %-19s  %s\n", usage, commands[i]->summary);
    }
    puts("\n" PROGRAM " COMMAND --help shows the options of a command.\n"
         "Exit codes: 0 done; 1 refused or failed, with the reason on stderr; 2 critical and\n"
         "3 incomplete (skew); 64 usage.");
}

/* --generate=man or --generate=bash-completion. */
static bool generate(int argc, char *const *argv, int *code) {
    static const struct option *const tables[] = {output_options, etcd_options,
                                                  towards_worker_options, log_options, NULL};
    static const struct option_set set = {
        .program = PROGRAM,
        .usage = "[OPTION]...",
        .summary = "Looks after a Snowfleet cluster.  It works against etcd and the workers "
                   "directly, so it needs no coordinator.",
        .tables = tables,
    };
    struct options_command described[N_COMMANDS];
    const struct options_manual manual = {
        .set = &set,
        .section = 1,
        .exit_status = "0 done; 1 refused or failed, with the reason on stderr; 2 critical and 3 "
                       "incomplete (skew); 64 usage.",
        .commands = described,
        .n_commands = N_COMMANDS,
    };

    for (size_t i = 0; i < N_COMMANDS; i++)
        described[i] = (struct options_command){.name = commands[i]->name,
                                                .operands = commands[i]->operands,
                                                .summary = commands[i]->summary,
                                                .options = commands[i]->options};
    return options_generate(&manual, argc, argv, code);
}

static const struct ctl_command *find_command(const char *name) {
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    }
    return NULL;
}

/* What is printed counts only when it arrived: a full disk is a failure. */
static int finish(int code, const struct error *err) {
    if (code == CTL_FAILED && err->message[0])
        ctl_note("%s", err->message);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        ctl_note("cannot write the result: %s", strerror(errno));
        return CTL_FAILED;
    }
    return code;
}

static int usage_error(const char *command, const struct error *err) {
    ctl_note("%s%s%s (see " PROGRAM "%s%s --help)", command, command[0] ? ": " : "", err->message,
             command[0] ? " " : "", command);
    return CTL_USAGE;
}

static int run_command(const struct ctl_command *command, int argc, char **argv) {
    extern char **environ;
    char program[64], usage[64];
    const struct option *const tables[] = {command->options,       output_options, etcd_options,
                                           towards_worker_options, log_options,    NULL};
    const struct option_set set = {.program = program,
                                   .usage = usage,
                                   .summary = command->summary,
                                   .tables = tables,
                                   .extra_environment = known_environment};
    struct ctl_values values = {.output = CTL_TABLE};
    struct options_result result = {0};
    struct error err = {.status = STATUS_OK};
    int code, n_operands;

    snprintf(program, sizeof program, PROGRAM " %s", command->name);
    snprintf(usage, sizeof usage, "[OPTION]...%s%s", command->operands[0] ? " " : "",
             command->operands);
    if (options_load(&set, argc, argv, environ, &values, &result, &err) != STATUS_OK)
        return usage_error(command->name, &err);
    n_operands = argc - result.first_operand;
    if (result.help) {
        options_help(&set, stdout);
        options_free(&set, &values);
        return finish(CTL_DONE, &err);
    }
    if (result.version) {
        run_version(&values, NULL, &err);
        options_free(&set, &values);
        return finish(CTL_DONE, &err);
    }
    if (n_operands < command->n_operands ||
        n_operands > (command->max_operands ? command->max_operands : command->n_operands)) {
        error_set(&err, STATUS_INVALID, "takes %s%s, got %d arguments",
                  command->max_operands ? ""
                  : command->n_operands ? "exactly "
                                        : "no arguments",
                  command->operands, n_operands);
        code = CTL_USAGE;
    } else {
        code = command->run(&values, argv + result.first_operand, &err);
    }
    options_free(&set, &values);
    if (code == CTL_USAGE)
        return usage_error(command->name, &err);
    return finish(code, &err);
}

int main(int argc, char **argv) {
    const struct ctl_command *command;
    struct error err = {.status = STATUS_OK};
    char quoted[QUOTE_SIZE];
    int code;

    signal(SIGPIPE, SIG_IGN);
    if (generate(argc, argv, &code))
        return code;
    if (argc < 2) {
        error_set(&err, STATUS_INVALID, "a command is missing");
        return usage_error("", &err);
    }
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0) {
        print_help();
        return finish(CTL_DONE, &err);
    }
    if (strcmp(argv[1], "--version") == 0)
        return run_command(&ctl_version, 1, argv);
    command = find_command(argv[1]);
    if (!command) {
        error_set(&err, STATUS_INVALID, "%s%s%s",
                  argv[1][0] == '-' ? "the command comes first, got " : "unknown command ",
                  quote(argv[1], strlen(argv[1]), quoted), "");
        return usage_error("", &err);
    }
    /* The command's name takes the place of the program's. */
    return run_command(command, argc - 1, argv + 1);
}
