#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/check.h"

/* stdout is a pipe while a test logs, and CUnit's again while it reports. */
static int pipe_out = -1, terminal = -1;

static void capture(void) {
    int ends[2];

    fflush(stdout);
    CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    pipe_out = ends[0];
    terminal = dup(STDOUT_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[1]);
}

/* What was logged since capture(); the caller frees it. */
static char *release(void) {
    size_t len = 0, size = 1 << 17; /* a pipe holds 64 KiB */
    char *text = malloc(size);
    ssize_t got;

    dup2(terminal, STDOUT_FILENO);
    close(terminal);
    while ((got = read(pipe_out, text + len, size - 1 - len)) > 0)
        len += (size_t)got;
    text[len] = '\0';
    close(pipe_out);
    return text;
}

static void given_json_logs(void) {
    log_init("snowfleet-test", LOG_FORMAT_JSON, LOG_LEVEL_INFO);
}

static size_t count_lines(const char *text) {
    size_t n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* The one line that was logged, read by another JSON library; the caller gives it back. */
static json_t *release_json(void) {
    char *text = release();
    json_error_t at;
    json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, &at);

    CU_ASSERT_EQUAL(count_lines(text), 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(line);
    free(text);
    return line;
}

static const char *string(const json_t *line, const char *name) {
    const char *text = json_string_value(json_object_get(line, name));

    return text ? text : "(no string)";
}

/* --- one event, one line --- */

static void a_line_tells_time_level_program_subject_and_message(void) {
    json_t *line;
    char *dot;

    capture();
    log_warn("hold", "lease lost", LOG_INT("machine_id", 7));
    line = release_json();
    CHECK_TEXT(string(line, "level"), "warn");
    CHECK_TEXT(string(line, "program"), "snowfleet-test");
    CHECK_TEXT(string(line, "subject"), "hold");
    CHECK_TEXT(string(line, "message"), "lease lost");
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(line, "machine_id")), 7);
    CU_ASSERT_EQUAL(strlen(string(line, "time")), strlen("2024-01-01T00:00:00.000Z"));
    dot = strchr(string(line, "time"), '.');
    CU_ASSERT_PTR_NOT_NULL_FATAL(dot);
    CU_ASSERT_EQUAL(dot[4], 'Z');
    json_decref(line);
}

static void wide_numbers_are_strings_and_small_ones_numbers(void) {
    json_t *line;

    capture();
    log_info("t", "m", LOG_U64("id", UINT64_MAX), LOG_INT("offset_ms", -5),
             LOG_INT("least", INT64_MIN), LOG_BOOL("yes", 1), LOG_BOOL("no", 0),
             LOG_STR("nothing", NULL), LOG_STR("empty", ""));
    line = release_json();
    CHECK_TEXT(string(line, "id"), "18446744073709551615");
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(line, "offset_ms")), -5);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(line, "least")), INT64_MIN);
    CU_ASSERT_TRUE(json_is_true(json_object_get(line, "yes")));
    CU_ASSERT_TRUE(json_is_false(json_object_get(line, "no")));
    CU_ASSERT_TRUE(json_is_null(json_object_get(line, "nothing")));
    CHECK_TEXT(string(line, "empty"), "");
    json_decref(line);
}

static void fields_are_not_needed(void) {
    json_t *line;

    capture();
    log_write(LOG_LEVEL_ERROR, "t", "m", NULL, 0);
    line = release_json();
    CHECK_TEXT(string(line, "level"), "error");
    CU_ASSERT_EQUAL(json_object_size(line), 5);
    json_decref(line);
}

static void what_is_below_the_lowest_level_is_not_written(void) {
    char *text;

    capture();
    log_debug("t", "m", LOG_INT("a", 1));
    text = release();
    CHECK_TEXT(text, "");
    free(text);
    log_init("snowfleet-test", LOG_FORMAT_JSON, LOG_LEVEL_ERROR);
    capture();
    log_warn("t", "m", LOG_INT("a", 1));
    text = release();
    CHECK_TEXT(text, "");
    free(text);
}

static void errno_is_left_alone(void) {
    capture();
    errno = EXDEV;
    log_info("t", "m", LOG_INT("a", 1));
    CU_ASSERT_EQUAL(errno, EXDEV);
    free(release());
}

/* --- foreign text --- */

#define BAD "\xef\xbf\xbd" /* U+FFFD */

