#include "models/prefix.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "cache/read_ahead.h"
#include "models/model_inside.h"
#include "sched/sequence.h"

enum {
    SAVE_MS = 60000,
    SAVE_TRIES = 8,   /* retries if a row was removed before it was read */
    FORGET_ROWS = 64, /* rows between two waits for the writers; fewer than a cache remembers as gone (rejected.c) */
};

static hearth_status check_has_cache(const hearth_model *model, hearth_error *err)
{
    if (!model->place.cache)
        return hth_fail(err, HEARTH_UNSUPPORTED, "there is no cache (--no-cache), so nothing of a prompt is kept");
    if (model->place.kind == HTH_MODEL_UNCACHED)
        return hth_fail(err, HEARTH_UNSUPPORTED, "nothing of this kind of model is cached");
    return HEARTH_OK;
}

/* The tokens of an owner's prefix, in a model that was entered. */
typedef struct prefix {
    hearth_model *model;
    hth_cache *cache;
    hth_keyspace keyspace;
    const hearth_token *tokens; /* [n_tokens] */
    uint32_t n_tokens;
} prefix;

/* Enter the model; ends with hth_model_leave. */
static hearth_status enter(hearth_model *model, const char *function, const hth_prefix_owner *owner,
                           const hearth_token *tokens, uint32_t n_tokens, prefix *out, hearth_error *err)
{
    hearth_status status = hth_model_enter(model, function, err);

    if (status != HEARTH_OK)
        return status;
    *out = (prefix){ .model = model, .cache = model->place.cache, .tokens = tokens, .n_tokens = n_tokens };
    status = check_has_cache(model, err);
    if (status == HEARTH_OK)
        status = hth_model_request_keyspace(model, owner, &out->keyspace, err);
    if (status != HEARTH_OK)
        hth_model_leave(model);
    return status;
}

/* Look the prefix up, in place of an earlier result. */
static hearth_status look_up(const prefix *p, hth_lookup *lookup, hearth_error *err)
{
    hth_lookup_deinit(lookup);
    return hth_prompt_lookup(&p->model->place, &p->keyspace, p->tokens, p->n_tokens, true, lookup, err);
}

/* ---- save to a file ---- */

static hearth_status export(const prefix *p, const hth_lookup *lookup, const char *path,
                            const hth_folder_limits *limits, hth_prefix_saved *out, hearth_error *err)
{
    hth_export_options options = {
        .replace = true,
        .n_tokens = lookup->n_cached,
        .signing_key = hth_cache_signing_key(p->cache),
        .limits = limits,
    };
    hth_prefix_saved saved;
    hearth_status status;

    if (lookup->n_cached == 0)
        return hth_fail(err, HEARTH_NOT_FOUND, "nothing of the prompt is cached any more");
    if (!hth_key_of(&p->keyspace, p->tokens, lookup->n_cached, &saved.key))
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a key");
    status = hth_row_export_cached(p->cache, &p->keyspace, &lookup->rows[lookup->n_rows - 1].meta.id.key, &saved.key,
                                   path, &options, &saved.file, err);
    if (status == HEARTH_OK)
        *out = saved;
    return status;
}

static hearth_status check_is_plain(const hearth_model *model, hearth_error *err)
{
    if (model->place.kind == HTH_MODEL_PLAIN)
        return HEARTH_OK;
    return hth_fail(err, HEARTH_UNSUPPORTED,
                    "the rows of this model cannot be joined into a file: its attention has a window, or it has "
                    "recurrent layers; the cache's own directory keeps them all the same");
}

hearth_status hth_prefix_save(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                              uint32_t n_tokens, const char *path, const hth_folder_limits *limits,
                              hth_prefix_saved *out, hearth_error *err)
{
    hth_lookup lookup = { .n_rows = 0 };
    prefix p;
    hearth_status status = enter(model, "hth_prefix_save", owner, tokens, n_tokens, &p, err);

    if (status != HEARTH_OK)
        return status;
    status = check_is_plain(model, err);
    if (status == HEARTH_OK)
        status = look_up(&p, &lookup, err);
    if (status == HEARTH_OK && lookup.n_cached < n_tokens) {
        /* Cells that the policy does not save, or that no device has room for, are not in the file. */
        (void)hth_scheduler_save(model->scheduler, HEARTH_SAVE_EVICT, SAVE_MS, NULL);
        status = look_up(&p, &lookup, err);
    }
    /*
     * A row may be removed between the lookup and its export: the writer removes a tail that a longer row supersedes.
     * The next lookup finds the longer row, which has the same tokens, or the rest of the prompt.
     */
    for (unsigned i = 1; status == HEARTH_OK; i++) {
        status = export(&p, &lookup, path, limits, out, err);
        if (status != HEARTH_NOT_FOUND || lookup.n_cached == 0 || i == SAVE_TRIES)
            break;
        status = look_up(&p, &lookup, err);
    }
    hth_lookup_deinit(&lookup);
    hth_model_leave(model);
    return status;
}

