/*
 * sequence.c - cells and rows of one sequence
 *
 * Cutting: the range is shared with the scratch sequence, whose state is then exactly that range; it is packed straight
 * into a slab of the cache and the scratch sequence emptied. Putting back is the reverse. The blob contains the id of
 * the sequence it was cut through, so it always goes through the same one: equal KV gives equal bytes.
 *
 * A block must be cut right after the evaluation that ends it; hth_sequence_save_block is called then.
 *
 * A window's cells come with every row, for a prefix may end at any of them, but only the rows that cover the window of
 * the prefix that is restored bring theirs into the context: there is not room for more. Recurrent state comes last,
 * from a row of its own.
 */
#include "sched/sequence.h"

#include <assert.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "cache/read_ahead.h"

struct hth_sequence {
    const hth_workplace *place;
    hth_keyspace keyspace; /* the workplace's, with the salt of the request that it serves */
    uint32_t id;
    uint32_t scratch;
    hearth_token *tokens; /* [n_ctx] */
    uint32_t n_tokens;

    /*
     * Keys of the prefixes of keyed tokens: boundary_keys[i] names the first i blocks, for i <= n_keyed /
     * HTH_BLOCK_TOKENS; the stream stands after n_keyed tokens. During a prompt's prefill n_keyed runs ahead of
     * n_tokens: the lookup has hashed the whole prompt.
     */
    hth_key_stream *stream;
    hth_key *boundary_keys; /* [n_ctx / HTH_BLOCK_TOKENS + 1] */
    uint32_t n_keyed;
    hth_key end_key;                        /* of n_keyed tokens */
    hth_batch_row *batch;                   /* [n_batch] */
    bool cannot_save;                       /* the engine gave state that cannot be trusted; said once */
    hth_row_id stale[HTH_LOOKUP_STALE_MAX]; /* states of the prompt that the next one supersedes */
    size_t n_stale;
    bool has_tail; /* the latest tail that these tokens end or go on from is saved as: */
    hth_row_id tail;
    uint32_t tail_begin;
    bool has_longer; /* the prompt's end was found inside this row, which may hold the reply, too: */
    hth_row_id longer;
    uint32_t longer_begin;
    char *text; /* [TEXT_BYTES_MAX], where rows keep the text of their tokens */
};

enum { TEXT_BYTES_MAX = 1 << 16 };

void hth_sequence_close(hth_sequence *sequence)
{
    if (!sequence)
        return;
    hth_key_stream_free(sequence->stream);
    free(sequence->boundary_keys);
    free(sequence->tokens);
    free(sequence->batch);
    free(sequence->text);
    free(sequence);
}

