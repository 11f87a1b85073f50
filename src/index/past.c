/*
 * past.c - the records, and three bounded maps of them under a lock
 */
#include "index/past.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "base/os.h"

static_assert(sizeof(hth_beginning_space) == 3 * HTH_PAST_DIGEST_BYTES + HTH_KEY_BYTES + 2,
              "it is kept as it is, so it must be bytes without gaps");
static_assert(sizeof(hth_beginning_name) == (size_t)2 * HTH_PAST_DIGEST_BYTES, "likewise");
static_assert(HTH_BLOCK_TOKENS <= 256, "an end inside a block is kept in a byte");

/* ---- records ---- */

void hth_past_name_of(const hth_row_id *id, hth_past_name *out)
{
    memcpy(out->bytes, id->key.bytes, HTH_PAST_DIGEST_BYTES);
    out->bytes[HTH_PAST_DIGEST_BYTES] = (uint8_t)id->kind;
}

bool hth_gone_is_later(const hth_gone *a, const hth_gone *b)
{
    return a->time > b->time || (a->time == b->time && a->reason > b->reason);
}

uint8_t hth_past_end_of(const hth_row_meta *meta)
{
    if (meta->id.kind != HTH_ROW_TAIL && meta->id.kind != HTH_ROW_STATE)
        return 0;
    return (uint8_t)(((uint64_t)meta->first_position + meta->n_tokens) % HTH_BLOCK_TOKENS);
}

bool hth_past_ends_add(hth_past_ends *ends, uint8_t end)
{
    size_t i = 0;

    while (i + 1 < HTH_PAST_ENDS && ends->ends[i] != end)
        i++;
    if (i == 0 && ends->ends[0] == end)
        return false;
    memmove(ends->ends + 1, ends->ends, i);
    ends->ends[0] = end;
    return true;
}

void hth_beginning_name_of(const hth_keyspace *keyspace, const hearth_token *tokens, size_t n_tokens,
                           hth_beginning_name *out)
{
    uint8_t bytes[4 * HTH_BLOCK_TOKENS], digest[HTH_SHA256_BYTES];
    size_t n = n_tokens < HTH_BLOCK_TOKENS ? n_tokens : HTH_BLOCK_TOKENS;

    for (size_t i = 0; i < n; i++)
        hth_put_u32(bytes + 4 * i, (uint32_t)tokens[i]);
    hth_sha256_of(bytes, 4 * n, digest);
    memcpy(out->scope, keyspace->tenancy.scope, sizeof(out->scope));
    memcpy(out->digest, digest, sizeof(out->digest));
}

void hth_beginning_space_of(const hth_keyspace *keyspace, const hth_row_id *id, hth_beginning_space *out)
{
    memcpy(out->base, keyspace->tenancy.base, sizeof(out->base));
    memcpy(out->fingerprint, keyspace->fingerprint, sizeof(out->fingerprint));
    memcpy(out->parameters, keyspace->ctx_params_hash, sizeof(out->parameters));
    out->parameters[0] ^= keyspace->quant_byte;
    memcpy(out->key, id->key.bytes, sizeof(out->key));
    out->kind = (uint8_t)id->kind;
    out->is_used = 1;
}

bool hth_beginning_space_is_same(const hth_beginning_space *a, const hth_beginning_space *b)
{
    return memcmp(a->fingerprint, b->fingerprint, sizeof(a->fingerprint)) == 0 &&
           memcmp(a->parameters, b->parameters, sizeof(a->parameters)) == 0;
}

bool hth_beginning_add(hth_beginning *beginning, const hth_beginning_space *space)
{
    hth_beginning_space *spaces = beginning->spaces;
    size_t i = 0;

    if (memcmp(&spaces[0], space, sizeof(*space)) == 0)
        return false;
    while (i + 1 < HTH_PAST_SPACES && spaces[i].is_used && !hth_beginning_space_is_same(&spaces[i], space))
        i++;
    memmove(spaces + 1, spaces, i * sizeof(*spaces));
    spaces[0] = *space;
    return true;
}

/* ---- the memory of a process ---- */

