#include "base/gguf_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SUFFIX = sizeof(".gguf") - 1, TAIL = sizeof("-00001-of-00003.gguf") - 1 };

size_t hth_gguf_stem(const char *name, size_t n)
{
    return n > SUFFIX && memcmp(name + n - SUFFIX, ".gguf", SUFFIX) == 0 ? n - SUFFIX : n;
}

bool hth_gguf_is_name(const char *path)
{
    const size_t n = strlen(path);

    return n > SUFFIX && strcasecmp(path + n - SUFFIX, ".gguf") == 0;
}

const char *hth_gguf_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

bool hth_gguf_is_projector(const char *path)
{
    static const char begin[] = "mmproj";

    return strncmp(hth_gguf_base_name(path), begin, sizeof(begin) - 1) == 0;
}

char *hth_gguf_name_of_path(const char *path)
{
    const char *base = hth_gguf_base_name(path);

    return strndup(base, hth_gguf_stem(base, strlen(base)));
}

bool hth_gguf_part_read(const char *path, hth_gguf_part *out)
{
    const size_t n = strlen(path);
    hth_gguf_part part = { .n_stem = n > TAIL ? n - TAIL : 0 };
    const char *tail = path + part.n_stem;
    char again[64];

    if (part.n_stem == 0)
        return false;
    part.number = (unsigned)strtoul(tail + 1, NULL, 10);
    part.n_parts = (unsigned)strtoul(tail + sizeof("-00001-of-") - 1, NULL, 10);
    if (part.number == 0 || part.number > part.n_parts)
        return false;
    (void)snprintf(again, sizeof(again), "-%05u-of-%05u.gguf", part.number, part.n_parts); /* fits */
    if (strcmp(tail, again) != 0) /* signs, spaces, fewer digits */
        return false;
    *out = part;
    return true;
}

void hth_gguf_part_path(const char *path, const hth_gguf_part *part, unsigned number, char *out, size_t capacity)
{
    (void)snprintf(out, capacity, "%.*s-%05u-of-%05u.gguf", (int)part->n_stem, path, number, part->n_parts);
}

unsigned hth_gguf_n_files(const char *path)
{
    hth_gguf_part part;

    return strlen(path) < HTH_GGUF_PATH_BYTES && hth_gguf_part_read(path, &part) && part.n_parts <= HTH_GGUF_PARTS_MAX
             ? part.n_parts
             : 1;
}

const char *hth_gguf_file(const char *path, unsigned i, char buffer[HTH_GGUF_PATH_BYTES])
{
    hth_gguf_part part;

    if (hth_gguf_n_files(path) == 1 || !hth_gguf_part_read(path, &part))
        return path;
    hth_gguf_part_path(path, &part, i + 1, buffer, HTH_GGUF_PATH_BYTES);
    return buffer;
}
