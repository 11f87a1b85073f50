/*
 * fs.c - the system's file operations, and the retry loops around the operations of any table
 */
#include "base/fs.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"

enum { LOCK_POLL_MS = 10 };

/* ---- the system's table ---- */

/* A system call's result as a result of the table. */
static int result_of(int result)
{
    return result < 0 ? -errno : result;
}

static int system_open(void *context, const char *path, hth_fs_mode mode)
{
    (void)context;
    switch (mode) {
    case HTH_FS_READ: return result_of(open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    case HTH_FS_CREATE: return result_of(open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    case HTH_FS_SHARED: return result_of(open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    }
    return -EINVAL;
}

static int system_open_unnamed(void *context, const char *directory)
{
    (void)context;
    return result_of(hth_os_open_unnamed(directory));
}

static int system_close(void *context, int fd)
{
    (void)context;
    return result_of(close(fd));
}

static int64_t system_read_at(void *context, int fd, void *bytes, size_t n_bytes, uint64_t offset)
{
    ssize_t n = pread(fd, bytes, n_bytes, (off_t)offset);

    (void)context;
    return n < 0 ? -errno : n;
}

static int64_t system_write(void *context, int fd, const void *bytes, size_t n_bytes)
{
    ssize_t n = write(fd, bytes, n_bytes);

    (void)context;
    return n < 0 ? -errno : n;
}

static int system_sync_data(void *context, int fd)
{
    (void)context;
    return result_of(hth_os_sync_data(fd));
}

static int system_sync_directory(void *context, const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result;

    (void)context;
    if (fd < 0)
        return -errno;
    result = result_of(fsync(fd));
    (void)close(fd);                       /* only read from */
    return result == -EINVAL ? 0 : result; /* this file system's directories need no sync, or cannot be synced */
}

static int system_link_unnamed(void *context, int fd, const char *path)
{
    (void)context;
    return result_of(hth_os_link_unnamed(fd, path));
}

static int system_link(void *context, const char *from, const char *to)
{
    (void)context;
    return result_of(link(from, to));
}

static int system_rename(void *context, const char *from, const char *to)
{
    (void)context;
    return result_of(rename(from, to));
}

static int system_remove(void *context, const char *path)
{
    (void)context;
    return result_of(remove(path));
}

static int system_make_directory(void *context, const char *path)
{
    (void)context;
    return result_of(mkdir(path, 0700));
}

static hth_fs_stat stat_of(const struct stat *st)
{
    return (hth_fs_stat){
        .bytes = (uint64_t)st->st_size,
        .mtime = hth_os_mtime_ns(st) / 1000000000u,
        .changed_ns = hth_os_ctime_ns(st),
        .device = (uint64_t)st->st_dev,
        .inode = (uint64_t)st->st_ino,
        .uid = (uint32_t)st->st_uid,
        .permissions = (uint32_t)st->st_mode & 0777,
        .is_sticky = (st->st_mode & S_ISVTX) != 0,
        .is_directory = S_ISDIR(st->st_mode),
        .is_regular = S_ISREG(st->st_mode),
    };
}

static int system_stat(void *context, const char *path, hth_fs_stat *out)
{
    struct stat st;

    (void)context;
    if (stat(path, &st) != 0)
        return -errno;
    *out = stat_of(&st);
    return 0;
}

static int system_stat_open(void *context, int fd, hth_fs_stat *out)
{
    struct stat st;

    (void)context;
    if (fstat(fd, &st) != 0)
        return -errno;
    *out = stat_of(&st);
    return 0;
}

static int system_set_mtime(void *context, const char *path, uint64_t unix_seconds)
{
    const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = (time_t)unix_seconds } };

    (void)context;
    return result_of(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW));
}

static int system_list(void *context, const char *path, hth_fs_visit_fn visit, void *user_data)
{
    DIR *directory = opendir(path);
    const struct dirent *entry;
    int result;

    (void)context;
    if (!directory)
        return -errno;
    for (;;) {
        errno = 0;
        entry = readdir(directory);
        result = entry ? 0 : -errno;
        if (!entry)
            break;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (!visit(entry->d_name, user_data))
            break;
    }
    (void)closedir(directory); /* only read from */
    return result;
}

static int system_free_bytes(void *context, const char *path, uint64_t *out)
{
    struct statvfs st;

    (void)context;
    if (statvfs(path, &st) != 0)
        return -errno;
    if (__builtin_mul_overflow((uint64_t)st.f_bavail, (uint64_t)st.f_frsize, out))
        *out = UINT64_MAX;
    return 0;
}

static int system_lock(void *context, int fd, hth_fs_lock_mode mode)
{
    (void)context;
    switch (mode) {
    case HTH_FS_LOCK_HOLD: return result_of(flock(fd, LOCK_EX));
    case HTH_FS_LOCK_TRY: return result_of(flock(fd, LOCK_EX | LOCK_NB));
    case HTH_FS_LOCK_PROBE: return result_of(flock(fd, LOCK_SH | LOCK_NB));
    }
    return -EINVAL;
}

