/*
 * hash.c - the only user of OpenSSL's digests and message authentication, and of ISA-L's CRC
 *
 * OpenSSL and ISA-L choose the SHA and CRC instructions of the CPU at run time. A digest fails only if the crypto
 * library is broken or its smallest allocation fails. No key could be trusted after that. So this is an assertion, not
 * a status that every caller would have to handle.
 */
#include "base/hash.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <isa-l.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

struct hth_sha256 {
    EVP_MD *algorithm; /* fetched once: an implicit fetch on every reset costs more than hashing a block */
    EVP_MD_CTX *running;
    EVP_MD_CTX *fork; /* reused by peek, so that a peek does not allocate */
};

hth_sha256 *hth_sha256_new(void)
{
    hth_sha256 *sha = calloc(1, sizeof(*sha));

    if (!sha)
        return NULL;
    sha->algorithm = EVP_MD_fetch(NULL, "SHA256", NULL);
    sha->running = EVP_MD_CTX_new();
    sha->fork = EVP_MD_CTX_new();
    if (!sha->algorithm || !sha->running || !sha->fork || EVP_DigestInit_ex2(sha->running, sha->algorithm, NULL) != 1) {
        hth_sha256_free(sha);
        return NULL;
    }
    return sha;
}

void hth_sha256_free(hth_sha256 *sha)
{
    if (!sha)
        return;
    EVP_MD_CTX_free(sha->running);
    EVP_MD_CTX_free(sha->fork);
    EVP_MD_free(sha->algorithm);
    free(sha);
}

void hth_sha256_reset(hth_sha256 *sha)
{
    int ok = EVP_DigestInit_ex2(sha->running, sha->algorithm, NULL);

    assert(ok == 1);
    (void)ok; /* read by the assertion only */
}

void hth_sha256_update(hth_sha256 *sha, const void *bytes, size_t n_bytes)
{
    int ok = EVP_DigestUpdate(sha->running, bytes, n_bytes);

    assert(ok == 1);
    (void)ok; /* read by the assertion only */
}

void hth_sha256_peek(hth_sha256 *sha, uint8_t digest_out[HTH_SHA256_BYTES])
{
    unsigned int n = 0;
    int ok = EVP_MD_CTX_copy_ex(sha->fork, sha->running);

    assert(ok == 1);
    ok = EVP_DigestFinal_ex(sha->fork, digest_out, &n);
    assert(ok == 1);
    assert(n == HTH_SHA256_BYTES);
    (void)ok; /* read by the assertions only */
}

void hth_sha256_copy(hth_sha256 *dst, const hth_sha256 *src)
{
    int ok = EVP_MD_CTX_copy_ex(dst->running, src->running);

    assert(ok == 1);
    (void)ok; /* read by the assertion only */
}

void hth_sha256_of(const void *bytes, size_t n_bytes, uint8_t digest_out[HTH_SHA256_BYTES])
{
    unsigned int n = 0;
    int ok = EVP_Digest(bytes, n_bytes, digest_out, &n, EVP_sha256(), NULL);

    assert(ok == 1);
    assert(n == HTH_SHA256_BYTES);
    (void)ok; /* read by the assertion only */
}

void hth_git_blob_id(const void *bytes, size_t n_bytes, uint8_t id_out[HTH_GIT_ID_BYTES])
{
    EVP_MD_CTX *running = EVP_MD_CTX_new();
    char head[32];
    const int n_head = snprintf(head, sizeof(head), "blob %zu", n_bytes) + 1; /* including the terminating NUL */
    unsigned int n = 0;
    const bool ok = running && EVP_DigestInit_ex(running, EVP_sha1(), NULL) == 1 &&
                    EVP_DigestUpdate(running, head, (size_t)n_head) == 1 &&
                    EVP_DigestUpdate(running, bytes, n_bytes) == 1 && EVP_DigestFinal_ex(running, id_out, &n) == 1;

    assert(ok);
    assert(n == HTH_GIT_ID_BYTES);
    (void)ok; /* read by the assertion only */
    EVP_MD_CTX_free(running);
}

uint32_t hth_crc32c(uint32_t crc, const void *bytes, size_t n_bytes)
{
    /* crc32_iscsi takes an int length and leaves the initial and final inversion to the caller. */
    unsigned char *at = (unsigned char *)(uintptr_t)bytes;
    uint32_t state = ~crc;

    while (n_bytes > 0) {
        int n = n_bytes > INT_MAX / 2 ? INT_MAX / 2 : (int)n_bytes;

        state = crc32_iscsi(at, n, state);
        at += n;
        n_bytes -= (size_t)n;
    }
    return ~state;
}

/*
 * ---- message authentication ----
 *
 * A prepared key is a context that was given the key but no message. Every message starts as a copy of it, so the key
 * is hashed once. As with digests, a failure after that means that the crypto library is broken.
 */

hth_hmac_key *hth_hmac_key_new(const void *bytes, size_t n_bytes)
{
    char digest[] = "SHA256";
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    EVP_MAC *algorithm = EVP_MAC_fetch(NULL, "HMAC", NULL);
    hth_hmac_key *key = algorithm ? EVP_MAC_CTX_new(algorithm) : NULL;

    assert(n_bytes > 0);
    EVP_MAC_free(algorithm); /* the context holds its own reference */
    if (key && EVP_MAC_init(key, bytes, n_bytes, parameters) != 1) {
        EVP_MAC_CTX_free(key);
        return NULL;
    }
    return key;
}

void hth_hmac_key_free(hth_hmac_key *key)
{
    EVP_MAC_CTX_free(key);
}

hth_hmac *hth_hmac_new(const hth_hmac_key *key)
{
    return EVP_MAC_CTX_dup(key);
}

void hth_hmac_free(hth_hmac *mac)
{
    EVP_MAC_CTX_free(mac);
}

void hth_hmac_update(hth_hmac *mac, const void *bytes, size_t n_bytes)
{
    int ok = EVP_MAC_update(mac, bytes, n_bytes);

    assert(ok == 1);
    (void)ok; /* read by the assertion only */
}

void hth_hmac_final(hth_hmac *mac, uint8_t out[HTH_HMAC_BYTES])
{
    size_t n = 0;
    int ok = EVP_MAC_final(mac, out, &n, HTH_HMAC_BYTES);

    assert(ok == 1);
    assert(n == HTH_HMAC_BYTES);
    (void)ok; /* read by the assertion only */
}

bool hth_hmac_equal(const uint8_t a[HTH_HMAC_BYTES], const uint8_t b[HTH_HMAC_BYTES])
{
    return CRYPTO_memcmp(a, b, HTH_HMAC_BYTES) == 0;
}

void hth_wipe(void *bytes, size_t n_bytes)
{
    OPENSSL_cleanse(bytes, n_bytes);
}
