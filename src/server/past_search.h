/*
 * past_search.h - the records of the responses that a request names, one after the other
 */
#ifndef HTH_SERVER_PAST_SEARCH_H
#define HTH_SERVER_PAST_SEARCH_H

#include "api/buffer.h"
#include "api/peek.h"
#include "server/response_store.h"

/* All zeros: nothing is looked for. Event loop. */
typedef struct hth_past_search {
    hth_response_store *store;
    uint8_t owner[HTH_RESPONSE_OWNER_BYTES];
    hth_api_peeked_past past;
    void (*on_done)(
        void *user_data); /* all that there are are in records; may come before hth_past_search_begin returns */
    void *user_data;

    hth_response_lookup lookup;
    size_t n_found; /* or not: how many were looked for */
    bool is_looking;
    hth_buffer records; /* one behind the other, at most HTH_PAST_BYTES_MAX; read it when it is done */
} hth_past_search;

/* The fields above are filled. */
void hth_past_search_begin(hth_past_search *search);
/* on_done is not called any more. */
void hth_past_search_deinit(hth_past_search *search);

#endif
