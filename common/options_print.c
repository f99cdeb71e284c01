#include <string.h>

#include "common/options.h"
#include "common/options_value.h"

#define HELP_WIDTH 80
#define HELP_INDENT "        "
#define CONFIG_COMMENT "# "

const struct option option_config = {
    .name = "config",
    .type = OPTION_STRING,
    .argument = "FILE",
    .help = "Read settings from this file's lines NAME = VALUE; NAME as here, without dashes. "
            "A flag goes before its environment variable, that before the file.",
};

static bool has_value(const struct option *option, const void *values) {
    return option->fallback || !option->given_offset ||
           *(const bool *)((const char *)values + option->given_offset);
}

void options_visit(const struct option_set *set, const void *values,
                   void (*visit)(void *arg, const char *name, const char *text), void *arg) {
    const struct option *const *table;
    const struct option *option;
    char buffer[OPTION_TEXT_SIZE];

    for (table = set->tables; *table; table++) {
        for (option = *table; option->name; option++) {
            const char *text = has_value(option, values) ? option_value_show(option, values, buffer)
                                                         : "";

            visit(arg, option->name, option->secret && text[0] != '\0' ? "***" : text);
        }
    }
}

/* Prints text word by word, broken into lines that begin with indent; *column is where the line
 * stands, 0 for none begun. */
static void print_words(FILE *out, const char *indent, const char *text, int *column) {
    while (*text) {
        int len = (int)strcspn(text, " ");

        if (*column == 0 || *column + 1 + len > HELP_WIDTH) {
            fprintf(out, "%s%s", *column ? "\n" : "", indent);
            *column = (int)strlen(indent);
        } else {
            fputc(' ', out);
            ++*column;
        }
        fprintf(out, "%.*s", len, text);
        *column += len;
        text += len;
        text += strspn(text, " ");
    }
}

static void print_option(FILE *out, const struct option *option) {
    char limits[OPTION_TEXT_SIZE], variable[OPTION_TEXT_SIZE], facts[4 * OPTION_TEXT_SIZE];
    bool has_argument = option->type != OPTION_BOOL;
    const char *fallback = option->fallback;
    int column = 0;

    if (fallback && fallback[0] == '\0')
        fallback = "off";
    option_value_limits(option, limits);
    option_environment_name(option->name, variable);
    snprintf(facts, sizeof facts, "(%s%s%s%s%s%s)", limits, limits[0] ? "; " : "",
             fallback ? "default " : "", fallback ? fallback : "", fallback ? "; " : "", variable);
    fprintf(out, "  --%s%s%s\n", option->name, has_argument ? " " : "",
            has_argument ? option->argument : "");
    print_words(out, HELP_INDENT, option->help, &column);
    print_words(out, HELP_INDENT, facts, &column);
    fputc('\n', out);
}

void options_help(const struct option_set *set, FILE *out) {
    const struct option *const *table;
    const struct option *option;

    fprintf(out, "Usage: %s %s\n%s\n\n", set->program, set->usage, set->summary);
    for (table = set->tables; *table; table++) {
        for (option = *table; option->name; option++)
            print_option(out, option);
    }
    print_option(out, &option_config);
    fputs("  --version\n        Print the version.\n  --help\n        Print this.\n", out);
}

static void print_setting(FILE *out, const struct option *option) {
    char limits[OPTION_TEXT_SIZE];
    const char *fallback = option->type == OPTION_BOOL ? "false" : option->fallback;
    int column = 0;

    print_words(out, CONFIG_COMMENT, option->help, &column);
    option_value_limits(option, limits);
    if (limits[0]) {
        print_words(out, CONFIG_COMMENT, "Range:", &column);
        print_words(out, CONFIG_COMMENT, limits, &column);
    }
    fprintf(out, "\n#%s =%s%s\n\n", option->name, fallback && fallback[0] ? " " : "",
            fallback ? fallback : "");
}

void options_sample_config(const struct option_set *set, FILE *out) {
    const struct option *const *table;
    const struct option *option;

    fprintf(
        out,
        "# Settings of %s: NAME = VALUE.  Each stands here with its default; %s(8) has more.\n\n",
        set->program, set->program);
    for (table = set->tables; *table; table++) {
        for (option = *table; option->name; option++)
            print_setting(out, option);
    }
}
