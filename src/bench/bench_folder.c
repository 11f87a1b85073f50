/*
 * bench_folder.c - see bench_folder.h
 */
#include "bench/bench_folder.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/status.h"

enum { OPEN_FOLDERS = 16 };

hearth_status hth_bench_folder_make(const char *parent, char path_out[PATH_MAX], hearth_error *err)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/hearth-bench-XXXXXX", parent) >= (int)sizeof(path))
        return hth_fail(err, HEARTH_MISUSE, "the path of '%.200s...' is too long", parent);
    for (char *at = path + 1; *at; at++) /* the folders above: they are there already, or mkdtemp tells why not */
        if (*at == '/') {
            *at = '\0';
            (void)mkdir(path, S_IRWXU);
            *at = '/';
        }
    if (!mkdtemp(path))
        return hth_fail_errno(err, errno, "cannot make a folder for the rows in '%s'; choose another one with --cache",
                              parent);
    (void)snprintf(path_out, PATH_MAX, "%s", path); /* as long as path */
    return HEARTH_OK;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *place)
{
    (void)st, (void)type, (void)place;
    return remove(path);
}

bool hth_bench_folder_remove(const char *path)
{
    return *path == '\0' || nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) == 0;
}
