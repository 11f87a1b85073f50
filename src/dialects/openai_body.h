/*
 * openai_body.h - parts of chunks and bodies that OpenAI's chats and completions share
 */
#ifndef HTH_DIALECTS_OPENAI_BODY_H
#define HTH_DIALECTS_OPENAI_BODY_H

#include "api/writer.h"

const char *hth_api_openai_finish_reason(const hth_api_reply *reply, const hth_api_choice *choice);

/* The members that every object begins with: id (with its prefix), object, created, model, system_fingerprint. */
json_t *hth_api_openai_envelope(const hth_api_reply *reply, const char *id_prefix, const char *object);
/* A chunk of a stream with one choice; takes envelope and choice. */
json_t *hth_api_openai_chunk(const hth_api_reply *reply, json_t *envelope_take, json_t *choice_take);
/* A chunk with text of a choice; takes it. It has `timings` if the client asked for them per token. */
void hth_api_openai_put_delta(const hth_api_reply *reply, const hth_api_choice *choice, json_t *chunk_take,
                              hth_buffer *out);
/*
 * The chunk that ends a choice; takes it. The last object of a reply with one choice has llama.cpp's `timings`, as a
 * body does. This chunk has `__verbose` if the client asked for it.
 */
void hth_api_openai_put_choice_end(hth_api_reply *reply, json_t *chunk_take, hth_buffer *out);
/* The end of a stream: usage, if the client asked for it, and "[DONE]"; takes envelope. */
void hth_api_openai_put_end(hth_api_reply *reply, json_t *envelope_take, hth_buffer *out);

/* Begin a body: takes envelope, the members before "choices". hth_api_openai_body_end ends it. */
void hth_api_openai_body_begin_take(json_t *envelope, hth_buffer *out);
/* Begin a choice: takes the members before "logprobs". hth_api_openai_choice_end ends it. */
void hth_api_openai_choice_begin_take(json_t *choice, hth_buffer *out);
/* As in hth_api_writer. */
void hth_api_openai_choice_end(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out);
void hth_api_openai_body_end(hth_api_reply *reply, hth_buffer *out);

#endif
