/*
 * os_posix.c - the part of os.h that is the same on every system Hearth runs on
 */
#include "base/os.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t hth_os_unix_seconds(void)
{
    return (uint64_t)time(NULL);
}

bool hth_os_hostname(char *text, size_t capacity)
{
    char name[256];

    if (gethostname(name, sizeof(name)) != 0 || !memchr(name, '\0', sizeof(name)) || strlen(name) >= capacity)
        return false;
    memcpy(text, name, strlen(name) + 1);
    return true;
}