/* ---- restore from a file ---- */

hearth_status hth_prefix_restore(hearth_model *model, const hth_prefix_owner *owner, const char *path,
                                 hth_imported *out, hearth_error *err)
{
    prefix p;
    hearth_status status = enter(model, "hth_prefix_restore", owner, NULL, 0, &p, err);
    hth_import_options options = { .keeps_tokens = true, .keyspace = &p.keyspace };
    hth_imported imported;

    if (status != HEARTH_OK)
        return status;
    options.n_tokens_max = model->place.n_ctx;
    options.signing_key = hth_cache_signing_key(p.cache);
    status = check_is_plain(model, err);
    if (status == HEARTH_OK) {
        status = hth_row_import_cached(p.cache, path, &options, &imported, err);
        if (status == HEARTH_UNSUPPORTED) { /* the file does not fit the model */
            status = HEARTH_MISUSE;
            if (err)
                err->status = status;
        }
    }
    hth_model_leave(model);
    if (status == HEARTH_OK)
        *out = imported;
    return status;
}

/* ---- warm ---- */

/* A row that is removed after the lookup is not an error: fewer tokens are then warm. */
static hearth_status warm(const prefix *p, const hth_lookup *lookup, uint32_t *n_warm_out, hearth_error *err)
{
    hth_read_ahead *ahead = hth_read_ahead_begin(p->cache, &p->keyspace, lookup->rows, lookup->n_rows);
    hearth_status status = ahead ? HEARTH_OK : hth_fail(err, HEARTH_NO_MEMORY, "no memory to read a prompt's rows");
    hth_row_meta logits = { .id = { .key = lookup->prompt_key, .kind = HTH_ROW_LOGITS } };
    hth_borrowed_row row;
    uint32_t n_warm = 0;

    for (size_t i = 0; i < lookup->n_rows && status == HEARTH_OK; i++) {
        status = hth_read_ahead_next(ahead, &row, err);
        if (status != HEARTH_OK)
            break;
        hth_cache_return_unused(p->cache, &row);
        n_warm += lookup->rows[i].n_use;
    }
    hth_read_ahead_end(ahead);
    if (status == HEARTH_OK && hth_cache_find(p->cache, &logits.id, &logits) != HEARTH_TIER_NONE) {
        status = hth_cache_borrow(p->cache, &p->keyspace, &logits, &row, err);
        if (status == HEARTH_OK)
            hth_cache_return_unused(p->cache, &row);
    }
    if (status != HEARTH_OK && status != HEARTH_NOT_FOUND)
        return status;
    *n_warm_out = n_warm;
    return HEARTH_OK;
}

hearth_status hth_prefix_warm(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                              uint32_t n_tokens, uint32_t *n_warm_out, hearth_error *err)
{
    prefix p;
    hearth_status status = enter(model, "hth_prefix_warm", owner, tokens, n_tokens, &p, err);
    hth_lookup lookup = { .n_rows = 0 };

    if (status != HEARTH_OK)
        return status;
    status = look_up(&p, &lookup, err);
    if (status == HEARTH_OK)
        status = warm(&p, &lookup, n_warm_out, err);
    hth_lookup_deinit(&lookup);
    hth_model_leave(model);
    return status;
}

hearth_status hth_prefix_flush(hth_cache *cache, hearth_error *err)
{
    if (hth_cache_flush(cache, SAVE_MS))
        return HEARTH_OK;
    return hth_fail(err, HEARTH_TIMED_OUT,
                    "the rows that are being saved did not all reach their files within %d s; try again",
                    SAVE_MS / 1000);
}

/* ---- erase ---- */

/* The found rows, from the beginning of a prompt to its end. */
typedef struct found_rows {
    hth_row_id *ids; /* [n] */
    size_t n, capacity;
} found_rows;

static bool add_found(found_rows *rows, const hth_row_id *id)
{
    hth_row_id *ids = (hth_row_id *)hth_grown(rows->ids, rows->n, &rows->capacity, sizeof(*ids));

    if (!ids)
        return false;
    rows->ids = ids;
    rows->ids[rows->n++] = *id;
    return true;
}

