/*
 * model_files_size.c - see model_files_size.h
 */
#include "wire/model_files_size.h"

#include <sys/stat.h>

#include "base/gguf_name.h"

static uint64_t file_bytes(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0;
}

uint64_t hth_model_files_bytes(const char *path)
{
    const unsigned n = path && *path ? hth_gguf_n_files(path) : 0;
    char buffer[HTH_GGUF_PATH_BYTES];
    uint64_t sum = 0;

    for (unsigned i = 0; i < n; i++)
        sum += file_bytes(hth_gguf_file(path, i, buffer));
    return sum;
}