static const struct {
    const char *row, *text, *expected; /* NULL: comes back as it is */
} strings[] = {
    {"plain", "10.0.0.5:2379", NULL},
    {"quotes and backslashes", "a\"b\\c", NULL},
    {"line ends", "a\nb\r\nc\td", NULL},
    {"other control characters", "a\x01\x08\x0c\x1f\x7fz", NULL},
    {"an escape sequence", "\x1b[31mred", NULL},
    {"C1 control characters", "a\xc2\x85\xc2\x9bz", NULL},
    {"two bytes", "na\xc3\xafve", NULL},
    {"three bytes", "\xe2\x82\xac 5", NULL},
    {"four bytes", "\xf0\x9f\x98\x80", NULL},
    {"the last code point", "\xf4\x8f\xbf\xbf", NULL},
    {"around the surrogates", "\xed\x9f\xbf\xee\x80\x80", NULL},
    {"a lone continuation", "a\x80z", "a" BAD "z"},
    {"a character cut short", "a\xe2\x82", "a" BAD BAD},
    {"cut short and then more", "\xe2\x82z", BAD BAD "z"},
    {"a lead byte alone", "\xc3", BAD},
    {"an overlong slash", "\xc0\xaf", BAD BAD},
    {"an overlong three", "\xe0\x9f\xbf", BAD BAD BAD},
    {"an overlong four", "\xf0\x8f\xbf\xbf", BAD BAD BAD BAD},
    {"a surrogate", "\xed\xa0\x80", BAD BAD BAD},
    {"above the last code point", "\xf4\x90\x80\x80", BAD BAD BAD BAD},
    {"bytes that never occur", "\xfe\xff", BAD BAD},
};

static void any_text_gives_well_formed_json(void) {
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
        json_t *line;

        capture();
        log_info("t", "m", LOG_STR("text", strings[i].text), LOG_INT("after", 1));
        line = release_json();
        CHECK_ROW(strings[i].row, json_is_integer(json_object_get(line, "after")));
        CHECK_TEXT(string(line, "text"),
                   strings[i].expected ? strings[i].expected : strings[i].text);
        json_decref(line);
    }
}

static void no_control_character_is_written_raw(void) {
    for (int format = LOG_FORMAT_JSON; format <= LOG_FORMAT_TEXT; format++) {
        char *text;

        log_init("snowfleet-test", (enum log_format)format, LOG_LEVEL_INFO);
        capture();
        log_info("t", "m", LOG_STR("text", "\x1b[31m\n\x7f\xc2\x9b\x02"));
        text = release();
        CU_ASSERT_EQUAL(count_lines(text), 1);
        for (const char *at = text; at[1]; at++)
            CU_ASSERT((unsigned char)*at >= 0x20 && *at != 0x7f && (unsigned char)*at < 0x80);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"\\u001b[31m\\n\\u007f\\u009b\\u0002\""));
        free(text);
    }
}

static void random_bytes_give_well_formed_json(void) {
    struct check_random random = check_random_seeded(__func__);

    for (int i = 0; i < 2000; i++) {
        char text[64];
        size_t len = check_random_below(&random, sizeof text);
        json_t *line;

        for (size_t at = 0; at < len; at++)
            text[at] = (char)(1 + check_random_below(&random, 255));
        text[len] = '\0';
        capture();
        log_info("t", "m", LOG_STR("text", text));
        line = release_json();
        CU_ASSERT_TRUE(json_is_string(json_object_get(line, "text")));
        json_decref(line);
    }
}

static char *repeated(char c, size_t len) {
    char *text = malloc(len + 1);

    memset(text, c, len);
    text[len] = '\0';
    return text;
}

static void a_long_value_is_cut_and_says_so(void) {
    static const char fillings[] = {'x', '\x01', '"', '\xff'};

    for (size_t i = 0; i < sizeof fillings; i++) {
        char *text = repeated(fillings[i], 100000);
        const char *read;
        json_t *line;

        capture();
        log_info("t", "m", LOG_STR("text", text), LOG_INT("after", 1));
        line = release_json();
        read = string(line, "text");
        CU_ASSERT(strlen(read) < 2100);
        CU_ASSERT_STRING_EQUAL(read + strlen(read) - 3, "...");
        CU_ASSERT_TRUE(json_is_integer(json_object_get(line, "after")));
        CU_ASSERT_PTR_NULL(json_object_get(line, "cut"));
        json_decref(line);
        free(text);
    }
}

