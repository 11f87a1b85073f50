/*
 * sequence_save.c - save parts of a sequence as rows
 *
 * To save cells, their range is copied to the scratch sequence, packed into a slab of the cache, and the scratch
 * sequence is emptied. An image contains the id of its sequence. All cells go through the same scratch sequence, so
 * equal cells give equal bytes.
 *
 * A block must be saved right after the evaluation that ends it; hth_sequence_save_block is called then.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "sched/sequence_inside.h"

static void stop_saving(hth_sequence *sequence, const char *reason)
{
    if (sequence->books->cannot_save)
        return;
    sequence->books->cannot_save = true;
    hth_warn(sequence->place->log, "nothing more of this model is cached: %s", reason);
}

/* Pack a part of the state of sequence id into a row. */
static bool pack(hth_sequence *sequence, uint32_t id, hth_state_part part, hth_save *save)
{
    const hth_workplace *place = sequence->place;
    hearth_error err = { .message = "" };
    hth_slab *slab;
    size_t n_bytes = 0;

    save->image_bytes = place->backend->state_size(place->context, id, part);
    if (save->image_bytes == 0) {
        stop_saving(sequence, "the engine gives no state");
        return false;
    }
    slab = hth_cache_save_begin(place->cache, save);
    if (!slab)
        return false; /* no room; the cache counts it */
    if (place->backend->state_get(place->context, id, part, hth_slab_image(slab), save->image_bytes, &n_bytes, &err) !=
        HEARTH_OK) {
        stop_saving(sequence, err.message);
    } else if (n_bytes != save->image_bytes) {
        stop_saving(sequence, "the engine's state is not as long as it said");
    } else {
        hth_cache_save_commit(place->cache, slab);
        return true;
    }
    hth_cache_save_abort(place->cache, slab);
    return false;
}

/* The text of a row's tokens, as much as fits. NULL if rows keep no text, which is usual, or without memory. */
static const char *text_of(hth_sequence *sequence, const hearth_token *tokens, size_t n_tokens, size_t *n_out)
{
    size_t n = 0;

    if (!sequence->place->keeps_text)
        return NULL;
    if (!sequence->text)
        sequence->text = malloc(HTH_ROW_TEXT_BYTES_MAX);
    for (size_t i = 0; sequence->text && i < n_tokens; i++) {
        size_t n_piece = 0;

        if (sequence->place->backend->piece(sequence->place->engine_model, tokens[i], true, sequence->text + n,
                                            HTH_ROW_TEXT_BYTES_MAX - n, &n_piece, NULL) != HEARTH_OK)
            break; /* the rest is left out */
        n += n_piece;
    }
    *n_out = n;
    return sequence->text;
}

/*
 * The tail that row id supersedes; NULL: none. With a model whose rows can be used in part, a longer row makes a tail
 * with the same begin superfluous for every prompt.
 */
static const hth_row_id *superseded_by(hth_sequence *sequence, const hth_row_id *id, uint32_t begin)
{
    if (!sequence->has_tail || sequence->tail_begin != begin || hth_row_id_equal(&sequence->tail, id) ||
        !hth_sequence_can_be_shortened(sequence))
        return NULL;
    return &sequence->tail;
}

/* Does a longer row, of which a part can be used, begin with the cells from begin to the present end? */
static bool is_in_longer(const hth_sequence *sequence, uint32_t begin)
{
    uint32_t n_tokens = sequence->n_tokens - begin;
    hearth_token theirs[HTH_BLOCK_TOKENS];

    if (!sequence->has_longer || sequence->longer_begin != begin || !hth_sequence_can_be_shortened(sequence))
        return false;
    return hth_cache_tokens(sequence->place->cache, &sequence->longer, theirs, HTH_BLOCK_TOKENS) > n_tokens &&
           memcmp(theirs, sequence->tokens + begin, n_tokens * sizeof(*theirs)) == 0;
}

/* Is the block that ends at begin in the cache? Without it, a row after it would never be found. */
static bool has_parent(const hth_sequence *sequence, uint32_t begin)
{
    hth_row_id parent = { .key = sequence->boundary_keys[begin / HTH_BLOCK_TOKENS], .kind = HTH_ROW_BLOCK };

    return begin == 0 || hth_cache_find(sequence->place->cache, &parent, NULL) != HEARTH_TIER_NONE;
}

/* Save the cells from the last block boundary before the present end as row id. False when that failed. */
static bool save_cells(hth_sequence *sequence, const hth_row_id *id, hearth_save_reason reason)
{
    const hth_workplace *place = sequence->place;
    uint32_t end = sequence->n_tokens;
    uint32_t begin = (end - 1) / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS;
    hth_save save = {
        .keyspace = &sequence->keyspace,
        .id = *id,
        .parent = sequence->boundary_keys[begin / HTH_BLOCK_TOKENS],
        .first_position = begin,
        .tokens = sequence->tokens + begin,
        .n_tokens = end - begin,
        .context_size = place->n_ctx,
        .reason = reason,
        .engine_build = place->engine_build,
        .model = place->model,
        .superseded = superseded_by(sequence, id, begin),
    };
    hearth_error err = { .message = "" };
    bool saved;

    if (id->kind == HTH_ROW_TAIL && is_in_longer(sequence, begin))
        return true;
    saved = hth_cache_is_saved(place->cache, id);
    if (saved) {
        if (save.superseded)
            hth_cache_supersede(place->cache, id, save.superseded);
    } else if (has_parent(sequence, begin)) {
        save.text = text_of(sequence, save.tokens, save.n_tokens, &save.n_text_bytes);
        if (place->backend->seq_copy(place->context, sequence->id, sequence->books->scratch, begin, end, &err) ==
            HEARTH_OK)
            saved = pack(sequence, sequence->books->scratch, HTH_STATE_CELLS, &save); /* else it is computed again */
        else
            stop_saving(sequence, err.message);
        hth_sequence_empty_scratch(sequence);
    }
    if (saved) {
        sequence->has_tail = id->kind == HTH_ROW_TAIL;
        sequence->tail = *id;
        sequence->tail_begin = begin;
    }
    return saved;
}

