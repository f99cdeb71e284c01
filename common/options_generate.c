#include "common/options_generate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool options_generate(const struct options_manual *manual, int argc, char *const *argv, int *code) {
    bool man = argc == 2 && strcmp(argv[1], "--generate=man") == 0;
    bool completion = argc == 2 && strcmp(argv[1], "--generate=bash-completion") == 0;
    bool config = argc == 2 && manual->n_commands == 0 && strcmp(argv[1], "--generate=config") == 0;

    if (man)
        options_man(manual, stdout);
    else if (completion)
        options_bash_completion(manual, stdout);
    else if (config)
        options_sample_config(manual->set, stdout);
    else
        return false;
    *code = EXIT_SUCCESS;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "%s: cannot write: %s\n", manual->set->program, strerror(errno));
        *code = EXIT_FAILURE;
    }
    return true;
}

bool options_generate_daemon(const struct option_set *set, int argc, char *const *argv, int *code) {
    const struct options_manual manual = {
        .set = set,
        .section = 8,
        .exit_status = "0 after SIGTERM or SIGINT; 1 when it could not start, with the reason on "
                       "stderr; 64 when an option is wrong.",
    };

    return options_generate(&manual, argc, argv, code);
}
