/*
 * sequence.c - tokens, cells and keys of one sequence
 */
#include "sched/sequence.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sched/sequence_inside.h"

void hth_sequence_close(hth_sequence *sequence)
{
    if (!sequence)
        return;
    hth_key_stream_free(sequence->stream);
    free(sequence->boundary_keys);
    free(sequence->tokens);
    free(sequence->cells);
    free(sequence->end_logits);
    free(sequence->text);
    free(sequence);
}

hearth_status hth_sequence_open(const hth_workplace *workplace, hth_books *books, uint32_t id, hth_sequence **out,
                                hearth_error *err)
{
    hth_sequence *sequence = calloc(1, sizeof(*sequence));

    assert(id != books->scratch);
    if (sequence) {
        sequence->place = workplace;
        sequence->books = books;
        sequence->keyspace = workplace->keyspace;
        sequence->id = id;
        /* As long as the context: untouched memory costs nothing. */
        sequence->tokens = calloc(workplace->n_ctx, sizeof(*sequence->tokens));
        sequence->cells = calloc(workplace->n_ctx, sizeof(*sequence->cells));
        sequence->boundary_keys = calloc(workplace->n_ctx / HTH_BLOCK_TOKENS + 1, sizeof(*sequence->boundary_keys));
        sequence->stream = hth_key_stream_new(&workplace->keyspace);
    }
    if (!sequence || !sequence->tokens || !sequence->cells || !sequence->boundary_keys || !sequence->stream) {
        hth_sequence_close(sequence);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a sequence of %u tokens", workplace->n_ctx);
    }
    hth_key_stream_key(sequence->stream, &sequence->boundary_keys[0]);
    sequence->end_key = sequence->boundary_keys[0];
    *out = sequence;
    return HEARTH_OK;
}

uint32_t hth_sequence_n_tokens(const hth_sequence *sequence)
{
    return sequence->n_tokens;
}

hearth_token hth_sequence_token(const hth_sequence *sequence, uint32_t i)
{
    return sequence->tokens[i];
}

uint32_t hth_sequence_id(const hth_sequence *sequence)
{
    return sequence->id;
}

uint32_t hth_sequence_common(const hth_sequence *sequence, const hearth_token *tokens, size_t n_tokens)
{
    return hth_tokens_common(sequence->tokens, tokens,
                             n_tokens < sequence->n_tokens ? (uint32_t)n_tokens : sequence->n_tokens);
}

bool hth_sequence_has_blocks(const hth_sequence *sequence)
{
    return sequence->place->kind != HTH_MODEL_RECURRENT;
}

bool hth_sequence_has_states(const hth_sequence *sequence)
{
    return sequence->place->kind == HTH_MODEL_RECURRENT || sequence->place->kind == HTH_MODEL_HYBRID;
}

bool hth_sequence_can_be_shortened(const hth_sequence *sequence)
{
    return sequence->place->kind == HTH_MODEL_PLAIN;
}

bool hth_sequence_is_cached(const hth_sequence *sequence)
{
    return sequence->place->cache && sequence->place->kind != HTH_MODEL_UNCACHED;
}

/* ---- cells ---- */

static void empty_engine(hth_sequence *sequence, uint32_t id)
{
    bool removed = sequence->place->backend->seq_remove(sequence->place->context, id, 0, UINT32_MAX);

    assert(removed);
    (void)removed; /* read by the assertion only */
}

void hth_sequence_empty_scratch(hth_sequence *sequence)
{
    empty_engine(sequence, sequence->books->scratch);
}

/* Note in the books that only the first n_tokens are left. */
static void note_shortened(hth_sequence *sequence, uint32_t n_tokens)
{
    hth_cells_drop(sequence->books->cells, sequence->cells + n_tokens, sequence->n_tokens - n_tokens,
                   sequence->is_held);
    sequence->n_tokens = n_tokens;
    if (sequence->end_logits_at > n_tokens)
        sequence->end_logits_at = 0; /* other tokens may follow */
}

static void empty(hth_sequence *sequence)
{
    empty_engine(sequence, sequence->id);
    note_shortened(sequence, 0);
}

uint32_t hth_sequence_count_shared(const hth_sequence *sequence, uint32_t n_tokens)
{
    assert(n_tokens <= sequence->n_tokens);
    return hth_cells_count_held_twice(sequence->books->cells, sequence->cells + n_tokens,
                                      sequence->n_tokens - n_tokens);
}

