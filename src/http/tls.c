/*
 * tls.c - one OpenSSL context at a time, always replaced as a whole
 *
 * A new context is built from both files before it replaces the old one, so a broken pair changes nothing. Tickets are
 * bound to a context: after a reload each client makes one full handshake.
 */
#include "http/tls.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "base/status.h"

struct hth_tls {
    SSL_CTX *context;
    const char *key; /* in paths, after the certificate */
    char paths[];
};

/* Fail with OpenSSL's reason. */
static hearth_status fail_tls(hearth_error *err, hearth_status status, const char *format, const char *path)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    char text[512];

    (void)snprintf(text, sizeof(text), format, path);
    ERR_clear_error();
    return reason ? hth_fail(err, status, "%s (OpenSSL: %s)", text, reason) : hth_fail(err, status, "%s", text);
}

/* Check readability first: OpenSSL's message for an unreadable file names neither cause nor remedy. */
static hearth_status check_readable(const char *path, const char *what, hearth_error *err)
{
    FILE *file = fopen(path, "re");
    bool is_readable = file && (fgetc(file) != EOF || !ferror(file));
    int saved = errno;

    if (file)
        (void)fclose(file); /* it was read only */
    return is_readable ? HEARTH_OK : hth_fail_errno(err, saved, "cannot read the %s '%s'", what, path);
}

/* For a key with a passphrase: no user is there to type it. */
static int no_passphrase(char *text, int capacity, int is_writing, void *user_data)
{
    (void)text;
    (void)capacity;
    (void)is_writing;
    *(bool *)user_data = true;
    return -1;
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *n_out, const unsigned char *offered,
                           unsigned n_offered, void *user_data)
{
    static const unsigned char known[] = "\x08http/1.1";
    unsigned char *chosen = NULL;

    (void)ssl;
    (void)user_data;
    /* A client that offers only other protocols gets no answer, and may try HTTP/1.1. */
    if (SSL_select_next_proto(&chosen, n_out, known, sizeof(known) - 1, offered, n_offered) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static hearth_status load_pair(SSL_CTX *context, const char *certificate, const char *key, hearth_error *err)
{
    bool wants_passphrase = false;
    hearth_status status = check_readable(certificate, "certificate", err);

    if (status == HEARTH_OK)
        status = check_readable(key, "private key", err);
    if (status != HEARTH_OK)
        return status;
    SSL_CTX_set_default_passwd_cb(context, no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(context, &wants_passphrase);
    if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1)
        return fail_tls(err, HEARTH_CORRUPT,
                        "'%s' is no certificate: a PEM file is expected, with the server's certificate first",
                        certificate);
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1) {
        if (wants_passphrase)
            return fail_tls(err, HEARTH_UNSUPPORTED,
                            "the private key '%s' has a passphrase, which cannot be typed here; write one without, for "
                            "example with 'openssl pkey'",
                            key);
        /* With a certificate loaded, OpenSSL compares the key with it at once. */
        if (ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH ||
            ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_TYPE_MISMATCH)
            return fail_tls(err, HEARTH_FAILED, "the private key '%s' does not belong to the certificate", key);
        return fail_tls(err, HEARTH_CORRUPT, "'%s' is no private key: a PEM file with one is expected", key);
    }
    SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
    SSL_CTX_set_default_passwd_cb(context, NULL);
    if (SSL_CTX_check_private_key(context) != 1)
        return fail_tls(err, HEARTH_FAILED, "the private key '%s' does not belong to the certificate", key);
    return HEARTH_OK;
}

static hearth_status new_context(const char *certificate, const char *key, SSL_CTX **out, hearth_error *err)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    hearth_status status;

    ERR_clear_error();
    if (!context || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) {
        status = fail_tls(err, HEARTH_FAILED, "cannot use TLS with '%s'", certificate);
    } else {
        (void)SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                               SSL_OP_CIPHER_SERVER_PREFERENCE); /* cannot fail: returns the options */
        /* An idle connection keeps no buffers. */
        (void)SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS); /* cannot fail: returns the mode */
        SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
        status = load_pair(context, certificate, key, err);
    }
    if (status != HEARTH_OK) {
        SSL_CTX_free(context);
        return status;
    }
    *out = context;
    return HEARTH_OK;
}

hearth_status hth_tls_new(const char *certificate, const char *key, hth_tls **out, hearth_error *err)
{
    const size_t n_certificate = strlen(certificate) + 1, n_key = strlen(key) + 1;
    hth_tls *tls = calloc(1, sizeof(*tls) + n_certificate + n_key);
    hearth_status status;

    if (!tls)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the certificate '%s'", certificate);
    memcpy(tls->paths, certificate, n_certificate);
    tls->key = memcpy(tls->paths + n_certificate, key, n_key);
    status = new_context(tls->paths, tls->key, &tls->context, err);
    if (status != HEARTH_OK) {
        hth_tls_free(tls);
        return status;
    }
    *out = tls;
    return HEARTH_OK;
}

void hth_tls_free(hth_tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->context);
    free(tls);
}

hearth_status hth_tls_reload(hth_tls *tls, hearth_error *err)
{
    SSL_CTX *context = NULL;
    hearth_status status = new_context(tls->paths, tls->key, &context, err);

    if (status != HEARTH_OK)
        return status;
    SSL_CTX_free(tls->context);
    tls->context = context;
    return HEARTH_OK;
}

struct ssl_ctx_st *hth_tls_context(void *user_data)
{
    const hth_tls *tls = user_data;

    return tls->context;
}
