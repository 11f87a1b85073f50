/*
 * used_prefixes.h - the most used prefixes in the cache of a model
 */
#ifndef HTH_MODELS_USED_PREFIXES_H
#define HTH_MODELS_USED_PREFIXES_H

#include "rows/prefix_tree.h"

/*
 * The n_max most used prefixes, and the number of rows. Rows of other models in the same directory count, too. Blocks
 * while indexes are read. Release *out with hth_prefix_tree_deinit. Any thread. Statuses as for hearth_runtime_rows.
 */
hearth_status hth_used_prefixes(hearth_model *model, size_t n_max, hth_prefix_tree *out, size_t *n_rows_out,
                                hearth_error *err);

#endif
