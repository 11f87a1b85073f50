/*
 * sequence_restore.c - restore rows into a sequence, one after the other
 *
 * With a sliding window, every row has cells of the window layers, because a prefix may end in any row. The context has
 * no room for all of them. So only the rows in the window at the end of the restored prefix bring theirs. Recurrent
 * state comes last, from a row of its own.
 */
#include "sched/sequence_restore.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cache/read_ahead.h"
#include "sched/sequence_inside.h"

enum { ROWS_NOTED = 4 }; /* the restored row, and the rows that are read ahead while no device is waited for */

/* Does a row that begins in the prompt have the key of its tokens? */
static bool row_has_its_key(const hth_sequence *sequence, const hth_kvc_info *info, const hth_lookup_row *row,
                            const hearth_token *prompt)
{
    size_t n_tokens = hth_kvc_n_tokens(info);
    hth_key_stream *stream;
    hth_key key;

    stream = hth_key_stream_new(&sequence->keyspace);
    if (!stream)
        return false;
    hth_key_stream_push(stream, prompt, row->meta.first_position);
    for (size_t i = 0; i < n_tokens; i++) {
        hearth_token token = hth_kvc_token(info, i);

        hth_key_stream_push(stream, &token, 1);
    }
    hth_key_stream_key(stream, &key);
    hth_key_stream_free(stream);
    return hth_key_equal(&key, &row->meta.id.key);
}

/* Put an image into the context: cells through the scratch sequence, recurrent state directly. */
static hearth_status put_back(hth_sequence *sequence, const hth_borrowed_row *borrowed, const hth_lookup_row *row,
                              uint32_t target, hearth_error *err)
{
    const hth_backend *backend = sequence->place->backend;
    hth_engine_context *context = sequence->place->context;
    uint32_t begin = row->meta.first_position;
    uint32_t end = begin + row->meta.n_tokens;
    bool is_before_window =
        sequence->place->kind == HTH_MODEL_WINDOW && begin + row->n_use + sequence->place->n_window <= target;
    hearth_status status;

    if (row->meta.id.kind == HTH_ROW_STATE)
        return backend->state_set(context, sequence->id, HTH_STATE_REST, borrowed->image, borrowed->image_bytes, 0,
                                  begin, err);
    status =
        backend->state_set(context, sequence->books->scratch, is_before_window ? HTH_STATE_CELLS_BARE : HTH_STATE_CELLS,
                           borrowed->image, borrowed->image_bytes, begin, end, err);
    if (status == HEARTH_OK)
        status = backend->seq_copy(context, sequence->books->scratch, sequence->id, sequence->n_tokens,
                                   begin + row->n_use, err);
    hth_sequence_empty_scratch(sequence);
    return status;
}

/* Are the used tokens of a row the prompt's? The index or memory said so, and nobody verified that. */
static bool row_is_of_prompt(const hth_kvc_info *info, const hth_lookup_row *row, const hearth_token *prompt)
{
    const hearth_token *tokens = prompt + row->meta.first_position;

    if (row->n_use > hth_kvc_n_tokens(info))
        return false;
    for (size_t i = 0; i < row->n_use; i++)
        if (hth_kvc_token(info, i) != tokens[i])
            return false;
    return true;
}

static hearth_tier slower(hearth_tier a, hearth_tier b)
{
    return a > b ? a : b;
}

/* Check a borrowed row against the prompt and put it into the context. Reject or report it when that fails. */
static hth_restore_result use_row(hth_sequence *sequence, const hth_borrowed_row *borrowed, const hth_lookup_row *row,
                                  uint32_t target, const hearth_token *prompt)
{
    hth_cache *cache = sequence->place->cache;
    uint32_t end = row->meta.first_position + row->n_use;
    bool is_of_prompt = row_is_of_prompt(&borrowed->info, row, prompt);
    hearth_error err = { .message = "" };
    hearth_status status;

    /* The id of a row that is used whole is the key of the prompt's tokens. */
    if (!(is_of_prompt && row->n_use == hth_kvc_n_tokens(&borrowed->info)) &&
        !row_has_its_key(sequence, &borrowed->info, row, prompt)) {
        hth_cache_reject(cache, &row->meta.id, "its tokens are not those of its key");
        return HTH_RESTORE_ROW_LOST;
    }
    if (!is_of_prompt) {
        hth_cache_review(cache, &row->meta.id);
        return HTH_RESTORE_ROW_LOST;
    }
    status = put_back(sequence, borrowed, row, target, &err);
    if (status == HEARTH_CORRUPT)
        hth_cache_reject(cache, &row->meta.id, "the engine's state in it is malformed");
    else if (status != HEARTH_OK)
        hth_warn(sequence->place->log, "cache row not restored, the prompt is computed instead: %s", err.message);
    if (status != HEARTH_OK)
        return status == HEARTH_CORRUPT ? HTH_RESTORE_ROW_LOST : HTH_RESTORE_FAILED;
    if (end > sequence->n_tokens)
        hth_sequence_note_tokens(sequence, prompt + sequence->n_tokens, end);
    hth_cache_touch(cache, &row->meta.id, 1);
    return HTH_RESTORE_DONE;
}

