/*
 * sequence.c - tokens, cells and keys of one sequence
 */
#include "sched/sequence.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cache/read_ahead.h"

struct hth_sequence {
    const hth_workplace *place;
    hth_books *books;
    hth_keyspace keyspace; /* the workplace's, with the salt of the latest request */
    uint32_t id;
    bool is_held;         /* by a running request */
    hearth_token *tokens; /* [n_ctx] */
    uint32_t *cells;      /* [n_ctx], of hth_books.cells */
    uint32_t n_tokens;
    float *end_logits;      /* [n_vocab]; NULL: none kept yet */
    uint32_t end_logits_at; /* they follow this number of tokens; 0: none */

    /*
     * The stream has hashed n_keyed tokens. boundary_keys[i] is the key of the first i blocks, for i <= n_keyed /
     * HTH_BLOCK_TOKENS. During prefill n_keyed is ahead of n_tokens, because the lookup has hashed the whole prompt.
     */
    hth_key_stream *stream;
    hth_key *boundary_keys; /* [n_ctx / HTH_BLOCK_TOKENS + 1] */
    uint32_t n_keyed;
    hth_key end_key;                        /* of n_keyed tokens */
    hth_row_id stale[HTH_LOOKUP_STALE_MAX]; /* states of the prompt that the next saved end supersedes */
    size_t n_stale;
    bool has_tail; /* the latest tail that these tokens end with or continue is in the cache, as: */
    hth_row_id tail;
    uint32_t tail_begin;
    bool has_longer; /* the end of the prompt was found inside a row that may also hold the reply: */
    hth_row_id longer;
    uint32_t longer_begin;
    char *text; /* [ROW_TEXT_BYTES_MAX] if rows keep the text of their tokens; NULL before the first use */
};

enum { ROW_TEXT_BYTES_MAX = 1 << 16 };

/* ---- lookups ---- */

static hth_lookup_options lookup_options(const hth_workplace *place, size_t n_limit, bool read_cache)
{
    hth_lookup_options options = { .way = HTH_LOOKUP_KEYS, .n_window = place->n_window, .n_limit = n_limit };

    if (!read_cache || !place->cache)
        return options;
    switch (place->kind) {
    case HTH_MODEL_RECURRENT: options.way = HTH_LOOKUP_STATES; break;
    case HTH_MODEL_HYBRID: options.way = HTH_LOOKUP_CELLS_AND_STATES; break;
    case HTH_MODEL_UNCACHED: break;
    default: options.way = HTH_LOOKUP_CELLS; break;
    }
    return options;
}

hearth_status hth_prompt_lookup(const hth_workplace *workplace, const hth_keyspace *keyspace,
                                const hearth_token *prompt, size_t n_prompt, bool read_cache, hth_lookup *out,
                                hearth_error *err)
{
    hth_lookup_options options = lookup_options(workplace, n_prompt, read_cache);
    hth_key_stream *stream = hth_key_stream_new(keyspace);
    hearth_status status;

    if (!stream)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for looking up a prompt of %zu tokens", n_prompt);
    status = hth_lookup_init(out, workplace->cache, keyspace, stream, &options, prompt, n_prompt, err);
    hth_key_stream_free(stream);
    return status;
}

hearth_tier hth_prompt_lookup_tier(const hth_workplace *workplace, const hth_lookup *lookup)
{
    hearth_tier slowest = lookup->logits_tier;

    for (size_t i = 0; i < lookup->n_rows; i++) {
        hearth_tier tier = hth_cache_find(workplace->cache, &lookup->rows[i].meta.id, NULL);

        if (tier > slowest)
            slowest = tier;
    }
    return slowest;
}

/* ---- making ---- */

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

/* ---- cells ---- */

/* The engine can always empty a sequence (asserted). */
static void empty_engine(hth_sequence *sequence, uint32_t id)
{
    bool removed = sequence->place->backend->seq_remove(sequence->place->context, id, 0, UINT32_MAX);

    assert(removed);
    (void)removed; /* used only by the assertion */
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
    return hth_cells_count_held(sequence->books->cells, sequence->cells + n_tokens, sequence->n_tokens - n_tokens, 2);
}

