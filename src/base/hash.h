/*
 * hash.h - SHA-256 (OpenSSL) and CRC32C (ISA-L)
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

#endif
