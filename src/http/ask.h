/*
 * ask.h - one request to a server, for commands: blocks until the reply has come
 */
#ifndef HTH_HTTP_ASK_H
#define HTH_HTTP_ASK_H

#include "api/buffer.h"
#include "hearth.h"

/*
 * GET the page at base and path ("http://host:8080" and "/v1/models"; hth_fetch_address), POST json to it (NULL: GET),
 * or DELETE it, with a client's key (NULL: none), for at most ten seconds. *status_out: the status of the reply; its
 * body, of at most 16 MiB, is appended to out. HEARTH_IO: there was no complete reply; if no server replied at all, the
 * message tells a person at a terminal the remedy. One thread at a time.
 */
hearth_status hth_ask(const char *base, const char *path, const char *key, const char *json, long *status_out,
                      hth_buffer *out, hearth_error *err);
hearth_status hth_ask_delete(const char *base, const char *path, const char *key, long *status_out, hth_buffer *out,
                             hearth_error *err);

#endif
