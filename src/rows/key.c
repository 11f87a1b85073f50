/*
 * key.c - SHA-256 over a keyspace and its tokens
 *
 * The hashed bytes begin with the 65 bytes of the keyspace; each token adds four. On a little-endian machine the tokens
 * in memory already are these bytes and are hashed in place, so the keys of a prompt cost one pass over it.
 */
#include "rows/key.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

enum { HEAD_BYTES = 32 + 1 + 32 };

static_assert(sizeof(hearth_token) == 4, "a token is hashed as four bytes");

struct hth_key_stream {
    hth_sha256 *sha;
    uint8_t head[HEAD_BYTES];
};

static void write_head(const hth_keyspace *keyspace, uint8_t head[HEAD_BYTES])
{
    memcpy(head, keyspace->fingerprint, 32);
    head[32] = keyspace->quant_byte;
    memcpy(head + 33, keyspace->ctx_params_hash, 32);
}

hth_key_stream *hth_key_stream_new(const hth_keyspace *keyspace)
{
    hth_key_stream *stream = malloc(sizeof(*stream));

    if (!stream)
        return NULL;
    stream->sha = hth_sha256_new();
    if (!stream->sha) {
        hth_key_stream_free(stream);
        return NULL;
    }
    write_head(keyspace, stream->head);
    hth_key_stream_reset(stream);
    return stream;
}

void hth_key_stream_free(hth_key_stream *stream)
{
    if (!stream)
        return;
    hth_sha256_free(stream->sha);
    free(stream);
}

void hth_key_stream_reset(hth_key_stream *stream)
{
    hth_sha256_reset(stream->sha);
    hth_sha256_update(stream->sha, stream->head, HEAD_BYTES);
}

/* For big-endian machines; compiled everywhere, so that it stays correct. */
static void push_converted(hth_key_stream *stream, const hearth_token *tokens, size_t n_tokens)
{
    uint8_t bytes[4 * 256];

    while (n_tokens > 0) {
        size_t n = n_tokens < sizeof(bytes) / 4 ? n_tokens : sizeof(bytes) / 4;

        for (size_t i = 0; i < n; i++)
            hth_put_u32(bytes + 4 * i, (uint32_t)tokens[i]);
        hth_sha256_update(stream->sha, bytes, 4 * n);
        tokens += n;
        n_tokens -= n;
    }
}

void hth_key_stream_push(hth_key_stream *stream, const hearth_token *tokens, size_t n_tokens)
{
    if (n_tokens == 0)
        return;
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
        hth_sha256_update(stream->sha, tokens, n_tokens * sizeof(tokens[0]));
    else
        push_converted(stream, tokens, n_tokens);
}

void hth_key_stream_key(hth_key_stream *stream, hth_key *out)
{
    hth_sha256_peek(stream->sha, out->bytes);
}

void hth_key_stream_copy(hth_key_stream *dst, const hth_key_stream *src)
{
    assert(memcmp(dst->head, src->head, HEAD_BYTES) == 0);
    hth_sha256_copy(dst->sha, src->sha);
}

bool hth_key_of(const hth_keyspace *keyspace, const hearth_token *tokens, size_t n_tokens, hth_key *out)
{
    hth_key_stream *stream = hth_key_stream_new(keyspace);

    if (!stream)
        return false;
    hth_key_stream_push(stream, tokens, n_tokens);
    hth_key_stream_key(stream, out);
    hth_key_stream_free(stream);
    return true;
}

bool hth_key_of_bytes(const hth_keyspace *keyspace, const uint8_t *token_bytes, size_t n_bytes, hth_key *out)
{
    hth_key_stream *stream = hth_key_stream_new(keyspace);

    assert(n_bytes % 4 == 0);
    if (!stream)
        return false;
    if (n_bytes > 0)
        hth_sha256_update(stream->sha, token_bytes, n_bytes);
    hth_key_stream_key(stream, out);
    hth_key_stream_free(stream);
    return true;
}

/* ---- quant types ---- */

static const char *const quant_names[] = {
    "f32",    "f16",     "q4_0",   "q4_1",  "q5_0",   "q5_1",   "q8_0",   "q4_k_m",  "q4_k_s", "q5_k_m",
    "q5_k_s", "q6_k",    "q8_k",   "q2_k",  "q3_k_s", "q3_k_m", "q3_k_l", "iq2_xxs", "iq2_xs", "iq2_s",
    "iq2_m",  "iq3_xxs", "iq3_xs", "iq3_s", "iq3_m",  "iq1_s",  "iq1_m",  "iq4_nl",  "iq4_xs", "bf16",
};

enum { N_QUANT_NAMES = sizeof(quant_names) / sizeof(quant_names[0]), QUANT_UNKNOWN = 255 };

static_assert(N_QUANT_NAMES == 30, "the format numbers 30 quant types");

uint8_t hth_quant_byte(const char *name)
{
    for (size_t i = 0; i < N_QUANT_NAMES; i++)
        if (strcmp(name, quant_names[i]) == 0)
            return (uint8_t)i;
    return QUANT_UNKNOWN;
}

uint8_t hth_quant_byte_of_rows(const char *name)
{
    uint8_t byte = hth_quant_byte(name);

    return byte == QUANT_UNKNOWN ? hth_quant_byte("f32") : byte;
}

const char *hth_quant_name(uint8_t byte)
{
    return byte < N_QUANT_NAMES ? quant_names[byte] : NULL;
}

/* ---- effective fingerprint ---- */

typedef struct adapter {
    uint8_t sha256[32];
    int64_t scale_q32;
} adapter;

