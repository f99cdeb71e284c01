#include "common/log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/decimal.h"

/* A value that would take more than this is cut, and a field that finds no room is left out: a log
 * line must not need memory that may not be there.  The reserve is for what ends a line. */
#define VALUE_MAX_BYTES 2048
#define LINE_SIZE 16384
#define LINE_RESERVE 64

/* How long a full pipe may hold up the caller.  A reader that has stopped costs one such wait, not
 * one for every line: nothing in the cluster may depend on somebody reading the log. */
#define FULL_PIPE_WAIT_MS 100

static struct {
    const char *program;
    enum log_format format;
    enum log_level lowest;
    pthread_mutex_t mutex; /* of what follows, and of the order of lines on stdout */
    uint64_t lost_lines;   /* since the last one that was written */
    bool broken_line;      /* the last write ended within a line */
} logger = {
    .program = "snowfleet",
    .format = LOG_FORMAT_JSON,
    .lowest = LOG_LEVEL_INFO,
    .mutex = PTHREAD_MUTEX_INITIALIZER,
};

void log_init(const char *program, enum log_format format, enum log_level lowest) {
    logger.program = program;
    logger.format = format;
    logger.lowest = lowest;
    signal(SIGPIPE, SIG_IGN);
}

struct line {
    size_t len;
    bool full; /* something did not fit; nothing more is put */
    char text[LINE_SIZE];
};

static void put(struct line *line, const char *text, size_t len) {
    if (len > LINE_SIZE - LINE_RESERVE - line->len)
        line->full = true;
    if (line->full)
        return;
    memcpy(line->text + line->len, text, len);
    line->len += len;
}

static void put_text(struct line *line, const char *text) {
    put(line, text, strlen(text));
}

/* The length of the well-formed UTF-8 character at text, or 0 when there is none: neither
 * overlong, nor a surrogate, nor above U+10FFFF.  The final NUL ends any character cut short. */