static void fields_that_find_no_room_are_left_out_and_the_line_says_so(void) {
    struct log_field fields[100];
    char *text = repeated('x', 1000), *written;
    size_t n_written = 0;
    json_t *line;

    for (size_t i = 0; i < 100; i++) {
        static char names[100][8];

        snprintf(names[i], sizeof names[i], "f%zu", i);
        fields[i] = LOG_STR(names[i], text);
    }
    capture();
    log_write(LOG_LEVEL_INFO, "t", "m", fields, 100);
    line = release_json();
    CU_ASSERT_TRUE(json_is_true(json_object_get(line, "cut")));
    CHECK_TEXT(string(line, "f0"), text);
    for (size_t i = 0; i < 100; i++) {
        written = (char *)string(line, fields[i].name);
        n_written += strcmp(written, text) == 0;
    }
    CU_ASSERT(n_written > 10);
    CU_ASSERT_EQUAL(json_object_size(line), 5 + n_written + 1);
    json_decref(line);
    free(text);
}

/* --- for people --- */

static void text_is_for_people(void) {
    char *text;

    log_init("snowfleet-test", LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
    capture();
    log_info("hold", "claimed", LOG_INT("machine_id", 7), LOG_STR("identity", "ns/pod-0"),
             LOG_U64("limit_ms", 1704067200000), LOG_STR("reason", "two words"),
             LOG_STR("odd", "a=b"), LOG_STR("empty", ""), LOG_STR("quoted", "\""),
             LOG_STR("nothing", NULL), LOG_BOOL("ok", 1), LOG_STR("accent", "na\xc3\xafve"));
    text = release();
    CU_ASSERT_EQUAL(text[23], 'Z');
    CHECK_TEXT(text + 24, " info  hold: claimed machine_id=7 identity=ns/pod-0 "
                          "limit_ms=1704067200000 reason=\"two words\" odd=\"a=b\" empty=\"\" "
                          "quoted=\"\\\"\" nothing=null ok=true accent=\"na\xc3\xafve\"\n");
    free(text);
}

/* --- what repeats --- */

static void a_row_of_failures_is_logged_at_its_start_and_its_end(void) {
    struct log_repeat repeat = {0};
    char *text;
    json_t *line;

    capture();
    log_repeat_ended(&repeat, 900, "etcd", "reached again");
    log_repeat_failed(&repeat, 1000, "etcd", "not reached", "connection refused");
    line = release_json();
    CHECK_TEXT(string(line, "level"), "warn");
    CHECK_TEXT(string(line, "message"), "not reached");
    CHECK_TEXT(string(line, "reason"), "connection refused");
    json_decref(line);

    capture();
    for (int i = 0; i < 99; i++)
        log_repeat_failed(&repeat, 2000, "etcd", "not reached", "connection refused");
    text = release();
    CHECK_TEXT(text, "");
    free(text);

    capture();
    log_repeat_ended(&repeat, 61000, "etcd", "reached again");
    log_repeat_ended(&repeat, 62000, "etcd", "reached again");
    line = release_json();
    CHECK_TEXT(string(line, "message"), "reached again");
    CHECK_TEXT(string(line, "failures"), "100");
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(line, "lasted_ms")), 60000);
    json_decref(line);
}

/* --- stdout in trouble --- */

static uint64_t now_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void fill_the_pipe(void) {
    char byte = '\n';

    while (write(STDOUT_FILENO, &byte, 1) == 1)
        ;
}

static void check_nobody_waits_for_a_reader_that_stopped(void) {
    uint64_t start_ms = now_ms();
    char *text, *last;
    char byte[4096];
    json_t *line;

    for (int i = 0; i < 1000; i++)
        log_info("t", "lost", LOG_INT("i", i));
    CU_ASSERT(now_ms() - start_ms < 1000);
    for (int i = 0; i < 10; i++) /* the reader comes back */
        CU_ASSERT(read(pipe_out, byte, sizeof byte) > 0);
    log_info("t", "kept", LOG_INT("i", 1));
    text = release();
    last = text + strspn(text, "\n");
    CU_ASSERT_EQUAL(count_lines(last), 2);
    line = json_loadb(last, strcspn(last, "\n"), 0, NULL);
    CHECK_TEXT(string(line, "message"), "lines lost");
    CHECK_TEXT(string(line, "count"), "1000");
    json_decref(line);
    CU_ASSERT_PTR_NOT_NULL(strstr(last, "\"kept\""));
    free(text);
}

static void a_full_pipe_holds_nobody_up_and_the_loss_is_told(void) {
    capture();
    fill_the_pipe();
    check_nobody_waits_for_a_reader_that_stopped();
}

static void a_full_blocking_pipe_holds_nobody_up_either(void) {
    capture();
    fill_the_pipe();
    fcntl(STDOUT_FILENO, F_SETFL, 0);
    check_nobody_waits_for_a_reader_that_stopped();
}

