#include <string.h>

#include "common/options_generate.h"
#include "common/options_value.h"

/* "snowfleet-worker" has the function _snowfleet_worker. */
static void put_function(FILE *out, const char *program) {
    fputc('_', out);
    for (; *program; program++)
        fputc(*program == '-' ? '_' : *program, out);
}

static void put_names(FILE *out, const struct option *table) {
    for (; table->name; table++)
        fprintf(out, "--%s ", table->name);
}

/* What may follow an option: choices, a file, or what only the user knows. */
static void put_values(FILE *out, const char *command, const struct option *option) {
    const char *const *choice;

    fprintf(out, "    %s:--%s) ", command, option->name);
    if (option->type == OPTION_BOOL) {
        fputs("[[ $equals ]] && words='true false' ;;\n", out);
    } else if (option->type == OPTION_CHOICE) {
        fputs("words='", out);
        for (choice = option->choices; *choice; choice++)
            fprintf(out, "%s%s", *choice, choice[1] ? " " : "");
        fputs("' ;;\n", out);
    } else if (strcmp(option->argument, "FILE") == 0 || strcmp(option->argument, "PATH") == 0) {
        fputs("files=yes ;;\n", out);
    } else {
        fputs("return ;;\n", out);
    }
}

static void put_command_words(const struct options_manual *manual, FILE *out) {
    size_t i;

    fputs("    command=${COMP_WORDS[1]}\n    case $command in\n", out);
    for (i = 0; i < manual->n_commands; i++) {
        fprintf(out, "    %s) words='", manual->commands[i].name);
        put_names(out, manual->commands[i].options);
        fputs("' ;;\n", out);
    }
    fputs("    esac\n", out);
}

static void put_first_words(const struct options_manual *manual, FILE *out) {
    size_t i;

    fputs("    ((COMP_CWORD > 1)) || words='", out);
    for (i = 0; i < manual->n_commands; i++)
        fprintf(out, "%s ", manual->commands[i].name);
    fputs("--help --version'\n", out);
}

static void put_cases(const struct options_manual *manual, FILE *out) {
    const struct option *const *table;
    const struct option *option;
    size_t i;

    fputs("    case $command:$option in\n", out);
    for (i = 0; i < manual->n_commands; i++)
        for (option = manual->commands[i].options; option->name; option++)
            put_values(out, manual->commands[i].name, option);
    for (table = manual->set->tables; *table; table++)
        for (option = *table; option->name; option++)
            put_values(out, "*", option);
    put_values(out, "*", &option_config);
    fputs("    esac\n", out);
}

void options_bash_completion(const struct options_manual *manual, FILE *out) {
    const char *program = manual->set->program;
    const struct option *const *table;

    fprintf(out, "# bash completion for %s, printed by %s --generate=bash-completion\n", program,
            program);
    put_function(out, program);
    fputs("() {\n"
          "    local current=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]}\n"
          "    local command= words= files= equals=\n"
          "    COMPREPLY=()\n"
          "    # readline takes --name=value for three words.\n"
          "    if [[ $current == = ]]; then\n"
          "        current= equals=yes\n"
          "    elif [[ $option == = ]]; then\n"
          "        option=${COMP_WORDS[COMP_CWORD - 2]} equals=yes\n"
          "    fi\n",
          out);
    if (manual->n_commands)
        put_command_words(manual, out);
    fputs("    words+='", out);
    for (table = manual->set->tables; *table; table++)
        put_names(out, *table);
    fputs("--config --help --version'\n", out);
    if (manual->n_commands)
        put_first_words(manual, out);
    put_cases(manual, out);
    fputs("    if [[ $files ]]; then\n"
          "        compopt -o filenames 2>/dev/null\n"
          "        mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
          "    else\n"
          "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
          "    fi\n"
          "}\n"
          "complete -F ",
          out);
    put_function(out, program);
    fprintf(out, " %s\n", program);
}
