/*
 * client.h - requests to a hub or a registry: token, redirects, error responses, and retries
 *
 * The token is sent only to the hub itself, never to a host that a redirect names. Only https is used, except for this
 * machine's own addresses and for a hub that the environment names with http.
 */
#ifndef HTH_HUB_CLIENT_H
#define HTH_HUB_CLIENT_H

#include "api/buffer.h"
#include "http/fetch.h"
#include "hub/settings.h"

/* One thread at a time. */
typedef struct hth_hub_client {
    const hth_hub_settings *settings;
    const char *repo;
    hth_fetch *fetch;
    /* The target of the last redirect, so that the next ranges need none; "": unknown. Such addresses expire. */
    char landed[HTH_FETCH_URL_BYTES];
    unsigned n_failures; /* since the last success; the caller resets it on progress */
    uint32_t wait_ms;    /* before the next try */
} hth_hub_client;

/* settings and repo must outlive it. HEARTH_NO_MEMORY. End it with hth_hub_client_deinit, even after a failure. */
hearth_status hth_hub_client_init(hth_hub_client *out, const hth_hub_settings *settings, const char *repo,
                                  hearth_error *err);
void hth_hub_client_deinit(hth_hub_client *client);

typedef struct hth_hub_question {
    const char *path;    /* after the endpoint, with a leading '/' */
    const char *subject; /* in messages */
    const char *accept;  /* as in hth_fetch_order */
    uint64_t begin, end; /* as in hth_fetch_order */
    bool keeps_landing;  /* begin at the landed address, and store the next one */
    /* Called with the headers of a response from the hub itself; may be NULL. Returning false ends the request. */
    bool (*on_head)(hth_fetch *fetch, void *user_data);
    hth_fetch_bytes_fn on_bytes; /* of responses with status 200 and 206 */
    void *user_data;
} hth_hub_question;

typedef enum hth_hub_outcome {
    HTH_HUB_DONE,
    HTH_HUB_AGAIN,   /* after client->wait_ms; err has the reason */
    HTH_HUB_FAILED,  /* err has the reason */
    HTH_HUB_STOPPED, /* a callback of the request ended it */
} hth_hub_outcome;

hth_hub_outcome hth_hub_ask(hth_hub_client *client, const hth_hub_question *question, hearth_error *err);

/*
 * Read a page of at most n_max bytes, retrying as needed; accept NULL: any type. out must be empty. HEARTH_IO: the
 * server fails or refuses. HEARTH_CORRUPT: the page is larger. HEARTH_NO_MEMORY. Blocks.
 */
hearth_status hth_hub_read(const hth_hub_settings *settings, const char *repo, const char *path, const char *accept,
                           size_t n_max, hth_buffer *out, hearth_error *err);

/*
 * Write text with %XX for characters not allowed in a path. keeps lists the characters, besides letters and digits,
 * that are not escaped.
 */
bool hth_hub_escape(const char *text, const char *keeps, char *out, size_t capacity);

#endif
