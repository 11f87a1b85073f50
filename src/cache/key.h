/*
 * key.h - names of prefixes
 *
 * key = SHA-256(fingerprint[32] || quant byte || ctx_params_hash[32] || tokens[0..end) as u32 little-endian). A key
 * names a prefix, so equal keys mean the same model, the same parameters and the same tokens; nothing approximate. The
 * format is that of tests/fixtures/kvc; a key stream gives the keys of all prefixes of a prompt in one pass.
 */
#ifndef HTH_CACHE_KEY_H
#define HTH_CACHE_KEY_H

#include <string.h>

#include "base/hash.h"

#define HTH_KEY_BYTES 32

typedef struct hth_key {
    uint8_t bytes[HTH_KEY_BYTES];
} hth_key;

static inline bool hth_key_equal(const hth_key *a, const hth_key *b)
{
    return memcmp(a->bytes, b->bytes, HTH_KEY_BYTES) == 0;
}

/*
 * Whose an effective fingerprint is. No part of keys or rows: only for telling why a prompt is not known, where nothing
 * may be told to one tenant of another (why.h).
 */
typedef struct hth_tenancy {
    uint8_t fingerprint[32]; /* the effective one that this is about */
    uint8_t base[32];        /* the same without salts */
    uint8_t scope[32];       /* what the salts make of 32 zeros: equal for equal salts, whatever the model */
} hth_tenancy;

/* Everything about a model and its context that a key depends on besides the tokens. */
typedef struct hth_keyspace {
    uint8_t fingerprint[32];  /* effective: adapters and salt folded in */
    uint8_t fingerprint_mode; /* 0 safe, 1 gguf_chunked, 2 fast_unsafe; not part of the key, carried into the rows */
    uint8_t quant_byte;
    uint8_t ctx_params_hash[32];
    hth_tenancy tenancy;
} hth_keyspace;

/* Are equal tokens the same prefix in both? How the fingerprint was made does not matter. */
static inline bool hth_keyspace_equal(const hth_keyspace *a, const hth_keyspace *b)
{
    return memcmp(a->fingerprint, b->fingerprint, sizeof(a->fingerprint)) == 0 && a->quant_byte == b->quant_byte &&
           memcmp(a->ctx_params_hash, b->ctx_params_hash, sizeof(a->ctx_params_hash)) == 0;
}

/* ---- one pass over a prompt's tokens ---- */

typedef struct hth_key_stream hth_key_stream; /* one thread at a time */

/* A stream at the empty prefix of keyspace; NULL when there is no memory. */
hth_key_stream *hth_key_stream_new(const hth_keyspace *keyspace);
void hth_key_stream_free(hth_key_stream *stream); /* accepts NULL */
/* Back to the empty prefix. */
void hth_key_stream_reset(hth_key_stream *stream);
/* Append tokens. */
void hth_key_stream_push(hth_key_stream *stream, const hearth_token *tokens, size_t n_tokens);
/* The key of everything pushed so far; the stream goes on. */
void hth_key_stream_key(hth_key_stream *stream, hth_key *out);
/* Make dst stand where src stands; both must be of the same keyspace. */
void hth_key_stream_copy(hth_key_stream *dst, const hth_key_stream *src);

/* The key of one token array. False when there is no memory. */
bool hth_key_of(const hth_keyspace *keyspace, const hearth_token *tokens, size_t n_tokens, hth_key *out);
/* The same for tokens as they stand in a file: n_bytes / 4 of them, u32 little-endian, at any alignment. */
bool hth_key_of_bytes(const hth_keyspace *keyspace, const uint8_t *token_bytes, size_t n_bytes, hth_key *out);

/* ---- quant types ---- */

#define HTH_QUANT_UNKNOWN 255

/* The byte of a quant type's lower-case name; HTH_QUANT_UNKNOWN for every unknown name. */
uint8_t hth_quant_byte(const char *name);
/* The name of a byte 0..29; NULL for others, 255 included. */
const char *hth_quant_name(uint8_t byte);

/* ---- effective fingerprint ---- */

typedef struct hth_adapter_ref {
    uint8_t sha256[32];
    double scale;
} hth_adapter_ref;

/*
 * Fold adapters into a model's fingerprint: with none the fingerprint itself, else SHA-256(fingerprint || for each in
 * order: sha256 || scale as signed q32 little-endian), ordered by hash and then by scale as a number. HEARTH_MISUSE for
 * a scale that is not finite or does not fit 64 bits.
 */
hearth_status hth_effective_fingerprint(const uint8_t fingerprint[32], const hth_adapter_ref *adapters,
                                        size_t n_adapters, uint8_t out[32], hearth_error *err);

/*
 * Fold a tenant's salt into a fingerprint: HMAC-SHA256 with the salt as key over "hearth-salt-v1" || fingerprint. A
 * salt of no bytes (NULL or "") leaves it as it is. out may be fingerprint, here and above.
 */
void hth_salted_fingerprint(const uint8_t fingerprint[32], const char *salt, uint8_t out[32]);

/* ---- tenancy ---- */

/* Give a keyspace its fingerprint, of no tenant. */
void hth_keyspace_set_fingerprint(hth_keyspace *keyspace, const uint8_t fingerprint[32]);
/* Fold one more salt into a keyspace's fingerprint, as above, and into its tenancy. */
void hth_keyspace_salt(hth_keyspace *keyspace, const char *salt);
/*
 * Is the tenancy that of the fingerprint? One whose fingerprint was set by other means belongs to nobody knows whom: it
 * is told nothing of others, and others nothing of it.
 */
static inline bool hth_keyspace_has_tenancy(const hth_keyspace *keyspace)
{
    return memcmp(keyspace->tenancy.fingerprint, keyspace->fingerprint, sizeof(keyspace->fingerprint)) == 0;
}

#endif
