/*
 * adapter_files.h - adapter files that can be loaded at run time: those in a configured folder
 */
#ifndef HTH_WIRE_ADAPTER_FILES_H
#define HTH_WIRE_ADAPTER_FILES_H

#include <jansson.h>
#include <limits.h>

#include "hearth.h"

/*
 * Find the path, without links, of a file in the folder or below it (NULL: no folder is configured). file is relative
 * to the folder or absolute. HEARTH_UNSUPPORTED without a folder, HEARTH_NOT_FOUND, HEARTH_MISUSE for a file outside of
 * it and for anything but a file.
 */
hearth_status hth_adapter_file_find(const char *directory, const char *file, char path[PATH_MAX], hearth_error *err);

/*
 * The sorted names of the .gguf files in the folder itself (NULL: no folder). At most 1,000 names from the first 4,096
 * entries, because the front's event loop waits. *n_entries_out: the number of entries that were read. NULL without
 * memory.
 */
json_t *hth_adapter_files_list(const char *directory, size_t *n_entries_out);

#endif
