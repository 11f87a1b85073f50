/*
 * row_protocol_fuzz.c - any bytes as what the carrier of another node says: requests, manifests, heads of rows
 *
 * The bytes are parts one after another; the magic of a part tells its kind. In place of a file, the head of a row is
 * followed by what the file would say of itself, so that the choice of the rows that are taken is tried, too. A byte
 * before all of it tells at which block the request begins.
 *
 * What is held: nothing outside a part is read (a sanitizer sees it); a part that was read is within its bounds, and
 * is the same when it is written again, which no other bytes are; and a row that is taken was asked for, stands on one
 * that was, or ends where a row does that was taken.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "carrier/row_protocol.h"
#include "carrier/wanted.h"
#include "rows/row_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

enum { MAGIC_BYTES = 4, ROW_SAYS_BYTES = HTH_KEY_BYTES + 8 };

typedef struct conversation {
    const uint8_t *bytes;
    size_t n_bytes, at;
    uint32_t begin;
    hth_row_wish *wishes; /* [wanted.n] of the last request */
    hth_wanted wanted;
} conversation;

/* The next n bytes, in memory that ends with them; the caller frees it. NULL: there are fewer. */
static uint8_t *take(conversation *c, size_t n)
{
    uint8_t *copy = c->n_bytes - c->at >= n ? malloc(n) : NULL;

    if (copy) {
        memcpy(copy, c->bytes + c->at, n);
        c->at += n;
    }
    return copy;
}

static bool begins_with(const conversation *c, const char *magic)
{
    return c->n_bytes - c->at >= MAGIC_BYTES && memcmp(c->bytes + c->at, magic, MAGIC_BYTES) == 0;
}

/* ---- the parts; false: the conversation is over ---- */

static bool hear_wish(conversation *c, hth_row_wish *out)
{
    uint8_t *bytes = take(c, HTH_ROW_WISH_BYTES), again[HTH_ROW_WISH_BYTES];
    const bool is_read = bytes && hth_row_wish_read(bytes, out);

    if (is_read) {
        hth_row_wish_write(out, again);
        assert(memcmp(again, bytes, sizeof(again)) == 0);
    }
    free(bytes);
    return is_read;
}

static bool hear_request(conversation *c)
{
    uint8_t *bytes = take(c, HTH_ROW_REQUEST_BYTES), again[HTH_ROW_REQUEST_BYTES];
    uint32_t n = 0, n_read = 0;
    const bool is_read = bytes && hth_row_request_read(bytes, &n);

    if (is_read) {
        assert(n > 0 && n <= HTH_CARRIER_KEYS_MAX);
        hth_row_request_write(n, again);
        assert(memcmp(again, bytes, sizeof(again)) == 0);
    }
    free(bytes);
    free(c->wishes);
    c->wishes = is_read ? calloc(n, sizeof(*c->wishes)) : NULL;
    while (c->wishes && n_read < n && hear_wish(c, &c->wishes[n_read]))
        n_read++;
    c->wanted = (hth_wanted){ .wishes = c->wishes, .n = n_read, .begin = c->begin };
    return n_read > 0 && n_read == n;
}

static bool hear_manifest(conversation *c)
{
    uint8_t *bytes = take(c, HTH_ROW_MANIFEST_BYTES), again[HTH_ROW_MANIFEST_BYTES];
    hth_row_manifest manifest;
    const bool is_read = bytes && hth_row_manifest_read(bytes, &manifest);

    if (is_read) {
        assert(manifest.n_rows <= HTH_ROW_OFFER_MAX && manifest.n_keys <= HTH_CARRIER_KEYS_MAX);
        assert(manifest.n_bytes <= HTH_ROW_MANIFEST_ROWS_BYTES_MAX);
        hth_row_manifest_write(&manifest, again);
        assert(memcmp(again, bytes, sizeof(again)) == 0);
    }
    free(bytes);
    return is_read;
}

static bool is_wished(const conversation *c, const hth_key *key)
{
    for (uint32_t i = 0; i < c->wanted.n; i++)
        if (hth_key_equal(&c->wishes[i].key, key))
            return true;
    return false;
}

static void offer_row(conversation *c, const hth_row_meta *meta)
{
    const uint64_t end = (uint64_t)meta->first_position + meta->n_tokens,
                   end_max = c->begin + (uint64_t)(c->wanted.n + 1) * HTH_BLOCK_TOKENS;
    const uint32_t n_before = c->wanted.n_ends;
    bool is_end = false;

    for (uint32_t i = 0; i < n_before; i++)
        is_end = is_end || hth_key_equal(&c->wanted.ends[i].id.key, &meta->id.key);
    if (!hth_wanted_take(&c->wanted, meta)) {
        assert(c->wanted.n_ends == n_before);
        return;
    }
    assert(c->wanted.n > 0);
    assert(end > c->begin && end <= end_max);
    assert(meta->n_tokens <= HTH_BLOCK_TOKENS);
    assert(is_wished(c, &meta->id.key) || is_wished(c, &meta->parent) || is_end);
    assert(c->wanted.n_ends <= HTH_WANTED_ENDS_MAX && c->wanted.n_ends - n_before <= 1);
}

static bool hear_row(conversation *c)
{
    uint8_t *bytes = take(c, HTH_ROW_HEAD_BYTES), again[HTH_ROW_HEAD_BYTES], *says;
    hth_row_frame frame = { .is_end = true };
    const bool is_read = bytes && hth_row_frame_read(bytes, &frame);
    hth_row_meta meta;

    if (is_read) {
        assert(frame.is_end || (frame.n_bytes >= HTH_ROW_FILE_BYTES_MIN && frame.n_bytes <= HTH_FETCHED_ROW_BYTES_MAX));
        hth_row_frame_write(&frame, again);
        assert(memcmp(again, bytes, sizeof(again)) == 0);
    }
    free(bytes);
    if (!is_read || frame.is_end)
        return is_read;
    says = take(c, ROW_SAYS_BYTES);
    if (!says)
        return false;
    meta = (hth_row_meta){ .id = frame.id,
                           .bytes = frame.n_bytes,
                           .first_position = hth_get_u32(says + HTH_KEY_BYTES),
                           .n_tokens = hth_get_u32(says + HTH_KEY_BYTES + 4) };
    memcpy(meta.parent.bytes, says, HTH_KEY_BYTES);
    free(says);
    offer_row(c, &meta);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    conversation c = { .bytes = bytes, .n_bytes = n_bytes, .at = 1 };
    bool goes_on = n_bytes > 0;

    if (goes_on)
        c.begin = bytes[0] * (uint32_t)HTH_BLOCK_TOKENS;
    while (goes_on) {
        if (begins_with(&c, "HRQ1"))
            goes_on = hear_request(&c);
        else if (begins_with(&c, "HRM1"))
            goes_on = hear_manifest(&c);
        else
            goes_on = hear_row(&c);
    }
    free(c.wishes);
    return 0;
}
