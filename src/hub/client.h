/*
 * client.h - questions to a hub or a registry: token, redirects, refusals, and when to ask again
 *
 * The token goes to the hub itself only, never to a host that a redirect names. Only https is spoken, but for this
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
    /* Where the last redirect led, so that the next ranges need none; "": not known. Such addresses expire. */
    char landed[HTH_FETCH_URL_BYTES];
    unsigned n_failures; /* since the last success; whoever sees progress sets it to 0 */
    uint32_t wait_ms;    /* before the next try */
} hth_hub_client;

/* settings and repo must outlive it. HEARTH_NO_MEMORY. End it with hth_hub_client_deinit, also after a failure. */
hearth_status hth_hub_client_init(hth_hub_client *out, const hth_hub_settings *settings, const char *repo,
                                  hearth_error *err);
void hth_hub_client_deinit(hth_hub_client *client);

typedef struct hth_hub_question {
    const char *path;    /* behind the endpoint, with a '/' at its begin */
    const char *subject; /* in messages */
    const char *accept;  /* as in hth_fetch_order */
    uint64_t begin, end; /* as in hth_fetch_order */
    bool keeps_landing;  /* begin at the landed address, and remember the next */
    /* Headers of an answer of the hub itself; NULL: they do not matter. False ends the question. */
    bool (*on_head)(hth_fetch *fetch, void *user_data);
    hth_fetch_bytes_fn on_bytes; /* of answers 200 and 206 */
    void *user_data;
} hth_hub_question;

typedef enum hth_hub_outcome {
    HTH_HUB_DONE,
    HTH_HUB_AGAIN,   /* after client->wait_ms; err has the reason */
    HTH_HUB_FAILED,  /* err has the reason */
    HTH_HUB_STOPPED, /* a function of the question ended it */
} hth_hub_outcome;

hth_hub_outcome hth_hub_ask(hth_hub_client *client, const hth_hub_question *question, hearth_error *err);

/*
 * Read a page of at most n_max bytes, with as many tries as it needs; accept NULL: of any type. out is empty before.
 * HEARTH_IO: the server fails or refuses. HEARTH_CORRUPT: the page is larger. HEARTH_NO_MEMORY. Blocks.
 */
hearth_status hth_hub_read(const hth_hub_settings *settings, const char *repo, const char *path, const char *accept,
                           size_t n_max, hth_buffer *out, hearth_error *err);

/* Write text with %XX for what cannot stand in a path; keeps: characters that stay besides letters and digits. */
bool hth_hub_escape(const char *text, const char *keeps, char *out, size_t capacity);

#endif
