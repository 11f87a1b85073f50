/*
 * check.h - is a GGUF file a model? It is loaded, and a text goes through its tokenizer and back
 */
#ifndef HTH_CONVERT_CHECK_H
#define HTH_CONVERT_CHECK_H

#include "base/status.h"

/* n_tokens is the expected size of the vocabulary. HEARTH_CORRUPT: a text does not come back; errors of loading. */
hearth_status hth_converted_check(const char *path, size_t n_tokens, hearth_load_progress_fn progress,
                                  void *progress_user_data, hearth_error *err);

#endif
