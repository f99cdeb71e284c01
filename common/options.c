#include "common/options.h"

#include <assert.h>
#include <string.h>

#include "common/decimal.h"
#include "common/options_value.h"
#include "common/quote.h"

#define CONFIG_ENVIRONMENT OPTION_ENVIRONMENT_PREFIX "CONFIG"

/* All options of a set in a row; an index into it stands for an option. */
struct option_list {
    const struct option *at[OPTIONS_MAX];
    size_t n;
};

static bool is_reserved(const char *name) {
    return strcmp(name, "help") == 0 || strcmp(name, "version") == 0 || strcmp(name, "config") == 0;
}

static void list_options(const struct option_set *set, struct option_list *list) {
    const struct option *const *table;
    const struct option *option;

    list->n = 0;
    for (table = set->tables; *table; table++) {
        for (option = *table; option->name; option++) {
            assert(list->n < OPTIONS_MAX && !is_reserved(option->name));
            list->at[list->n++] = option;
        }
    }
}

struct parser {
    struct option_list options;
    void *values;
    struct error *err;
    /* Of the source that is being read: command line, environment or file. */
    bool seen[OPTIONS_MAX];
};

static bool equals(const char *name, const char *text, size_t len) {
    return strlen(name) == len && memcmp(name, text, len) == 0;
}

static bool equals_in_environment(const char *name, const char *text, size_t len) {
    char expected[OPTION_TEXT_SIZE];

    option_environment_name(name, expected);
    return equals(expected, text, len);
}

/* The option's index, or options.n when there is none of that name. */
static size_t find_option(const struct parser *parser,
                          bool (*matches)(const char *name, const char *text, size_t len),
                          const char *text, size_t len) {
    size_t i = 0;

    while (i < parser->options.n && !matches(parser->options.at[i]->name, text, len))
        i++;
    return i;
}

static bool lacks_unit(const struct option *option, const char *text, size_t len) {
    uint64_t number;
    struct error ignored;

    return option->type == OPTION_DURATION &&
           decimal_parse(text, len, 0, UINT64_MAX, &number, &ignored) == STATUS_OK;
}

/* Sets one option from a source; label is what that source calls it. */
static enum status set_option(struct parser *parser, size_t index, const char *label,
                              const char *text, size_t len) {
    const struct option *option = parser->options.at[index];
    char rule[OPTION_RULE_SIZE], quoted[QUOTE_SIZE];

    if (parser->seen[index])
        return error_set(parser->err, STATUS_INVALID, "%s: given twice", label);
    parser->seen[index] = true;
    if (!option_value_read(option, text, len, parser->values)) {
        option_value_rule(option, rule);
        return error_set(parser->err, STATUS_INVALID, "%s=%s: %s%s", label,
                         option->secret ? "***" : quote(text, len, quoted), rule,
                         lacks_unit(option, text, len) ? ", with its unit: ms, s, m or h" : "");
    }
    if (option->given_offset)
        *(bool *)((char *)parser->values + option->given_offset) = true;
    return STATUS_OK;
}

static void set_defaults(struct parser *parser) {
    size_t i;

    for (i = 0; i < parser->options.n; i++) {
        const struct option *option = parser->options.at[i];
        bool ok = !option->fallback || option_value_read(option, option->fallback,
                                                         strlen(option->fallback), parser->values);

        assert(ok);
    }
}

/* --- the file --- */

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

static void trim(const char **text, size_t *len) {
    while (*len > 0 && is_blank(**text)) {
        (*text)++;
        (*len)--;
    }
    while (*len > 0 && is_blank((*text)[*len - 1]))
        (*len)--;
}

/* A comment behind a value would be taken for a part of it, or a part of it for a comment. */
static bool has_trailing_comment(const char *value, size_t len) {
    size_t i;

    for (i = 1; i < len; i++) {
        if (value[i] == '#' && is_blank(value[i - 1]))
            return true;
    }
    return false;
}

static enum status read_line(struct parser *parser, const char *line, size_t len) {
    const char *equals_sign, *name, *value;
    size_t name_len, value_len, index;
    char quoted[QUOTE_SIZE];

