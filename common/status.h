/* status.h - how a failure travels.
 *
 * A function that can fail returns enum status.  One whose failure an operator will read also
 * takes struct error *err, last and never NULL.  Low levels report and never log; the level that
 * decides what to do logs, once. */
#ifndef SNOWFLEET_COMMON_STATUS_H
#define SNOWFLEET_COMMON_STATUS_H

enum status {
    STATUS_OK,
    STATUS_INVALID,     /* an argument or a setting is wrong: repeating it cannot help */
    STATUS_NOT_FOUND,   /* no such key, lease or name */
    STATUS_EXISTS,      /* it is there already */
    STATUS_REFUSED,     /* understood and not done: a rule or a right forbids it */
    STATUS_UNAVAILABLE, /* not done, and nothing happened: try again later */
    STATUS_UNKNOWN,     /* no answer: it may have happened, or may happen yet.  Read back first */
    STATUS_NO_SPACE,    /* etcd is out of space: not done */
    STATUS_AUTH,        /* who we are was not accepted: not done */
    STATUS_PROTOCOL,    /* the other side's answer makes no sense */
    STATUS_CANCELLED,   /* closed before an answer came: the outcome is unknown */
    STATUS_SYSTEM,      /* the operating system said no: errno's text is in the message */
    STATUS_STARVED,     /* the next timestamp would pass the limit that etcd granted */
    STATUS_CLOCK_BACK,  /* the clock is behind the newest ID and the strategy is to wait */
    STATUS_CLOCK_RANGE, /* the clock is before the epoch or past its end */
    STATUS_BUSY         /* this millisecond has used up its last sequence number */
};

/* message is for a person: "claim machine 7: 10.0.0.5:2379: connection refused" */
struct error {
    enum status status;
    char message[256];
};

/* A short lower-case name, as in logs: "unavailable". */
const char *status_name(enum status status);

/* Records a failure and returns status, so that one can write `return error_set(err, ...)`.
 * A message that does not fit is cut at a character and ends in "...". */
enum status error_set(struct error *err, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "context: " before the message and returns the status that err holds. */
enum status error_context(struct error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
