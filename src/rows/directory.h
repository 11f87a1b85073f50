/*
 * directory.h - the default directory of the cache, and the check that a directory is safe for rows
 */
#ifndef HTH_ROWS_DIRECTORY_H
#define HTH_ROWS_DIRECTORY_H

#include "base/fs.h"
#include "base/status.h"

/*
 * The default directory: $HEARTH_CACHE, else $XDG_CACHE_HOME/hearth/kv, else $HOME/.cache/hearth/kv. An empty variable
 * and an XDG_CACHE_HOME that is not absolute count as not set. False, with path unchanged, when none of them is set or
 * the path does not fit.
 */
bool hth_cache_default_directory(char *path, size_t capacity);

/*
 * The directory of one root's index, below the index_directory shared by all roots. Its name is a hash of the root's
 * path as written, so a different order of roots, or a second cache with the same index_directory, causes no mix-up.
 * False, with path unchanged, when it does not fit.
 */
bool hth_cache_index_place(const char *index_directory, const char *root, char *path, size_t capacity);

/*
 * Check that rows may be kept at path: it is a directory, it is ours, and no other user can write to it. *inode_out
 * (may be NULL) distinguishes it from later directories of this name; it is also set for an unsafe directory.
 * HEARTH_PERMISSION, with a message that names a remedy; system_errno is not set when the directory exists and is
 * unsafe.
 */
hearth_status hth_directory_check(const hth_fs *fs, const char *path, uint64_t *inode_out, hearth_error *err);

/*
 * Check that only we and the system can replace this directory with another one. HEARTH_PERMISSION: any user can rename
 * the entries of a directory above it. A directory that cannot be examined counts as safe, because other users cannot
 * examine it either.
 */
hearth_status hth_directory_check_above(const hth_fs *fs, const char *path, hearth_error *err);

#endif
