/*
 * prefix.h - save the rows of a prompt to a file, restore, warm, erase and pin them
 *
 * `hearth cache export` and `import` work with a key. These functions do the same with tokens, while the model serves.
 * They block on files and on the scheduler. Any thread that may block can call them, and calls may overlap. A prefix is
 * identified by tokens, the caller's salt and the model's salt. So no caller gets rows of another salt.
 *
 * The files are those of row_transfer.h, which exist only for plain attention. With other models, save and restore
 * return HEARTH_UNSUPPORTED; without a cache, or with a model that is not cached, all functions do. HEARTH_CANCELLED
 * once the model is unloaded. Outputs are written only on success. A path is used unchecked, so it must not come from a
 * client.
 */
#ifndef HTH_MODELS_PREFIX_H
#define HTH_MODELS_PREFIX_H

#include "base/folder_room.h"
#include "cache/cache.h"
#include "models/model.h"
#include "rows/prefix_tree.h"
#include "transfer/row_transfer.h"

/* Wait until all rows that are being saved are in files. HEARTH_TIMED_OUT after 60 s. */
hearth_status hth_prefix_flush(hth_cache *cache, hearth_error *err);

typedef struct hth_prefix_saved {
    hth_key key; /* of the leading tokens that are cached */
    hth_exported file;
} hth_prefix_saved;

/*
 * Write the cached rows of these tokens, n_tokens >= 1, to a file at path, replacing any old file. If some tokens are
 * only in the context, all finished sequences of the model are saved and emptied first. That takes at most 60 s; cells
 * that are not saved by then are not in the file. limits are those of path's directory; NULL: none. HEARTH_NOT_FOUND:
 * none of the tokens are cached. Other statuses as for hth_row_export.
 */
hearth_status hth_prefix_save(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                              uint32_t n_tokens, const char *path, const hth_folder_limits *limits,
                              hth_prefix_saved *out, hearth_error *err);

/*
 * Put the rows of a file into the cache; the caller frees out->tokens. HEARTH_MISUSE for a file of another model or
 * salt, or with more tokens than the context has room for. Other statuses as for hth_row_import.
 */
hearth_status hth_prefix_restore(hearth_model *model, const hth_prefix_owner *owner, const char *path,
                                 hth_imported *out, hearth_error *err);

/*
 * Verify the rows of these tokens, n_tokens >= 1, and the logits after the last one, and put them into the RAM tier.
 * *n_warm_out is the number of leading tokens that they cover. HEARTH_CORRUPT, HEARTH_NO_MEMORY (pinned rows leave no
 * room), HEARTH_IO.
 */
hearth_status hth_prefix_warm(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                              uint32_t n_tokens, uint32_t *n_warm_out, hearth_error *err);

/*
 * *n_pinned_out is the length of the longest pinned prefix of these tokens; 0: none. Statuses as for hth_prefix_warm.
 */
hearth_status hth_prefix_pinned(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                                uint32_t n_tokens, uint32_t *n_pinned_out, hearth_error *err);

/*
 * Remove the rows of these tokens from all tiers, and from finished sequences, except the rows of the first n_kept
 * tokens. Rows of prompts that diverge earlier stay. Rows that depend on a removed row are no longer found, and age
 * out. A running request with these tokens keeps them and saves them again. *n_erased_out is the number of tokens that
 * were cached before and are not now. After HEARTH_BUSY, HEARTH_NO_MEMORY or HEARTH_TIMED_OUT (a device made no
 * progress for 60 s), some rows may be gone.
 */
hearth_status hth_prefix_erase(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                               uint32_t n_tokens, uint32_t n_kept, uint32_t *n_erased_out, hearth_error *err);

/*
 * Pin the longest prefix of these tokens that ends with a row: *key_out and *n_pinned_out. Waits for rows that are
 * being written. HEARTH_NOT_FOUND: no such prefix; HEARTH_TIMED_OUT; other statuses as for hth_cache_pin.
 */
hearth_status hth_prefix_pin(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                             uint32_t n_tokens, hth_key *key_out, uint32_t *n_pinned_out, hearth_error *err);
/* Unpin the longest pinned prefix of these tokens. HEARTH_NOT_FOUND: none is pinned. */
hearth_status hth_prefix_unpin(hearth_model *model, const hth_prefix_owner *owner, const hearth_token *tokens,
                               uint32_t n_tokens, uint32_t *n_pinned_out, hearth_error *err);

/*
 * The n_max most used prefixes, and the number of rows. Rows of other models in the same directory count, too. Blocks
 * while indexes are read. Release *out with hth_prefix_tree_deinit. Statuses as for hearth_runtime_rows.
 */
hearth_status hth_used_prefixes(hearth_model *model, size_t n_max, hth_prefix_tree *out, size_t *n_rows_out,
                                hearth_error *err);

#endif
