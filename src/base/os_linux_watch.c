/*
 * os_linux_watch.c - changes of folders, by inotify
 */
#include <sys/inotify.h>
#include <unistd.h>

#include "base/os.h"

int hth_os_watch_open(void)
{
    return inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
}

int hth_os_watch_add(int watch, const char *folder)
{
    const uint32_t changes =
        IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_MOVE_SELF;

    return inotify_add_watch(watch, folder, changes | IN_ONLYDIR) < 0 ? -1 : 0;
}

bool hth_os_watch_take(int watch, bool (*matters)(const char *name))
{
    _Alignas(struct inotify_event) char bytes[4096];
    bool is_changed = false;
    ssize_t n;

    while ((n = read(watch, bytes, sizeof(bytes))) > 0) {
        const struct inotify_event *event;

        for (ssize_t at = 0; at < n; at += (ssize_t)(sizeof(*event) + event->len)) {
            event = (const struct inotify_event *)(bytes + at);
            if (event->len == 0) /* a change of the folder itself, or events were lost */
                is_changed = true;
            else if (event->name[0] != '.')
                is_changed |= (event->mask & IN_ISDIR) != 0 || matters(event->name);
        }
    }
    return is_changed;
}
