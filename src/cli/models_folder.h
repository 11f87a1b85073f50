/*
 * models_folder.h - the models in a folder
 */
#ifndef HTH_CLI_MODELS_FOLDER_H
#define HTH_CLI_MODELS_FOLDER_H

#include "cli/pool.h"
#include "cli/problems.h"
#include "server/options.h"

enum { HTH_FOUND_MODELS_MAX = 256 };

typedef struct hth_found_model {
    const char *name;      /* that of the file, or of its metadata */
    const char *file_name; /* of the file, without ".gguf" and the number of a part */
    const char *path;      /* of the file, or of the first part */
} hth_found_model;

typedef struct hth_found_models {
    hth_found_model *list; /* [n], sorted by name */
    size_t n;
    const char *const *folders; /* [n_folders], which were read */
    size_t n_folders;
} hth_found_models;

/*
 * Find the GGUF files in the folder and its sub-folders (three levels), at most n_max. Everything in *out belongs to
 * the pool. Split files are one model. Left out: hidden files and folders, links to folders, projectors
 * ("mmproj..."), and, with a warning, files that are no GGUF files and the second of two with one name. False with an
 * error in problems: the folder cannot be read, or there is no memory. Blocks.
 *
 * From metadata, general.name is a model's name: with '-' for what is no letter, digit, '.' or '_'. Models whose names
 * would be equal, or that have none, have those of their files.
 */
bool hth_models_folder_read(hth_pool *pool, const char *folder, hth_folder_names names, size_t n_max,
                            hth_problems *problems, hth_found_models *out);

#endif
