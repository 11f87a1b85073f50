/*
 * fleet_pem.c - the file is read once, whole; OpenSSL makes it, and checks the certificates of others
 *
 * TLS 1.3 only, because both sides are Hearth. A certificate is checked against the authorities of the file; a
 * certificate that is its own authority is accepted if it is this very one (X509_V_FLAG_PARTIAL_CHAIN).
 */
#include "fleet/fleet_pem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/hash.h"
#include "base/hex.h"
#include "base/os.h"
#include "base/status.h"
#include "base/whole_file.h"

enum {
    FILE_BYTES_MAX = 256 << 10,
    YEARS = 20,
    DAY_S = 86400,
};

struct hth_fleet_pem {
    SSL_CTX *context;
    hth_upstream_tls tls; /* its texts are in texts, one after another */
    char print[HTH_FLEET_PRINT_BYTES];
    char fleet[HTH_FLEET_PRINT_BYTES]; /* of the first authority, or else the same */
    bool has_authorities;
    BIO *texts[3]; /* certificate, key, authorities; each with its terminator */
};

static const char what[] =
    "a file of a fleet has one private key and its certificate, in PEM; 'hearth fleet init' makes one";

/* ---- a new file ---- */

static void print_of(const X509 *certificate, char out[HTH_FLEET_PRINT_BYTES])
{
    uint8_t digest[EVP_MAX_MD_SIZE] = { 0 };
    unsigned n = 0;

    (void)X509_digest(certificate, EVP_sha256(), digest, &n); /* zeros if it fails: it is only shown */
    hth_hex_encode(digest, HTH_SHA256_BYTES, out);
}

static bool set_name(X509 *certificate)
{
    static const unsigned char name[] = "hearth fleet";
    X509_NAME *subject = X509_get_subject_name(certificate);

    return X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, name, -1, -1, 0) == 1 &&
           X509_set_issuer_name(certificate, subject) == 1;
}

/* A certificate of the key that it is signed with. NULL if OpenSSL fails. */
static X509 *sign(EVP_PKEY *key)
{
    X509 *certificate = X509_new();
    uint64_t serial = 0;

    hth_os_random(&serial, sizeof(serial));
    if (certificate && X509_set_version(certificate, X509_VERSION_3) == 1 &&
        ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1) == 1 &&
        X509_gmtime_adj(X509_getm_notBefore(certificate), -DAY_S) && /* clocks differ */
        X509_time_adj_ex(X509_getm_notAfter(certificate), YEARS * 365, 0, NULL) && set_name(certificate) &&
        X509_set_pubkey(certificate, key) == 1 && X509_sign(certificate, key, EVP_sha256()) > 0)
        return certificate;
    X509_free(certificate);
    return NULL;
}

static hearth_status write_file(const char *path, BIO *text, hearth_error *err)
{
    char *bytes = NULL;
    const long n = BIO_get_mem_data(text, &bytes);
    hth_whole_file *file = NULL;
    hearth_status status = hth_whole_file_begin(hth_fs_system(), path, HTH_WHOLE_FILE_NEW, &file, err);

    if (status != HEARTH_OK)
        return status;
    status = hth_whole_file_write(file, bytes, (size_t)n, err);
    return hth_whole_file_end(file, status, err);
}

hearth_status hth_fleet_pem_make(const char *path, char print[HTH_FLEET_PRINT_BYTES], hearth_error *err)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = key ? sign(key) : NULL;
    BIO *text = BIO_new(BIO_s_secmem());
    hearth_status status;

    if (certificate && text && PEM_write_bio_PrivateKey(text, key, NULL, NULL, 0, NULL, NULL) == 1 &&
        PEM_write_bio_X509(text, certificate) == 1) {
        status = write_file(path, text, err);
        if (status == HEARTH_OK)
            print_of(certificate, print);
    } else {
        status = hth_fail(err, HEARTH_FAILED, "OpenSSL cannot make a key for '%s'", path);
    }
    BIO_free(text);
    X509_free(certificate);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return status;
}

/* ---- reading ---- */

