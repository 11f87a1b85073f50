/*
 * fleet_pem_test.c - which files make a machine a member of a fleet, who may see them, and whom members accept
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/hex.h"
#include "base/hash.h"
#include "fleet/fleet_pem.h"
#include "support/cmocka_all.h"
#include "support/support.h"

typedef struct folder {
    char *directory;
    char path[256], other[256];
} folder;

static void set_up(folder *f)
{
    f->directory = hth_test_directory_new();
    (void)snprintf(f->path, sizeof(f->path), "%s/fleet.pem", f->directory);
    (void)snprintf(f->other, sizeof(f->other), "%s/other.pem", f->directory);
}

static void tear_down(folder *f)
{
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(folder, f, name, set_up, tear_down)

/* ---- keys and certificates ---- */

/* A key and a certificate of it. */
typedef struct identity {
    EVP_PKEY *key;
    X509 *certificate;
} identity;

static void add_extension(X509 *certificate, int kind, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, kind, value);

    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* The certificate is signed by an authority; NULL: by its own key. can_sign: it is an authority itself. */
static identity identity_of(const char *name, const identity *authority, bool can_sign)
{
    identity out = { .key = EVP_EC_gen("P-256"), .certificate = X509_new() };

    assert_non_null(out.key);
    assert_non_null(out.certificate);
    assert_int_equal(X509_set_version(out.certificate, 2), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(out.certificate), authority ? 2 : 1), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(out.certificate), -3600));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(out.certificate), 3600));
    assert_int_equal(X509_set_pubkey(out.certificate, out.key), 1);
    assert_int_equal(X509_NAME_add_entry_by_txt(X509_get_subject_name(out.certificate), "CN", MBSTRING_ASC,
                                                (const unsigned char *)name, -1, -1, 0),
                     1);
    assert_int_equal(
        X509_set_issuer_name(out.certificate, X509_get_subject_name((authority ? authority : &out)->certificate)), 1);
    if (can_sign)
        add_extension(out.certificate, NID_basic_constraints, "critical,CA:TRUE");
    assert_true(X509_sign(out.certificate, (authority ? authority : &out)->key, EVP_sha256()) > 0);
    return out;
}

/* A member, or without an authority one that can sign others. */
static identity identity_new(const char *name, const identity *authority)
{
    return identity_of(name, authority, !authority);
}

static void identity_free(identity *one)
{
    EVP_PKEY_free(one->key);
    X509_free(one->certificate);
}

static FILE *begin_file(const char *path)
{
    FILE *file;

    (void)unlink(path);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    return file;
}

/* A file with those of key, certificate and authority that are not NULL. */
static void write_pem(const char *path, EVP_PKEY *key, const X509 *certificate, const X509 *authority)
{
    FILE *file = begin_file(path);

    if (certificate)
        assert_int_equal(PEM_write_X509(file, certificate), 1);
    if (authority)
        assert_int_equal(PEM_write_X509(file, authority), 1);
    if (key)
        assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(file), 0);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = begin_file(path);

    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void print_of(const X509 *certificate, char out[HTH_FLEET_PRINT_BYTES])
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    assert_int_equal(X509_digest(certificate, EVP_sha256(), digest, &n), 1);
    assert_int_equal(n, 32);
    hth_hex_encode(digest, n, out);
}

/* ---- files ---- */

static hth_fleet_pem *read_pem(const char *path)
{
    hearth_error err = { .message = "" };
    hth_fleet_pem *pem = NULL;

    assert_ok(hth_fleet_pem_read(path, &pem, &err), err);
    assert_non_null(pem);
    return pem;
}

static void assert_refused(const char *path, hearth_status expected)
{
    hearth_error err = { .message = "" };
    hth_fleet_pem *pem = NULL;
    const hearth_status status = hth_fleet_pem_read(path, &pem, &err);

    if (status != expected)
        fail_msg("status %d: %s", status, err.message);
    assert_null(pem);
    if (!strstr(err.message, path))
        fail_msg("the message is: %s", err.message);
    assert_int_equal(ERR_peek_error(), 0); /* nothing is left for the next who asks */
}

static void assert_mode(const char *path, mode_t mode)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
}