/* The rows of lookup that reach beyond the present end and fit: [*first_out, *first_out + result). */
static size_t rows_to_restore(const hth_sequence *sequence, const hth_lookup *lookup, size_t *first_out)
{
    size_t first = 0, n = 0;

    while (first < lookup->n_rows &&
           lookup->rows[first].meta.first_position + lookup->rows[first].n_use <= sequence->n_tokens)
        first++; /* their cells are still in the context */
    while (first + n < lookup->n_rows &&
           lookup->rows[first + n].meta.first_position + lookup->rows[first + n].meta.n_tokens <=
               sequence->place->n_ctx)
        n++; /* all cells of a row must fit for a moment, also when only a part is used */
    *first_out = first;
    return n;
}

/* Report a row that could not be read, and return the result of the restore. */
static hth_restore_result row_not_read(hth_sequence *sequence, hearth_status status, const hth_lookup_row *rows,
                                       size_t n, const hearth_error *err)
{
    /* When one file is gone, others may be too. Note all as gone, so that their cells are saved again. */
    for (size_t i = 0; status == HEARTH_NOT_FOUND && i < n; i++)
        hth_cache_note_gone(sequence->place->cache, &rows[i].meta.id);
    if (status == HEARTH_CORRUPT || status == HEARTH_NOT_FOUND) /* logged elsewhere, or normal */
        return HTH_RESTORE_ROW_LOST;
    hth_warn(sequence->place->log, "cache row not read, the prompt is computed instead: %s", err->message);
    return HTH_RESTORE_FAILED;
}

/*
 * When one row has a bad signature, the next rows probably have one too. Set them aside now rather than one a request,
 * so that all recomputed rows can be saved. Stop at the first sound row.
 */
static void check_next_rows(const hth_sequence *sequence, const hth_lookup_row *rows, size_t n)
{
    hth_cache *cache = sequence->place->cache;
    hearth_status status = HEARTH_CORRUPT;

    for (size_t i = 0; status == HEARTH_CORRUPT && i < n; i++) {
        hth_borrowed_row borrowed;

        status = hth_cache_borrow(cache, &sequence->keyspace, &rows[i].meta, &borrowed, NULL);
        if (status == HEARTH_OK)
            hth_cache_return_unused(cache, &borrowed);
    }
}
struct hth_restore {
    hth_sequence *sequence;
    const hth_lookup_row *rows; /* [n_rows], of the lookup */
    size_t n_rows;
    size_t next;
    const hearth_token *prompt;
    uint32_t target;
    hth_read_ahead *ahead;
};

hth_restore *hth_restore_begin(hth_sequence *sequence, const hth_lookup *lookup, const hearth_token *prompt)
{
    hth_restore *restore = calloc(1, sizeof(*restore));
    size_t first;

    if (!restore)
        return NULL;
    *restore = (hth_restore){ .sequence = sequence, .prompt = prompt };
    restore->n_rows = rows_to_restore(sequence, lookup, &first);
    restore->rows = lookup->rows + first;
    if (restore->n_rows == 0)
        return restore;
    restore->target = restore->rows[restore->n_rows - 1].meta.first_position + restore->rows[restore->n_rows - 1].n_use;
    restore->ahead = hth_read_ahead_begin(sequence->place->cache, &sequence->keyspace, restore->rows, restore->n_rows);
    if (!restore->ahead) {
        free(restore);
        return NULL;
    }
    return restore;
}

uint32_t hth_restore_n_cells(const hth_restore *restore)
{
    return restore->next < restore->n_rows ? restore->rows[restore->next].meta.n_tokens : 0;
}

/* End a restore. Before a lost row, a sequence that can be shortened keeps its cells; any other is emptied. */
static hth_restore_result ended(const hth_restore *restore, hth_restore_result result, hth_restored *out)
{
    hth_sequence *sequence = restore->sequence;
    const hth_workplace *place = sequence->place;

    if (hth_sequence_can_be_shortened(sequence))
        return result == HTH_RESTORE_ROW_LOST ? result : HTH_RESTORE_DONE;
    /* The engine decides whether the parts make a whole. */
    if (result == HTH_RESTORE_DONE && place->backend->seq_end(place->context, sequence->id) != sequence->n_tokens)
        result = HTH_RESTORE_FAILED;
    if (result != HTH_RESTORE_DONE) {
        (void)hth_sequence_shorten(sequence, 0); /* to 0 tokens */
        *out = (hth_restored){ .tier = HEARTH_TIER_NONE };
    }
    return result;
}

