/*
 * models_folder.c - see models_folder.h
 */
#include "cli/models_folder.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/gguf_name.h"
#include "base/gguf_text.h"

enum {
    LEVELS_MAX = 3,
    ENTRIES_MAX = 65536, /* of all folders */
    FOLDERS_MAX = 4096,
    NAME_BYTES_MAX = 128,
};

typedef struct finder {
    hth_pool *pool;
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

/* Make a safe name of a text, in place. Returns whether there is one. */
static bool make_safe(char *text)
{
    size_t n = 0;

    for (const char *at = text; *at; at++) {
        const bool is_good = isalnum((unsigned char)*at) || *at == '.' || *at == '_';

        if (is_good || (n > 0 && text[n - 1] != '-'))
            text[n++] = is_good ? *at : '-';
    }
    while (n > 0 && text[n - 1] == '-')
        n--;
    text[n] = '\0';
    return n > 0 && isalnum((unsigned char)text[0]);
}

/*
 * Is it a GGUF file? name receives a safe form of the name in its metadata, if names are wanted; "": it has none. A
 * FIFO does not block.
 */
static bool is_gguf(const finder *f, const char *path, char name[NAME_BYTES_MAX + 1])
{
    char magic[4] = "";
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const bool is_read = fd >= 0 && read(fd, magic, sizeof(magic)) == (ssize_t)sizeof(magic);

    if (f->names == HTH_FOLDER_NAMES_FILE || !is_read ||
        !hth_gguf_text_read(fd, "general.name", name, NAME_BYTES_MAX + 1) || !make_safe(name))
        name[0] = '\0';
    if (fd >= 0)
        (void)close(fd); /* only read from */
    return is_read && memcmp(magic, "GGUF", sizeof(magic)) == 0;
}

static void add_file(finder *f, const char *path, const char *file)
{
    size_t n = hth_gguf_stem(file, strlen(file));
    hth_gguf_part part;
    const char *name, *own_name = NULL;
    char in_file[NAME_BYTES_MAX + 1];

    if (strncmp(file, "mmproj", strlen("mmproj")) == 0)
        return;
    if (hth_gguf_part_read(file, &part)) {
        if (part.number != 1)
            return; /* a later part */
        n = part.n_stem;
    }
    if (!is_gguf(f, path, in_file)) {
        hth_problems_warn(f->problems, "'%s' is no GGUF file, or cannot be read; it is left out", path);
        return;
    }
    name = hth_pool_text(f->pool, file, n);
    if (name)
        own_name = in_file[0] ? hth_pool_text(f->pool, in_file, strlen(in_file)) : name;
    if (!own_name) {
        (void)fail_without_memory(f);
        return;
    }
    for (size_t i = 0; i < f->n; i++) {
        if (strcmp(f->found[i].file_name, name) == 0) {
            hth_problems_warn(f->problems, "'%s' is left out, because '%s' has the same name; rename one of them", path,
                              f->found[i].path);
            return;
        }
    }
    if (f->n < f->n_max)
        f->found[f->n++] = (hth_found_model){ .name = own_name, .file_name = name, .path = path };
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

/* Do other models have this name of the i-th? */
static bool is_taken(const finder *f, size_t i)
{
    for (size_t k = 0; k < f->n; k++)
        if (k != i && strcmp(f->found[k].name, f->found[i].name) == 0)
            return true;
    return false;
}

/*
 * Models of one name have those of their files instead, whatever the order of the files: all of them, so that a name
 * does not depend on it. A name of a file may then be that of another model's metadata, so all are looked at again.
 */
static void part_names(finder *f)
{
    bool has_changed = true;
    bool taken[HTH_FOUND_MODELS_MAX];

    while (has_changed) {
        has_changed = false;
        for (size_t i = 0; i < f->n; i++)
            taken[i] = f->found[i].name != f->found[i].file_name && is_taken(f, i);
        for (size_t i = 0; i < f->n; i++)
            if (taken[i]) {
                f->found[i].name = f->found[i].file_name;
                has_changed = true;
            }
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const hth_found_model *)a)->name, ((const hth_found_model *)b)->name);
}

bool hth_models_folder_read(hth_pool *pool, const char *folder, hth_folder_names names, size_t n_max,
                            hth_problems *problems, hth_found_models *out)
{
    finder f = { .pool = pool, .problems = problems, .names = names, .n_max = n_max };

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
