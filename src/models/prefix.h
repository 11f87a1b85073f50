/*
 * prefix.h - a prompt's rows as a file, back into the cache, and away
 *
 * For the operator's and the client's hand on single prompts: what `hearth cache export` and `import` do with a key, done with
 * tokens while the model serves. All of it blocks, on files and on the scheduler, and belongs on no thread that others
 * wait for. A prefix is one of tokens under a salt, the model's own included: nobody gets at rows of another salt.
 *
 * Files are those of row_transfer.h, and so is what they hold: models of plain attention. Of others a save or a restore is
 * HEARTH_UNSUPPORTED, and so is everything without a cache or of a model that is not cached. HEARTH_CANCELLED once the
 * model is unloaded. What is out is written on success only. Any thread that may block; calls may overlap. A path is taken
 * as it is: it must not be a client's.
 */
#ifndef HTH_MODELS_PREFIX_H
#define HTH_MODELS_PREFIX_H

#include "cache/key.h"
#include "hearth.h"

typedef struct hth_prefix_saved {
    hth_key key;       /* names them */
    uint32_t n_tokens; /* as many of the leading tokens as are cached */
    size_t n_rows;     /* without that of the logits */
    bool has_logits;
    uint64_t bytes; /* of the file */
} hth_prefix_saved;

/*
 * Write what is cached of these tokens, n_tokens >= 1, into a file at path, which is replaced when it is there. What of them
 * is in the context alone is saved first: then all finished sequences of the model are saved and given up, which may take up
 * to 60 s, and what was not saved by then is not in the file. HEARTH_NOT_FOUND: nothing of them is cached. Others as hth_row_export.
 */
hearth_status hth_prefix_save(hearth_model *model, const char *cache_salt, const hearth_token *tokens,
                              uint32_t n_tokens, const char *path, hth_prefix_saved *out, hearth_error *err);

typedef struct hth_prefix_restored {
    hearth_token *tokens; /* [n_tokens], released with free */
    uint32_t n_tokens;
    uint64_t bytes; /* of the file */
} hth_prefix_restored;

/*
 * Put a file's rows into the cache. A file of another model or salt, or of more tokens than the context has, is
 * HEARTH_MISUSE. Others as hth_row_import.
 */
hearth_status hth_prefix_restore(hearth_model *model, const char *cache_salt, const char *path,
                                 hth_prefix_restored *out, hearth_error *err);

/*
 * Bring the rows that cover these tokens, n_tokens >= 1, and the logits after the last one into RAM, verified.
 * *n_warm_out: how many of the leading tokens they cover. HEARTH_CORRUPT, HEARTH_NO_MEMORY (pinned rows leave no room),
 * HEARTH_IO.
 */
hearth_status hth_prefix_warm(hearth_model *model, const char *cache_salt, const hearth_token *tokens,
                              uint32_t n_tokens, uint32_t *n_warm_out, hearth_error *err);

/*
 * How many of the leading tokens the longest pinned prefix of them has; 0: none is pinned. Statuses as hth_prefix_warm.
 */
hearth_status hth_prefix_pinned(hearth_model *model, const char *cache_salt, const hearth_token *tokens,
                                uint32_t n_tokens, uint32_t *n_pinned_out, hearth_error *err);

/*
 * Take these tokens out of the cache, in all its tiers, and out of finished sequences, but for the first n_kept of them. Rows of
 * prompts that part from them earlier stay; those that stand on a row that goes are not found any more and age out.
 * A running request that has these tokens keeps them and saves them again. *n_erased_out: how many of the tokens were
 * cached before and are not now. HEARTH_BUSY, HEARTH_NO_MEMORY, HEARTH_TIMED_OUT (a device takes no work for 60 s): some
 * rows may be gone.
 */
hearth_status hth_prefix_erase(hearth_model *model, const char *cache_salt, const hearth_token *tokens,
                               uint32_t n_tokens, uint32_t n_kept, uint32_t *n_erased_out, hearth_error *err);

/*
 * Pin the longest prefix of these tokens at whose end a row is: *key_out and *n_pinned_out. What is being stored is
 * waited for. HEARTH_NOT_FOUND: there is none; HEARTH_TIMED_OUT; others as hth_cache_pin.
 */
hearth_status hth_prefix_pin(hearth_model *model, const char *cache_salt, const hearth_token *tokens, uint32_t n_tokens,
                             hth_key *key_out, uint32_t *n_pinned_out, hearth_error *err);
/* Unpin the longest prefix of these tokens that is pinned. HEARTH_NOT_FOUND: none is. */
hearth_status hth_prefix_unpin(hearth_model *model, const char *cache_salt, const hearth_token *tokens,
                               uint32_t n_tokens, uint32_t *n_pinned_out, hearth_error *err);

#endif
