#include "supervisor/folder_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/gguf_name.h"
#include "base/os.h"

enum { QUIET_S = 2 };

struct hth_folder_watch {
    struct event_base *base;
    const hth_log *log;
    void (*on_change)(void *user_data);
    void *user_data;
    int fd;                 /* the system's watch; -1: none */
    struct event *readable; /* of fd */
    struct event *quiet;    /* a timer that each change restarts */
};

/* Without memory for the timer, only the next change is reported. */
static void wait_until_quiet(const hth_folder_watch *watch)
{
    const struct timeval delay = { .tv_sec = QUIET_S };

    if (evtimer_add(watch->quiet, &delay) != 0)
        hth_warn(watch->log, "no memory to wait for the end of a change of the models' folder");
}

static bool is_model(const char *name)
{
    const size_t n = strlen(name);

    return hth_gguf_stem(name, n) < n;
}

static void on_readable(int fd, short what, void *user_data)
{
    const hth_folder_watch *watch = user_data;

    (void)what;
    if (hth_os_watch_take(fd, is_model))
        wait_until_quiet(watch);
}

static void on_quiet(int fd, short what, void *user_data)
{
    const hth_folder_watch *watch = user_data;

    (void)fd;
    (void)what;
    watch->on_change(watch->user_data);
}

hth_folder_watch *hth_folder_watch_new(struct event_base *base, const hth_log *log, void (*on_change)(void *user_data),
                                       void *user_data)
{
    hth_folder_watch *watch = calloc(1, sizeof(*watch));

    if (!watch)
        return NULL;
    *watch = (hth_folder_watch){ .base = base, .log = log, .on_change = on_change, .user_data = user_data, .fd = -1 };
    watch->quiet = evtimer_new(base, on_quiet, watch);
    if (watch->quiet)
        return watch;
    free(watch);
    return NULL;
}

static void end(int fd, struct event *readable)
{
    if (readable)
        event_free(readable);
    if (fd >= 0)
        (void)close(fd); /* only read from */
}

void hth_folder_watch_free(hth_folder_watch *watch)
{
    if (!watch)
        return;
    end(watch->fd, watch->readable);
    event_free(watch->quiet);
    free(watch);
}

/* The errno for the first folder that cannot be watched; 0: all are watched. */
static int begin(hth_folder_watch *watch, const char *const *folders, size_t n)
{
    watch->fd = hth_os_watch_open();
    if (watch->fd < 0)
        return errno;
    for (size_t i = 0; i < n; i++)
        if (hth_os_watch_add(watch->fd, folders[i]) != 0 && errno != ENOENT) /* ENOENT: it is gone already */
            return errno;
    watch->readable = event_new(watch->base, watch->fd, EV_READ | EV_PERSIST, on_readable, watch);
    return watch->readable && event_add(watch->readable, NULL) == 0 ? 0 : ENOMEM;
}

void hth_folder_watch_set(hth_folder_watch *watch, const char *const *folders, size_t n)
{
    const int old_fd = watch->fd;
    struct event *old_readable = watch->readable;
    int error;

    watch->fd = -1;
    watch->readable = NULL;
    error = n > 0 ? begin(watch, folders, n) : 0;
    if (error != 0) {
        end(watch->fd, watch->readable);
        watch->fd = -1;
        watch->readable = NULL;
        hth_warn(watch->log, "new files in '%s' are not noticed: %s; a reload (SIGHUP) looks for them", folders[0],
                 strerror(error));
    }
    /* The old watch ends after the new one has begun, so no change is missed. */
    if (old_fd >= 0 && hth_os_watch_take(old_fd, is_model))
        wait_until_quiet(watch);
    end(old_fd, old_readable);
}
