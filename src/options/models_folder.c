#include "options/models_folder.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/gguf_name.h"
#include "base/gguf_text.h"
#include "hub/settings.h"
#include "hub/stock.h"
#include "options/file_name.h"

enum {
    LEVELS_MAX = 3,
    ENTRIES_MAX = 65536, /* of all folders */
    FOLDERS_MAX = 4096,
    NAME_BYTES_MAX = 128,
};

typedef struct finder {
    hth_pool *pool;
    const char *root;
    hth_problems *problems;
    hth_found_model *found; /* [n_max] */
    hth_folder_names names;
    size_t n, n_max, n_entries;
    const char **folders; /* [FOLDERS_MAX] */
    size_t n_folders;
    bool failed;
} finder;

static bool fail_without_memory(finder *f)
{
    if (!f->failed)
        hth_problems_add(f->problems, "no memory for the models of a folder");
    f->failed = true;
    return false;
}

/* Is it a GGUF file? name receives the name in its metadata, "": none; NULL: not wanted. A FIFO does not block. */
static bool is_gguf(const char *path, char name[NAME_BYTES_MAX + 1])
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const bool is_one = fd >= 0 && hth_gguf_is_file(fd);

    if (name && (!is_one || !hth_gguf_text_read(fd, "general.name", name, NAME_BYTES_MAX + 1)))
        name[0] = '\0';
    if (fd >= 0)
        (void)close(fd); /* only read from */
    return is_one;
}

/* Set the name from the metadata. If it has none, only the file's names remain. */
static bool name_by_metadata(const finder *f, const char *text, hth_found_model *out)
{
    char *name = hth_pool_text(f->pool, text, strlen(text));
    const char *original = hth_pool_text(f->pool, text, strlen(text));

    if (!name || !original)
        return false;
    out->at = hth_name_make_safe(name, "") ? HTH_FOUND_IN_FILE : HTH_FOUND_STEM;
    out->names[HTH_FOUND_IN_FILE] = (hth_found_name){ name, strcmp(name, original) == 0 ? NULL : original };
    return true;
}

static bool name_by_file(hth_pool *pool, const char *text, size_t n, hth_found_name *out)
{
    const char *original = hth_pool_text(pool, text, n);

    out->name = original ? hth_file_name_safe(pool, text, n) : NULL;
    out->original = out->name && strcmp(out->name, original) == 0 ? NULL : original;
    return out->name != NULL;
}

/* Fill the last two names of a model from its path, of which n bytes are the name. False without memory. */
static bool name_by_path(hth_pool *pool, const char *path, size_t n, hth_found_model *out)
{
    hth_found_name *whole = &out->names[HTH_FOUND_PATH], *parted = &out->names[HTH_FOUND_PARTED];

    if (!name_by_file(pool, path, n, whole))
        return false;
    *parted = (hth_found_name){ hth_file_name_parted(pool, whole->name, path),
                                whole->original ? whole->original : whole->name };
    return parted->name != NULL;
}

/* Set all names of a file, whose name is the end of its path. n_stem: bytes without the number of a part. */
static bool name_model(const finder *f, const char *file, size_t n_stem, const char *in_file, hth_found_model *out)
{
    const char *below = out->path + strlen(f->root) + 1;

    return name_by_metadata(f, in_file, out) && name_by_file(f->pool, file, n_stem, &out->names[HTH_FOUND_STEM]) &&
           name_by_path(f->pool, below, hth_gguf_stem(below, strlen(below)), out);
}

static void add_file(finder *f, const char *path, const char *file)
{
    size_t n = hth_gguf_stem(file, strlen(file));
    hth_gguf_part part;
    hth_found_model model = { .path = path };
    char in_file[NAME_BYTES_MAX + 1] = "";

    if (hth_gguf_is_projector(file))
        return;
    if (hth_gguf_part_read(file, &part)) {
        if (part.number != 1)
            return; /* a later part */
        n = part.n_stem;
    }
    if (!is_gguf(path, f->names == HTH_FOLDER_NAMES_FILE ? NULL : in_file))
        hth_problems_warn(f->problems, "'%s' is no GGUF file, or cannot be read; it is left out", path);
    else if (f->n == f->n_max)
        hth_problems_warn(f->problems, "'%s' is left out: %zu models are served already", path, f->n_max);
    else if (!name_model(f, file, n, in_file, &model))
        (void)fail_without_memory(f);
    else
        f->found[f->n++] = model;
}

static bool read_folder(finder *f, const char *folder, unsigned level);

static void add_entry(finder *f, const char *folder, const char *file, unsigned level)
{
    const size_t n = strlen(file);
    const char *path = hth_pool_format(f->pool, "%s/%s", folder, file);
    struct stat st, target;

    if (!path) {
        (void)fail_without_memory(f);
        return;
    }
    if (lstat(path, &st) != 0)
        return; /* it was removed meanwhile */
    if (S_ISDIR(st.st_mode) && level < LEVELS_MAX)
        (void)read_folder(f, path, level + 1); /* its error was reported */
    else if (hth_gguf_stem(file, n) < n && stat(path, &target) == 0 && S_ISREG(target.st_mode))
        add_file(f, path, file);
}

