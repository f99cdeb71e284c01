/* grpc_tls.h - TLS for gRPC: OpenSSL between the socket and nghttp2, over memory, with ALPN "h2".
 *
 * TLS 1.2 and 1.3.  With a file of client CAs, a client without a certificate of theirs gets no
 * connection. */
#ifndef SNOWFLEET_COMMON_GRPC_TLS_H
#define SNOWFLEET_COMMON_GRPC_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* What new connections are set up from.  Counted; thread-safe. */
struct grpc_tls;

struct grpc_tls_files {
    const char *cert, *key; /* PEM; cert may hold a chain, the server's own first */
    const char *client_ca;  /* PEM; NULL: clients need no certificate */
};
/* Reads the files.  A failure names the file and what is wrong with it; the result has one count. */
enum status grpc_tls_load(const struct grpc_tls_files *files, struct grpc_tls **tls,
                          struct error *err);
struct grpc_tls *grpc_tls_ref(struct grpc_tls *tls);
void grpc_tls_unref(struct grpc_tls *tls); /* NULL is let pass */

/* One connection. */
struct grpc_tls_link;

struct grpc_tls_link *grpc_tls_link_new(struct grpc_tls *tls);
void grpc_tls_link_free(struct grpc_tls_link *link); /* NULL is let pass */

/* Bytes from the socket. */
void grpc_tls_feed(struct grpc_tls_link *link, const uint8_t *bytes, size_t len);
/* Decrypted bytes: how many were put into out[size]; 0: no more now; -1: the connection is of no use
 * (what is to be sent, an alert, is there all the same). */
int grpc_tls_read(struct grpc_tls_link *link, uint8_t *out, size_t size);
/* Encrypts; the handshake must be over, as it is once something was read.  false on failure. */
bool grpc_tls_write(struct grpc_tls_link *link, const uint8_t *bytes, size_t len);
/* What is to go to the socket: *bytes and the length; it lives until the next call. */
size_t grpc_tls_pending(struct grpc_tls_link *link, const uint8_t **bytes);
void grpc_tls_sent(struct grpc_tls_link *link);        /* all of it */
bool grpc_tls_ready(const struct grpc_tls_link *link); /* the handshake is over */
/* Says good-bye (close_notify). */
void grpc_tls_bye(struct grpc_tls_link *link);

#endif
