/*
 * sealed.h - bytes in the store that only nodes of the fleet can read, and make
 *
 *      0  u8      1, the version
 *      1  u8[12]  a nonce, drawn at random
 *     13          the bytes, with AES-256-GCM (NIST SP 800-38D)
 *   n-16  u8[16]  the tag; it also covers the number of the piece
 *
 * Each name has a key of its own, from the secret of the fleet. So few pieces share a key that their nonces may be
 * random. Whoever has the store can hide or repeat pieces, but not swap or change them. Any thread.
 */
#ifndef HTH_FLEET_SEALED_H
#define HTH_FLEET_SEALED_H

#include <stdint.h>

#include "api/buffer.h"

enum {
    HTH_SEAL_SECRET_BYTES = 32,
    HTH_SEAL_MORE_BYTES = 1 + 12 + 16, /* by which a sealed piece is longer */
};

typedef struct hth_seal {
    uint8_t key[32];
} hth_seal;

/* The key of a name. False without memory. */
bool hth_seal_init(hth_seal *seal, const uint8_t secret[HTH_SEAL_SECRET_BYTES], const char *name);
void hth_seal_deinit(hth_seal *seal); /* wipes it */

/* Append bytes, [n], as the sealed piece of this number. out->failed without memory. */
void hth_seal_add(const hth_seal *seal, uint64_t number, const void *bytes, size_t n, hth_buffer *out);
/* Append what is sealed in this piece, [n]. False: it is not this piece of this name, or there is no memory. */
bool hth_seal_open(const hth_seal *seal, uint64_t number, const void *sealed, size_t n, hth_buffer *out);

#endif
