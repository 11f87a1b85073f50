/*
 * watched_sockets.c - see watched_sockets.h
 */
#include "http/watched_sockets.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { TABLE_FIRST = 64 };

typedef struct hth_watched_socket {
    struct event *event;
    short wanted;     /* events that on_ready gets */
    short registered; /* events that the event loop watches: wanted, and perhaps EV_READ */
} hth_watched_socket;

static void on_event(evutil_socket_t fd, short what, void *user_data)
{
    hth_watched_sockets *all = user_data;
    hth_watched_socket *watched = all->sockets[fd];

    what &= watched->wanted;
    if (what) {
        all->on_ready(fd, what, all->user_data);
        return;
    }
    (void)event_del(watched->event); /* cannot fail for an event of event_new */
    watched->registered = 0;
}

void hth_watched_sockets_init(hth_watched_sockets *all, struct event_base *base,
                              void (*on_ready)(int fd, short what, void *user_data), void *user_data)
{
    *all = (hth_watched_sockets){ .base = base, .on_ready = on_ready, .user_data = user_data };
}

void hth_watched_sockets_deinit(hth_watched_sockets *all)
{
    for (size_t fd = 0; fd < all->n_sockets; fd++)
        assert(!all->sockets[fd]);
    free(all->sockets);
    all->sockets = NULL;
    all->n_sockets = 0;
}

static bool table_reach(hth_watched_sockets *all, size_t fd)
{
    size_t n = all->n_sockets ? all->n_sockets : TABLE_FIRST;
    hth_watched_socket **grown;

    if (fd < all->n_sockets)
        return true;
    while (n <= fd)
        n *= 2;
    grown = realloc(all->sockets, n * sizeof(*grown));
    if (!grown)
        return false;
    memset(grown + all->n_sockets, 0, (n - all->n_sockets) * sizeof(*grown));
    all->sockets = grown;
    all->n_sockets = n;
    return true;
}

static void watched_free(hth_watched_socket *watched)
{
    if (watched && watched->event)
        event_free(watched->event);
    free(watched);
}

static hth_watched_socket *watched_new(hth_watched_sockets *all, int fd)
{
    hth_watched_socket *watched = calloc(1, sizeof(*watched));

    if (!watched)
        return NULL;
    watched->event = event_new(all->base, fd, EV_READ | EV_PERSIST, on_event, all);
    watched->registered = EV_READ;
    if (watched->event && event_add(watched->event, NULL) == 0)
        return watched;
    watched_free(watched);
    return NULL;
}

static int unix_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    if (fd >= 0 && (evutil_make_socket_closeonexec(fd) != 0 || evutil_make_socket_nonblocking(fd) != 0)) {
        (void)close(fd); /* unused */
        fd = -1;
    }
    return fd;
}

int hth_watched_sockets_open(hth_watched_sockets *all)
{
    int fd = unix_socket();

    if (fd < 0)
        return -1;
    if (table_reach(all, (size_t)fd)) {
        assert(!all->sockets[fd]);
        all->sockets[fd] = watched_new(all, fd);
        if (all->sockets[fd])
            return fd;
    }
    (void)close(fd); /* unused */
    errno = ENOMEM;
    return -1;
}

void hth_watched_sockets_close(hth_watched_sockets *all, int fd)
{
    if ((size_t)fd < all->n_sockets) {
        watched_free(all->sockets[fd]);
        all->sockets[fd] = NULL;
    }
    (void)close(fd); /* an error would change nothing */
}

bool hth_watched_sockets_want(hth_watched_sockets *all, int fd, short what)
{
    hth_watched_socket *watched = (size_t)fd < all->n_sockets ? all->sockets[fd] : NULL;
    short registered;

    if (!watched)
        return false;
    registered = (short)(what | (watched->registered & EV_READ));
    watched->wanted = what;
    if (registered == watched->registered)
        return true;
    (void)event_del(watched->event); /* as above */
    watched->registered = 0;
    if (event_assign(watched->event, all->base, fd, (short)(registered | EV_PERSIST), on_event, all) != 0 ||
        event_add(watched->event, NULL) != 0)
        return false;
    watched->registered = registered;
    return true;
}

int hth_unix_socket_probe(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd, errnum = 0;

    if (strlen(path) >= sizeof(address.sun_path))
        return ENAMETOOLONG;
    memcpy(address.sun_path, path, strlen(path) + 1);
    fd = unix_socket();
    if (fd < 0)
        return errno;
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        errnum = errno;
    (void)close(fd); /* nothing was written */
    return errnum;
}
