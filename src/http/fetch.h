/*
 * fetch.h - requests of commands to servers; each blocks until its reply has come
 *
 * An hth_fetch makes successive ones over a persistent connection. hth_ask makes a single one to a Hearth server.
 *
 * Redirects are not followed, because the next host must not see the key for this one. hth_fetch_redirect gives their
 * target.
 */
#ifndef HTH_HTTP_FETCH_H
#define HTH_HTTP_FETCH_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/buffer.h"
#include "hearth.h"

enum { HTH_FETCH_URL_BYTES = 8192 };

typedef struct hth_fetch hth_fetch; /* one thread at a time */

/* NULL: no memory. hth_fetch_new and _free are for one thread; other threads may use their own hth_fetch meanwhile. */
hth_fetch *hth_fetch_new(void);
void hth_fetch_free(hth_fetch *fetch); /* accepts NULL */

/*
 * The address of a page of a server: out receives base, which is "http://host:8080", "https://..." or
 * "unix:/path/of/a.sock", followed by path. *socket_out is the path of the socket, within base, or NULL. False: it is
 * too long.
 */
bool hth_fetch_address(const char *base, const char *path, char out[HTH_FETCH_URL_BYTES], const char **socket_out);

/*
 * Gets bytes of the body of a reply with this status, in order. It may call hth_fetch_header. False ends the transfer.
 */
typedef bool (*hth_fetch_bytes_fn)(hth_fetch *fetch, long status, const void *bytes, size_t n_bytes, void *user_data);

typedef struct hth_fetch_order {
    const char *url;     /* http or https */
    const char *socket;  /* the unix socket that the server listens on; NULL: use the address */
    const char *key;     /* a client's key, for the header Authorization; NULL: none */
    const char *accept;  /* accepted types of the body; NULL: any */
    uint64_t begin, end; /* the requested bytes [begin, end); end 0: all, without a header Range */
    const char *json;    /* the body of a POST; NULL: a GET */
    const char *method;  /* "DELETE" instead of GET or POST; NULL: none */
    uint32_t timeout_ms; /* for the whole transfer; 0: none, but a connection that is silent for a minute ends */
    uint32_t silence_s;  /* replaces this minute; 0: a minute */
    const volatile sig_atomic_t *stop; /* set by a handler or another thread; ends it within 1 s; NULL: none */
    hth_fetch_bytes_fn on_bytes;
    void *user_data;
} hth_fetch_order;

/*
 * HEARTH_OK: the reply is complete; *status_out is its status, whatever it is. HEARTH_CANCELLED: on_bytes or stop ended
 * the transfer. HEARTH_IO: there is no connection, or it broke; the message has the host and the cause, but never the
 * query of the address, which may hold a secret.
 */
hearth_status hth_fetch_transfer(hth_fetch *fetch, const hth_fetch_order *order, long *status_out, hearth_error *err);

/* From the last reply, until the next hth_fetch_transfer; NULL: it has none. */
const char *hth_fetch_header(hth_fetch *fetch, const char *name);
const char *hth_fetch_redirect(hth_fetch *fetch);   /* an absolute address */
uint64_t hth_fetch_retry_after_s(hth_fetch *fetch); /* 0: it has none */

/* Do both addresses have the same scheme, host and port? False if one is not an address. */
bool hth_fetch_same_origin(const char *a, const char *b);
/*
 * May a reply from one address redirect to the other? Yes to https, to the same origin, and from http on this machine
 * (loopback) to http on this machine. So no remote server can direct a request to a program here.
 */
bool hth_fetch_may_lead(const char *from, const char *to);
/* Write the address without name and password, for display, to out, cut if too long. Returns out. */
const char *hth_fetch_shown(const char *url, char out[HTH_FETCH_URL_BYTES]);

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
