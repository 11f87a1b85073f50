/*
 * responses_reply.h - the response object, which bodies and events share
 */
#ifndef HTH_DIALECTS_RESPONSES_REPLY_H
#define HTH_DIALECTS_RESPONSES_REPLY_H

#include "api/reply_inside.h"
#include "api/responses.h"

enum { HTH_RESPONSES_ID_BYTES = 80 };

/* ---- responses_reply.c: new JSON values, NULL without memory ---- */

/* The response with this status and output; takes output. */
json_t *hth_api_responses_object(const hth_api_reply *reply, const char *status, json_t *output_take);
/* The response at its end, with its whole output. */
json_t *hth_api_responses_ended(hth_api_reply *reply, const hth_api_choice *choice);
/* Did anything but the model end it? */
bool hth_api_responses_is_cut(const hth_api_choice *choice);
/* The status of an item at the response's end. */
const char *hth_api_responses_status(const hth_api_choice *choice, size_t i);
/* Item i in the client's form; is_empty: without content, as it begins. */
json_t *hth_api_responses_item(hth_api_reply *reply, const hth_api_choice *choice, size_t i, const char *status,
                               bool is_empty);
const char *hth_api_responses_item_id(const hth_api_reply *reply, const hth_api_choice *choice, size_t i,
                                      char id[HTH_RESPONSES_ID_BYTES]);
/* The one part of a message or of reasoning. */
json_t *hth_api_responses_part(hth_api_reply *reply, const hth_api_choice *choice, const hth_api_item *item,
                               bool is_empty);
json_t *hth_api_responses_text(const hth_api_choice *choice, const hth_api_item *item);
/* Is it a call of a tool whose input is a text? */
bool hth_api_responses_is_custom(const hth_api_reply *reply, const hth_api_choice *choice, const hth_api_item *item);
/* The text that such a tool receives. */
json_t *hth_api_responses_input(const hth_api_call *call);
/* The log probabilities of tokens [begin, end). */
json_t *hth_api_responses_logprobs(hth_api_reply *reply, const hth_api_choice *choice, size_t begin, size_t end);

/* ---- responses_events.c: as in hth_api_writer ---- */

void hth_api_responses_begin(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out);
void hth_api_responses_idle(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out);
void hth_api_responses_progress(hth_api_reply *reply, hth_api_choice *choice, json_t *progress_take, hth_buffer *out);
void hth_api_responses_delta(hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta,
                             hth_buffer *out);
void hth_api_responses_choice_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out);
void hth_api_responses_fail(hth_api_reply *reply, const hth_api_error *error, hth_buffer *out);

#endif
