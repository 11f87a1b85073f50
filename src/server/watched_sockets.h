/*
 * watched_sockets.h - unix sockets that the event loop keeps watching, also while nobody waits for them
 *
 * A connection that is used again and again is waited for again and again, by libcurl with a registration at each
 * request's beginning and a removal at its end: two system calls. Here a socket is registered as readable once, when it
 * is made, and that stays until it disturbs (somebody closed it, or a reader pauses) or until it is closed.
 */
#ifndef HTH_SERVER_WATCHED_SOCKETS_H
#define HTH_SERVER_WATCHED_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>

struct event_base;
struct hth_watched_socket;

typedef struct hth_watched_sockets {
    struct event_base *base;
    void (*on_ready)(int fd, short what, void *user_data); /* what of that which is wanted: EV_READ, EV_WRITE */
    void *user_data;
    struct hth_watched_socket **sockets; /* [n_sockets], by descriptor; NULL where it is none of these */
    size_t n_sockets;
} hth_watched_sockets;

void hth_watched_sockets_init(hth_watched_sockets *all, struct event_base *base,
                              void (*on_ready)(int fd, short what, void *user_data), void *user_data);
void hth_watched_sockets_deinit(hth_watched_sockets *all); /* they were closed */

/* A new unix stream socket, not connected; -1 with errno. What can fail for want of memory fails here. */
int hth_watched_sockets_open(hth_watched_sockets *all);
void hth_watched_sockets_close(hth_watched_sockets *all, int fd);
/* Wait for other things than before: EV_READ, EV_WRITE, both, or nothing. False: the system could not. */
bool hth_watched_sockets_want(hth_watched_sockets *all, int fd, short what);

/* What a connection to path would get now: 0, or errno; EAGAIN where the listener's queue is full. */
int hth_unix_socket_probe(const char *path);

#endif
