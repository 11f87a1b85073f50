/*
 * key.h - names of prefixes
 *
 * key = SHA-256(fingerprint[32] || quant byte || ctx_params_hash[32] || tokens[0..end) as u32 little-endian). Equal
 * keys mean the same model, the same parameters and the same tokens. The format is pinned by tests/fixtures/kvc. A key
 * stream gives the keys of all prefixes of a prompt in one pass.
 */
#ifndef HTH_ROWS_KEY_H
#define HTH_ROWS_KEY_H

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
 * The owner of an effective fingerprint. It is not part of keys or rows. It only serves to explain a miss, and an
 * explanation reveals nothing to a tenant about another one (why.h).
 */
typedef struct hth_tenancy {
    uint8_t fingerprint[32]; /* the effective fingerprint of this owner */
    uint8_t base[32];        /* the same without salts and adapters */
    uint8_t scope[32];       /* 32 zeros with the salts folded in: equal for equal salts, for every model */
} hth_tenancy;

/* Everything that a key depends on besides the tokens: facts about a model and its context. */
typedef struct hth_keyspace {
    uint8_t fingerprint[32];  /* effective: adapters and salt folded in */
    uint8_t fingerprint_mode; /* 0 safe, 1 gguf_chunked, 2 fast_unsafe; not part of the key, carried into the rows */
    uint8_t quant_byte;
    uint8_t ctx_params_hash[32];
    hth_tenancy tenancy;
} hth_keyspace;

/* Do equal tokens mean the same prefix in both? The mode of the fingerprint does not matter. */
static inline bool hth_keyspace_equal(const hth_keyspace *a, const hth_keyspace *b)
{
    return memcmp(a->fingerprint, b->fingerprint, sizeof(a->fingerprint)) == 0 && a->quant_byte == b->quant_byte &&
           memcmp(a->ctx_params_hash, b->ctx_params_hash, sizeof(a->ctx_params_hash)) == 0;
}

/* ---- one pass over a prompt's tokens ---- */

typedef struct hth_key_stream hth_key_stream; /* used by one thread at a time */

/* A stream at the empty prefix of keyspace; NULL when there is no memory. */
hth_key_stream *hth_key_stream_new(const hth_keyspace *keyspace);
void hth_key_stream_free(hth_key_stream *stream); /* accepts NULL */
/* Return to the empty prefix. */
void hth_key_stream_reset(hth_key_stream *stream);
void hth_key_stream_push(hth_key_stream *stream, const hearth_token *tokens, size_t n_tokens);
/* The key of all tokens so far. More may follow. */
void hth_key_stream_key(hth_key_stream *stream, hth_key *out);
/* Copy the state of src to dst. Both must be of the same keyspace. */
void hth_key_stream_copy(hth_key_stream *dst, const hth_key_stream *src);

/* The key of one token array. False when there is no memory. */
bool hth_key_of(const hth_keyspace *keyspace, const hearth_token *tokens, size_t n_tokens, hth_key *out);
/* The same for tokens as stored in a file: n_bytes / 4 tokens, u32 little-endian, at any alignment. */
bool hth_key_of_bytes(const hth_keyspace *keyspace, const uint8_t *token_bytes, size_t n_bytes, hth_key *out);

/* ---- quant types ---- */

#define HTH_QUANT_UNKNOWN 255

/* The byte for a quant type's lower-case name; HTH_QUANT_UNKNOWN for an unknown name. */
uint8_t hth_quant_byte(const char *name);
/*
 * The byte for the rows of a model of that type. Readers refuse HTH_QUANT_UNKNOWN, so f32 stands in for it;
 * fingerprints keep models apart.
 */
uint8_t hth_quant_byte_of_rows(const char *name);
/* The name for a byte 0..29; NULL for others, including 255. */
const char *hth_quant_name(uint8_t byte);

/* ---- effective fingerprint ---- */

typedef struct hth_folded_adapter {
    uint8_t sha256[32];
    double scale;
} hth_folded_adapter;

/*
 * Fold adapters into the fingerprint of a model. Without adapters the result is the fingerprint itself, otherwise
 * SHA-256(fingerprint || for each adapter: sha256 || scale as signed q32 little-endian). The adapters are ordered by
 * hash and then by scale as a number. HEARTH_MISUSE for a scale that is not finite or does not fit in 64 bits.
 */
hearth_status hth_effective_fingerprint(const uint8_t fingerprint[32], const hth_folded_adapter *adapters,
                                        size_t n_adapters, uint8_t out[32], hearth_error *err);

/*
 * Fold the salt of a tenant into a fingerprint: HMAC-SHA256 with the salt as key over "hearth-salt-v1" || fingerprint.
 * An empty salt (NULL or "") leaves the fingerprint as it is. out may be fingerprint, here and above.
 */
void hth_salted_fingerprint(const uint8_t fingerprint[32], const char *salt, uint8_t out[32]);

/* ---- tenancy ---- */

/* Set the fingerprint of a keyspace that belongs to no tenant. */
void hth_keyspace_set_fingerprint(hth_keyspace *keyspace, const uint8_t fingerprint[32]);
/* The same with the fingerprint of a model, and with adapters folded into it. */
void hth_keyspace_set_adapted(hth_keyspace *keyspace, const uint8_t fingerprint[32], const uint8_t adapted[32]);
/* Fold one more salt into the fingerprint of a keyspace, as above, and into its tenancy. */
void hth_keyspace_salt(hth_keyspace *keyspace, const char *salt);
/*
 * Does the tenancy belong to the fingerprint? If the fingerprint was set by other means, its owner is unknown:
 * explanations reveal nothing about others to this owner, and nothing about this owner to others.
 */
static inline bool hth_keyspace_has_tenancy(const hth_keyspace *keyspace)
{
    return memcmp(keyspace->tenancy.fingerprint, keyspace->fingerprint, sizeof(keyspace->fingerprint)) == 0;
}
/* Do both belong to one tenant of one model, perhaps with different adapters? */
static inline bool hth_keyspace_same_tenant(const hth_keyspace *a, const hth_keyspace *b)
{
    return memcmp(a->fingerprint, b->fingerprint, sizeof(a->fingerprint)) == 0 ||
           (hth_keyspace_has_tenancy(a) && hth_keyspace_has_tenancy(b) &&
            memcmp(a->tenancy.base, b->tenancy.base, sizeof(a->tenancy.base)) == 0 &&
            memcmp(a->tenancy.scope, b->tenancy.scope, sizeof(a->tenancy.scope)) == 0);
}

#endif
