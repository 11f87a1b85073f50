/*
 * running_responses.h - responses that run in the background, without a client
 *
 * The client gets the beginning of the response at once, and polls it until it has ended. While the response runs, its
 * record is here. Meanwhile the store has a record that says that the response failed, which would be true if the
 * server ended now.
 */
#ifndef HTH_FRONT_RUNNING_RESPONSES_H
#define HTH_FRONT_RUNNING_RESPONSES_H

#include "dialects/response_record.h"
#include "front/proxy.h"
#include "front/response_store.h"

/* A member of its request. All zeros: the response does not run in the background. Event loop only. */
typedef struct hth_running_response hth_running_response;
struct hth_running_response {
    hth_running_response *prev, *next;
    hth_running_response **list; /* the list that it is in; NULL: none */
    hth_response_store *store;
    hth_relay *relay;
    uint8_t key[HTH_RESPONSE_KEY_BYTES];
    hth_buffer record; /* in progress */
};

/* Add a response that runs now. Copies record. Without memory the response is not in the list. */
void hth_running_begin(hth_running_response *one, hth_running_response **list, hth_response_store *store,
                       const uint8_t key[HTH_RESPONSE_KEY_BYTES], const void *record, size_t n);
/* The response has ended, and the store has its record. */
void hth_running_end(hth_running_response *one);
/* The response failed; why is for the client. Does nothing if it is in no list. */
void hth_running_fail(hth_running_response *one, const char *why);
/* The client cancels the response; its request will end. */
void hth_running_cancel(hth_running_response *one);

hth_running_response *hth_running_find(hth_running_response *list, const uint8_t key[HTH_RESPONSE_KEY_BYTES]);

#endif
