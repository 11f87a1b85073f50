/*
 * first_byte.h - tells connections of several protocols on one port apart, by their first byte
 *
 * The byte stays unread. A connection that sends nothing for a while is closed, and so is the oldest one when too many
 * wait: who sends nothing keeps nobody else out. Event loop only.
 */
#ifndef HTH_HTTP_FIRST_BYTE_H
#define HTH_HTTP_FIRST_BYTE_H

#include <stdint.h>

#include "hearth.h"

struct event_base;

typedef struct hth_first_bytes hth_first_bytes;

typedef struct hth_first_bytes_options {
    struct event_base *base;
    uint32_t n_max; /* connections that wait at once */
    uint32_t timeout_ms;
    /* The first byte is there. Takes over the descriptor. peer names the other side. */
    void (*on_byte_take)(int fd, uint8_t byte, const char *peer, void *user_data);
    void *user_data;
} hth_first_bytes_options;

hearth_status hth_first_bytes_new(const hth_first_bytes_options *options, hth_first_bytes **out, hearth_error *err);
void hth_first_bytes_free(hth_first_bytes *waiting); /* closes those that wait; accepts NULL */
/* Wait for the first byte of a connection, which is non-blocking. Takes over the descriptor, even without memory. */
void hth_first_bytes_wait_take(hth_first_bytes *waiting, int fd, const char *peer);

#endif