/*
 * A row may end at any position: a tail ends with a turn, and logits remain where a prompt ended even after its tail
 * was superseded. So check every position.
 */
static hearth_status find_rows(const prefix *p, uint32_t n_kept, found_rows *out, hearth_error *err)
{
    hth_key_stream *stream = hth_key_stream_new(&p->keyspace);
    bool ok = stream != NULL;

    for (uint32_t end = 1; ok && end <= p->n_tokens; end++) {
        hth_row_id id;

        hth_key_stream_push(stream, &p->tokens[end - 1], 1);
        if (end <= n_kept)
            continue;
        hth_key_stream_key(stream, &id.key);
        for (int kind = 0; ok && kind < HTH_ROW_KINDS; kind++) {
            id.kind = (hth_row_kind)kind;
            if (kind != HTH_ROW_BLOCK || end % HTH_BLOCK_TOKENS == 0)
                ok = hth_cache_find(p->cache, &id, NULL) == HEARTH_TIER_NONE || add_found(out, &id);
        }
    }
    hth_key_stream_free(stream);
    return ok ? HEARTH_OK : hth_fail(err, HEARTH_NO_MEMORY, "no memory to erase a prompt");
}

/* Release the cells of these tokens, so that erased rows do not come back. */
static hearth_status forget(const prefix *p, uint32_t n_kept, hearth_error *err)
{
    const uint8_t *fingerprint = p->keyspace.fingerprint;
    hearth_status status = hth_scheduler_forget(p->model->scheduler, fingerprint, p->tokens, p->n_tokens, n_kept, err);

    if (status == HEARTH_OK)
        hth_embedder_forget(p->model->embedder, fingerprint, p->tokens, p->n_tokens, n_kept);
    return status == HEARTH_OK ? hth_prefix_flush(p->cache, err) : status;
}

/* Remove rows before the rows that they depend on. After a timeout the rest stays. */
static hearth_status erase_rows(const prefix *p, uint32_t n_kept, hearth_error *err)
{
    found_rows rows = { .ids = NULL };
    hearth_status status = find_rows(p, n_kept, &rows, err);

    for (size_t i = rows.n; status == HEARTH_OK && i-- > 0;) {
        status = hth_cache_unpin_to_remove(p->cache, &rows.ids[i].key, err);
        if (status != HEARTH_OK)
            break;
        hth_cache_forget(p->cache, &rows.ids[i]);
        if (i % FORGET_ROWS == 0 && !hth_cache_flush(p->cache, SAVE_MS))
            status = hth_fail(err, HEARTH_TIMED_OUT, "not all rows were erased within %d s", SAVE_MS / 1000);
    }
    free(rows.ids);
    return status;
}

/* The rows of the draft model. */
static hearth_status erase_drafts(const prefix *p, uint32_t n_kept, hearth_error *err)
{
    prefix drafts = *p;
    hearth_status status;

    if (!p->model->draft)
        return HEARTH_OK;
    hth_draft_model_keyspace(&p->model->draft->place, &p->keyspace, &drafts.keyspace);
    status = forget(&drafts, n_kept, err);
    return status == HEARTH_OK ? erase_rows(&drafts, n_kept, err) : status;
}

hearth_status hth_prefix_erase(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                               uint32_t n_tokens, uint32_t n_kept, uint32_t *n_erased_out, hearth_error *err)
{
    hth_lookup before = { .n_rows = 0 }, after = { .n_rows = 0 };
    prefix p;
    hearth_status status = enter(model, "hth_prefix_erase", owner, tokens, n_tokens, &p, err);

    if (status != HEARTH_OK)
        return status;
    status = forget(&p, n_kept, err);
    if (status == HEARTH_OK)
        status = look_up(&p, &before, err);
    if (status == HEARTH_OK && n_kept < n_tokens)
        status = erase_rows(&p, n_kept, err);
    if (status == HEARTH_OK && n_kept < n_tokens)
        status = erase_drafts(&p, n_kept, err);
    if (status == HEARTH_OK)
        status = look_up(&p, &after, err);
    if (status == HEARTH_OK)
        *n_erased_out = before.n_cached > after.n_cached ? before.n_cached - after.n_cached : 0;
    hth_lookup_deinit(&before);
    hth_lookup_deinit(&after);
    hth_model_leave(model);
    return status;
}

/* ---- pin ---- */

