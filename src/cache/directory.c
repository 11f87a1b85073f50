/*
 * directory.c - where the cache is when nobody says
 */
#include "cache/directory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
