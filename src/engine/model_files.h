/*
 * model_files.h - is a model's file whole, and are all parts of a split one there?
 */
#ifndef HTH_ENGINE_MODEL_FILES_H
#define HTH_ENGINE_MODEL_FILES_H

#include "engine/llama_shim.h"

/*
 * Look at a model's file, or at all parts of a split one whose first part is named; *total sums them up. HEARTH_CORRUPT
 * and HEARTH_IO say what is wrong with which file, HEARTH_MISUSE that another part was named.
 */
hearth_status hth_model_files_check(const char *path, hth_shim_file *total, hearth_error *err);

#endif