/* The longest prefix of these tokens with a row at its end, and its length. */
static hearth_status find_end(const prefix *p, hth_key *key_out, uint32_t *n_out, hearth_error *err)
{
    found_rows rows = { .ids = NULL };
    hearth_status status = find_rows(p, 0, &rows, err);
    hth_row_meta row = { .n_tokens = 0 };
    size_t i = rows.n;

    while (i > 0 && (rows.ids[i - 1].kind == HTH_ROW_LOGITS ||
                     hth_cache_find(p->cache, &rows.ids[i - 1], &row) == HEARTH_TIER_NONE))
        i--;
    if (status == HEARTH_OK && i == 0)
        status = hth_fail(err, HEARTH_NOT_FOUND, "no row ends inside the prompt; ask for the prompt alone first");
    if (status == HEARTH_OK) {
        *key_out = row.id.key;
        *n_out = row.first_position + row.n_tokens;
    }
    free(rows.ids);
    return status;
}

hearth_status hth_prefix_pin(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                             uint32_t n_tokens, hth_key *key_out, uint32_t *n_pinned_out, hearth_error *err)
{
    prefix p;
    hearth_status status = enter(model, "hth_prefix_pin", owner, tokens, n_tokens, &p, err);
    hth_key key;
    uint32_t n = 0;

    if (status != HEARTH_OK)
        return status;
    status = hth_prefix_flush(p.cache, err); /* a row that has no file yet cannot be pinned */
    if (status == HEARTH_OK)
        status = find_end(&p, &key, &n, err);
    if (status == HEARTH_OK)
        status = hth_cache_pin(p.cache, &key, err);
    hth_model_leave(model);
    if (status == HEARTH_OK) {
        *key_out = key;
        *n_pinned_out = n;
    }
    return status;
}

/* The longest pinned prefix, and its length; 0: none. */
static hearth_status find_pinned(const prefix *p, hth_key *key_out, uint32_t *n_out, hearth_error *err)
{
    hth_key_stream *stream = hth_key_stream_new(&p->keyspace);
    hth_key key;

    *n_out = 0;
    if (!stream)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to look for a pin");
    for (uint32_t end = 1; end <= p->n_tokens; end++) {
        hth_key_stream_push(stream, &p->tokens[end - 1], 1);
        hth_key_stream_key(stream, &key);
        if (hth_cache_is_pinned(p->cache, &key)) {
            *key_out = key;
            *n_out = end;
        }
    }
    hth_key_stream_free(stream);
    return HEARTH_OK;
}

hearth_status hth_prefix_pinned(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                                uint32_t n_tokens, uint32_t *n_pinned_out, hearth_error *err)
{
    prefix p;
    hearth_status status = enter(model, "hth_prefix_pinned", owner, tokens, n_tokens, &p, err);
    hth_key key;

    if (status != HEARTH_OK)
        return status;
    status = find_pinned(&p, &key, n_pinned_out, err);
    hth_model_leave(model);
    return status;
}

hearth_status hth_prefix_unpin(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                               uint32_t n_tokens, uint32_t *n_pinned_out, hearth_error *err)
{
    prefix p;
    hearth_status status = enter(model, "hth_prefix_unpin", owner, tokens, n_tokens, &p, err);
    uint32_t n = 0;
    hth_key key;

    if (status != HEARTH_OK)
        return status;
    status = find_pinned(&p, &key, &n, err);
    if (status == HEARTH_OK && n == 0)
        status = hth_fail(err, HEARTH_NOT_FOUND, "no prefix of the prompt is pinned");
    if (status == HEARTH_OK)
        status = hth_cache_unpin(p.cache, &key, err);
    hth_model_leave(model);
    if (status == HEARTH_OK)
        *n_pinned_out = n;
    return status;
}

/* ---- the most used ---- */

static bool add_row(const hth_cache_row *row, void *user_data)
{
    return hth_row_list_add(user_data, &row->meta);
}

hearth_status hth_used_prefixes(hearth_model *model, size_t n_max, hth_prefix_tree *out, size_t *n_rows_out,
                                hearth_error *err)
{
    hth_cache *cache = hth_runtime_cache(model->runtime);
    hth_row_list list = { .rows = NULL };
    hearth_status status = cache ? hth_cache_rows(cache, add_row, &list, err) : HEARTH_OK;

    if (status == HEARTH_OK && list.out_of_memory)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory to list the rows");
    if (status == HEARTH_OK)
        status = hth_prefix_tree_init(out, list.rows, list.n, n_max, err);
    if (status == HEARTH_OK)
        *n_rows_out = list.n;
    free(list.rows);
    return status;
}
