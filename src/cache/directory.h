/*
 * directory.h - where the cache is when nobody says
 */
#ifndef HTH_CACHE_DIRECTORY_H
#define HTH_CACHE_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * $HEARTH_CACHE, else $XDG_CACHE_HOME/hearth/kv, else $HOME/.cache/hearth/kv; variables that are empty, and an
 * XDG_CACHE_HOME that is not absolute, count as not set. False, with path unchanged, when none is set or it does not
 * fit.
 */
bool hth_cache_default_directory(char *path, size_t capacity);

#endif
