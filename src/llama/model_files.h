/*
 * model_files.h - checks that a GGUF file is whole, and that all parts of a split model exist
 */
#ifndef HTH_LLAMA_MODEL_FILES_H
#define HTH_LLAMA_MODEL_FILES_H

#include "llama/llama_shim.h"

/*
 * Check a model's file, or all parts of a split model, given the first part; *total is their sum. The messages of
 * HEARTH_CORRUPT and HEARTH_IO name the file and its fault. HEARTH_MISUSE when path is another part.
 */
hearth_status hth_model_files_check(const char *path, hth_shim_file *total, hearth_error *err);

/*
 * Check a file whose tensors must all be in it. kind names its content for the error, "an adapter". HEARTH_CORRUPT and
 * HEARTH_IO as above. HEARTH_UNSUPPORTED when the file is part of a split one, because the rest would be missing.
 */
hearth_status hth_whole_file_check(const char *path, const char *kind, hth_shim_file *out, hearth_error *err);

#endif