uint32_t hth_sequence_shorten(hth_sequence *sequence, uint32_t n_tokens)
{
    if (n_tokens >= sequence->n_tokens && n_tokens > 0)
        return sequence->n_tokens;
    if (n_tokens > 0 && hth_sequence_can_be_shortened(sequence) &&
        sequence->place->backend->seq_remove(sequence->place->context, sequence->id, n_tokens, UINT32_MAX))
        note_shortened(sequence, n_tokens);
    else
        empty(sequence); /* also with no tokens, because parts of a restore may be there */
    return sequence->n_tokens;
}

void hth_sequence_set_held(hth_sequence *sequence, bool held)
{
    if (sequence->is_held == held)
        return;
    hth_cells_set_held(sequence->books->cells, sequence->cells, sequence->n_tokens, held);
    sequence->is_held = held;
}

uint32_t hth_sequence_count_held(const hth_sequence *sequence, uint32_t n_tokens)
{
    return hth_cells_count_held(sequence->books->cells, sequence->cells, n_tokens);
}

void hth_sequence_note_tokens(hth_sequence *sequence, const hearth_token *tokens, uint32_t end)
{
    uint32_t begin = sequence->n_tokens;

    memcpy(sequence->tokens + begin, tokens, (end - begin) * sizeof(*tokens));
    hth_cells_take(sequence->books->cells, sequence->cells + begin, end - begin, sequence->is_held);
    sequence->n_tokens = end;
}

bool hth_sequence_share(hth_sequence *sequence, const hth_sequence *from, uint32_t n_tokens)
{
    const hth_workplace *place = sequence->place;

    assert(n_tokens <= from->n_tokens);
    assert(hth_sequence_has_fingerprint(from, sequence->keyspace.fingerprint));
    (void)hth_sequence_shorten(sequence, 0);
    if (!hth_sequence_can_be_shortened(sequence) || n_tokens == 0 ||
        place->backend->seq_copy(place->context, from->id, sequence->id, 0, n_tokens, NULL) != HEARTH_OK) {
        empty(sequence);
        return false;
    }
    memcpy(sequence->tokens, from->tokens, n_tokens * sizeof(*from->tokens));
    memcpy(sequence->cells, from->cells, n_tokens * sizeof(*from->cells));
    hth_cells_share(sequence->books->cells, sequence->cells, n_tokens, sequence->is_held);
    sequence->n_tokens = n_tokens;
    if (from->end_logits_at == n_tokens)
        hth_sequence_keep_logits(sequence, from->end_logits);
    return true;
}

void hth_sequence_keep_logits(hth_sequence *sequence, const float *logits)
{
    size_t n_bytes = sequence->place->n_vocab * sizeof(float);

    if (!sequence->end_logits)
        sequence->end_logits = malloc(n_bytes);
    sequence->end_logits_at = sequence->end_logits ? sequence->n_tokens : 0;
    if (sequence->end_logits)
        memcpy(sequence->end_logits, logits, n_bytes);
}

const float *hth_sequence_end_logits(const hth_sequence *sequence)
{
    return sequence->n_tokens > 0 && sequence->end_logits_at == sequence->n_tokens ? sequence->end_logits : NULL;
}

/* ---- evaluation ---- */

void hth_sequence_fill_rows(const hth_sequence *sequence, const hearth_token *tokens, uint32_t n, bool wants_logits,
                            hth_batch_row *rows)
{
    for (uint32_t i = 0; i < n; i++)
        rows[i] = (hth_batch_row){
            .token = tokens[i],
            .position = sequence->n_tokens + i,
            .sequence = sequence->id,
            .wants_logits = wants_logits && i == n - 1,
        };
}

void hth_sequence_extend(hth_sequence *sequence, const hearth_token *tokens, uint32_t n)
{
    assert(n <= sequence->place->n_ctx - sequence->n_tokens);
    sequence->end_logits_at = 0;
    hth_sequence_note_tokens(sequence, tokens, sequence->n_tokens + n);
}

void hth_sequence_roll_back(hth_sequence *sequence)
{
    const hth_workplace *place = sequence->place;

    /* Remove the cells that the failed evaluation may have left, or all cells if that is not possible. */
    if (!(sequence->n_tokens > 0 && hth_sequence_can_be_shortened(sequence) &&
          place->backend->seq_remove(place->context, sequence->id, sequence->n_tokens, UINT32_MAX)))
        empty(sequence);
}

/* ---- keys ---- */