/* Save the state after the present end, whose key is given. False when that failed. */
static bool save_state(hth_sequence *sequence, const hth_key *key, hearth_save_reason reason)
{
    const hth_workplace *place = sequence->place;
    hth_save save = {
        .keyspace = &sequence->keyspace,
        .id = { .key = *key, .kind = HTH_ROW_STATE },
        .parent = sequence->boundary_keys[sequence->n_tokens / HTH_BLOCK_TOKENS],
        .first_position = sequence->n_tokens,
        .context_size = place->n_ctx,
        .reason = reason,
        .engine_build = place->engine_build,
        .model = place->model,
    };

    return hth_cache_is_saved(place->cache, &save.id) || pack(sequence, sequence->id, HTH_STATE_REST, &save);
}

void hth_sequence_save_block(hth_sequence *sequence, hearth_save_reason reason)
{
    uint32_t end = sequence->n_tokens;
    hth_row_id id = { .kind = HTH_ROW_BLOCK };

    if (!hth_sequence_is_cached(sequence) || sequence->books->cannot_save || end == 0 || end % HTH_BLOCK_TOKENS != 0)
        return;
    hth_sequence_catch_up_keys(sequence);
    id.key = sequence->boundary_keys[end / HTH_BLOCK_TOKENS];
    if (hth_sequence_has_blocks(sequence) && !save_cells(sequence, &id, reason))
        return;
    if (hth_sequence_has_states(sequence) && !sequence->books->cannot_save &&
        hth_policy_should_save_state(end, &sequence->place->policy))
        (void)save_state(sequence, &id.key, reason); /* after a failure, the state of a later boundary will do */
}

/* Drop the states inside blocks that a later state supersedes, with the tails that only those states need. */
static void forget_stale(hth_sequence *sequence)
{
    for (size_t i = 0; i < sequence->n_stale; i++) {
        hth_row_id tail = { .key = sequence->stale[i].key, .kind = HTH_ROW_TAIL };

        hth_cache_forget(sequence->place->cache, &sequence->stale[i]);
        if (hth_sequence_has_blocks(sequence))
            hth_cache_forget(sequence->place->cache, &tail);
    }
    sequence->n_stale = 0;
}

bool hth_sequence_save_end(hth_sequence *sequence, hearth_save_reason reason)
{
    uint32_t end = sequence->n_tokens;
    hth_row_id id = { .kind = HTH_ROW_TAIL };

    if (!hth_sequence_is_cached(sequence) || sequence->books->cannot_save || end == 0)
        return false;
    hth_sequence_key(sequence, &id.key);
    if (hth_sequence_has_blocks(sequence)) {
        bool kept = end % HTH_BLOCK_TOKENS != 0 ? save_cells(sequence, &id, reason)
                                                : has_parent(sequence, end); /* the end is the end of the last block */

        if (!kept || !hth_sequence_has_states(sequence))
            return kept;
    }
    if (sequence->books->cannot_save || !save_state(sequence, &id.key, reason))
        return false;
    forget_stale(sequence);
    return true;
}

static bool is_known(const hth_sequence *sequence, hth_row_id id)
{
    return hth_cache_find(sequence->place->cache, &id, NULL) != HEARTH_TIER_NONE;
}

bool hth_sequence_end_is_saved(hth_sequence *sequence)
{
    uint32_t end = sequence->n_tokens;
    hth_key key;

    if (!hth_sequence_is_cached(sequence) || end == 0)
        return false;
    hth_sequence_key(sequence, &key);
    if (hth_sequence_has_states(sequence) && !is_known(sequence, (hth_row_id){ .key = key, .kind = HTH_ROW_STATE }))
        return false;
    if (!hth_sequence_has_blocks(sequence))
        return true;
    return has_parent(sequence, end / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS) &&
           (end % HTH_BLOCK_TOKENS == 0 || is_known(sequence, (hth_row_id){ .key = key, .kind = HTH_ROW_TAIL }));
}

void hth_sequence_save_logits(hth_sequence *sequence, const float *logits, hearth_save_reason reason)
{
    const hth_workplace *place = sequence->place;
    hth_save save = {
        .keyspace = &sequence->keyspace,
        .id = { .kind = HTH_ROW_LOGITS },
        .first_position = sequence->n_tokens,
        .context_size = place->n_ctx,
        .reason = reason,
        .engine_build = place->engine_build,
        .model = place->model,
        .image_bytes = place->n_vocab * sizeof(float),
    };
    hth_slab *slab;

    if (!hth_sequence_is_cached(sequence) || sequence->books->cannot_save)
        return;
    hth_sequence_key(sequence, &save.id.key);
    save.parent = save.id.key;
    if (hth_cache_is_saved(place->cache, &save.id))
        return;
    slab = hth_cache_save_begin(place->cache, &save);
    if (!slab)
        return;
    for (size_t i = 0; i < place->n_vocab; i++)
        hth_put_f32(hth_slab_image(slab) + 4 * i, logits[i]);
    hth_cache_save_commit(place->cache, slab);
}