/* The file's bytes. It must be a plain file that only its owner, and perhaps a group, can read. */
static hearth_status open_file(const char *path, BIO **out, hearth_error *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *bytes = malloc(FILE_BYTES_MAX);
    hearth_status status = HEARTH_OK;
    struct stat st;
    ssize_t n = 0;

    if (fd < 0)
        status = hth_fail_errno(err, errno, "cannot read the fleet's file '%s'", path);
    else if (!bytes)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for '%s'", path);
    else if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_BYTES_MAX)
        status = hth_fail(err, HEARTH_CORRUPT, "'%s' is not the file of a fleet: %s", path, what);
    else if (st.st_mode & (S_IROTH | S_IWOTH | S_IWGRP))
        status = hth_fail(err, HEARTH_PERMISSION,
                          "others of this machine may read or change '%s', which makes them members of the fleet; run "
                          "chmod 600 on it",
                          path);
    else if ((n = read(fd, bytes, FILE_BYTES_MAX)) < 0)
        status = hth_fail_errno(err, errno, "cannot read the fleet's file '%s'", path);
    if (status == HEARTH_OK) {
        *out = BIO_new(BIO_s_secmem());
        if (!*out || BIO_write(*out, bytes, (int)n) != n)
            status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for '%s'", path);
    }
    if (fd >= 0)
        (void)close(fd); /* only read from */
    if (bytes)
        hth_wipe(bytes, FILE_BYTES_MAX);
    free(bytes);
    return status;
}

/* A terminated text in PEM. NULL if it is empty. */
static const char *end_text(BIO *text)
{
    char *bytes = NULL;

    if (BIO_get_mem_data(text, &bytes) == 0 || BIO_write(text, "", 1) != 1)
        return NULL;
    (void)BIO_get_mem_data(text, &bytes);
    return bytes;
}

/* Certificate and authorities from info, whose other members are none. The key is read before. */
static bool take_certificates(hth_fleet_pem *pem, STACK_OF(X509_INFO) * all)
{
    X509_STORE *store = SSL_CTX_get_cert_store(pem->context);
    const X509_INFO *first = NULL;
    int n_authorities = 0;

    for (int i = 0; i < sk_X509_INFO_num(all); i++) {
        const X509_INFO *one = sk_X509_INFO_value(all, i);

        if (!one->x509)
            continue;
        if (!first) {
            first = one;
            if (SSL_CTX_use_certificate(pem->context, one->x509) != 1 ||
                PEM_write_bio_X509(pem->texts[0], one->x509) != 1)
                return false;
            print_of(one->x509, pem->print);
            print_of(one->x509, pem->fleet);
            continue;
        }
        if (n_authorities++ == 0)
            print_of(one->x509, pem->fleet);
        if (X509_STORE_add_cert(store, one->x509) != 1 || PEM_write_bio_X509(pem->texts[2], one->x509) != 1)
            return false;
    }
    if (!first)
        return false;
    pem->has_authorities = n_authorities > 0;
    return n_authorities > 0 ||
           (X509_STORE_add_cert(store, first->x509) == 1 && PEM_write_bio_X509(pem->texts[2], first->x509) == 1);
}

static bool take_key(hth_fleet_pem *pem, STACK_OF(X509_INFO) * all)
{
    for (int i = 0; i < sk_X509_INFO_num(all); i++) {
        const X509_INFO *one = sk_X509_INFO_value(all, i);
        EVP_PKEY *key = one->x_pkey ? one->x_pkey->dec_pkey : NULL;

        if (key)
            return SSL_CTX_use_PrivateKey(pem->context, key) == 1 &&
                   PEM_write_bio_PrivateKey(pem->texts[1], key, NULL, NULL, 0, NULL, NULL) == 1 &&
                   SSL_CTX_check_private_key(pem->context) == 1;
    }
    return false;
}

