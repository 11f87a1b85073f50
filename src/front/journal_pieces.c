#include "front/journal_pieces.h"

#include <string.h>

#include "base/bytes.h"
#include "base/hex.h"
#include "wire/frames.h"

enum { VERSION = 1, LENGTH_BYTES = 4 };

static void add_bytes(hth_buffer *out, const void *bytes, size_t n)
{
    uint8_t length[LENGTH_BYTES];

    if (n > UINT32_MAX) {
        out->failed = true;
        return;
    }
    hth_put_u32(length, (uint32_t)n);
    hth_buffer_add(out, (const char *)length, sizeof(length));
    if (n > 0)
        hth_buffer_add(out, bytes, n);
}

/* Take the next bytes with their length. False: they are not all there. */
static bool take_bytes(const uint8_t **at, size_t *left, const void **out, size_t *n_out)
{
    if (*left < LENGTH_BYTES)
        return false;
    *n_out = hth_get_u32(*at);
    *out = *at + LENGTH_BYTES;
    *left -= LENGTH_BYTES;
    if (*n_out > *left)
        return false;
    *at += LENGTH_BYTES + *n_out;
    *left -= *n_out;
    return true;
}

void hth_journaled_write(const hth_journaled *request, hth_buffer *out)
{
    char key[2 * HTH_JOURNALED_KEY_BYTES + 1];
    hth_buffer facts = { .text = NULL };

    hth_hex_encode(request->key, sizeof(request->key), key);
    hth_buffer_add_json_take(
        &facts,
        json_pack("{s:i, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:s, s:s, s:I, s:I, s:s, s:i, s:s}",
                  "version", VERSION, "format", HTH_REPLY_FORMAT, "model", request->model, "target", request->target,
                  "body_type", request->body_type, "id", request->id, "request_id", request->request_id, "traceparent",
                  request->traceparent, "salt", request->salt, "adapter", request->adapter, "names_adapter",
                  request->names_adapter, "digest", request->digest, "keyspace", request->keyspace, "seed",
                  (json_int_t)request->seed, "created", (json_int_t)request->created_s, "key", key, "status",
                  request->status, "content_type", request->content_type));
    add_bytes(out, hth_buffer_text(&facts), facts.n);
    out->failed |= facts.failed;
    hth_buffer_deinit(&facts);
    add_bytes(out, request->body, request->n_body);
    add_bytes(out, request->past, request->n_past);
    add_bytes(out, request->begun, request->n_begun);
}

static bool read_facts(json_t *facts, hth_journaled *out)
{
    int version = 0, format = 0, names_adapter = 0;
    json_int_t seed = 0, created = 0;
    const char *key = NULL;

    if (json_unpack(facts, "{s:i, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:s, s:s, s:I, s:I, s:s, s:i, s:s}",
                    "version", &version, "format", &format, "model", &out->model, "target", &out->target, "body_type",
                    &out->body_type, "id", &out->id, "request_id", &out->request_id, "traceparent", &out->traceparent,
                    "salt", &out->salt, "adapter", &out->adapter, "names_adapter", &names_adapter, "digest",
                    &out->digest, "keyspace", &out->keyspace, "seed", &seed, "created", &created, "key", &key, "status",
                    &out->status, "content_type", &out->content_type) != 0 ||
        version != VERSION || format != HTH_REPLY_FORMAT || strlen(key) != 2 * sizeof(out->key) ||
        !hth_hex_decode(key, out->key, sizeof(out->key)))
        return false;
    out->names_adapter = names_adapter != 0;
    out->seed = (uint64_t)seed;
    out->created_s = (uint64_t)created;
    return true;
}

bool hth_journaled_read(const void *bytes, size_t n, hth_journaled *out)
{
    const uint8_t *at = bytes;
    const void *facts = NULL;
    size_t n_facts = 0;
    bool ok;

    *out = (hth_journaled){ .status = 0 };
    ok = take_bytes(&at, &n, &facts, &n_facts) && take_bytes(&at, &n, &out->body, &out->n_body) &&
         take_bytes(&at, &n, &out->past, &out->n_past) && take_bytes(&at, &n, &out->begun, &out->n_begun) && n == 0;
    out->facts = ok ? json_loadb(facts, n_facts, 0, NULL) : NULL;
    if (out->facts && read_facts(out->facts, out))
        return true;
    hth_journaled_deinit(out);
    return false;
}

void hth_journaled_deinit(hth_journaled *request)
{
    json_decref(request->facts);
    *request = (hth_journaled){ .status = 0 };
}

void hth_piece_head(hth_piece_kind kind, size_t n, uint8_t out[HTH_PIECE_HEAD_BYTES])
{
    out[0] = (uint8_t)kind;
    hth_put_u32(out + 1, (uint32_t)n); /* the caller's are shorter */
}

/* Add frames to those that are known. False: they are no such frames. */
static bool take_tokens(hth_journal_rest *rest, size_t *last, const char *bytes, size_t n)
{
    while (n > 0) {
        hth_frame frame;
        size_t n_used = 0;

        if (hth_frame_read(bytes, n, &frame, &n_used) != HTH_FRAME_OK)
            return false;
        if (frame.kind == HTH_FRAME_STEP && frame.n_tokens > UINT32_MAX - rest->n_tokens)
            return false;
        rest->n_tokens += frame.kind == HTH_FRAME_STEP ? frame.n_tokens : 0;
        hth_frame_add_known(&rest->known, last, &frame);
        bytes += n_used;
        n -= n_used;
    }
    return true;
}

bool hth_journal_rest_read(const void *bytes, size_t n, hth_journal_rest *out)
{
    const uint8_t *at = bytes;
    size_t last = 0;
    bool ok = true;

    *out = (hth_journal_rest){ .n_tokens = 0 };
    while (n > 0 && ok) {
        const uint8_t kind = *at++;
        const void *part = NULL;
        size_t n_part = 0;

        n--;
        ok = take_bytes(&at, &n, &part, &n_part);
        if (!ok)
            break;
        switch (kind) {
        case HTH_PIECE_TOKENS: ok = take_tokens(out, &last, part, n_part); break;
        case HTH_PIECE_EVENTS: hth_buffer_add(&out->events, part, n_part); break;
        case HTH_PIECE_END: out->is_whole = true; break;
        default: ok = false; break;
        }
    }
    if (ok && !out->known.failed && !out->events.failed && out->known.n <= HTH_KNOWN_BYTES_MAX)
        return true;
    hth_journal_rest_deinit(out);
    return false;
}

void hth_journal_rest_deinit(hth_journal_rest *rest)
{
    hth_buffer_deinit(&rest->known);
    hth_buffer_deinit(&rest->events);
}
