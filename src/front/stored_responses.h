/*
 * stored_responses.h - /v1/responses/ID and the pages below it: stored responses and their items
 */
#ifndef HTH_FRONT_STORED_RESPONSES_H
#define HTH_FRONT_STORED_RESPONSES_H

#include "api/error.h"
#include "front/running_responses.h"
#include "http/http.h"

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

/* Answer the exchange's method, the path after prefix, and the query. The caller sets the first fields of question. */
void hth_stored_ask(hth_stored_question *question, const hth_http_exchange *exchange, const char *prefix);
/* End the question: on_answer is not called any more. */
void hth_stored_cancel(hth_stored_question *question);

#endif