/* scale * 2^32, rounded to the nearest integer, halves away from zero; false if it does not fit in 64 bits. */
static bool scale_to_q32(double scale, int64_t *out)
{
    double scaled = scale * 4294967296.0; /* exact: a power of two */
    int64_t whole;
    double rest;

    if (!(scaled >= -0x1p63 && scaled < 0x1p63)) /* written so that NaN also fails */
        return false;
    whole = (int64_t)scaled;
    rest = scaled - (double)whole; /* exact, and 0 from 2^52 up, where doubles are integers */
    if (rest >= 0.5)
        whole++;
    else if (rest <= -0.5)
        whole--;
    *out = whole;
    return true;
}

/* Rounding keeps the order of scales; scales that become equal have equal bytes. */
static int compare_adapters(const void *a, const void *b)
{
    const adapter *left = a, *right = b;
    int order = memcmp(left->sha256, right->sha256, sizeof(left->sha256));

    if (order != 0)
        return order;
    return (left->scale_q32 > right->scale_q32) - (left->scale_q32 < right->scale_q32);
}

hearth_status hth_effective_fingerprint(const uint8_t fingerprint[32], const hth_folded_adapter *adapters,
                                        size_t n_adapters, uint8_t out[32], hearth_error *err)
{
    hearth_status status = HEARTH_OK;
    hth_sha256 *sha = NULL;
    adapter *sorted = NULL;

    if (n_adapters == 0) {
        memmove(out, fingerprint, 32);
        return HEARTH_OK;
    }

    sha = hth_sha256_new();
    sorted = calloc(n_adapters, sizeof(*sorted));
    if (!sha || !sorted) {
        status =
            hth_fail(err, HEARTH_NO_MEMORY, "no memory for the fingerprint of a model with %zu adapters", n_adapters);
        goto out;
    }
    for (size_t i = 0; i < n_adapters; i++) {
        memcpy(sorted[i].sha256, adapters[i].sha256, sizeof(sorted[i].sha256));
        if (!scale_to_q32(adapters[i].scale, &sorted[i].scale_q32)) {
            status = hth_fail(err, HEARTH_MISUSE,
                              "adapter %zu has the scale %g; it must be a finite number below 2^31 in magnitude", i,
                              adapters[i].scale);
            goto out;
        }
    }
    qsort(sorted, n_adapters, sizeof(*sorted), compare_adapters);

    hth_sha256_update(sha, fingerprint, 32);
    for (size_t i = 0; i < n_adapters; i++) {
        uint8_t scale[8];

        hth_put_u64(scale, (uint64_t)sorted[i].scale_q32);
        hth_sha256_update(sha, sorted[i].sha256, sizeof(sorted[i].sha256));
        hth_sha256_update(sha, scale, sizeof(scale));
    }
    hth_sha256_peek(sha, out);
out:
    free(sorted);
    hth_sha256_free(sha);
    return status;
}

/* HMAC as in RFC 2104, over a message of one known size. */
void hth_salted_fingerprint(const uint8_t fingerprint[32], const char *salt, uint8_t out[32])
{
    static const char domain[] = "hearth-salt-v1";
    enum { SHA256_BLOCK_BYTES = 64, DOMAIN_BYTES = sizeof(domain) - 1 };
    uint8_t inner[SHA256_BLOCK_BYTES + DOMAIN_BYTES + 32];
    uint8_t outer[SHA256_BLOCK_BYTES + HTH_SHA256_BYTES];
    uint8_t key[SHA256_BLOCK_BYTES] = { 0 };
    size_t n_salt = salt ? strlen(salt) : 0;

    if (n_salt == 0) {
        memmove(out, fingerprint, 32);
        return;
    }
    if (n_salt > SHA256_BLOCK_BYTES)
        hth_sha256_of(salt, n_salt, key);
    else
        for (size_t i = 0; i < n_salt; i++)
            key[i] = (uint8_t)salt[i];

    for (size_t i = 0; i < SHA256_BLOCK_BYTES; i++) {
        inner[i] = key[i] ^ 0x36;
        outer[i] = key[i] ^ 0x5C;
    }
    memcpy(inner + SHA256_BLOCK_BYTES, domain, DOMAIN_BYTES);
    memcpy(inner + SHA256_BLOCK_BYTES + DOMAIN_BYTES, fingerprint, 32);
    hth_sha256_of(inner, sizeof(inner), outer + SHA256_BLOCK_BYTES);
    hth_sha256_of(outer, sizeof(outer), out);
}

void hth_keyspace_set_fingerprint(hth_keyspace *keyspace, const uint8_t fingerprint[32])
{
    memmove(keyspace->fingerprint, fingerprint, sizeof(keyspace->fingerprint));
    memcpy(keyspace->tenancy.fingerprint, keyspace->fingerprint, sizeof(keyspace->tenancy.fingerprint));
    memcpy(keyspace->tenancy.base, keyspace->fingerprint, sizeof(keyspace->tenancy.base));
    memset(keyspace->tenancy.scope, 0, sizeof(keyspace->tenancy.scope));
}

void hth_keyspace_set_adapted(hth_keyspace *keyspace, const uint8_t fingerprint[32], const uint8_t adapted[32])
{
    hth_keyspace_set_fingerprint(keyspace, adapted);
    memcpy(keyspace->tenancy.base, fingerprint, sizeof(keyspace->tenancy.base));
}

void hth_keyspace_salt(hth_keyspace *keyspace, const char *salt)
{
    bool is_known = hth_keyspace_has_tenancy(keyspace);

    hth_salted_fingerprint(keyspace->fingerprint, salt, keyspace->fingerprint);
    if (!is_known)
        return;
    hth_salted_fingerprint(keyspace->tenancy.scope, salt, keyspace->tenancy.scope);
    memcpy(keyspace->tenancy.fingerprint, keyspace->fingerprint, sizeof(keyspace->tenancy.fingerprint));
}