const hth_fs *hth_fs_system(void)
{
    static const hth_fs fs = {
        .open = system_open,
        .open_unnamed = system_open_unnamed,
        .close = system_close,
        .read_at = system_read_at,
        .write = system_write,
        .sync_data = system_sync_data,
        .sync_directory = system_sync_directory,
        .link_unnamed = system_link_unnamed,
        .link = system_link,
        .rename = system_rename,
        .remove = system_remove,
        .make_directory = system_make_directory,
        .stat = system_stat,
        .stat_open = system_stat_open,
        .set_mtime = system_set_mtime,
        .list = system_list,
        .free_bytes = system_free_bytes,
        .lock = system_lock,
    };

    return &fs;
}

/* ---- through a table ---- */

/* The result of a call, which is made again as long as a signal interrupts it. */
#define UNINTERRUPTED(call)        \
    ({                             \
        int result_;               \
                                   \
        do                         \
            result_ = (call);      \
        while (result_ == -EINTR); \
        result_;                   \
    })

int hth_fs_open(const hth_fs *fs, const char *path, hth_fs_mode mode)
{
    return UNINTERRUPTED(fs->open(fs->context, path, mode));
}

int hth_fs_open_unnamed(const hth_fs *fs, const char *directory)
{
    return UNINTERRUPTED(fs->open_unnamed(fs->context, directory));
}

void hth_fs_close(const hth_fs *fs, int fd)
{
    if (fd >= 0)
        (void)fs->close(fs->context, fd); /* the bytes were synced before, or only read */
}

int hth_fs_read_full(const hth_fs *fs, int fd, void *bytes, size_t n_bytes, uint64_t offset, size_t *n_out)
{
    size_t n_done = 0;

    while (n_done < n_bytes) {
        int64_t n = fs->read_at(fs->context, fd, (uint8_t *)bytes + n_done, n_bytes - n_done, offset + n_done);

        if (n == -EINTR)
            continue;
        if (n < 0)
            return (int)n;
        if (n == 0)
            break;
        assert((size_t)n <= n_bytes - n_done);
        n_done += (size_t)n;
    }
    *n_out = n_done;
    return 0;
}

int hth_fs_write_all(const hth_fs *fs, int fd, const void *bytes, size_t n_bytes)
{
    size_t n_done = 0;

    while (n_done < n_bytes) {
        int64_t n = fs->write(fs->context, fd, (const uint8_t *)bytes + n_done, n_bytes - n_done);

        if (n == -EINTR)
            continue;
        if (n < 0)
            return (int)n;
        if (n == 0)
            return -EIO; /* the file accepts no bytes and reports no error */
        assert((size_t)n <= n_bytes - n_done);
        n_done += (size_t)n;
    }
    return 0;
}

int hth_fs_sync_data(const hth_fs *fs, int fd)
{
    return UNINTERRUPTED(fs->sync_data(fs->context, fd));
}

int hth_fs_sync_directory(const hth_fs *fs, const char *path)
{
    return UNINTERRUPTED(fs->sync_directory(fs->context, path));
}

int hth_fs_link_unnamed(const hth_fs *fs, int fd, const char *path)
{
    return UNINTERRUPTED(fs->link_unnamed(fs->context, fd, path));
}

int hth_fs_link(const hth_fs *fs, const char *from, const char *to)
{
    return UNINTERRUPTED(fs->link(fs->context, from, to));
}

int hth_fs_rename(const hth_fs *fs, const char *from, const char *to)
{
    return UNINTERRUPTED(fs->rename(fs->context, from, to));
}

int hth_fs_remove(const hth_fs *fs, const char *path)
{
    return UNINTERRUPTED(fs->remove(fs->context, path));
}

int hth_fs_make_directory(const hth_fs *fs, const char *path)
{
    return UNINTERRUPTED(fs->make_directory(fs->context, path));
}

int hth_fs_stat_path(const hth_fs *fs, const char *path, hth_fs_stat *out)
{
    return UNINTERRUPTED(fs->stat(fs->context, path, out));
}

int hth_fs_stat_open(const hth_fs *fs, int fd, hth_fs_stat *out)
{
    return UNINTERRUPTED(fs->stat_open(fs->context, fd, out));
}

int hth_fs_set_mtime(const hth_fs *fs, const char *path, uint64_t unix_seconds)
{
    return UNINTERRUPTED(fs->set_mtime(fs->context, path, unix_seconds));
}

int hth_fs_list(const hth_fs *fs, const char *path, hth_fs_visit_fn visit, void *user_data)
{
    return fs->list(fs->context, path, visit, user_data);
}

int hth_fs_free_bytes(const hth_fs *fs, const char *path, uint64_t *out)
{
    return UNINTERRUPTED(fs->free_bytes(fs->context, path, out));
}

int hth_fs_lock(const hth_fs *fs, int fd, hth_fs_lock_mode mode)
{
    return UNINTERRUPTED(fs->lock(fs->context, fd, mode));
}

int hth_fs_lock_within(const hth_fs *fs, int fd, hth_fs_lock_mode mode, uint32_t wait_ms)
{
    const struct timespec pause = { .tv_nsec = LOCK_POLL_MS * 1000000L };
    uint32_t waited_ms = 0;
    int result;

    while ((result = hth_fs_lock(fs, fd, mode)) == -EWOULDBLOCK && waited_ms < wait_ms) {
        (void)nanosleep(&pause, NULL); /* flock has no time limit */
        waited_ms += LOCK_POLL_MS;
    }
    return result;
}

void hth_fs_step(const hth_fs *fs, const char *label)
{
    if (fs->step)
        fs->step(fs->context, label);
}
