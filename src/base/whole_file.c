/*
 * whole_file.c - a file that gets its name when it is complete
 *
 *   1. write to a temporary name in the folder of the final one
 *   2. sync the bytes
 *   3. link the final name to them, which fails if the name is taken; or rename, which replaces it
 *   4. sync the folder
 *
 * A crash before 3 leaves the temporary name; after it, the whole file. On a file system without links, a new file is
 * also renamed, after one more check. Two writers of the same new file may then replace each other's file.
 *
 * With the system's file operations, the writer holds a lock on the temporary file (flock), which ends with the
 * process. A temporary file without a lock was left behind.
 */
#include "base/whole_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hex.h"
#include "base/os.h"

enum { PATH_BYTES = 4096, NAME_BYTES_MAX = 200, HEX_DIGITS = 16 };

static const char suffix[] = ".part";

struct hth_whole_file {
    const hth_fs *fs;
    hth_whole_file_mode mode;
    int fd;
    bool has_name; /* the temporary file has its name */
    char path[PATH_BYTES];
    char folder[PATH_BYTES];
    char temporary[PATH_BYTES];
};

/* False if it does not fit. */
static bool set_folder(char folder[PATH_BYTES], const char *path)
{
    const char *slash = strrchr(path, '/');
    const int n = slash && slash != path ? (int)(slash - path) : 1;

    return snprintf(folder, PATH_BYTES, "%.*s", n, slash ? path : ".") < PATH_BYTES;
}

/* False if the paths do not fit. */
static bool set_paths(hth_whole_file *file, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    char hex[HEX_DIGITS + 1];
    uint8_t bytes[HEX_DIGITS / 2];
    int n;

    if (strlen(path) >= sizeof(file->path) || *name == '\0' || !set_folder(file->folder, path))
        return false;
    memcpy(file->path, path, strlen(path) + 1);
    hth_os_random(bytes, sizeof(bytes));
    hth_hex_encode(bytes, sizeof(bytes), hex);
    /* The longest names leave no room for the suffix, so only their beginning is used. */
    n = snprintf(file->temporary, sizeof(file->temporary), "%s/.%.*s.%s%s", file->folder, NAME_BYTES_MAX, name, hex,
                 suffix);
    return n > 0 && (size_t)n < sizeof(file->temporary);
}

static hearth_status check_name(const hth_whole_file *file, hearth_error *err)
{
    hth_fs_stat st;
    int rc = hth_fs_stat_path(file->fs, file->path, &st);

    if (rc == -ENOENT)
        return HEARTH_OK;
    if (rc != 0)
        return hth_fail_errno(err, -rc, "cannot look at '%s'", file->path);
    if (st.is_directory)
        return hth_fail(err, HEARTH_MISUSE, "'%s' is a directory; give the name of a file", file->path);
    if (file->mode == HTH_WHOLE_FILE_NEW)
        return hth_fail(err, HEARTH_MISUSE, "'%s' exists already; give another name, or have it replaced", file->path);
    return HEARTH_OK;
}

/* False: a sweep mistook the new file for one that was left behind, and removed it. */
static bool lock(int fd)
{
    struct stat st;

    while (flock(fd, LOCK_EX) != 0 && errno == EINTR)
        ; /* other errors: a file system without locks has no sweeps */
    return fstat(fd, &st) != 0 || st.st_nlink > 0;
}

hearth_status hth_whole_file_begin(const hth_fs *fs, const char *path, hth_whole_file_mode mode, hth_whole_file **out,
                                   hearth_error *err)
{
    hth_whole_file *file = calloc(1, sizeof(*file));
    hearth_status status;

    if (!file)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to write '%s'", path);
    file->fs = fs;
    file->mode = mode;
    file->fd = -1;
    if (!set_paths(file, path)) {
        status = hth_fail(err, HEARTH_MISUSE, "'%.200s' is no name for a file, or too long; give a shorter one", path);
        goto out;
    }
    status = check_name(file, err);
    if (status != HEARTH_OK)
        goto out;
    do {
        if (file->fd >= 0)
            hth_fs_close(fs, file->fd);
        file->fd = hth_fs_open(fs, file->temporary, HTH_FS_CREATE);
    } while (file->fd >= 0 && fs == hth_fs_system() && !lock(file->fd));
    if (file->fd < 0) {
        status = hth_fail_errno(err, -file->fd, "cannot make a file in '%s'", file->folder);
        goto out;
    }
    file->has_name = true;

    *out = file;
    file = NULL;
out:
    hth_whole_file_abort(file);
    return status;
}

