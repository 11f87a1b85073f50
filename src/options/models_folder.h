/*
 * models_folder.h - finds the models in a folder, and those that 'hearth pull' and other programs downloaded
 */
#ifndef HTH_OPTIONS_MODELS_FOLDER_H
#define HTH_OPTIONS_MODELS_FOLDER_H

#include "console/problems.h"
#include "options/pool.h"
#include "supervisor/server_options.h"

enum { HTH_FOUND_MODELS_MAX = 256 };

/* A possible name of a model. */
typedef struct hth_found_name {
    const char *name;
    const char *original; /* the text that it was made from; NULL: it is unchanged */
} hth_found_name;

/* The names of a model, from the best one to one that is unique. */
enum {
    HTH_FOUND_IN_FILE, /* from its metadata */
    HTH_FOUND_STEM,    /* of the file, without ".gguf" and the number of a part */
    HTH_FOUND_PATH,    /* likewise with its folders below the given one, and with the number of a part */
    HTH_FOUND_PARTED,  /* with a number made from the path */
    HTH_FOUND_NAMES
};

typedef struct hth_found_model {
    hth_found_name names[HTH_FOUND_NAMES]; /* complete from the metadata's name or the stem on */
    size_t at;        /* index of its name in names: the first that no other model of the folder has */
    const char *path; /* of the file, or of the first part */
} hth_found_model;

/* Is the name with this index exactly that of the file? */
static inline bool hth_found_is_exact(const hth_found_model *model, size_t at)
{
    return at != HTH_FOUND_IN_FILE && !model->names[at].original;
}

typedef struct hth_found_models {
    hth_found_model *list; /* [n], sorted by name */
    size_t n;
    const char *const *folders; /* [n_folders], which were read */
    size_t n_folders;
} hth_found_models;

/*
 * Find the GGUF files in the folder and its sub-folders (three levels), at most n_max. Everything in *out belongs to
 * the pool. Split files are one model. Omitted: hidden files and folders, links to folders, projectors ("mmproj...")
 * and, with a warning, files that are not GGUF files. False with an error in problems: the folder cannot be read, or
 * there is no memory. Blocks.
 *
 * With HTH_FOLDER_NAMES_METADATA, general.name is a model's name, with '-' for characters other than letters, digits,
 * '.' and '_'. Models without such a name, or with equal names, are named after their files or, failing that, their
 * paths. A name made from another text gives way to a file with exactly this name. So no name depends on the order of
 * the files.
 */
bool hth_models_folder_read(hth_pool *pool, const char *folder, hth_folder_names names, size_t n_max,
                            hth_problems *problems, hth_found_models *out);

/*
 * Find the models in the cache of the hub, at most n_max, under the names that 'hearth models ls' shows. Everything in
 * *out belongs to the pool. Files that are not GGUF files are omitted with a warning. A cache that cannot be read
 * causes a warning, too. False without memory, with the error in problems.
 */
bool hth_downloaded_models_read(hth_pool *pool, size_t n_max, hth_problems *problems, hth_found_models *out);

#endif