void hth_past_init(hth_past *past)
{
    pthread_mutex_init(&past->lock, NULL);
    past->gone = hth_fifo_map_new(sizeof(hth_past_name), sizeof(hth_gone), HTH_PAST_GONE_MAX);
    past->ends = hth_fifo_map_new(HTH_PAST_DIGEST_BYTES, sizeof(hth_past_ends), HTH_PAST_ENDS_MAX);
    past->beginnings = hth_fifo_map_new(sizeof(hth_beginning_name), sizeof(hth_beginning), HTH_PAST_BEGINNINGS_MAX);
}

void hth_past_deinit(hth_past *past)
{
    hth_fifo_map_free(past->gone);
    hth_fifo_map_free(past->ends);
    hth_fifo_map_free(past->beginnings);
    pthread_mutex_destroy(&past->lock);
}

static void note_end_locked(hth_past *past, const hth_row_meta *meta)
{
    uint8_t end = hth_past_end_of(meta);
    hth_past_ends ends = { { 0 } };

    if (end == 0 || !past->ends)
        return;
    (void)hth_fifo_map_get(past->ends, meta->parent.bytes, &ends); /* absent: zeros */
    if (hth_past_ends_add(&ends, end))
        hth_fifo_map_put(past->ends, meta->parent.bytes, &ends);
}

void hth_past_note_gone(hth_past *past, const hth_row_meta *meta, hth_gone_reason reason, const hth_row_id *successor)
{
    hth_gone gone = { .reason = reason, .time = hth_os_unix_seconds() };
    hth_past_name name;

    hth_past_name_of(&meta->id, &name);
    if (successor)
        hth_past_name_of(successor, &gone.successor);
    pthread_mutex_lock(&past->lock);
    if (past->gone) {
        hth_fifo_map_put(past->gone, &name, &gone);
        note_end_locked(past, meta);
    }
    pthread_mutex_unlock(&past->lock);
}

void hth_past_forget_gone(hth_past *past, const hth_row_id *id)
{
    hth_past_name name;

    hth_past_name_of(id, &name);
    pthread_mutex_lock(&past->lock);
    if (past->gone)
        hth_fifo_map_forget(past->gone, &name);
    pthread_mutex_unlock(&past->lock);
}

static bool get(hth_past *past, const hth_fifo_map *map, const void *key, void *out)
{
    bool found;

    pthread_mutex_lock(&past->lock);
    found = map && hth_fifo_map_get(map, key, out);
    pthread_mutex_unlock(&past->lock);
    return found;
}

bool hth_past_gone(hth_past *past, const hth_past_name *name, hth_gone *out)
{
    return get(past, past->gone, name, out);
}

bool hth_past_ends_get(hth_past *past, const hth_key *boundary, hth_past_ends *out)
{
    return get(past, past->ends, boundary->bytes, out);
}

void hth_past_note_beginning(hth_past *past, const hth_beginning_name *name, const hth_beginning_space *space)
{
    hth_beginning beginning = { .spaces = { { .is_used = 0 } } };

    pthread_mutex_lock(&past->lock);
    if (past->beginnings) {
        (void)hth_fifo_map_get(past->beginnings, name, &beginning); /* absent: zeros */
        if (hth_beginning_add(&beginning, space))
            hth_fifo_map_put(past->beginnings, name, &beginning);
    }
    pthread_mutex_unlock(&past->lock);
}

bool hth_past_beginning(hth_past *past, const hth_beginning_name *name, hth_beginning *out)
{
    return get(past, past->beginnings, name, out);
}

typedef struct visitor {
    hth_beginning_visit_fn visit;
    void *user_data;
} visitor;

static bool pass_on(const void *key, const void *value, void *user_data)
{
    const visitor *v = user_data;

    return v->visit(key, value, v->user_data); /* both are bytes, at any address */
}

void hth_past_visit_beginnings(hth_past *past, hth_beginning_visit_fn visit, void *user_data)
{
    visitor v = { .visit = visit, .user_data = user_data };

    pthread_mutex_lock(&past->lock);
    if (past->beginnings)
        hth_fifo_map_visit(past->beginnings, pass_on, &v);
    pthread_mutex_unlock(&past->lock);
}
