/*
 * check.h - check that a GGUF file is a model: load it, and tokenize and detokenize a text
 */
#ifndef HTH_CONVERT_CHECK_H
#define HTH_CONVERT_CHECK_H

#include "base/status.h"

/*
 * n_tokens is the expected size of the vocabulary. HEARTH_CORRUPT if a text does not survive tokenizing and
 * detokenizing; errors of loading.
 */
hearth_status hth_converted_check(const char *path, size_t n_tokens, hearth_load_progress_fn progress,
                                  void *progress_user_data, hearth_error *err);

#endif
