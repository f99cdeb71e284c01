/* log.h - the only file that writes log lines.
 *
 * One event, one line on stdout: a JSON object, or text for people.  The level that decides what
 * to do logs, once; what repeats is logged at its start and its end, with a count (log_repeat).
 * Thread-safe: lines are written whole.  errno is left alone.
 *
 * Logging holds nobody up: when stdout is a pipe that nobody reads, a line waits 100 ms at most,
 * those after it not at all; the lost ones are counted and the count is logged once there is room
 * again.  Very long values end in "...", and a line that had to leave fields out says "cut". */
#ifndef SNOWFLEET_COMMON_LOG_H
#define SNOWFLEET_COMMON_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };
enum log_format { LOG_FORMAT_JSON, LOG_FORMAT_TEXT };

/* Once, before any thread starts.  program is kept, not copied.  From here on SIGPIPE is ignored in
 * the whole process: a reader of the log (or a client) that goes away must not end it. */
void log_init(const char *program, enum log_format format, enum log_level lowest);

/* Names carry their unit: "ttl_s", "limit_ms".  64-bit values that a script may compare (IDs,
 * timestamps, counters) go out as strings in JSON; small ones with LOG_INT as numbers. */
struct log_field {
    const char *name;
    enum { LOG_FIELD_STR, LOG_FIELD_INT, LOG_FIELD_U64, LOG_FIELD_BOOL } type;
    const char *str; /* NULL is written as null */
    int64_t number;
    uint64_t wide;
};
#define LOG_STR(n, v) ((struct log_field){.name = (n), .type = LOG_FIELD_STR, .str = (v)})
#define LOG_INT(n, v)                                                                              \
    ((struct log_field){.name = (n), .type = LOG_FIELD_INT, .number = (int64_t)(v)})
#define LOG_U64(n, v)                                                                              \
    ((struct log_field){.name = (n), .type = LOG_FIELD_U64, .wide = (uint64_t)(v)})
#define LOG_BOOL(n, v)                                                                             \
    ((struct log_field){.name = (n), .type = LOG_FIELD_BOOL, .number = (v) ? 1 : 0})

/* subject: the part that speaks ("hold", "etcd", "http"); message: what happened, a fixed text. */
void log_write(enum log_level level, const char *subject, const char *message,
               const struct log_field *fields, size_t n_fields);

#define LOG_FIELDS_(...) ((const struct log_field[]){__VA_ARGS__})
#define log_event(level, subject, message, ...)                                                    \
    log_write((level), (subject), (message), LOG_FIELDS_(__VA_ARGS__),                             \
              sizeof LOG_FIELDS_(__VA_ARGS__) / sizeof(struct log_field))
#define log_debug(subject, message, ...) log_event(LOG_LEVEL_DEBUG, subject, message, __VA_ARGS__)
#define log_info(subject, message, ...) log_event(LOG_LEVEL_INFO, subject, message, __VA_ARGS__)
#define log_warn(subject, message, ...) log_event(LOG_LEVEL_WARN, subject, message, __VA_ARGS__)
#define log_error(subject, message, ...) log_event(LOG_LEVEL_ERROR, subject, message, __VA_ARGS__)

/* A failure that may repeat: keep one for each thing that can fail (zeroed at first). */
struct log_repeat {
    uint64_t count; /* failures since the last success; 0: all is well */
    uint64_t since_boot_ms;
};
/* Logs the first failure of a row as a warning, counts the others in silence. */
void log_repeat_failed(struct log_repeat *repeat, uint64_t boot_ms, const char *subject,
                       const char *message, const char *reason);
/* Logs the end of a row of failures with its count and length; silent when there was none. */
void log_repeat_ended(struct log_repeat *repeat, uint64_t boot_ms, const char *subject,
                      const char *message);

#endif
