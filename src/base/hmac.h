/*
 * hmac.h - HMAC-SHA256 (OpenSSL), and wiping of secrets
 *
 * A key is prepared once and then only read. Every message has its own stream. Neither keeps a copy of the key's bytes
 * outside OpenSSL, which wipes its copy when it frees it.
 */
#ifndef HTH_BASE_HMAC_H
#define HTH_BASE_HMAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTH_HMAC_BYTES 32

typedef struct hth_hmac_key hth_hmac_key; /* usable by any number of threads at once */
typedef struct hth_hmac hth_hmac;         /* one message; one thread at a time */

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
