/* raw_server.h - a TCP server in the test's own loop that reads HTTP requests and answers with
 * whatever bytes a test wants, or not at all. */
#ifndef SNOWFLEET_TESTS_SUPPORT_RAW_SERVER_H
#define SNOWFLEET_TESTS_SUPPORT_RAW_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct raw_connection;

struct raw_request {
    size_t number;    /* of all requests of this server, from 1 */
    const char *head; /* request line and headers, NUL-terminated */
    const char *body; /* NUL-terminated */
    size_t body_len;
    bool reused; /* not the first one of its connection */
};
/* Called for each whole request.  May answer now, later or never. */
typedef void raw_handler_fn(struct raw_connection *connection, const struct raw_request *request);

struct raw_server {
    uv_tcp_t handle;
    int port;
    char url[40]; /* "http://127.0.0.1:12345" */
    raw_handler_fn *handler;
    size_t n_requests, n_connections;
    size_t n_open; /* connections that stand now */
    struct raw_connection *connections;
};

void raw_server_start(struct raw_server *server, uv_loop_t *loop, raw_handler_fn *handler);
/* Closes the listener and all connections, and runs the loop until they are gone. */
void raw_server_stop(struct raw_server *server, uv_loop_t *loop);

void raw_send(struct raw_connection *connection, const char *bytes, size_t len);
/* A 200 with Content-Length and JSON. */
void raw_answer(struct raw_connection *connection, const char *body);
/* The head of a chunked 200, and one chunk. */
void raw_begin_chunks(struct raw_connection *connection);
void raw_chunk(struct raw_connection *connection, const char *bytes, size_t len);
void raw_end_chunks(struct raw_connection *connection);
void raw_close(struct raw_connection *connection);
/* Sends the end of the stream after what was sent, and goes on reading. */
void raw_finish(struct raw_connection *connection);
/* Closes all connections of the server. */
void raw_close_all(struct raw_server *server);

#endif
