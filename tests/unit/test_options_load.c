#include "common/options_load.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/check.h"

struct settings {
    char *cluster;
};
static const struct option options[] = {
    {.name = "cluster",
     .type = OPTION_STRING,
     .offset = offsetof(struct settings, cluster),
     .argument = "NAME",
     .fallback = "default",
     .help = "The cluster's name."},
    {.name = NULL},
};
static const struct option *const tables[] = {options, NULL};
static const struct option_set set = {
    .program = "p", .usage = "[OPTION]...", .summary = "Loads.", .tables = tables};

static char folder[] = "/tmp/snowfleet-test-XXXXXX";
static char path[sizeof folder + 16];
static struct settings settings;
static struct options_result result;
static struct error err;

static int make_folder(void) {
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void) {
    return rmdir(folder);
}

static void given_the_name_of_a_file(void) {
    snprintf(path, sizeof path, "%s/a.conf", folder);
}

static void remove_file(void) {
    unlink(path);
    options_free(&set, &settings);
}

static void given_file(const char *text, size_t len) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CU_ASSERT_EQUAL_FATAL(write(fd, text, len), (ssize_t)len);
    close(fd);
}

static enum status load(const char *file, const char *variable) {
    char *argv[] = {"p", "--config", (char *)file, NULL};
    char *envp[] = {(char *)variable, NULL};

    options_free(&set, &settings);
    return options_load(&set, file ? 3 : 1, argv, envp, &settings, &result, &err);
}

static void check_refused(enum status status, enum status expected, const char *reason) {
    char message[256];

    snprintf(message, sizeof message, "--config=%s%s", path, reason);
    CU_ASSERT_EQUAL(status, expected);
    CHECK_TEXT(err.message, message);
}

static void the_named_file_is_read(void) {
    given_file("cluster = blue\n", 15);
    CU_ASSERT_EQUAL(load(path, NULL), STATUS_OK);
    CHECK_TEXT(settings.cluster, "blue");
    CHECK_TEXT(result.config, path);
}

static void the_environment_may_name_it(void) {
    char variable[64];

    snprintf(variable, sizeof variable, "SNOWFLEET_CONFIG=%s", path);
    given_file("cluster = blue\n", 15);
    CU_ASSERT_EQUAL(load(NULL, variable), STATUS_OK);
    CHECK_TEXT(settings.cluster, "blue");
}

static void no_file_is_needed(void) {
    CU_ASSERT_EQUAL(load(NULL, NULL), STATUS_OK);
    CHECK_TEXT(settings.cluster, "default");
    CU_ASSERT_PTR_NULL(result.config);
}

static void a_mistake_in_it_names_file_and_line(void) {
    char message[256];

    given_file("\ncluter = blue\n", 15);
    CU_ASSERT_EQUAL(load(path, NULL), STATUS_INVALID);
    snprintf(message, sizeof message, "%s:2: cluter: unknown option", path);
    CHECK_TEXT(err.message, message);
}

static void a_file_that_is_not_there_is_never_passed_over(void) {
    check_refused(load(path, NULL), STATUS_SYSTEM, ": No such file or directory");
    CU_ASSERT_EQUAL(load("", NULL), STATUS_SYSTEM);
}

static void only_a_regular_file_is_read(void) {
    CU_ASSERT_EQUAL(mkdir(path, 0700), 0);
    check_refused(load(path, NULL), STATUS_INVALID, ": not a regular file");
    rmdir(path);
    CU_ASSERT_EQUAL(mkfifo(path, 0600), 0); /* without a writer: opening it must not wait */
    check_refused(load(path, NULL), STATUS_INVALID, ": not a regular file");
}

static void a_file_of_one_mib_is_read_and_a_longer_one_refused(void) {
    char *text = malloc(OPTIONS_FILE_MAX_BYTES + 1);

    memset(text, '\n', OPTIONS_FILE_MAX_BYTES + 1);
    given_file(text, OPTIONS_FILE_MAX_BYTES);
    CU_ASSERT_EQUAL(load(path, NULL), STATUS_OK);
    given_file(text, OPTIONS_FILE_MAX_BYTES + 1);
    check_refused(load(path, NULL), STATUS_INVALID, ": longer than 1048576 bytes");
    free(text);
}

static void help_does_not_need_the_file(void) {
    char *argv[] = {"p", "--config=/nonexistent", "--help", NULL};
    char *envp[] = {NULL};

    CU_ASSERT_EQUAL(options_load(&set, 3, argv, envp, &settings, &result, &err), STATUS_OK);
    CU_ASSERT_TRUE(result.help);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(the_named_file_is_read),
    CHECK_TEST(the_environment_may_name_it),
    CHECK_TEST(no_file_is_needed),
    CHECK_TEST(a_mistake_in_it_names_file_and_line),
    CHECK_TEST(a_file_that_is_not_there_is_never_passed_over),
    CHECK_TEST(only_a_regular_file_is_read),
    CHECK_TEST(a_file_of_one_mib_is_read_and_a_longer_one_refused),
    CHECK_TEST(help_does_not_need_the_file),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"options_load", make_folder, remove_folder, given_the_name_of_a_file, remove_file,
            rules})
