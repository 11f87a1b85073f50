#include "history/history_entry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

static const uint8_t magic[8] = { 'H', 'T', 'H', 'H', 'I', 'S', 'T', '1' };

enum {
    AT_BYTES = 8,
    AT_N_TOKENS = 12,
    AT_FORM = 16,
    AT_SIGNED = 17,
    AT_SPACE = 18,
    AT_BELOW = AT_SPACE + HTH_HISTORY_SPACE_BYTES,
    AT_DIGEST = AT_BELOW + HTH_HISTORY_DIGEST_BYTES,
    AT_ZERO = AT_DIGEST + HTH_HISTORY_DIGEST_BYTES,
    AT_REPLY = 84,
    AT_TOKENS = 88,
    CRC_BYTES = 4,
    CHECKS_MAX = 4, /* per byte, on average */
};

static_assert(AT_ZERO + 1 == AT_REPLY, "the head has no gap");
static_assert(AT_REPLY + 4 == AT_TOKENS, "the tokens follow the head");

size_t hth_history_entry_bytes(size_t n_tokens, bool is_signed)
{
    return AT_TOKENS + 4 * n_tokens + (is_signed ? HTH_HMAC_BYTES : 0) + CRC_BYTES;
}

static bool sign(const uint8_t *bytes, size_t n_bytes, const hth_signing_key *key, uint8_t out[HTH_HMAC_BYTES])
{
    hth_hmac *mac = hth_hmac_new(key);

    if (!mac)
        return false;
    hth_hmac_update(mac, bytes, n_bytes);
    hth_hmac_final(mac, out);
    hth_hmac_free(mac);
    return true;
}

/* The form that reproduces the text of the record; HTH_HISTORY_FORMS: none. */
static unsigned form_of(const hth_history_record *record, const hth_history_end *before, hth_history_text_fn text_of,
                        void *user_data)
{
    const hth_history_span span = {
        .space = &record->space, .before = before, .tokens = record->tokens, .n_tokens = record->n_tokens
    };
    unsigned form = 0;

    for (; form < HTH_HISTORY_FORMS; form++) {
        size_t n_bytes = 0;
        char *text = text_of(&span, form, &n_bytes, user_data);
        bool is_same = text && n_bytes == record->n_bytes && memcmp(text, record->text, n_bytes) == 0;

        free(text);
        if (is_same)
            break;
    }
    return form;
}

bool hth_history_entry_write(const hth_history_record *record, const hth_history_end *before,
                             const hth_signing_key *key, hth_history_text_fn text_of, void *user_data, uint8_t *bytes)
{
    unsigned form = form_of(record, before, text_of, user_data);
    hth_history_digest digest;
    uint8_t *at = bytes + AT_TOKENS;

    if (form == HTH_HISTORY_FORMS || !hth_history_digest_of(record, &digest))
        return false;
    memcpy(bytes, magic, sizeof(magic));
    hth_put_u32(bytes + AT_BYTES, (uint32_t)hth_history_entry_bytes(record->n_tokens, key != NULL));
    hth_put_u32(bytes + AT_N_TOKENS, (uint32_t)record->n_tokens);
    bytes[AT_FORM] = (uint8_t)form;
    bytes[AT_SIGNED] = key != NULL;
    memcpy(bytes + AT_SPACE, record->space.bytes, HTH_HISTORY_SPACE_BYTES);
    memcpy(bytes + AT_BELOW, record->below.bytes, HTH_HISTORY_DIGEST_BYTES);
    memcpy(bytes + AT_DIGEST, digest.bytes, HTH_HISTORY_DIGEST_BYTES);
    bytes[AT_ZERO] = 0;
    hth_put_u32(bytes + AT_REPLY, record->n_reply_bytes <= UINT32_MAX ? (uint32_t)record->n_reply_bytes : 0);
    for (size_t i = 0; i < record->n_tokens; i++, at += 4)
        hth_put_u32(at, (uint32_t)record->tokens[i]);
    if (key) {
        if (!sign(bytes, (size_t)(at - bytes), key, at))
            return false;
        at += HTH_HMAC_BYTES;
    }
    hth_put_u32(at, hth_crc32c(0, bytes, (size_t)(at - bytes)));
    return true;
}

