#include "common/state_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/snowflake.h"
#include "tests/support/check.h"

static char folder[64], path[128];
static struct state_file *file;
static struct state_record record;
static struct error err;

static void write_text(const char *name, const char *text) {
    FILE *out = fopen(name, "w");

    if (!out || fputs(text, out) < 0 || fclose(out) != 0)
        abort();
}

static void given_a_state_file(void) {
    snprintf(folder, sizeof folder, "/tmp/test_state_file.XXXXXX");
    if (!mkdtemp(folder))
        abort();
    snprintf(path, sizeof path, "%s/state", folder);
    record = (struct state_record){.kind = STATE_STANDALONE,
                                   .host = "hostname:here",
                                   .epoch_ms = SNOWFLAKE_EPOCH_MS,
                                   .horizon_ms = SNOWFLAKE_EPOCH_MS};
    CU_ASSERT_EQUAL_FATAL(state_file_create(path, &record, &file, &err), STATUS_OK);
}

static void and_no_more(void) {
    char command[128];

    state_file_close(file);
    file = NULL;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        abort();
}

static enum status write_horizon(uint64_t ms) {
    record.horizon_ms = SNOWFLAKE_EPOCH_MS + ms;
    return state_file_write(file, &record, &err);
}

static enum status reopen(void) {
    state_file_close(file);
    file = NULL;
    memset(&record, 0, sizeof record);
    return state_file_open(path, &file, &record, &err);
}

static uint64_t horizon(void) {
    return record.horizon_ms - SNOWFLAKE_EPOCH_MS;
}

static bool says(const char *words) {
    bool found = strstr(err.message, words) != NULL;

    if (!found)
        printf("\n    %s\n  ", err.message);
    return found;
}

/* Overwrites n bytes of the file in place. */
static void damage(off_t at, size_t n) {
    int fd = open(path, O_WRONLY);

    for (size_t i = 0; i < n; i++)
        if (pwrite(fd, "x", 1, at + (off_t)i) != 1)
            abort();
    close(fd);
}

static void what_was_written_is_read_and_both_blocks_have_it(void) {
    struct stat made;

    CU_ASSERT_EQUAL(write_horizon(100), STATUS_OK);
    CU_ASSERT_EQUAL(stat(path, &made), 0);
    CU_ASSERT_EQUAL(made.st_size, STATE_FILE_BYTES);
    CU_ASSERT_EQUAL(made.st_mode & 0777, 0600);
    for (off_t block = 0; block < 2; block++) {
        CU_ASSERT_EQUAL(write_horizon(200 + (uint64_t)block), STATUS_OK);
        damage(block * STATE_RECORD_BYTES + 50, 1);
        CU_ASSERT_EQUAL_FATAL(reopen(), STATUS_OK);
        CU_ASSERT_EQUAL(horizon(), 200 + (uint64_t)block);
    }
}

static void the_next_write_puts_a_damaged_block_right_before_it_touches_the_good_one(void) {
    for (off_t block = 0; block < 2; block++) {
        struct rlimit before, only_one = {.rlim_cur = STATE_RECORD_BYTES};

        CU_ASSERT_EQUAL(write_horizon(300), STATUS_OK);
        damage(block * STATE_RECORD_BYTES + 50, 1);
        CU_ASSERT_EQUAL_FATAL(reopen(), STATUS_OK);
        /* The second block cannot be written: if it is the damaged one, nothing is. */
        getrlimit(RLIMIT_FSIZE, &before);
        only_one.rlim_max = before.rlim_max;
        setrlimit(RLIMIT_FSIZE, &only_one);
        CU_ASSERT_EQUAL(write_horizon(400), STATUS_SYSTEM);
        setrlimit(RLIMIT_FSIZE, &before);
        CU_ASSERT(says("state: write: File too large"));
        CU_ASSERT_EQUAL_FATAL(reopen(), STATUS_OK);
        CU_ASSERT_EQUAL(horizon(), block == 0 ? 400 : 300);
    }
}

static void a_file_that_exists_is_not_made_again(void) {
    struct state_file *other = NULL;

    CU_ASSERT_EQUAL(state_file_create(path, &record, &other, &err), STATUS_EXISTS);
    CU_ASSERT_PTR_NULL(other);
    CU_ASSERT(says(path));
}

static void only_one_process_has_it_open(void) {
    struct state_file *other = NULL;

    CU_ASSERT_EQUAL(state_file_open(path, &other, &record, &err), STATUS_UNAVAILABLE);
    CU_ASSERT(says("another process has it open"));
    CU_ASSERT_EQUAL(reopen(), STATUS_OK);
}

static void a_path_that_leads_elsewhere_is_not_written(void) {
    char copy[160];

    snprintf(copy, sizeof copy, "%s.copy", path);
    write_text(copy, "");
    CU_ASSERT_EQUAL(rename(copy, path), 0);
    CU_ASSERT_EQUAL(write_horizon(100), STATUS_REFUSED);
    CU_ASSERT(says("another file has been put in the place"));
    unlink(path);
    CU_ASSERT_EQUAL(write_horizon(100), STATUS_REFUSED);
    CU_ASSERT(says("not there any more"));
}

