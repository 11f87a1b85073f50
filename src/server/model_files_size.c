/*
 * model_files_size.c - see model_files_size.h
 */
#include "server/model_files_size.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/gguf_name.h"

static uint64_t file_bytes(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0;
}

uint64_t hth_model_files_bytes(const char *path)
{
    char part_path[PATH_MAX];
    hth_gguf_part part;
    uint64_t sum = 0;

    if (!path || !*path)
        return 0;
    if (strlen(path) >= sizeof(part_path) || !hth_gguf_part_read(path, &part) || part.n_parts > HTH_GGUF_PARTS_MAX)
        return file_bytes(path);
    for (unsigned i = 1; i <= part.n_parts; i++) {
        hth_gguf_part_path(path, &part, i, part_path, sizeof(part_path));
        sum += file_bytes(part_path);
    }
    return sum;
}
