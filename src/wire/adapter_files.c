/*
 * adapter_files.c - see adapter_files.h
 */
#include "wire/adapter_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/gguf_name.h"
#include "base/status.h"

enum { FILES_MAX = 1000, ENTRIES_MAX = 4096 };

static bool has_parent(const char *file)
{
    for (const char *part = file; part; part = strchr(part, '/')) {
        part += strspn(part, "/");
        if (strcspn(part, "/") == 2 && strncmp(part, "..", 2) == 0)
            return true;
    }
    return false;
}

static bool is_beneath(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && (path[n] == '/' || (n == 1 && path[1]));
}

hearth_status hth_adapter_file_find(const char *directory, const char *file, char path[PATH_MAX], hearth_error *err)
{
    char joined[PATH_MAX], folder[PATH_MAX], found[PATH_MAX];
    struct stat st;

    if (!directory)
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "the model has no folder of adapters, so that none can be loaded while the server runs; name "
                        "one with lora_dir (--lora-dir)");
    if (has_parent(file))
        return hth_fail(err, HEARTH_MISUSE,
                        "the file '%s' has '..' in its path; name one beneath the folder of adapters", file);
    if (file[0] == '/' ? snprintf(joined, sizeof(joined), "%s", file) >= PATH_MAX
                       : snprintf(joined, sizeof(joined), "%s/%s", directory, file) >= PATH_MAX)
        return hth_fail(err, HEARTH_MISUSE, "the path of the file '%.200s' is too long", file);
    if (!realpath(directory, folder))
        return hth_fail_errno(err, errno, "cannot open the folder of adapters '%s'", directory);
    if (!realpath(joined, found))
        return hth_fail_errno(err, errno, "cannot open the file '%s' in the folder of adapters", file);
    if (!is_beneath(found, folder))
        return hth_fail(err, HEARTH_MISUSE, "the file '%s' is not beneath the folder of adapters (lora_dir)", file);
    if (stat(found, &st) != 0)
        return hth_fail_errno(err, errno, "cannot open the file '%s' in the folder of adapters", file);
    if (!S_ISREG(st.st_mode))
        return hth_fail(err, HEARTH_MISUSE, "'%s' in the folder of adapters is no file", file);
    memcpy(path, found, strlen(found) + 1);
    return HEARTH_OK;
}

static bool is_adapter(const char *name)
{
    const size_t n = strlen(name);

    return name[0] != '.' && hth_gguf_stem(name, n) < n;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

json_t *hth_adapter_files_list(const char *directory, size_t *n_entries_out)
{
    DIR *folder = directory ? opendir(directory) : NULL; /* NULL: unreadable */
    char **names = malloc(ENTRIES_MAX * sizeof(*names));
    json_t *list = json_array();
    const struct dirent *entry;
    size_t n = 0;

    *n_entries_out = 0;
    while (folder && names && *n_entries_out < ENTRIES_MAX && (entry = readdir(folder))) {
        char *name = is_adapter(entry->d_name) ? strdup(entry->d_name) : NULL;

        ++*n_entries_out;
        if (name)
            names[n++] = name;
    }
    if (folder)
        (void)closedir(folder); /* only read from */
    if (n > 1)
        qsort((void *)names, n, sizeof(*names), compare);
    for (size_t i = 0; i < n; i++) {
        if (i < FILES_MAX)
            (void)json_array_append_new(list, json_string(names[i])); /* a name that is not UTF-8 is omitted */
        free(names[i]);
    }
    free((void *)names);
    return list;
}
