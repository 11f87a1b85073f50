/*
 * history_room.c - see history_room.h
 */
#include "history/history_room.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

enum { FOLDERS_MAX = 4096, FILES_MAX = 65536, FOLDER_NAME_BYTES = 256 };

typedef struct found_file {
    size_t folder; /* in `folders` */
    uint64_t number;
    uint64_t n_bytes;
    uint64_t mtime;
} found_file;

typedef struct room {
    const hth_fs *fs;
    const char *above; /* the folder that contains all folders */
    char (*folders)[FOLDER_NAME_BYTES];
    size_t n_folders, folders_capacity;
    size_t folder; /* that is being listed */
    found_file *files;
    size_t n_files, files_capacity;
    uint64_t n_bytes;
} room;

bool hth_history_file_number(const char *name, uint64_t *out)
{
    if (strlen(name) != HTH_HISTORY_NAME_BYTES - 1 || strspn(name, "0123456789abcdef") != HTH_HISTORY_NAME_DIGITS ||
        strcmp(name + HTH_HISTORY_NAME_DIGITS, HTH_HISTORY_SUFFIX) != 0)
        return false;
    *out = strtoull(name, NULL, 16);
    return true;
}

static bool folder_path(const room *r, size_t folder, char path[HTH_HISTORY_PATH_BYTES])
{
    return snprintf(path, HTH_HISTORY_PATH_BYTES, "%s/%s", r->above, r->folders[folder]) < HTH_HISTORY_PATH_BYTES;
}

static bool path_of(const room *r, const found_file *f, char path[HTH_HISTORY_PATH_BYTES])
{
    return snprintf(path, HTH_HISTORY_PATH_BYTES, "%s/%s/%016" PRIx64 "%s", r->above, r->folders[f->folder], f->number,
                    HTH_HISTORY_SUFFIX) < HTH_HISTORY_PATH_BYTES;
}

/* hth_fs_visit_fn */
static bool note_folder(const char *name, void *user_data)
{
    room *r = user_data;
    void *grown = hth_grown(r->folders, r->n_folders, &r->folders_capacity, sizeof(*r->folders));

    if (!grown)
        return false;
    r->folders = grown;
    if (snprintf(r->folders[r->n_folders], sizeof(*r->folders), "%s", name) < (int)sizeof(*r->folders))
        r->n_folders++;
    return r->n_folders < FOLDERS_MAX;
}

/* hth_fs_visit_fn */
static bool note_file(const char *name, void *user_data)
{
    room *r = user_data;
    found_file f = { .folder = r->folder }, *grown;
    char path[HTH_HISTORY_PATH_BYTES];
    hth_fs_stat st;

    if (!hth_history_file_number(name, &f.number) || !path_of(r, &f, path) || hth_fs_stat_path(r->fs, path, &st) != 0 ||
        !st.is_regular)
        return true;
    grown = hth_grown(r->files, r->n_files, &r->files_capacity, sizeof(*grown));
    if (!grown)
        return false;
    f.n_bytes = st.bytes;
    f.mtime = st.mtime;
    r->files = grown;
    r->files[r->n_files++] = f;
    r->n_bytes += st.bytes;
    return r->n_files < FILES_MAX;
}

/* The oldest first; within the same second, by number. */
static int compare(const void *a, const void *b)
{
    const found_file *x = a, *y = b;

    if (x->mtime != y->mtime)
        return x->mtime < y->mtime ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static void find_files(room *r)
{
    char path[HTH_HISTORY_PATH_BYTES];

    (void)hth_fs_list(r->fs, r->above, note_folder, r); /* what cannot be listed stays */
    for (r->folder = 0; r->folder < r->n_folders; r->folder++)
        if (folder_path(r, r->folder, path))
            (void)hth_fs_list(r->fs, path, note_file, r); /* likewise */
    if (r->n_files > 0)
        qsort(r->files, r->n_files, sizeof(*r->files), compare);
}

/* Remove the file, and its folder if that is then empty. False: the file's writer is alive, or it cannot be removed. */
static bool remove_file(const room *r, const found_file *f)
{
    char path[HTH_HISTORY_PATH_BYTES], folder[HTH_HISTORY_PATH_BYTES];
    int fd = path_of(r, f, path) ? hth_fs_open(r->fs, path, HTH_FS_READ) : -1;
    bool ok;

    if (fd < 0)
        return false;
    ok = hth_fs_lock(r->fs, fd, HTH_FS_LOCK_PROBE) == 0 && hth_fs_remove(r->fs, path) == 0;
    hth_fs_close(r->fs, fd);
    if (ok && folder_path(r, f->folder, folder))
        (void)hth_fs_remove(r->fs, folder); /* fails if it still has files */
    return ok;
}

void hth_history_room_make(const hth_fs *fs, const char *directory, uint64_t bytes_max)
{
    char above[HTH_HISTORY_PATH_BYTES];
    room r = { .fs = fs, .above = above };
    char *slash;

    if (snprintf(above, sizeof(above), "%s", directory) >= (int)sizeof(above))
        return;
    slash = strrchr(above, '/');
    if (!slash || slash == above)
        return;
    *slash = '\0';
    find_files(&r);
    for (size_t i = 0; i < r.n_files && r.n_bytes > bytes_max; i++)
        if (remove_file(&r, &r.files[i]))
            r.n_bytes -= r.files[i].n_bytes;
    free(r.files);
    free(r.folders);
}
