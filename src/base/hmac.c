/*
 * hmac.c - the only user of OpenSSL's message authentication
 *
 * A prepared key is a context that was given the key but no message. Every message starts as a copy of it, so the key
 * is hashed once. As with digests, a failure after that means that the crypto library is broken.
 */
#include "base/hmac.h"

#include <assert.h>
#include <stdlib.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

struct hth_hmac_key {
    EVP_MAC_CTX *ready;
};

struct hth_hmac {
    EVP_MAC_CTX *running;
};

hth_hmac_key *hth_hmac_key_new(const void *bytes, size_t n_bytes)
{
    char digest[] = "SHA256";
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    hth_hmac_key *key = calloc(1, sizeof(*key));
    EVP_MAC *algorithm = EVP_MAC_fetch(NULL, "HMAC", NULL);

    assert(n_bytes > 0);
    if (key && algorithm)
        key->ready = EVP_MAC_CTX_new(algorithm);
    EVP_MAC_free(algorithm); /* the context holds its own reference */
    if (!key || !key->ready || EVP_MAC_init(key->ready, bytes, n_bytes, parameters) != 1) {
        hth_hmac_key_free(key);
        return NULL;
    }
    return key;
}

void hth_hmac_key_free(hth_hmac_key *key)
{
    if (!key)
        return;
    EVP_MAC_CTX_free(key->ready);
    free(key);
}

hth_hmac *hth_hmac_new(const hth_hmac_key *key)
{
    hth_hmac *mac = calloc(1, sizeof(*mac));

    if (!mac)
        return NULL;
    mac->running = EVP_MAC_CTX_dup(key->ready);
    if (!mac->running) {
        free(mac);
        return NULL;
    }
    return mac;
}

void hth_hmac_free(hth_hmac *mac)
{
    if (!mac)
        return;
    EVP_MAC_CTX_free(mac->running);
    free(mac);
}

void hth_hmac_update(hth_hmac *mac, const void *bytes, size_t n_bytes)
{
    int ok = EVP_MAC_update(mac->running, bytes, n_bytes);

    assert(ok == 1);
    (void)ok; /* read by the assertion only */
}

void hth_hmac_final(hth_hmac *mac, uint8_t out[HTH_HMAC_BYTES])
{
    size_t n = 0;
    int ok = EVP_MAC_final(mac->running, out, &n, HTH_HMAC_BYTES);

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