/* Are all bytes of the entry intact? */
static bool is_sound(const uint8_t *bytes, size_t n_bytes, const hth_signing_key *key)
{
    bool is_signed = bytes[AT_SIGNED] == 1;
    uint8_t expected[HTH_HMAC_BYTES];
    size_t n_signed;

    if (hth_crc32c(0, bytes, n_bytes - CRC_BYTES) != hth_get_u32(bytes + n_bytes - CRC_BYTES))
        return false;
    if (!key)
        return true;
    n_signed = n_bytes - CRC_BYTES - HTH_HMAC_BYTES;
    return is_signed && sign(bytes, n_signed, key, expected) && hth_hmac_equal(expected, bytes + n_signed);
}

/* The length of the entry that seems to begin here, according to its head; 0: none does. */
static size_t claimed_bytes(const uint8_t *bytes, size_t n_bytes)
{
    size_t n_entry, n_tokens;

    if (n_bytes < AT_TOKENS + CRC_BYTES || memcmp(bytes, magic, sizeof(magic)) != 0)
        return 0;
    n_entry = hth_get_u32(bytes + AT_BYTES);
    n_tokens = hth_get_u32(bytes + AT_N_TOKENS);
    if (n_entry > n_bytes || n_tokens == 0 || bytes[AT_SIGNED] > 1 || bytes[AT_FORM] >= HTH_HISTORY_FORMS ||
        bytes[AT_ZERO] != 0 || hth_history_entry_bytes(n_tokens, bytes[AT_SIGNED]) != n_entry)
        return 0;
    return n_entry;
}

/* Where the next entry may begin, after the first byte; n_bytes: nowhere. */
static size_t next_magic(const uint8_t *bytes, size_t n_bytes)
{
    const uint8_t *at = n_bytes > sizeof(magic) ? memmem(bytes + 1, n_bytes - 1, magic, sizeof(magic)) : NULL;

    return at ? (size_t)(at - bytes) : n_bytes;
}

/* False without memory. */
static bool read_entry(const uint8_t *bytes, hth_history_entry *out)
{
    size_t n_tokens = hth_get_u32(bytes + AT_N_TOKENS);
    hth_history_record *record = &out->record;

    *out = (hth_history_entry){ .form = bytes[AT_FORM], .tokens = malloc(n_tokens * sizeof(*out->tokens)) };
    if (!out->tokens)
        return false;
    for (size_t i = 0; i < n_tokens; i++)
        out->tokens[i] = (hearth_token)hth_get_u32(bytes + AT_TOKENS + 4 * i);
    memcpy(record->space.bytes, bytes + AT_SPACE, HTH_HISTORY_SPACE_BYTES);
    memcpy(record->below.bytes, bytes + AT_BELOW, HTH_HISTORY_DIGEST_BYTES);
    memcpy(out->digest.bytes, bytes + AT_DIGEST, HTH_HISTORY_DIGEST_BYTES);
    record->tokens = out->tokens;
    record->n_tokens = n_tokens;
    record->n_reply_bytes = hth_get_u32(bytes + AT_REPLY);
    return true;
}

bool hth_history_reader_next(hth_history_reader *r, hth_history_entry *out)
{
    while (r->at < r->n_bytes && !r->has_given_up) {
        const uint8_t *bytes = r->bytes + r->at;
        size_t n_left = r->n_bytes - r->at, n = claimed_bytes(bytes, n_left);

        /* Heads within heads could each ask for the checksum of all that follows. */
        r->has_given_up = r->n_checked + n > CHECKS_MAX * (uint64_t)r->n_bytes;
        if (r->has_given_up)
            break;
        r->n_checked += n;
        if (n > 0 && is_sound(bytes, n, r->key)) {
            r->at += n;
            if (read_entry(bytes, out))
                return true;
            r->has_no_memory = true;
        } else {
            r->at += next_magic(bytes, n_left);
        }
    }
    return false;
}