bool hth_sequence_has_fingerprint(const hth_sequence *sequence, const uint8_t fingerprint[32])
{
    return memcmp(sequence->keyspace.fingerprint, fingerprint, sizeof(sequence->keyspace.fingerprint)) == 0;
}

const hth_keyspace *hth_sequence_keyspace(const hth_sequence *sequence)
{
    return &sequence->keyspace;
}

hearth_status hth_sequence_set_keyspace(hth_sequence *sequence, const hth_keyspace *keyspace, hearth_error *err)
{
    hth_key_stream *stream;

    if (hth_sequence_has_fingerprint(sequence, keyspace->fingerprint))
        return HEARTH_OK;
    stream = hth_key_stream_new(keyspace);
    if (!stream)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the keys of a prompt");
    hth_key_stream_free(sequence->stream);
    sequence->stream = stream;
    sequence->keyspace = *keyspace;
    empty(sequence); /* another tenant's cells */
    sequence->end_logits_at = 0;
    hth_key_stream_key(stream, &sequence->boundary_keys[0]);
    sequence->end_key = sequence->boundary_keys[0];
    sequence->n_keyed = 0;
    sequence->n_stale = 0;
    sequence->has_tail = false;
    sequence->has_longer = false;
    return HEARTH_OK;
}

/* Note the whole tail that the prompt continues, which its own rows will supersede; and a longer row with its end. */
static void note_found_tail(hth_sequence *sequence, const hth_lookup *lookup)
{
    const hth_lookup_row *last = lookup->n_rows > 0 ? &lookup->rows[lookup->n_rows - 1] : NULL;

    sequence->has_tail = lookup->has_tail;
    sequence->tail = lookup->tail.id;
    sequence->tail_begin = lookup->tail.first_position;
    sequence->has_longer = last && last->n_use > 0 && last->n_use < last->meta.n_tokens;
    if (sequence->has_longer) {
        sequence->longer = last->meta.id;
        sequence->longer_begin = last->meta.first_position;
    }
}

hearth_status hth_sequence_lookup(hth_sequence *sequence, const hearth_token *prompt, size_t n_prompt, size_t n_limit,
                                  bool read_cache, hth_lookup *lookup, hearth_error *err)
{
    hth_prompt_place place = hth_workplace_prompt_place(sequence->place);
    hth_lookup_options options = hth_prompt_lookup_options(&place, n_limit, read_cache);
    hearth_status status;

    assert(n_prompt <= sequence->place->n_ctx);
    status = hth_lookup_init(lookup, sequence->place->cache, &sequence->keyspace, sequence->stream, &options, prompt,
                             n_prompt, err);
    if (status != HEARTH_OK)
        return status;
    memcpy(sequence->boundary_keys, lookup->boundary_keys,
           (n_prompt / HTH_BLOCK_TOKENS + 1) * sizeof(*sequence->boundary_keys));
    sequence->n_keyed = (uint32_t)n_prompt;
    sequence->end_key = lookup->prompt_key;
    memcpy(sequence->stale, lookup->stale, lookup->n_stale * sizeof(sequence->stale[0]));
    sequence->n_stale = lookup->n_stale;
    note_found_tail(sequence, lookup);
    return HEARTH_OK;
}

void hth_sequence_catch_up_keys(hth_sequence *sequence)
{
    while (sequence->n_keyed < sequence->n_tokens) {
        uint32_t boundary = (sequence->n_keyed / HTH_BLOCK_TOKENS + 1) * HTH_BLOCK_TOKENS;
        uint32_t end = boundary < sequence->n_tokens ? boundary : sequence->n_tokens;

        hth_key_stream_push(sequence->stream, sequence->tokens + sequence->n_keyed, end - sequence->n_keyed);
        hth_key_stream_key(sequence->stream, &sequence->end_key);
        sequence->n_keyed = end;
        if (end == boundary)
            sequence->boundary_keys[end / HTH_BLOCK_TOKENS] = sequence->end_key;
    }
}

void hth_sequence_key(hth_sequence *sequence, hth_key *out)
{
    hth_sequence_catch_up_keys(sequence);
    if (sequence->n_tokens == sequence->n_keyed)
        *out = sequence->end_key;
    else if (sequence->n_tokens % HTH_BLOCK_TOKENS == 0)
        *out = sequence->boundary_keys[sequence->n_tokens / HTH_BLOCK_TOKENS];
    else if (!hth_key_of(&sequence->keyspace, sequence->tokens, sequence->n_tokens, out))
        *out = (hth_key){ { 0 } }; /* no memory: a key that names nothing */
}
