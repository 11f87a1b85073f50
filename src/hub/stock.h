/*
 * stock.h - the models in the cache: list and remove them
 */
#ifndef HTH_HUB_STOCK_H
#define HTH_HUB_STOCK_H

#include "hub/choice.h"
#include "hub/shelf.h"

enum { HTH_HUB_NAME_BYTES = HTH_HUB_REPO_BYTES + HTH_HUB_PATH_BYTES };

typedef struct hth_hub_model {
    char name[HTH_HUB_NAME_BYTES];   /* "OWNER/REPO:QUANT", or "OWNER/REPO:PATH" if the quant is ambiguous */
    char quant[HTH_HUB_QUANT_BYTES]; /* "": the file name has none */
    char path[PATH_MAX];             /* of its file, or of its first part, in the latest snapshot that has it */
    uint64_t bytes;                  /* of all parts */
    uint64_t used;                   /* Unix seconds: when the file was last read, as far as its file system records */
} hth_hub_model;

/* The models of the cache, sorted by name, [*n_out], which the caller frees. HEARTH_NO_MEMORY. Blocks. */
hearth_status hth_hub_models_read(const char *cache, hth_hub_model **out, size_t *n_out, hearth_error *err);

/*
 * Remove a model by its full name: its links in all snapshots, the blobs that nothing else refers to, and directories
 * that are then empty. *n_out is the number of bytes freed. A blob is kept if anything else may refer to it.
 * HEARTH_NOT_FOUND: there is no such model. HEARTH_BUSY: a blob is kept, because another process downloads or links it.
 * HEARTH_IO, HEARTH_PERMISSION: part of it may be removed.
 */
hearth_status hth_hub_model_remove(const char *cache, const char *name, uint64_t *n_out, hearth_error *err);

#endif