static bool read_folder(finder *f, const char *folder, unsigned level)
{
    DIR *directory = opendir(folder);
    const struct dirent *entry;

    if (!directory) {
        if (level == 0)
            hth_problems_add(f->problems, "the folder of models '%s' cannot be read: %s", folder, strerror(errno));
        else
            hth_problems_warn(f->problems, "'%s' cannot be read and is left out: %s", folder, strerror(errno));
        return false;
    }
    if (f->n_folders < FOLDERS_MAX)
        f->folders[f->n_folders++] = folder;
    while (!f->failed && (entry = readdir(directory)) != NULL) {
        if (f->n_entries++ == ENTRIES_MAX)
            hth_problems_warn(f->problems, "'%s' has more than %d entries; the rest is left out", folder, ENTRIES_MAX);
        if (f->n_entries > ENTRIES_MAX)
            break;
        if (entry->d_name[0] != '.')
            add_entry(f, folder, entry->d_name, level);
    }
    (void)closedir(directory);
    return !f->failed;
}

static const char *name_of(const hth_found_model *model)
{
    return model->names[model->at].name;
}

/*
 * Do other models have the current name of model i? A name made from another text does not block a file's exact name.
 */
static bool is_taken(const finder *f, size_t i)
{
    const bool is_exact = hth_found_is_exact(&f->found[i], f->found[i].at);

    for (size_t k = 0; k < f->n; k++)
        if (k != i && (!is_exact || hth_found_is_exact(&f->found[k], f->found[k].at)) &&
            strcmp(name_of(&f->found[k]), name_of(&f->found[i])) == 0)
            return true;
    return false;
}

/*
 * Models with the same name use the next of their names instead. All of them do, so that names do not depend on the
 * order of the files. The new name may be that of yet another model, so all are checked again.
 */
static void part_names(finder *f)
{
    bool has_changed = true;
    bool taken[HTH_FOUND_MODELS_MAX];

    while (has_changed) {
        has_changed = false;
        for (size_t i = 0; i < f->n; i++)
            taken[i] = f->found[i].at + 1 < HTH_FOUND_NAMES && is_taken(f, i);
        for (size_t i = 0; i < f->n; i++)
            if (taken[i]) {
                f->found[i].at++;
                has_changed = true;
            }
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(name_of(a), name_of(b));
}

bool hth_models_folder_read(hth_pool *pool, const char *folder, hth_folder_names names, size_t n_max,
                            hth_problems *problems, hth_found_models *out)
{
    finder f = { .pool = pool, .root = folder, .problems = problems, .names = names, .n_max = n_max };

    assert(n_max <= HTH_FOUND_MODELS_MAX);
    f.found = hth_pool_alloc(pool, (n_max + 1) * sizeof(*f.found));
    f.folders = hth_pool_alloc(pool, FOLDERS_MAX * sizeof(*f.folders));
    if (!f.found || !f.folders)
        return fail_without_memory(&f);
    if (!read_folder(&f, folder, 0))
        return false;
    part_names(&f);
    qsort(f.found, f.n, sizeof(*f.found), by_name);
    *out = (hth_found_models){ f.found, f.n, f.folders, f.n_folders };
    return true;
}

/* ---- downloaded models ---- */

/* False without memory. */
static bool name_downloaded(hth_pool *pool, const hth_hub_model *from, hth_found_model *out)
{
    *out = (hth_found_model){ .at = HTH_FOUND_PATH, .path = hth_pool_text(pool, from->path, strlen(from->path)) };
    return out->path && name_by_path(pool, from->name, strlen(from->name), out);
}

static bool add_models(hth_pool *pool, const hth_hub_model *models, size_t n, size_t n_max, hth_problems *problems,
                       hth_found_models *out)
{
    out->list = hth_pool_alloc(pool, (n + 1) * sizeof(*out->list));
    if (!out->list)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (hth_gguf_is_projector(models[i].path))
            continue;
        if (!is_gguf(models[i].path, NULL))
            hth_problems_warn(problems, "'%s' is no GGUF file, or cannot be read; it is left out", models[i].path);
        else if (out->n == n_max)
            hth_problems_warn(problems, "'%s' is left out: %zu models are served already", models[i].name, n_max);
        else if (!name_downloaded(pool, &models[i], &out->list[out->n++]))
            return false;
    }
    return true;
}

bool hth_downloaded_models_read(hth_pool *pool, size_t n_max, hth_problems *problems, hth_found_models *out)
{
    hth_hub_settings settings;
    hth_hub_model *models = NULL;
    hearth_error err;
    size_t n = 0;
    bool ok;

    *out = (hth_found_models){ .n = 0 };
    if (hth_hub_settings_read(&settings, &err) != HEARTH_OK ||
        hth_hub_models_read(settings.cache, &models, &n, &err) != HEARTH_OK)
        hth_problems_warn(problems, "downloaded models are not served: %s", err.message);
    ok = add_models(pool, models, n, n_max, problems, out);
    free(models);
    if (!ok)
        hth_problems_add(problems, "no memory for the list of downloaded models");
    return ok;
}