/* Tell on_work the next row, and the rows that are read ahead behind it. */
static void note_rows(const hth_restore *restore)
{
    uint8_t keys[ROWS_NOTED][HTH_KEY_BYTES];
    size_t n = 0;

    for (; n < ROWS_NOTED && restore->next + n < restore->n_rows; n++)
        memcpy(keys[n], restore->rows[restore->next + n].meta.id.key.bytes, HTH_KEY_BYTES);
    hth_workplace_note(restore->sequence->place, HEARTH_WORK_ROWS_BEGIN, (const uint8_t(*)[HTH_KEY_BYTES])keys, n);
}

static hth_restore_result step(hth_restore *restore, hth_restored *out)
{
    hth_sequence *sequence = restore->sequence;
    hth_cache *cache = sequence->place->cache;
    const hth_lookup_row *row = &restore->rows[restore->next];
    hth_restore_result result;
    hth_borrowed_row borrowed;
    hearth_error err = { .message = "" };
    hearth_status status;

    if (restore->next == restore->n_rows)
        return ended(restore, HTH_RESTORE_DONE, out);
    if (row->meta.n_tokens > hth_cells_n_unused(sequence->books->cells)) /* the whole row is there for a moment */
        return ended(restore, HTH_RESTORE_FAILED, out);
    status = hth_read_ahead_next(restore->ahead, &borrowed, &err);
    if (status != HEARTH_OK) {
        result = row_not_read(sequence, status, row, restore->n_rows - restore->next, &err);
        if (status == HEARTH_CORRUPT) {
            hth_read_ahead_end(restore->ahead);
            restore->ahead = NULL;
            check_next_rows(sequence, row + 1, restore->n_rows - restore->next - 1);
        }
        return ended(restore, result, out);
    }
    result = use_row(sequence, &borrowed, row, restore->target, restore->prompt);
    if (result == HTH_RESTORE_DONE) {
        out->tier = slower(out->tier, borrowed.tier);
        out->n_rows++;
        out->n_bytes += borrowed.image_bytes;
    }
    hth_cache_return(cache, &borrowed);
    if (result != HTH_RESTORE_DONE)
        return ended(restore, result, out);
    return ++restore->next == restore->n_rows ? ended(restore, HTH_RESTORE_DONE, out) : HTH_RESTORE_MORE;
}

hth_restore_result hth_restore_step(hth_restore *restore, hth_restored *out)
{
    const hth_workplace *place = restore->sequence->place;
    hth_restore_result result;

    if (place->on_work)
        note_rows(restore);
    result = step(restore, out);
    hth_workplace_note(place, HEARTH_WORK_ROWS_END, NULL, 0);
    return result;
}

void hth_restore_end(hth_restore *restore)
{
    if (!restore)
        return;
    hth_read_ahead_end(restore->ahead);
    free(restore);
}

bool hth_sequence_restore_logits(hth_sequence *sequence, const hth_lookup *lookup, float *logits,
                                 hth_restored *restored)
{
    hth_cache *cache = sequence->place->cache;
    hth_row_meta meta = {
        .id = { .key = lookup->prompt_key, .kind = HTH_ROW_LOGITS },
        .parent = lookup->prompt_key,
        .first_position = (uint32_t)lookup->n_tokens,
    };
    hth_borrowed_row borrowed;
    hearth_status status;

    if (lookup->logits_tier == HEARTH_TIER_NONE && lookup->n_cached == lookup->n_tokens)
        return false;
    status = hth_cache_borrow(cache, &sequence->keyspace, &meta, &borrowed, NULL);
    if (status == HEARTH_NOT_FOUND)
        hth_cache_note_gone(cache, &meta.id); /* so that they are saved again */
    if (status != HEARTH_OK)
        return false; /* one more evaluation gives them; the cache reported a damaged row */
    if (borrowed.image_bytes != sequence->place->n_vocab * sizeof(float)) {
        hth_cache_return(cache, &borrowed);
        hth_cache_reject(cache, &meta.id, "it has not one logit a token of the vocabulary");
        return false;
    }
    for (size_t i = 0; i < sequence->place->n_vocab; i++)
        logits[i] = hth_get_f32(borrowed.image + 4 * i);
    restored->tier = slower(restored->tier, borrowed.tier);
    restored->n_rows++;
    restored->n_bytes += borrowed.image_bytes;
    hth_cache_return(cache, &borrowed);
    hth_cache_touch(cache, &meta.id, 1);
    return true;
}