static void a_line_that_broke_off_does_not_spoil_the_next(void) {
    char *text, *at, byte[4096], *value = repeated('x', 2000);
    struct log_field fields[7];
    bool whole = true;

    for (size_t i = 0; i < 7; i++) {
        static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g"};

        fields[i] = LOG_STR(names[i], value);
    }
    capture();
    fill_the_pipe();
    CU_ASSERT(read(pipe_out, byte, sizeof byte) > 0); /* room for a part of the next line */
    log_write(LOG_LEVEL_INFO, "t", "broken", fields, 7);
    for (int i = 0; i < 4; i++)
        CU_ASSERT(read(pipe_out, byte, sizeof byte) > 0);
    log_info("t", "kept", LOG_INT("i", 1));
    text = release();
    at = strstr(text, "\n{\"time\"");
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    at = strstr(at + 1, "\n{\"time\""); /* behind the broken one */
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    CU_ASSERT_EQUAL(count_lines(at + 1), 2);
    for (at++; *at; at += strcspn(at, "\n") + 1) {
        json_t *line = json_loadb(at, strcspn(at, "\n"), 0, NULL);

        whole = whole && line;
        json_decref(line);
    }
    CU_ASSERT_TRUE(whole);
    free(text);
    free(value);
}

static void a_reader_that_went_away_ends_nothing(void) {
    capture();
    close(pipe_out);
    log_info("t", "m", LOG_INT("a", 1));
    log_info("t", "m", LOG_INT("a", 2));
    pipe_out = open("/dev/null", O_RDONLY | O_CLOEXEC);
    free(release());
    capture(); /* and a new one is told of the loss */
    log_info("t", "m", LOG_INT("a", 3));
    free(release());
}

#define THREADS 4
#define LINES_OF_THREAD 500

static void *write_lines(void *arg) {
    for (int i = 0; i < LINES_OF_THREAD; i++)
        log_info("t", "m", LOG_INT("thread", *(int *)arg), LOG_INT("i", i));
    return NULL;
}

static void *read_lines(void *arg) {
    char *text = arg;
    size_t len = 0;

    while (count_lines(text) < THREADS * LINES_OF_THREAD) {
        ssize_t got = read(pipe_out, text + len, (1 << 20) - 1 - len);

        len += got > 0 ? (size_t)got : 0;
        text[len] = '\0';
    }
    return NULL;
}

static void threads_write_whole_lines_each_in_its_order(void) {
    char *text = calloc(1, 1 << 20);
    int numbers[THREADS];
    json_int_t next[THREADS] = {0};
    pthread_t threads[THREADS], reader;

    capture();
    pthread_create(&reader, NULL, read_lines, text);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, write_lines, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_join(reader, NULL);
    free(release());
    for (const char *at = text; *at; at += strcspn(at, "\n") + 1) {
        json_t *line = json_loadb(at, strcspn(at, "\n"), 0, NULL);
        json_int_t thread = json_integer_value(json_object_get(line, "thread"));

        CU_ASSERT_PTR_NOT_NULL_FATAL(line);
        CU_ASSERT_EQUAL(json_integer_value(json_object_get(line, "i")), next[thread]++);
        json_decref(line);
    }
    for (int i = 0; i < THREADS; i++)
        CU_ASSERT_EQUAL(next[i], LINES_OF_THREAD);
    free(text);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(a_line_tells_time_level_program_subject_and_message),
    CHECK_TEST(wide_numbers_are_strings_and_small_ones_numbers),
    CHECK_TEST(fields_are_not_needed),
    CHECK_TEST(what_is_below_the_lowest_level_is_not_written),
    CHECK_TEST(errno_is_left_alone),
    CHECK_TEST(any_text_gives_well_formed_json),
    CHECK_TEST(no_control_character_is_written_raw),
    CHECK_TEST(random_bytes_give_well_formed_json),
    CHECK_TEST(a_long_value_is_cut_and_says_so),
    CHECK_TEST(fields_that_find_no_room_are_left_out_and_the_line_says_so),
    CHECK_TEST(text_is_for_people),
    CHECK_TEST(a_row_of_failures_is_logged_at_its_start_and_its_end),
    CHECK_TEST(a_full_pipe_holds_nobody_up_and_the_loss_is_told),
    CHECK_TEST(a_full_blocking_pipe_holds_nobody_up_either),
    CHECK_TEST(a_line_that_broke_off_does_not_spoil_the_next),
    CHECK_TEST(a_reader_that_went_away_ends_nothing),
    CHECK_TEST(threads_write_whole_lines_each_in_its_order),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"log", NULL, NULL, given_json_logs, NULL, rules})
