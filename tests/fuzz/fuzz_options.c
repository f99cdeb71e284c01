/* A command line, an environment and a configuration file from anywhere: one or the other reason,
 * on one line, and no memory left behind.
 *
 * The input: lines for the command line up to a blank one, lines for the environment up to a blank
 * one, the rest is the file. */
#include <stdlib.h>
#include <string.h>

#include "common/options.h"

struct settings {
    bool standalone, identity_given;
    char *identity, *token, *http_listen;
    uint64_t machine_id, lease_ttl_ms, floor_ms;
    int log_format;
    struct option_range range;
};
#define AT(field) .offset = offsetof(struct settings, field)

static const char *const log_formats[] = {"json", "text", NULL};
static const struct option options[] = {
    {.name = "standalone", .type = OPTION_BOOL, AT(standalone), .help = "x"},
    {.name = "identity",
     .type = OPTION_STRING,
     AT(identity),
     .argument = "LABEL",
     .help = "x",
     .given_offset = offsetof(struct settings, identity_given)},
    {.name = "token",
     .type = OPTION_STRING,
     AT(token),
     .argument = "TOKEN",
     .help = "x",
     .secret = true},
    {.name = "http-listen",
     .type = OPTION_ADDRESS,
     AT(http_listen),
     .argument = "HOST:PORT",
     .fallback = "127.0.0.1:8080",
     .help = "x"},
    {.name = "machine-id",
     .type = OPTION_NUMBER,
     AT(machine_id),
     .argument = "N",
     .max = 1023,
     .help = "x"},
    {.name = "lease-ttl",
     .type = OPTION_DURATION,
     AT(lease_ttl_ms),
     .argument = "DURATION",
     .fallback = "15s",
     .min = 2000,
     .max = 600000,
     .help = "x"},
    {.name = "floor", .type = OPTION_TIME, AT(floor_ms), .argument = "TIME", .help = "x"},
    {.name = "log-format",
     .type = OPTION_CHOICE,
     AT(log_format),
     .argument = "FORMAT",
     .fallback = "json",
     .choices = log_formats,
     .help = "x"},
    {.name = "machine-id-range",
     .type = OPTION_RANGE,
     AT(range),
     .argument = "A-B",
     .fallback = "0-1023",
     .max = 1023,
     .help = "x"},
    {.name = NULL},
};
static const struct option *const tables[] = {options, NULL};
static const struct option_set set = {
    .program = "p", .usage = "", .summary = "x", .tables = tables};

static void require(int holds) {
    if (!holds)
        abort();
}

#define WORDS_MAX 32

/* Cuts *text into lines up to a blank one, or until there is no room for more; returns how many. */
static int cut_lines(char **text, char **lines) {
    int n = 0;

    while (n < WORDS_MAX && **text) {
        char *end = strchr(*text, '\n');
        char *line = *text;

        *text = end ? end + 1 : line + strlen(line);
        if (end)
            *end = '\0';
        if (*line == '\0')
            break;
        lines[n++] = line;
    }
    return n;
}

static void show(void *arg, const char *name, const char *text) {
    (void)arg;
    require(name && text);
    if (strcmp(name, "token") == 0)
        require(*text == '\0' || strcmp(text, "***") == 0);
}

static void parse(char **argv, int argc, char **envp, const struct options_file *file) {
    struct settings settings = {0};
    struct options_result result;
    const char *label = NULL;
    struct error err;

    options_find_config(argc, argv, envp, &label);
    if (options_parse(&set, argc, argv, envp, file, &settings, &result, &err) != STATUS_OK) {
        require(err.message[0] != '\0' && !strchr(err.message, '\n'));
        require(!settings.identity && !settings.token && !settings.http_listen);
        return;
    }
    if (!result.help && !result.version) {
        require(result.first_operand >= 1 && result.first_operand <= argc);
        require(settings.machine_id <= 1023 && settings.range.first <= settings.range.last);
        require(settings.lease_ttl_ms >= 2000 && settings.lease_ttl_ms <= 600000);
        options_visit(&set, &settings, show, NULL);
    }
    options_free(&set, &settings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *argv[WORDS_MAX + 2] = {(char[]){"p"}}, *envp[WORDS_MAX + 1] = {NULL};
    char *copy = malloc(size + 1), *rest = copy;
    struct options_file file = {.name = "f"};
    int argc;

    require(copy != NULL);
    if (size)
        memcpy(copy, data, size);
    copy[size] = '\0';
    argc = 1 + cut_lines(&rest, argv + 1);
    cut_lines(&rest, envp);
    file.text = rest;
    file.len = (size_t)(copy + size - rest); /* with the zero bytes that it may hold */
    parse(argv, argc, envp, &file);
    free(copy);
    return 0;
}
