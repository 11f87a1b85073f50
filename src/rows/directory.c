/*
 * directory.c - the default directory of the cache, and the check for other users who can write to a directory
 */
#include "rows/directory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

bool hth_cache_default_directory(char *path, size_t capacity)
{
    const char *given = variable("HEARTH_CACHE"), *cache = variable("XDG_CACHE_HOME"), *home = variable("HOME");
    char found[4096];
    int n;

    if (given)
        n = snprintf(found, sizeof(found), "%s", given);
    else if (cache && cache[0] == '/')
        n = snprintf(found, sizeof(found), "%s/hearth/kv", cache);
    else if (home)
        n = snprintf(found, sizeof(found), "%s/.cache/hearth/kv", home);
    else
        return false;
    if (n < 0 || (size_t)n >= sizeof(found) || (size_t)n >= capacity)
        return false;
    memcpy(path, found, (size_t)n + 1);
    return true;
}

bool hth_cache_index_place(const char *index_directory, const char *root, char *path, size_t capacity)
{
    uint8_t digest[HTH_SHA256_BYTES];
    char hex[17], found[4096];
    int n;

    hth_sha256_of(root, strlen(root), digest);
    hth_hex_encode(digest, 8, hex);
    n = snprintf(found, sizeof(found), "%s/%s", index_directory, hex);
    if (n < 0 || (size_t)n >= sizeof(found) || (size_t)n >= capacity)
        return false;
    memcpy(path, found, (size_t)n + 1);
    return true;
}

hearth_status hth_directory_check(const hth_fs *fs, const char *path, uint64_t *inode_out, hearth_error *err)
{
    hth_fs_stat st;
    int rc = hth_fs_stat_path(fs, path, &st);

    if (rc != 0)
        return hth_fail_errno(err, -rc, "cannot look at the cache directory '%s'", path);
    if (!st.is_directory)
        return hth_fail(err, HEARTH_PERMISSION, "'%s' is no directory; choose one with --cache or $HEARTH_CACHE", path);
    if (inode_out)
        *inode_out = st.inode;
    if (st.uid != (uint32_t)geteuid())
        return hth_fail(err, HEARTH_PERMISSION,
                        "the cache directory '%s' belongs to another user (uid %" PRIu32
                        "), who could put rows into it; choose one of your own with --cache or $HEARTH_CACHE",
                        path, st.uid);
    if (st.permissions & 022)
        return hth_fail(err, HEARTH_PERMISSION,
                        "others can write to the cache directory '%s' (mode %04" PRIo32
                        "); forbid it with: chmod go-w '%s'",
                        path, st.permissions, path);
    return HEARTH_OK;
}

/* Check one parent directory: can any user rename its entries? */
static hearth_status check_one_above(const hth_fs *fs, const char *above, const char *path, hearth_error *err)
{
    hth_fs_stat st;

    if (hth_fs_stat_path(fs, above, &st) != 0 || !st.is_directory || !(st.permissions & 02) || st.is_sticky)
        return HEARTH_OK;
    return hth_fail(err, HEARTH_PERMISSION,
                    "everybody can rename what is in '%s' (mode %04" PRIo32
                    "), and so put another directory in the place of '%s'; forbid it with: chmod +t '%s', or choose "
                    "another cache directory with --cache or $HEARTH_CACHE",
                    above, st.permissions, path, above);
}

hearth_status hth_directory_check_above(const hth_fs *fs, const char *path, hearth_error *err)
{
    hearth_status status = check_one_above(fs, path[0] == '/' ? "/" : ".", path, err);
    char above[4096];

    for (const char *at = path; status == HEARTH_OK && (at = strchr(at, '/')); at++) {
        size_t n = (size_t)(at - path);

        if (n == 0 || n >= sizeof(above) || at[strspn(at, "/")] == '\0')
            continue;
        memcpy(above, path, n);
        above[n] = '\0';
        status = check_one_above(fs, above, path, err);
    }
    return status;
}