uint32_t hth_sequence_shorten(hth_sequence *sequence, uint32_t n_tokens)
{
    if (n_tokens >= sequence->n_tokens && n_tokens > 0)
        return sequence->n_tokens;
    if (n_tokens > 0 && hth_sequence_can_be_shortened(sequence) &&
        sequence->place->backend->seq_remove(sequence->place->context, sequence->id, n_tokens, UINT32_MAX))
        note_shortened(sequence, n_tokens);
    else
        empty(sequence); /* even without tokens, because parts of a restore may be left */
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
    return hth_cells_count_held(sequence->books->cells, sequence->cells, n_tokens, 1);
}

/*
 * The engine has the cells of [sequence->n_tokens, end) in this sequence: append the tokens. tokens[0] is the first of
 * them.
 */
static void note_tokens(hth_sequence *sequence, const hearth_token *tokens, uint32_t end)
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

void hth_sequence_extend(hth_sequence *sequence, const hearth_token *tokens, uint32_t n)
{
    assert(n <= sequence->place->n_ctx - sequence->n_tokens);
    sequence->end_logits_at = 0;
    note_tokens(sequence, tokens, sequence->n_tokens + n);
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

/*
 * Note the whole tail that the prompt continues, which its own rows will supersede, and a longer row that contains its
 * end.
 */
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
    hth_lookup_options options = lookup_options(sequence->place, n_limit, read_cache);
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

/* Hash the tokens that have no key yet. Afterwards n_keyed >= n_tokens. */
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
        *out = (hth_key){ { 0 } }; /* out of memory: a key that matches nothing */
}

/*
 * ---- restore rows into a sequence, one after another ----
 *
 * With a sliding window, every row has cells of the window layers, because a prefix may end in any row. The context has
 * no room for all of them. So only the rows in the window at the end of the restored prefix restore theirs. Recurrent
 * state comes last, from its own row.
 */

enum { ROWS_NOTED = 4 }; /* the restored row, and the rows that are read ahead without waiting for a device */

/* Does a row that begins within the prompt have the key of its tokens? */
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
    empty_engine(sequence, sequence->books->scratch);
    return status;
}

/* Do the used tokens of a row match the prompt? So far, only the unverified index or memory says so. */
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

/* Check a borrowed row against the prompt and put it into the context. Reject or report it if that fails. */
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
        note_tokens(sequence, prompt + sequence->n_tokens, end);
    hth_cache_touch(cache, &row->meta.id, 1);
    return HTH_RESTORE_DONE;
}

/* The rows of lookup that reach beyond the current end and fit: [*first_out, *first_out + result). */
static size_t rows_to_restore(const hth_sequence *sequence, const hth_lookup *lookup, size_t *first_out)
{
    size_t first = 0, n = 0;

    while (first < lookup->n_rows &&
           lookup->rows[first].meta.first_position + lookup->rows[first].n_use <= sequence->n_tokens)
        first++; /* their cells are still in the context */
    while (first + n < lookup->n_rows &&
           lookup->rows[first + n].meta.first_position + lookup->rows[first + n].meta.n_tokens <=
               sequence->place->n_ctx)
        n++; /* all cells of a row must fit temporarily, even if only a part is used */
    *first_out = first;
    return n;
}

/* Report a row that could not be read, and return the result of the restore. */
static hth_restore_result row_not_read(hth_sequence *sequence, hearth_status status, const hth_lookup_row *rows,
                                       size_t n, const hearth_error *err)
{
    /* If one file is gone, others may be, too. Note all as gone, so that their cells are saved again. */
    for (size_t i = 0; status == HEARTH_NOT_FOUND && i < n; i++)
        hth_cache_note_gone(sequence->place->cache, &rows[i].meta.id);
    if (status == HEARTH_CORRUPT || status == HEARTH_NOT_FOUND) /* logged elsewhere, or normal */
        return HTH_RESTORE_ROW_LOST;
    hth_warn(sequence->place->log, "cache row not read, the prompt is computed instead: %s", err->message);
    return HTH_RESTORE_FAILED;
}

/*
 * If one row has a bad signature, the next rows probably have one, too. Set them aside now rather than one per request,
 * so that all recomputed rows can be saved. Stop at the first valid row.
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
    /* The engine decides whether the parts form a complete sequence. */
    if (result == HTH_RESTORE_DONE && place->backend->seq_end(place->context, sequence->id) != sequence->n_tokens)
        result = HTH_RESTORE_FAILED;
    if (result != HTH_RESTORE_DONE) {
        (void)hth_sequence_shorten(sequence, 0); /* empties it */
        *out = (hth_restored){ .tier = HEARTH_TIER_NONE };
    }
    return result;
}

