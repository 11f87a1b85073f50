/*
 * stored_responses.h - responses beyond their request: those that run without a client, the pages of stored ones, and
 * the earlier ones that a request continues
 */
#ifndef HTH_FRONT_STORED_RESPONSES_H
#define HTH_FRONT_STORED_RESPONSES_H

#include "api/buffer.h"
#include "api/error.h"
#include "api/peek.h"
#include "front/proxy.h"
#include "front/response_store.h"
#include "http/http.h"

/*
 * ---- in the background, without a client ----
 *
 * The client gets the beginning of the response at once, and polls it until it has ended. While the response runs, its
 * record is here. Meanwhile the store has a record that says that the response failed, which would be true if the
 * server ended now, unless another node would go on.
 */

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

/*
 * Add a response that runs now. Copies record. goes_on: if the server ends, at another node, so the store gets no
 * record yet. Without memory the response is not in the list.
 */
void hth_running_begin(hth_running_response *one, hth_running_response **list, hth_response_store *store,
                       const uint8_t key[HTH_RESPONSE_KEY_BYTES], const void *record, size_t n, bool goes_on);
/* Does the response with this key of the store run here? */
bool hth_running_is_here(hth_running_response *list, const uint8_t key[HTH_RESPONSE_KEY_BYTES]);
/* The response has ended, and the store has its record. */
void hth_running_end(hth_running_response *one);
/* The response failed; why is for the client. Does nothing if it is in no list. */
void hth_running_fail(hth_running_response *one, const char *why);

/* ---- /v1/responses/ID and the pages below it: stored responses and their items ---- */

enum { HTH_STORED_ID_BYTES = 128 };

typedef enum hth_stored_what { HTH_STORED_RESPONSE, HTH_STORED_ITEMS, HTH_STORED_CANCEL } hth_stored_what;

/* One request. Event loop only. */
typedef struct hth_stored_question {
    hth_response_store *store;
    hth_running_response **running; /* in the background, not ended */
    uint8_t owner[HTH_RESPONSE_OWNER_BYTES];
    /* Gets the answer: a body and its status, or an error. May be called within hth_stored_ask. */
    void (*on_answer)(int status, const hth_buffer *body, const hth_api_error *error, void *user_data);
    void *user_data;

    const void *begun; /* [n_begun]: the record of a response that runs at another node; NULL: it does not */
    size_t n_begun;

    const char *allow; /* of an error: the header Allow; NULL otherwise */

    hth_response_lookup lookup;
    hth_stored_what what;
    bool is_removal;
    bool was_running; /* until now */
    char id[HTH_STORED_ID_BYTES];
    char after[HTH_STORED_ID_BYTES]; /* of a list: the item before its first one; "": from the beginning */
    size_t limit;
    bool is_ascending;
} hth_stored_question;

/*
 * Answer the exchange's method, the path after prefix, and the query. The caller sets the first fields of question.
 * Until the answer, hth_response_lookup_cancel ends the question: on_answer is not called any more.
 */
void hth_stored_ask(hth_stored_question *question, const hth_http_exchange *exchange, const char *prefix);

/* ---- the records of the responses that a request names, looked up one after another ---- */

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
