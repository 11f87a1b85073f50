/*
 * directory.h - where the cache is when nobody says, and whether a directory is safe to keep rows in
 */
#ifndef HTH_CACHE_DIRECTORY_H
#define HTH_CACHE_DIRECTORY_H

#include "base/fs.h"
#include "base/status.h"

/*
 * $HEARTH_CACHE, else $XDG_CACHE_HOME/hearth/kv, else $HOME/.cache/hearth/kv; variables that are empty, and an
 * XDG_CACHE_HOME that is not absolute, count as not set. False, with path unchanged, when none is set or it does not
 * fit.
 */
bool hth_cache_default_directory(char *path, size_t capacity);

/*
 * A place of its own for the index of a root, below index_directory, which is for all of them. The root's path as it is
 * written names it, so that another order of roots, or two caches with one index directory, mix nothing up. False, with
 * path unchanged, when it does not fit.
 */
bool hth_cache_index_place(const char *index_directory, const char *root, char *path, size_t capacity);

/*
 * May rows be kept in this directory: is it one, ours, and can nobody else write to it? *inode_out (may be NULL) tells
 * it from others of its name; it is written for one that is not safe, too. HEARTH_PERMISSION with a
 * remedy; without system_errno when the directory is there and is not safe.
 */
hearth_status hth_directory_check(const hth_fs *fs, const char *path, uint64_t *inode_out, hearth_error *err);

/*
 * Can nobody but us and the system put another directory in the place of this one? False (HEARTH_PERMISSION) when one
 * above it lets everybody rename what is in it. What cannot be looked at counts as safe: nobody else can either.
 */
hearth_status hth_directory_check_above(const hth_fs *fs, const char *path, hearth_error *err);

#endif
