/*
 * models_folder.c - see models_folder.h
 */
#include "cli/models_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/gguf_name.h"

enum {
    LEVELS_MAX = 3,
    ENTRIES_MAX = 65536, /* of all folders */
    FOLDERS_MAX = 4096,
};

typedef struct finder {
    hth_pool *pool;
    hth_problems *problems;
    hth_found_model *found; /* [n_max] */
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

/* A FIFO does not block. */
static bool is_gguf(const char *path)
{
    char magic[4] = "";
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const bool is_read = fd >= 0 && read(fd, magic, sizeof(magic)) == (ssize_t)sizeof(magic);

    if (fd >= 0)
        (void)close(fd); /* only read from */
    return is_read && memcmp(magic, "GGUF", sizeof(magic)) == 0;
}

static void add_file(finder *f, const char *path, const char *file)
{
    size_t n = hth_gguf_stem(file, strlen(file));
    hth_gguf_part part;
    const char *name;

    if (strncmp(file, "mmproj", strlen("mmproj")) == 0)
        return;
    if (hth_gguf_part_read(file, &part)) {
        if (part.number != 1)
            return; /* a later part */
        n = part.n_stem;
    }
    if (!is_gguf(path)) {
        hth_problems_warn(f->problems, "'%s' is no GGUF file, or cannot be read; it is left out", path);
        return;
    }
    name = hth_pool_text(f->pool, file, n);
    if (!name) {
        (void)fail_without_memory(f);
        return;
    }
    for (size_t i = 0; i < f->n; i++) {
        if (strcmp(f->found[i].name, name) == 0) {
            hth_problems_warn(f->problems, "'%s' is left out, because '%s' has the same name; rename one of them", path,
                              f->found[i].path);
            return;
        }
    }
    if (f->n < f->n_max)
        f->found[f->n++] = (hth_found_model){ .name = name, .path = path };
    else
        hth_problems_warn(f->problems, "'%s' is left out: %zu models are served already", path, f->n_max);
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
        (void)read_folder(f, path, level + 1); /* its error was told */
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

static int by_name(const void *a, const void *b)
{
    return strcmp(((const hth_found_model *)a)->name, ((const hth_found_model *)b)->name);
}

bool hth_models_folder_read(hth_pool *pool, const char *folder, size_t n_max, hth_problems *problems,
                            hth_found_models *out)
{
    finder f = { .pool = pool, .problems = problems, .n_max = n_max };

    f.found = hth_pool_alloc(pool, (n_max + 1) * sizeof(*f.found));
    f.folders = hth_pool_alloc(pool, FOLDERS_MAX * sizeof(*f.folders));
    if (!f.found || !f.folders)
        return fail_without_memory(&f);
    if (!read_folder(&f, folder, 0))
        return false;
    qsort(f.found, f.n, sizeof(*f.found), by_name);
    *out = (hth_found_models){ f.found, f.n, f.folders, f.n_folders };
    return true;
}
