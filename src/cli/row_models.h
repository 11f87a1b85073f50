/*
 * row_models.h - the models that rows belong to
 *
 * A row's file has the name of its model, but the index does not. A row and its parent belong to the same model. So the
 * file of a row is read only if its parent is not among the rows, or does not name its model.
 */
#ifndef HTH_CLI_ROW_MODELS_H
#define HTH_CLI_ROW_MODELS_H

#include "cache/file_tier_set.h"

typedef struct hth_row_models {
    char **names; /* [n_names], printable; the first is "", for rows that name no model or cannot be read */
    size_t n_names;
    size_t *of_rows; /* [n_rows], indexes into names */
} hth_row_models;

/*
 * Read the models of rows[n_rows] from their files. *out must be all zeros; call hth_row_models_deinit on it once, even
 * after false, which means out of memory. Blocks on files; one thread at a time.
 */
bool hth_row_models_read(hth_file_tier_set *files, const hth_row_meta *rows, size_t n_rows, hth_row_models *out);
void hth_row_models_deinit(hth_row_models *models);

#endif