/* The certificate of a text in PEM. */
static X509 *certificate_in(const char *text)
{
    BIO *bio = BIO_new_mem_buf(text, -1);
    X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);

    assert_non_null(certificate);
    assert_null(PEM_read_bio_X509(bio, NULL, NULL, NULL)); /* there is one */
    ERR_clear_error();
    BIO_free(bio);
    return certificate;
}

static void assert_text_is(const char *text, const X509 *certificate)
{
    X509 *found = certificate_in(text);

    assert_int_equal(X509_cmp(found, certificate), 0);
    X509_free(found);
}

static EVP_PKEY *key_in(const char *text)
{
    BIO *bio = BIO_new_mem_buf(text, -1);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);

    assert_non_null(key);
    BIO_free(bio);
    return key;
}

FIXTURE_TEST(what_was_made_is_read)
{
    hearth_error err = { .message = "" };
    char print[HTH_FLEET_PRINT_BYTES] = "", expected[HTH_FLEET_PRINT_BYTES];
    uint8_t secret[32], digest[32];
    const hth_upstream_tls *tls;
    hth_fleet_pem *pem;
    X509 *certificate;
    EVP_PKEY *key;

    assert_ok(hth_fleet_pem_make(f->path, print, &err), err);
    assert_mode(f->path, 0600);
    assert_int_equal(strlen(print), HTH_FLEET_PRINT_BYTES - 1);
    assert_int_equal(strspn(print, "0123456789abcdef"), HTH_FLEET_PRINT_BYTES - 1);
    pem = read_pem(f->path);
    assert_string_equal(hth_fleet_pem_print(pem), print);
    tls = hth_fleet_pem_tls(pem);
    certificate = certificate_in(tls->certificate);
    print_of(certificate, expected);
    assert_string_equal(print, expected);
    assert_text_is(tls->authorities, certificate); /* it is its own */
    key = key_in(tls->key);
    assert_int_equal(X509_check_private_key(certificate, key), 1);
    assert_non_null(hth_fleet_pem_context(pem));
    assert_true(hth_fleet_pem_secret(pem, secret));
    hth_sha256_of(tls->certificate, strlen(tls->certificate), digest); /* a certificate is public */
    assert_memory_not_equal(secret, digest, sizeof(secret));
    hth_sha256_of(tls->key, strlen(tls->key), digest);
    assert_memory_equal(secret, digest, sizeof(secret));
    EVP_PKEY_free(key);
    X509_free(certificate);
    hth_fleet_pem_free(pem);
    hth_fleet_pem_free(NULL);
}

FIXTURE_TEST(a_certificate_holds_since_yesterday_and_for_many_years)
{
    hearth_error err = { .message = "" };
    char print[HTH_FLEET_PRINT_BYTES];
    int days = 0, seconds = 0;
    hth_fleet_pem *pem;
    X509 *certificate;

    assert_ok(hth_fleet_pem_make(f->path, print, &err), err);
    pem = read_pem(f->path);
    certificate = certificate_in(hth_fleet_pem_tls(pem)->certificate);
    assert_true(X509_cmp_current_time(X509_get0_notBefore(certificate)) < 0);
    assert_int_equal(ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(certificate), NULL), 1);
    assert_int_equal(days, 1);
    assert_int_equal(ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(certificate)), 1);
    assert_in_range(days, 20 * 365 - 1, 20 * 366);
    X509_free(certificate);
    hth_fleet_pem_free(pem);
}

FIXTURE_TEST(each_file_is_another_fleet)
{
    hearth_error err = { .message = "" };
    char print[HTH_FLEET_PRINT_BYTES], other[HTH_FLEET_PRINT_BYTES];

    assert_ok(hth_fleet_pem_make(f->path, print, &err), err);
    assert_ok(hth_fleet_pem_make(f->other, other, &err), err);
    assert_string_not_equal(print, other);
}

