/*
 * backend_chat.h - the readers of replies among the functions of the llama.cpp backend
 */
#ifndef HTH_LLAMA_BACKEND_CHAT_H
#define HTH_LLAMA_BACKEND_CHAT_H

#include "engine/backend.h"

/* As the functions of hth_backend. They need no model: a reader is made of text. */
hearth_status hth_backend_llama_chat_reader_new(const char *parser, hth_engine_chat_reader **out, hearth_error *err);
void hth_backend_llama_chat_reader_free(hth_engine_chat_reader *reader);
hearth_status hth_backend_llama_chat_read(const hth_engine_chat_reader *reader, const char *text, size_t n_bytes,
                                          bool is_whole, hth_chat_reply *out, hearth_error *err);

#endif
