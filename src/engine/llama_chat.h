/*
 * llama_chat.h - chat templates of llama-common v0.5.0: conversations to prompts, replies taken apart
 *
 * C functions around C++, as in llama_shim.h; nothing throws. Templates come with models and are trusted less than who
 * runs them: their size and nesting are limited, and so is what goes into them. What cannot be limited from outside is a
 * template that loops or recurses without end; it takes the process with it, which is why that one has a supervisor.
 */
#ifndef HTH_ENGINE_LLAMA_CHAT_H
#define HTH_ENGINE_LLAMA_CHAT_H

#include "hearth.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "base/status.h"
#include "engine/chat_reply.h"

struct llama_model;
typedef struct hth_llama_chat hth_llama_chat;

/* Parse given, or the model's own template when given is NULL. *out is NULL, with HEARTH_OK, when there is none. */
hearth_status hth_llama_chat_new(const struct llama_model *model, const char *given, hth_llama_chat **out,
                                 hearth_error *err);
void hth_llama_chat_free(hth_llama_chat *chat);
/* The template as it was given, or as the model has it; as long as chat. */
const char *hth_llama_chat_source(const hth_llama_chat *chat);

/* As hth_backend.chat_prompt. Any thread; *out is left as zeros on failure. */
hearth_status hth_llama_chat_prompt(hth_llama_chat *chat, const hearth_conversation *conversation,
                                    hearth_chat_prompt *out, hearth_error *err);

/* As the functions of hth_backend. Nesting of brackets beyond 256 in a reply is HEARTH_CORRUPT. */
typedef struct hth_llama_chat_reader hth_llama_chat_reader;

hearth_status hth_llama_chat_reader_new(const char *parser, hth_llama_chat_reader **out, hearth_error *err);
void hth_llama_chat_reader_free(hth_llama_chat_reader *reader);
hearth_status hth_llama_chat_read(const hth_llama_chat_reader *reader, const char *text, size_t n_bytes, bool is_whole,
                                  hth_chat_reply *out, hearth_error *err);

#ifdef __cplusplus
}
#endif

#endif
