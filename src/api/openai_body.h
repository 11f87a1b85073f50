/*
 * openai_body.h - what bodies of OpenAI's two APIs have in common
 */
#ifndef HTH_API_OPENAI_BODY_H
#define HTH_API_OPENAI_BODY_H

#include "api/reply_inside.h"

const char *hth_api_openai_finish_reason(const hth_api_reply *reply, const hth_api_choice *choice);

/* Takes envelope, to which choices and usage are added: hth_api_openai_body_end ends it. */
void hth_api_openai_body_begin_take(json_t *envelope, hth_buffer *out);
/* Takes what of the choice comes before its log probabilities: hth_api_openai_choice_end ends it. */
void hth_api_openai_choice_begin_take(json_t *choice, hth_buffer *out);
/* As in hth_api_writer. */
void hth_api_openai_choice_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out);
void hth_api_openai_body_end(hth_api_reply *reply, hth_buffer *out);

#endif
