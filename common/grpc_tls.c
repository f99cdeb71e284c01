#include "common/grpc_tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"

struct grpc_tls {
    SSL_CTX *context;
    _Atomic unsigned count;
};

struct grpc_tls_link {
    SSL *ssl;
    BIO *in, *out; /* ssl's */
};

/* ---- settings ---- */

static enum status refuse(struct error *err, const char *file, const char *what) {
    unsigned long code = ERR_peek_last_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;

    error_set(err, STATUS_INVALID, "%.150s: %s%s%s", file, what, reason ? ": " : "",
              reason ? reason : "");
    ERR_clear_error();
    return STATUS_INVALID;
}

/* A key under a pass phrase is refused: nobody is there to be asked. */
static int no_pass_phrase(char *buf, int size, int rwflag, void *arg) {
    (void)buf, (void)size, (void)rwflag, (void)arg;
    return -1;
}

static int choose_h2(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                     const unsigned char *in, unsigned in_len, void *arg) {
    static const unsigned char h2[] = {2, 'h', '2'};
    unsigned char *chosen;

    (void)ssl, (void)arg;
    if (SSL_select_next_proto(&chosen, out_len, h2, sizeof h2, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static enum status read_files(SSL_CTX *context, const struct grpc_tls_files *files,
                              struct error *err) {
    STACK_OF(X509_NAME) * names;

    if (SSL_CTX_use_certificate_chain_file(context, files->cert) != 1)
        return refuse(err, files->cert, "no certificate in PEM can be read");
    if (SSL_CTX_use_PrivateKey_file(context, files->key, SSL_FILETYPE_PEM) != 1)
        return refuse(err, files->key,
                      "no private key in PEM, without pass phrase, that goes with the "
                      "certificate can be read");
    if (SSL_CTX_check_private_key(context) != 1)
        return refuse(err, files->key, "it is not the key of the certificate");
    if (!files->client_ca)
        return STATUS_OK;
    names = SSL_load_client_CA_file(files->client_ca);
    if (!names || SSL_CTX_load_verify_file(context, files->client_ca) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return refuse(err, files->client_ca, "no certificates in PEM can be read");
    }
    SSL_CTX_set_client_CA_list(context, names); /* handed over */
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return STATUS_OK;
}

enum status grpc_tls_load(const struct grpc_tls_files *files, struct grpc_tls **tls,
                          struct error *err) {
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    struct grpc_tls *made;

    if (!context)
        return error_set(err, STATUS_SYSTEM, "OpenSSL gives no context");
    ERR_clear_error();
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    /* Connections are long; and a resumed one would go on with a client that the CA file of today
     * would refuse. */
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_default_passwd_cb(context, no_pass_phrase);
    SSL_CTX_set_alpn_select_cb(context, choose_h2, NULL);
    if (read_files(context, files, err) != STATUS_OK) {
        SSL_CTX_free(context);
        return err->status;
    }
    made = allocate(1, sizeof *made);
    made->context = context;
    atomic_init(&made->count, 1);
    *tls = made;
    return STATUS_OK;
}

struct grpc_tls *grpc_tls_ref(struct grpc_tls *tls) {
    atomic_fetch_add(&tls->count, 1);
    return tls;
}

void grpc_tls_unref(struct grpc_tls *tls) {
    if (!tls || atomic_fetch_sub(&tls->count, 1) > 1)
        return;
    SSL_CTX_free(tls->context);
    free(tls);
}

/* ---- one connection ---- */

struct grpc_tls_link *grpc_tls_link_new(struct grpc_tls *tls) {
    struct grpc_tls_link *link = allocate(1, sizeof *link);

    link->ssl = SSL_new(tls->context);
    link->in = BIO_new(BIO_s_mem());
    link->out = BIO_new(BIO_s_mem());
    if (!link->ssl || !link->in || !link->out)
        abort(); /* no memory: as allocate.h */
    SSL_set_bio(link->ssl, link->in, link->out);
    SSL_set_accept_state(link->ssl);
    return link;
}

void grpc_tls_link_free(struct grpc_tls_link *link) {
    if (!link)
        return;
    SSL_free(link->ssl);
    free(link);
}

void grpc_tls_feed(struct grpc_tls_link *link, const uint8_t *bytes, size_t len) {
    if (BIO_write(link->in, bytes, (int)len) != (int)len)
        abort(); /* it grows as needed: no memory */
}

bool grpc_tls_ready(const struct grpc_tls_link *link) {
    return SSL_is_init_finished(link->ssl) == 1;
}

/* Whoever does not ask for h2 does not get it. */
static bool speaks_h2(const struct grpc_tls_link *link) {
    const unsigned char *name;
    unsigned len;

    SSL_get0_alpn_selected(link->ssl, &name, &len);
    return len == 2 && memcmp(name, "h2", 2) == 0;
}

int grpc_tls_read(struct grpc_tls_link *link, uint8_t *out, size_t size) {
    int n, why;

    ERR_clear_error(); /* the queue of errors is the thread's: others' would be taken for ours */
    n = SSL_read(link->ssl, out, (int)size);
    if (n > 0)
        return speaks_h2(link) ? n : -1;
    why = SSL_get_error(link->ssl, n);
    ERR_clear_error();
    if (why != SSL_ERROR_WANT_READ)
        return -1;
    return grpc_tls_ready(link) && !speaks_h2(link) ? -1 : 0;
}

bool grpc_tls_write(struct grpc_tls_link *link, const uint8_t *bytes, size_t len) {
    int n;

    ERR_clear_error();
    n = SSL_write(link->ssl, bytes, (int)len);
    ERR_clear_error();
    return n == (int)len;
}

size_t grpc_tls_pending(struct grpc_tls_link *link, const uint8_t **bytes) {
    char *start;
    long len = BIO_get_mem_data(link->out, &start);

    *bytes = (const uint8_t *)start;
    return len > 0 ? (size_t)len : 0;
}

void grpc_tls_sent(struct grpc_tls_link *link) {
    (void)BIO_reset(link->out);
}

void grpc_tls_bye(struct grpc_tls_link *link) {
    ERR_clear_error();
    if (grpc_tls_ready(link))
        (void)SSL_shutdown(link->ssl);
    ERR_clear_error();
}
