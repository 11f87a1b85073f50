/*
 * adapter_files.h - files of adapters that can be loaded while the server runs: those beneath a folder
 */
#ifndef HTH_WIRE_ADAPTER_FILES_H
#define HTH_WIRE_ADAPTER_FILES_H

#include <jansson.h>
#include <limits.h>

#include "hearth.h"

/*
 * The path of a file beneath the folder (NULL: none is configured), without links. file is relative to it or absolute.
 * HEARTH_UNSUPPORTED without a folder, HEARTH_NOT_FOUND, HEARTH_MISUSE for a file elsewhere and for what is no file.
 */
hearth_status hth_adapter_file_find(const char *directory, const char *file, char path[PATH_MAX], hearth_error *err);

/*
 * The names of the .gguf files in the folder itself (NULL: none), sorted: 1,000 at most, among the first 4,096 entries,
 * because the front's event loop waits. *n_entries_out: those that were looked at. NULL without memory.
 */
json_t *hth_adapter_files_list(const char *directory, size_t *n_entries_out);

#endif