hearth_status hth_sequence_open(const hth_workplace *workplace, uint32_t id, uint32_t scratch, hth_sequence **out,
                                hearth_error *err)
{
    hth_sequence *sequence = calloc(1, sizeof(*sequence));

    assert(id != scratch);
    if (sequence) {
        sequence->place = workplace;
        sequence->keyspace = workplace->keyspace;
        sequence->id = id;
        sequence->scratch = scratch;
        sequence->tokens = calloc(workplace->n_ctx, sizeof(*sequence->tokens));
        sequence->boundary_keys = calloc(workplace->n_ctx / HTH_BLOCK_TOKENS + 1, sizeof(*sequence->boundary_keys));
        sequence->batch = calloc(workplace->n_batch, sizeof(*sequence->batch));
        sequence->stream = hth_key_stream_new(&workplace->keyspace);
    }
    if (!sequence || !sequence->tokens || !sequence->boundary_keys || !sequence->batch || !sequence->stream) {
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

uint32_t hth_sequence_common(const hth_sequence *sequence, const hearth_token *tokens, size_t n_tokens)
{
    uint32_t n = 0;

    while (n < sequence->n_tokens && n < n_tokens && sequence->tokens[n] == tokens[n])
        n++;
    return n;
}

static bool has_blocks(const hth_sequence *sequence)
{
    return sequence->place->kind != HTH_MODEL_RECURRENT;
}

static bool has_states(const hth_sequence *sequence)
{
    return sequence->place->kind == HTH_MODEL_RECURRENT || sequence->place->kind == HTH_MODEL_HYBRID;
}

bool hth_sequence_can_be_shortened(const hth_sequence *sequence)
{
    return sequence->place->kind == HTH_MODEL_PLAIN;
}

static bool is_cached(const hth_sequence *sequence)
{
    return sequence->place->cache && sequence->place->kind != HTH_MODEL_UNCACHED;
}

/* Empty a sequence of the context; that the engine could not even do this would be its bug and ours. */
static void empty(hth_sequence *sequence, uint32_t id)
{
    bool removed = sequence->place->backend->seq_remove(sequence->place->context, id, 0, UINT32_MAX);

    assert(removed);
    (void)removed; /* read by the assertion only */
    if (id == sequence->id)
        sequence->n_tokens = 0;
}

uint32_t hth_sequence_shorten(hth_sequence *sequence, uint32_t n_tokens)
{
    if (n_tokens >= sequence->n_tokens)
        return sequence->n_tokens;
    if (n_tokens > 0 && hth_sequence_can_be_shortened(sequence) &&
        sequence->place->backend->seq_remove(sequence->place->context, sequence->id, n_tokens, UINT32_MAX))
        sequence->n_tokens = n_tokens;
    else
        empty(sequence, sequence->id);
    return sequence->n_tokens;
}

hearth_status hth_sequence_set_fingerprint(hth_sequence *sequence, const uint8_t fingerprint[32], hearth_error *err)
{
    hth_keyspace keyspace = sequence->keyspace;
    hth_key_stream *stream;

    if (memcmp(keyspace.fingerprint, fingerprint, sizeof(keyspace.fingerprint)) == 0)
        return HEARTH_OK;
    memcpy(keyspace.fingerprint, fingerprint, sizeof(keyspace.fingerprint));
    stream = hth_key_stream_new(&keyspace);
    if (!stream)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the keys of a prompt");
    hth_key_stream_free(sequence->stream);
    sequence->stream = stream;
    sequence->keyspace = keyspace;
    empty(sequence, sequence->id); /* another tenant's cells */
    hth_key_stream_key(stream, &sequence->boundary_keys[0]);
    sequence->end_key = sequence->boundary_keys[0];
    sequence->n_keyed = 0;
    sequence->n_stale = 0;
    sequence->has_tail = false;
    sequence->has_longer = false;
    return HEARTH_OK;
}

/* ---- keys ---- */

/* The tail that the prompt goes on from, if it does from all of one, is what its own rows will supersede. */
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

static hth_lookup_options lookup_options(const hth_sequence *sequence, size_t n_limit, bool read_cache)
{
    return (hth_lookup_options){
        .way = !read_cache || !is_cached(sequence) ? HTH_LOOKUP_KEYS
             : !has_states(sequence)               ? HTH_LOOKUP_CELLS
             : has_blocks(sequence)                ? HTH_LOOKUP_CELLS_AND_STATES
                                                   : HTH_LOOKUP_STATES,
        .n_window = sequence->place->n_window,
        .n_limit = n_limit,
    };
}

hearth_status hth_sequence_peek(const hth_sequence *sequence, const hearth_token *prompt, size_t n_prompt,
                                hth_lookup *lookup, hearth_error *err)
{
    hth_lookup_options options = lookup_options(sequence, n_prompt, true);
    hth_key_stream *stream = hth_key_stream_new(&sequence->keyspace);
    hearth_status status;

    if (!stream)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for looking up a prompt of %zu tokens", n_prompt);
    status =
        hth_lookup_init(lookup, sequence->place->cache, &sequence->keyspace, stream, &options, prompt, n_prompt, err);
    hth_key_stream_free(stream);
    return status;
}

hearth_status hth_sequence_lookup(hth_sequence *sequence, const hearth_token *prompt, size_t n_prompt, size_t n_limit,
                                  bool read_cache, hth_lookup *lookup, hearth_error *err)
{
    hth_lookup_options options = lookup_options(sequence, n_limit, read_cache);
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

/* Hash the tokens that were evaluated since; afterwards n_keyed >= n_tokens. */
static void catch_up_keys(hth_sequence *sequence)
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
    catch_up_keys(sequence);
    if (sequence->n_tokens == sequence->n_keyed)
        *out = sequence->end_key;
    else if (sequence->n_tokens % HTH_BLOCK_TOKENS == 0)
        *out = sequence->boundary_keys[sequence->n_tokens / HTH_BLOCK_TOKENS];
    else if (!hth_key_of(&sequence->keyspace, sequence->tokens, sequence->n_tokens, out))
        *out = (hth_key){ { 0 } }; /* no memory for one digest: a key that names nothing */
}

/* ---- rows into the context ---- */

/* A row's tokens must be the prompt's, and a row of which only a part is used must have the key of its own tokens. */
static bool row_is_of_prompt(const hth_sequence *sequence, const hth_kvc_info *info, const hth_lookup_row *row,
                             const hearth_token *prompt)
{
    const hearth_token *tokens = prompt + row->meta.first_position;
    size_t n_tokens = hth_kvc_n_tokens(info);
    hth_key_stream *stream;
    hth_key key;

    for (size_t i = 0; i < row->n_use; i++)
        if (hth_kvc_token(info, i) != tokens[i])
            return false;
    if (row->n_use == n_tokens)
        return true; /* its id was made from these very tokens */

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

/* Put the payload into the context: cells through the scratch sequence, the state after target tokens in place. */
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
        return backend->state_set(context, sequence->id, HTH_STATE_REST, borrowed->payload, borrowed->payload_bytes, 0,
                                  begin, err);
    status = backend->state_set(context, sequence->scratch, is_before_window ? HTH_STATE_CELLS_BARE : HTH_STATE_CELLS,
                                borrowed->payload, borrowed->payload_bytes, begin, end, err);
    if (status == HEARTH_OK)
        status =
            backend->seq_copy(context, sequence->scratch, sequence->id, sequence->n_tokens, begin + row->n_use, err);
    empty(sequence, sequence->scratch);
    return status;
}

static hearth_tier slower(hearth_tier a, hearth_tier b)
{
    return a > b ? a : b;
}

/* Check a borrowed row against the prompt and put it into the context; what it turns out to be decides what is said. */
static hth_restore_result use_row(hth_sequence *sequence, const hth_borrowed_row *borrowed, const hth_lookup_row *row,
                                  uint32_t target, const hearth_token *prompt)
{
    hth_cache *cache = sequence->place->cache;
    uint32_t end = row->meta.first_position + row->n_use;
    hearth_error err = { .message = "" };
    hearth_status status;

    if (!row_is_of_prompt(sequence, &borrowed->info, row, prompt)) {
        hth_cache_reject(cache, &row->meta.id, "its tokens are not those of its key");
        return HTH_RESTORE_ROW_LOST;
    }
    status = put_back(sequence, borrowed, row, target, &err);
    if (status == HEARTH_CORRUPT)
        hth_cache_reject(cache, &row->meta.id, "the engine's state in it is malformed");
    else if (status != HEARTH_OK)
        hth_warn(sequence->place->log, "cache row not restored, the prompt is computed instead: %s", err.message);
    if (status != HEARTH_OK)
        return status == HEARTH_CORRUPT ? HTH_RESTORE_ROW_LOST : HTH_RESTORE_FAILED;
    memcpy(sequence->tokens + sequence->n_tokens, prompt + sequence->n_tokens,
           (end - sequence->n_tokens) * sizeof(*prompt));
    sequence->n_tokens = end;
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
        n++; /* of a longer row of which a part is wanted, the rest might not fit for a moment */
    *first_out = first;
    return n;
}

/* Say why a row was not to be had, and what follows from that. */
static hth_restore_result row_not_read(hth_sequence *sequence, hearth_status status, const hth_lookup_row *rows,
                                       size_t n, const hearth_error *err)
{
    /* Where one file is gone others may be, too: what is computed instead is to be saved. */
    for (size_t i = 0; status == HEARTH_NOT_FOUND && i < n; i++)
        hth_cache_note_gone(sequence->place->cache, &rows[i].meta.id);
    if (status == HEARTH_CORRUPT || status == HEARTH_NOT_FOUND) /* those are told, or no trouble at all */
        return HTH_RESTORE_ROW_LOST;
    hth_warn(sequence->place->log, "cache row not read, the prompt is computed instead: %s", err->message);
    return HTH_RESTORE_FAILED;
}

/*
 * Where one row is refused for its signature the next ones will be: set them aside now, not one a request, so that all
 * that is computed instead is saved. The first sound one ends this.
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

static hth_restore_result restore_rows(hth_sequence *sequence, const hth_lookup_row *rows, size_t n,
                                       const hearth_token *prompt, void (*progress)(uint32_t n_tokens, void *user_data),
                                       void *user_data, hth_restored *out)
{
    hth_cache *cache = sequence->place->cache;
    uint32_t target = rows[n - 1].meta.first_position + rows[n - 1].n_use;
    hth_read_ahead *ahead = hth_read_ahead_begin(cache, &sequence->keyspace, rows, n);
    hth_restore_result result = ahead ? HTH_RESTORE_DONE : HTH_RESTORE_FAILED;
    size_t damaged = n;

    for (size_t i = 0; result == HTH_RESTORE_DONE && i < n; i++) {
        hth_borrowed_row borrowed;
        hearth_error err = { .message = "" };
        hearth_status status = hth_read_ahead_next(ahead, &borrowed, &err);

        if (status != HEARTH_OK) {
            result = row_not_read(sequence, status, &rows[i], n - i, &err);
            if (status == HEARTH_CORRUPT)
                damaged = i;
            break;
        }
        result = use_row(sequence, &borrowed, &rows[i], target, prompt);
        if (result == HTH_RESTORE_DONE) {
            out->tier = slower(out->tier, borrowed.tier);
            out->n_rows++;
            out->n_bytes += borrowed.payload_bytes;
        }
        hth_cache_return(cache, &borrowed);
        if (result == HTH_RESTORE_DONE && progress)
            progress(sequence->n_tokens, user_data);
    }
    hth_read_ahead_end(ahead);
    if (damaged < n)
        check_next_rows(sequence, rows + damaged + 1, n - damaged - 1);
    return result;
}

hth_restore_result hth_sequence_restore(hth_sequence *sequence, const hth_lookup *lookup, const hearth_token *prompt,
                                        void (*progress)(uint32_t n_tokens, void *user_data), void *user_data,
                                        hth_restored *out)
{
    const hth_workplace *place = sequence->place;
    size_t first;
    size_t n = rows_to_restore(sequence, lookup, &first);
    hth_restore_result result = HTH_RESTORE_DONE;

    if (n > 0)
        result = restore_rows(sequence, lookup->rows + first, n, prompt, progress, user_data, out);
    if (hth_sequence_can_be_shortened(
            sequence)) /* what came before a row that is lost is of use, and others may follow */
        return result == HTH_RESTORE_ROW_LOST ? result : HTH_RESTORE_DONE;
    /* The engine has the last word on whether the parts make a whole. */
    if (result == HTH_RESTORE_DONE && place->backend->seq_end(place->context, sequence->id) != sequence->n_tokens)
        result = HTH_RESTORE_FAILED;
    if (result != HTH_RESTORE_DONE) {
        empty(sequence, sequence->id);
        *out = (hth_restored){ .tier = HEARTH_TIER_NONE };
    }
    return result;
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
        return false; /* one more evaluation gives them; a damaged row was reported where it was found */
    if (borrowed.payload_bytes != sequence->place->n_vocab * sizeof(float)) {
        hth_cache_return(cache, &borrowed);
        hth_cache_reject(cache, &meta.id, "it has not one logit a token of the vocabulary");
        return false;
    }
    for (size_t i = 0; i < sequence->place->n_vocab; i++) {
        uint32_t bits = hth_get_u32(borrowed.payload + 4 * i);

        memcpy(&logits[i], &bits, sizeof(bits));
    }
    restored->tier = slower(restored->tier, borrowed.tier);
    restored->n_rows++;
    restored->n_bytes += borrowed.payload_bytes;
    hth_cache_return(cache, &borrowed);
    hth_cache_touch(cache, &meta.id, 1);
    return true;
}

/* ---- evaluation ---- */

hearth_status hth_sequence_evaluate(hth_sequence *sequence, const hearth_token *tokens, uint32_t n, bool wants_logits,
                                    const float **logits_out, hth_decode_result *result, hearth_error *err)
{
    const hth_backend *backend = sequence->place->backend;
    hth_engine_context *context = sequence->place->context;
    const float *logits = NULL;
    hearth_status status;

    assert(n > 0);
    assert(n <= sequence->place->n_batch);
    if (n > sequence->place->n_ctx - sequence->n_tokens) {
        *result = HTH_DECODE_NO_ROOM;
        return HEARTH_OK;
    }
    for (uint32_t i = 0; i < n; i++)
        sequence->batch[i] = (hth_batch_row){
            .token = tokens[i],
            .position = sequence->n_tokens + i,
            .sequence = sequence->id,
            .wants_logits = wants_logits && i == n - 1,
        };
    status = backend->decode(context, sequence->batch, n, result, err);
    if (status == HEARTH_OK && *result == HTH_DECODE_OK && wants_logits) {
        logits = backend->logits(context, n - 1);
        if (!logits)
            status = hth_fail(err, HEARTH_ENGINE, "the engine computed no logits for the last token");
    }
    if (status != HEARTH_OK || *result == HTH_DECODE_ABORTED) {
        /* Cells of the unfinished evaluation may have stayed: they go, with all before them where need be. */
        uint32_t kept = sequence->n_tokens;

        if (!(kept > 0 && hth_sequence_can_be_shortened(sequence) &&
              backend->seq_remove(context, sequence->id, kept, UINT32_MAX)))
            empty(sequence, sequence->id);
        return status;
    }
    if (*result == HTH_DECODE_NO_ROOM)
        return HEARTH_OK;
    memcpy(sequence->tokens + sequence->n_tokens, tokens, n * sizeof(*tokens));
    sequence->n_tokens += n;
    if (wants_logits)
        *logits_out = logits;
    return HEARTH_OK;
}

/* ---- rows out of the context ---- */

static void stop_saving(hth_sequence *sequence, const char *reason)
{
    sequence->cannot_save = true;
    hth_warn(sequence->place->log, "nothing more of this model is cached: %s", reason);
}

/* Pack a part of the state of one sequence of the context into a row. */
static bool pack(hth_sequence *sequence, uint32_t id, hth_state_part part, hth_save *save)
{
    const hth_workplace *place = sequence->place;
    hearth_error err = { .message = "" };
    hth_save_slot *slot;
    size_t n_bytes = 0;

    save->payload_bytes = place->backend->state_size(place->context, id, part);
    if (save->payload_bytes == 0) {
        stop_saving(sequence, "the engine gives no state");
        return false;
    }
    slot = hth_cache_save_begin(place->cache, save);
    if (!slot)
        return false; /* no room: counted */
    if (place->backend->state_get(place->context, id, part, hth_save_slot_payload(slot), save->payload_bytes, &n_bytes,
                                  &err) != HEARTH_OK) {
        stop_saving(sequence, err.message);
    } else if (n_bytes != save->payload_bytes) {
        stop_saving(sequence, "the engine's state is not as long as it said");
    } else {
        hth_cache_save_commit(place->cache, slot);
        return true;
    }
    hth_cache_save_abort(place->cache, slot);
    return false;
}

/*
 * The text of a row's tokens, where rows keep it: as much of it as there is room for. NULL where they do not, which is
 * the rule.
 */
static const char *text_of(hth_sequence *sequence, const hearth_token *tokens, size_t n_tokens, size_t *n_out)
{
    size_t n = 0;

    if (!sequence->place->keeps_text)
        return NULL;
    if (!sequence->text)
        sequence->text = malloc(TEXT_BYTES_MAX);
    for (size_t i = 0; sequence->text && i < n_tokens; i++) {
        size_t n_piece = 0;

        if (sequence->place->backend->piece(sequence->place->engine_model, tokens[i], true, sequence->text + n,
                                            TEXT_BYTES_MAX - n, &n_piece, NULL) != HEARTH_OK)
            break; /* the rest is not shown */
        n += n_piece;
    }
    *n_out = n;
    return sequence->text;
}

/*
 * Of a tail of a model that can be used in part, all is in the longer row that begins where it does, for every prompt.
 * A row that is being saved as meta is one.
 */
static const hth_row_id *superseded_by(hth_sequence *sequence, const hth_row_id *id, uint32_t begin)
{
    if (!sequence->has_tail || sequence->tail_begin != begin || hth_row_id_equal(&sequence->tail, id) ||
        !hth_sequence_can_be_shortened(sequence))
        return NULL;
    return &sequence->tail;
}

/* Are the cells from begin to the present end the first ones of a longer row, which can be used in part? */
static bool is_in_longer(const hth_sequence *sequence, uint32_t begin)
{
    uint32_t n_tokens = sequence->n_tokens - begin;
    hearth_token theirs[HTH_BLOCK_TOKENS];

    if (!sequence->has_longer || sequence->longer_begin != begin || !hth_sequence_can_be_shortened(sequence))
        return false;
    return hth_cache_peek_tokens(sequence->place->cache, &sequence->longer, theirs, HTH_BLOCK_TOKENS) > n_tokens &&
           memcmp(theirs, sequence->tokens + begin, n_tokens * sizeof(*theirs)) == 0;
}

/* Is the block that ends at begin kept? A row that stands on nothing would never be found. */
static bool has_parent(const hth_sequence *sequence, uint32_t begin)
{
    hth_row_id parent = { .key = sequence->boundary_keys[begin / HTH_BLOCK_TOKENS], .kind = HTH_ROW_BLOCK };

    return begin == 0 || hth_cache_find(sequence->place->cache, &parent, NULL) != HEARTH_TIER_NONE;
}

/* Save the cells from the last block boundary before the present end, as a row of that kind; false when it is not. */
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
        if (place->backend->seq_copy(place->context, sequence->id, sequence->scratch, begin, end, &err) == HEARTH_OK)
            saved = pack(sequence, sequence->scratch, HTH_STATE_CELLS, &save); /* else it is computed again */
        else
            stop_saving(sequence, err.message);
        empty(sequence, sequence->scratch);
    }
    if (saved) {
        sequence->has_tail = id->kind == HTH_ROW_TAIL;
        sequence->tail = *id;
        sequence->tail_begin = begin;
    }
    return saved;
}

