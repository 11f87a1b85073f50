/*
 *   hearth-XXXXXX/       the folder of one server
 *     lock               the server locks it (flock) as long as it lives
 *     0-1/s              a worker's socket: model and generation
 *
 * A server owns its folder once it has locked the file and seen that the file still exists. Before that, a cleaning
 * server may take the new folder for an abandoned one, and lock it first. Then the maker makes another folder. Cleaning
 * removes the lock file last. So the next server continues a cleaning that a kill interrupted.
 *
 * A folder without a lock file has an unknown owner, and stays.
 */
#include "supervisor/runtime_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/status.h"

enum { TRIES_MAX = 100 };

static const char prefix[] = "hearth-", lock_name[] = "lock";

/* ---- folders of dead servers ---- */

/* Open a folder for next_entry, which skips "." and "..". NULL with errno if it cannot be read. */
static DIR *open_entries(int folder_fd)
{
    int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;

    if (!entries && fd >= 0)
        (void)close(fd); /* nothing was read from it */
    return entries;
}

static const char *next_entry(DIR *entries)
{
    struct dirent *entry;

    while ((entry = readdir(entries)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            return entry->d_name;
    return NULL;
}

static int open_folder(int parent_fd, const char *name)
{
    return openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Remove the files in a worker's folder, and the folder if it is empty then. */
static void remove_sockets(int folder_fd, const char *name)
{
    int fd = open_folder(folder_fd, name);
    DIR *entries = fd >= 0 ? open_entries(fd) : NULL;
    const char *entry;
    struct stat st;

    while (entries && (entry = next_entry(entries)))
        if (fstatat(fd, entry, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode))
            (void)unlinkat(fd, entry, 0); /* if a file stays, the folder stays, here and below */
    if (entries)
        (void)closedir(entries);
    if (fd >= 0)
        (void)close(fd);
    (void)unlinkat(folder_fd, name, AT_REMOVEDIR);
}

/* Remove a folder whose lock this process holds. True: it is gone. */
static bool remove_left(int parent_fd, const char *name, int folder_fd)
{
    DIR *entries = open_entries(folder_fd);
    const char *entry;
    bool is_empty = entries != NULL;

    while (entries && (entry = next_entry(entries)))
        if (strcmp(entry, lock_name) != 0)
            remove_sockets(folder_fd, entry);
    if (entries)
        rewinddir(entries);
    while (entries && (entry = next_entry(entries)))
        is_empty = is_empty && strcmp(entry, lock_name) == 0;
    if (entries)
        (void)closedir(entries);
    return is_empty && unlinkat(folder_fd, lock_name, 0) == 0 && unlinkat(parent_fd, name, AT_REMOVEDIR) == 0;
}

/* Remove the folder if it belongs to a dead server. True: it is gone. */
static bool clean(int parent_fd, const char *name)
{
    int folder_fd = open_folder(parent_fd, name), lock_fd = -1;
    struct stat st;
    bool is_gone = false;

    if (folder_fd >= 0 && fstat(folder_fd, &st) == 0 && st.st_uid == geteuid())
        lock_fd = openat(folder_fd, lock_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    /* A living owner holds the lock. */
    if (lock_fd >= 0 && flock(lock_fd, LOCK_EX | LOCK_NB) == 0)
        is_gone = remove_left(parent_fd, name, folder_fd);
    if (lock_fd >= 0)
        (void)close(lock_fd); /* unlocks it */
    if (folder_fd >= 0)
        (void)close(folder_fd);
    return is_gone;
}

static void clean_all(const char *parent, const hth_log *log)
{
    DIR *entries = opendir(parent);
    const char *entry;
    unsigned n = 0;

    while (entries && (entry = next_entry(entries)))
        if (strncmp(entry, prefix, sizeof(prefix) - 1) == 0)
            n += clean(dirfd(entries), entry);
    if (entries)
        (void)closedir(entries);
    if (n > 0)
        hth_info(log, "removed what killed servers had left of sockets in '%s': %u folders", parent, n);
}

/* ---- the folder of this server ---- */

typedef enum lock_result { LOCK_OURS, LOCK_NONE, LOCK_LOST } lock_result;

/* LOCK_NONE: the file system has no locks, so the folder gets no lock file, and no server removes it. */
static lock_result take_lock(const char *folder, int *lock_fd)
{
    char path[HTH_RUNTIME_FOLDER_BYTES + sizeof(lock_name)];
    struct stat st;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, lock_name); /* fits */
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == ENOENT ? LOCK_LOST : LOCK_NONE;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 && st.st_nlink > 0) {
        *lock_fd = fd;
        return LOCK_OURS;
    }
    if (errno != EWOULDBLOCK && fstat(fd, &st) == 0 && st.st_nlink > 0) {
        (void)unlink(path);
        (void)close(fd); /* nothing was written to it, here and below */
        return LOCK_NONE;
    }
    (void)close(fd);
    return LOCK_LOST;
}

/* False with errno. */
static bool make_in(const char *parent, size_t n_name_max, hth_runtime_folder *out)
{
    const size_t n_address = sizeof(((struct sockaddr_un *)NULL)->sun_path);
    hth_runtime_folder folder = { .lock_fd = -1 };
    lock_result result = LOCK_LOST;

    for (int i = 0; i < TRIES_MAX && result == LOCK_LOST; i++) {
        int n = snprintf(folder.path, sizeof(folder.path), "%s/%sXXXXXX", parent, prefix);

        if (n < 0 || (size_t)n >= sizeof(folder.path) || (size_t)n + n_name_max >= n_address) {
            errno = ENAMETOOLONG;
            return false;
        }
        if (!mkdtemp(folder.path)) /* mode 0700 */
            return false;
        result = take_lock(folder.path, &folder.lock_fd);
    }
    if (result == LOCK_LOST) {
        errno = EBUSY;
        return false;
    }
    *out = folder;
    return true;
}

hearth_status hth_runtime_folder_make(const char *parent, size_t n_name_max, const hth_log *log,
                                      hth_runtime_folder *out, hearth_error *err)
{
    const char *parents[] = { getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp" };

    if (parent) {
        if (mkdir(parent, 0700) != 0 && errno != EEXIST)
            return hth_fail_errno(err, errno, "cannot make the runtime directory '%s'", parent);
        if (!make_in(parent, n_name_max, out))
            return hth_fail_errno(err, errno, "cannot make a folder for sockets in the runtime directory '%s'", parent);
        clean_all(parent, log);
        return HEARTH_OK;
    }
    for (size_t i = 0; i < sizeof(parents) / sizeof(parents[0]); i++) {
        if (!parents[i] || parents[i][0] != '/' || !make_in(parents[i], n_name_max, out))
            continue;
        clean_all(parents[i], log);
        return HEARTH_OK;
    }
    return hth_fail_errno(
        err, errno, "cannot make a folder for sockets in $XDG_RUNTIME_DIR, $TMPDIR or /tmp; name a runtime directory");
}

void hth_runtime_folder_remove(hth_runtime_folder *folder)
{
    char path[HTH_RUNTIME_FOLDER_BYTES + sizeof(lock_name)];

    if (!folder->path[0])
        return;
    (void)snprintf(path, sizeof(path), "%s/%s", folder->path, lock_name); /* fits */
    if (folder->lock_fd >= 0) {
        (void)unlink(path); /* under the lock, so that no other server cleans it */
        (void)close(folder->lock_fd);
    }
    (void)rmdir(folder->path); /* fails if it is not empty */
    *folder = (hth_runtime_folder){ .lock_fd = -1 };
}

/* ---- one worker's socket ---- */

hearth_status hth_socket_folder_make(const char *folder, unsigned model, uint64_t generation, char *path_out,
                                     size_t capacity, hearth_error *err)
{
    int n = snprintf(path_out, capacity, "%s/%u-%llu/s", folder, model, (unsigned long long)generation);
    char *slash;
    bool is_made;

    if (n < 0 || (size_t)n >= capacity) {
        path_out[0] = '\0';
        return hth_fail(err, HEARTH_MISUSE, "the runtime directory '%s' is too long for sockets in it", folder);
    }
    slash = strrchr(path_out, '/');
    *slash = '\0';
    is_made = mkdir(path_out, 0700) == 0 || errno == EEXIST; /* EEXIST: left by a failed start */
    *slash = '/';
    return is_made ? HEARTH_OK : hth_fail_errno(err, errno, "cannot make a folder for a socket in '%s'", folder);
}

void hth_socket_folder_remove(char *path)
{
    char *slash = strrchr(path, '/');

    if (!slash)
        return;
    (void)unlink(path); /* usually gone already */
    *slash = '\0';
    (void)rmdir(path); /* fails if another process put a file into it */
    *slash = '/';
}