/* Report to on_work the next row and the rows that are read ahead after it. */
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
    if (row->meta.n_tokens > hth_cells_n_unused(sequence->books->cells)) /* the whole row is needed temporarily */
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
        return false; /* one more evaluation gives them; the cache has reported a damaged row */
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

/*
 * ---- save parts of a sequence as rows ----
 *
 * To save cells, their range is copied to the scratch sequence, packed into a slab of the cache, and the scratch
 * sequence is emptied. An image contains the id of its sequence. All cells go through the same scratch sequence, so
 * identical cells give identical bytes.
 *
 * A block must be saved right after the evaluation that ends it; hth_sequence_save_block is called then.
 */

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
        return false; /* no room, which the cache counts */
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

/*
 * The text of a row's tokens, as much as fits. NULL if rows keep no text, which is the usual case, or if out of memory.
 */
static const char *text_of(hth_sequence *sequence, const hearth_token *tokens, size_t n_tokens, size_t *n_out)
{
    size_t n = 0;

    if (!sequence->place->keeps_text)
        return NULL;
    if (!sequence->text)
        sequence->text = malloc(ROW_TEXT_BYTES_MAX);
    for (size_t i = 0; sequence->text && i < n_tokens; i++) {
        size_t n_piece = 0;

        if (sequence->place->backend->piece(sequence->place->engine_model, tokens[i], true, sequence->text + n,
                                            ROW_TEXT_BYTES_MAX - n, &n_piece, NULL) != HEARTH_OK)
            break; /* the rest is left out */
        n += n_piece;
    }
    *n_out = n;
    return sequence->text;
}

/*
 * The tail that row id supersedes; NULL: none. With a model whose rows can be used in part, a longer row makes a tail
 * with the same beginning superfluous for every prompt.
 */
static const hth_row_id *superseded_by(hth_sequence *sequence, const hth_row_id *id, uint32_t begin)
{
    if (!sequence->has_tail || sequence->tail_begin != begin || hth_row_id_equal(&sequence->tail, id) ||
        !hth_sequence_can_be_shortened(sequence))
        return NULL;
    return &sequence->tail;
}

/* Does a longer row that can be used in part begin with the cells from begin to the current end? */
static bool is_in_longer(const hth_sequence *sequence, uint32_t begin)
{
    uint32_t n_tokens = sequence->n_tokens - begin;
    hearth_token theirs[HTH_BLOCK_TOKENS];

    if (!sequence->has_longer || sequence->longer_begin != begin || !hth_sequence_can_be_shortened(sequence))
        return false;
    return hth_cache_tokens(sequence->place->cache, &sequence->longer, theirs, HTH_BLOCK_TOKENS) > n_tokens &&
           memcmp(theirs, sequence->tokens + begin, n_tokens * sizeof(*theirs)) == 0;
}

static bool is_known(const hth_sequence *sequence, const hth_key *key, hth_row_kind kind)
{
    const hth_row_id id = { .key = *key, .kind = kind };

    return hth_cache_find(sequence->place->cache, &id, NULL) != HEARTH_TIER_NONE;
}

/* Is the block that ends at begin in the cache? Without it, a row after it would never be found. */
static bool has_parent(const hth_sequence *sequence, uint32_t begin)
{
    return begin == 0 || is_known(sequence, &sequence->boundary_keys[begin / HTH_BLOCK_TOKENS], HTH_ROW_BLOCK);
}

/* A row that begins at a position; its parent is the block before that. */
static hth_save save_of(const hth_sequence *sequence, const hth_row_id *id, uint32_t begin, hearth_save_reason reason)
{
    const hth_workplace *place = sequence->place;

    return (hth_save){
        .keyspace = &sequence->keyspace,
        .id = *id,
        .parent = sequence->boundary_keys[begin / HTH_BLOCK_TOKENS],
        .first_position = begin,
        .context_size = place->n_ctx,
        .reason = reason,
        .engine_build = place->engine_build,
        .model = place->model,
    };
}

