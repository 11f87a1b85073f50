/*
 * model_files_size.h - the size of a model's files, without opening them
 */
#ifndef HTH_WIRE_MODEL_FILES_SIZE_H
#define HTH_WIRE_MODEL_FILES_SIZE_H

#include <stdint.h>

/*
 * The size of the file at path or, if its name is that of a part of a split model ("x-00001-of-00003.gguf"), of all
 * parts. A missing file counts as 0. path may be NULL. Blocks for a few system calls.
 */
uint64_t hth_model_files_bytes(const char *path);

#endif
