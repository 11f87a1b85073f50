/*
 * owner.c - making, probing and sweeping of locked files
 *
 * The lock belongs to the open file, not to the process (flock), so a probe from the same process does not drop it. A
 * prober holds a shared lock on a dead owner's file for a moment. If an owner runs into such a prober while it takes
 * its own lock, it tries another token. Once it has its lock, an owner checks that its file still has its name, because
 * a prober may have swept the file just before.
 */
#include "index/owner.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/os.h"

enum { ATTEMPTS_MAX = 16, NAME_DIGITS = 16 };

struct hth_owner {
    const hth_fs *fs;
    char *directory;
    uint64_t token;
    int fd;
};

static bool owner_path(const hth_owner *owner, uint64_t token, char *path, size_t capacity)
{
    int n = snprintf(path, capacity, "%s/%016" PRIx64, owner->directory, token);

    return n > 0 && (size_t)n < capacity;
}

/* Does the open file still have this name? */
static bool has_name(const hth_fs *fs, int fd, const char *path)
{
    hth_fs_stat open_file, named;

    return hth_fs_stat_open(fs, fd, &open_file) == 0 && hth_fs_stat_path(fs, path, &named) == 0 &&
           open_file.device == named.device && open_file.inode == named.inode;
}

/* Make and lock a file with a new token. 0, -EEXIST or -ESTALE if another token is to be tried, or -errno. */
static int attempt(hth_owner *owner, const char *path)
{
    int fd = hth_fs_open(owner->fs, path, HTH_FS_CREATE);
    int result;

    if (fd < 0)
        return fd;
    result = hth_fs_lock(owner->fs, fd, HTH_FS_LOCK_TRY);
    if (result == -EWOULDBLOCK)
        result = -ESTALE; /* a prober has the lock and may be stopped: do not wait */
    if (result == 0 && !has_name(owner->fs, fd, path))
        result = -ESTALE;
    if (result == 0) {
        owner->fd = fd;
        return 0;
    }
    (void)hth_fs_remove(owner->fs, path); /* already gone, or unlocked, so the next sweep removes it */
    hth_fs_close(owner->fs, fd);
    return result;
}

hearth_status hth_owner_open(const hth_fs *fs, const char *directory, hth_owner **out, hearth_error *err)
{
    hth_owner *owner = calloc(1, sizeof(*owner));
    hearth_status status;
    char path[4096];
    int result = -EEXIST;

    if (owner) {
        owner->fs = fs;
        owner->fd = -1;
        owner->directory = strdup(directory);
    }
    if (!owner || !owner->directory) {
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the owner file in '%s'", directory);
        goto out;
    }
    for (int i = 0; i < ATTEMPTS_MAX && (result == -EEXIST || result == -ESTALE); i++) {
        do
            hth_os_random(&owner->token, sizeof(owner->token));
        while (owner->token == 0);
        if (!owner_path(owner, owner->token, path, sizeof(path))) {
            status = hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", directory);
            goto out;
        }
        result = attempt(owner, path);
    }
    if (result != 0) {
        status = hth_fail_errno(err, -result, "cannot make a locked file in '%s'", directory);
        goto out;
    }
    *out = owner;
    return HEARTH_OK;
out:
    hth_owner_forget(owner);
    return status;
}

void hth_owner_forget(hth_owner *owner)
{
    if (!owner)
        return;
    hth_fs_close(owner->fs, owner->fd);
    free(owner->directory);
    free(owner);
}

void hth_owner_close(hth_owner *owner)
{
    char path[4096];

    if (!owner)
        return;
    if (owner_path(owner, owner->token, path, sizeof(path)))
        (void)hth_fs_remove(owner->fs, path); /* a remaining file is unlocked, so another process sweeps it */
    hth_owner_forget(owner);
}

uint64_t hth_owner_token(const hth_owner *owner)
{
    return owner->token;
}

/* Try the lock of an owner file. Returns the locked descriptor if its owner is dead, else -errno. */
static int lock_of_the_dead(const hth_owner *owner, uint64_t token, char *path, size_t capacity)
{
    int fd, result;

    if (!owner_path(owner, token, path, capacity))
        return -ENAMETOOLONG;
    fd = hth_fs_open(owner->fs, path, HTH_FS_READ);
    if (fd < 0)
        return fd;
    result = hth_fs_lock(owner->fs, fd, HTH_FS_LOCK_PROBE);
    if (result == 0)
        return fd;
    hth_fs_close(owner->fs, fd);
    return result;
}

bool hth_owner_lives(const hth_owner *owner, uint64_t token)
{
    char path[4096];
    int fd;

    if (token == owner->token)
        return true;
    fd = lock_of_the_dead(owner, token, path, sizeof(path));
    if (fd >= 0)
        hth_fs_close(owner->fs, fd);
    return fd < 0 && fd != -ENOENT;
}

typedef struct sweep {
    const hth_owner *owner;
    size_t n_dead;
} sweep;

static bool sweep_file(const char *name, void *user_data)
{
    sweep *s = user_data;
    char path[4096];
    char *end;
    uint64_t token;
    int fd;

    if (!hth_is_hex(name, NAME_DIGITS))
        return true;
    token = strtoull(name, &end, 16);
    if (token == s->owner->token)
        return true;
    fd = lock_of_the_dead(s->owner, token, path, sizeof(path));
    if (fd < 0)
        return true;
    if (hth_fs_remove(s->owner->fs, path) == 0) /* under the lock, so that no owner takes the file now */
        s->n_dead++;
    hth_fs_close(s->owner->fs, fd);
    return true;
}

size_t hth_owner_sweep(const hth_owner *owner)
{
    sweep s = { .owner = owner };

    (void)hth_fs_list(owner->fs, owner->directory, sweep_file, &s); /* a later sweep finds files that this one misses */
    return s.n_dead;
}
