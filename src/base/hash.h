/*
 * hash.h - SHA-256, HMAC-SHA256 and the wiping of secrets (OpenSSL); CRC32C (ISA-L)
 *
 * A SHA-256 stream can be forked at any point: hth_sha256_peek returns the digest of the bytes fed so far, and the
 * stream continues. So one pass over a prompt's tokens gives the keys of all its prefixes.
 */
#ifndef HTH_BASE_HASH_H
#define HTH_BASE_HASH_H

#include "base/hex.h"
#include "base/status.h"

#define HTH_SHA256_BYTES 32
#define HTH_GIT_ID_BYTES 20

typedef struct hth_sha256 hth_sha256; /* used by one thread at a time */

/* A new stream, or NULL when there is no memory. Free with hth_sha256_free, which accepts NULL. */
hth_sha256 *hth_sha256_new(void);
void hth_sha256_free(hth_sha256 *sha);

/* Discard everything fed so far. */
void hth_sha256_reset(hth_sha256 *sha);
void hth_sha256_update(hth_sha256 *sha, const void *bytes, size_t n_bytes);
/* The digest of everything fed so far. The stream can be fed further. */
void hth_sha256_peek(hth_sha256 *sha, uint8_t digest_out[HTH_SHA256_BYTES]);
/* Make dst a copy of src's state. */
void hth_sha256_copy(hth_sha256 *dst, const hth_sha256 *src);

/* The digest of one buffer. Thread-safe. */
void hth_sha256_of(const void *bytes, size_t n_bytes, uint8_t digest_out[HTH_SHA256_BYTES]);

/*
 * The SHA-1 that git computes for a file of these bytes: it identifies the file if a hub has no SHA-256. Not secure.
 * Thread-safe.
 */
void hth_git_blob_id(const void *bytes, size_t n_bytes, uint8_t id_out[HTH_GIT_ID_BYTES]);

/* CRC32C (Castagnoli) of bytes. crc is 0, or an earlier result to continue with the bytes that follow. */
uint32_t hth_crc32c(uint32_t crc, const void *bytes, size_t n_bytes);

/*
 * ---- HMAC-SHA256 ----
 *
 * A key is prepared once and then only read. Every message has its own stream. Neither keeps a copy of the key's bytes
 * outside OpenSSL, which wipes its copy when it frees it.
 */

#define HTH_HMAC_BYTES 32

/* Both are OpenSSL's EVP_MAC_CTX. */
typedef struct evp_mac_ctx_st hth_hmac_key; /* usable by any number of threads at once */
typedef struct evp_mac_ctx_st hth_hmac;     /* one message; one thread at a time */

/* Prepare a key of n_bytes >= 1 bytes, which the caller may wipe afterwards. NULL when there is no memory. */
hth_hmac_key *hth_hmac_key_new(const void *bytes, size_t n_bytes);
void hth_hmac_key_free(hth_hmac_key *key); /* after its streams; accepts NULL */

/* Begin a message. NULL when there is no memory. Free with hth_hmac_free, which accepts NULL. */
hth_hmac *hth_hmac_new(const hth_hmac_key *key);
void hth_hmac_free(hth_hmac *mac);
void hth_hmac_update(hth_hmac *mac, const void *bytes, size_t n_bytes);
/* The message's HMAC; nothing can be added afterwards. */
void hth_hmac_final(hth_hmac *mac, uint8_t out[HTH_HMAC_BYTES]);

/* Compares in constant time, so the duration does not reveal where a difference is. */
bool hth_hmac_equal(const uint8_t a[HTH_HMAC_BYTES], const uint8_t b[HTH_HMAC_BYTES]);

/* Overwrite a secret in a way that the compiler cannot remove. */
void hth_wipe(void *bytes, size_t n_bytes);

#endif