/* Save the cells from the last block boundary before the current end as row id. False if that failed. */
static bool save_cells(hth_sequence *sequence, const hth_row_id *id, hearth_save_reason reason)
{
    const hth_workplace *place = sequence->place;
    uint32_t end = sequence->n_tokens;
    uint32_t begin = (end - 1) / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS;
    hth_save save = save_of(sequence, id, begin, reason);
    hearth_error err = { .message = "" };
    bool saved;

    save.tokens = sequence->tokens + begin;
    save.n_tokens = end - begin;
    save.superseded = superseded_by(sequence, id, begin);

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
        empty_engine(sequence, sequence->books->scratch);
    }
    if (saved) {
        sequence->has_tail = id->kind == HTH_ROW_TAIL;
        sequence->tail = *id;
        sequence->tail_begin = begin;
    }
    return saved;
}

/* Save the state after the current end, whose key is given. False if that failed. */
static bool save_state(hth_sequence *sequence, const hth_key *key, hearth_save_reason reason)
{
    const hth_row_id id = { .key = *key, .kind = HTH_ROW_STATE };
    hth_save save = save_of(sequence, &id, sequence->n_tokens, reason);

    return hth_cache_is_saved(sequence->place->cache, &id) || pack(sequence, sequence->id, HTH_STATE_REST, &save);
}

void hth_sequence_save_block(hth_sequence *sequence, hearth_save_reason reason)
{
    uint32_t end = sequence->n_tokens;
    hth_row_id id = { .kind = HTH_ROW_BLOCK };

    if (!is_cached(sequence) || sequence->books->cannot_save || end == 0 || end % HTH_BLOCK_TOKENS != 0)
        return;
    catch_up_keys(sequence);
    id.key = sequence->boundary_keys[end / HTH_BLOCK_TOKENS];
    if (has_blocks(sequence) && !save_cells(sequence, &id, reason))
        return;
    if (has_states(sequence) && !sequence->books->cannot_save &&
        hth_policy_should_save_state(end, &sequence->place->policy))
        (void)save_state(sequence, &id.key, reason); /* after a failure, the state at a later boundary serves as well */
}

/* Drop the states inside blocks that a later state supersedes, with the tails that only those states need. */
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

    if (!is_cached(sequence) || sequence->books->cannot_save || end == 0)
        return false;
    hth_sequence_key(sequence, &id.key);
    if (has_blocks(sequence)) {
        bool kept = end % HTH_BLOCK_TOKENS != 0 ? save_cells(sequence, &id, reason)
                                                : has_parent(sequence, end); /* the sequence ends with its last block */

        if (!kept || !has_states(sequence))
            return kept;
    }
    if (sequence->books->cannot_save || !save_state(sequence, &id.key, reason))
        return false;
    forget_stale(sequence);
    return true;
}

bool hth_sequence_end_is_saved(hth_sequence *sequence)
{
    uint32_t end = sequence->n_tokens;
    hth_key key;

    if (!is_cached(sequence) || end == 0)
        return false;
    hth_sequence_key(sequence, &key);
    if (has_states(sequence) && !is_known(sequence, &key, HTH_ROW_STATE))
        return false;
    if (!has_blocks(sequence))
        return true;
    return has_parent(sequence, end / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS) &&
           (end % HTH_BLOCK_TOKENS == 0 || is_known(sequence, &key, HTH_ROW_TAIL));
}

void hth_sequence_save_logits(hth_sequence *sequence, const float *logits, hearth_save_reason reason)
{
    const hth_workplace *place = sequence->place;
    hth_row_id id = { .kind = HTH_ROW_LOGITS };
    hth_save save;
    hth_slab *slab;

    if (!is_cached(sequence) || sequence->books->cannot_save)
        return;
    hth_sequence_key(sequence, &id.key);
    if (hth_cache_is_saved(place->cache, &id))
        return;
    save = save_of(sequence, &id, sequence->n_tokens, reason);
    save.parent = id.key;
    save.image_bytes = place->n_vocab * sizeof(float);
    slab = hth_cache_save_begin(place->cache, &save);
    if (!slab)
        return;
    for (size_t i = 0; i < place->n_vocab; i++)
        hth_put_f32(hth_slab_image(slab) + 4 * i, logits[i]);
    hth_cache_save_commit(place->cache, slab);
}
