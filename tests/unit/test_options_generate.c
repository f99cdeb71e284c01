#include "common/options_generate.h"

#include "tests/support/check.h"

struct settings {
    bool dry_run;
    int output;
    char *key_file, *token;
    uint64_t ttl_ms;
};
#define AT(field) .offset = offsetof(struct settings, field)

static const char *const outputs[] = {"table", "json", NULL};

static const struct option shared[] = {
    {.name = "output",
     .type = OPTION_CHOICE,
     AT(output),
     .argument = "table|json",
     .fallback = "table",
     .choices = outputs,
     .help = "For people, or for programs."},
    {.name = "key-file",
     .type = OPTION_STRING,
     AT(key_file),
     .argument = "FILE",
     .help = "Goes with --dry-run, well-known.  .so is no request, 'nor is this, nor C:\\dir."},
    {.name = NULL},
};
static const struct option reclaim_options[] = {
    {.name = "dry-run", .type = OPTION_BOOL, AT(dry_run), .help = "Only looks."},
    {.name = "lease-ttl",
     .type = OPTION_DURATION,
     AT(ttl_ms),
     .argument = "DURATION",
     .fallback = "15s",
     .min = 2000,
     .max = 600000,
     .help = "How long."},
    {.name = NULL},
};
static const struct option *const tables[] = {shared, NULL};
static const struct option_set set = {
    .program = "snowfleet-test",
    .usage = "[OPTION]...",
    .summary = "Shows what is generated.  Nothing else.",
    .tables = tables,
};
static const struct options_command commands[] = {
    {.name = "reclaim", .operands = "ID", .summary = "Takes back.", .options = reclaim_options},
};
static const struct options_manual daemon_manual = {
    .set = &set, .section = 8, .exit_status = "0 done."};
static const struct options_manual tool_manual = {
    .set = &set, .section = 1, .exit_status = "0 done.", .commands = commands, .n_commands = 1};

static char *text;

static const char *print(void (*generate)(const struct options_manual *manual, FILE *out),
                         const struct options_manual *manual) {
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    generate(manual, out);
    fclose(out);
    return text;
}

static void forget_text(void) {
    free(text);
    text = NULL;
}

#define CONTAINS(part) CHECK_ROW(part, strstr(text, part) != NULL)

static void a_page_names_the_program_and_each_option(void) {
    print(options_man, &daemon_manual);
    CONTAINS(".TH \"SNOWFLEET-TEST\" \"8\" \"\" \"Snowfleet ");
    CONTAINS(".SH NAME\nsnowfleet\\-test \\- shows what is generated\n");
    CONTAINS(".SH SYNOPSIS\n.B snowfleet\\-test\n[OPTION]...\n");
    CONTAINS(".TP\n\\fB\\-\\-output\\fR \\fItable|json\\fR\nFor people, or for programs.\n"
             "Allowed: table|json.\nDefault: table.\nEnvironment: SNOWFLEET_OUTPUT.\n");
    CONTAINS("\\fB\\-\\-config\\fR \\fIFILE\\fR\n");
    CONTAINS("\\fB\\-\\-version\\fR\n");
    CONTAINS(".SH \"EXIT STATUS\"\n0 done.\n");
    CU_ASSERT_PTR_NULL(strstr(text, ".SH COMMANDS"));
}

static void what_troff_would_take_for_its_own_is_escaped(void) {
    print(options_man, &daemon_manual);
    CONTAINS("Goes with \\-\\-dry\\-run, well-known.\n"
             "\\&.so is no request, \\&'nor is this, nor C:\\edir.\n");
}

static void a_page_of_a_tool_has_the_commands_with_their_options(void) {
    print(options_man, &tool_manual);
    CONTAINS("\\fICOMMAND\\fR [OPTION]...\n");
    CONTAINS(".SH COMMANDS\n.SS \"reclaim [OPTION]... ID\"\nTakes back.\n"
             ".TP\n\\fB\\-\\-dry\\-run\\fR\nOnly looks.\nEnvironment: SNOWFLEET_DRY_RUN.\n"
             ".TP\n\\fB\\-\\-lease\\-ttl\\fR \\fIDURATION\\fR\nHow long.\n"
             "Allowed: 2s..600s.\nDefault: 15s.\n");
    CONTAINS(".SH \"OPTIONS OF ALL COMMANDS\"\n.TP\n\\fB\\-\\-output\\fR");
}

/* That bash does with it what it should, tests/integration/test_manuals.py sees. */
static void a_completion_has_all_names_and_choices(void) {
    print(options_bash_completion, &tool_manual);
    CONTAINS("    reclaim) words='--dry-run --lease-ttl ' ;;\n");
    CONTAINS("    words+='--output --key-file --config --help --version'\n");
    CONTAINS("words='reclaim --help --version'\n");
    CONTAINS("    reclaim:--dry-run) [[ $equals ]] && words='true false' ;;\n");
    CONTAINS("    reclaim:--lease-ttl) return ;;\n");
    CONTAINS("    *:--output) words='table json' ;;\n");
    CONTAINS("    *:--key-file) files=yes ;;\n");
    CONTAINS("complete -F _snowfleet_test snowfleet-test\n");
    forget_text();
    print(options_bash_completion, &daemon_manual);
    CU_ASSERT_PTR_NULL(strstr(text, "COMP_WORDS[1]"));
}

static CU_TestInfo rules[] = {
    CHECK_TEST(a_page_names_the_program_and_each_option),
    CHECK_TEST(what_troff_would_take_for_its_own_is_escaped),
    CHECK_TEST(a_page_of_a_tool_has_the_commands_with_their_options),
    CHECK_TEST(a_completion_has_all_names_and_choices),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"manual pages and completion", NULL, NULL, NULL, forget_text, rules})