/* Save the state after the present end; false when it could not be. Its key is given. */
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
    };

    return hth_cache_is_saved(place->cache, &save.id) || pack(sequence, sequence->id, HTH_STATE_REST, &save);
}

void hth_sequence_save_block(hth_sequence *sequence, hearth_save_reason reason)
{
    uint32_t end = sequence->n_tokens;
    hth_row_id id = { .kind = HTH_ROW_BLOCK };

    if (!is_cached(sequence) || sequence->cannot_save || end == 0 || end % HTH_BLOCK_TOKENS != 0)
        return;
    catch_up_keys(sequence);
    id.key = sequence->boundary_keys[end / HTH_BLOCK_TOKENS];
    if (has_blocks(sequence) && !save_cells(sequence, &id, reason))
        return;
    if (has_states(sequence) && !sequence->cannot_save && hth_policy_should_save_state(end, &sequence->place->policy))
        (void)save_state(sequence, &id.key, reason); /* a later boundary does, too */
}

/* Drop the states inside blocks that a later one supersedes, with the tails that only they need. */
static void forget_stale(hth_sequence *sequence)
{
    for (size_t i = 0; i < sequence->n_stale; i++) {
        hth_row_id tail = { .key = sequence->stale[i].key, .kind = HTH_ROW_TAIL };

        hth_cache_forget(sequence->place->cache, &sequence->stale[i]);
        if (has_blocks(sequence))
            hth_cache_forget(sequence->place->cache, &tail);
    }
    sequence->n_stale = 0;
}

