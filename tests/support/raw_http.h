/* raw_http.h - an HTTP client that can be as slow, as rude and as wrong as a test wants.
 *
 * Aborts when the machine itself refuses (no sockets); what the server does is the test's to judge. */
#ifndef SNOWFLEET_TESTS_SUPPORT_RAW_HTTP_H
#define SNOWFLEET_TESTS_SUPPORT_RAW_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RAW_TIMEOUT_MS 20000 /* for what has to come */

struct raw {
    int fd;
    char *bytes; /* received and not yet taken, NUL-terminated */
    size_t len, room;
};

/* Connects to 127.0.0.1. */
void raw_open(struct raw *raw, unsigned port);
/* Closes; reset: with RST instead of FIN. */
void raw_close(struct raw *raw, bool reset);
/* Sends all of it, or as much as the server takes before it closes; false then. */
bool raw_send(struct raw *raw, const char *bytes, size_t len);
bool raw_print(struct raw *raw, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct raw_answer {
    int status; /* 0: none came */
    char *head; /* status line and headers, NUL-terminated */
    char *body; /* NUL-terminated */
    size_t body_len;
};
/* Waits for one answer and takes it off the connection; false when none came before the server
 * closed or the time was over.  no_body: to HEAD. */
bool raw_answer(struct raw *raw, struct raw_answer *answer, bool no_body);
void raw_answer_free(struct raw_answer *answer);
/* The value of a header of the answer into value[size]; false when there is none. */
bool raw_header(const struct raw_answer *answer, const char *name, char *value, size_t size);

bool raw_header_is(const struct raw_answer *answer, const char *name, const char *expected);

/* Is the connection closed by the server, within this time?  What comes before counts as received. */
bool raw_closed(struct raw *raw, int within_ms);

/* One request on a connection of its own.  headers: complete lines, each with its CR and LF.  They
 * return the answer's status, 0 when none came. */
int raw_ask(unsigned port, const char *method, const char *target, const char *headers,
            const char *body, struct raw_answer *answer);
int raw_get(unsigned port, const char *target, const char *headers, struct raw_answer *answer);
int raw_status(unsigned port, const char *target); /* of a GET */

uint64_t raw_now_ms(void); /* of a clock that only runs forward */

#endif
