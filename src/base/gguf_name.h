/*
 * gguf_name.h - names of GGUF files: "NAME.gguf", and "NAME-00001-of-00003.gguf" of a part of a split file
 *
 * Pure functions of names; no file is accessed. Any thread.
 */
#ifndef HTH_BASE_GGUF_NAME_H
#define HTH_BASE_GGUF_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the name, [n], without ".gguf"; n if it does not end like that, or has nothing before it. */
size_t hth_gguf_stem(const char *name, size_t n);

/* Does the path end in ".gguf", in upper or lower case, with something before it? */
bool hth_gguf_is_name(const char *path);
/* The path without its folders. */
const char *hth_gguf_base_name(const char *path);

/* Is it the path of a projector, "mmproj...", which is not a model? */
bool hth_gguf_is_projector(const char *path);

/* "models/hearth-tiny.gguf" -> "hearth-tiny", which the caller frees; NULL without memory. */
char *hth_gguf_name_of_path(const char *path);

enum { HTH_GGUF_PARTS_MAX = 999 }; /* of a file whose parts are opened or counted */

typedef struct hth_gguf_part {
    size_t n_stem;    /* bytes of the path before "-00001-of-00003.gguf", at least 1 */
    unsigned number;  /* 1 .. n_parts */
    unsigned n_parts; /* at least 1 */
} hth_gguf_part;

/* Is it the path of a part? If not, *out is unchanged. */
bool hth_gguf_part_read(const char *path, hth_gguf_part *out);
/* Write the path of another part of the file, number 1 .. 99999, which is as long as path. */
void hth_gguf_part_path(const char *path, const hth_gguf_part *part, unsigned number, char *out, size_t capacity);

enum { HTH_GGUF_PATH_BYTES = 4096 };

/*
 * The number of files of the model at path: all parts if its name is that of a part; otherwise, and when there would be
 * more than HTH_GGUF_PARTS_MAX, just this one.
 */
unsigned hth_gguf_n_files(const char *path);
/* The path of file i of these, counted from 0: path itself, or a path written to buffer. */
const char *hth_gguf_file(const char *path, unsigned i, char buffer[HTH_GGUF_PATH_BYTES]);

#endif
