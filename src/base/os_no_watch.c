/*
 * os_no_watch.c - folder watches, for systems that cannot report changes of a whole folder through a descriptor
 */
#include <errno.h>

#include "base/os.h"

int hth_os_watch_open(void)
{
    errno = ENOTSUP;
    return -1;
}

int hth_os_watch_add(int watch, const char *folder)
{
    (void)watch;
    (void)folder;
    errno = ENOTSUP;
    return -1;
}

bool hth_os_watch_take(int watch, bool (*matters)(const char *name))
{
    (void)watch;
    (void)matters;
    return false;
}
