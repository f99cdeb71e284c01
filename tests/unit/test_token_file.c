#include "common/token_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/check.h"

#define A "token-of-the-first-day"
#define B "token-of-the-second-day"

static char folder[64], name[96], other[96];
static struct token_file *file;
static struct error err;
static uint64_t now_ms;

static void write_file(const char *path, const char *text) {
    FILE *out = fopen(path, "w");

    if (!out || fchmod(fileno(out), 0600) != 0 || fputs(text, out) < 0 || fclose(out) != 0)
        abort();
}

static int given_a_folder(void) {
    strcpy(folder, "/tmp/snowfleet-tokens-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    snprintf(name, sizeof name, "%s/tokens", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    return 0;
}

static int remove_folder(void) {
    unlink(other);
    unlink(name);
    return rmdir(folder);
}

static void given_a_file_with_token_a(void) {
    now_ms = 1000;
    unlink(name);
    write_file(name, A "\n");
    CU_ASSERT_EQUAL_FATAL(token_file_open(name, &file, &err), STATUS_OK);
    CU_ASSERT_FALSE(token_file_look(file, now_ms));
}

static void close_file(void) {
    token_file_close(file);
}

static bool look_a_second_later(void) {
    now_ms += 1000;
    return token_file_look(file, now_ms);
}

static bool accepted(const char *token) {
    char header[300];

    snprintf(header, sizeof header, "Bearer %s", token);
    return tokens_accept(token_file_tokens(file), header);
}

static void it_is_looked_at_once_a_second(void) {
    write_file(name, B "\n");
    CU_ASSERT_FALSE(token_file_look(file, now_ms + 999));
    CU_ASSERT(accepted(A));
    CU_ASSERT(token_file_look(file, now_ms + 1000));
    CU_ASSERT_FALSE(accepted(A));
    CU_ASSERT(accepted(B));
}

static void the_first_token_is_what_is_shown(void) {
    CHECK_TEXT(token_file_header(file), "Authorization: Bearer " A);
    write_file(name, "# new ones come first\n" B "\n" A "\n");
    CU_ASSERT(look_a_second_later());
    CHECK_TEXT(token_file_header(file), "Authorization: Bearer " B);
}

static void what_did_not_change_is_not_told(void) {
    CU_ASSERT_FALSE(look_a_second_later());
    write_file(name, "# a comment\n" A "\n");
    CU_ASSERT_FALSE(look_a_second_later());
}

static void one_that_takes_its_place_by_rename_is_read(void) {
    write_file(other, B "\n");
    CU_ASSERT_EQUAL(rename(other, name), 0);
    CU_ASSERT(look_a_second_later());
    CU_ASSERT(accepted(B));
}

static void a_symbolic_link_that_is_switched_is_followed(void) {
    write_file(other, B "\n");
    unlink(name);
    CU_ASSERT_EQUAL(symlink(other, name), 0);
    CU_ASSERT(look_a_second_later());
    CU_ASSERT(accepted(B));
}

static void what_cannot_be_used_changes_nothing(void) {
    static const char *const texts[] = {"", "# none\n", "short\n", A "\nshort\n"};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_file(name, texts[i]);
        CHECK_ROW(texts[i], !look_a_second_later());
        CHECK_ROW(texts[i], accepted(A));
    }
    unlink(name);
    CU_ASSERT_FALSE(look_a_second_later());
    CU_ASSERT(accepted(A));
    write_file(name, B "\n");
    CU_ASSERT(look_a_second_later());
    CU_ASSERT(accepted(B));
}

static void only_modes_up_to_0640_are_let_pass(void) {
    static const struct {
        const char *row;
        mode_t mode;
        bool good;
    } modes[] = {
        {"0640, as group and owner need it", 0640, true},
        {"0440, as a Kubernetes secret has it", 0440, true},
        {"0600", 0600, true},
        {"0644: everybody reads it", 0644, false},
        {"0641: everybody may do something", 0641, false},
        {"0660: its group writes it", 0660, false},
    };
    struct token_file *opened;
    char expected[200];

    write_file(other, A "\n");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        CU_ASSERT_EQUAL(chmod(other, modes[i].mode), 0);
        if (modes[i].good) {
            CHECK_ROW(modes[i].row, token_file_open(other, &opened, &err) == STATUS_OK);
            token_file_close(opened);
            continue;
        }
        CHECK_ROW(modes[i].row, token_file_open(other, &opened, &err) == STATUS_INVALID);
        snprintf(expected, sizeof expected,
                 "%s: its mode is %04o, and must be 0640 or stricter: it holds secrets", other,
                 (unsigned)modes[i].mode);
        CHECK_TEXT(err.message, expected);
    }
    /* Of one that is in use already: what was read last stays. */
    write_file(name, B "\n");
    CU_ASSERT_EQUAL(chmod(name, 0644), 0);
    CU_ASSERT_FALSE(look_a_second_later());
    CU_ASSERT(accepted(A));
    CU_ASSERT_EQUAL(chmod(name, 0640), 0);
    CU_ASSERT(look_a_second_later());
    CU_ASSERT(accepted(B));
}

static void a_pipe_does_not_hold_it_up(void) {
    unlink(name);
    CU_ASSERT_EQUAL(mkfifo(name, 0600), 0);
    CU_ASSERT_FALSE(look_a_second_later());
    CU_ASSERT(accepted(A));
}

static void the_file_and_the_line_are_named(void) {
    struct token_file *unused;
    char expected[200];

    write_file(other, A "\nshort\n");
    CU_ASSERT_EQUAL(token_file_open(other, &unused, &err), STATUS_INVALID);
    snprintf(expected, sizeof expected, "%s: line 2: a token is 16..256 characters, got 5", other);
    CHECK_TEXT(err.message, expected);
    unlink(other);
    CU_ASSERT_EQUAL(token_file_open(other, &unused, &err), STATUS_SYSTEM);
    snprintf(expected, sizeof expected, "%s: No such file or directory", other);
    CHECK_TEXT(err.message, expected);
    CU_ASSERT_EQUAL(token_file_open(folder, &unused, &err), STATUS_INVALID);
    snprintf(expected, sizeof expected, "%s: it is not a file", folder);
    CHECK_TEXT(err.message, expected);
}

static void more_than_64_kilobytes_are_refused(void) {
    struct token_file *unused;
    FILE *out = fopen(other, "w");

    fputs(A "\n#", out);
    for (size_t i = strlen(A "\n#"); i < 65536; i++)
        putc('x', out);
    fchmod(fileno(out), 0600);
    fclose(out);
    CU_ASSERT_EQUAL_FATAL(token_file_open(other, &unused, &err), STATUS_OK);
    token_file_close(unused);
    out = fopen(other, "a");
    putc('x', out);
    fclose(out);
    CU_ASSERT_EQUAL(token_file_open(other, &unused, &err), STATUS_INVALID);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(it_is_looked_at_once_a_second),
    CHECK_TEST(the_first_token_is_what_is_shown),
    CHECK_TEST(what_did_not_change_is_not_told),
    CHECK_TEST(one_that_takes_its_place_by_rename_is_read),
    CHECK_TEST(a_symbolic_link_that_is_switched_is_followed),
    CHECK_TEST(what_cannot_be_used_changes_nothing),
    CHECK_TEST(only_modes_up_to_0640_are_let_pass),
    CHECK_TEST(a_pipe_does_not_hold_it_up),
    CHECK_TEST(the_file_and_the_line_are_named),
    CHECK_TEST(more_than_64_kilobytes_are_refused),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"a file of tokens", given_a_folder, remove_folder, given_a_file_with_token_a,
            close_file, rules})