/* Do the authorities accept the certificate? Then all members with the same authorities do. */
static hearth_status check_member(const hth_fleet_pem *pem, const char *path, hearth_error *err)
{
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    hearth_status status = HEARTH_OK;

    if (!check || X509_STORE_CTX_init(check, SSL_CTX_get_cert_store(pem->context),
                                      SSL_CTX_get0_certificate(pem->context), NULL) != 1)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the fleet's file '%s'", path);
    else if (X509_verify_cert(check) != 1)
        status = hth_fail(err, HEARTH_CORRUPT,
                          "other nodes would not accept the certificate in '%s' (OpenSSL: %s); let one of the "
                          "authorities that follow it sign it, or make a new file",
                          path, X509_verify_cert_error_string(X509_STORE_CTX_get_error(check)));
    X509_STORE_CTX_free(check);
    return status;
}

static bool make_context(hth_fleet_pem *pem)
{
    static const unsigned char name[] = "hearth fleet";

    pem->context = SSL_CTX_new(TLS_method());
    if (!pem->context || SSL_CTX_set_min_proto_version(pem->context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_session_id_context(pem->context, name, sizeof(name) - 1) != 1 ||
        X509_STORE_set_flags(SSL_CTX_get_cert_store(pem->context), X509_V_FLAG_PARTIAL_CHAIN) != 1)
        return false;
    SSL_CTX_set_verify(pem->context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    (void)SSL_CTX_set_mode(pem->context, SSL_MODE_RELEASE_BUFFERS); /* an idle connection keeps no buffers */
    for (size_t i = 0; i < sizeof(pem->texts) / sizeof(pem->texts[0]); i++) {
        pem->texts[i] = BIO_new(i == 1 ? BIO_s_secmem() : BIO_s_mem());
        if (!pem->texts[i])
            return false;
    }
    return true;
}

hearth_status hth_fleet_pem_read(const char *path, hth_fleet_pem **out, hearth_error *err)
{
    hth_fleet_pem *pem = calloc(1, sizeof(*pem));
    STACK_OF(X509_INFO) *all = NULL;
    BIO *file = NULL;
    hearth_status status;

    if (!pem || !make_context(pem)) {
        hth_fleet_pem_free(pem);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the fleet's file '%s'", path);
    }
    status = open_file(path, &file, err);
    if (status == HEARTH_OK) {
        all = PEM_X509_INFO_read_bio(file, NULL, NULL, (void *)""); /* no passphrase: nobody is there to type one */
        if (!all || !take_certificates(pem, all) || !take_key(pem, all))
            status = hth_fail(err, HEARTH_CORRUPT, "'%s' is not the file of a fleet: %s", path, what);
        else
            status = check_member(pem, path, err);
    }
    sk_X509_INFO_pop_free(all, X509_INFO_free);
    BIO_free(file);
    ERR_clear_error();
    pem->tls = (hth_upstream_tls){ .certificate = end_text(pem->texts[0]),
                                   .key = end_text(pem->texts[1]),
                                   .authorities = end_text(pem->texts[2]) };
    if (status == HEARTH_OK && (!pem->tls.certificate || !pem->tls.key || !pem->tls.authorities))
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the fleet's file '%s'", path);
    if (status != HEARTH_OK) {
        hth_fleet_pem_free(pem);
        return status;
    }
    *out = pem;
    return HEARTH_OK;
}

void hth_fleet_pem_free(hth_fleet_pem *pem)
{
    if (!pem)
        return;
    for (size_t i = 0; i < sizeof(pem->texts) / sizeof(pem->texts[0]); i++)
        BIO_free(pem->texts[i]);
    SSL_CTX_free(pem->context);
    free(pem);
}

struct ssl_ctx_st *hth_fleet_pem_context(void *user_data)
{
    const hth_fleet_pem *pem = user_data;

    return pem->context;
}

const hth_upstream_tls *hth_fleet_pem_tls(const hth_fleet_pem *pem)
{
    return &pem->tls;
}

const char *hth_fleet_pem_print(const hth_fleet_pem *pem)
{
    return pem->print;
}

bool hth_fleet_pem_secret(const hth_fleet_pem *pem, uint8_t out[32])
{
    hth_sha256_of(pem->tls.key, strlen(pem->tls.key), out);
    return !pem->has_authorities;
}

const char *hth_fleet_pem_fleet(const hth_fleet_pem *pem)
{
    return pem->fleet;
}
