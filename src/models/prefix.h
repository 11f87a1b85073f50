/*
 * prefix.h - save the rows of a prompt to a file, restore, warm, erase and pin them
 *
 * `hearth cache export` and `import` work with a key. These functions do the same with tokens, while the model serves.
 * They block on files and on the scheduler. Any thread that may block can call them, and calls may overlap. Tokens, the
 * salt of the caller and the salt of the model name a prefix. So no caller gets rows of another salt.
 *
 * The files are those of row_transfer.h, which exist for plain attention only. With other models, save and restore
 * return HEARTH_UNSUPPORTED; without a cache, or with a model that is not cached, all functions do. HEARTH_CANCELLED
 * once the model is unloaded. Outputs are written on success only. A path is used as it is, so it must not come from a
 * client.
 */
#ifndef HTH_MODELS_PREFIX_H
#define HTH_MODELS_PREFIX_H

#include "base/folder_room.h"
#include "cache/cache.h"
#include "models/model.h"

/* Wait until all rows that are being saved have their files. HEARTH_TIMED_OUT after 60 s. */
hearth_status hth_prefix_flush(hth_cache *cache, hearth_error *err);

typedef struct hth_prefix_saved {
    hth_key key;       /* of the leading tokens that are cached */
    uint32_t n_tokens; /* number of these tokens */
    size_t n_rows;     /* without the logits row */
    bool has_logits;
    uint64_t bytes; /* of the file */
} hth_prefix_saved;

/*
 * Write the cached rows of these tokens, n_tokens >= 1, to a file at path, and replace an old file. If some tokens are
 * in the context only, all finished sequences of the model are saved and emptied first. That takes at most 60 s; cells
 * that are not saved by then are not in the file. limits: of the folder of path; NULL: none. HEARTH_NOT_FOUND: none of
 * the tokens are cached. Others as hth_row_export.
 */
hearth_status hth_prefix_save(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                              uint32_t n_tokens, const char *path, const hth_folder_limits *limits,
                              hth_prefix_saved *out, hearth_error *err);

typedef struct hth_prefix_restored {
    hearth_token *tokens; /* [n_tokens], released with free */
    uint32_t n_tokens;
    uint64_t bytes; /* of the file */
} hth_prefix_restored;

/*
 * Put the rows of a file into the cache. HEARTH_MISUSE for a file of another model or salt, or of more tokens than the
 * context has. Others as hth_row_import.
 */
hearth_status hth_prefix_restore(hearth_model *model, const hth_prefix_owner *owner, const char *path,
                                 hth_prefix_restored *out, hearth_error *err);

/*
 * Verify the rows of these tokens, n_tokens >= 1, and the logits after the last one, and put them into the RAM tier.
 * *n_warm_out: the leading tokens that they cover. HEARTH_CORRUPT, HEARTH_NO_MEMORY (pinned rows leave no room),
 * HEARTH_IO.
 */
hearth_status hth_prefix_warm(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                              uint32_t n_tokens, uint32_t *n_warm_out, hearth_error *err);

/* *n_pinned_out: the length of the longest pinned prefix of these tokens; 0: none. Statuses as hth_prefix_warm. */
hearth_status hth_prefix_pinned(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                                uint32_t n_tokens, uint32_t *n_pinned_out, hearth_error *err);

/*
 * Remove the rows of these tokens from all tiers, and from finished sequences, except the rows of the first n_kept
 * tokens. Rows of prompts that differ earlier stay. Rows that stand on a removed row are not found any more, and age
 * out. A running request with these tokens keeps them and saves them again. *n_erased_out: the tokens that were cached
 * before and are not now. HEARTH_BUSY, HEARTH_NO_MEMORY, HEARTH_TIMED_OUT (a device takes no work for 60 s): some rows
 * may be gone.
 */
hearth_status hth_prefix_erase(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                               uint32_t n_tokens, uint32_t n_kept, uint32_t *n_erased_out, hearth_error *err);

/*
 * Pin the longest prefix of these tokens that has a row at its end: *key_out and *n_pinned_out. Waits for rows that are
 * being written. HEARTH_NOT_FOUND: there is none; HEARTH_TIMED_OUT; others as hth_cache_pin.
 */
hearth_status hth_prefix_pin(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                             uint32_t n_tokens, hth_key *key_out, uint32_t *n_pinned_out, hearth_error *err);
/* Unpin the longest pinned prefix of these tokens. HEARTH_NOT_FOUND: none is pinned. */
hearth_status hth_prefix_unpin(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                               uint32_t n_tokens, uint32_t *n_pinned_out, hearth_error *err);

#endif
