/*
 * quarantine.c - moves files aside, and removes the oldest
 *
 * The name of a quarantined file begins with twelve digits of Unix seconds, so name order is age order. A directory
 * gets "other-" and a number before its name. It is neither counted nor removed, because its content is unknown.
 */
#include "rows/quarantine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "rows/row_file.h"

enum { PATH_BYTES = 4096, NAME_BYTES = 256, TIME_DIGITS = 12 };

typedef struct census {
    size_t n;
    char oldest[NAME_BYTES];
} census;

static bool count_file(const char *name, void *user_data)
{
    census *c = user_data;

    /* Only our own files are counted and removed: their names are the time and the name of a row. */
    if (strlen(name) >= NAME_BYTES || strspn(name, "0123456789") != TIME_DIGITS || name[TIME_DIGITS] != '-')
        return true;
    if (c->n++ == 0 || strcmp(name, c->oldest) < 0)
        (void)snprintf(c->oldest, sizeof(c->oldest), "%s", name);
    return true;
}

static void prune(const hth_fs *fs, const char *directory)
{
    char path[PATH_BYTES];

    for (;;) {
        census c = { .n = 0 };

        if (hth_fs_list(fs, directory, count_file, &c) != 0 || c.n <= HTH_QUARANTINE_FILES_MAX ||
            snprintf(path, sizeof(path), "%s/%s", directory, c.oldest) >= (int)sizeof(path) ||
            hth_fs_remove(fs, path) != 0)
            return;
    }
}

int hth_quarantine_row(const hth_fs *fs, const char *directory, const char *path, const hth_row_id *id)
{
    char target[PATH_BYTES], name[HTH_ROW_FILE_NAME_BYTES];
    unsigned long long now = hth_os_unix_seconds();
    uint32_t number;
    hth_fs_stat st;
    int n, rc;

    hth_row_file_name(id, name);
    if (hth_fs_stat_path(fs, path, &st) == 0 && st.is_directory) {
        hth_os_random(&number, sizeof(number)); /* unlike a file, a directory cannot replace one of the same name */
        n = snprintf(target, sizeof(target), "%s/other-%08" PRIx32 "-%012llu-%s", directory, number, now, name);
    } else {
        n = snprintf(target, sizeof(target), "%s/%012llu-%s", directory, now, name);
    }
    if (n < 0 || n >= (int)sizeof(target))
        return -ENAMETOOLONG;
    rc = hth_fs_rename(fs, path, target);
    if (rc == 0)
        prune(fs, directory);
    return rc;
}

size_t hth_quarantine_count(const hth_fs *fs, const char *directory)
{
    census c = { .n = 0 };

    return hth_fs_list(fs, directory, count_file, &c) == 0 ? c.n : 0;
}
