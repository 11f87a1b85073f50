/*
 * watched_sockets.h - unix sockets that the event loop keeps watching, even while no transfer waits for them
 *
 * libcurl registers a connection with the event loop at the beginning of each request and removes it at the end: two
 * system calls. Here a socket is registered for reading once, when it is made. It stays registered until it is closed,
 * or until it becomes readable while that is not wanted (the peer closed it, or the reader pauses).
 */
#ifndef HTH_HTTP_WATCHED_SOCKETS_H
#define HTH_HTTP_WATCHED_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>

struct event_base;
struct hth_watched_socket;

typedef struct hth_watched_sockets {
    struct event_base *base;
    void (*on_ready)(int fd, short what, void *user_data); /* what: the wanted events among EV_READ and EV_WRITE */
    void *user_data;
    struct hth_watched_socket **sockets; /* [n_sockets], by descriptor; NULL: another descriptor */
    size_t n_sockets;
} hth_watched_sockets;

void hth_watched_sockets_init(hth_watched_sockets *all, struct event_base *base,
                              void (*on_ready)(int fd, short what, void *user_data), void *user_data);
void hth_watched_sockets_deinit(hth_watched_sockets *all); /* after all sockets were closed */

/* Make a unix stream socket, not connected. -1 with errno. Later calls for it need no memory. */
int hth_watched_sockets_open(hth_watched_sockets *all);
void hth_watched_sockets_close(hth_watched_sockets *all, int fd);
/* Set the wanted events: EV_READ, EV_WRITE, both or none. False if the system fails. */
bool hth_watched_sockets_want(hth_watched_sockets *all, int fd, short what);

/* Try to connect to path, then close. 0 or errno; EAGAIN: the queue of the listener is full. */
int hth_unix_socket_probe(const char *path);

#endif