    trim(&line, &len);
    if (len == 0 || *line == '#')
        return STATUS_OK;
    equals_sign = memchr(line, '=', len);
    if (!equals_sign)
        return error_set(parser->err, STATUS_INVALID, "must be NAME = VALUE");
    name = line;
    name_len = (size_t)(equals_sign - line);
    value = equals_sign + 1;
    value_len = len - name_len - 1;
    trim(&name, &name_len);
    trim(&value, &value_len);
    index = find_option(parser, equals, name, name_len);
    if (index == parser->options.n)
        return error_set(parser->err, STATUS_INVALID, "%s: unknown option",
                         quote(name, name_len, quoted));
    if (has_trailing_comment(value, value_len))
        return error_set(parser->err, STATUS_INVALID, "%s: a comment needs a line of its own",
                         parser->options.at[index]->name);
    return set_option(parser, index, parser->options.at[index]->name, value, value_len);
}

static enum status read_file(struct parser *parser, const struct options_file *file) {
    const char *at = file->text, *end = file->text + file->len;
    unsigned line_number = 0;

    memset(parser->seen, 0, sizeof parser->seen);
    if (file->len > 0 && memchr(file->text, '\0', file->len))
        return error_set(parser->err, STATUS_INVALID, "%s: holds a zero byte: not a text file",
                         file->name);
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *line_end = newline ? newline : end;

        line_number++;
        if (read_line(parser, at, (size_t)(line_end - at)) != STATUS_OK)
            return error_context(parser->err, "%s:%u", file->name, line_number);
        at = newline ? newline + 1 : end;
    }
    return STATUS_OK;
}

/* --- the environment --- */

/* Kubernetes sets such variables in every pod for every Service of its namespace, so for one
 * called "snowfleet" or "snowfleet-worker" too. */
static bool is_service_link(const char *name, size_t len, const char *value) {
    static const char host[] = "_SERVICE_HOST", port[] = "_PORT", port_number[] = "_PORT_";
    const char *found = memmem(name, len, port_number, strlen(port_number));

    return (len > strlen(host) && memcmp(name + len - strlen(host), host, strlen(host)) == 0) ||
           memmem(name, len, "_SERVICE_PORT", strlen("_SERVICE_PORT")) ||
           (found && found[strlen(port_number)] >= '0' && found[strlen(port_number)] <= '9') ||
           (memcmp(name + len - strlen(port), port, strlen(port)) == 0 && strstr(value, "://"));
}

static bool is_extra(const struct option_set *set, const char *name, size_t len) {
    const char *const *extra = set->extra_environment;

    while (extra && *extra && !equals(*extra, name, len))
        extra++;
    return extra && *extra;
}

static enum status read_variable(struct parser *parser, const struct option_set *set,
                                 const char *variable, struct options_result *result) {
    const char *equals_sign = strchr(variable, '=');
    char label[QUOTE_SIZE];
    const char *value;
    size_t len, index;

    if (!equals_sign ||
        strncmp(variable, OPTION_ENVIRONMENT_PREFIX, strlen(OPTION_ENVIRONMENT_PREFIX)) != 0)
        return STATUS_OK;
    len = (size_t)(equals_sign - variable);
    value = equals_sign + 1;
    if (equals(CONFIG_ENVIRONMENT, variable, len)) {
        result->config = value;
        return STATUS_OK;
    }
    quote(variable, len, label);
    index = find_option(parser, equals_in_environment, variable, len);
    if (index < parser->options.n)
        return set_option(parser, index, label, value, strlen(value));
    if (is_extra(set, variable, len) || is_service_link(variable, len, value))
        return STATUS_OK;
    return error_set(parser->err, STATUS_INVALID, "%s: unknown option", label);
}

static enum status read_environment(struct parser *parser, const struct option_set *set,
                                    char *const *envp, struct options_result *result) {
    memset(parser->seen, 0, sizeof parser->seen);
    for (; *envp; envp++) {
        if (read_variable(parser, set, *envp, result) != STATUS_OK)
            return parser->err->status;
    }
    return STATUS_OK;
}

/* --- the command line --- */

static bool is_flag(const char *argument) {
    return argument[0] == '-' && argument[1] != '\0';
}

