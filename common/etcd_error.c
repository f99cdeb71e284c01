#include "common/etcd_error.h"

#include <string.h>

/* gRPC's status codes, as far as etcd uses them. */
enum {
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_NOT_FOUND = 5,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_OUT_OF_RANGE = 11,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_UNAUTHENTICATED = 16
};

static bool contains(const char *message, const char *part) {
    return strstr(message, part) != NULL;
}

/* The first line's beginning, as it may stand in a message of ours. */
static void first_line(const char *body, size_t len, char *out, size_t size) {
    size_t n = 0;

    while (n < len && n + 1 < size && body[n] != '\n' && body[n] != '\r') {
        out[n] = body[n] >= ' ' && body[n] <= '~' ? body[n] : '?';
        n++;
    }
    out[n] = '\0';
}

static enum status no_gateway(const char *what, struct error *err) {
    return error_set(err, STATUS_UNAVAILABLE,
                     "%s: no etcd v3 JSON gateway here (switched off by enable-grpc-gateway, "
                     "another port, or not etcd 3.4 to 3.6)",
                     what);
}

enum status etcd_error_from_code(long code, const char *message, bool write, struct error *err) {
    enum status status = write ? STATUS_UNKNOWN : STATUS_UNAVAILABLE;
    char text[200];

    first_line(message, strlen(message), text, sizeof text);
    switch (code) {
    case GRPC_INVALID_ARGUMENT:
        /* etcd reports a missing token, an outdated one and a wrong password as bad requests. */
        status = contains(message, "user name is empty") ||
                         contains(message, "revision of auth store is old") ||
                         contains(message, "authentication failed")
                     ? STATUS_AUTH
                     : STATUS_INVALID;
        break;
    case GRPC_NOT_FOUND:
        if (strcmp(message, "Not Found") == 0) /* the gateway's own words for an unknown path */
            return no_gateway("HTTP 404", err);
        status = STATUS_NOT_FOUND;
        break;
    case GRPC_PERMISSION_DENIED: status = STATUS_REFUSED; break;
    case GRPC_RESOURCE_EXHAUSTED:
        /* Three different things under one code. */
        if (contains(message, "database space exceeded"))
            status = STATUS_NO_SPACE;
        else
            status = contains(message, "larger than max") ? STATUS_INVALID : STATUS_UNAVAILABLE;
        break;
    case GRPC_FAILED_PRECONDITION:
        if (contains(message, "lease already exists"))
            status = STATUS_EXISTS;
        else
            status = contains(message, "authentication is not enabled") ? STATUS_AUTH
                                                                        : STATUS_REFUSED;
        break;
    case GRPC_OUT_OF_RANGE: status = STATUS_INVALID; break;
    case GRPC_UNIMPLEMENTED: return no_gateway(text, err);
    case GRPC_UNAUTHENTICATED: status = STATUS_AUTH; break;
    default: break;
    }
    return error_set(err, status, "%s", text[0] ? text : "an error without a text");
}

enum status etcd_error_from_http(long http_status, const char *body, size_t len, bool write,
                                 struct error *err) {
    enum status status = write ? STATUS_UNKNOWN : STATUS_UNAVAILABLE;
    char text[100];

    first_line(body, len, text, sizeof text);
    switch (http_status) {
    case 400:
        /* A client certificate with a CN, while auth is on: etcd's gateway cannot serve it. */
        status = contains(text, "CommonName") ? STATUS_AUTH : STATUS_INVALID;
        break;
    case 401: status = STATUS_AUTH; break;
    case 403: status = STATUS_REFUSED; break;
    case 404:
    case 405:
    case 501: return no_gateway(http_status == 404 ? "HTTP 404" : "HTTP 405 or 501", err);
    case 412: status = STATUS_REFUSED; break;
    case 413: status = STATUS_INVALID; break;
    case 429: status = STATUS_UNAVAILABLE; break;
    default: break;
    }
    return error_set(err, status, "HTTP %ld: %s", http_status, text[0] ? text : "no text");
}
