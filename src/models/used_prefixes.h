/*
 * used_prefixes.h - the most used prefixes of the cache of a model
 */
#ifndef HTH_MODELS_USED_PREFIXES_H
#define HTH_MODELS_USED_PREFIXES_H

#include "rows/prefix_tree.h"

/*
 * The n_max most used prefixes, and the number of rows. Rows of other models count, too, if they lie in the same
 * directory. Blocks while indexes are read. The caller calls hth_prefix_tree_deinit. Any thread. Statuses as
 * hearth_runtime_rows.
 */
hearth_status hth_used_prefixes(hearth_model *model, size_t n_max, hth_prefix_tree *out, size_t *n_rows_out,
                                hearth_error *err);

#endif
