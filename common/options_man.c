#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "common/options_generate.h"
#include "common/options_value.h"

/* ---- troff ---- */

/* Is it the name of an option?  Its hyphens are minus signs then, which can be copied from the page
 * and typed. */
static bool is_literal(const char *word) {
    return strncmp(word, "--", 2) == 0 || strncmp(word, "(--", 3) == 0;
}

/* One word.  What troff would take for its own is escaped. */
static void put_word(FILE *out, const char *word, size_t len) {
    bool literal = is_literal(word);
    size_t i;

    if (len > 0 && (word[0] == '.' || word[0] == '\''))
        fputs("\\&", out);
    for (i = 0; i < len; i++) {
        if (word[i] == '\\')
            fputs("\\e", out);
        else if (word[i] == '-' && literal)
            fputs("\\-", out);
        else
            fputc(word[i], out);
    }
}

/* A paragraph's text: a sentence ends its line, as troff likes it. */
static void put_text(FILE *out, const char *text) {
    while (*text) {
        size_t len = strcspn(text, " ");
        size_t blanks = strspn(text + len, " ");
        bool ends = len > 0 && strchr(".:;", text[len - 1]) && blanks != 1;

        put_word(out, text, len);
        text += len + blanks;
        fputc(*text == '\0' || ends ? '\n' : ' ', out);
    }
}

/* Within a line, each hyphen as a minus sign. */
static void put_literal(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '-')
            fputs("\\-", out);
        else if (*text == '\\')
            fputs("\\e", out);
        else
            fputc(*text, out);
    }
}

static void put_upper(FILE *out, const char *text) {
    for (; *text; text++)
        fputc(toupper((unsigned char)*text), out);
}

/* ---- one option ---- */

static void put_facts(FILE *out, const struct option *option) {
    char limits[OPTION_TEXT_SIZE], variable[OPTION_TEXT_SIZE];
    const char *fallback = option->fallback;

    option_value_limits(option, limits);
    option_environment_name(option->name, variable);
    if (limits[0]) {
        fputs("Allowed: ", out);
        put_literal(out, limits);
        fputs(".\n", out);
    }
    if (fallback) {
        fputs("Default: ", out);
        put_literal(out, fallback[0] ? fallback : "off");
        fputs(".\n", out);
    }
    fprintf(out, "Environment: %s.\n", variable);
}

static void put_option(FILE *out, const struct option *option) {
    fputs(".TP\n\\fB\\-\\-", out);
    put_literal(out, option->name);
    fputs("\\fR", out);
    if (option->type != OPTION_BOOL) {
        fputs(" \\fI", out);
        put_literal(out, option->argument);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    put_text(out, option->help);
    put_facts(out, option);
}

static void put_options(FILE *out, const struct option *table) {
    for (; table->name; table++)
        put_option(out, table);
}

static void put_flag(FILE *out, const char *flag, const char *help) {
    fputs(".TP\n\\fB", out);
    put_literal(out, flag);
    fprintf(out, "\\fR\n%s\n", help);
}

/* ---- the page ---- */

static void put_head(const struct options_manual *manual, FILE *out) {
    const struct option_set *set = manual->set;
    const char *end = strpbrk(set->summary, ".;:");

    fputs(".TH \"", out);
    put_upper(out, set->program);
    fprintf(out, "\" \"%d\" \"\" \"Snowfleet %s\" \"Snowfleet\"\n", manual->section,
            SNOWFLEET_VERSION);
    fputs(".SH NAME\n", out);
    put_literal(out, set->program);
    fputs(" \\- ", out);
    /* One line, and no full stop. */
    fprintf(out, "%c%.*s\n", tolower((unsigned char)set->summary[0]),
            (int)(end ? end - set->summary - 1 : (long)strlen(set->summary) - 1), set->summary + 1);
    fputs(".SH SYNOPSIS\n.B ", out);
    put_literal(out, set->program);
    fprintf(out, "\n%s%s\n", manual->n_commands ? "\\fICOMMAND\\fR " : "", set->usage);
    fputs(".SH DESCRIPTION\n", out);
    put_text(out, set->summary);
}

static void put_commands(const struct options_manual *manual, FILE *out) {
    size_t i;

    fputs(".SH COMMANDS\n", out);
    for (i = 0; i < manual->n_commands; i++) {
        const struct options_command *command = &manual->commands[i];

        fputs(".SS \"", out);
        put_literal(out, command->name);
        fputs(" [OPTION]...", out);
        if (command->operands[0]) {
            fputc(' ', out);
            put_literal(out, command->operands);
        }
        fputs("\"\n", out);
        put_text(out, command->summary);
        put_options(out, command->options);
    }
}

void options_man(const struct options_manual *manual, FILE *out) {
    const struct option *const *table;

    put_head(manual, out);
    if (manual->n_commands)
        put_commands(manual, out);
    fprintf(out, ".SH %s\n", manual->n_commands ? "\"OPTIONS OF ALL COMMANDS\"" : "OPTIONS");
    for (table = manual->set->tables; *table; table++)
        put_options(out, *table);
    put_option(out, &option_config);
    put_flag(out, "--version", "Print the version.");
    put_flag(out, "--help", "Print the options.");
    put_flag(out, "--generate=man", "Print this page; alone on the command line.");
    put_flag(out, "--generate=bash-completion", "Print the completion for bash; likewise.");
    fputs(".PP\nA value follows its option after a blank or after an equals sign.\n"
          "One without a value can be switched off with \\fB=false\\fR.\n"
          "Durations are a number with its unit: 250ms, 15s, 2m, 1h.\n",
          out);
    fputs(".SH ENVIRONMENT\n"
          "Each option can be given as a variable: SNOWFLEET_ and its name in capitals, with\n"
          "underscores for hyphens.\n"
          "An option on the command line goes before its variable, that before the line of the\n"
          "\\fB\\-\\-config\\fR file, that before the default.\n"
          "A name that is not known is an error, wherever it stands.\n",
          out);
    fputs(".SH \"EXIT STATUS\"\n", out);
    put_text(out, manual->exit_status);
    fputs(".SH \"SEE ALSO\"\n.BR snowfleet\\-worker (8),\n.BR snowfleet\\-coordinator (8),\n"
          ".BR snowfleetctl (1)\n",
          out);
}
