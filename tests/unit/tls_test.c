/*
 * tls_test.c - certificates that fit or not, a new one while the server runs, and HTTP through it
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "http/tls.h"
#include "support/cmocka_all.h"
#include "support/http_stage.h"
#include "support/support.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

typedef struct stage {
    hth_test_http http;
    char *directory;
    char certificate[256], key[256];
    hth_tls *tls;
    hth_http_listener *listener;
} stage;

/* ---- certificates ---- */

static void write_key(const char *path, EVP_PKEY *key, const char *passphrase)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(PEM_write_PrivateKey(file, key, passphrase ? EVP_aes_128_cbc() : NULL,
                                          (const unsigned char *)passphrase, passphrase ? (int)strlen(passphrase) : 0,
                                          NULL, NULL),
                     1);
    assert_int_equal(fclose(file), 0);
}

static void write_certificate(const char *path, EVP_PKEY *key, const char *name)
{
    X509 *certificate = X509_new();
    FILE *file = fopen(path, "w");

    assert_non_null(certificate);
    assert_non_null(file);
    assert_int_equal(X509_set_version(certificate, 2), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(certificate), -3600));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(certificate), 3600));
    assert_int_equal(X509_set_pubkey(certificate, key), 1);
    assert_int_equal(X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                                                (const unsigned char *)name, -1, -1, 0),
                     1);
    assert_int_equal(X509_set_issuer_name(certificate, X509_get_subject_name(certificate)), 1);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    assert_int_equal(PEM_write_X509(file, certificate), 1);
    assert_int_equal(fclose(file), 0);
    X509_free(certificate);
}

/* A new pair in the two files. */
static void write_pair(const char *certificate, const char *key_path, const char *name)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");

    assert_non_null(key);
    write_key(key_path, key, NULL);
    write_certificate(certificate, key, name);
    EVP_PKEY_free(key);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* ---- the stage ---- */

static void open_with(stage *s, const hth_http_options *options)
{
    hearth_error err = { .message = "" };

    hth_test_http_open(&s->http, options);
    s->directory = hth_test_directory_new();
    (void)snprintf(s->certificate, sizeof(s->certificate), "%s/server.crt", s->directory);
    (void)snprintf(s->key, sizeof(s->key), "%s/server.key", s->directory);
    write_pair(s->certificate, s->key, "first");
    assert_int_equal(hth_tls_new(s->certificate, s->key, &s->tls, &err), HEARTH_OK);
    assert_int_equal(hth_http_listen_tcp(s->http.server, "127.0.0.1", 0, 5, hth_tls_context, s->tls, &s->http.port,
                                         &s->listener, &err),
                     HEARTH_OK);
}

static void open_stage(stage *s)
{
    open_with(s, NULL);
}

static void open_short(stage *s)
{
    hth_http_options options = hth_http_options_default();

    options.request_timeout_ms = 40;
    open_with(s, &options);
}

static void close_stage(stage *s)
{
    hth_test_http_close(&s->http);
    hth_tls_free(s->tls);
    hth_test_directory_remove(s->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(stage, s, name, open_stage, close_stage)

static SSL_CTX *client_context(void)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());

    assert_non_null(context);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
    return context;
}

/* False: the handshake fails. */
static bool shake_hands(hth_test_client *client)
{
    int result = SSL_ERROR_NONE;

    hth_test_http_until(client->stage, (result = SSL_get_error(client->ssl, SSL_connect(client->ssl)),
                                        result != SSL_ERROR_WANT_READ && result != SSL_ERROR_WANT_WRITE));
    ERR_clear_error();
    return result == SSL_ERROR_NONE;
}

static void dial(hth_test_client *client, stage *s, SSL_CTX *context)
{
    hth_test_client_open(client, &s->http);
    client->ssl = SSL_new(context);
    assert_non_null(client->ssl);
    assert_int_equal(SSL_set_fd(client->ssl, client->fd), 1);
}

/* A connected client; its context is gone with it. */
static void dial_default(hth_test_client *client, stage *s)
{
    SSL_CTX *context = client_context();

    dial(client, s, context);
    SSL_CTX_free(context);
    assert_true(shake_hands(client));
}

