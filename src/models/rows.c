/*
 * rows.c - the public functions that export, import, remove, warm and pin rows
 *
 * Functions with a key use the cache, which has rows of any model. Functions with a prompt call prefix.h with the
 * tokens of the request.
 */
#include <string.h>

#include "base/structs.h"
#include "models/model_inside.h"
#include "models/prefix.h"
#include "rows/chain.h"
#include "transfer/row_transfer.h"

/* ---- checks and results ---- */

static hearth_status check(hearth_runtime *runtime, const void *argument, const char *function, hth_cache **out,
                           hearth_error *err)
{
    if (!runtime || !argument)
        return hth_fail(err, HEARTH_MISUSE, "%s: runtime, key or path is NULL", function);
    *out = hth_runtime_cache(runtime);
    if (!*out)
        return hth_fail(err, HEARTH_UNSUPPORTED, "the runtime has no cache (cache_disabled), so there are no rows");
    return HEARTH_OK;
}

/* The same for functions with a key. */
static hearth_status check_key(hearth_runtime *runtime, const uint8_t key[HTH_KEY_BYTES], const char *function,
                               hth_cache **out, hth_key *key_out, hearth_error *err)
{
    hearth_status status = check(runtime, key, function, out, err);

    if (status == HEARTH_OK) /* the key is not NULL: NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
        memcpy(key_out->bytes, key, sizeof(key_out->bytes));
    return status;
}

static hearth_status check_transfer(const hearth_transfer *out, const char *function, hearth_error *err)
{
    if (out && out->struct_size < sizeof(size_t))
        return hth_fail(err, HEARTH_MISUSE, "%s: set out->struct_size to sizeof(hearth_transfer)", function);
    return HEARTH_OK;
}

static void tell(hearth_transfer *out, hearth_transfer values, const hth_key *key)
{
    if (!out)
        return;
    memcpy(values.key, key->bytes, sizeof(values.key));
    hth_struct_write(out, &values, sizeof(values));
}

static void tell_exported(hearth_transfer *out, const hth_exported *exported, const hth_key *key)
{
    tell(out,
         (hearth_transfer){ .n_tokens = exported->n_tokens,
                            .n_rows = (uint32_t)exported->n_rows,
                            .has_logits = exported->has_logits,
                            .bytes = exported->bytes },
         key);
}

static bool find(const hth_row_id *id, hth_row_meta *out, void *user_data)
{
    return hth_cache_find(user_data, id, out) != HEARTH_TIER_NONE;
}

/* ---- by key ---- */

/* The keyspace in the head of a row. Reading the head puts the row into RAM. */
static hearth_status keyspace_of(hth_cache *cache, const hth_row_meta *meta, hth_keyspace *out, hearth_error *err)
{
    hth_borrowed_row row;
    hearth_status status = hth_cache_borrow(cache, NULL, meta, &row, err);

    if (status != HEARTH_OK)
        return status;
    *out = row.info.keyspace;
    hth_cache_return_unused(cache, &row);
    return HEARTH_OK;
}

hearth_status hearth_runtime_export(hearth_runtime *runtime, const uint8_t key[32], const char *path,
                                    hearth_transfer *out, hearth_error *err)
{
    hth_export_options options = { .replace = true };
    hth_cache *cache = NULL;
    hth_key name;
    hearth_status status = check_key(runtime, path ? key : NULL, "hearth_runtime_export", &cache, &name, err);
    hth_chain chain = { .rows = NULL };
    hth_exported exported;
    hth_keyspace keyspace;

    if (status == HEARTH_OK)
        status = check_transfer(out, "hearth_runtime_export", err);
    if (status != HEARTH_OK)
        return status;
    options.signing_key = hth_cache_signing_key(cache);
    status = hth_chain_find(&name, find, cache, &chain, err);
    if (status == HEARTH_OK)
        status = keyspace_of(cache, &chain.rows[0], &keyspace, err);
    if (status == HEARTH_OK)
        status = hth_row_export_cached(cache, &keyspace, &name, &name, path, &options, &exported, err);
    hth_chain_deinit(&chain);
    if (status == HEARTH_OK)
        tell_exported(out, &exported, &name);
    return status;
}

hearth_status hearth_runtime_import(hearth_runtime *runtime, const char *path, hearth_transfer *out, hearth_error *err)
{
    hth_import_options options = { .keyspace = NULL };
    hth_cache *cache = NULL;
    hearth_status status = check(runtime, path, "hearth_runtime_import", &cache, err);
    hth_imported imported;

    if (status == HEARTH_OK)
        status = check_transfer(out, "hearth_runtime_import", err);
    if (status != HEARTH_OK)
        return status;
    options.signing_key = hth_cache_signing_key(cache);
    status = hth_row_import_cached(cache, path, &options, &imported, err);
    if (status == HEARTH_OK)
        tell(out,
             (hearth_transfer){ .n_tokens = imported.n_tokens,
                                .n_rows = (uint32_t)imported.n_rows,
                                .n_new = (uint32_t)imported.n_published,
                                .has_logits = imported.has_logits,
                                .bytes = imported.bytes },
             &imported.key);
    return status;
}

hearth_status hearth_runtime_remove(hearth_runtime *runtime, const uint8_t key[32], uint32_t *n_rows_out,
                                    hearth_error *err)
{
    hth_cache *cache = NULL;
    hth_row_id id;
    hearth_status status = check_key(runtime, key, "hearth_runtime_remove", &cache, &id.key, err);
    uint32_t n_rows = 0;

    /* Otherwise a row that is still being saved would come back. */
    if (status == HEARTH_OK)
        status = hth_prefix_flush(cache, err);
    if (status != HEARTH_OK)
        return status;
    for (int kind = 0; kind < HTH_ROW_KINDS; kind++) {
        id.kind = (hth_row_kind)kind;
        if (hth_cache_find(cache, &id, NULL) == HEARTH_TIER_NONE)
            continue;
        status = hth_cache_unpin_to_remove(cache, &id.key, err);
        if (status != HEARTH_OK)
            return status;
        hth_cache_forget(cache, &id);
        n_rows++;
    }
    if (n_rows == 0)
        return hth_fail(err, HEARTH_NOT_FOUND, "no row of the cache ends that prefix; hearth_runtime_rows lists them");
    status = hth_prefix_flush(cache, err);
    if (status == HEARTH_OK && n_rows_out)
        *n_rows_out = n_rows;
    return status;
}

hearth_status hearth_runtime_warm(hearth_runtime *runtime, const uint8_t key[32], uint32_t *n_rows_out,
                                  hearth_error *err)
{
    hth_cache *cache = NULL;
    hth_key name;
    hearth_status status = check_key(runtime, key, "hearth_runtime_warm", &cache, &name, err);
    hth_chain chain = { .rows = NULL };
    hth_keyspace keyspace;

    if (status != HEARTH_OK)
        return status;
    status = hth_chain_find(&name, find, cache, &chain, err);
    for (size_t i = 0; status == HEARTH_OK && i < chain.n; i++) {
        hth_borrowed_row row;

        status = hth_cache_borrow(cache, i > 0 ? &keyspace : NULL, &chain.rows[i], &row, err);
        if (status != HEARTH_OK)
            break;
        keyspace = row.info.keyspace;
        hth_cache_return_unused(cache, &row);
    }
    if (status == HEARTH_OK && n_rows_out)
        *n_rows_out = (uint32_t)chain.n;
    hth_chain_deinit(&chain);
    return status;
}

/* A row that has no file yet cannot be pinned. */
hearth_status hearth_runtime_pin(hearth_runtime *runtime, const uint8_t key[32], hearth_error *err)
{
    hth_cache *cache = NULL;
    hth_key name;
    hearth_status status = check_key(runtime, key, "hearth_runtime_pin", &cache, &name, err);

    if (status == HEARTH_OK)
        status = hth_prefix_flush(cache, err);
    return status == HEARTH_OK ? hth_cache_pin(cache, &name, err) : status;
}

hearth_status hearth_runtime_unpin(hearth_runtime *runtime, const uint8_t key[32], hearth_error *err)
{
    hth_cache *cache = NULL;
    hth_key name;
    hearth_status status = check_key(runtime, key, "hearth_runtime_unpin", &cache, &name, err);

    return status == HEARTH_OK ? hth_cache_unpin(cache, &name, err) : status;
}

/* ---- by prompt ---- */

hearth_status hearth_prompt_export(hearth_model *model, const hearth_request *request, const char *path,
                                   hearth_transfer *out, hearth_error *err)
{
    hth_prefix_saved saved;
    hth_model_prompt prompt;
    hearth_status status;

    if (!path)
        return hth_fail(err, HEARTH_MISUSE, "hearth_prompt_export: path is NULL");
    status = check_transfer(out, "hearth_prompt_export", err);
    if (status == HEARTH_OK)
        status = hth_model_prompt_take(model, request, "hearth_prompt_export", &prompt, err);
    if (status != HEARTH_OK)
        return status;
    status = hth_prefix_save(model, &prompt.owner, prompt.tokens, (uint32_t)prompt.n_tokens, path, NULL, &saved, err);
    hth_model_prompt_give_back(model, &prompt);
    if (status == HEARTH_OK)
        tell_exported(out, &saved.file, &saved.key);
    return status;
}

/* An operation on the prefix of a prompt. *n_tokens_out is its length. */
typedef hearth_status (*prefix_fn)(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                                   uint32_t n_tokens, uint32_t *n_tokens_out, hearth_error *err);

static hearth_status with_prompt(hearth_model *model, const hearth_request *request, const char *function,
                                 prefix_fn act, uint32_t *n_tokens_out, hearth_error *err)
{
    hth_model_prompt prompt;
    hearth_status status = hth_model_prompt_take(model, request, function, &prompt, err);
    uint32_t n_tokens = 0;

    if (status != HEARTH_OK)
        return status;
    status = act(model, &prompt.owner, prompt.tokens, (uint32_t)prompt.n_tokens, &n_tokens, err);
    hth_model_prompt_give_back(model, &prompt);
    if (status == HEARTH_OK && n_tokens_out)
        *n_tokens_out = n_tokens;
    return status;
}

static hearth_status erase_all(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                               uint32_t n_tokens, uint32_t *n_tokens_out, hearth_error *err)
{
    return hth_prefix_erase(model, owner, tokens, n_tokens, 0, n_tokens_out, err);
}

hearth_status hearth_prompt_remove(hearth_model *model, const hearth_request *request, uint32_t *n_tokens_out,
                                   hearth_error *err)
{
    return with_prompt(model, request, "hearth_prompt_remove", erase_all, n_tokens_out, err);
}

hearth_status hearth_prompt_warm(hearth_model *model, const hearth_request *request, uint32_t *n_tokens_out,
                                 hearth_error *err)
{
    return with_prompt(model, request, "hearth_prompt_warm", hth_prefix_warm, n_tokens_out, err);
}

hearth_status hearth_prompt_pin(hearth_model *model, const hearth_request *request, uint8_t key_out[32],
                                uint32_t *n_tokens_out, hearth_error *err)
{
    hth_model_prompt prompt;
    hearth_status status = hth_model_prompt_take(model, request, "hearth_prompt_pin", &prompt, err);
    uint32_t n_tokens = 0;
    hth_key key;

    if (status != HEARTH_OK)
        return status;
    status = hth_prefix_pin(model, &prompt.owner, prompt.tokens, (uint32_t)prompt.n_tokens, &key, &n_tokens, err);
    hth_model_prompt_give_back(model, &prompt);
    if (status == HEARTH_OK && key_out)
        memcpy(key_out, key.bytes, sizeof(key.bytes));
    if (status == HEARTH_OK && n_tokens_out)
        *n_tokens_out = n_tokens;
    return status;
}

hearth_status hearth_prompt_unpin(hearth_model *model, const hearth_request *request, uint32_t *n_tokens_out,
                                  hearth_error *err)
{
    return with_prompt(model, request, "hearth_prompt_unpin", hth_prefix_unpin, n_tokens_out, err);
}
