/*
 * folder_room.c - the total size of a folder's files, the free space of its device, and a lock on the folder itself
 *
 * The lock is a flock on the open folder, so it leaves no file behind and ends with the process.
 */
#include "base/folder_room.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    PATH_BYTES = 4096,
    WAIT_MS = 10000, /* wait for another writer */
};

/* "." in the folder of path: the folder itself, even if its name is a link. */
static hearth_status find_folder(const char *path, char folder[PATH_BYTES], const char **name_out, hearth_error *err)
{
    const char *slash = strrchr(path, '/');
    const int n = slash ? (int)(slash - path) + 1 : 0;

    if (snprintf(folder, PATH_BYTES, "%.*s.", n, path) >= PATH_BYTES)
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long; give a shorter one", path);
    *name_out = path + n;
    return HEARTH_OK;
}

hearth_status hth_folder_lock(const hth_fs *fs, const char *path, int *fd_out, hearth_error *err)
{
    char folder[PATH_BYTES];
    const char *name;
    hearth_status status = find_folder(path, folder, &name, err);
    int fd, rc;

    if (status != HEARTH_OK)
        return status;
    fd = hth_fs_open(fs, folder, HTH_FS_READ);
    if (fd < 0)
        return hth_fail_errno(err, -fd, "cannot open the folder of '%s'", path);
    rc = hth_fs_lock_within(fs, fd, HTH_FS_LOCK_TRY, WAIT_MS);
    if (rc != 0) {
        hth_fs_close(fs, fd);
        fd = -1;
    }
    if (rc == -EWOULDBLOCK)
        return hth_fail(err, HEARTH_BUSY, "another process has been writing beside '%s' for %d s; try again later",
                        path, WAIT_MS / 1000);
    *fd_out = fd; /* -1 on a file system without locks: then writers may run at once */
    return HEARTH_OK;
}

void hth_folder_unlock(const hth_fs *fs, int fd)
{
    if (fd >= 0)
        hth_fs_close(fs, fd);
}

typedef struct sum {
    const hth_fs *fs;
    const char *folder;
    const char *name; /* is not counted */
    uint64_t bytes;
    int failed; /* 0 or -errno */
} sum;

static bool add_file(const char *name, void *user_data)
{
    sum *s = user_data;
    char path[PATH_BYTES + 256];
    hth_fs_stat st;
    int rc;

    if (strcmp(name, s->name) == 0)
        return true;
    if (snprintf(path, sizeof(path), "%s/%s", s->folder, name) >= (int)sizeof(path))
        rc = -ENAMETOOLONG;
    else
        rc = hth_fs_stat_path(s->fs, path, &st);
    if (rc == 0 && st.is_regular && __builtin_add_overflow(s->bytes, st.bytes, &s->bytes))
        s->bytes = UINT64_MAX;
    if (rc != 0 && rc != -ENOENT) /* removed in the meantime, or a dangling link */
        s->failed = rc;
    return s->failed == 0;
}

hearth_status hth_folder_has_room(const hth_fs *fs, const char *path, uint64_t n_bytes, const hth_folder_limits *limits,
                                  hearth_error *err)
{
    char folder[PATH_BYTES];
    sum s = { .fs = fs, .folder = folder };
    uint64_t free_bytes = 0;
    hearth_status status = find_folder(path, folder, &s.name, err);
    int rc;

    if (status != HEARTH_OK)
        return status;
    if (limits->bytes_max > 0) {
        rc = hth_fs_list(fs, folder, add_file, &s);
        if (rc == 0)
            rc = s.failed;
        if (rc != 0)
            return hth_fail_errno(err, -rc, "cannot tell how large the files beside '%s' are", path);
        if (s.bytes > limits->bytes_max || n_bytes > limits->bytes_max - s.bytes)
            return hth_fail(err, HEARTH_FULL,
                            "no room for '%s', which takes %" PRIu64
                            " bytes: the other files of its folder take %" PRIu64 " of at most %" PRIu64
                            " bytes; replace one of them, remove some, or raise the limit",
                            path, n_bytes, s.bytes, limits->bytes_max);
    }
    if (limits->free_min > 0) {
        rc = hth_fs_free_bytes(fs, folder, &free_bytes);
        if (rc != 0)
            return hth_fail_errno(err, -rc, "cannot tell how much is free beside '%s'", path);
        if (n_bytes > free_bytes || free_bytes - n_bytes < limits->free_min)
            return hth_fail(err, HEARTH_FULL,
                            "no room for '%s', which takes %" PRIu64 " bytes: its device has %" PRIu64
                            " bytes free, and %" PRIu64 " are to stay free; make room on that device",
                            path, n_bytes, free_bytes, limits->free_min);
    }
    return HEARTH_OK;
}
