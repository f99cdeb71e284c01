#include "tests/support/raw_server.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/allocate.h"

struct raw_connection {
    uv_tcp_t handle;
    struct raw_server *server;
    struct raw_connection *next;
    size_t n_requests;
    char *bytes;
    size_t len;
};

struct write {
    uv_write_t request;
    char *bytes;
};

static void must(int result) {
    if (result < 0) {
        fprintf(stderr, "raw_server: %s\n", uv_strerror(result));
        abort();
    }
}

static void on_closed(uv_handle_t *handle) {
    struct raw_connection *connection = handle->data;
    struct raw_connection **link = &connection->server->connections;

    while (*link != connection)
        link = &(*link)->next;
    *link = connection->next;
    connection->server->n_open--;
    free(connection->bytes);
    free(connection);
}

void raw_close(struct raw_connection *connection) {
    if (!uv_is_closing((uv_handle_t *)&connection->handle))
        uv_close((uv_handle_t *)&connection->handle, on_closed);
}

static void on_finished(uv_shutdown_t *request, int status) {
    (void)status;
    free(request);
}

void raw_finish(struct raw_connection *connection) {
    uv_shutdown_t *request = allocate(1, sizeof *request);

    if (uv_shutdown(request, (uv_stream_t *)&connection->handle, on_finished) != 0)
        free(request);
}

void raw_close_all(struct raw_server *server) {
    struct raw_connection *connection;

    for (connection = server->connections; connection; connection = connection->next)
        raw_close(connection);
}

/* Takes one whole request off the front, if there is one. */
static bool take_request(struct raw_connection *connection) {
    const char *end = connection->len ? memmem(connection->bytes, connection->len, "\r\n\r\n", 4)
                                      : NULL;
    struct raw_request request = {0};
    const char *field;
    size_t head_len, all;
    char *head, *body;

    if (!end)
        return false;
    head_len = (size_t)(end - connection->bytes) + 4;
    head = allocate_copy(connection->bytes, head_len);
    field = strcasestr(head, "\r\nContent-Length:");
    request.body_len = field ? strtoul(strchr(field, ':') + 1, NULL, 10) : 0;
    all = head_len + request.body_len;
    if (connection->len < all) {
        free(head);
        return false;
    }
    body = allocate_copy(connection->bytes + head_len, request.body_len);
    memmove(connection->bytes, connection->bytes + all, connection->len - all);
    connection->len -= all;
    request.number = ++connection->server->n_requests;
    request.reused = connection->n_requests++ > 0;
    request.head = head;
    request.body = body;
    connection->server->handler(connection, &request);
    free(head);
    free(body);
    return true;
}

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *room) {
    (void)handle;
    *room = uv_buf_init(allocate(wanted, 1), (unsigned)wanted);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *room) {
    struct raw_connection *connection = stream->data;

    if (n > 0) {
        connection->bytes = reallocate(connection->bytes, connection->len + (size_t)n);
        memcpy(connection->bytes + connection->len, room->base, (size_t)n);
        connection->len += (size_t)n;
        while (!uv_is_closing((uv_handle_t *)stream) && take_request(connection))
            ;
    }
    free(room->base);
    if (n < 0)
        raw_close(connection);
}

static void on_connection(uv_stream_t *listener, int status) {
    struct raw_server *server = listener->data;
    struct raw_connection *connection = allocate(1, sizeof *connection);

    must(status);
    connection->server = server;
    connection->next = server->connections;
    server->connections = connection;
    server->n_connections++;
    server->n_open++;
    must(uv_tcp_init(listener->loop, &connection->handle));
    connection->handle.data = connection;
    must(uv_accept(listener, (uv_stream_t *)&connection->handle));
    uv_tcp_nodelay(&connection->handle, 1);
    must(uv_read_start((uv_stream_t *)&connection->handle, on_room, on_read));
}

void raw_server_start(struct raw_server *server, uv_loop_t *loop, raw_handler_fn *handler) {
    struct sockaddr_in address;
    int len = sizeof address;

    *server = (struct raw_server){.handler = handler};
    must(uv_ip4_addr("127.0.0.1", 0, &address));
    must(uv_tcp_init(loop, &server->handle));
    server->handle.data = server;
    must(uv_tcp_bind(&server->handle, (const struct sockaddr *)&address, 0));
    must(uv_listen((uv_stream_t *)&server->handle, 64, on_connection));
    must(uv_tcp_getsockname(&server->handle, (struct sockaddr *)&address, &len));
    server->port = ntohs(address.sin_port);
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%d", server->port);
}

void raw_server_stop(struct raw_server *server, uv_loop_t *loop) {
    raw_close_all(server);
    if (!uv_is_closing((uv_handle_t *)&server->handle))
        uv_close((uv_handle_t *)&server->handle, NULL);
    do
        uv_run(loop, UV_RUN_NOWAIT);
    while (server->n_open > 0);
}

static void on_written(uv_write_t *request, int status) {
    struct write *write = (struct write *)request;

    (void)status; /* a client that went away is none of the server's business */
    free(write->bytes);
    free(write);
}

void raw_send(struct raw_connection *connection, const char *bytes, size_t len) {
    struct write *write = allocate(1, sizeof *write);
    uv_buf_t buffer;

    write->bytes = allocate_copy(bytes, len);
    buffer = uv_buf_init(write->bytes, (unsigned)len);
    if (uv_write(&write->request, (uv_stream_t *)&connection->handle, &buffer, 1, on_written) != 0)
        on_written(&write->request, 0);
}

void raw_answer(struct raw_connection *connection, const char *body) {
    char head[128];

    snprintf(head, sizeof head,
             "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
             strlen(body));
    raw_send(connection, head, strlen(head));
    raw_send(connection, body, strlen(body));
}

void raw_begin_chunks(struct raw_connection *connection) {
    static const char head[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

    raw_send(connection, head, sizeof head - 1);
}

void raw_chunk(struct raw_connection *connection, const char *bytes, size_t len) {
    char size[24];

    snprintf(size, sizeof size, "%zx\r\n", len);
    raw_send(connection, size, strlen(size));
    raw_send(connection, bytes, len);
    raw_send(connection, "\r\n", 2);
}

void raw_end_chunks(struct raw_connection *connection) {
    raw_send(connection, "0\r\n\r\n", 5);
}