FIXTURE_TEST(a_name_that_is_taken_is_left_alone)
{
    hearth_error err = { .message = "" };
    char print[HTH_FLEET_PRINT_BYTES], none[HTH_FLEET_PRINT_BYTES] = "unchanged", *before, *after;

    assert_ok(hth_fleet_pem_make(f->path, print, &err), err);
    assert_int_equal(chmod(f->path, 0640), 0);
    before = hth_test_text(f->path);
    assert_int_equal(hth_fleet_pem_make(f->path, none, &err), HEARTH_MISUSE);
    assert_string_equal(none, "unchanged");
    assert_non_null(strstr(err.message, f->path));
    after = hth_test_text(f->path);
    assert_string_equal(before, after);
    assert_mode(f->path, 0640);
    free(before);
    free(after);
    assert_int_equal(unlink(f->path), 0);
    assert_int_equal(rmdir(f->directory), 0); /* nothing else was left there */
}

FIXTURE_TEST(a_file_needs_its_folder)
{
    hearth_error err = { .message = "" };
    char path[300], print[HTH_FLEET_PRINT_BYTES];

    (void)snprintf(path, sizeof(path), "%s/none/fleet.pem", f->directory);
    assert_int_equal(hth_fleet_pem_make(path, print, &err), HEARTH_NOT_FOUND);
    assert_refused(path, HEARTH_NOT_FOUND);
}

FIXTURE_TEST(a_file_that_others_can_read_or_change_is_refused)
{
    static const mode_t good[] = { 0600, 0400, 0640, 0440, 0700 };
    static const mode_t bad[] = { 0644, 0604, 0602, 0620, 0660, 0666 };
    hearth_error err = { .message = "" };
    char print[HTH_FLEET_PRINT_BYTES];

    assert_ok(hth_fleet_pem_make(f->path, print, &err), err);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(chmod(f->path, bad[i]), 0);
        assert_refused(f->path, HEARTH_PERMISSION);
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(chmod(f->path, good[i]), 0);
        hth_fleet_pem_free(read_pem(f->path));
    }
}

FIXTURE_TEST(a_file_that_is_not_there_is_not_found)
{
    assert_refused(f->path, HEARTH_NOT_FOUND);
}

FIXTURE_TEST(what_is_no_file_is_refused_at_once)
{
    assert_int_equal(mkdir(f->path, 0700), 0);
    assert_refused(f->path, HEARTH_CORRUPT);
    assert_int_equal(mkfifo(f->other, 0600), 0);
    assert_refused(f->other, HEARTH_CORRUPT); /* though nobody writes there */
}

FIXTURE_TEST(garbage_is_refused)
{
    static const char *const texts[] = {
        "",
        "\n",
        "garbage",
        "-----BEGIN CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----\n!!!!\n-----END PRIVATE KEY-----\n",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        write_text(f->path, texts[i]);
        assert_refused(f->path, HEARTH_CORRUPT);
    }
}

FIXTURE_TEST(a_file_cut_anywhere_is_refused)
{
    hearth_error err = { .message = "" };
    char print[HTH_FLEET_PRINT_BYTES], *text;
    size_t n;

    assert_ok(hth_fleet_pem_make(f->path, print, &err), err);
    text = hth_test_text(f->path);
    assert_non_null(text);
    n = strlen(text);
    for (size_t cut = 2; cut < n; cut += 7) { /* without its last line end it is whole */
        text[n - cut] = '\0';
        write_text(f->path, text);
        assert_refused(f->path, HEARTH_CORRUPT);
    }
    free(text);
}

FIXTURE_TEST(a_file_that_is_too_long_is_refused)
{
    identity one = identity_new("one", NULL);
    FILE *file;

    write_pem(f->path, one.key, one.certificate, NULL);
    file = fopen(f->path, "a");
    assert_non_null(file);
    for (int i = 0; i < 300 << 10; i++)
        assert_int_equal(fputc('\n', file), '\n');
    assert_int_equal(fclose(file), 0);
    assert_refused(f->path, HEARTH_CORRUPT);
    identity_free(&one);
}

