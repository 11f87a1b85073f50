/*
 * fetch.h - one GET or POST after another over a connection that is kept, for commands; each blocks until its answer
 * has come
 *
 * Redirects are not followed, because the next host must not see the key of this one. hth_fetch_redirect tells where
 * they lead.
 */
#ifndef HTH_HTTP_FETCH_H
#define HTH_HTTP_FETCH_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

enum { HTH_FETCH_URL_BYTES = 8192 };

typedef struct hth_fetch hth_fetch; /* one thread at a time */

/* NULL: no memory. hth_fetch_new and _free are for one thread, and accept that others use their own hth_fetch. */
hth_fetch *hth_fetch_new(void);
void hth_fetch_free(hth_fetch *fetch); /* accepts NULL */

/*
 * The address of a page of a server: out receives base, which is "http://host:8080", "https://..." or
 * "unix:/path/of/a.sock", and path behind it. *socket_out is the path of the socket, within base, or NULL. False: it is
 * too long.
 */
bool hth_fetch_address(const char *base, const char *path, char out[HTH_FETCH_URL_BYTES], const char **socket_out);

/*
 * Bytes of the body of an answer with this status, in order; hth_fetch_header may be asked. False ends the transfer.
 */
typedef bool (*hth_fetch_bytes_fn)(hth_fetch *fetch, long status, const void *bytes, size_t n_bytes, void *user_data);

typedef struct hth_fetch_order {
    const char *url;                   /* http or https */
    const char *socket;                /* the unix socket on which its server listens; NULL: by the address */
    const char *key;                   /* of a client, for the header Authorization; NULL: none */
    const char *accept;                /* the types of the body that are wanted; NULL: any */
    uint64_t begin, end;               /* the bytes to ask for, half-open; end 0: all, without a header Range */
    const char *json;                  /* the body of a POST; NULL: a GET */
    const char *method;                /* instead of these two, "DELETE"; NULL: none */
    uint32_t timeout_ms;               /* for all of it; 0: none, but a connection that is silent for a minute ends */
    uint32_t silence_s;                /* another time than this minute; 0: the minute */
    const volatile sig_atomic_t *stop; /* not 0, from a handler or another thread, ends it within 1 s; NULL: none */
    hth_fetch_bytes_fn on_bytes;
    void *user_data;
} hth_fetch_order;

/*
 * HEARTH_OK: the answer came to its end; *status_out is its status, whichever. HEARTH_CANCELLED: on_bytes or stop ended
 * it. HEARTH_IO: there is no connection, or it broke; the message has the host and the cause, and never the query of
 * the address, which may hold a secret.
 */
hearth_status hth_fetch_transfer(hth_fetch *fetch, const hth_fetch_order *order, long *status_out, hearth_error *err);

/* After HEARTH_IO: was there a connection? */
bool hth_fetch_has_reached(const hth_fetch *fetch);
/* Of the last answer, until the next hth_fetch_transfer; NULL: it has none. */
const char *hth_fetch_header(hth_fetch *fetch, const char *name);
const char *hth_fetch_redirect(hth_fetch *fetch);   /* an absolute address */
uint64_t hth_fetch_retry_after_s(hth_fetch *fetch); /* 0: it has none */

/* Have both addresses the same scheme, host and port? False if one is no address. */
bool hth_fetch_same_origin(const char *a, const char *b);
/*
 * May an answer of one address lead to the other? Yes to https, to the same origin, and from http of this machine
 * (loopback) to http of this machine: no other server chooses a program here to be asked.
 */
bool hth_fetch_may_lead(const char *from, const char *to);
/* The address without its name and password, to be shown: out, where a longer one is cut. */
const char *hth_fetch_shown(const char *url, char out[HTH_FETCH_URL_BYTES]);

#endif