static void name_of_server(const hth_test_client *client, char *name, int capacity)
{
    X509 *certificate = SSL_get1_peer_certificate(client->ssl);

    assert_non_null(certificate);
    assert_true(X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, capacity) > 0);
    X509_free(certificate);
}

/* ---- HTTP through TLS ---- */

FIXTURE_TEST(requests_are_answered_through_tls)
{
    hth_test_client client;

    dial_default(&client, s);
    for (int i = 0; i < 3; i++) {
        hth_test_client_say(&client, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
        assert_int_equal(hth_test_client_hear_reply(&client), 200);
        assert_string_equal(hth_test_client_body(&client), "hello");
        assert_non_null(strstr(client.heard, "X-Tag: 5\r\n"));
        hth_test_client_forget(&client);
    }
    hth_test_client_say(&client, GET("/big"));
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    assert_int_equal(strspn(hth_test_client_body(&client), "b"), HTH_TEST_BIG_BYTES);
    hth_test_client_close(&client);
}

FIXTURE_TEST(a_large_body_arrives_through_tls)
{
    hth_test_client client;
    char *body = malloc(3000001);

    assert_non_null(body);
    memset(body, 'q', 3000000);
    body[3000000] = '\0';
    dial_default(&client, s);
    hth_test_client_say(&client, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n");
    hth_test_client_say(&client, body);
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    assert_string_equal(hth_test_client_body(&client), body);
    hth_test_client_close(&client);
    free(body);
}

FIXTURE_TEST(a_stream_through_tls_comes_piece_by_piece)
{
    hth_test_client client;

    dial_default(&client, s);
    hth_test_client_say(&client, GET("/stream"));
    hth_test_http_until(&s->http, s->http.held);
    hth_http_stream_write(s->http.held, "one", 3);
    (void)hth_test_client_hear(&client, "one\r\n"); /* where does not matter, here and below */
    hth_http_stream_write(s->http.held, "two", 3);
    (void)hth_test_client_hear(&client, "two\r\n");
    hth_http_stream_end(s->http.held);
    (void)hth_test_client_hear(&client, "0\r\n\r\n");
    hth_test_client_close(&client);
}

FIXTURE_TEST(a_stream_through_tls_reports_its_backlog)
{
    hth_test_client client;
    char *piece = malloc(65536);
    size_t n_written = 0;

    assert_non_null(piece);
    memset(piece, 'p', 65536);
    dial_default(&client, s);
    hth_test_client_say(&client, "GET /stream HTTP/1.0\r\n\r\n");
    hth_test_http_until(&s->http, s->http.held);
    do {
        hth_http_stream_write(s->http.held, piece, 65536);
        n_written += 65536;
        hth_test_http_turn(&s->http);
    } while (hth_http_stream_backlog(s->http.held) < HTH_HTTP_BACKLOG_MAX);
    hth_test_http_until(&s->http, (hth_test_client_listen(&client), hth_http_stream_backlog(s->http.held) == 0));
    assert_true(s->http.n_rooms > 0);
    hth_http_stream_end(s->http.held);
    hth_test_client_hear_end(&client);
    assert_false(client.was_reset);
    assert_int_equal(strspn(hth_test_client_body(&client), "p"), n_written);
    hth_test_client_close(&client);
    free(piece);
}

/* More than is read ahead: reading stops, and goes on with what TLS has kept. */
FIXTURE_TEST(requests_sent_far_ahead_are_answered_through_tls)
{
    enum { N = 4000 };
    hth_test_client client;
    char *ahead = calloc(N, sizeof(GET("/hello")));

    assert_non_null(ahead);
    for (size_t i = 0, n = sizeof(GET("/hello")) - 1; i < N; i++)
        memcpy(ahead + i * n, GET("/hello"), n);
    dial_default(&client, s);
    hth_test_client_say(&client, GET("/hold"));
    hth_test_http_until(&s->http, s->http.held);
    hth_test_client_say(&client, ahead);
    for (int i = 0; i < 50; i++)
        hth_test_http_turn(&s->http);
    assert_int_equal(s->http.n_handled, 1);
    hth_http_reply(s->http.held, 200, "text/plain", "held", 4);
    hth_test_http_until(&s->http, (hth_test_client_listen(&client), s->http.n_handled == 1 + N));
    hth_test_client_close(&client);
    free(ahead);
}

FIXTURE_TEST(clients_that_leave_are_noticed_through_tls)
{
    for (int how = 0; how < 3; how++) {
        hth_test_client client;

        dial_default(&client, s);
        hth_test_client_say(&client, how == 1 ? GET("/stream") : GET("/hold"));
        hth_test_http_until(&s->http, s->http.held);
        if (how == 0)
            assert_true(SSL_shutdown(client.ssl) >= 0); /* the end of TLS, not of the connection */
        else if (how == 1)
            assert_int_equal(shutdown(client.fd, SHUT_WR), 0); /* without TLS' end */
        else
            hth_test_client_close(&client);
        hth_test_http_until(&s->http, s->http.n_closed == how + 1);
        if (how < 2)
            hth_test_client_close(&client);
    }
}

FIXTURE_TEST(a_connection_that_the_server_ends_ends_in_order)
{
    hth_test_client client;

    dial_default(&client, s);
    hth_test_client_say(&client, "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    hth_test_client_hear_end(&client);
    assert_false(client.was_reset); /* TLS' own end came */
    assert_string_equal(hth_test_client_body(&client), "hello\n");
    hth_test_client_close(&client);
    dial_default(&client, s);
    hth_test_client_say(&client, "nonsense\r\n\r\n");
    hth_test_client_hear_end(&client);
    assert_false(client.was_reset);
    assert_int_equal(strncmp(client.heard, "HTTP/1.1 400 ", 13), 0);
    hth_test_client_close(&client);
}

FIXTURE_TEST(an_aborted_stream_ends_without_tls_end)
{
    hth_test_client client;

    dial_default(&client, s);
    hth_test_client_say(&client, GET("/stream"));
    hth_test_http_until(&s->http, s->http.held);
    hth_http_stream_write(s->http.held, "one", 3);
    (void)hth_test_client_hear(&client, "one\r\n"); /* where does not matter */
    hth_http_abort(s->http.held);
    hth_test_client_hear_end(&client);
    assert_true(client.was_reset);
    assert_null(strstr(client.heard, "0\r\n\r\n"));
    hth_test_client_close(&client);
}

/* ---- handshakes ---- */

FIXTURE_TEST(versions_before_1_2_are_refused)
{
    static const struct {
        int version;
        bool is_spoken;
    } cases[] = { { TLS1_1_VERSION, false }, { TLS1_2_VERSION, true }, { TLS1_3_VERSION, true } };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        SSL_CTX *context = client_context();
        hth_test_client client;

        SSL_CTX_set_security_level(context, 0);
        assert_int_equal(SSL_CTX_set_min_proto_version(context, cases[i].version), 1);
        assert_int_equal(SSL_CTX_set_max_proto_version(context, cases[i].version), 1);
        dial(&client, s, context);
        assert_int_equal(shake_hands(&client), cases[i].is_spoken);
        if (cases[i].is_spoken) {
            hth_test_client_say(&client, GET("/hello"));
            assert_int_equal(hth_test_client_hear_reply(&client), 200);
        }
        hth_test_client_close(&client);
        SSL_CTX_free(context);
    }
}

FIXTURE_TEST(http_1_1_is_chosen_where_clients_offer_it)
{
    static const unsigned char both[] = "\x02h2\x08http/1.1", other[] = "\x02h2";

    for (int i = 0; i < 2; i++) {
        SSL_CTX *context = client_context();
        hth_test_client client;
        const unsigned char *chosen = NULL;
        unsigned n = 0;

        assert_int_equal(
            SSL_CTX_set_alpn_protos(context, i ? other : both, (unsigned)(i ? sizeof(other) : sizeof(both)) - 1), 0);
        dial(&client, s, context);
        assert_true(shake_hands(&client));
        SSL_get0_alpn_selected(client.ssl, &chosen, &n);
        assert_int_equal(n, i ? 0 : 8);
        assert_true(i || memcmp(chosen, "http/1.1", 8) == 0);
        hth_test_client_close(&client);
        SSL_CTX_free(context);
    }
}

TEST_WITH(stage, s, a_handshake_has_a_limit_of_time, open_short, close_stage)
{
    hth_test_client client;

    hth_test_client_open(&client, &s->http);
    hth_test_client_hear_end(&client);
    hth_test_client_close(&client);
    hth_test_client_open(&client, &s->http);
    hth_test_client_say_bytes(&client, "\x16\x03\x01\x02\x00\x01", 6); /* the beginning of a hello */
    hth_test_client_hear_end(&client);
    hth_test_client_close(&client);
    assert_int_equal(hth_http_server_numbers(s->http.server).n_timed_out, 2);
}

FIXTURE_TEST(what_is_no_tls_is_closed)
{
    hth_test_client client;

    hth_test_client_open(&client, &s->http);
    hth_test_client_say(&client, GET("/hello"));
    hth_test_client_hear_end(&client);
    assert_null(strstr(client.heard, "HTTP/1.1"));
    hth_test_client_close(&client);
    assert_int_equal(s->http.n_handled, 0);
    /* And harms nobody. */
    dial_default(&client, s);
    hth_test_client_say(&client, GET("/hello"));
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    hth_test_client_close(&client);
}

/* ---- pairs ---- */

FIXTURE_TEST(a_new_pair_is_shown_to_new_connections)
{
    hth_test_client before, after;
    char name[64];

    dial_default(&before, s);
    name_of_server(&before, name, sizeof(name));
    assert_string_equal(name, "first");
    write_pair(s->certificate, s->key, "second");
    assert_int_equal(hth_tls_reload(s->tls, NULL), HEARTH_OK);
    dial_default(&after, s);
    name_of_server(&after, name, sizeof(name));
    assert_string_equal(name, "second");
    hth_test_client_say(&before, GET("/hello"));
    assert_int_equal(hth_test_client_hear_reply(&before), 200);
    hth_test_client_close(&before);
    hth_test_client_close(&after);
}

FIXTURE_TEST(a_broken_new_pair_leaves_the_old_one_in_use)
{
    hth_test_client client;
    hearth_error err = { .message = "" };
    char name[64];

    write_text(s->certificate, "-----BEGIN CERTIFICATE-----\nbroken\n");
    assert_int_equal(hth_tls_reload(s->tls, &err), HEARTH_CORRUPT);
    assert_non_null(strstr(err.message, s->certificate));
    dial_default(&client, s);
    name_of_server(&client, name, sizeof(name));
    assert_string_equal(name, "first");
    hth_test_client_close(&client);
}

FIXTURE_TEST(what_is_wrong_with_a_pair_is_said)
{
    char other[256];
    hth_tls *tls = NULL;
    hearth_error err = { .message = "" };
    EVP_PKEY *key = EVP_EC_gen("P-256");

    (void)snprintf(other, sizeof(other), "%s/other", s->directory);
    assert_int_equal(hth_tls_new(other, s->key, &tls, &err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(err.message, other));
    assert_int_equal(hth_tls_new(s->certificate, other, &tls, &err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(err.message, other));
    assert_true(hth_tls_new(s->directory, s->key, &tls, &err) != HEARTH_OK);

    write_text(other, "");
    assert_int_equal(hth_tls_new(other, s->key, &tls, &err), HEARTH_CORRUPT);
    assert_non_null(strstr(err.message, "PEM"));
    assert_int_equal(hth_tls_new(s->certificate, other, &tls, &err), HEARTH_CORRUPT);
    assert_non_null(strstr(err.message, "no private key"));
    /* The two in each other's place. */
    assert_int_equal(hth_tls_new(s->key, s->certificate, &tls, &err), HEARTH_CORRUPT);
    assert_non_null(strstr(err.message, "no certificate"));

    write_key(other, key, NULL);
    assert_int_equal(hth_tls_new(s->certificate, other, &tls, &err), HEARTH_FAILED);
    assert_non_null(strstr(err.message, "does not belong"));
    write_key(other, key, "secret");
    assert_int_equal(hth_tls_new(s->certificate, other, &tls, &err), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(err.message, "passphrase"));
    assert_null(tls);
    EVP_PKEY_free(key);

    /* No error of one call is told by the next. */
    assert_int_equal(hth_tls_new(s->certificate, s->key, &tls, &err), HEARTH_OK);
    hth_tls_free(tls);
    hth_tls_free(NULL);
}