FIXTURE_TEST(a_file_has_a_key_and_its_certificate)
{
    identity one = identity_new("one", NULL), other = identity_new("other", NULL);
    EVP_PKEY *of_other_kind = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");

    write_pem(f->path, one.key, NULL, NULL);
    assert_refused(f->path, HEARTH_CORRUPT);
    write_pem(f->path, NULL, one.certificate, NULL);
    assert_refused(f->path, HEARTH_CORRUPT);
    write_pem(f->path, other.key, one.certificate, NULL);
    assert_refused(f->path, HEARTH_CORRUPT);
    write_pem(f->path, of_other_kind, one.certificate, NULL);
    assert_refused(f->path, HEARTH_CORRUPT);
    write_pem(f->path, other.key, one.certificate, other.certificate); /* the first certificate is the node's */
    assert_refused(f->path, HEARTH_CORRUPT);
    write_pem(f->path, one.key, one.certificate, NULL);
    hth_fleet_pem_free(read_pem(f->path));
    EVP_PKEY_free(of_other_kind);
    identity_free(&one);
    identity_free(&other);
}

/* Nobody is there to type a passphrase. */
FIXTURE_TEST(a_key_under_a_passphrase_is_refused)
{
    identity one = identity_new("one", NULL);

    for (int traditional = 0; traditional < 2; traditional++) {
        FILE *file = begin_file(f->path);
        BIO *bio = BIO_new_fp(file, BIO_NOCLOSE);
        unsigned char passphrase[] = "secret";

        assert_non_null(bio);
        assert_int_equal(PEM_write_bio_X509(bio, one.certificate), 1);
        assert_int_equal(
            traditional
                ? PEM_write_bio_PrivateKey_traditional(bio, one.key, EVP_aes_128_cbc(), passphrase, 6, NULL, NULL)
                : PEM_write_bio_PKCS8PrivateKey(bio, one.key, EVP_aes_128_cbc(), (char *)passphrase, 6, NULL, NULL),
            1);
        BIO_free(bio);
        assert_int_equal(fclose(file), 0);
        assert_refused(f->path, HEARTH_CORRUPT);
    }
    identity_free(&one);
}

FIXTURE_TEST(a_certificate_may_have_an_authority)
{
    identity authority = identity_new("authority", NULL), one = identity_new("one", &authority);
    char print[HTH_FLEET_PRINT_BYTES];
    const hth_upstream_tls *tls;
    hth_fleet_pem *pem;
    EVP_PKEY *key;

    write_pem(f->path, one.key, one.certificate, authority.certificate);
    pem = read_pem(f->path);
    print_of(one.certificate, print);
    assert_string_equal(hth_fleet_pem_print(pem), print);
    tls = hth_fleet_pem_tls(pem);
    assert_text_is(tls->certificate, one.certificate);
    assert_text_is(tls->authorities, authority.certificate); /* and not its own */
    assert_false(hth_fleet_pem_secret(pem, (uint8_t[32]){ 0 }));
    key = key_in(tls->key);
    assert_int_equal(EVP_PKEY_eq(key, one.key), 1);
    EVP_PKEY_free(key);
    hth_fleet_pem_free(pem);
    identity_free(&one);
    identity_free(&authority);
}

/* ---- who accepts whom ---- */

/* A client with the texts for requests, as libcurl uses them. They may be NULL. */
static SSL_CTX *client_of(const hth_upstream_tls *tls)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    X509 *certificate;
    EVP_PKEY *key;

    assert_non_null(context);
    if (!tls)
        return context;
    certificate = certificate_in(tls->certificate);
    key = key_in(tls->key);
    assert_int_equal(SSL_CTX_use_certificate(context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(context, key), 1);
    EVP_PKEY_free(key);
    X509_free(certificate);
    return context;
}

/* A handshake in memory: does the server take the client? */
static bool takes(const hth_fleet_pem *server, SSL_CTX *client)
{
    SSL *ends[2] = { SSL_new(client), SSL_new(hth_fleet_pem_context((void *)server)) };
    BIO *pair[2];
    bool is_over = false, is_taken;

    assert_non_null(ends[0]);
    assert_non_null(ends[1]);
    assert_int_equal(BIO_new_bio_pair(&pair[0], 0, &pair[1], 0), 1);
    for (int i = 0; i < 2; i++)
        SSL_set_bio(ends[i], pair[i], pair[i]);
    SSL_set_connect_state(ends[0]);
    SSL_set_accept_state(ends[1]);
    for (int turn = 0; turn < 20 && !is_over; turn++)
        for (int i = 0; i < 2 && !is_over; i++)
            if (!SSL_is_init_finished(ends[i]))
                is_over = SSL_get_error(ends[i], SSL_do_handshake(ends[i])) == SSL_ERROR_SSL;
    is_taken = !is_over && SSL_is_init_finished(ends[0]) && SSL_is_init_finished(ends[1]);
    for (int i = 0; i < 2; i++)
        SSL_free(ends[i]);
    ERR_clear_error();
    return is_taken;
}

