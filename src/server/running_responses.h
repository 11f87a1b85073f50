/*
 * running_responses.h - responses that run in the background, without a client
 *
 * Who asked for one gets it at once as it is at its beginning, and asks for it again until it has ended. While it runs it
 * is here, as its worker told it; in the store is what would be true if the server ended now: that it has failed.
 */
#ifndef HTH_SERVER_RUNNING_RESPONSES_H
#define HTH_SERVER_RUNNING_RESPONSES_H

#include "api/response_record.h"
#include "server/proxy.h"
#include "server/response_store.h"

/* One, part of the request that it is of; all zeros: it does not run in the background. Event loop. */
typedef struct hth_running_response hth_running_response;
struct hth_running_response {
    hth_running_response *prev, *next;
    hth_running_response **list; /* that it is in; NULL: none */
    hth_response_store *store;
    hth_relay *relay;
    uint8_t key[HTH_SHA256_BYTES];
    hth_buffer record; /* in progress */
};

/* It runs from now on. record is copied; without memory it is not in the list. */
void hth_running_begin(hth_running_response *one, hth_running_response **list, hth_response_store *store,
                       const uint8_t key[HTH_SHA256_BYTES], const void *record, size_t n);
/* The store has what became of it. */
void hth_running_end(hth_running_response *one);
/* It ends without having come to its own end: why is for the client. Nothing, where it is not in a list. */
void hth_running_fail(hth_running_response *one, const char *why);
/* Its client does not want it any more; its request will be over. */
void hth_running_cancel(hth_running_response *one);

hth_running_response *hth_running_find(hth_running_response *list, const uint8_t key[HTH_SHA256_BYTES]);

#endif
