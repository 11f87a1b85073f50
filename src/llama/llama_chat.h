/*
 * llama_chat.h - chat templates of llama-common v0.5.0: from conversations to prompts, and from replies to their parts
 *
 * C functions around C++, as in llama_shim.h; none throws. Templates come with models, and are trusted less than the
 * user who runs them. So their size, their nesting and their inputs are limited, and they run within bounds of memory,
 * stack and time (llama_bounds.h).
 */
#ifndef HTH_LLAMA_LLAMA_CHAT_H
#define HTH_LLAMA_LLAMA_CHAT_H

#include "hearth.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "base/status.h"
#include "engine/backend.h"
#include "llama/llama_slices.h"

struct llama_model;
typedef struct hth_llama_chat hth_llama_chat;

/*
 * Parse the given template or, if that is NULL, the model's own. The caller owns *out; it is NULL, with HEARTH_OK, when
 * there is no template. special_in_messages: texts of conversations may contain control tokens. model may be NULL if
 * given is not; otherwise it outlives *out. HEARTH_MISUSE: the template is too large or too deeply nested.
 * HEARTH_ENGINE: it cannot be parsed.
 */
hearth_status hth_llama_chat_new(const struct llama_model *model, const char *given, bool special_in_messages,
                                 hth_llama_chat **out, hearth_error *err);
void hth_llama_chat_free(hth_llama_chat *chat);
/* The text of the template, valid as long as chat exists. */
const char *hth_llama_chat_source(const hth_llama_chat *chat);

/* What the template can render, as a JSON object of booleans with the engine's names, valid as long as chat exists. */
const char *hth_llama_chat_abilities(const hth_llama_chat *chat);

/* As hth_backend.chat_prompt. Any thread; *out is zeroed on failure. */
hearth_status hth_llama_chat_prompt(hth_llama_chat *chat, const hearth_conversation *conversation,
                                    hearth_chat_prompt *out, hearth_error *err);

/*
 * As hth_backend.tokenize with HEARTH_TOKENIZE_SPECIAL, for a text with HTH_PLAIN_MARK; *n_out as in llama_tokenize,
 * and n_slice and stop as in hth_llama_slices_tokenize.
 */
hearth_status hth_llama_chat_tokenize(const hth_llama_chat *chat, const hth_llama_slices *slices, const char *text,
                                      size_t n_bytes, int32_t n_slice, bool add_special, hearth_token *tokens,
                                      int32_t capacity, int32_t *n_out, const hth_tokenize_stop *stop,
                                      hearth_error *err);

/* As the functions of hth_backend. Nesting of brackets beyond 256 in a reply is HEARTH_CORRUPT. */
typedef struct hth_engine_chat_reader hth_engine_chat_reader;

hearth_status hth_llama_chat_reader_new(const char *parser, hth_engine_chat_reader **out, hearth_error *err);
void hth_llama_chat_reader_free(hth_engine_chat_reader *reader);
hearth_status hth_llama_chat_read(const hth_engine_chat_reader *reader, const char *text, size_t n_bytes, bool is_whole,
                                  hth_chat_reply *out, hearth_error *err);

#ifdef __cplusplus
}
#endif

#endif