hearth_status hth_whole_file_write(hth_whole_file *file, const void *bytes, size_t n_bytes, hearth_error *err)
{
    int rc = hth_fs_write_all(file->fs, file->fd, bytes, n_bytes);

    return rc == 0 ? HEARTH_OK : hth_fail_errno(err, -rc, "cannot write '%s'", file->path);
}

static bool has_no_links(int rc)
{
    return rc == -EPERM || rc == -ENOTSUP || rc == -ENOSYS;
}

static hearth_status give_name(hth_whole_file *file, hearth_error *err)
{
    hearth_status status;
    int rc;

    if (file->mode == HTH_WHOLE_FILE_NEW) {
        rc = hth_fs_link(file->fs, file->temporary, file->path);
        if (rc == 0)
            return HEARTH_OK; /* the temporary name is removed with the object */
        if (rc != -EEXIST && !has_no_links(rc))
            return hth_fail_errno(err, -rc, "cannot give a file the name '%s'", file->path);
    }
    status = check_name(file, err);
    if (status != HEARTH_OK)
        return status;
    rc = hth_fs_rename(file->fs, file->temporary, file->path);
    if (rc != 0)
        return hth_fail_errno(err, -rc, "cannot give a file the name '%s'", file->path);
    file->has_name = false;
    return HEARTH_OK;
}

int hth_whole_file_descriptor(const hth_whole_file *file)
{
    return file->fd;
}

const char *hth_whole_file_temporary_path(const hth_whole_file *file)
{
    return file->temporary;
}

hearth_status hth_whole_file_commit(hth_whole_file *file, hearth_error *err)
{
    int rc = hth_fs_sync_data(file->fs, file->fd);
    hearth_status status;

    if (rc != 0)
        status = hth_fail_errno(err, -rc, "cannot bring '%s' to the disk", file->path);
    else
        status = give_name(file, err);
    if (status == HEARTH_OK && file->has_name) {
        (void)hth_fs_remove(file->fs, file->temporary); /* an extra name does no harm */
        file->has_name = false;
    }
    if (status == HEARTH_OK) {
        rc = hth_fs_sync_directory(file->fs, file->folder);
        if (rc != 0)
            status = hth_fail_errno(err, -rc, "cannot make the name '%s' durable", file->path);
    }
    hth_whole_file_abort(file);
    return status;
}

void hth_whole_file_abort(hth_whole_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        hth_fs_close(file->fs, file->fd);
    if (file->has_name)
        (void)hth_fs_remove(file->fs, file->temporary); /* there is no further remedy */
    free(file);
}

hearth_status hth_whole_file_end(hth_whole_file *file, hearth_status so_far, hearth_error *err)
{
    if (so_far == HEARTH_OK)
        return hth_whole_file_commit(file, err);
    hth_whole_file_abort(file);
    return so_far;
}

/* ---- files that were left behind ---- */

/* ".<name>.<16 hex digits>.part" */
static bool is_temporary(const char *name)
{
    const size_t n = strlen(name), n_end = HEX_DIGITS + strlen(suffix);

    return name[0] == '.' && n > n_end + 2 && name[n - n_end - 1] == '.' &&
           strspn(name + n - n_end, "0123456789abcdef") == HEX_DIGITS && strcmp(name + n - strlen(suffix), suffix) == 0;
}

static void remove_dead(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)unlink(path); /* otherwise the next sweep does */
    (void)close(fd);        /* only inspected */
}

void hth_whole_file_sweep(const char *path)
{
    char folder[PATH_BYTES], found[PATH_BYTES];
    const struct dirent *entry;
    DIR *directory = set_folder(folder, path) ? opendir(folder) : NULL;

    while (directory && (entry = readdir(directory)))
        if (is_temporary(entry->d_name) &&
            snprintf(found, sizeof(found), "%s/%s", folder, entry->d_name) < (int)sizeof(found))
            remove_dead(found);
    if (directory)
        (void)closedir(directory);
}