bool hth_sequence_save_end(hth_sequence *sequence, hearth_save_reason reason)
{
    uint32_t end = sequence->n_tokens;
    hth_row_id id = { .kind = HTH_ROW_TAIL };

    if (!is_cached(sequence) || sequence->cannot_save || end == 0)
        return false;
    hth_sequence_key(sequence, &id.key);
    if (has_blocks(sequence)) {
        bool kept = end % HTH_BLOCK_TOKENS != 0 ? save_cells(sequence, &id, reason)
                                                : has_parent(sequence, end); /* the last block is the end */

        if (!kept || !has_states(sequence))
            return kept;
    }
    if (sequence->cannot_save || !save_state(sequence, &id.key, reason))
        return false;
    forget_stale(sequence);
    return true;
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
        .payload_bytes = place->n_vocab * sizeof(float),
    };
    hth_save_slot *slot;

    if (!is_cached(sequence) || sequence->cannot_save)
        return;
    hth_sequence_key(sequence, &save.id.key);
    save.parent = save.id.key;
    if (hth_cache_is_saved(place->cache, &save.id))
        return;
    slot = hth_cache_save_begin(place->cache, &save);
    if (!slot)
        return;
    for (size_t i = 0; i < place->n_vocab; i++) {
        uint32_t bits;

        memcpy(&bits, &logits[i], sizeof(bits));
        hth_put_u32(hth_save_slot_payload(slot) + 4 * i, bits);
    }
    hth_cache_save_commit(place->cache, slot);
}
