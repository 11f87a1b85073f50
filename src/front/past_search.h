/*
 * past_search.h - looks up the records of the responses that a request names, one after another
 */
#ifndef HTH_FRONT_PAST_SEARCH_H
#define HTH_FRONT_PAST_SEARCH_H

#include "api/buffer.h"
#include "api/peek.h"
#include "front/response_store.h"

/* All zeros: no search. Event loop. */
typedef struct hth_past_search {
    hth_response_store *store;
    uint8_t owner[HTH_RESPONSE_OWNER_BYTES];
    hth_api_peeked_past past;
    void (*on_done)(void *user_data); /* records has all that exist; may be called within hth_past_search_begin */
    void *user_data;

    hth_response_lookup lookup;
    size_t n_found; /* lookups that have ended, successful or not */
    bool is_looking;
    hth_buffer records; /* concatenated, at most HTH_PAST_BYTES_MAX; complete at on_done */
} hth_past_search;

/* Begin a search whose fields above are filled. */
void hth_past_search_begin(hth_past_search *search);
/* End the search: on_done is not called any more. */
void hth_past_search_deinit(hth_past_search *search);

#endif
