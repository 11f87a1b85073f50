/*
 * trusted_file.c - see trusted_file.h
 */
#include "console/trusted_file.h"

#include <sys/stat.h>
#include <unistd.h>

bool hth_trusted_file_check(const char *path, const char *what, const char *secrets, uint32_t owner, uint32_t mode,
                            hth_problems *problems)
{
    if (owner != 0 && owner != (uint32_t)geteuid()) {
        hth_problems_add(problems,
                         "%s in '%s' belong to user %u, who may write them at any time, and so let himself in; give "
                         "the file to root or to the server's user: chown root '%s'",
                         what, path, owner, path);
        return false;
    }
    if (mode & S_IWOTH) {
        hth_problems_add(problems, "others may write to %s in '%s', and so let themselves in: chmod 600 '%s'", what,
                         path, path);
        return false;
    }
    if (mode & S_IWGRP)
        hth_problems_warn(problems, "a group may write to %s in '%s', and so let itself in: chmod g-w '%s'", what, path,
                          path);
    if (mode & S_IROTH)
        hth_problems_warn(problems, "others may read %s in '%s': chmod 600 '%s'", secrets, path, path);
    return true;
}