static void a_file_cut_short_is_whole_again_after_a_start_and_a_write(void) {
    struct stat made;

    CU_ASSERT_EQUAL(write_horizon(100), STATUS_OK);
    CU_ASSERT_EQUAL(truncate(path, STATE_RECORD_BYTES + 10), 0);
    CU_ASSERT_EQUAL_FATAL(reopen(), STATUS_OK);
    CU_ASSERT_EQUAL(horizon(), 100);
    CU_ASSERT_EQUAL(write_horizon(200), STATUS_OK);
    CU_ASSERT_EQUAL(stat(path, &made), 0);
    CU_ASSERT_EQUAL(made.st_size, STATE_FILE_BYTES);
    damage(0, 100);
    CU_ASSERT_EQUAL_FATAL(reopen(), STATUS_OK);
    CU_ASSERT_EQUAL(horizon(), 200);
}

static void what_cannot_be_used_is_named(void) {
    static const struct {
        const char *row, *path, *words;
        enum status status;
    } rows[] = {
        {"missing", "/tmp/no-such-folder/state", "no such file", STATUS_NOT_FOUND},
        {"a folder", "/tmp", "/tmp: open: Is a directory", STATUS_SYSTEM},
        {"a device", "/dev/null", "/dev/null: not a regular file", STATUS_INVALID},
        {"a file of somebody else's", "/proc/self/exe", "/proc/self/exe: ", STATUS_SYSTEM},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct state_file *other = NULL;

        CHECK_ROW(rows[i].row,
                  state_file_open(rows[i].path, &other, &record, &err) == rows[i].status);
        CHECK_ROW(rows[i].row, says(rows[i].words));
    }
}

static void nothing_is_left_of_a_file_that_could_not_be_made(void) {
    struct rlimit before, none = {.rlim_cur = STATE_RECORD_BYTES};
    struct state_file *other = NULL;
    char name[160];

    snprintf(name, sizeof name, "%s.other", path);
    getrlimit(RLIMIT_FSIZE, &before);
    none.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &none);
    CU_ASSERT_EQUAL(state_file_create(name, &record, &other, &err), STATUS_SYSTEM);
    setrlimit(RLIMIT_FSIZE, &before);
    CU_ASSERT_NOT_EQUAL(access(name, F_OK), 0);
    CU_ASSERT_EQUAL(state_file_create("/tmp/no-such-folder/state", &record, &other, &err),
                    STATUS_SYSTEM);
    CU_ASSERT(says("/tmp/no-such-folder/state: create: No such file or directory"));
}

static void the_sequence_never_wraps(void) {
    unsigned char bytes[STATE_RECORD_BYTES];
    int fd = open(path, O_WRONLY);

    record.sequence = STATE_SEQUENCE_MAX;
    state_record_encode(&record, bytes);
    CU_ASSERT_EQUAL(write(fd, bytes, sizeof bytes), (ssize_t)sizeof bytes);
    close(fd);
    CU_ASSERT_EQUAL_FATAL(reopen(), STATUS_OK);
    CU_ASSERT_EQUAL(write_horizon(100), STATUS_REFUSED);
    CU_ASSERT(says("no sequence number is left"));
}

static void the_host_is_its_machine_id_or_else_its_name(void) {
    static const struct {
        const char *row, *text;
        bool by_id;
    } rows[] = {
        {"as systemd writes it", "0123456789abcdef0123456789abcdef\n", true},
        {"without a newline", "0123456789abcdef0123456789abcdef", true},
        {"empty, as in an image", "", false},
        {"not set up yet", "uninitialized\n", false},
        {"too long", "0123456789abcdef0123456789abcdef0\n", false},
        {"not hex", "0123456789abcdef0123456789abcdeg\n", false},
    };
    char host[STATE_HOST_MAX + 1], name[160];

    snprintf(name, sizeof name, "%s/machine-id", folder);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_text(name, rows[i].text);
        CHECK_ROW(rows[i].row, state_host(name, host, &err) == STATUS_OK);
        if (rows[i].by_id)
            CHECK_TEXT(host, "machine-id:0123456789abcdef0123456789abcdef");
        else
            CHECK_ROW(rows[i].row, strncmp(host, "hostname:", 9) == 0 && host[9]);
    }
    unlink(name);
    CU_ASSERT_EQUAL(state_host(name, host, &err), STATUS_OK);
    CU_ASSERT(strncmp(host, "hostname:", 9) == 0);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(what_was_written_is_read_and_both_blocks_have_it),
    CHECK_TEST(the_next_write_puts_a_damaged_block_right_before_it_touches_the_good_one),
    CHECK_TEST(a_file_that_exists_is_not_made_again),
    CHECK_TEST(only_one_process_has_it_open),
    CHECK_TEST(a_path_that_leads_elsewhere_is_not_written),
    CHECK_TEST(a_file_cut_short_is_whole_again_after_a_start_and_a_write),
    CHECK_TEST(what_cannot_be_used_is_named),
    CHECK_TEST(nothing_is_left_of_a_file_that_could_not_be_made),
    CHECK_TEST(the_sequence_never_wraps),
    CHECK_TEST(the_host_is_its_machine_id_or_else_its_name),
    CU_TEST_INFO_NULL};

int main(void) {
    CU_SuiteInfo suites[] = {{"a state file", NULL, NULL, given_a_state_file, and_no_more, rules},
                             CU_SUITE_INFO_NULL};

    signal(SIGXFSZ, SIG_IGN); /* as the worker does */
    return check_run(suites);
}