static bool takes_member(const hth_fleet_pem *server, const hth_fleet_pem *member)
{
    SSL_CTX *client = client_of(hth_fleet_pem_tls(member));
    const bool is_taken = takes(server, client);

    SSL_CTX_free(client);
    return is_taken;
}

FIXTURE_TEST(who_has_the_file_is_a_member_and_nobody_else)
{
    hearth_error err = { .message = "" };
    char print[HTH_FLEET_PRINT_BYTES];
    hth_fleet_pem *pem, *copy, *stranger;
    SSL_CTX *client;

    assert_ok(hth_fleet_pem_make(f->path, print, &err), err);
    assert_ok(hth_fleet_pem_make(f->other, print, &err), err);
    pem = read_pem(f->path);
    copy = read_pem(f->path);
    stranger = read_pem(f->other);
    assert_true(takes_member(pem, copy));
    assert_false(takes_member(pem, stranger));
    assert_false(takes_member(stranger, pem));
    client = client_of(NULL);
    assert_false(takes(pem, client)); /* it shows no certificate */
    SSL_CTX_free(client);
    client = client_of(hth_fleet_pem_tls(copy));
    assert_int_equal(SSL_CTX_set_max_proto_version(client, TLS1_2_VERSION), 1);
    assert_false(takes(pem, client));
    SSL_CTX_free(client);
    hth_fleet_pem_free(pem);
    hth_fleet_pem_free(copy);
    hth_fleet_pem_free(stranger);
}

FIXTURE_TEST(an_authority_makes_members)
{
    identity authority = identity_new("authority", NULL), one = identity_new("one", &authority),
             two = identity_new("two", &authority), impostor = identity_new("authority", NULL),
             third = identity_new("third", &impostor);
    hth_fleet_pem *pem, *member, *stranger;

    write_pem(f->path, one.key, one.certificate, authority.certificate);
    pem = read_pem(f->path);
    write_pem(f->path, two.key, two.certificate, authority.certificate);
    member = read_pem(f->path);
    write_pem(f->path, third.key, third.certificate, authority.certificate);
    assert_refused(f->path, HEARTH_CORRUPT); /* signed by another key of that name */
    write_pem(f->path, third.key, third.certificate, impostor.certificate);
    stranger = read_pem(f->path);
    assert_true(takes_member(pem, member));
    assert_true(takes_member(member, pem));
    assert_false(takes_member(pem, stranger));
    hth_fleet_pem_free(pem);
    hth_fleet_pem_free(member);
    hth_fleet_pem_free(stranger);
    identity_free(&authority);
    identity_free(&one);
    identity_free(&two);
    identity_free(&impostor);
    identity_free(&third);
}

FIXTURE_TEST(an_authority_need_not_be_its_own)
{
    identity root = identity_new("root", NULL), authority = identity_of("authority", &root, true),
             one = identity_new("one", &authority), uncle = identity_new("uncle", &root);
    hth_fleet_pem *pem, *stranger;

    write_pem(f->path, one.key, one.certificate, authority.certificate);
    pem = read_pem(f->path);
    write_pem(f->path, uncle.key, uncle.certificate, authority.certificate);
    assert_refused(f->path, HEARTH_CORRUPT);
    write_pem(f->path, uncle.key, uncle.certificate, root.certificate);
    stranger = read_pem(f->path);
    assert_true(takes_member(pem, pem));
    assert_false(takes_member(pem, stranger)); /* another authority of that root may have other members */
    hth_fleet_pem_free(pem);
    hth_fleet_pem_free(stranger);
    identity_free(&root);
    identity_free(&authority);
    identity_free(&one);
    identity_free(&uncle);
}