/* Reads the flag argv[at] and, if it is there, its value; *taken says how many arguments. */
static enum status read_flag(struct parser *parser, int argc, char *const *argv, int at,
                             struct options_result *result, bool *config_seen, int *taken) {
    const char *name = argv[at] + 2, *equals_sign = strchr(argv[at], '=');
    size_t label_len = equals_sign ? (size_t)(equals_sign - argv[at]) : strlen(argv[at]);
    char label[QUOTE_SIZE];
    const char *value;
    bool is_config;
    size_t index;

    *taken = 1;
    quote(argv[at], label_len, label);
    if (argv[at][1] != '-')
        return error_set(parser->err, STATUS_INVALID, "%s: unknown option", label);
    is_config = equals("config", name, label_len - 2);
    index = find_option(parser, equals, name, label_len - 2);
    if (index == parser->options.n && !is_config)
        return error_set(parser->err, STATUS_INVALID, "%s: unknown option", label);
    if (equals_sign) {
        value = equals_sign + 1;
    } else if (!is_config && parser->options.at[index]->type == OPTION_BOOL) {
        value = "true";
    } else {
        if (at + 1 >= argc || strncmp(argv[at + 1], "--", 2) == 0)
            return error_set(parser->err, STATUS_INVALID, "%s: needs a value", label);
        value = argv[at + 1];
        *taken = 2;
    }
    if (!is_config)
        return set_option(parser, index, label, value, strlen(value));
    if (*config_seen)
        return error_set(parser->err, STATUS_INVALID, "%s: given twice", label);
    *config_seen = true;
    result->config = value;
    return STATUS_OK;
}

/* Moves argv[from..from+n-1], n of 1 or 2, before argv[to], which lies before them. */
static void move_forward(char **argv, int from, int n, int to) {
    char *moved[2];

    memcpy(moved, argv + from, (size_t)n * sizeof *argv);
    memmove(argv + to + n, argv + to, (size_t)(from - to) * sizeof *argv);
    memcpy(argv + to, moved, (size_t)n * sizeof *argv);
}

static enum status read_arguments(struct parser *parser, int argc, char **argv,
                                  struct options_result *result) {
    int at = 1, first_operand = 1; /* operands found so far lie between the two */
    bool config_seen = false, ended = false;

    memset(parser->seen, 0, sizeof parser->seen);
    while (at < argc && !ended) {
        int taken = 1;

        if (!is_flag(argv[at])) {
            at++;
            continue;
        }
        ended = strcmp(argv[at], "--") == 0;
        if (!ended && read_flag(parser, argc, argv, at, result, &config_seen, &taken) != STATUS_OK)
            return parser->err->status;
        move_forward(argv, at, taken, first_operand);
        first_operand += taken;
        at += taken;
    }
    result->first_operand = first_operand;
    return STATUS_OK;
}

/* Whether flag stands before any "--".  No value can be mistaken for it, since one that begins
 * with "--" needs an equals sign. */
static bool has_flag(int argc, char *const *argv, const char *flag) {
    int i;

    for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], flag) == 0)
            return true;
    }
    return false;
}

/* --- the whole --- */

enum status options_parse(const struct option_set *set, int argc, char **argv, char *const *envp,
                          const struct options_file *file, void *values,
                          struct options_result *result, struct error *err) {
    struct parser parser = {.values = values, .err = err};
    struct options_result found = {
        .help = has_flag(argc, argv, "--help"),
        .version = has_flag(argc, argv, "--version"),
    };

    if (!found.help && !found.version) {
        list_options(set, &parser.options);
        set_defaults(&parser);
        if ((file && read_file(&parser, file) != STATUS_OK) ||
            read_environment(&parser, set, envp, &found) != STATUS_OK ||
            read_arguments(&parser, argc, argv, &found) != STATUS_OK) {
            options_free(set, values);
            return err->status;
        }
    }
    *result = found;
    return STATUS_OK;
}

const char *options_find_config(int argc, char *const *argv, char *const *envp,
                                const char **label) {
    static const char flag[] = "--config", variable[] = CONFIG_ENVIRONMENT "=";
    const size_t flag_len = strlen(flag);
    int i;

    if (has_flag(argc, argv, "--help") || has_flag(argc, argv, "--version"))
        return NULL;
    *label = flag;
    for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], flag, flag_len) == 0 && argv[i][flag_len] == '=')
            return argv[i] + flag_len + 1;
        if (strcmp(argv[i], flag) == 0)
            return i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0 ? argv[i + 1] : NULL;
    }
    *label = CONFIG_ENVIRONMENT;
    for (; *envp; envp++) {
        if (strncmp(*envp, variable, strlen(variable)) == 0)
            return *envp + strlen(variable);
    }
    return NULL;
}

void options_free(const struct option_set *set, void *values) {
    const struct option *const *table;
    const struct option *option;

    for (table = set->tables; *table; table++) {
        for (option = *table; option->name; option++)
            option_value_release(option, values);
    }
}