static size_t utf8_length(const unsigned char *text) {
    unsigned char lowest = 0x80, highest = 0xbf; /* of the second byte */
    size_t len, i;

    if (text[0] < 0x80)
        return 1;
    if (text[0] < 0xc2 || text[0] > 0xf4)
        return 0;
    len = text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
    if (text[0] == 0xe0)
        lowest = 0xa0;
    else if (text[0] == 0xed)
        highest = 0x9f;
    else if (text[0] == 0xf0)
        lowest = 0x90;
    else if (text[0] == 0xf4)
        highest = 0x8f;
    if (text[1] < lowest || text[1] > highest)
        return 0;
    for (i = 2; i < len; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    return len;
}

/* Control characters, among them C1 in two bytes: they could steer the terminal of a reader. */
static bool is_control(const unsigned char *text, size_t len) {
    return text[0] < 0x20 || text[0] == 0x7f || (len == 2 && text[0] == 0xc2 && text[1] < 0xa0);
}

/* Writes text between double quotes with JSON's escapes, which the text format shares.  What is no
 * UTF-8 becomes U+FFFD. */
static void put_quoted(struct line *line, const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    size_t end = line->len + VALUE_MAX_BYTES;
    char escape[8];

    put_text(line, "\"");
    while (*at && line->len < end && !line->full) {
        size_t len = utf8_length(at);

        if (len == 0) {
            put_text(line, "\xef\xbf\xbd");
            len = 1;
        } else if (*at == '"' || *at == '\\') {
            snprintf(escape, sizeof escape, "\\%c", *at);
            put_text(line, escape);
        } else if (*at == '\n') {
            put_text(line, "\\n");
        } else if (*at == '\t') {
            put_text(line, "\\t");
        } else if (is_control(at, len)) {
            snprintf(escape, sizeof escape, "\\u%04x", len == 1 ? at[0] : at[1]);
            put_text(line, escape);
        } else {
            put(line, (const char *)at, len);
        }
        at += len;
    }
    put_text(line, *at ? "...\"" : "\"");
}

/* For people, quotes only where the value would not be told from what stands beside it. */
static void put_bare_or_quoted(struct line *line, const char *text) {
    const char *at = text;

    while (*at > ' ' && *at < 0x7f && *at != '"' && *at != '\\' && *at != '=')
        at++;
    if (*text && !*at && at - text <= VALUE_MAX_BYTES)
        put_text(line, text);
    else
        put_quoted(line, text);
}

static void put_string(struct line *line, const char *text) {
    if (logger.format == LOG_FORMAT_JSON)
        put_quoted(line, text);
    else
        put_bare_or_quoted(line, text);
}

static void put_value(struct line *line, const struct log_field *field) {
    char number[DECIMAL_U64_MAX_CHARS + 2];

    switch (field->type) {
    case LOG_FIELD_STR:
        if (field->str)
            put_string(line, field->str);
        else
            put_text(line, "null");
        break;
    case LOG_FIELD_INT:
        snprintf(number, sizeof number, "%jd", (intmax_t)field->number);
        put_text(line, number);
        break;
    case LOG_FIELD_U64:
        number[decimal_format(field->wide, number)] = '\0';
        put_string(line, number);
        break;
    case LOG_FIELD_BOOL: put_text(line, field->number ? "true" : "false"); break;
    }
}

static void put_field(struct line *line, const struct log_field *field) {
    size_t len = line->len;

    if (logger.format == LOG_FORMAT_JSON) {
        put_text(line, ",");
        put_quoted(line, field->name);
        put_text(line, ":");
    } else {
        put_text(line, " ");
        put_text(line, field->name);
        put_text(line, "=");
    }
    put_value(line, field);
    if (line->full)
        line->len = len;
}

static void put_head(struct line *line, enum log_level level, const char *subject,
                     const char *message) {
    static const char *const names[] = {"debug", "info", "warn", "error"};
    const struct clock clock = clock_system();
    char time[32];

    time_format(clock_now(&clock).wall_ms, time);
    if (logger.format == LOG_FORMAT_JSON) {
        const struct log_field head[] = {
            LOG_STR("level", names[level]),
            LOG_STR("program", logger.program),
            LOG_STR("subject", subject),
            LOG_STR("message", message),
        };

        put_text(line, "{\"time\":");
        put_quoted(line, time);
        for (size_t i = 0; i < sizeof head / sizeof head[0]; i++)
            put_field(line, &head[i]);
    } else {
        char prefix[64];

        snprintf(prefix, sizeof prefix, "%s %-5s ", time, names[level]);
        put_text(line, prefix);
        put_text(line, subject);
        put_text(line, ": ");
        put_text(line, message);
    }
}

/* The line's end goes into the reserve. */
static void put_end(struct line *line) {
    bool json = logger.format == LOG_FORMAT_JSON;

    line->len += (size_t)snprintf(line->text + line->len, LINE_RESERVE, "%s%s\n",
                                  line->full ? (json ? ",\"cut\":true" : " cut=true") : "",
                                  json ? "}" : "");
}

static void build_line(struct line *line, enum log_level level, const char *subject,
                       const char *message, const struct log_field *fields, size_t n_fields) {
    size_t i;

    line->len = 0;
    line->full = false;
    put_head(line, level, subject, message);
    for (i = 0; i < n_fields; i++)
        put_field(line, &fields[i]);
    put_end(line);
}

static bool wait_for_room(void) {
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    int ready;

    do
        ready = poll(&out, 1, logger.lost_lines > 0 ? 0 : FULL_PIPE_WAIT_MS);
    while (ready < 0 && errno == EINTR);
    return ready > 0;
}

/* Returns whether the whole of it went out, in one write(2) unless it is longer than PIPE_BUF:
 * that much a pipe with room takes whole and without blocking. */
static bool write_whole(const char *text, size_t len) {
    while (len > 0) {
        size_t piece = len < PIPE_BUF ? len : PIPE_BUF;
        ssize_t written = wait_for_room() ? write(STDOUT_FILENO, text, piece) : 0;

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        logger.broken_line = true;
        text += written;
        len -= (size_t)written;
    }
    logger.broken_line = false;
    return true;
}

/* After lines were lost, tells so before the next one.  Returns whether stdout takes lines. */
static bool resume_lines(void) {
    const struct log_field count = LOG_U64("count", logger.lost_lines);
    struct line line;

    if (logger.lost_lines == 0)
        return true;
    if (logger.broken_line && !write_whole("\n", 1))
        return false;
    build_line(&line, LOG_LEVEL_WARN, "log", "lines lost", &count, 1);
    if (!write_whole(line.text, line.len))
        return false;
    logger.lost_lines = 0;
    return true;
}

void log_write(enum log_level level, const char *subject, const char *message,
               const struct log_field *fields, size_t n_fields) {
    int caller_errno = errno;
    struct line line;

    if (level < logger.lowest)
        return;
    build_line(&line, level, subject, message, fields, n_fields);
    pthread_mutex_lock(&logger.mutex);
    if (!resume_lines() || !write_whole(line.text, line.len))
        logger.lost_lines++;
    pthread_mutex_unlock(&logger.mutex);
    errno = caller_errno;
}

void log_repeat_failed(struct log_repeat *repeat, uint64_t boot_ms, const char *subject,
                       const char *message, const char *reason) {
    if (repeat->count++ > 0)
        return;
    repeat->since_boot_ms = boot_ms;
    log_warn(subject, message, LOG_STR("reason", reason));
}

void log_repeat_ended(struct log_repeat *repeat, uint64_t boot_ms, const char *subject,
                      const char *message) {
    if (repeat->count == 0)
        return;
    log_info(subject, message, LOG_U64("failures", repeat->count),
             LOG_INT("lasted_ms", boot_ms - repeat->since_boot_ms));
    *repeat = (struct log_repeat){0};
}
